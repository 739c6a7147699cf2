package statekeep

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"statekeep.dev/go/statekeepv1"
)

// State keeps the history of threads: events in order, snapshots of state, and branches. Ids are never trimmed. An
// empty branch is the branch main.
type State struct {
	calls *calls
	rpc   statekeepv1.StateStoreClient
}

// AppendEventOptions is what may go with a [State.AppendEvent].
type AppendEventOptions struct {
	Branch string
}

// AppendEvent stores an event under the sequence number given, and answers it as stored.
//
// Reasons: [EventExists].
func (s *State) AppendEvent(
	ctx context.Context, threadID string, sequence int64, event NewEvent, options *AppendEventOptions,
) (*Event, error) {
	message := event.message()
	message.ThreadId, message.BranchId, message.Sequence = threadID, orZero(options).Branch, sequence
	answer, err := unary(ctx, s.calls, s.rpc.AppendEvent, &statekeepv1.AppendEventRequest{Event: message})
	return eventOf(answer.GetEvent()), err
}

// AppendOptions is what may go with appending events with the next sequence numbers.
type AppendOptions struct {
	Branch               string
	ExpectedLastSequence *int64 // The highest on the branch, 0 for none. Nil: no check.
}

// AppendNextEvent stores an event with the next sequence number of its branch, and answers it as stored.
//
// Reasons: [EventExists], [SequenceMismatch].
func (s *State) AppendNextEvent(
	ctx context.Context, threadID string, event NewEvent, options *AppendOptions,
) (*Event, error) {
	o := orZero(options)
	message := event.message()
	message.ThreadId, message.BranchId = threadID, o.Branch
	answer, err := unary(ctx, s.calls, s.rpc.AppendNextEvent, &statekeepv1.AppendNextEventRequest{
		Event: message, ExpectedLastSequence: o.ExpectedLastSequence,
	})
	return eventOf(answer.GetEvent()), err
}

// Appended is where the events of a batch are.
type Appended struct {
	FirstSequence int64
	LastSequence  int64
	IDs           []string // In order.
	Revision      int64    // Of the last.
}

// AppendEvents stores several events of one branch with the next sequence numbers, all or none.
//
// Reasons: as for [State.AppendNextEvent]; [EventExists] also where the branch holds some of them and some not.
func (s *State) AppendEvents(
	ctx context.Context, threadID string, events []NewEvent, options *AppendOptions,
) (*Appended, error) {
	o := orZero(options)
	answer, err := unary(ctx, s.calls, s.rpc.AppendEvents, &statekeepv1.AppendEventsRequest{
		ThreadId: threadID, BranchId: o.Branch, Events: all(events, NewEvent.message),
		ExpectedLastSequence: o.ExpectedLastSequence,
	})
	if err != nil {
		return nil, err
	}
	return &Appended{answer.FirstSequence, answer.LastSequence, answer.Ids, answer.Revision}, nil
}

// SaveCheckpointOptions is what may go with a [State.SaveCheckpoint].
type SaveCheckpointOptions struct {
	Branch string
}

// SaveCheckpoint stores a snapshot of state, in place of what was saved under its id, and answers it as stored.
func (s *State) SaveCheckpoint(
	ctx context.Context, threadID string, checkpoint NewCheckpoint, options *SaveCheckpointOptions,
) (*Checkpoint, error) {
	message := checkpoint.message()
	message.ThreadId, message.BranchId = threadID, orZero(options).Branch
	answer, err := unary(ctx, s.calls, s.rpc.SaveCheckpoint, &statekeepv1.SaveCheckpointRequest{Checkpoint: message})
	return checkpointOf(answer.GetCheckpoint()), err
}

// LatestCheckpointOptions is what may go with a [State.LatestCheckpoint].
type LatestCheckpointOptions struct {
	Branch    string
	AtEventID *string // Only checkpoints up to this event's sequence count.
}

// LatestCheckpoint reads the checkpoint with the highest sequence, and of equals the one saved last; nil: none.
//
// Reasons: [EventNotFound].
func (s *State) LatestCheckpoint(
	ctx context.Context, threadID string, options *LatestCheckpointOptions,
) (*Checkpoint, error) {
	o := orZero(options)
	answer, err := unary(ctx, s.calls, s.rpc.LatestCheckpoint, &statekeepv1.LatestCheckpointRequest{
		ThreadId: threadID, BranchId: o.Branch, AtEventId: o.AtEventID,
	})
	return checkpointOf(answer.GetCheckpoint()), err
}

// ListCheckpointsOptions is what may go with a [State.ListCheckpoints].
type ListCheckpointsOptions struct {
	Branch   string
	Labels   map[string]string // Only those that carry all of these.
	PageSize int32             // Checkpoints asked for at a time. 0: the server's default.
}

// ListCheckpoints ranges over a branch's checkpoints, the one saved last first.
func (s *State) ListCheckpoints(
	ctx context.Context, threadID string, options *ListCheckpointsOptions,
) iter.Seq2[*Checkpoint, error] {
	o := orZero(options)
	return pages(func(token string) ([]*Checkpoint, string, error) {
		answer, err := unary(ctx, s.calls, s.rpc.ListCheckpoints, &statekeepv1.ListCheckpointsRequest{
			ThreadId: threadID, BranchId: o.Branch, Labels: o.Labels, PageSize: o.PageSize, PageToken: token,
		})
		return all(answer.GetCheckpoints(), checkpointOf), answer.GetNextPageToken(), err
	})
}

// GetHistoryOptions is what may go with a [State.GetHistory].
type GetHistoryOptions struct {
	Branch string
}

// GetHistory reads a whole branch in one message.
//
// Reasons: [HistoryTooLarge] where it does not fit one: [State.StreamHistory] reads it.
func (s *State) GetHistory(ctx context.Context, threadID string, options *GetHistoryOptions) (*History, error) {
	answer, err := unary(ctx, s.calls, s.rpc.GetHistory, &statekeepv1.GetHistoryRequest{
		ThreadId: threadID, BranchId: orZero(options).Branch,
	})
	if err != nil {
		return nil, err
	}
	h := answer.GetHistory()
	return &History{
		h.GetThreadId(), h.GetBranchId(), all(h.GetEvents(), eventOf), all(h.GetCheckpoints(), checkpointOf),
	}, nil
}

// StreamOptions is what may go with streaming a branch.
type StreamOptions struct {
	Branch           string
	AfterRevision    int64 // Only what was stored after it. 0: from the start.
	Limit            int64 // At most so many events. 0: all.
	Last             int64 // Begins at the last so many events. Not with the two before it.
	IncludeAncestors bool  // First what the branch inherits: its ancestors' events up to each fork.
	Follow           bool  // Stay, and hand out what is stored from then on.
	// With Follow: signs of life, at least 100 ms apart, which move the revision. 0: none.
	Heartbeat time.Duration
	// With Follow: how long a lost connection is tried again. 0: as long as the context lasts; below 0: not.
	RetryFor time.Duration
}

// StreamHistory streams a branch's events in the order they were stored.
//
// Reasons: [RevisionGone] where the thread was deleted, or is not the one that AfterRevision is of; [RevisionAhead].
func (s *State) StreamHistory(ctx context.Context, threadID string, options *StreamOptions) *Stream[*Event] {
	return s.streamOf(ctx, threadID, orZero(options)).events()
}

// StreamRecords is [State.StreamHistory] with the branch's checkpoints where they were saved among the events.
func (s *State) StreamRecords(ctx context.Context, threadID string, options *StreamOptions) *Stream[Record] {
	return s.streamOf(ctx, threadID, orZero(options)).records()
}

// history is a stream of a branch that is to be opened.
type history struct {
	ctx     context.Context
	state   *State
	options StreamOptions
	request *statekeepv1.StreamHistoryRequest
}

func (s *State) streamOf(ctx context.Context, threadID string, o StreamOptions) history {
	return history{ctx, s, o, &statekeepv1.StreamHistoryRequest{
		ThreadId: threadID, BranchId: o.Branch, AfterRevision: o.AfterRevision, Limit: o.Limit, Last: o.Last,
		IncludeAncestors: o.IncludeAncestors, Follow: o.Follow, Heartbeat: durationpb.New(o.Heartbeat),
	}}
}

func (h history) events() *Stream[*Event] {
	return historyStream(h, func(message *statekeepv1.StreamHistoryResponse) []step[*Event] {
		var steps []step[*Event]
		for _, m := range message.GetEvents() {
			steps = append(steps, step[*Event]{record: eventOf(m), revision: m.Revision, counts: true})
		}
		return steps
	})
}

func (h history) records() *Stream[Record] {
	h.request.IncludeCheckpoints = true
	return historyStream(h, func(message *statekeepv1.StreamHistoryResponse) []step[Record] {
		var steps []step[Record]
		for _, m := range message.GetEvents() {
			steps = append(steps, step[Record]{record: Record{Event: eventOf(m)}, revision: m.Revision, counts: true})
		}
		for _, m := range message.GetCheckpoints() {
			steps = append(steps, step[Record]{record: Record{Checkpoint: checkpointOf(m)}, revision: m.Revision})
		}
		slices.SortStableFunc(steps, func(a, b step[Record]) int { return cmp.Compare(a.revision, b.revision) })
		return steps
	})
}

func historyStream[Item any](
	h history, stepsOf func(*statekeepv1.StreamHistoryResponse) []step[Item],
) *Stream[Item] {
	open := func(ctx context.Context, at position) (func() (batch[Item], error), error) {
		request, done := h.from(at)
		if done {
			return nil, nil
		}
		call, err := h.state.rpc.StreamHistory(ctx, request)
		if err != nil {
			return nil, refused(err, request)
		}
		return func() (batch[Item], error) {
			message, err := call.Recv()
			b := batch[Item]{steps: stepsOf(message), revision: message.GetRevision(), caughtUp: message.GetCaughtUp()}
			return b.closed(), err
		}, nil
	}
	p := patience{follows: h.options.Follow, retryFor: h.options.RetryFor}
	return newStream(h.ctx, h.options.AfterRevision, p, open)
}

// from is the request that goes on from a position; done where all was handed out.
func (h history) from(at position) (request *statekeepv1.StreamHistoryRequest, done bool) {
	if !at.began {
		return h.request, false
	}
	limit := h.options.Limit
	if limit == 0 && !h.options.Follow {
		limit = h.options.Last // A read of the last n is over after n, also where it had to go on.
	}
	if limit > 0 && at.counted >= limit {
		return nil, true
	}
	request = proto.CloneOf(h.request)
	request.AfterRevision, request.Last, request.Limit = at.revision, 0, max(limit-at.counted, 0)
	return request, false
}

// ForkOptions is what may go with a [State.Fork].
type ForkOptions struct {
	Branch     string         // The branch to fork.
	Name       *string        // The new branch's id. Nil: the server makes one up.
	Checkpoint *NewCheckpoint // The first records of the new branch, stored with it or not at all.
	Event      *NewEvent
	RequestID  string // A fork with an id that was used gets the first answer. Empty: the client makes one up.
}

// Forked is a new branch with its first records, nil where none were given.
type Forked struct {
	Branch     *Branch
	Checkpoint *Checkpoint
	Event      *Event
}

// Fork records a new branch that starts at an event.
//
// Reasons: [BranchExists], [ThreadNotFound], [BranchNotFound], [EventNotFound], [RequestIDReused].
func (s *State) Fork(ctx context.Context, threadID, fromEventID string, options *ForkOptions) (*Forked, error) {
	o := orZero(options)
	request := &statekeepv1.ForkRequest{
		ThreadId: threadID, FromEventId: fromEventID, BranchId: o.Branch, Name: o.Name, RequestId: orNew(o.RequestID),
	}
	if o.Checkpoint != nil {
		request.Checkpoint = o.Checkpoint.message()
	}
	if o.Event != nil {
		request.Event = o.Event.message()
	}
	answer, err := unary(ctx, s.calls, s.rpc.Fork, request)
	if err != nil {
		return nil, err
	}
	return &Forked{branchOf(answer.Branch), checkpointOf(answer.Checkpoint), eventOf(answer.Event)}, nil
}

// ListBranchesOptions is what may go with a [State.ListBranches].
type ListBranchesOptions struct {
	IncludeUnforked bool  // Also main, and branches that hold records without having been forked.
	PageSize        int32 // Branches asked for at a time. 0: the server's default.
}

// ListBranches ranges over the branches forked in a thread, oldest first, without main.
func (s *State) ListBranches(
	ctx context.Context, threadID string, options *ListBranchesOptions,
) iter.Seq2[*Branch, error] {
	o := orZero(options)
	return pages(func(token string) ([]*Branch, string, error) {
		answer, err := unary(ctx, s.calls, s.rpc.ListBranches, &statekeepv1.ListBranchesRequest{
			ThreadId: threadID, PageSize: o.PageSize, PageToken: token, IncludeUnforked: o.IncludeUnforked,
		})
		return all(answer.GetBranches(), branchOf), answer.GetNextPageToken(), err
	})
}

// ListThreadsOptions is what may go with a [State.ListThreads].
type ListThreadsOptions struct {
	Prefix   string // Only ids that begin with it, literally.
	PageSize int32  // Threads asked for at a time. 0: the server's default.
}

// ListThreads ranges over the threads, sorted by id.
func (s *State) ListThreads(ctx context.Context, options *ListThreadsOptions) iter.Seq2[*Thread, error] {
	o := orZero(options)
	return pages(func(token string) ([]*Thread, string, error) {
		answer, err := unary(ctx, s.calls, s.rpc.ListThreads, &statekeepv1.ListThreadsRequest{
			Prefix: o.Prefix, PageSize: o.PageSize, PageToken: token,
		})
		return all(answer.GetThreads(), threadOf), answer.GetNextPageToken(), err
	})
}

// DeletedThread is what went with a thread.
type DeletedThread struct {
	EventsDeleted      int64
	CheckpointsDeleted int64
}

// DeleteThread removes a thread with all its branches. A lost connection is not tried again: the answer would be wrong.
func (s *State) DeleteThread(ctx context.Context, threadID string) (DeletedThread, error) {
	answer, err := unary(ctx, s.calls, s.rpc.DeleteThread, &statekeepv1.DeleteThreadRequest{ThreadId: threadID})
	return DeletedThread{answer.GetEventsDeleted(), answer.GetCheckpointsDeleted()}, err
}
