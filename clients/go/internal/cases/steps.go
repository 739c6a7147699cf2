package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"statekeep.dev/go/statekeep"
)

const (
	within     = 30 * time.Second // for each call and read
	eventually = 10 * time.Second
	pause      = 20 * time.Millisecond
)

// caseRun is a case under way: what was saved, and what stays open.
type caseRun struct {
	client  *statekeep.Client
	connect func() (*statekeep.Client, error)
	by      replacements
	open    map[string]*opened
}

// runCase runs a case under a name of its own. It answers why it was skipped, if it was, and what went wrong.
func runCase(
	c testCase, run string, client *statekeep.Client, connect func() (*statekeep.Client, error),
) (skipped string, err error) {
	for _, need := range c.needs {
		if why, ok := unmet[need.(string)]; ok {
			return fmt.Sprintf("%s: %s", need, why), nil
		}
	}
	r := &caseRun{client, connect, replacements{run, map[string]any{}, c.oddity}, map[string]*opened{}}
	defer r.closeAll()
	for i, item := range c.steps {
		step := item.(object)
		err := r.take(step)
		if missing := notTaken(""); errors.As(err, &missing) {
			return missing.Error(), nil
		}
		if err != nil {
			return "", fmt.Errorf("step %d (%s): %w", i+1, shown(step), err)
		}
	}
	return "", nil
}

func (r *caseRun) closeAll() {
	for _, name := range slices.Collect(maps.Keys(r.open)) {
		r.close(name)
	}
}

func (r *caseRun) close(name string) {
	if one, ok := r.open[name]; ok {
		one.close()
		delete(r.open, name)
	}
}

func (r *caseRun) take(step object) error {
	if name, ok := step["close"].(string); ok {
		r.close(name)
		return nil
	}
	if _, ok := step["at_once"]; ok {
		return r.atOnce(step)
	}
	err := r.try(step)
	_, again := step["eventually"]
	for deadline := time.Now().Add(eventually); err != nil && again && time.Now().Before(deadline); {
		time.Sleep(pause)
		err = r.try(step)
	}
	return err
}

func (r *caseRun) try(step object) error {
	args, err := replaced(step["args"], r.by)
	if err != nil {
		return err
	}
	tree, _ := args.(object)
	answer, err := r.attempt(step, argumentsOf(tree))
	if err != nil {
		return r.checkError(step, err)
	}
	if right, ok := step["error"]; ok {
		return fmt.Errorf("there is no error, and should be %s: %s", shown(right), shown(answer))
	}
	if right, ok := step["answer"]; ok {
		if err := r.compare(right, answer, "answer"); err != nil {
			return err
		}
	}
	return r.save(step, answer)
}

func (r *caseRun) attempt(step object, a *arguments) (any, error) {
	if name, ok := step["call"].(string); ok {
		call, ok := operations[name]
		if !ok {
			return nil, notTaken("for " + name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		return call(ctx, r.client, a)
	}
	if name, ok := step["open"].(string); ok {
		one, err := open(name, r.client, a)
		if err != nil {
			return nil, err
		}
		r.open[step["as"].(string)] = one
		return one.answer, nil
	}
	return r.read(step)
}

func (r *caseRun) read(step object) (any, error) {
	one, ok := r.open[step["read"].(string)]
	if !ok {
		return nil, fmt.Errorf("nothing is open as %s", step["read"])
	}
	count := int64(1)
	if given, ok := step["count"]; ok {
		var err error
		if count, err = integer(given); err != nil {
			return nil, err
		}
	}
	defer time.AfterFunc(within, one.cancel).Stop()
	records := []any{}
	for int64(len(records)) < count {
		record, err, ok := one.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errors.New("the stream is over")
		}
		records = append(records, record)
	}
	return object{one.field: records}, nil
}

func (r *caseRun) checkError(step object, err error) error {
	right, expected := step["error"]
	if !expected {
		return err
	}
	right, replacing := replaced(right, r.by)
	if replacing != nil {
		return replacing
	}
	got := errorTree(err, right)
	if got == nil {
		return err
	}
	return r.compare(right, got, "error")
}

func (r *caseRun) compare(right, got any, path string) error {
	by := r.by
	if value, ok := by.oddity.(object); ok {
		whole := object{"content_type": ""}
		maps.Copy(whole, value)
		by.oddity = whole
	}
	right, err := replaced(right, by)
	if err != nil {
		return err
	}
	if problem := difference(right, got, path); problem != "" {
		return errors.New(problem)
	}
	return nil
}

func (r *caseRun) save(step object, answer any) error {
	names, _ := step["save"].(object)
	for name, path := range names {
		part, err := at(answer, path.(string))
		if err != nil {
			return err
		}
		r.by.saved[name] = part
	}
	return nil
}

// atOnce has several callers, each with a client of its own, make a call many times, and compares the numbers of all.
func (r *caseRun) atOnce(step object) error {
	once := step["at_once"].(object)
	counted := map[string]int64{}
	for _, name := range []string{"callers", "calls", "from", "to"} {
		number, err := integer(once[name])
		if err != nil {
			return err
		}
		counted[name] = number
	}
	numbers := make([][]int64, counted["callers"])
	errs := make([]error, counted["callers"])
	var callers sync.WaitGroup
	for i := range numbers {
		callers.Go(func() { numbers[i], errs[i] = r.callMany(step, counted["calls"], once["numbers"].(string)) })
	}
	callers.Wait()
	got := slices.Sorted(slices.Values(slices.Concat(numbers...)))
	right := make([]int64, 0, len(got))
	for n := counted["from"]; n <= counted["to"]; n++ {
		right = append(right, n)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if !slices.Equal(got, right) {
		return fmt.Errorf("the numbers of all answers are %s", shown(got))
	}
	return nil
}

func (r *caseRun) callMany(step object, calls int64, path string) ([]int64, error) {
	client, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	args, err := replaced(step["args"], r.by)
	if err != nil {
		return nil, err
	}
	numbers := make([]int64, 0, calls)
	for range calls {
		answer, err := operations[step["call"].(string)](context.Background(), client, argumentsOf(args.(object)))
		if err != nil {
			return nil, err
		}
		part, err := at(answer, path)
		if err != nil {
			return nil, err
		}
		number, err := integer(part.(json.Number))
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}
