package statekeep

import "time"

// ScopeType is what a [Scope] belongs to.
type ScopeType int

// The types of a scope.
const (
	ScopeNamespace ScopeType = 1 // Shared by many runs.
	ScopeFlow      ScopeType = 2 // Belongs to one flow.
	ScopeExecution ScopeType = 3 // Belongs to one execution of a flow.
)

// Scope is where keys live. One name under two types is two scopes.
type Scope struct {
	Type ScopeType // 0 is read as ScopeNamespace.
	Name string    // Trimmed, then [A-Za-z0-9._/-], 1 to 256 characters.
}

// Namespace is a scope that many runs share.
func Namespace(name string) Scope { return Scope{ScopeNamespace, name} }

// Flow is a scope of one flow.
func Flow(name string) Scope { return Scope{ScopeFlow, name} }

// Execution is a scope of one execution of a flow.
func Execution(name string) Scope { return Scope{ScopeExecution, name} }

// Entry is one version of a key.
type Entry struct {
	Scope       Scope
	Key         string
	Version     int64     // Counts from 1 for each key, tombstones included. Never used twice.
	Value       Value     // None on a tombstone, and where the read asked for no values.
	ValueType   string    // object, array, string, number, boolean, null, text, or the media type.
	Deleted     bool      // True on a tombstone.
	CreateTime  time.Time // UTC, as every time here.
	ExpireTime  time.Time // Zero where the version does not expire.
	EntryID     string    // Names this version among all versions of all keys.
	ExecutionID *string   // Who wrote it, where the writer said.
	FlowID      *string
	FlowName    *string
	Labels      map[string]string
	Revision    int64 // Grows with every write of the scope, and never repeats: what Watch counts in.
}

// PurgeRecord is what one purge removed.
type PurgeRecord struct {
	Scope           Scope
	CreateTime      time.Time
	Keys            []string // Those that lost versions, sorted; of very many, as many as one record holds.
	VersionsDeleted int64
	Keep            int32
	KeysAffected    int64
}

// ScopeInfo is a scope that holds at least one key with a value.
type ScopeInfo struct {
	Scope      Scope
	EntryCount int64 // Keys that have a value.
}

// Event is something that happened in a thread.
type Event struct {
	ID         string
	ThreadID   string
	BranchID   string
	Sequence   int64 // Position on its branch, counted from 1.
	Type       string
	Node       *string
	ParentID   *string
	Data       Value
	ErrorType  *string
	Message    *string
	CreateTime time.Time
	Labels     map[string]string
	Revision   int64 // Grows with every write of the thread, and never repeats: what a cursor counts in.
}

// NewEvent is an event to append. Sending one again changes nothing.
type NewEvent struct {
	ID         string // Unique on its branch. Empty: the client makes one up, so that a retry is safe.
	Type       string // What happened: run_started, node_completed, error, … Required.
	Node       *string
	ParentID   *string
	Data       Value
	ErrorType  *string
	Message    *string
	CreateTime time.Time // Zero: the server's clock. Never used for order.
	Labels     map[string]string
}

// Checkpoint is a whole snapshot of a thread's state.
type Checkpoint struct {
	ID         string
	ThreadID   string
	BranchID   string
	EventID    string // The event it was taken at, and that one's sequence.
	Sequence   int64
	State      Value
	Active     Value // The tasks still to run, a JSON list.
	Status     string
	CreateTime time.Time
	ParentID   *string
	Metadata   Value
	Labels     map[string]string
	Revision   int64
}

// NewCheckpoint is a snapshot to save. Saving an id again replaces what was saved under it.
type NewCheckpoint struct {
	ID         string // Empty: the client makes one up.
	EventID    string
	Sequence   int64
	State      Value     // Required.
	Active     Value     // A JSON list. None: [].
	Status     string    // running, completed, forked, … Empty: running.
	CreateTime time.Time // Zero: the server's clock.
	ParentID   *string
	Metadata   Value
	Labels     map[string]string
}

// Record is what a thread's history is made of: either an event or a checkpoint, the other is nil.
type Record struct {
	Event      *Event
	Checkpoint *Checkpoint
}

// History is a whole branch.
type History struct {
	ThreadID    string
	BranchID    string
	Events      []*Event // In the order they were stored.
	Checkpoints []*Checkpoint
}

// Branch is a branch of a thread.
type Branch struct {
	ID             string
	ThreadID       string
	ParentBranchID string
	FromEventID    string
	CreateTime     time.Time
	Revision       int64
}

// Thread is a thread, and how much it holds.
type Thread struct {
	ID              string
	UID             string // Unlike the id, never used twice.
	EventCount      int64
	CheckpointCount int64
	BranchCount     int64 // Branches that were forked.
	CreateTime      time.Time
	UpdateTime      time.Time
	Revision        int64
}
