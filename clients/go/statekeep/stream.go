package statekeep

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2500 * time.Millisecond
	// How often a read that does not follow, or never had a message, tries without getting any further.
	tries = 5
)

// Stream is a read of many records, one after the other, which may go on to follow what is written. A lost connection
// is made again, and the read goes on where it was.
//
// It calls the server when it is ranged over, or by [Stream.Begin], and ends its call when the loop is left, with its
// context, or by [Stream.Close]. It is for one goroutine at a time, but for Close.
type Stream[Record any] struct {
	ctx      context.Context
	open     opener[Record]
	patience patience
	at       position
	caughtUp bool
	pending  []step[Record]
	receive  func() (batch[Record], error)
	over     bool

	lock   sync.Mutex // for what Close touches
	cancel context.CancelFunc
	closed chan struct{}
}

// opener begins the call that goes on from a position. What it returns receives a message at a time, and [io.EOF] at
// the end; it is nil where there is nothing more to ask for.
type opener[Record any] func(ctx context.Context, at position) (func() (batch[Record], error), error)

// position is how far a read has come: all up to here was handed out.
type position struct {
	began    bool
	revision int64
	version  int64 // of the entry handed out last
	counted  int64 // records handed out that count towards a limit
}

// batch is a message: its records, and where the read stands after the last of them.
type batch[Record any] struct {
	steps    []step[Record]
	revision int64
	caughtUp bool
}

// closed is the batch whose last record takes the read to the message's end.
func (b batch[Record]) closed() batch[Record] {
	if n := len(b.steps); n > 0 {
		b.steps[n-1].revision = b.revision
	}
	return b
}

// step is a record, and where the read stands once it is handed out.
type step[Record any] struct {
	record   Record
	revision int64
	version  int64
	counts   bool
}

func newStream[Record any](ctx context.Context, after int64, p patience, open opener[Record]) *Stream[Record] {
	return &Stream[Record]{
		ctx: ctx, open: open, patience: p, at: position{revision: after}, closed: make(chan struct{}),
	}
}

// Revision is the cursor: everything up to it was handed out, and a later read goes on after it.
func (s *Stream[Record]) Revision() int64 { return s.at.revision }

// CaughtUp tells whether all that was there when the read began was handed out.
func (s *Stream[Record]) CaughtUp() bool { return s.caughtUp }

// Begin returns once the server has answered: whatever is written from then on, a stream that follows hands out.
// Without it that is so from when the stream is first ranged over. Who begins must range or [Stream.Close].
func (s *Stream[Record]) Begin() error {
	if s.receive != nil || len(s.pending) > 0 {
		return nil
	}
	if err := s.fill(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// All ranges over the records. It ends with the first error, which comes with no record. Leaving the loop ends the
// call; ranging again goes on after the record handed out last.
func (s *Stream[Record]) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		defer s.drop()
		for {
			record, err := s.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the stream, also while another goroutine ranges over it: its loop ends, without an error. Closing again
// does nothing.
func (s *Stream[Record]) Close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.isClosed() {
		close(s.closed)
	}
	if s.cancel != nil {
		s.cancel()
	}
}

func (s *Stream[Record]) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

func (s *Stream[Record]) next() (record Record, err error) {
	for len(s.pending) == 0 {
		if err := s.fill(); err != nil {
			return record, err
		}
	}
	if s.isClosed() {
		return record, io.EOF
	}
	handed := s.pending[0]
	s.pending = s.pending[1:]
	s.at.revision, s.at.version = handed.revision, handed.version
	if handed.counts {
		s.at.counted++
	}
	return handed.record, nil
}

// fill waits for the next message, through lost connections. It answers [io.EOF] after the last.
func (s *Stream[Record]) fill() error {
	for !s.over && !s.isClosed() {
		message, err := s.message()
		if err == nil {
			s.take(message)
			return nil
		}
		if errors.Is(err, io.EOF) {
			s.over = true
			break
		}
		s.drop()
		if s.isClosed() {
			break
		}
		if err := s.wait(errorOf(err)); err != nil {
			return err
		}
	}
	s.drop()
	return io.EOF
}

func (s *Stream[Record]) take(message batch[Record]) {
	s.at.began = true
	s.patience.progress()
	s.pending = message.steps
	if len(message.steps) == 0 {
		s.at.revision = message.revision
	}
	s.caughtUp = s.caughtUp || message.caughtUp
}

func (s *Stream[Record]) message() (batch[Record], error) {
	if s.receive == nil {
		receive, err := s.open(s.callContext(), s.at)
		if err != nil {
			return batch[Record]{}, err
		}
		if receive == nil {
			return batch[Record]{}, io.EOF
		}
		s.receive = receive
	}
	return s.receive()
}

// callContext is the context of a new call, which Close ends.
func (s *Stream[Record]) callContext() context.Context {
	s.lock.Lock()
	defer s.lock.Unlock()
	ctx, cancel := context.WithCancel(s.ctx)
	s.cancel = cancel
	if s.isClosed() {
		cancel()
	}
	return ctx
}

// drop gives up the call, and what it brought that was not handed out.
func (s *Stream[Record]) drop() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	s.cancel, s.receive, s.pending = nil, nil, nil
}

// wait pauses before the next try, and answers the error where there is to be none.
func (s *Stream[Record]) wait(err error) error {
	pause, again := s.patience.pause(err)
	if !again {
		return err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closed:
	case <-s.ctx.Done():
		return errorOf(s.ctx.Err())
	}
	return nil
}

// patience is how long to go on trying while nothing comes: a few times, or once a follower had its first message, for
// a time from the first failure since a message came.
type patience struct {
	follows  bool
	retryFor time.Duration // 0: as long as the context lasts; negative: not at all

	began  bool
	tries  int
	lostAt time.Time
}

func (p *patience) progress() { p.began, p.tries = true, 0 }

// pause is how long to wait before the next try, if there is to be one.
func (p *patience) pause(err error) (time.Duration, bool) {
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != codes.Unavailable || p.retryFor < 0 {
		return 0, false
	}
	if p.tries == 0 {
		p.lostAt = time.Now()
	}
	p.tries++
	if p.isOver() {
		return 0, false
	}
	pause := failure.RetryDelay
	if pause <= 0 {
		// The shift is bounded, or it would overflow some day of a long outage.
		pause = min(firstPause<<min(p.tries-1, 10), longestPause)
	}
	// Up to twice as long, or everyone who lost the same server would come back at once.
	return pause + rand.N(pause), true
}

func (p *patience) isOver() bool {
	if !p.follows || !p.began {
		return p.tries >= tries
	}
	return p.retryFor > 0 && time.Since(p.lostAt) >= p.retryFor
}
