package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"statekeep.dev/go/statekeep"
)

func treesOf[Record any](records []Record, treeOf func(Record) any) []any {
	trees := make([]any, len(records))
	for i, record := range records {
		trees[i] = treeOf(record)
	}
	return trees
}

func same(text string) any { return text }

func number[Number int32 | int64](n Number) any { return json.Number(strconv.FormatInt(int64(n), 10)) }

func optionalTree(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

func labelsTree(labels map[string]string) any {
	tree := object{}
	for name, label := range labels {
		tree[name] = label
	}
	return tree
}

func timeTree(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

func valueTree(value statekeep.Value) any {
	tree := object{"content_type": value.ContentType}
	switch value.Kind() {
	case statekeep.KindJSON:
		tree["json"] = value.String()
	case statekeep.KindText:
		tree["text"] = value.String()
	case statekeep.KindData:
		tree["data"] = base64.StdEncoding.EncodeToString(value.Bytes())
	default:
		return nil
	}
	return tree
}

func scopeTree(scope statekeep.Scope) any {
	names := map[statekeep.ScopeType]string{
		statekeep.ScopeNamespace: "namespace", statekeep.ScopeFlow: "flow", statekeep.ScopeExecution: "execution",
	}
	return object{"type": names[scope.Type], "name": scope.Name}
}

func entryTree(e *statekeep.Entry) any {
	if e == nil {
		return nil
	}
	return object{
		"scope": scopeTree(e.Scope), "key": e.Key, "version": number(e.Version), "value": valueTree(e.Value),
		"value_type": e.ValueType, "deleted": e.Deleted, "create_time": timeTree(e.CreateTime),
		"expire_time": timeTree(e.ExpireTime), "entry_id": e.EntryID, "execution_id": optionalTree(e.ExecutionID),
		"flow_id": optionalTree(e.FlowID), "flow_name": optionalTree(e.FlowName), "labels": labelsTree(e.Labels),
		"revision": number(e.Revision),
	}
}

func purgeTree(p *statekeep.PurgeRecord) any {
	return object{
		"scope": scopeTree(p.Scope), "create_time": timeTree(p.CreateTime), "keys": treesOf(p.Keys, same),
		"versions_deleted": number(p.VersionsDeleted), "keep": number(p.Keep), "keys_affected": number(p.KeysAffected),
	}
}

func scopeInfoTree(s *statekeep.ScopeInfo) any {
	return object{"scope": scopeTree(s.Scope), "entry_count": number(s.EntryCount)}
}

func eventTree(e *statekeep.Event) any {
	if e == nil {
		return nil
	}
	return object{
		"id": e.ID, "thread_id": e.ThreadID, "branch_id": e.BranchID, "sequence": number(e.Sequence), "type": e.Type,
		"node": optionalTree(e.Node), "parent_id": optionalTree(e.ParentID), "data": valueTree(e.Data),
		"error_type": optionalTree(e.ErrorType), "message": optionalTree(e.Message),
		"create_time": timeTree(e.CreateTime), "labels": labelsTree(e.Labels), "revision": number(e.Revision),
	}
}

func checkpointTree(c *statekeep.Checkpoint) any {
	if c == nil {
		return nil
	}
	return object{
		"id": c.ID, "thread_id": c.ThreadID, "branch_id": c.BranchID, "event_id": c.EventID,
		"sequence": number(c.Sequence), "state": valueTree(c.State), "active": valueTree(c.Active), "status": c.Status,
		"create_time": timeTree(c.CreateTime), "parent_id": optionalTree(c.ParentID), "metadata": valueTree(c.Metadata),
		"labels": labelsTree(c.Labels), "revision": number(c.Revision),
	}
}

func branchTree(b *statekeep.Branch) any {
	return object{
		"id": b.ID, "thread_id": b.ThreadID, "parent_branch_id": b.ParentBranchID, "from_event_id": b.FromEventID,
		"create_time": timeTree(b.CreateTime), "revision": number(b.Revision),
	}
}

func threadTree(t *statekeep.Thread) any {
	return object{
		"id": t.ID, "uid": t.UID, "event_count": number(t.EventCount), "checkpoint_count": number(t.CheckpointCount),
		"branch_count": number(t.BranchCount), "create_time": timeTree(t.CreateTime),
		"update_time": timeTree(t.UpdateTime), "revision": number(t.Revision),
	}
}

// errorTree is a call's error, with that of its fields that is right, or else the first. It is nil for another error.
func errorTree(err error, right any) any {
	var failure *statekeep.Error
	if !errors.As(err, &failure) {
		return nil
	}
	tree := object{
		"code": code.Code(failure.Code).String(), "reason": string(failure.Reason),
		"metadata": labelsTree(failure.Metadata), "message": failure.Message, "field": nil,
	}
	wanted, _ := right.(object)
	for i, violation := range failure.Fields {
		if i == 0 || violation.Field == wanted["field"] {
			tree["field"] = violation.Field
		}
	}
	return tree
}
