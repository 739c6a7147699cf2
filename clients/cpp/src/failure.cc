#include "failure.h"

#include <string_view>
#include <unordered_map>

#include "error_details.pb.h"
#include "statekeep/errors.h"

namespace statekeep::internal {
namespace {

using Make = std::exception_ptr (*)(const std::string&, ErrorDetails);

template <class Kind>
std::exception_ptr Made(const std::string& message, ErrorDetails details) {
  return std::make_exception_ptr(Kind(message, std::move(details)));
}

// The Errors table of the contract, turned around.
const std::unordered_map<std::string_view, Make> kByReason = {
    {"INVALID_FIELD", Made<InvalidFieldError>},         {"VALUE_TOO_LARGE", Made<ValueTooLargeError>},
    {"REQUEST_ID_REUSED", Made<RequestIdReusedError>},  {"VERSION_MISMATCH", Made<VersionMismatchError>},
    {"SEQUENCE_MISMATCH", Made<SequenceMismatchError>}, {"EVENT_EXISTS", Made<EventExistsError>},
    {"BRANCH_EXISTS", Made<BranchExistsError>},         {"EVENT_NOT_FOUND", Made<EventNotFoundError>},
    {"THREAD_NOT_FOUND", Made<ThreadNotFoundError>},    {"BRANCH_NOT_FOUND", Made<BranchNotFoundError>},
    {"REVISION_GONE", Made<RevisionGoneError>},         {"REVISION_AHEAD", Made<RevisionAheadError>},
    {"HISTORY_TOO_LARGE", Made<HistoryTooLargeError>},  {"LIMIT_REACHED", Made<LimitReachedError>},
    {"SHUTTING_DOWN", Made<ShuttingDownError>},         {"STORE_UNAVAILABLE", Made<StoreUnavailableError>},
    {"INSTANCE_ATTACHED", Made<InstanceAttachedError>}, {"UNAUTHENTICATED", Made<UnauthenticatedError>},
    {"PERMISSION_DENIED", Made<PermissionDeniedError>}, {"STREAM_AGE_REACHED", Made<StreamAgeReachedError>},
};

// For a reason that this client does not know yet, and for what gRPC itself answers.
const std::unordered_map<int, Make> kByCode = {
    {grpc::StatusCode::INVALID_ARGUMENT, Made<InvalidArgumentError>},
    {grpc::StatusCode::ABORTED, Made<ConflictError>},
    {grpc::StatusCode::ALREADY_EXISTS, Made<AlreadyExistsError>},
    {grpc::StatusCode::NOT_FOUND, Made<NotFoundError>},
    {grpc::StatusCode::OUT_OF_RANGE, Made<CursorError>},
    {grpc::StatusCode::RESOURCE_EXHAUSTED, Made<ResourceExhaustedError>},
    {grpc::StatusCode::UNAVAILABLE, Made<UnavailableError>},
    {grpc::StatusCode::FAILED_PRECONDITION, Made<FailedPreconditionError>},
    {grpc::StatusCode::UNAUTHENTICATED, Made<UnauthenticatedError>},
    {grpc::StatusCode::PERMISSION_DENIED, Made<PermissionDeniedError>},
    {grpc::StatusCode::DEADLINE_EXCEEDED, Made<DeadlineExceededError>},
    {grpc::StatusCode::CANCELLED, Made<CancelledError>},
    {grpc::StatusCode::UNIMPLEMENTED, Made<UnimplementedError>},
    {grpc::StatusCode::INTERNAL, Made<InternalError>},
};

// Reads a detail where it is of the kind named. By name, since its type here is this client's own.
template <class Detail>
bool Unpack(const google::protobuf::Any& any, std::string_view kind, Detail& detail) {
  return std::string_view(any.type_url()).ends_with(kind) && detail.ParseFromString(any.value());
}

void Add(const google::protobuf::Any& any, ErrorDetails& details) {
  ErrorInfo info;
  BadRequest request;
  RetryInfo retry;
  if (Unpack(any, "/google.rpc.ErrorInfo", info)) {
    details.reason = info.reason();
    details.metadata.insert(info.metadata().begin(), info.metadata().end());
  } else if (Unpack(any, "/google.rpc.BadRequest", request)) {
    for (const auto& violation : request.field_violations())
      details.fields.emplace(violation.field(), violation.description());
  } else if (Unpack(any, "/google.rpc.RetryInfo", retry) && retry.has_retry_delay()) {
    const auto& delay = retry.retry_delay();
    details.retry_delay = std::chrono::milliseconds(delay.seconds() * 1000 + delay.nanos() / 1'000'000);
  }
}

}  // namespace

std::exception_ptr ErrorOf(const grpc::Status& status) {
  ErrorDetails details{.code = status.error_code()};
  Status sent;
  if (sent.ParseFromString(status.error_details())) {
    for (const auto& any : sent.details()) Add(any, details);
  }
  std::string message = status.error_message();
  if (message.empty()) message = "the call failed with status code " + std::to_string(status.error_code());
  if (const auto found = kByReason.find(details.reason); found != kByReason.end())
    return found->second(message, std::move(details));
  const auto found = kByCode.find(status.error_code());
  return found == kByCode.end() ? Made<Error>(message, std::move(details)) : found->second(message, std::move(details));
}

}  // namespace statekeep::internal
