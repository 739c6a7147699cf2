package statekeep

import (
	"context"
	"io"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"statekeep.dev/go/statekeepv1"
)

// Memory keeps versioned values under keys, in scopes that outlive a program. Keys are trimmed, then
// [A-Za-z0-9._/-], 1 to 512 characters.
type Memory struct {
	calls *calls
	rpc   statekeepv1.MemoryClient
}

// SetOptions is what may go with a [Memory.Set].
type SetOptions struct {
	ExpectedVersion *int64         // The key's current version, or 0: it must have no value. Nil: no check.
	TTL             *time.Duration // How long it is there. Nil: for ever.
	ExecutionID     *string        // Who writes it.
	FlowID          *string
	FlowName        *string
	Labels          map[string]string
	RequestID       string // A set with an id that was used gets the first answer. Empty: the client makes one up.
}

// Set writes a new version of a key, and answers it, without its value.
//
// Reasons: [VersionMismatch], [ValueTooLarge], [InvalidField], [RequestIDReused].
func (m *Memory) Set(
	ctx context.Context, scope Scope, key string, value Value, options *SetOptions,
) (*Entry, error) {
	o := orZero(options)
	answer, err := unary(ctx, m.calls, m.rpc.Set, &statekeepv1.MemorySetRequest{
		Scope: scope.message(), Key: key, Value: value.message(), ExpectedVersion: o.ExpectedVersion,
		Ttl: durationMessage(o.TTL), ExecutionId: o.ExecutionID, FlowId: o.FlowID, FlowName: o.FlowName,
		Labels: o.Labels, RequestId: orNew(o.RequestID),
	})
	return entryOf(answer.GetEntry()), err
}

// Write is one key of a [Memory.BatchSet], its fields as for a [Memory.Set].
type Write struct {
	Key             string
	Value           Value
	ExpectedVersion *int64
	TTL             *time.Duration
	ExecutionID     *string
	FlowID          *string
	FlowName        *string
	Labels          map[string]string
}

// BatchSetOptions is what may go with a [Memory.BatchSet].
type BatchSetOptions struct {
	RequestID string // As for a Set.
}

// BatchSet writes several keys of one scope, all or none, and answers their new versions, without values.
//
// Reasons: as for [Memory.Set]; [InvalidField] also for an empty batch, and a key that it names twice.
func (m *Memory) BatchSet(
	ctx context.Context, scope Scope, writes []Write, options *BatchSetOptions,
) ([]*Entry, error) {
	answer, err := unary(ctx, m.calls, m.rpc.BatchSet, &statekeepv1.MemoryBatchSetRequest{
		Sets:      all(writes, func(w Write) *statekeepv1.MemorySetRequest { return w.message(scope) }),
		RequestId: orNew(orZero(options).RequestID),
	})
	return all(answer.GetEntries(), entryOf), err
}

func (w Write) message(scope Scope) *statekeepv1.MemorySetRequest {
	return &statekeepv1.MemorySetRequest{
		Scope: scope.message(), Key: w.Key, Value: w.Value.message(), ExpectedVersion: w.ExpectedVersion,
		Ttl: durationMessage(w.TTL), ExecutionId: w.ExecutionID, FlowId: w.FlowID, FlowName: w.FlowName,
		Labels: w.Labels,
	}
}

// GetOptions is what may go with a [Memory.Get].
type GetOptions struct {
	Version        *int64 // Nil: the current one.
	IncludeDeleted bool   // Answer with the tombstone where the version read is one.
}

// Get reads the current value of a key, or one version of it. It answers nil where there is none, or it is deleted or
// expired.
func (m *Memory) Get(ctx context.Context, scope Scope, key string, options *GetOptions) (*Entry, error) {
	o := orZero(options)
	answer, err := unary(ctx, m.calls, m.rpc.Get, &statekeepv1.MemoryGetRequest{
		Scope: scope.message(), Key: key, Version: o.Version, IncludeDeleted: o.IncludeDeleted,
	})
	return entryOf(answer.GetEntry()), err
}

// BatchGet reads several keys of one scope from one point in time: the entries there are, and the keys without one.
//
// Reasons: [LimitReached] where the values do not fit one message.
func (m *Memory) BatchGet(
	ctx context.Context, scope Scope, keys ...string,
) (entries []*Entry, missing []string, err error) {
	answer, err := unary(ctx, m.calls, m.rpc.BatchGet, &statekeepv1.MemoryBatchGetRequest{
		Scope: scope.message(), Keys: keys,
	})
	return all(answer.GetEntries(), entryOf), answer.GetMissingKeys(), err
}

// DeleteOptions is what may go with a [Memory.Delete], as for a [Memory.Set].
type DeleteOptions struct {
	ExpectedVersion *int64
	ExecutionID     *string
	FlowID          *string
	FlowName        *string
	RequestID       string
}

// Delete hides a key behind a tombstone, and answers that, or the one that stood there already; nil where the key never
// had a value.
//
// Reasons: [VersionMismatch].
func (m *Memory) Delete(ctx context.Context, scope Scope, key string, options *DeleteOptions) (*Entry, error) {
	o := orZero(options)
	answer, err := unary(ctx, m.calls, m.rpc.Delete, &statekeepv1.MemoryDeleteRequest{
		Scope: scope.message(), Key: key, ExpectedVersion: o.ExpectedVersion, ExecutionId: o.ExecutionID,
		FlowId: o.FlowID, FlowName: o.FlowName, RequestId: orNew(o.RequestID),
	})
	return entryOf(answer.GetEntry()), err
}

// Purged is what a purge removed.
type Purged struct {
	VersionsDeleted int64
	KeysAffected    int64
}

// Purge removes for good all but the newest versions of a key, of which it keeps so many; a tombstone counts. A lost
// connection is not tried again: the answer would be wrong.
func (m *Memory) Purge(ctx context.Context, scope Scope, key string, keep int32) (Purged, error) {
	return m.purge(ctx, &statekeepv1.MemoryPurgeRequest{Scope: scope.message(), Key: &key, Keep: keep})
}

// PurgeAll is a [Memory.Purge] of every key of a scope. Deleted keys are passed over, or with includeDeleted removed
// whole, whatever keep says.
func (m *Memory) PurgeAll(ctx context.Context, scope Scope, keep int32, includeDeleted bool) (Purged, error) {
	return m.purge(ctx, &statekeepv1.MemoryPurgeRequest{
		Scope: scope.message(), AllKeys: true, Keep: keep, IncludeDeleted: includeDeleted,
	})
}

func (m *Memory) purge(ctx context.Context, request *statekeepv1.MemoryPurgeRequest) (Purged, error) {
	answer, err := unary(ctx, m.calls, m.rpc.Purge, request)
	return Purged{answer.GetVersionsDeleted(), answer.GetKeysAffected()}, err
}

// ListOptions is what may go with a [Memory.List].
type ListOptions struct {
	Prefix         string // Only keys that begin with it, literally.
	IncludeValues  bool
	IncludeDeleted bool
	PageSize       int32 // Keys asked for at a time. 0: the server's default.
}

// List ranges over the newest versions of the keys that have a value, sorted by key.
func (m *Memory) List(ctx context.Context, scope Scope, options *ListOptions) iter.Seq2[*Entry, error] {
	o := orZero(options)
	return pages(func(token string) ([]*Entry, string, error) {
		answer, err := unary(ctx, m.calls, m.rpc.List, &statekeepv1.MemoryListRequest{
			Scope: scope.message(), Prefix: o.Prefix, PageSize: o.PageSize, PageToken: token,
			IncludeValues: o.IncludeValues, IncludeDeleted: o.IncludeDeleted,
		})
		return all(answer.GetEntries(), entryOf), answer.GetNextPageToken(), err
	})
}

// PageOptions is what may go with a list that has nothing else to choose.
type PageOptions struct {
	PageSize int32 // Items asked for at a time. 0: the server's default.
}

// ListPurges ranges over what was purged in a scope, newest first.
func (m *Memory) ListPurges(ctx context.Context, scope Scope, options *PageOptions) iter.Seq2[*PurgeRecord, error] {
	return pages(func(token string) ([]*PurgeRecord, string, error) {
		answer, err := unary(ctx, m.calls, m.rpc.ListPurges, &statekeepv1.MemoryListPurgesRequest{
			Scope: scope.message(), PageSize: orZero(options).PageSize, PageToken: token,
		})
		return all(answer.GetPurges(), purgeRecordOf), answer.GetNextPageToken(), err
	})
}

// ListScopes ranges over the scopes that hold a key with a value, by name, then namespace, flow, execution.
func (m *Memory) ListScopes(ctx context.Context, options *PageOptions) iter.Seq2[*ScopeInfo, error] {
	return pages(func(token string) ([]*ScopeInfo, string, error) {
		answer, err := unary(ctx, m.calls, m.rpc.ListScopes, &statekeepv1.MemoryListScopesRequest{
			PageSize: orZero(options).PageSize, PageToken: token,
		})
		return all(answer.GetScopes(), scopeInfoOf), answer.GetNextPageToken(), err
	})
}

// VersionsOptions is what may go with a [Memory.History].
type VersionsOptions struct {
	OldestFirst   bool // Else newest first.
	IncludeValues bool
	Limit         int64 // At most so many. 0: all.
}

// History streams every version of a key, tombstones too.
func (m *Memory) History(ctx context.Context, scope Scope, key string, options *VersionsOptions) *Stream[*Entry] {
	o := orZero(options)
	open := func(ctx context.Context, at position) (func() (batch[*Entry], error), error) {
		request := &statekeepv1.MemoryHistoryRequest{
			Scope: scope.message(), Key: key, OldestFirst: o.OldestFirst, IncludeValues: o.IncludeValues, Limit: o.Limit,
		}
		if at.began {
			if o.Limit > 0 && at.counted >= o.Limit {
				return nil, nil
			}
			request.Limit = 0 // There may be versions on top by now, which would count.
		}
		call, err := m.rpc.History(ctx, request)
		if err != nil {
			return nil, refused(err, request)
		}
		left := versionsLeft{at: at, oldestFirst: o.OldestFirst, limit: o.Limit}
		return func() (batch[*Entry], error) {
			if left.isOver() {
				return batch[*Entry]{}, io.EOF
			}
			message, err := call.Recv()
			return left.take(message.GetEntries()), err
		}, nil
	}
	return newStream(ctx, 0, patience{}, open)
}

// versionsLeft picks, of a read of all versions, those that a read which stands at a position has not handed out. This
// stream has no cursor of its own: it goes by version.
type versionsLeft struct {
	at          position
	oldestFirst bool
	limit       int64
}

func (l *versionsLeft) take(messages []*statekeepv1.MemoryEntry) batch[*Entry] {
	b := batch[*Entry]{revision: l.at.revision}
	for _, m := range messages {
		if l.isOver() || !l.isAhead(m.Version) {
			continue
		}
		b.steps = append(b.steps, step[*Entry]{entryOf(m), m.Revision, m.Version, true})
		l.at.version = m.Version
		l.at.counted++
	}
	return b
}

func (l *versionsLeft) isAhead(version int64) bool {
	if l.at.version == 0 {
		return true
	}
	return (version > l.at.version) == l.oldestFirst && version != l.at.version
}

func (l *versionsLeft) isOver() bool { return l.limit > 0 && l.at.counted >= l.limit }

// WatchOptions is what may go with a [Memory.Watch].
type WatchOptions struct {
	Prefix        string // Only keys that begin with it, literally.
	AfterRevision *int64 // Goes on after it; 0 begins with all there is. Nil: only what is written from now on.
	IncludeValues bool
	Heartbeat     time.Duration // Signs of life, at least 100 ms apart, which move the revision. 0: none.
	// How long a lost connection is tried again. 0: as long as the context lasts; below 0: not.
	RetryFor time.Duration
}

// Watch follows the writes of a scope until it is ended.
//
// Reasons: [RevisionGone], [RevisionAhead].
func (m *Memory) Watch(ctx context.Context, scope Scope, options *WatchOptions) *Stream[*Entry] {
	o := orZero(options)
	open := func(ctx context.Context, at position) (func() (batch[*Entry], error), error) {
		request := &statekeepv1.MemoryWatchRequest{
			Scope: scope.message(), Prefix: o.Prefix, AfterRevision: o.AfterRevision, IncludeValues: o.IncludeValues,
			Heartbeat: durationpb.New(o.Heartbeat),
		}
		if at.began {
			request.AfterRevision = &at.revision
		}
		call, err := m.rpc.Watch(ctx, request)
		if err != nil {
			return nil, refused(err, request)
		}
		return func() (batch[*Entry], error) {
			message, err := call.Recv()
			return watched(message), err
		}, nil
	}
	var after int64
	if o.AfterRevision != nil {
		after = *o.AfterRevision
	}
	return newStream(ctx, after, patience{follows: true, retryFor: o.RetryFor}, open)
}

func watched(message *statekeepv1.MemoryWatchResponse) batch[*Entry] {
	b := batch[*Entry]{revision: message.GetRevision(), caughtUp: message.GetCaughtUp()}
	for _, m := range message.GetEntries() {
		b.steps = append(b.steps, step[*Entry]{record: entryOf(m), revision: m.Revision})
	}
	return b.closed()
}
