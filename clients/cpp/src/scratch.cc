#include "statekeep/scratch.h"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "connection.h"
#include "messages.h"
#include "reading.h"

namespace statekeep {

using Stub = v1::Scratch::Stub;

namespace internal {

// The call that holds an attached instance.
class AttachedCall {
 public:
  AttachedCall(std::shared_ptr<Connection> connection, const v1::ScratchAttachRequest& request,
               const AttachOptions& options)
      : connection_(std::move(connection)),
        call_(*connection_, connection_->scratch, &Stub::Attach, request, std::nullopt),
        on_stop_(options.stop, [this] { call_.Cancel(); }) {
    const Timer timer(options.timeout, [this] { call_.Cancel(); });
    v1::ScratchAttachResponse response;
    if (!call_.Read(response)) Fail(timer.Fired());
    instance_id_ = std::move(*response.mutable_instance_id());
  }

  const std::string& instance_id() const { return instance_id_; }

 private:
  // Ends the wait for the answer: the call itself has no deadline, for it lasts as long as the instance.
  class Timer {
   public:
    Timer(std::chrono::milliseconds timeout, std::function<void()> fire)
        : thread_([this, timeout, fire = std::move(fire)](const std::stop_token& stop) {
            std::unique_lock lock(mutex_);
            const auto stopped = [&stop] { return stop.stop_requested(); };
            if (timeout.count() == 0 || wake_.wait_for(lock, stop, timeout, stopped)) return;
            fired_ = !stop.stop_requested();
            if (fired_) fire();
          }) {}
    bool Fired() const {
      const std::lock_guard lock(mutex_);
      return fired_;
    }

   private:
    mutable std::mutex mutex_;
    std::condition_variable_any wake_;
    bool fired_ = false;
    std::jthread thread_;
  };

  [[noreturn]] void Fail(bool late) {
    auto status = call_.Finish();
    if (status.ok()) status = {grpc::StatusCode::INTERNAL, "the server ended Attach without an answer"};
    if (late) status = {grpc::StatusCode::DEADLINE_EXCEEDED, "no answer to Attach came in time"};
    std::rethrow_exception(ErrorOf(status));
  }

  std::shared_ptr<Connection> connection_;
  StreamCall<v1::ScratchAttachResponse> call_;
  std::string instance_id_;
  std::stop_callback<std::function<void()>> on_stop_;
};

}  // namespace internal

Attachment::Attachment(std::unique_ptr<internal::AttachedCall> call) : call_(std::move(call)) {}
Attachment::Attachment(Attachment&&) noexcept = default;
Attachment& Attachment::operator=(Attachment&&) noexcept = default;
Attachment::~Attachment() = default;

const std::string& Attachment::instance_id() const { return call_->instance_id(); }

Scratch::Scratch(std::shared_ptr<internal::Connection> connection) : connection_(std::move(connection)) {}

ScratchInstance Scratch::Open(OpenOptions options) {
  v1::ScratchOpenRequest request;
  request.set_instance_id(std::move(options.instance_id));
  if (options.idle_ttl) *request.mutable_idle_ttl() = internal::DurationOf(*options.idle_ttl);
  return connection_->Call(connection_->scratch, &Stub::Open, request, options.call);
}

std::string Scratch::Put(std::string instance_id, std::string key, Value value, CallOptions options) {
  v1::ScratchPutRequest request;
  request.set_instance_id(std::move(instance_id));
  request.set_key(std::move(key));
  if (value.kind_case() != Value::KIND_NOT_SET) *request.mutable_value() = std::move(value);
  return connection_->Call(connection_->scratch, &Stub::Put, request, options).key();
}

std::optional<ScratchItem> Scratch::Get(std::string instance_id, std::string key, CallOptions options) {
  v1::ScratchGetRequest request;
  request.set_instance_id(std::move(instance_id));
  request.set_key(std::move(key));
  auto response = connection_->Call(connection_->scratch, &Stub::Get, request, options);
  if (!response.has_value()) return std::nullopt;
  return ScratchItem{std::move(*response.mutable_key()), std::move(*response.mutable_value())};
}

std::vector<std::string> Scratch::List(std::string instance_id, CallOptions options) {
  v1::ScratchListRequest request;
  request.set_instance_id(std::move(instance_id));
  auto response = connection_->Call(connection_->scratch, &Stub::List, request, options);
  return internal::Taken(response.mutable_keys());
}

std::vector<std::string> Scratch::Clear(std::string instance_id, std::optional<std::string> key, CallOptions options) {
  v1::ScratchClearRequest request;
  request.set_instance_id(std::move(instance_id));
  if (key) request.set_key(std::move(*key));
  auto response = connection_->Call(connection_->scratch, &Stub::Clear, request, options);
  return internal::Taken(response.mutable_cleared());
}

std::vector<std::string> Scratch::Close(std::string instance_id, CallOptions options) {
  v1::ScratchCloseRequest request;
  request.set_instance_id(std::move(instance_id));
  auto response = connection_->Call(connection_->scratch, &Stub::Close, request, options);
  return internal::Taken(response.mutable_cleared());
}

Attachment Scratch::Attach(std::string instance_id, AttachOptions options) {
  v1::ScratchAttachRequest request;
  request.set_instance_id(std::move(instance_id));
  return Attachment(std::make_unique<internal::AttachedCall>(connection_, request, options));
}

}  // namespace statekeep
