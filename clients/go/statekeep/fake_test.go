package statekeep_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"statekeep.dev/go/statekeepv1"
)

// failing is a server that does what the real one cannot be made to do at will: it fails, or says nothing.
type failing struct {
	statekeepv1.UnimplementedMemoryServer
	get   func(context.Context) error
	set   func(*statekeepv1.MemorySetRequest) error
	purge func() error
}

func (f *failing) Get(ctx context.Context, _ *statekeepv1.MemoryGetRequest) (*statekeepv1.MemoryGetResponse, error) {
	return &statekeepv1.MemoryGetResponse{}, f.get(ctx)
}

func (f *failing) Set(_ context.Context, r *statekeepv1.MemorySetRequest) (*statekeepv1.MemorySetResponse, error) {
	return &statekeepv1.MemorySetResponse{Entry: &statekeepv1.MemoryEntry{Version: 1}}, f.set(r)
}

func (f *failing) Purge(context.Context, *statekeepv1.MemoryPurgeRequest) (*statekeepv1.MemoryPurgeResponse, error) {
	return &statekeepv1.MemoryPurgeResponse{}, f.purge()
}

// serve serves until the test's end, and answers the address.
func serve(t *testing.T, f *failing, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	statekeepv1.RegisterMemoryServer(server, f)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// refusal is an error as the server gives it.
func refusal(code codes.Code, reason string) error {
	told, err := status.New(code, "told").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "statekeep"})
	if err != nil {
		return err
	}
	return told.Err()
}
