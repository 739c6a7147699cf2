// What can go wrong: one class for each reason a server gives, under one for each kind of failure.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <chrono>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

namespace statekeep {

/// What a failed call says beside its message.
struct ErrorDetails {
  /// The gRPC status code.
  grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  /// The server's stable name for it, such as VERSION_MISMATCH; empty where gRPC or this client raised the error.
  std::string reason = {};
  /// The variable parts of the message, by name.
  std::map<std::string, std::string> metadata = {};
  /// What is wrong with each field at fault, by the field's path.
  std::map<std::string, std::string> fields = {};
  /// After how long the server suggests to try again.
  std::optional<std::chrono::milliseconds> retry_delay = {};
};

/// The base of every error that a call throws. `what()` says in words what happened.
class Error : public std::runtime_error {
 public:
  Error(const std::string& message, ErrorDetails details) : std::runtime_error(message), details_(std::move(details)) {}

  grpc::StatusCode code() const noexcept { return details_.code; }
  const std::string& reason() const noexcept { return details_.reason; }
  const std::map<std::string, std::string>& metadata() const noexcept { return details_.metadata; }
  const std::map<std::string, std::string>& fields() const noexcept { return details_.fields; }
  std::optional<std::chrono::milliseconds> retry_delay() const noexcept { return details_.retry_delay; }

 private:
  ErrorDetails details_;
};

/// The request itself is wrong; sending it again does not help.
class InvalidArgumentError : public Error {
 public:
  using Error::Error;
};
/// A field is malformed or missing: see `fields()`.
class InvalidFieldError final : public InvalidArgumentError {
 public:
  using InvalidArgumentError::InvalidArgumentError;
};
/// The record is over the server's limit: `size` and `max` in the metadata, in bytes.
class ValueTooLargeError final : public InvalidArgumentError {
 public:
  using InvalidArgumentError::InvalidArgumentError;
};
/// The request id was used before, for another request.
class RequestIdReusedError final : public InvalidArgumentError {
 public:
  using InvalidArgumentError::InvalidArgumentError;
};

/// Someone else was faster: read again, and decide again. `expected` and `actual` in the metadata.
class ConflictError : public Error {
 public:
  using Error::Error;
};
/// The key's version is not the expected one.
class VersionMismatchError final : public ConflictError {
 public:
  using ConflictError::ConflictError;
};
/// The branch's last sequence is not the expected one.
class SequenceMismatchError final : public ConflictError {
 public:
  using ConflictError::ConflictError;
};

/// The name or id is taken.
class AlreadyExistsError : public Error {
 public:
  using Error::Error;
};
/// The branch holds an event of this id that says something else.
class EventExistsError final : public AlreadyExistsError {
 public:
  using AlreadyExistsError::AlreadyExistsError;
};
/// The thread has a branch of this name.
class BranchExistsError final : public AlreadyExistsError {
 public:
  using AlreadyExistsError::AlreadyExistsError;
};

/// Something the request names is not there.
class NotFoundError : public Error {
 public:
  using Error::Error;
};
/// The branch holds no such event.
class EventNotFoundError final : public NotFoundError {
 public:
  using NotFoundError::NotFoundError;
};
/// There is no such thread.
class ThreadNotFoundError final : public NotFoundError {
 public:
  using NotFoundError::NotFoundError;
};
/// The thread has no such branch.
class BranchNotFoundError final : public NotFoundError {
 public:
  using NotFoundError::NotFoundError;
};

/// A read cannot resume at the revision given.
class CursorError : public Error {
 public:
  using Error::Error;
};
/// What followed the revision was removed: `oldest` in the metadata is where a read can begin.
class RevisionGoneError final : public CursorError {
 public:
  using CursorError::CursorError;
};
/// The revision was never reached: `newest` in the metadata is the last there is.
class RevisionAheadError final : public CursorError {
 public:
  using CursorError::CursorError;
};

/// A limit was reached. Never retried.
class ResourceExhaustedError : public Error {
 public:
  using Error::Error;
};
/// The branch does not fit one message: read it with StreamHistory.
class HistoryTooLargeError final : public ResourceExhaustedError {
 public:
  using ResourceExhaustedError::ResourceExhaustedError;
};
/// The server's limit named in the metadata (`limit`, `max`) was reached.
class LimitReachedError final : public ResourceExhaustedError {
 public:
  using ResourceExhaustedError::ResourceExhaustedError;
};

/// The server could not be reached, or cannot answer now. The only error that is retried.
class UnavailableError : public Error {
 public:
  using Error::Error;
};
/// The server lets no stream follow for longer. A read is resumed by itself.
class StreamAgeReachedError final : public UnavailableError {
 public:
  using UnavailableError::UnavailableError;
};
/// The server is going away.
class ShuttingDownError final : public UnavailableError {
 public:
  using UnavailableError::UnavailableError;
};
/// The server's store does not answer.
class StoreUnavailableError final : public UnavailableError {
 public:
  using UnavailableError::UnavailableError;
};

/// The state of things does not allow the request.
class FailedPreconditionError : public Error {
 public:
  using Error::Error;
};
/// Someone else has the scratch instance attached.
class InstanceAttachedError final : public FailedPreconditionError {
 public:
  using FailedPreconditionError::FailedPreconditionError;
};

/// The token is missing or wrong.
class UnauthenticatedError final : public Error {
 public:
  using Error::Error;
};
/// The token does not allow the request.
class PermissionDeniedError final : public Error {
 public:
  using Error::Error;
};
/// No answer came in time. A write may have happened all the same.
class DeadlineExceededError final : public Error {
 public:
  using Error::Error;
};
/// The call's stop token asked for its end.
class CancelledError final : public Error {
 public:
  using Error::Error;
};
/// The server does not know the method: it is older than this client, or no Statekeep.
class UnimplementedError final : public Error {
 public:
  using Error::Error;
};
/// The server, or gRPC, is at fault.
class InternalError final : public Error {
 public:
  using Error::Error;
};

}  // namespace statekeep
