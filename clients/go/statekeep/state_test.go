package statekeep_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"statekeep.dev/go/internal/servertest"
	"statekeep.dev/go/statekeep"
)

// appendNotes appends events of the ids n1, n2, … to a thread.
func appendNotes(t *testing.T, client *statekeep.Client, thread string, from, to int) {
	t.Helper()
	var events []statekeep.NewEvent
	for n := from; n <= to; n++ {
		events = append(events, statekeep.NewEvent{ID: fmt.Sprintf("n%d", n), Type: "note"})
	}
	if _, err := client.State.AppendEvents(t.Context(), thread, events, nil); err != nil {
		t.Fatal(err)
	}
}

func idsOf(t *testing.T, stream *statekeep.Stream[*statekeep.Event]) []string {
	t.Helper()
	events, err := statekeep.Collect(stream.All())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, event := range events {
		ids = append(ids, event.ID)
	}
	return ids
}

func TestAHistoryIsStreamedInTheOrderStored(t *testing.T) {
	client := servertest.Start(t).Connect()
	appendNotes(t, client, "t", 1, 3)
	stream := client.State.StreamHistory(t.Context(), "t", nil)
	if stream.CaughtUp() {
		t.Error("it is caught up before it began")
	}
	if ids := idsOf(t, stream); !slices.Equal(ids, []string{"n1", "n2", "n3"}) {
		t.Error(ids)
	}
	if !stream.CaughtUp() || stream.Revision() == 0 {
		t.Errorf("caught up %v at %d", stream.CaughtUp(), stream.Revision())
	}
	if again := idsOf(t, stream); len(again) != 0 {
		t.Errorf("a stream that is over hands out %v", again)
	}
	later := client.State.StreamHistory(t.Context(), "t", &statekeep.StreamOptions{AfterRevision: stream.Revision()})
	if ids := idsOf(t, later); len(ids) != 0 {
		t.Errorf("after the cursor there is %v", ids)
	}
}

func TestRangingAgainGoesOnAfterTheLastRecord(t *testing.T) {
	client := servertest.Start(t).Connect()
	appendNotes(t, client, "t", 1, 5)
	for options, right := range map[*statekeep.StreamOptions][]string{
		{}:         {"n1", "n2", "n3", "n4", "n5"},
		{Limit: 3}: {"n1", "n2", "n3"},
		{Last: 4}:  {"n2", "n3", "n4", "n5"},
	} {
		stream := client.State.StreamHistory(t.Context(), "t", options)
		var ids []string
		for event, err := range stream.All() {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, event.ID)
			if len(ids) == 2 {
				break
			}
		}
		if ids = append(ids, idsOf(t, stream)...); !slices.Equal(ids, right) {
			t.Errorf("%+v: %v", options, ids)
		}
	}
}

func TestRecordsHaveCheckpointsWhereTheyWereSaved(t *testing.T) {
	client := servertest.Start(t).Connect()
	appendNotes(t, client, "t", 1, 1)
	checkpoint := statekeep.NewCheckpoint{ID: "c", EventID: "n1", Sequence: 1, State: statekeep.JSON("{}")}
	if _, err := client.State.SaveCheckpoint(t.Context(), "t", checkpoint, nil); err != nil {
		t.Fatal(err)
	}
	appendNotes(t, client, "t", 2, 2)
	records, err := statekeep.Collect(client.State.StreamRecords(t.Context(), "t", nil).All())
	if err != nil || len(records) != 3 {
		t.Fatal(len(records), err)
	}
	if records[0].Event.ID != "n1" || records[1].Checkpoint.ID != "c" || records[2].Event.ID != "n2" {
		t.Errorf("%+v", records)
	}
}

func TestAForkIsReadWithWhatItInherits(t *testing.T) {
	client := servertest.Start(t).Connect()
	appendNotes(t, client, "t", 1, 3)
	first := &statekeep.NewEvent{ID: "f", Type: "forked"}
	options := &statekeep.ForkOptions{Name: new("draft"), Event: first}
	forked, err := client.State.Fork(t.Context(), "t", "n2", options)
	if err != nil || forked.Branch.ID != "draft" || forked.Event.ID != "f" || forked.Checkpoint != nil {
		t.Fatal(forked, err)
	}
	line := &statekeep.StreamOptions{Branch: "draft", IncludeAncestors: true}
	if ids := idsOf(t, client.State.StreamHistory(t.Context(), "t", line)); !slices.Equal(ids, []string{"n1", "n2", "f"}) {
		t.Error(ids)
	}
	if _, err := client.State.Fork(t.Context(), "t", "n2", options); !errors.Is(err, statekeep.BranchExists) {
		t.Error(err)
	}
}

func TestPagesAreWalkedByTheClient(t *testing.T) {
	client := servertest.Start(t).Connect()
	var writes []statekeep.Write
	for n := range 7 {
		writes = append(writes, statekeep.Write{Key: fmt.Sprintf("k%d", n), Value: statekeep.JSON("1")})
	}
	if _, err := client.Memory.BatchSet(t.Context(), app, writes, nil); err != nil {
		t.Fatal(err)
	}
	pages := client.Memory.List(t.Context(), app, &statekeep.ListOptions{PageSize: 3})
	entries, err := statekeep.Collect(pages)
	if err != nil || len(entries) != 7 || entries[6].Key != "k6" {
		t.Fatal(len(entries), err)
	}
	for entry, err := range pages {
		if err != nil || entry.Key != "k0" {
			t.Error(entry, err)
		}
		break
	}
	_, err = statekeep.Collect(client.Memory.List(t.Context(), app, &statekeep.ListOptions{PageSize: -1}))
	if !errors.Is(err, statekeep.InvalidField) {
		t.Error(err)
	}
}

func TestVersionsGoOnWhereALoopWasLeft(t *testing.T) {
	client := servertest.Start(t).Connect()
	for range 4 {
		if _, err := client.Memory.Set(t.Context(), app, "k", statekeep.JSON("1"), nil); err != nil {
			t.Fatal(err)
		}
	}
	for options, right := range map[*statekeep.VersionsOptions][]int64{
		{}:                            {4, 3, 2, 1},
		{Limit: 3}:                    {4, 3, 2},
		{OldestFirst: true}:           {1, 2, 3, 4},
		{OldestFirst: true, Limit: 2}: {1, 2},
	} {
		stream := client.Memory.History(t.Context(), app, "k", options)
		var versions []int64
		for range 5 {
			for entry, err := range stream.All() {
				if err != nil {
					t.Fatal(err)
				}
				versions = append(versions, entry.Version)
				break
			}
		}
		if !slices.Equal(versions, right) {
			t.Errorf("%+v: %v", options, versions)
		}
	}
}

func TestAnAttachedInstanceEndsWithItsAttachment(t *testing.T) {
	server := servertest.Start(t)
	client := server.Connect()
	attached, err := client.Scratch.Attach(t.Context(), "i")
	if err != nil || attached.InstanceID != "i" {
		t.Fatal(attached, err)
	}
	if _, err := client.Scratch.Attach(t.Context(), "i"); !errors.Is(err, statekeep.InstanceAttached) {
		t.Error(err)
	}
	attached.Close()
	<-attached.Done()
	attached.Close()
	again, err := client.Scratch.Attach(t.Context(), "other")
	if err != nil || again.Err() != nil {
		t.Fatal(err)
	}
	server.Kill()
	<-again.Done()
	if again.Err() == nil {
		t.Error("it does not say that its connection was lost")
	}
}
