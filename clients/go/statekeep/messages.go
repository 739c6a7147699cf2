package statekeep

import (
	"crypto/rand"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"statekeep.dev/go/statekeepv1"
)

// orNew is the id, or one made up: by it the server knows a call that is sent again.
func orNew(id string) string {
	if id == "" {
		return rand.Text()
	}
	return id
}

// orZero is what options point to, or none.
func orZero[Options any](options *Options) Options {
	if options == nil {
		return *new(Options)
	}
	return *options
}

func (s Scope) message() *statekeepv1.Scope {
	return &statekeepv1.Scope{Type: statekeepv1.ScopeType(s.Type), Name: s.Name}
}

func scopeOf(message *statekeepv1.Scope) Scope {
	return Scope{ScopeType(message.GetType()), message.GetName()}
}

func timeMessage(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeOf(message *timestamppb.Timestamp) time.Time {
	if message == nil {
		return time.Time{}
	}
	return message.AsTime()
}

func durationMessage(d *time.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(*d)
}

// all converts each of a message's records.
func all[Message, Record any](messages []Message, recordOf func(Message) Record) []Record {
	records := make([]Record, len(messages))
	for i, message := range messages {
		records[i] = recordOf(message)
	}
	return records
}

func entryOf(m *statekeepv1.MemoryEntry) *Entry {
	if m == nil {
		return nil
	}
	return &Entry{
		Scope: scopeOf(m.Scope), Key: m.Key, Version: m.Version, Value: valueOf(m.Value), ValueType: m.ValueType,
		Deleted: m.Deleted, CreateTime: timeOf(m.CreateTime), ExpireTime: timeOf(m.ExpireTime), EntryID: m.EntryId,
		ExecutionID: m.ExecutionId, FlowID: m.FlowId, FlowName: m.FlowName, Labels: m.Labels, Revision: m.Revision,
	}
}

func purgeRecordOf(m *statekeepv1.MemoryPurgeRecord) *PurgeRecord {
	return &PurgeRecord{
		Scope: scopeOf(m.Scope), CreateTime: timeOf(m.CreateTime), Keys: m.Keys, VersionsDeleted: m.VersionsDeleted,
		Keep: m.Keep, KeysAffected: m.KeysAffected,
	}
}

func scopeInfoOf(m *statekeepv1.MemoryScopeInfo) *ScopeInfo {
	return &ScopeInfo{Scope: scopeOf(m.Scope), EntryCount: m.EntryCount}
}

func eventOf(m *statekeepv1.Event) *Event {
	if m == nil {
		return nil
	}
	return &Event{
		ID: m.Id, ThreadID: m.ThreadId, BranchID: m.BranchId, Sequence: m.Sequence, Type: m.Type, Node: m.Node,
		ParentID: m.ParentId, Data: valueOf(m.Data), ErrorType: m.ErrorType, Message: m.Message,
		CreateTime: timeOf(m.CreateTime), Labels: m.Labels, Revision: m.Revision,
	}
}

func (e NewEvent) message() *statekeepv1.Event {
	return &statekeepv1.Event{
		Id: orNew(e.ID), Type: e.Type, Node: e.Node, ParentId: e.ParentID, Data: e.Data.message(),
		ErrorType: e.ErrorType, Message: e.Message, CreateTime: timeMessage(e.CreateTime), Labels: e.Labels,
	}
}

func checkpointOf(m *statekeepv1.Checkpoint) *Checkpoint {
	if m == nil {
		return nil
	}
	return &Checkpoint{
		ID: m.Id, ThreadID: m.ThreadId, BranchID: m.BranchId, EventID: m.EventId, Sequence: m.Sequence,
		State: valueOf(m.State), Active: valueOf(m.Active), Status: m.Status, CreateTime: timeOf(m.CreateTime),
		ParentID: m.ParentId, Metadata: valueOf(m.Metadata), Labels: m.Labels, Revision: m.Revision,
	}
}

func (c NewCheckpoint) message() *statekeepv1.Checkpoint {
	return &statekeepv1.Checkpoint{
		Id: orNew(c.ID), EventId: c.EventID, Sequence: c.Sequence, State: c.State.message(), Active: c.Active.message(),
		Status: c.Status, CreateTime: timeMessage(c.CreateTime), ParentId: c.ParentID, Metadata: c.Metadata.message(),
		Labels: c.Labels,
	}
}

func branchOf(m *statekeepv1.Branch) *Branch {
	return &Branch{
		ID: m.Id, ThreadID: m.ThreadId, ParentBranchID: m.ParentBranchId, FromEventID: m.FromEventId,
		CreateTime: timeOf(m.CreateTime), Revision: m.Revision,
	}
}

func threadOf(m *statekeepv1.Thread) *Thread {
	return &Thread{
		ID: m.Id, UID: m.Uid, EventCount: m.EventCount, CheckpointCount: m.CheckpointCount, BranchCount: m.BranchCount,
		CreateTime: timeOf(m.CreateTime), UpdateTime: timeOf(m.UpdateTime), Revision: m.Revision,
	}
}
