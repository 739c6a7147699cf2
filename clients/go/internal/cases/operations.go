package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"statekeep.dev/go/statekeep"
)

// operation makes a call with a step's arguments, and answers a tree.
type operation func(ctx context.Context, c *statekeep.Client, a *arguments) (any, error)

var operations = map[string]operation{
	"memory.set":              memorySet,
	"memory.batch_set":        memoryBatchSet,
	"memory.get":              memoryGet,
	"memory.batch_get":        memoryBatchGet,
	"memory.list":             memoryList,
	"memory.history":          memoryHistory,
	"memory.delete":           memoryDelete,
	"memory.purge":            memoryPurge,
	"memory.list_purges":      memoryListPurges,
	"memory.list_scopes":      memoryListScopes,
	"scratch.open":            scratchOpen,
	"scratch.put":             scratchPut,
	"scratch.get":             scratchGet,
	"scratch.list":            scratchList,
	"scratch.clear":           scratchClear,
	"scratch.close":           scratchClose,
	"state.append_event":      stateAppendEvent,
	"state.append_next_event": stateAppendNextEvent,
	"state.append_events":     stateAppendEvents,
	"state.save_checkpoint":   stateSaveCheckpoint,
	"state.latest_checkpoint": stateLatestCheckpoint,
	"state.list_checkpoints":  stateListCheckpoints,
	"state.get_history":       stateGetHistory,
	"state.stream_history":    stateStreamHistory,
	"state.fork":              stateFork,
	"state.list_branches":     stateListBranches,
	"state.list_threads":      stateListThreads,
	"state.delete_thread":     stateDeleteThread,
}

// answered is the tree of an answer, unless the call failed.
func answered(tree object, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return tree, nil
}

// listed is the tree of all that an iterator hands out.
func listed[Item any](field string, items iter.Seq2[Item, error], treeOf func(Item) any) (any, error) {
	all, err := statekeep.Collect(items)
	return answered(object{field: treesOf(all, treeOf)}, err)
}

func memorySet(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	scope, w := given(a, "scope", scopeOf), writeOf(a)
	options := &statekeep.SetOptions{
		ExpectedVersion: w.ExpectedVersion, TTL: w.TTL, ExecutionID: w.ExecutionID, FlowID: w.FlowID,
		FlowName: w.FlowName, Labels: w.Labels, RequestID: given(a, "request_id", as[string]),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	entry, err := c.Memory.Set(ctx, scope, w.Key, w.Value, options)
	return answered(object{"entry": entryTree(entry)}, err)
}

func memoryBatchSet(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	var scope statekeep.Scope
	writes := given(a, "sets", func(tree any) ([]statekeep.Write, error) {
		return listOf(tree, whole(func(a *arguments) statekeep.Write {
			scope = given(a, "scope", scopeOf)
			return writeOf(a)
		}))
	})
	options := &statekeep.BatchSetOptions{RequestID: given(a, "request_id", as[string])}
	if err := a.end(); err != nil {
		return nil, err
	}
	entries, err := c.Memory.BatchSet(ctx, scope, writes, options)
	return answered(object{"entries": treesOf(entries, entryTree)}, err)
}

func memoryGet(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	scope, key := given(a, "scope", scopeOf), given(a, "key", as[string])
	options := &statekeep.GetOptions{
		Version: optional(a, "version", integer), IncludeDeleted: given(a, "include_deleted", as[bool]),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	entry, err := c.Memory.Get(ctx, scope, key, options)
	return answered(object{"entry": entryTree(entry)}, err)
}

func memoryBatchGet(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	scope, keys := given(a, "scope", scopeOf), given(a, "keys", stringsOf)
	if err := a.end(); err != nil {
		return nil, err
	}
	entries, missing, err := c.Memory.BatchGet(ctx, scope, keys...)
	return answered(object{"entries": treesOf(entries, entryTree), "missing_keys": treesOf(missing, same)}, err)
}

func memoryList(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	scope := given(a, "scope", scopeOf)
	options := &statekeep.ListOptions{
		Prefix: given(a, "prefix", as[string]), IncludeValues: given(a, "include_values", as[bool]),
		IncludeDeleted: given(a, "include_deleted", as[bool]), PageSize: given(a, "page_size", int32Of),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	return listed("entries", c.Memory.List(ctx, scope, options), entryTree)
}

func memoryHistory(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	scope, key := given(a, "scope", scopeOf), given(a, "key", as[string])
	options := &statekeep.VersionsOptions{
		OldestFirst: given(a, "oldest_first", as[bool]), IncludeValues: given(a, "include_values", as[bool]),
		Limit: given(a, "limit", integer),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	return listed("entries", c.Memory.History(ctx, scope, key, options).All(), entryTree)
}

func memoryDelete(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	scope, key := given(a, "scope", scopeOf), given(a, "key", as[string])
	options := &statekeep.DeleteOptions{
		ExpectedVersion: optional(a, "expected_version", integer), ExecutionID: optional(a, "execution_id", as[string]),
		FlowID: optional(a, "flow_id", as[string]), FlowName: optional(a, "flow_name", as[string]),
		RequestID: given(a, "request_id", as[string]),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	entry, err := c.Memory.Delete(ctx, scope, key, options)
	return answered(object{"entry": entryTree(entry)}, err)
}

func memoryPurge(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	scope, keep, key := given(a, "scope", scopeOf), given(a, "keep", int32Of), optional(a, "key", as[string])
	purge := func() (statekeep.Purged, error) { return c.Memory.Purge(ctx, scope, *key, keep) }
	if key == nil {
		if !given(a, "all_keys", as[bool]) {
			return nil, errors.New("a purge of neither a key nor all keys needs purge_selector")
		}
		includeDeleted := given(a, "include_deleted", as[bool])
		purge = func() (statekeep.Purged, error) { return c.Memory.PurgeAll(ctx, scope, keep, includeDeleted) }
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	purged, err := purge()
	return answered(object{
		"versions_deleted": number(purged.VersionsDeleted), "keys_affected": number(purged.KeysAffected),
	}, err)
}

func memoryListPurges(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	scope, options := given(a, "scope", scopeOf), &statekeep.PageOptions{PageSize: given(a, "page_size", int32Of)}
	if err := a.end(); err != nil {
		return nil, err
	}
	return listed("purges", c.Memory.ListPurges(ctx, scope, options), purgeTree)
}

func memoryListScopes(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	options := &statekeep.PageOptions{PageSize: given(a, "page_size", int32Of)}
	if err := a.end(); err != nil {
		return nil, err
	}
	return listed("scopes", c.Memory.ListScopes(ctx, options), scopeInfoTree)
}

func scratchOpen(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	id := given(a, "instance_id", as[string])
	options := &statekeep.OpenOptions{IdleTTL: optional(a, "idle_ttl", durationOf)}
	if err := a.end(); err != nil {
		return nil, err
	}
	instance, err := c.Scratch.Open(ctx, id, options)
	if err != nil {
		return nil, err
	}
	return object{
		"instance_id": instance.ID, "cleared": treesOf(instance.Cleared, same), "expire_time": timeTree(instance.ExpireTime),
	}, nil
}

func scratchPut(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	id, key, value := given(a, "instance_id", as[string]), given(a, "key", as[string]), given(a, "value", valueOf)
	if err := a.end(); err != nil {
		return nil, err
	}
	kept, err := c.Scratch.Put(ctx, id, key, value)
	return answered(object{"key": kept}, err)
}

func scratchGet(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	id, key := given(a, "instance_id", as[string]), given(a, "key", as[string])
	if err := a.end(); err != nil {
		return nil, err
	}
	item, err := c.Scratch.Get(ctx, id, key)
	if item == nil {
		return answered(object{"value": nil}, err)
	}
	return object{"key": item.Key, "value": valueTree(item.Value)}, nil
}

func scratchList(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	id := given(a, "instance_id", as[string])
	if err := a.end(); err != nil {
		return nil, err
	}
	keys, err := c.Scratch.List(ctx, id)
	return answered(object{"keys": treesOf(keys, same)}, err)
}

func scratchClear(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	id, key := given(a, "instance_id", as[string]), optional(a, "key", as[string])
	if err := a.end(); err != nil {
		return nil, err
	}
	if key == nil {
		cleared, err := c.Scratch.ClearAll(ctx, id)
		return answered(object{"cleared": treesOf(cleared, same)}, err)
	}
	cleared, err := c.Scratch.Clear(ctx, id, *key)
	return answered(object{"cleared": treesOf(cleared, same)}, err)
}

func scratchClose(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	id := given(a, "instance_id", as[string])
	if err := a.end(); err != nil {
		return nil, err
	}
	cleared, err := c.Scratch.Close(ctx, id)
	return answered(object{"cleared": treesOf(cleared, same)}, err)
}

func stateAppendEvent(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	message := a.part("event")
	thread, sequence := given(message, "thread_id", as[string]), given(message, "sequence", integer)
	options := &statekeep.AppendEventOptions{Branch: given(message, "branch_id", as[string])}
	event := newEventOf(message)
	if err := errors.Join(message.end(), a.end()); err != nil {
		return nil, err
	}
	stored, err := c.State.AppendEvent(ctx, thread, sequence, event, options)
	return answered(object{"event": eventTree(stored)}, err)
}

func stateAppendNextEvent(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	message := a.part("event")
	thread := given(message, "thread_id", as[string])
	options := &statekeep.AppendOptions{
		Branch: given(message, "branch_id", as[string]), ExpectedLastSequence: optional(a, "expected_last_sequence", integer),
	}
	event := newEventOf(message)
	if err := errors.Join(message.end(), a.end()); err != nil {
		return nil, err
	}
	stored, err := c.State.AppendNextEvent(ctx, thread, event, options)
	return answered(object{"event": eventTree(stored)}, err)
}

func stateAppendEvents(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	thread := given(a, "thread_id", as[string])
	events := given(a, "events", func(tree any) ([]statekeep.NewEvent, error) { return listOf(tree, whole(newEventOf)) })
	options := &statekeep.AppendOptions{
		Branch: given(a, "branch_id", as[string]), ExpectedLastSequence: optional(a, "expected_last_sequence", integer),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	appended, err := c.State.AppendEvents(ctx, thread, events, options)
	if err != nil {
		return nil, err
	}
	return object{
		"first_sequence": number(appended.FirstSequence), "last_sequence": number(appended.LastSequence),
		"ids": treesOf(appended.IDs, same), "revision": number(appended.Revision),
	}, nil
}

func stateSaveCheckpoint(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	message := a.part("checkpoint")
	thread := given(message, "thread_id", as[string])
	options := &statekeep.SaveCheckpointOptions{Branch: given(message, "branch_id", as[string])}
	checkpoint := newCheckpointOf(message)
	if err := errors.Join(message.end(), a.end()); err != nil {
		return nil, err
	}
	stored, err := c.State.SaveCheckpoint(ctx, thread, checkpoint, options)
	return answered(object{"checkpoint": checkpointTree(stored)}, err)
}

func stateLatestCheckpoint(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	thread := given(a, "thread_id", as[string])
	options := &statekeep.LatestCheckpointOptions{
		Branch: given(a, "branch_id", as[string]), AtEventID: optional(a, "at_event_id", as[string]),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	checkpoint, err := c.State.LatestCheckpoint(ctx, thread, options)
	return answered(object{"checkpoint": checkpointTree(checkpoint)}, err)
}

func stateListCheckpoints(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	thread := given(a, "thread_id", as[string])
	options := &statekeep.ListCheckpointsOptions{
		Branch: given(a, "branch_id", as[string]), Labels: given(a, "labels", labelsOf),
		PageSize: given(a, "page_size", int32Of),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	return listed("checkpoints", c.State.ListCheckpoints(ctx, thread, options), checkpointTree)
}

func stateGetHistory(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	thread := given(a, "thread_id", as[string])
	options := &statekeep.GetHistoryOptions{Branch: given(a, "branch_id", as[string])}
	if err := a.end(); err != nil {
		return nil, err
	}
	h, err := c.State.GetHistory(ctx, thread, options)
	if err != nil {
		return nil, err
	}
	return object{"history": object{
		"thread_id": h.ThreadID, "branch_id": h.BranchID, "events": treesOf(h.Events, eventTree),
		"checkpoints": treesOf(h.Checkpoints, checkpointTree),
	}}, nil
}

func streamOptions(a *arguments) *statekeep.StreamOptions {
	return &statekeep.StreamOptions{
		Branch: given(a, "branch_id", as[string]), AfterRevision: given(a, "after_revision", integer),
		Limit: given(a, "limit", integer), Last: given(a, "last", integer),
		IncludeAncestors: given(a, "include_ancestors", as[bool]), Follow: given(a, "follow", as[bool]),
		Heartbeat: given(a, "heartbeat", durationOf),
	}
}

func stateStreamHistory(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	thread, options, both := given(a, "thread_id", as[string]), streamOptions(a), given(a, "include_checkpoints", as[bool])
	if err := a.end(); err != nil {
		return nil, err
	}
	if !both {
		stream := c.State.StreamHistory(ctx, thread, options)
		events, err := statekeep.Collect(stream.All())
		return answered(object{
			"events": treesOf(events, eventTree), "checkpoints": []any{}, "caught_up": stream.CaughtUp(),
			"revision": number(stream.Revision()),
		}, err)
	}
	stream := c.State.StreamRecords(ctx, thread, options)
	records, err := statekeep.Collect(stream.All())
	events, checkpoints := []any{}, []any{}
	for _, record := range records {
		if record.Event != nil {
			events = append(events, eventTree(record.Event))
		} else {
			checkpoints = append(checkpoints, checkpointTree(record.Checkpoint))
		}
	}
	return answered(object{
		"events": events, "checkpoints": checkpoints, "caught_up": stream.CaughtUp(),
		"revision": number(stream.Revision()),
	}, err)
}

func stateFork(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	thread, from := given(a, "thread_id", as[string]), given(a, "from_event_id", as[string])
	options := &statekeep.ForkOptions{
		Branch: given(a, "branch_id", as[string]), Name: optional(a, "name", as[string]),
		Checkpoint: optional(a, "checkpoint", whole(newCheckpointOf)), Event: optional(a, "event", whole(newEventOf)),
		RequestID: given(a, "request_id", as[string]),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	forked, err := c.State.Fork(ctx, thread, from, options)
	if err != nil {
		return nil, err
	}
	return object{
		"branch": branchTree(forked.Branch), "checkpoint": checkpointTree(forked.Checkpoint),
		"event": eventTree(forked.Event),
	}, nil
}

func stateListBranches(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	thread := given(a, "thread_id", as[string])
	options := &statekeep.ListBranchesOptions{
		IncludeUnforked: given(a, "include_unforked", as[bool]), PageSize: given(a, "page_size", int32Of),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	return listed("branches", c.State.ListBranches(ctx, thread, options), branchTree)
}

func stateListThreads(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	options := &statekeep.ListThreadsOptions{
		Prefix: given(a, "prefix", as[string]), PageSize: given(a, "page_size", int32Of),
	}
	if err := a.end(); err != nil {
		return nil, err
	}
	return listed("threads", c.State.ListThreads(ctx, options), threadTree)
}

func stateDeleteThread(ctx context.Context, c *statekeep.Client, a *arguments) (any, error) {
	thread := given(a, "thread_id", as[string])
	if err := a.end(); err != nil {
		return nil, err
	}
	deleted, err := c.State.DeleteThread(ctx, thread)
	return answered(object{
		"events_deleted": number(deleted.EventsDeleted), "checkpoints_deleted": number(deleted.CheckpointsDeleted),
	}, err)
}

// opened is what stays open: a follower, or an attachment.
type opened struct {
	answer any
	field  string // of the records that are read
	next   func() (record any, err error, ok bool)
	cancel context.CancelFunc
	close  func()
}

// follower is a stream that stays open, its records read one at a time.
func follower[Record any](
	field string, s *statekeep.Stream[Record], cancel context.CancelFunc, treeOf func(Record) any,
) (*opened, error) {
	if err := s.Begin(); err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(s.All())
	read := func() (any, error, bool) {
		record, err, ok := next()
		if err != nil || !ok {
			return nil, err, ok
		}
		return treeOf(record), nil, true
	}
	return &opened{object{}, field, read, cancel, func() { stop(); s.Close(); cancel() }}, nil
}

func open(name string, c *statekeep.Client, a *arguments) (*opened, error) {
	ctx, cancel := context.WithCancel(context.Background())
	one, err := openWithin(ctx, cancel, name, c, a)
	if err != nil {
		cancel()
	}
	return one, err
}

func openWithin(
	ctx context.Context, cancel context.CancelFunc, name string, c *statekeep.Client, a *arguments,
) (*opened, error) {
	switch name {
	case "memory.watch":
		scope := given(a, "scope", scopeOf)
		options := &statekeep.WatchOptions{
			Prefix: given(a, "prefix", as[string]), AfterRevision: optional(a, "after_revision", integer),
			IncludeValues: given(a, "include_values", as[bool]), Heartbeat: given(a, "heartbeat", durationOf),
		}
		if err := a.end(); err != nil {
			return nil, err
		}
		return follower("entries", c.Memory.Watch(ctx, scope, options), cancel, entryTree)
	case "state.stream_history":
		thread, options := given(a, "thread_id", as[string]), streamOptions(a)
		if err := a.end(); err != nil {
			return nil, err
		}
		return follower("events", c.State.StreamHistory(ctx, thread, options), cancel, eventTree)
	case "scratch.attach":
		id := given(a, "instance_id", as[string])
		if err := a.end(); err != nil {
			return nil, err
		}
		attachment, err := c.Scratch.Attach(ctx, id)
		if err != nil {
			return nil, err
		}
		answer := object{"instance_id": attachment.InstanceID}
		return &opened{answer, "", nil, cancel, func() { attachment.Close(); cancel() }}, nil
	}
	return nil, fmt.Errorf("nothing stays open of %s", name)
}
