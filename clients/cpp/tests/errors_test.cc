// Each reason of the contract is an error class of its own.
#include <gtest/gtest.h>

#include <typeinfo>

#include "../src/failure.h"
#include "error_details.pb.h"
#include "server.h"
#include "statekeep/client.h"

namespace statekeep::testing {
namespace {

using grpc::StatusCode;

grpc::Status StatusOf(StatusCode code, const std::string& reason) {
  internal::ErrorInfo info;
  info.set_reason(reason);
  (*info.mutable_metadata())["actual"] = "3";
  internal::BadRequest request;
  auto* violation = request.add_field_violations();
  violation->set_field("entry.key");
  violation->set_description("is empty");
  internal::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  internal::Status status;
  const auto add = [&status](const char* kind, const google::protobuf::Message& detail) {
    auto* any = status.add_details();
    any->set_type_url(std::string("type.googleapis.com/google.rpc.") + kind);
    any->set_value(detail.SerializeAsString());
  };
  add("ErrorInfo", info);
  add("BadRequest", request);
  add("RetryInfo", retry);
  return {code, "in words", status.SerializeAsString()};
}

template <class Kind>
void ExpectKind(StatusCode code, const std::string& reason) {
  try {
    std::rethrow_exception(internal::ErrorOf(StatusOf(code, reason)));
  } catch (const Error& error) {
    EXPECT_EQ(typeid(error), typeid(Kind)) << reason;
    EXPECT_EQ(error.code(), code) << reason;
    EXPECT_EQ(error.reason(), reason);
  }
}

TEST(Errors, EachReasonIsAClassOfItsOwn) {
  ExpectKind<InvalidFieldError>(StatusCode::INVALID_ARGUMENT, "INVALID_FIELD");
  ExpectKind<ValueTooLargeError>(StatusCode::INVALID_ARGUMENT, "VALUE_TOO_LARGE");
  ExpectKind<RequestIdReusedError>(StatusCode::INVALID_ARGUMENT, "REQUEST_ID_REUSED");
  ExpectKind<VersionMismatchError>(StatusCode::ABORTED, "VERSION_MISMATCH");
  ExpectKind<SequenceMismatchError>(StatusCode::ABORTED, "SEQUENCE_MISMATCH");
  ExpectKind<EventExistsError>(StatusCode::ALREADY_EXISTS, "EVENT_EXISTS");
  ExpectKind<BranchExistsError>(StatusCode::ALREADY_EXISTS, "BRANCH_EXISTS");
  ExpectKind<EventNotFoundError>(StatusCode::NOT_FOUND, "EVENT_NOT_FOUND");
  ExpectKind<ThreadNotFoundError>(StatusCode::NOT_FOUND, "THREAD_NOT_FOUND");
  ExpectKind<BranchNotFoundError>(StatusCode::NOT_FOUND, "BRANCH_NOT_FOUND");
  ExpectKind<RevisionGoneError>(StatusCode::OUT_OF_RANGE, "REVISION_GONE");
  ExpectKind<RevisionAheadError>(StatusCode::OUT_OF_RANGE, "REVISION_AHEAD");
  ExpectKind<HistoryTooLargeError>(StatusCode::RESOURCE_EXHAUSTED, "HISTORY_TOO_LARGE");
  ExpectKind<LimitReachedError>(StatusCode::RESOURCE_EXHAUSTED, "LIMIT_REACHED");
  ExpectKind<StreamAgeReachedError>(StatusCode::UNAVAILABLE, "STREAM_AGE_REACHED");
  ExpectKind<ShuttingDownError>(StatusCode::UNAVAILABLE, "SHUTTING_DOWN");
  ExpectKind<StoreUnavailableError>(StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE");
  ExpectKind<InstanceAttachedError>(StatusCode::FAILED_PRECONDITION, "INSTANCE_ATTACHED");
  ExpectKind<UnauthenticatedError>(StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED");
  ExpectKind<PermissionDeniedError>(StatusCode::PERMISSION_DENIED, "PERMISSION_DENIED");
}

TEST(Errors, AReasonThatIsNotKnownYetIsTheErrorOfItsCode) {
  ExpectKind<ConflictError>(StatusCode::ABORTED, "OF_A_LATER_VERSION");
  ExpectKind<InternalError>(StatusCode::INTERNAL, "OF_A_LATER_VERSION");
  ExpectKind<Error>(StatusCode::DATA_LOSS, "OF_A_LATER_VERSION");
}

TEST(Errors, CarryWhatTheServerSaid) {
  try {
    std::rethrow_exception(internal::ErrorOf(StatusOf(StatusCode::ABORTED, "VERSION_MISMATCH")));
  } catch (const ConflictError& error) {
    EXPECT_STREQ(error.what(), "in words");
    EXPECT_EQ(error.metadata().at("actual"), "3");
    EXPECT_EQ(error.fields().at("entry.key"), "is empty");
    EXPECT_EQ(error.retry_delay(), std::chrono::milliseconds(1500));
  }
}

TEST(Errors, DetailsThatCannotBeReadLeaveTheCode) {
  EXPECT_THROW(std::rethrow_exception(internal::ErrorOf({StatusCode::NOT_FOUND, "m", "\xff\xff"})), NotFoundError);
}

TEST(Errors, OfARealServerAreTyped) {
  const ServerProcess server;
  const Client client({.address = server.address()});
  const auto scope = NamespaceScope("s");
  client.memory().Set(scope, "k", Json("1"));
  try {
    client.memory().Set(scope, "k", Json("2"), {.version = {.expected_version = 7}});
    FAIL() << "it was written";
  } catch (const VersionMismatchError& error) {
    EXPECT_EQ(error.metadata().at("expected"), "7");
    EXPECT_EQ(error.metadata().at("actual"), "1");
  }
  try {
    client.memory().Set(scope, "no:colons", Json("2"));
    FAIL() << "it was written";
  } catch (const InvalidFieldError& error) {
    EXPECT_TRUE(error.fields().contains("key"));
  }
  EXPECT_THROW(client.memory().Set(scope, "k", Json("NaN")), InvalidFieldError);
}

}  // namespace
}  // namespace statekeep::testing
