package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"statekeep.dev/go/statekeep"
)

// notTaken is the reason to skip a case: it gives an argument that the method does not take.
type notTaken string

func (n notTaken) Error() string { return "no argument " + string(n) }

// arguments are those of a step. What is not asked for by the end, the method does not take.
type arguments struct {
	tree object
	left map[string]bool
	errs []error
}

func argumentsOf(tree object) *arguments {
	a := &arguments{tree: tree, left: map[string]bool{}}
	for name := range tree {
		a.left[name] = true
	}
	return a
}

// end fails where an argument is malformed or was not asked for.
func (a *arguments) end() error {
	for _, name := range slices.Sorted(maps.Keys(a.left)) {
		a.errs = append(a.errs, notTaken(name))
	}
	return errors.Join(a.errs...)
}

func (a *arguments) take(name string) (any, bool) {
	tree, ok := a.tree[name]
	delete(a.left, name)
	return tree, ok
}

// optional is an argument, or nil where it is not given.
func optional[Argument any](a *arguments, name string, parse func(any) (Argument, error)) *Argument {
	tree, ok := a.take(name)
	if !ok {
		return nil
	}
	argument, err := parse(tree)
	if err != nil {
		a.errs = append(a.errs, fmt.Errorf("argument %s: %w", name, err))
	}
	return &argument
}

// given is an argument, or its type's zero where it is not given.
func given[Argument any](a *arguments, name string, parse func(any) (Argument, error)) Argument {
	if argument := optional(a, name, parse); argument != nil {
		return *argument
	}
	return *new(Argument)
}

func as[Argument any](tree any) (Argument, error) {
	argument, ok := tree.(Argument)
	if !ok {
		return argument, fmt.Errorf("%v is no %T", tree, argument)
	}
	return argument, nil
}

func int32Of(tree any) (int32, error) {
	number, err := integer(tree)
	return int32(number), err
}

func durationOf(tree any) (time.Duration, error) {
	text, err := as[string](tree)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

func timeOf(tree any) (time.Time, error) {
	text, err := as[string](tree)
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, text)
}

func stringsOf(tree any) ([]string, error) { return listOf(tree, as[string]) }

func listOf[Item any](tree any, parse func(any) (Item, error)) ([]Item, error) {
	list, err := as[[]any](tree)
	items := make([]Item, 0, len(list))
	for _, one := range list {
		item, failed := parse(one)
		err = errors.Join(err, failed)
		items = append(items, item)
	}
	return items, err
}

func labelsOf(tree any) (map[string]string, error) {
	members, err := as[object](tree)
	labels := map[string]string{}
	for name, label := range members {
		text, failed := as[string](label)
		err = errors.Join(err, failed)
		labels[name] = text
	}
	return labels, err
}

func scopeOf(tree any) (statekeep.Scope, error) {
	members, err := as[object](tree)
	if err != nil {
		return statekeep.Scope{}, err
	}
	a := argumentsOf(members)
	scope := statekeep.Scope{Name: given(a, "name", as[string])}
	switch kind := given(a, "type", as[string]); kind {
	case "":
	case "namespace":
		scope.Type = statekeep.ScopeNamespace
	case "flow":
		scope.Type = statekeep.ScopeFlow
	case "execution":
		scope.Type = statekeep.ScopeExecution
	default:
		return scope, fmt.Errorf("there is no scope type %q", kind)
	}
	return scope, a.end()
}

func valueOf(tree any) (statekeep.Value, error) {
	if tree == nil {
		return statekeep.Value{}, nil
	}
	members, err := as[object](tree)
	if err != nil {
		return statekeep.Value{}, err
	}
	a := argumentsOf(members)
	value := statekeep.Value{}
	if text := optional(a, "json", as[string]); text != nil {
		value = statekeep.JSON(*text)
	}
	if text := optional(a, "text", as[string]); text != nil {
		value = statekeep.Text(*text)
	}
	if text := optional(a, "data", as[string]); text != nil {
		data, err := base64.StdEncoding.Strict().DecodeString(*text)
		if err != nil {
			return value, err
		}
		value = statekeep.Data(data)
	}
	return value.WithContentType(given(a, "content_type", as[string])), a.end()
}

func writeOf(a *arguments) statekeep.Write {
	return statekeep.Write{
		Key: given(a, "key", as[string]), Value: given(a, "value", valueOf),
		ExpectedVersion: optional(a, "expected_version", integer), TTL: optional(a, "ttl", durationOf),
		ExecutionID: optional(a, "execution_id", as[string]), FlowID: optional(a, "flow_id", as[string]),
		FlowName: optional(a, "flow_name", as[string]), Labels: given(a, "labels", labelsOf),
	}
}

func newEventOf(a *arguments) statekeep.NewEvent {
	return statekeep.NewEvent{
		ID: given(a, "id", as[string]), Type: given(a, "type", as[string]), Node: optional(a, "node", as[string]),
		ParentID: optional(a, "parent_id", as[string]), Data: given(a, "data", valueOf),
		ErrorType: optional(a, "error_type", as[string]), Message: optional(a, "message", as[string]),
		CreateTime: given(a, "create_time", timeOf), Labels: given(a, "labels", labelsOf),
	}
}

func newCheckpointOf(a *arguments) statekeep.NewCheckpoint {
	return statekeep.NewCheckpoint{
		ID: given(a, "id", as[string]), EventID: given(a, "event_id", as[string]), Sequence: given(a, "sequence", integer),
		State: given(a, "state", valueOf), Active: given(a, "active", valueOf), Status: given(a, "status", as[string]),
		CreateTime: given(a, "create_time", timeOf), ParentID: optional(a, "parent_id", as[string]),
		Metadata: given(a, "metadata", valueOf), Labels: given(a, "labels", labelsOf),
	}
}

// whole parses an object whose members are all to be asked for.
func whole[Argument any](parse func(*arguments) Argument) func(any) (Argument, error) {
	return func(tree any) (Argument, error) {
		members, err := as[object](tree)
		if err != nil {
			return *new(Argument), err
		}
		a := argumentsOf(members)
		argument := parse(a)
		return argument, a.end()
	}
}

// part is an object of which only some members are known to be taken where it is asked for.
func (a *arguments) part(name string) *arguments {
	members, err := as[object](a.tree[name])
	if err != nil {
		a.errs = append(a.errs, err)
	}
	delete(a.left, name)
	return argumentsOf(members)
}
