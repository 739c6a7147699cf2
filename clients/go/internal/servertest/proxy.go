package servertest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server, and can cut their connections.
type Proxy struct {
	Address string

	target   string
	listener net.Listener
	lock     sync.Mutex
	conns    []net.Conn
	done     sync.WaitGroup
}

// StartProxy stands before the server at an address, until the test's end.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), target: target, listener: listener}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Cut()
		p.done.Wait()
	})
	return p
}

// Cut ends every connection there is. New ones are let through.
func (p *Proxy) Cut() {
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}

func (p *Proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			p.Cut()
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.lock.Lock()
		p.conns = append(p.conns, near, far)
		p.lock.Unlock()
		p.done.Go(func() { forward(near, far) })
		p.done.Go(func() { forward(far, near) })
	}
}

func forward(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}
