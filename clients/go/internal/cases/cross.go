package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"statekeep.dev/go/statekeep"
)

// crossing writes every oddity for all languages to read, or reads what they wrote.
type crossing struct {
	client   *statekeep.Client
	run      string
	oddities []oddity
}

func (c crossing) thread(language string) string { return fmt.Sprintf("cross-%s-%s", c.run, language) }

func (c crossing) scope(language string) statekeep.Scope {
	return statekeep.Namespace(fmt.Sprintf("cross/%s/%s", c.run, language))
}

func (c crossing) writeAll(r *result, language string) error {
	for i, odd := range c.oddities {
		if err := c.write(language, odd, int64(i+1)); err != nil {
			fmt.Fprintf(os.Stderr, "write %s: %v\n", odd.name, err)
			r.Failed++
			continue
		}
		r.Passed++
	}
	return nil
}

func (c crossing) write(language string, odd oddity, number int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	value, err := valueOf(odd.value)
	if err != nil {
		return err
	}
	thread := c.thread(language)
	if _, err := c.client.Memory.Set(ctx, c.scope(language), odd.name, value, nil); err != nil {
		return err
	}
	if _, err := c.client.Scratch.Put(ctx, thread, odd.name, value); err != nil {
		return err
	}
	event := statekeep.NewEvent{ID: odd.name, Type: "oddity", Data: value}
	if _, err := c.client.State.AppendNextEvent(ctx, thread, event, nil); err != nil {
		return err
	}
	checkpoint := statekeep.NewCheckpoint{ID: odd.name, EventID: odd.name, Sequence: number, State: value}
	_, err = c.client.State.SaveCheckpoint(ctx, thread, checkpoint, nil)
	return err
}

func (c crossing) readAll(r *result, languages []string) error {
	r.Read = map[string]counts{}
	for _, language := range languages {
		read, err := c.read(language)
		if err != nil {
			fmt.Fprintf(os.Stderr, "read %s: %v\n", language, err)
			read = counts{Failed: len(c.oddities)}
		}
		r.Read[language] = read
		r.Passed += read.Passed
		r.Failed += read.Failed
	}
	return nil
}

func (c crossing) read(language string) (counts, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	events, err := statekeep.Collect(c.client.State.StreamHistory(ctx, c.thread(language), nil).All())
	if err != nil {
		return counts{}, err
	}
	checkpoints, err := statekeep.Collect(c.client.State.ListCheckpoints(ctx, c.thread(language), nil))
	if err != nil {
		return counts{}, err
	}
	if len(events) != len(c.oddities) || len(checkpoints) != len(c.oddities) {
		return counts{}, fmt.Errorf("%d events and %d checkpoints, and should be %d of each",
			len(events), len(checkpoints), len(c.oddities))
	}
	var read counts
	for i, odd := range c.oddities {
		// The checkpoints come newest first.
		if err := c.check(ctx, language, odd, events[i], checkpoints[len(checkpoints)-1-i]); err != nil {
			fmt.Fprintf(os.Stderr, "read %s of %s: %v\n", odd.name, language, err)
			read.Failed++
			continue
		}
		read.Passed++
	}
	return read, nil
}

func (c crossing) check(
	ctx context.Context, language string, odd oddity, event *statekeep.Event, checkpoint *statekeep.Checkpoint,
) error {
	right, err := valueOf(odd.value)
	if err != nil {
		return err
	}
	entry, err := c.client.Memory.Get(ctx, c.scope(language), odd.name, nil)
	if err != nil {
		return err
	}
	if entry == nil || entry.Value != right {
		return fmt.Errorf("memory has %s", shown(entryTree(entry)))
	}
	item, err := c.client.Scratch.Get(ctx, c.thread(language), odd.name)
	if err != nil {
		return err
	}
	if item == nil || item.Value != right {
		return fmt.Errorf("scratch has another value")
	}
	if event.ID != odd.name || event.Type != "oddity" || event.Data != right {
		return fmt.Errorf("the stream has %s", shown(eventTree(event)))
	}
	if checkpoint.ID != odd.name || checkpoint.EventID != odd.name || checkpoint.State != right {
		return fmt.Errorf("the list has %s", shown(checkpointTree(checkpoint)))
	}
	return nil
}
