package statekeep

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"statekeep.dev/go/statekeepv1"
)

const (
	defaultAddress = "127.0.0.1:50051"
	defaultTimeout = 30 * time.Second
	// A call is only repeated where its request was kept, and one record may have close to 4 MiB.
	keptForRetry = 8 << 20
)

// Client is a connection to a server. It connects with its first call, and is safe to share between goroutines.
type Client struct {
	Memory  *Memory  // Versioned values under keys.
	Scratch *Scratch // Values that live as long as an instance.
	State   *State   // Threads of events, checkpoints and branches.

	conn *grpc.ClientConn
}

// Option changes how a client connects and calls.
type Option func(*settings)

type settings struct {
	token       string
	timeout     time.Duration
	keepalive   time.Duration
	credentials credentials.TransportCredentials
	dial        []grpc.DialOption
}

// WithToken sends the token with every call, as "authorization: Bearer …". Without this option it is that of
// STATEKEEP_TOKEN, or none; an empty one sends none.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithTLS encrypts the connection. Nil takes the system's root certificates; without this option there is no TLS.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.credentials = credentials.NewTLS(config) }
}

// WithTimeout is how long a unary call may take, retries included, where its context has no deadline. Without this
// option it is 30 s; 0 or less is for ever.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithKeepalive pings the server whenever nothing came for so long, also while no call is under way. gRPC's shortest
// interval is 10 s. Without this option it is 30 s, and only while a call is under way.
func WithKeepalive(interval time.Duration) Option {
	return func(s *settings) { s.keepalive = interval }
}

// WithDialOptions passes options to gRPC. They go before this package's own.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// NewClient makes a client of the server at an address, "HOST:PORT" or "unix:PATH". An empty one takes
// STATEKEEP_ADDRESS, or 127.0.0.1:50051. It fails on a malformed address, and on a token that no header can carry.
func NewClient(address string, options ...Option) (*Client, error) {
	s := settings{token: os.Getenv("STATEKEEP_TOKEN"), timeout: defaultTimeout, credentials: insecure.NewCredentials()}
	for _, option := range options {
		option(&s)
	}
	target, err := targetOf(address)
	if err != nil {
		return nil, err
	}
	dial, err := s.dialOptions()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, fmt.Errorf("statekeep: cannot use the address %q: %w", target, err)
	}
	calls := &calls{timeout: s.timeout}
	return &Client{
		Memory:  &Memory{calls, statekeepv1.NewMemoryClient(conn)},
		Scratch: &Scratch{calls, statekeepv1.NewScratchClient(conn)},
		State:   &State{calls, statekeepv1.NewStateStoreClient(conn)},
		conn:    conn,
	}, nil
}

// Conn is the connection, for calls of one's own through package statekeepv1. They too are retried on UNAVAILABLE, and
// so a write needs a request id, and an event or a checkpoint an id, or a lost answer has it written twice.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Close ends every call and stream under way, with the code Canceled. Closing again does nothing.
func (c *Client) Close() error {
	if err := c.conn.Close(); status.Code(err) != codes.Canceled {
		return err
	}
	return nil // it was closed before
}

func targetOf(address string) (string, error) {
	if address == "" {
		address = os.Getenv("STATEKEEP_ADDRESS")
	}
	if address == "" {
		return defaultAddress, nil
	}
	if path, found := strings.CutPrefix(address, "unix:"); found && path != "" {
		return address, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || host == "" {
		return "", fmt.Errorf("statekeep: the address is %q, and must be HOST:PORT or unix:PATH", address)
	}
	return address, nil
}

func (s *settings) dialOptions() ([]grpc.DialOption, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(s.credentials),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(keptForRetry)),
		grpc.WithKeepaliveParams(s.keepaliveParameters()),
		// gRPC's own default waits up to two minutes before it looks again for a server that came back.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second,
			},
			MinConnectTimeout: 20 * time.Second,
		}),
	}
	// A file that a token is read from ends with a newline.
	token := strings.TrimSpace(s.token)
	if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r > '~' }) {
		// Without the token itself, which is a secret.
		return nil, fmt.Errorf("statekeep: the token holds a character that is not printable ASCII")
	}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	return append(options, s.dial...), nil
}

func (s *settings) keepaliveParameters() keepalive.ClientParameters {
	parameters := keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}
	if s.keepalive > 0 {
		parameters.Time, parameters.PermitWithoutStream = s.keepalive, true
	}
	return parameters
}

// bearer is a token that goes with every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// A server on loopback or a Unix socket has no TLS, and may want a token all the same.
func (b bearer) RequireTransportSecurity() bool { return false }

// calls is what every call of a client shares.
type calls struct {
	timeout time.Duration
}

// bounded is the context of a unary call: with a deadline, where it may not take for ever.
func (c *calls) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || c.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}

// unary makes a call, and answers a typed error.
func unary[Request proto.Message, Answer any](
	ctx context.Context, c *calls, rpc func(context.Context, Request, ...grpc.CallOption) (Answer, error), request Request,
) (Answer, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	answer, err := rpc(ctx, request)
	return answer, errorOf(refused(err, request))
}

// Their answers say what they removed: repeated after a lost answer they would say "nothing". Every other unary method
// either reads, or carries an id by which the server knows it again.
var notRepeated = map[string]bool{
	statekeepv1.Memory_Purge_FullMethodName:            true,
	statekeepv1.Scratch_Open_FullMethodName:            true,
	statekeepv1.Scratch_Clear_FullMethodName:           true,
	statekeepv1.Scratch_Close_FullMethodName:           true,
	statekeepv1.StateStore_DeleteThread_FullMethodName: true,
}

var serviceConfig = retryConfig(
	statekeepv1.Memory_ServiceDesc, statekeepv1.Scratch_ServiceDesc, statekeepv1.StateStore_ServiceDesc)

// retryConfig has the unary methods repeated that may be. Streams are not among them: they resume by cursor.
func retryConfig(services ...grpc.ServiceDesc) string {
	type name struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	var repeated []name
	for _, service := range services {
		for _, method := range service.Methods {
			if !notRepeated["/"+service.ServiceName+"/"+method.MethodName] {
				repeated = append(repeated, name{service.ServiceName, method.MethodName})
			}
		}
	}
	config, err := json.Marshal(map[string]any{"methodConfig": []any{map[string]any{
		"name": repeated,
		"retryPolicy": map[string]any{
			"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
			"retryableStatusCodes": []string{"UNAVAILABLE"},
		},
	}}})
	if err != nil {
		panic(err) // strings and numbers alone, known when this is compiled
	}
	return string(config)
}
