// Reads a stream, makes a lost connection again, and goes on from where it was.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "connection.h"
#include "statekeep/errors.h"
#include "statekeep/range.h"

namespace statekeep::internal {

using Clock = std::chrono::steady_clock;

// How long to go on trying while nothing comes. A read that had a message tries for as long as it was told, from the
// first failure since then on; one that never had any, only a few times: its server may never have been there.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds limit) : limit_(limit) {}

  // A message came.
  void Progress();
  // How long to wait before the next try. Throws the error where there is to be none.
  std::chrono::milliseconds Pause(const std::exception_ptr& error);

 private:
  std::chrono::milliseconds Own() const;

  std::chrono::milliseconds limit_;
  bool began_ = false;
  int tries_ = 0;
  Clock::time_point lost_at_;
};

// A call under way. Destroying it ends it.
template <class Message>
class StreamCall {
 public:
  template <class Stub, class Request>
  StreamCall(const Connection& connection, const std::unique_ptr<Stub>& stub,
             std::unique_ptr<grpc::ClientReader<Message>> (Stub::*method)(grpc::ClientContext*, const Request&),
             const Request& request, std::optional<std::chrono::milliseconds> timeout) {
    connection.Prepare(context_, timeout.value_or(std::chrono::milliseconds(0)));
    reader_ = ((*stub).*method)(&context_, request);
  }
  ~StreamCall() {
    if (finished_) return;
    Cancel();
    reader_->Finish();
  }
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  void Cancel() { context_.TryCancel(); }
  bool Read(Message& message) { return reader_->Read(&message); }
  grpc::Status Finish() {
    finished_ = true;
    return reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Message>> reader_;
  bool finished_ = false;
};

// A stream as a source of items. Its place says what is asked, takes what comes, and hands out items:
//   Item, Message; Open(connection, timeout) -> unique_ptr<StreamCall<Message>>, null where nothing is left to ask for;
//   Take(message); HandOut() -> optional<Item>; revision(); caught_up().
template <class Place>
class Reading final : public StreamSource<typename Place::Item> {
 public:
  using Item = typename Place::Item;
  using Message = typename Place::Message;

  // Returns once the server has answered.
  Reading(std::shared_ptr<Connection> connection, Place place, const StreamOptions& options)
      : connection_(std::move(connection)),
        place_(std::move(place)),
        patience_(options.patience),
        stop_(options.stop),
        on_stop_(options.stop, [this] { Cancel(); }) {
    if (options.timeout) deadline_ = Clock::now() + *options.timeout;
    Fill();
  }

  std::optional<Item> Next() override {
    while (true) {
      if (Cancelled()) return std::nullopt;
      if (auto item = place_.HandOut()) return item;
      if (!Fill()) return std::nullopt;
    }
  }

  void Cancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (call_) call_->Cancel();
    wake_.notify_all();
  }

  std::int64_t revision() const override { return place_.revision(); }
  bool caught_up() const override { return place_.caught_up(); }

 private:
  // Waits for the next message; false at the end.
  bool Fill() {
    while (!ended_ && !Cancelled() && Open()) {
      Message message;
      if (call_->Read(message)) {
        patience_.Progress();
        place_.Take(std::move(message));
        return true;
      }
      const auto status = call_->Finish();
      Drop();
      ended_ = status.ok();
      if (!ended_ && !Cancelled()) Lose(status);
    }
    ended_ = true;
    return false;
  }

  // Makes the call where there is none; false where nothing is left to ask for.
  bool Open() {
    if (call_) return true;
    auto call = place_.Open(*connection_, TimeLeft());
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
    if (cancelled_ && call_) call_->Cancel();
    return call_ != nullptr;
  }

  void Drop() {
    const std::lock_guard lock(mutex_);
    call_.reset();
  }

  // Waits before the next try. Throws where there is to be none.
  void Lose(const grpc::Status& status) {
    const auto error = ErrorOf(status);
    ended_ = true;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) std::rethrow_exception(error);
    const auto pause = patience_.Pause(error);
    ended_ = false;
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, pause, [this] { return cancelled_; });
  }

  // Whether someone ended it. Throws where that was the stop token: a read cut short is not to pass for a whole one.
  bool Cancelled() {
    if (stop_.stop_requested())
      throw CancelledError("the stream's stop token asked for its end", {.code = grpc::StatusCode::CANCELLED});
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

  std::optional<std::chrono::milliseconds> TimeLeft() const {
    if (!deadline_) return std::nullopt;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(1));  // 0 would be no deadline
  }

  std::shared_ptr<Connection> connection_;
  Place place_;
  Patience patience_;
  std::optional<Clock::time_point> deadline_;
  bool ended_ = false;
  std::mutex mutex_;  // guards cancelled_, and call_ where another thread looks at it
  std::condition_variable wake_;
  bool cancelled_ = false;
  std::unique_ptr<StreamCall<Message>> call_;
  std::stop_token stop_;
  std::stop_callback<std::function<void()>> on_stop_;  // last, so that it is gone first
};

// Records that are counted in revisions, of one message after the other.
template <class Item>
class Line {
 public:
  explicit Line(std::int64_t revision) : revision_(revision) {}

  // Adds a message: its records in order, each with its revision, and how far the message reaches.
  void Add(std::deque<std::pair<std::int64_t, Item>> records, std::int64_t revision, bool caught_up) {
    records_ = std::move(records);
    end_ = revision;
    end_caught_up_ = caught_up;
    if (records_.empty()) Move();
  }

  std::optional<Item> HandOut() {
    if (records_.empty()) return std::nullopt;
    auto [revision, item] = std::move(records_.front());
    records_.pop_front();
    revision_ = revision;
    if (records_.empty()) Move();
    return std::move(item);
  }

  std::int64_t revision() const { return revision_; }
  bool caught_up() const { return caught_up_; }

 private:
  void Move() {
    revision_ = end_;
    caught_up_ |= end_caught_up_;
  }

  std::deque<std::pair<std::int64_t, Item>> records_;
  std::int64_t revision_;
  std::int64_t end_ = 0;
  bool caught_up_ = false;
  bool end_caught_up_ = false;
};

}  // namespace statekeep::internal
