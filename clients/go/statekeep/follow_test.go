package statekeep_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"statekeep.dev/go/internal/servertest"
	"statekeep.dev/go/statekeep"
)

// follow hands out the sequences of a thread's events, one after the other, until the test's end.
func follow(t *testing.T, stream *statekeep.Stream[*statekeep.Event]) <-chan int64 {
	t.Helper()
	sequences, done := make(chan int64), make(chan struct{})
	go func() {
		defer close(done)
		defer close(sequences)
		for event, err := range stream.All() {
			if err != nil {
				if t.Context().Err() == nil { // else the test is over, and with it the stream
					t.Errorf("the follower ended: %v", err)
				}
				return
			}
			select {
			case sequences <- event.Sequence:
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		stream.Close()
		<-done
	})
	return sequences
}

// expect reads the sequences from one number to another, each once and in order.
func expect(t *testing.T, sequences <-chan int64, from, to int64) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for right := from; right <= to; right++ {
		select {
		case got := <-sequences:
			if got != right {
				t.Fatalf("the follower got %d, and should get %d", got, right)
			}
		case <-deadline:
			t.Fatalf("the follower waits for %d", right)
		}
	}
}

func TestAFollowerGoesOnThroughLostConnectionsWithoutAGapOrARepeat(t *testing.T) {
	server := servertest.Start(t)
	proxy := servertest.StartProxy(t, server.Address)
	writer := server.Connect()
	stream := servertest.Connect(t, proxy.Address).State.StreamHistory(
		t.Context(), "t", &statekeep.StreamOptions{Follow: true})
	sequences := follow(t, stream)
	const rounds, each = 5, 40
	for round := range rounds {
		for n := range each {
			event := statekeep.NewEvent{Type: "note", Data: statekeep.JSON(fmt.Sprint(n))}
			if _, err := writer.State.AppendNextEvent(t.Context(), "t", event, nil); err != nil {
				t.Fatal(err)
			}
			if n == each/2 {
				proxy.Cut()
			}
		}
		expect(t, sequences, int64(round*each+1), int64(round*each+each))
	}
}

func TestAWatcherGoesOnThroughALostConnection(t *testing.T) {
	server := servertest.Start(t)
	proxy := servertest.StartProxy(t, server.Address)
	writer := server.Connect()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	stream := servertest.Connect(t, proxy.Address).Memory.Watch(ctx, app, nil)
	if err := stream.Begin(); err != nil {
		t.Fatal(err)
	}
	right := int64(0)
	write := func() {
		if _, err := writer.Memory.Set(t.Context(), app, "k", statekeep.JSON("1"), nil); err != nil {
			t.Fatal(err)
		}
	}
	write()
	for entry, err := range stream.All() {
		if err != nil {
			t.Fatal(err)
		}
		if right++; entry.Version != right {
			t.Fatalf("version %d, and should be %d", entry.Version, right)
		}
		if right == 5 {
			break
		}
		proxy.Cut()
		write()
	}
}

func TestAFollowerGoesOnAfterTheServerWasKilled(t *testing.T) {
	if !servertest.HasSQLite(t) {
		t.Fatal("this server has no SQLite engine, so that it comes back without its data")
	}
	store := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	server := servertest.Start(t, "--store", store)
	stream := server.Connect().State.StreamHistory(t.Context(), "t", &statekeep.StreamOptions{Follow: true})
	sequences := follow(t, stream)
	appendNotes(t, server.Connect(), "t", 1, 100)
	expect(t, sequences, 1, 50) // and the rest is under way
	server.Kill()
	again := servertest.StartAt(t, server.Address, "--store", store)
	appendNotes(t, again.Connect(), "t", 101, 200)
	expect(t, sequences, 51, 200)
}

func TestAFollowerGivesUpWhenItsPatienceIsOver(t *testing.T) {
	server := servertest.Start(t)
	options := &statekeep.StreamOptions{Follow: true, RetryFor: 200 * time.Millisecond}
	stream := server.Connect().State.StreamHistory(t.Context(), "t", options)
	if err := stream.Begin(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	began := time.Now()
	_, err := statekeep.Collect(stream.All())
	if status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if took := time.Since(began); took < 200*time.Millisecond || took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestAFollowerIsEndedByCloseWithoutAnError(t *testing.T) {
	client := servertest.Start(t).Connect()
	stream := client.State.StreamHistory(t.Context(), "t", &statekeep.StreamOptions{Follow: true})
	if err := stream.Begin(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := statekeep.Collect(stream.All())
		ended <- err
	}()
	stream.Close()
	stream.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAFollowerEndsWithItsContext(t *testing.T) {
	server := servertest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream := server.Connect().State.StreamHistory(ctx, "t", &statekeep.StreamOptions{Follow: true})
	if err := stream.Begin(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := statekeep.Collect(stream.All()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	stream = server.Connect().State.StreamHistory(ctx, "t", &statekeep.StreamOptions{Follow: true})
	if err := stream.Begin(); err != nil {
		t.Fatal(err)
	}
	server.Kill() // so that the context ends while the follower tries again and again
	if _, err := statekeep.Collect(stream.All()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestAFollowerOfADeletedThreadIsToldSo(t *testing.T) {
	client := servertest.Start(t).Connect()
	appendNotes(t, client, "t", 1, 1)
	stream := client.State.StreamHistory(t.Context(), "t", &statekeep.StreamOptions{Follow: true})
	for event, err := range stream.All() {
		if event == nil {
			if !errors.Is(err, statekeep.RevisionGone) {
				t.Error(err)
			}
			return
		}
		if _, err := client.State.DeleteThread(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("it ended without an error")
}
