package statekeep

import (
	"context"
	"io"
	"time"

	"statekeep.dev/go/statekeepv1"
)

// Scratch keeps values under keys for as long as one instance of a program lives. Nothing of it reaches a disk. Keys
// are trimmed. What tells which keys it removed (Open, Clear, Close) is not tried again after a lost connection: the
// answer would be wrong.
type Scratch struct {
	calls *calls
	rpc   statekeepv1.ScratchClient
}

// OpenOptions is what may go with a [Scratch.Open].
type OpenOptions struct {
	IdleTTL *time.Duration // Ends the instance when it was not used for so long. Nil: the server's default.
}

// Instance is an instance that was opened.
type Instance struct {
	ID         string
	Cleared    []string  // Keys that were there and are gone, sorted.
	ExpireTime time.Time // When it ends where it is not used; zero: never.
}

// Open begins an instance, or empties it where it was used before. With an empty id the server makes one up.
func (s *Scratch) Open(ctx context.Context, instanceID string, options *OpenOptions) (*Instance, error) {
	answer, err := unary(ctx, s.calls, s.rpc.Open, &statekeepv1.ScratchOpenRequest{
		InstanceId: instanceID, IdleTtl: durationMessage(orZero(options).IdleTTL),
	})
	if err != nil {
		return nil, err
	}
	return &Instance{answer.InstanceId, answer.Cleared, timeOf(answer.ExpireTime)}, nil
}

// Put keeps a value under a key, beginning the instance where it has not been. It answers the key as kept: trimmed.
//
// Reasons: [ValueTooLarge], [InvalidField].
func (s *Scratch) Put(ctx context.Context, instanceID, key string, value Value) (string, error) {
	answer, err := unary(ctx, s.calls, s.rpc.Put, &statekeepv1.ScratchPutRequest{
		InstanceId: instanceID, Key: key, Value: value.message(),
	})
	return answer.GetKey(), err
}

// ScratchItem is a value under a key.
type ScratchItem struct {
	Key   string // As kept: trimmed.
	Value Value
}

// Get reads the value under a key. It answers nil where there is none.
func (s *Scratch) Get(ctx context.Context, instanceID, key string) (*ScratchItem, error) {
	answer, err := unary(ctx, s.calls, s.rpc.Get, &statekeepv1.ScratchGetRequest{InstanceId: instanceID, Key: key})
	if err != nil || answer.Value == nil {
		return nil, err
	}
	return &ScratchItem{answer.Key, valueOf(answer.Value)}, nil
}

// List answers the keys, sorted; none for an instance that is not there.
func (s *Scratch) List(ctx context.Context, instanceID string) ([]string, error) {
	answer, err := unary(ctx, s.calls, s.rpc.List, &statekeepv1.ScratchListRequest{InstanceId: instanceID})
	return answer.GetKeys(), err
}

// Clear removes a key, and answers it; none where it was not there. A blank key is every key: see [Scratch.ClearAll].
func (s *Scratch) Clear(ctx context.Context, instanceID, key string) ([]string, error) {
	return s.clear(ctx, &statekeepv1.ScratchClearRequest{InstanceId: instanceID, Key: &key})
}

// ClearAll removes every key, and answers them, sorted.
func (s *Scratch) ClearAll(ctx context.Context, instanceID string) ([]string, error) {
	return s.clear(ctx, &statekeepv1.ScratchClearRequest{InstanceId: instanceID})
}

func (s *Scratch) clear(ctx context.Context, request *statekeepv1.ScratchClearRequest) ([]string, error) {
	answer, err := unary(ctx, s.calls, s.rpc.Clear, request)
	return answer.GetCleared(), err
}

// Close ends an instance, and answers the keys that were there, sorted.
func (s *Scratch) Close(ctx context.Context, instanceID string) ([]string, error) {
	answer, err := unary(ctx, s.calls, s.rpc.Close, &statekeepv1.ScratchCloseRequest{InstanceId: instanceID})
	return answer.GetCleared(), err
}

// Attachment is an instance that lives exactly as long as it.
type Attachment struct {
	InstanceID string

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Attach opens an instance, emptying it, which ends with [Attachment.Close], with the context, with the program, and
// where the connection is lost: what is put into it after that is in a new instance, which nobody is attached to.
//
// Reasons: [InstanceAttached] where someone else has the instance.
func (s *Scratch) Attach(ctx context.Context, instanceID string) (*Attachment, error) {
	ctx, cancel := context.WithCancel(ctx)
	request := &statekeepv1.ScratchAttachRequest{InstanceId: instanceID}
	call, err := s.rpc.Attach(ctx, request)
	if err != nil {
		cancel()
		return nil, errorOf(refused(err, request))
	}
	first, err := call.Recv()
	if err != nil {
		cancel()
		return nil, errorOf(err)
	}
	a := &Attachment{InstanceID: first.GetInstanceId(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for err == nil {
			_, err = call.Recv()
		}
		if err != io.EOF {
			a.err = errorOf(err)
		}
	}()
	return a, nil
}

// Done is closed when the instance has ended, or its connection is lost.
func (a *Attachment) Done() <-chan struct{} { return a.done }

// Err is what ended it, once it is [Attachment.Done].
func (a *Attachment) Err() error {
	select {
	case <-a.done:
		return a.err
	default:
		return nil
	}
}

// Close ends the instance. Closing again does nothing.
func (a *Attachment) Close() {
	a.cancel()
	<-a.done
}
