package statekeep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"statekeep.dev/go/statekeepv1"
)

// Kind is what a [Value] is.
type Kind int

// The kinds of a value.
const (
	NoValue  Kind = iota // The zero Value: none. Refused where one is required.
	KindJSON             // One JSON text.
	KindText             // Plain text.
	KindData             // Bytes.
)

// Value is a value of any program in any language, kept byte for byte. JSON stays the text that was sent, so no number
// loses digits: [Value.Unmarshal] reads it. The zero Value is none.
type Value struct {
	// ContentType is the media type. Empty it reads application/json, text/plain or application/octet-stream, by kind.
	ContentType string

	kind  Kind
	bytes string // immutable, so that a Value can be copied and kept
}

// JSON is the value of a JSON text, such as a literal or a [json.RawMessage], which is kept as it is. The server
// refuses what is not RFC 8259.
func JSON[Text ~string | ~[]byte](text Text) Value { return Value{kind: KindJSON, bytes: string(text)} }

// Text is the value of a text, which must be UTF-8.
func Text(text string) Value { return Value{kind: KindText, bytes: text} }

// Data is the value of bytes, which are copied.
func Data(data []byte) Value { return Value{kind: KindData, bytes: string(data)} }

// Marshal is the value of the JSON that [encoding/json] makes of anything. It fails as [json.Marshal] does.
func Marshal(v any) (Value, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return Value{}, fmt.Errorf("statekeep: %T has no JSON: %w", v, err)
	}
	return JSON(text), nil
}

// WithContentType is the value with a media type.
func (v Value) WithContentType(contentType string) Value {
	v.ContentType = contentType
	return v
}

// Kind is what the value is.
func (v Value) Kind() Kind { return v.kind }

// IsZero tells whether there is no value. JSON null is one.
func (v Value) IsZero() bool { return v.kind == NoValue }

// String is the JSON text or the text as it was sent, or the bytes.
func (v Value) String() string { return v.bytes }

// Bytes is a copy of the same.
func (v Value) Bytes() []byte { return []byte(v.bytes) }

// RawMessage is the JSON text as it was sent, and nil for another kind.
func (v Value) RawMessage() json.RawMessage {
	if v.kind != KindJSON {
		return nil
	}
	return json.RawMessage(v.bytes)
}

// Unmarshal reads JSON as [json.Unmarshal] does, but for numbers whose type is left open (any): they become a
// [json.Number], which has all digits. It fails for a value of another kind.
func (v Value) Unmarshal(into any) error {
	if v.kind != KindJSON {
		return fmt.Errorf("statekeep: the value is no JSON: it is %s", v.kind)
	}
	decoder := json.NewDecoder(strings.NewReader(v.bytes))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("statekeep: the JSON does not fit a %T: %w", into, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("statekeep: the JSON goes on after its first value")
	}
	return nil
}

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case NoValue:
		return "no value"
	case KindJSON:
		return "JSON"
	case KindText:
		return "text"
	case KindData:
		return "data"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

func (v Value) message() *statekeepv1.Value {
	message := &statekeepv1.Value{ContentType: v.ContentType}
	switch v.kind {
	case KindJSON:
		message.Kind = &statekeepv1.Value_Json{Json: v.bytes}
	case KindText:
		message.Kind = &statekeepv1.Value_Text{Text: v.bytes}
	case KindData:
		message.Kind = &statekeepv1.Value_Data{Data: []byte(v.bytes)}
	default:
		return nil
	}
	return message
}

func valueOf(message *statekeepv1.Value) Value {
	value := Value{ContentType: message.GetContentType()}
	switch kind := message.GetKind().(type) {
	case *statekeepv1.Value_Json:
		value.kind, value.bytes = KindJSON, kind.Json
	case *statekeepv1.Value_Text:
		value.kind, value.bytes = KindText, kind.Text
	case *statekeepv1.Value_Data:
		value.kind, value.bytes = KindData, string(kind.Data)
	}
	return value
}
