package statekeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason is the server's stable name for what went wrong. Each is an error, to be asked for with [errors.Is].
type Reason string

// The reasons of the contract, and the code each comes with. An error that gRPC itself or this client raised has none.
const (
	InvalidField     Reason = "INVALID_FIELD"      // InvalidArgument: a field is malformed or missing, see Error.Fields.
	ValueTooLarge    Reason = "VALUE_TOO_LARGE"    // InvalidArgument: "size" and "max" in the metadata, in bytes.
	RequestIDReused  Reason = "REQUEST_ID_REUSED"  // InvalidArgument: the id was used before, for another request.
	VersionMismatch  Reason = "VERSION_MISMATCH"   // Aborted: "expected" and "actual" in the metadata.
	SequenceMismatch Reason = "SEQUENCE_MISMATCH"  // Aborted: "expected" and "actual" in the metadata.
	EventExists      Reason = "EVENT_EXISTS"       // AlreadyExists: the branch holds another event of this id.
	BranchExists     Reason = "BRANCH_EXISTS"      // AlreadyExists: the branch's name is taken.
	EventNotFound    Reason = "EVENT_NOT_FOUND"    // NotFound
	ThreadNotFound   Reason = "THREAD_NOT_FOUND"   // NotFound
	BranchNotFound   Reason = "BRANCH_NOT_FOUND"   // NotFound
	RevisionGone     Reason = "REVISION_GONE"      // OutOfRange: what came after it is gone; "oldest" in the metadata.
	RevisionAhead    Reason = "REVISION_AHEAD"     // OutOfRange: the cursor was never reached; "newest" in the metadata.
	HistoryTooLarge  Reason = "HISTORY_TOO_LARGE"  // ResourceExhausted: StreamHistory reads what GetHistory cannot.
	LimitReached     Reason = "LIMIT_REACHED"      // ResourceExhausted: "limit" and "max" in the metadata.
	StreamAgeReached Reason = "STREAM_AGE_REACHED" // Unavailable: the server lets no stream follow longer; it is resumed.
	ShuttingDown     Reason = "SHUTTING_DOWN"      // Unavailable: the server ends, see Error.RetryDelay.
	StoreUnavailable Reason = "STORE_UNAVAILABLE"  // Unavailable: the server cannot reach its store.
	InstanceAttached Reason = "INSTANCE_ATTACHED"  // FailedPrecondition: someone else is attached to the instance.
	Unauthenticated  Reason = "UNAUTHENTICATED"    // Unauthenticated: the token is missing or unknown.
	PermissionDenied Reason = "PERMISSION_DENIED"  // PermissionDenied: the token does not allow this.
)

// Error is the reason's name.
func (r Reason) Error() string { return string(r) }

// FieldViolation is what is wrong with one field of a request.
type FieldViolation struct {
	Field       string // The field's path in the request's message, such as "event.thread_id".
	Description string
}

// Error is what a call failed with. [errors.Is] finds it by its [Reason], and by [context.Canceled] and
// [context.DeadlineExceeded] where the call was ended by its context.
type Error struct {
	Code       codes.Code        // The gRPC status code.
	Reason     Reason            // Empty where gRPC itself or this client raised the error.
	Message    string            // What happened, in words.
	Metadata   map[string]string // The variable parts of the message.
	Fields     []FieldViolation  // The fields at fault.
	RetryDelay time.Duration     // After how long the server suggests to try again; 0 where it does not.

	status *status.Status
}

// Error is the message, with the reason or else the code.
func (e *Error) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("statekeep: %s: %s", e.Reason, e.Message)
	}
	return fmt.Sprintf("statekeep: %s: %s", e.Code, e.Message)
}

// Is tells whether the error has a reason, or is a context's.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.Code == codes.Canceled
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	}
	reason, ok := target.(Reason)
	return ok && reason != "" && reason == e.Reason
}

// GRPCStatus is the status as gRPC gave it, for [status.FromError] and [status.Code].
func (e *Error) GRPCStatus() *status.Status { return e.status }

// errorOf is the typed error of a failed call, and nil for nil.
func errorOf(err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	told, ok := status.FromError(err)
	if !ok {
		told = status.FromContextError(err)
	}
	e := &Error{Code: told.Code(), Message: told.Message(), status: told}
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Reason, e.Metadata = Reason(detail.GetReason()), detail.GetMetadata()
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				e.Fields = append(e.Fields, FieldViolation{violation.GetField(), violation.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryDelay = detail.GetRetryDelay().AsDuration()
		}
	}
	return e
}
