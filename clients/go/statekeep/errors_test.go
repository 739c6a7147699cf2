package statekeep_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"statekeep.dev/go/internal/servertest"
	"statekeep.dev/go/statekeep"
)

func TestAConflictTellsWhatWasExpectedAndWhatIs(t *testing.T) {
	client := servertest.Start(t).Connect()
	once := &statekeep.SetOptions{ExpectedVersion: new(int64(0))}
	if _, err := client.Memory.Set(t.Context(), app, "k", statekeep.JSON("1"), once); err != nil {
		t.Fatal(err)
	}
	_, err := client.Memory.Set(t.Context(), app, "k", statekeep.JSON("2"), once)
	var failure *statekeep.Error
	if !errors.As(err, &failure) || !errors.Is(err, statekeep.VersionMismatch) {
		t.Fatal(err)
	}
	if failure.Code != codes.Aborted || failure.Metadata["expected"] != "0" || failure.Metadata["actual"] != "1" {
		t.Errorf("%+v", failure)
	}
	if errors.Is(err, statekeep.SequenceMismatch) || errors.Is(err, context.Canceled) {
		t.Error("it is taken for another")
	}
	if status.Code(err) != codes.Aborted {
		t.Errorf("gRPC reads it as %s", status.Code(err))
	}
}

func TestARefusalNamesTheField(t *testing.T) {
	client := servertest.Start(t).Connect()
	_, err := client.State.AppendNextEvent(t.Context(), "t", statekeep.NewEvent{}, nil)
	var failure *statekeep.Error
	if !errors.As(err, &failure) || !errors.Is(err, statekeep.InvalidField) {
		t.Fatal(err)
	}
	if len(failure.Fields) != 1 || failure.Fields[0].Field != "event.type" || failure.Fields[0].Description == "" {
		t.Errorf("%+v", failure.Fields)
	}
}

func TestReasonsThatTakeAServerWithTokensAreTyped(t *testing.T) {
	for reason, code := range map[statekeep.Reason]codes.Code{
		statekeep.Unauthenticated: codes.Unauthenticated, statekeep.PermissionDenied: codes.PermissionDenied,
	} {
		address := serve(t, &failing{get: func(context.Context) error { return refusal(code, string(reason)) }})
		_, err := servertest.Connect(t, address).Memory.Get(t.Context(), app, "k", nil)
		if !errors.Is(err, reason) || status.Code(err) != code {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestAFollowerOfAServerThatEndsIsToldSo(t *testing.T) {
	server := servertest.Start(t)
	client := server.Connect()
	follow := &statekeep.StreamOptions{Follow: true, RetryFor: -1}
	stream := client.State.StreamHistory(t.Context(), "t", follow)
	if err := stream.Begin(); err != nil {
		t.Fatal(err)
	}
	server.Terminate()
	_, err := statekeep.Collect(stream.All())
	var failure *statekeep.Error
	if !errors.As(err, &failure) || !errors.Is(err, statekeep.ShuttingDown) {
		t.Fatal(err)
	}
	if failure.Code != codes.Unavailable || failure.RetryDelay <= 0 {
		t.Errorf("%+v", failure)
	}
}

func TestAServerThatIsNotThereIsUnavailable(t *testing.T) {
	server := servertest.Start(t)
	client := server.Connect()
	server.Kill()
	if _, err := client.Memory.Get(t.Context(), app, "k", nil); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	_, err := statekeep.Collect(client.State.StreamHistory(t.Context(), "t", &statekeep.StreamOptions{Follow: true}).All())
	if status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

func TestATextThatIsNotUTF8IsNamedByItsField(t *testing.T) {
	client := servertest.Start(t).Connect()
	bad := statekeep.Text("a\xff")
	_, ofValue := client.Memory.Set(t.Context(), app, "k", bad, nil)
	labels := &statekeep.SetOptions{Labels: map[string]string{"\xff": ""}}
	_, ofLabel := client.Memory.Set(t.Context(), app, "k", statekeep.JSON("1"), labels)
	_, ofEvent := client.State.AppendEvents(t.Context(), "t", []statekeep.NewEvent{{Type: "x"}, {Type: "x", Data: bad}}, nil)
	_, ofStream := statekeep.Collect(client.State.StreamHistory(t.Context(), "\xff", nil).All())
	_, ofAttach := client.Scratch.Attach(t.Context(), "\xff")
	for right, err := range map[string]error{
		"value.text": ofValue, `labels["\xff"]`: ofLabel, "events[1].data.text": ofEvent, "thread_id": ofStream,
		"instance_id": ofAttach,
	} {
		var failure *statekeep.Error
		if !errors.As(err, &failure) || !errors.Is(err, statekeep.InvalidField) || failure.Fields[0].Field != right {
			t.Errorf("%s: %v", right, err)
		}
	}
}
