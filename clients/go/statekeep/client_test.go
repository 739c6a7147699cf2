package statekeep_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"statekeep.dev/go/internal/servertest"
	"statekeep.dev/go/statekeep"
	"statekeep.dev/go/statekeepv1"
)

var app = statekeep.Namespace("app")

func TestAMalformedAddressIsRefused(t *testing.T) {
	for _, address := range []string{"localhost", "localhost:", ":", ":5", "unix:", "a:b:c", "host:65536", "host:http"} {
		if _, err := statekeep.NewClient(address); err == nil || !strings.Contains(err.Error(), "HOST:PORT or unix:PATH") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestClosingAgainDoesNothing(t *testing.T) {
	client, err := statekeep.NewClient("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestATokenThatNoHeaderCarriesIsRefusedAndNotShown(t *testing.T) {
	for _, token := range []string{"sécret", "sec\nret", "sec\x00ret"} {
		_, err := statekeep.NewClient("", statekeep.WithToken(token))
		if err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestAddressAndTokenComeFromTheEnvironment(t *testing.T) {
	tokens := make(chan []string, 2)
	address := serve(t, &failing{get: func(ctx context.Context) error {
		tokens <- metadata.ValueFromIncomingContext(ctx, "authorization")
		return nil
	}})
	t.Setenv("STATEKEEP_ADDRESS", address)
	t.Setenv("STATEKEEP_TOKEN", " of-the-environment\n")
	for _, c := range []struct {
		client *statekeep.Client
		right  string
	}{
		{servertest.Connect(t, ""), "Bearer of-the-environment"},
		{servertest.Connect(t, "", statekeep.WithToken("own")), "Bearer own"},
	} {
		if _, err := c.client.Memory.Get(t.Context(), app, "k", nil); err != nil {
			t.Fatal(err)
		}
		if got := <-tokens; len(got) != 1 || got[0] != c.right {
			t.Errorf("the server got %q, and should get %q", got, c.right)
		}
	}
}

func TestAUnixSocketIsAnAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	server := servertest.StartAt(t, "unix:"+path)
	client := servertest.Connect(t, "unix:"+path)
	if _, err := client.Memory.Set(t.Context(), app, "k", statekeep.JSON("1"), nil); err != nil {
		t.Fatalf("%v, of a server at %s", err, server.Address)
	}
}

func TestTLSIsSpokenWhereItIsAskedFor(t *testing.T) {
	certificate, roots := certificateOf(t, "127.0.0.1")
	credentials := grpc.Creds(credentials.NewServerTLSFromCert(&certificate))
	address := serve(t, &failing{get: func(context.Context) error { return nil }}, credentials)
	client := servertest.Connect(t, address, statekeep.WithTLS(&tls.Config{RootCAs: roots}))
	if _, err := client.Memory.Get(t.Context(), app, "k", nil); err != nil {
		t.Error(err)
	}
	stranger := servertest.Connect(t, address, statekeep.WithTLS(nil))
	if _, err := stranger.Memory.Get(t.Context(), app, "k", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
}

func certificateOf(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(host)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestACallEndsAtItsDeadline(t *testing.T) {
	address := serve(t, &failing{get: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	client := servertest.Connect(t, address, statekeep.WithTimeout(50*time.Millisecond))
	if _, err := client.Memory.Get(t.Context(), app, "k", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the client's timeout: %v", err)
	}
	patient := servertest.Connect(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := patient.Memory.Get(ctx, app, "k", nil)
	if !errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the context's deadline: %v", err)
	}
}

func TestACallHasADeadlineOf30SecondsByDefault(t *testing.T) {
	deadlines := make(chan time.Time, 1)
	address := serve(t, &failing{get: func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		deadlines <- deadline
		return nil
	}})
	client := servertest.Connect(t, address)
	if _, err := client.Memory.Get(t.Context(), app, "k", nil); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(<-deadlines); left > 30*time.Second || left < 20*time.Second {
		t.Errorf("the deadline is %s away", left)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	called := make(chan struct{})
	address := serve(t, &failing{get: func(ctx context.Context) error {
		close(called)
		<-ctx.Done()
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-called
		cancel()
	}()
	_, err := servertest.Connect(t, address).Memory.Get(ctx, app, "k", nil)
	if !errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func TestALostSetIsTriedAgainUnderTheSameRequestID(t *testing.T) {
	var ids []string
	address := serve(t, &failing{set: func(r *statekeepv1.MemorySetRequest) error {
		ids = append(ids, r.RequestId)
		if len(ids) < 3 {
			return refusal(codes.Unavailable, "STORE_UNAVAILABLE")
		}
		return nil
	}})
	large := statekeep.Text(strings.Repeat("x", 3_000_000)) // more than gRPC keeps for a retry by itself
	entry, err := servertest.Connect(t, address).Memory.Set(t.Context(), app, "k", large, nil)
	if err != nil || entry.Version != 1 {
		t.Fatal(entry, err)
	}
	if len(ids) != 3 || ids[0] == "" || ids[1] != ids[0] || ids[2] != ids[0] {
		t.Errorf("the server got the request ids %q", ids)
	}
}

func TestAPurgeIsNotTriedAgain(t *testing.T) {
	calls := 0
	address := serve(t, &failing{purge: func() error {
		calls++
		return refusal(codes.Unavailable, "STORE_UNAVAILABLE")
	}})
	_, err := servertest.Connect(t, address).Memory.Purge(t.Context(), app, "k", 0)
	if !errors.Is(err, statekeep.StoreUnavailable) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
