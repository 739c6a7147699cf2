package dev.statekeep;

/** Why a server refused a call: the contract's stable names. */
public enum Reason {
  /** A field is malformed or missing: see {@link StatekeepException#fields()}. */
  INVALID_FIELD,
  /**
   * The record is over the server's limit: {@code size} and {@code max} in the metadata, in bytes.
   */
  VALUE_TOO_LARGE,
  /** The request id was used before, for another request. */
  REQUEST_ID_REUSED,
  /**
   * The key's version is not the expected one: {@code expected} and {@code actual} in the metadata.
   */
  VERSION_MISMATCH,
  /**
   * The branch's last sequence is not the expected one: {@code expected} and {@code actual} in the
   * metadata.
   */
  SEQUENCE_MISMATCH,
  /** The branch holds an event of this id that says something else. */
  EVENT_EXISTS,
  /** The thread has a branch of this name. */
  BRANCH_EXISTS,
  /** The branch holds no such event. */
  EVENT_NOT_FOUND,
  /** There is no such thread. */
  THREAD_NOT_FOUND,
  /** The thread has no such branch. */
  BRANCH_NOT_FOUND,
  /**
   * What followed the cursor was removed: {@code oldest} in the metadata is where a read can begin.
   */
  REVISION_GONE,
  /** The cursor was never reached: {@code newest} in the metadata is the last there is. */
  REVISION_AHEAD,
  /**
   * The branch does not fit one message: read it with {@link StateStore#streamHistory(BranchId)}.
   */
  HISTORY_TOO_LARGE,
  /** The limit named in the metadata ({@code limit}, {@code max}) was reached. */
  LIMIT_REACHED,
  /** The server lets no stream follow for longer. A read is resumed by itself. */
  STREAM_AGE_REACHED,
  /** The server is going away. */
  SHUTTING_DOWN,
  /** The server's store does not answer. */
  STORE_UNAVAILABLE,
  /** The scratch instance is attached by someone else. */
  INSTANCE_ATTACHED,
  /** The token is missing or wrong. */
  UNAUTHENTICATED,
  /** The token does not allow the request. */
  PERMISSION_DENIED,
  /** The error is gRPC's own or this client's, and has no reason. */
  NONE,
  /**
   * The server is newer than this client: {@link StatekeepException#reasonName()} has what it said.
   */
  UNRECOGNIZED;

  static Reason of(String name) {
    if (name.isEmpty()) {
      return NONE;
    }
    for (Reason reason : values()) {
      if (reason.name().equals(name) && reason != NONE) {
        return reason;
      }
    }
    return UNRECOGNIZED;
  }
}
