package statekeep_test

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"

	"statekeep.dev/go/internal/servertest"
	"statekeep.dev/go/statekeep"
)

// gRPC for Go pings no more often than this, whatever it is told.
const shortestInterval = 10 * time.Second

// pinging is a connection that tells of each HTTP/2 ping it sends.
type pinging struct {
	net.Conn
	pings chan<- struct{}
	left  []byte
	began bool
}

func (p *pinging) Write(data []byte) (int, error) {
	n, err := p.Conn.Write(data)
	p.left = append(p.left, data[:n]...)
	if !p.began && len(p.left) >= len(preface) {
		p.left, p.began = p.left[len(preface):], true
	}
	for p.began && len(p.left) >= 9 {
		size := 9 + int(binary.BigEndian.Uint32(append([]byte{0}, p.left[:3]...)))
		if len(p.left) < size {
			break
		}
		const ping, acknowledged = 6, 1
		if p.left[3] == ping && p.left[4]&acknowledged == 0 {
			p.pings <- struct{}{}
		}
		p.left = p.left[size:]
	}
	return n, err
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func TestAnIdleStreamThatPingsIsNotCutOff(t *testing.T) {
	t.Parallel() // It waits for most of its time.
	count := 1
	if os.Getenv("STATEKEEP_SOAK") == "1" {
		count = 6
	}
	server := servertest.Start(t)
	dials, pings := make(chan struct{}, 10), make(chan struct{}, 100)
	dialer := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		dials <- struct{}{}
		return &pinging{Conn: conn, pings: pings}, err
	})
	// With a window of a fixed size gRPC has no pings but those that keep the connection alive.
	window := grpc.WithInitialWindowSize(1 << 20)
	client := server.Connect(statekeep.WithKeepalive(shortestInterval), statekeep.WithDialOptions(dialer, window))
	options := &statekeep.StreamOptions{Follow: true, RetryFor: -1} // so that a lost connection is an error
	stream := client.State.StreamHistory(t.Context(), "t", options)
	if err := stream.Begin(); err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for range count {
		select {
		case <-pings:
		case <-time.After(3 * shortestInterval):
			t.Fatal("it does not ping")
		}
	}
	appendNotes(t, server.Connect(), "t", 1, 1)
	for event, err := range stream.All() {
		if err != nil || event.ID != "n1" {
			t.Fatal(event, err)
		}
		break
	}
	if len(dials) != 1 {
		t.Errorf("it connected %d times", len(dials))
	}
}
