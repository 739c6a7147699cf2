package statekeep_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"statekeep.dev/go/internal/servertest"
	"statekeep.dev/go/statekeep"
)

func TestValuesComeBackExactly(t *testing.T) {
	client := servertest.Start(t).Connect()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, value := range []statekeep.Value{
		statekeep.JSON(`18446744073709551616`),
		statekeep.JSON(json.RawMessage(" {\"b\": 9007199254740993, \"a\": -0.0,\n\"a\": 1e999} ")),
		statekeep.JSON(`null`),
		statekeep.Text("a\x00b 👩‍👩‍👧‍👦"),
		statekeep.Text(""),
		statekeep.Data(every),
		statekeep.Data(nil),
		statekeep.Text(strings.Repeat("x", 3_000_000)).WithContentType("text/markdown"),
	} {
		if _, err := client.Memory.Set(t.Context(), app, "k", value, nil); err != nil {
			t.Fatal(err)
		}
		entry, err := client.Memory.Get(t.Context(), app, "k", nil)
		if err != nil || entry.Value != value {
			t.Errorf("%.50q came back as %.50q: %v", value, entry.Value, err)
		}
	}
}

func TestUnmarshalLosesNoDigit(t *testing.T) {
	var open any
	if err := statekeep.JSON(`[18446744073709551616, 9007199254740993, 1.0]`).Unmarshal(&open); err != nil {
		t.Fatal(err)
	}
	again, err := statekeep.Marshal(open)
	if err != nil || again.String() != `[18446744073709551616,9007199254740993,1.0]` {
		t.Errorf("%s: %v", again, err)
	}
	var typed struct{ N int64 }
	if err := statekeep.JSON(`{"N": 9223372036854775807}`).Unmarshal(&typed); err != nil || typed.N != math.MaxInt64 {
		t.Errorf("%d: %v", typed.N, err)
	}
}

func TestWhatDoesNotFitIsSaidToBe(t *testing.T) {
	var number int8
	for value, right := range map[statekeep.Value]string{
		statekeep.Text("1"):      "it is text",
		{}:                       "it is no value",
		statekeep.JSON("300"):    "does not fit a *int8",
		statekeep.JSON("1 2"):    "goes on after its first value",
		statekeep.JSON("\"1"):    "does not fit a *int8",
		statekeep.Data([]byte{}): "it is data",
	} {
		if err := value.Unmarshal(&number); err == nil || !strings.Contains(err.Error(), right) {
			t.Errorf("%q: %v", value, err)
		}
	}
	if _, err := statekeep.Marshal(math.NaN()); err == nil {
		t.Error("there is no JSON of NaN")
	}
}

func TestAValueIsWhatItWasMadeOf(t *testing.T) {
	bytesOf := []byte("abc")
	value := statekeep.Data(bytesOf)
	bytesOf[0] = 'x'
	value.Bytes()[0] = 'y'
	if !bytes.Equal(value.Bytes(), []byte("abc")) {
		t.Errorf("it became %q", value)
	}
	if value.RawMessage() != nil || string(statekeep.JSON("[1]").RawMessage()) != "[1]" {
		t.Error("RawMessage is for JSON alone")
	}
	if !(statekeep.Value{}).IsZero() || statekeep.JSON("null").IsZero() {
		t.Error("JSON null is a value")
	}
}
