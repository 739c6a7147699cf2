#include "statekeep/state.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "connection.h"
#include "messages.h"
#include "paging.h"
#include "reading.h"

namespace statekeep {
namespace {

using internal::TimestampOf;
using Stub = v1::StateStore::Stub;

std::string IdOr(std::string given) { return given.empty() ? internal::NewId() : std::move(given); }

void Fill(Event& message, NewEvent event) {
  message.set_id(IdOr(std::move(event.id)));
  message.set_type(std::move(event.type));
  if (event.data) *message.mutable_data() = std::move(*event.data);
  if (event.node) message.set_node(std::move(*event.node));
  if (event.parent_id) message.set_parent_id(std::move(*event.parent_id));
  if (event.error_type) message.set_error_type(std::move(*event.error_type));
  if (event.message) message.set_message(std::move(*event.message));
  if (event.create_time) *message.mutable_create_time() = TimestampOf(*event.create_time);
  message.mutable_labels()->insert(event.labels.begin(), event.labels.end());
}

void Fill(Checkpoint& message, NewCheckpoint checkpoint) {
  message.set_id(IdOr(std::move(checkpoint.id)));
  message.set_event_id(std::move(checkpoint.event_id));
  message.set_sequence(checkpoint.sequence);
  if (checkpoint.state.kind_case() != Value::KIND_NOT_SET) *message.mutable_state() = std::move(checkpoint.state);
  if (checkpoint.active) *message.mutable_active() = std::move(*checkpoint.active);
  message.set_status(std::move(checkpoint.status));
  if (checkpoint.create_time) *message.mutable_create_time() = TimestampOf(*checkpoint.create_time);
  if (checkpoint.parent_id) message.set_parent_id(std::move(*checkpoint.parent_id));
  if (checkpoint.metadata) *message.mutable_metadata() = std::move(*checkpoint.metadata);
  message.mutable_labels()->insert(checkpoint.labels.begin(), checkpoint.labels.end());
}

template <class Message>
void SetPlace(Message& message, std::string thread_id, std::string branch) {
  message.set_thread_id(std::move(thread_id));
  message.set_branch_id(std::move(branch));
}

v1::StreamHistoryRequest StreamRequest(std::string thread_id, StreamHistoryOptions& options) {
  v1::StreamHistoryRequest request;
  SetPlace(request, std::move(thread_id), std::move(options.branch));
  request.set_after_revision(options.after_revision);
  request.set_limit(options.limit);
  request.set_last(options.last);
  request.set_include_ancestors(options.include_ancestors);
  request.set_follow(options.follow);
  if (options.heartbeat.count() != 0) *request.mutable_heartbeat() = internal::DurationOf(options.heartbeat);
  return request;
}

bool IsEvent(const Event&) { return true; }
bool IsEvent(const Record& record) { return std::holds_alternative<Event>(record); }

// A place on a branch: events, and among them checkpoints where records are asked for.
template <class Kind>
class HistoryPlace : public internal::Line<Kind> {
 public:
  using Item = Kind;
  using Message = v1::StreamHistoryResponse;

  explicit HistoryPlace(v1::StreamHistoryRequest request)
      : internal::Line<Kind>(request.after_revision()), request_(std::move(request)) {
    request_.set_include_checkpoints(std::is_same_v<Kind, Record>);
    // A read of the last n that does not follow is over after n, also where it had to go on.
    limit_ = request_.limit() != 0 || request_.follow() ? request_.limit() : request_.last();
  }

  std::unique_ptr<internal::StreamCall<Message>> Open(const internal::Connection& connection,
                                                      std::optional<std::chrono::milliseconds> timeout) {
    auto request = request_;
    if (began_) {
      if (limit_ > 0 && events_ >= limit_) return nullptr;
      request.set_after_revision(this->revision());
      request.set_last(0);
      request.set_limit(std::max<std::int64_t>(limit_ - events_, 0));
    }
    return std::make_unique<internal::StreamCall<Message>>(connection, connection.state, &Stub::StreamHistory, request,
                                                           timeout);
  }

  void Take(Message message) {
    began_ = true;
    std::deque<std::pair<std::int64_t, Kind>> records;
    for (auto& event : *message.mutable_events()) records.emplace_back(event.revision(), std::move(event));
    if constexpr (std::is_same_v<Kind, Record>) {
      for (auto& one : *message.mutable_checkpoints()) records.emplace_back(one.revision(), std::move(one));
      std::ranges::stable_sort(records, {}, &std::pair<std::int64_t, Kind>::first);
    }
    this->Add(std::move(records), message.revision(), message.caught_up());
  }

  std::optional<Kind> HandOut() {
    auto item = internal::Line<Kind>::HandOut();
    events_ += item && IsEvent(*item);
    return item;
  }

 private:
  v1::StreamHistoryRequest request_;
  std::int64_t limit_ = 0;
  std::int64_t events_ = 0;
  bool began_ = false;
};

}  // namespace

State::State(std::shared_ptr<internal::Connection> connection) : connection_(std::move(connection)) {}

Event State::AppendEvent(std::string thread_id, std::int64_t sequence, NewEvent event, BranchOptions options) {
  v1::AppendEventRequest request;
  SetPlace(*request.mutable_event(), std::move(thread_id), std::move(options.branch));
  request.mutable_event()->set_sequence(sequence);
  Fill(*request.mutable_event(), std::move(event));
  return connection_->Call(connection_->state, &Stub::AppendEvent, request, options.call).event();
}

Event State::AppendNextEvent(std::string thread_id, NewEvent event, AppendOptions options) {
  v1::AppendNextEventRequest request;
  SetPlace(*request.mutable_event(), std::move(thread_id), std::move(options.branch));
  Fill(*request.mutable_event(), std::move(event));
  if (options.expected_last_sequence) request.set_expected_last_sequence(*options.expected_last_sequence);
  return connection_->Call(connection_->state, &Stub::AppendNextEvent, request, options.call).event();
}

AppendedEvents State::AppendEvents(std::string thread_id, std::vector<NewEvent> events, AppendOptions options) {
  v1::AppendEventsRequest request;
  SetPlace(request, std::move(thread_id), std::move(options.branch));
  for (auto& event : events) Fill(*request.add_events(), std::move(event));
  if (options.expected_last_sequence) request.set_expected_last_sequence(*options.expected_last_sequence);
  auto response = connection_->Call(connection_->state, &Stub::AppendEvents, request, options.call);
  return {response.first_sequence(), response.last_sequence(), internal::Taken(response.mutable_ids()),
          response.revision()};
}

Checkpoint State::SaveCheckpoint(std::string thread_id, NewCheckpoint checkpoint, BranchOptions options) {
  v1::SaveCheckpointRequest request;
  SetPlace(*request.mutable_checkpoint(), std::move(thread_id), std::move(options.branch));
  Fill(*request.mutable_checkpoint(), std::move(checkpoint));
  return connection_->Call(connection_->state, &Stub::SaveCheckpoint, request, options.call).checkpoint();
}

std::optional<Checkpoint> State::LatestCheckpoint(std::string thread_id, LatestCheckpointOptions options) {
  v1::LatestCheckpointRequest request;
  SetPlace(request, std::move(thread_id), std::move(options.branch));
  if (options.at_event_id) request.set_at_event_id(std::move(*options.at_event_id));
  auto response = connection_->Call(connection_->state, &Stub::LatestCheckpoint, request, options.call);
  return internal::TakenIf(response, &v1::LatestCheckpointResponse::has_checkpoint,
                           &v1::LatestCheckpointResponse::mutable_checkpoint);
}

Pages<Checkpoint> State::ListCheckpoints(std::string thread_id, ListCheckpointsOptions options) {
  v1::ListCheckpointsRequest request;
  SetPlace(request, std::move(thread_id), std::move(options.branch));
  request.mutable_labels()->insert(options.labels.begin(), options.labels.end());
  return internal::PagesOf(connection_, connection_->state, &Stub::ListCheckpoints, std::move(request), options,
                           &v1::ListCheckpointsResponse::mutable_checkpoints);
}

History State::GetHistory(std::string thread_id, BranchOptions options) {
  v1::GetHistoryRequest request;
  SetPlace(request, std::move(thread_id), std::move(options.branch));
  return connection_->Call(connection_->state, &Stub::GetHistory, request, options.call).history();
}

Stream<Event> State::StreamHistory(std::string thread_id, StreamHistoryOptions options) {
  HistoryPlace<Event> place(StreamRequest(std::move(thread_id), options));
  return Stream<Event>(
      std::make_unique<internal::Reading<HistoryPlace<Event>>>(connection_, std::move(place), options.stream));
}

Stream<Record> State::StreamRecords(std::string thread_id, StreamHistoryOptions options) {
  HistoryPlace<Record> place(StreamRequest(std::move(thread_id), options));
  return Stream<Record>(
      std::make_unique<internal::Reading<HistoryPlace<Record>>>(connection_, std::move(place), options.stream));
}

Forked State::Fork(std::string thread_id, std::string from_event_id, ForkOptions options) {
  v1::ForkRequest request;
  SetPlace(request, std::move(thread_id), std::move(options.branch));
  request.set_from_event_id(std::move(from_event_id));
  if (options.name) request.set_name(std::move(*options.name));
  if (options.checkpoint) Fill(*request.mutable_checkpoint(), std::move(*options.checkpoint));
  if (options.event) Fill(*request.mutable_event(), std::move(*options.event));
  request.set_request_id(IdOr(std::move(options.request_id)));
  auto response = connection_->Call(connection_->state, &Stub::Fork, request, options.call);
  return {std::move(*response.mutable_branch()),
          internal::TakenIf(response, &v1::ForkResponse::has_checkpoint, &v1::ForkResponse::mutable_checkpoint),
          internal::TakenIf(response, &v1::ForkResponse::has_event, &v1::ForkResponse::mutable_event)};
}

Pages<Branch> State::ListBranches(std::string thread_id, ListBranchesOptions options) {
  v1::ListBranchesRequest request;
  request.set_thread_id(std::move(thread_id));
  request.set_include_unforked(options.include_unforked);
  return internal::PagesOf(connection_, connection_->state, &Stub::ListBranches, std::move(request), options,
                           &v1::ListBranchesResponse::mutable_branches);
}

Pages<Thread> State::ListThreads(ListThreadsOptions options) {
  v1::ListThreadsRequest request;
  request.set_prefix(std::move(options.prefix));
  return internal::PagesOf(connection_, connection_->state, &Stub::ListThreads, std::move(request), options,
                           &v1::ListThreadsResponse::mutable_threads);
}

DeletedThread State::DeleteThread(std::string thread_id, CallOptions options) {
  v1::DeleteThreadRequest request;
  request.set_thread_id(std::move(thread_id));
  const auto response = connection_->Call(connection_->state, &Stub::DeleteThread, request, options);
  return {response.events_deleted(), response.checkpoints_deleted()};
}

}  // namespace statekeep
