// Package statekeep is the client of a Statekeep server: versioned memory, scratch values and event histories, kept
// over gRPC.
//
//	client, err := statekeep.NewClient("127.0.0.1:50051")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	_, err = client.Memory.Set(ctx, statekeep.Namespace("app"), "greeting", statekeep.JSON(`{"text": "hello"}`), nil)
//
// Every call takes a context. One without a deadline gets the client's (see [WithTimeout]); a stream has only the
// context's own. The last argument of most methods is a pointer to options, where nil takes the defaults.
//
// What is not there is no error: a method that finds nothing answers nil, or nothing to range over. Every error of a
// call is an [*Error], and its [Reason] is what to ask for:
//
//	if errors.Is(err, statekeep.VersionMismatch) { … }
//
// A lost connection is tried again where that is safe: unary calls that read, or that the server knows by the id which
// this client gives them, a few times; streams from where they were, without a gap and without a repeat.
package statekeep
