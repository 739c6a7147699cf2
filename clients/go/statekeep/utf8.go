package statekeep

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

// refused is the error of a request that was not sent, with the field at fault where a text in it is no UTF-8: gRPC
// calls that INTERNAL, and names no field. Another error is answered as it is.
func refused(err error, request proto.Message) error {
	if status.Code(err) != codes.Internal {
		return err
	}
	field := notUTF8(request)
	if field == "" {
		return err
	}
	message := fmt.Sprintf("%s is not UTF-8; bytes go into a Value of Data", field)
	return &Error{
		Code: codes.InvalidArgument, Reason: InvalidField, Message: message,
		Fields: []FieldViolation{{field, "must be UTF-8"}}, status: status.New(codes.InvalidArgument, message),
	}
}

// notUTF8 is the path of the first field whose text, or whose key of a map, is no UTF-8; "" where all are.
func notUTF8(request proto.Message) string {
	found := ""
	// The walk fails only with what is returned here, and that is to end it.
	_ = protorange.Range(request.ProtoReflect(), func(at protopath.Values) error {
		last := at.Index(-1)
		text, isText := last.Value.Interface().(string)
		bad := isText && !utf8.ValidString(text)
		if last.Step.Kind() == protopath.MapIndexStep {
			key, isText := last.Step.MapIndex().Interface().(string)
			bad = bad || isText && !utf8.ValidString(key)
		}
		if bad {
			found = strings.TrimPrefix(at.Path[1:].String(), ".")
			return protorange.Terminate
		}
		return nil
	})
	return found
}
