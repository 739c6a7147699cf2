#include "statekeep/memory.h"

#include <utility>

#include "connection.h"
#include "messages.h"
#include "paging.h"
#include "reading.h"

namespace statekeep {
namespace {

using internal::DurationOf;
using Stub = v1::Memory::Stub;

std::string IdOr(std::string given) { return given.empty() ? internal::NewId() : std::move(given); }

template <class Request>
void SetWriter(Request& request, Writer writer) {
  if (writer.execution_id) request.set_execution_id(std::move(*writer.execution_id));
  if (writer.flow_id) request.set_flow_id(std::move(*writer.flow_id));
  if (writer.flow_name) request.set_flow_name(std::move(*writer.flow_name));
}

void SetVersion(v1::MemorySetRequest& request, VersionOptions version) {
  if (version.expected_version) request.set_expected_version(*version.expected_version);
  if (version.ttl) *request.mutable_ttl() = DurationOf(*version.ttl);
  request.mutable_labels()->insert(version.labels.begin(), version.labels.end());
  SetWriter(request, std::move(version.writer));
}

v1::MemorySetRequest SetRequest(const Scope& scope, MemoryWrite write) {
  v1::MemorySetRequest request;
  *request.mutable_scope() = scope;
  request.set_key(std::move(write.key));
  if (write.value.kind_case() != Value::KIND_NOT_SET) *request.mutable_value() = std::move(write.value);
  SetVersion(request, std::move(write.version));
  return request;
}

// A place among the versions of a key, counted in versions: this stream has no cursor of its own.
class VersionsPlace {
 public:
  using Item = MemoryEntry;
  using Message = v1::MemoryHistoryResponse;

  explicit VersionsPlace(v1::MemoryHistoryRequest request) : request_(std::move(request)) {}

  std::unique_ptr<internal::StreamCall<Message>> Open(const internal::Connection& connection,
                                                      std::optional<std::chrono::milliseconds> timeout) {
    if (IsOver()) return nullptr;
    auto request = request_;
    if (version_) request.set_limit(0);  // there may be versions on top by now, which would count
    return std::make_unique<internal::StreamCall<Message>>(connection, connection.memory, &Stub::History, request,
                                                           timeout);
  }

  void Take(Message message) {
    for (auto& entry : *message.mutable_entries()) entries_.push_back(std::move(entry));
  }

  std::optional<MemoryEntry> HandOut() {
    while (!entries_.empty() && !IsOver()) {
      auto entry = std::move(entries_.front());
      entries_.pop_front();
      if (!IsAhead(entry.version())) continue;
      version_ = entry.version();
      revision_ = entry.revision();
      ++handed_out_;
      return entry;
    }
    return std::nullopt;
  }

  std::int64_t revision() const { return revision_; }
  bool caught_up() const { return false; }

 private:
  bool IsOver() const { return request_.limit() > 0 && handed_out_ >= request_.limit(); }
  bool IsAhead(std::int64_t version) const {
    if (!version_) return true;
    return request_.oldest_first() ? version > *version_ : version < *version_;
  }

  v1::MemoryHistoryRequest request_;
  std::deque<MemoryEntry> entries_;
  std::optional<std::int64_t> version_;
  std::int64_t revision_ = 0;
  std::int64_t handed_out_ = 0;
};

// A place among the writes of a scope.
class WatchPlace : public internal::Line<MemoryEntry> {
 public:
  using Item = MemoryEntry;
  using Message = v1::MemoryWatchResponse;

  explicit WatchPlace(v1::MemoryWatchRequest request) : Line(request.after_revision()), request_(std::move(request)) {}

  std::unique_ptr<internal::StreamCall<Message>> Open(const internal::Connection& connection,
                                                      std::optional<std::chrono::milliseconds> timeout) {
    auto request = request_;
    if (began_) request.set_after_revision(revision());
    return std::make_unique<internal::StreamCall<Message>>(connection, connection.memory, &Stub::Watch, request,
                                                           timeout);
  }

  void Take(Message message) {
    began_ = true;
    std::deque<std::pair<std::int64_t, MemoryEntry>> entries;
    for (auto& entry : *message.mutable_entries()) entries.emplace_back(entry.revision(), std::move(entry));
    Add(std::move(entries), message.revision(), message.caught_up());
  }

 private:
  v1::MemoryWatchRequest request_;
  bool began_ = false;
};

}  // namespace

Memory::Memory(std::shared_ptr<internal::Connection> connection) : connection_(std::move(connection)) {}

MemoryEntry Memory::Set(const Scope& scope, std::string key, Value value, SetOptions options) {
  auto request = SetRequest(scope, {std::move(key), std::move(value), std::move(options.version)});
  request.set_request_id(IdOr(std::move(options.request_id)));
  return connection_->Call(connection_->memory, &Stub::Set, request, options.call).entry();
}

std::vector<MemoryEntry> Memory::BatchSet(const Scope& scope, std::vector<MemoryWrite> writes,
                                          BatchSetOptions options) {
  v1::MemoryBatchSetRequest request;
  for (auto& write : writes) *request.add_sets() = SetRequest(scope, std::move(write));
  request.set_request_id(IdOr(std::move(options.request_id)));
  auto response = connection_->Call(connection_->memory, &Stub::BatchSet, request, options.call);
  return internal::Taken(response.mutable_entries());
}

std::optional<MemoryEntry> Memory::Get(const Scope& scope, std::string key, GetOptions options) {
  v1::MemoryGetRequest request;
  *request.mutable_scope() = scope;
  request.set_key(std::move(key));
  if (options.version) request.set_version(*options.version);
  request.set_include_deleted(options.include_deleted);
  auto response = connection_->Call(connection_->memory, &Stub::Get, request, options.call);
  return internal::TakenIf(response, &v1::MemoryGetResponse::has_entry, &v1::MemoryGetResponse::mutable_entry);
}

MemoryBatch Memory::BatchGet(const Scope& scope, std::vector<std::string> keys, CallOptions options) {
  v1::MemoryBatchGetRequest request;
  *request.mutable_scope() = scope;
  for (auto& key : keys) request.add_keys(std::move(key));
  auto response = connection_->Call(connection_->memory, &Stub::BatchGet, request, options);
  return {internal::Taken(response.mutable_entries()), internal::Taken(response.mutable_missing_keys())};
}

Pages<MemoryEntry> Memory::List(Scope scope, MemoryListOptions options) {
  v1::MemoryListRequest request;
  *request.mutable_scope() = std::move(scope);
  request.set_prefix(std::move(options.prefix));
  request.set_include_values(options.include_values);
  request.set_include_deleted(options.include_deleted);
  return internal::PagesOf(connection_, connection_->memory, &Stub::List, std::move(request), options,
                           &v1::MemoryListResponse::mutable_entries);
}

Stream<MemoryEntry> Memory::History(Scope scope, std::string key, MemoryHistoryOptions options) {
  v1::MemoryHistoryRequest request;
  *request.mutable_scope() = std::move(scope);
  request.set_key(std::move(key));
  request.set_oldest_first(options.oldest_first);
  request.set_include_values(options.include_values);
  request.set_limit(options.limit);
  return Stream<MemoryEntry>(std::make_unique<internal::Reading<VersionsPlace>>(
      connection_, VersionsPlace(std::move(request)), options.stream));
}

std::optional<MemoryEntry> Memory::Delete(const Scope& scope, std::string key, DeleteOptions options) {
  v1::MemoryDeleteRequest request;
  *request.mutable_scope() = scope;
  request.set_key(std::move(key));
  if (options.expected_version) request.set_expected_version(*options.expected_version);
  request.set_request_id(IdOr(std::move(options.request_id)));
  SetWriter(request, std::move(options.writer));
  auto response = connection_->Call(connection_->memory, &Stub::Delete, request, options.call);
  return internal::TakenIf(response, &v1::MemoryDeleteResponse::has_entry, &v1::MemoryDeleteResponse::mutable_entry);
}

Purged Memory::Purge(const Scope& scope, std::string key, PurgeOptions options) {
  v1::MemoryPurgeRequest request;
  *request.mutable_scope() = scope;
  request.set_key(std::move(key));
  request.set_keep(options.keep);
  const auto response = connection_->Call(connection_->memory, &Stub::Purge, request, options.call);
  return {response.versions_deleted(), response.keys_affected()};
}

Purged Memory::PurgeAll(const Scope& scope, PurgeAllOptions options) {
  v1::MemoryPurgeRequest request;
  *request.mutable_scope() = scope;
  request.set_all_keys(true);
  request.set_keep(options.keep);
  request.set_include_deleted(options.include_deleted);
  const auto response = connection_->Call(connection_->memory, &Stub::Purge, request, options.call);
  return {response.versions_deleted(), response.keys_affected()};
}

Pages<MemoryPurgeRecord> Memory::ListPurges(Scope scope, PageOptions options) {
  v1::MemoryListPurgesRequest request;
  *request.mutable_scope() = std::move(scope);
  return internal::PagesOf(connection_, connection_->memory, &Stub::ListPurges, std::move(request), options,
                           &v1::MemoryListPurgesResponse::mutable_purges);
}

Pages<MemoryScopeInfo> Memory::ListScopes(PageOptions options) {
  return internal::PagesOf(connection_, connection_->memory, &Stub::ListScopes, v1::MemoryListScopesRequest(), options,
                           &v1::MemoryListScopesResponse::mutable_scopes);
}

Stream<MemoryEntry> Memory::Watch(Scope scope, WatchOptions options) {
  v1::MemoryWatchRequest request;
  *request.mutable_scope() = std::move(scope);
  request.set_prefix(std::move(options.prefix));
  if (options.after_revision) request.set_after_revision(*options.after_revision);
  request.set_include_values(options.include_values);
  if (options.heartbeat.count() != 0) *request.mutable_heartbeat() = DurationOf(options.heartbeat);
  return Stream<MemoryEntry>(
      std::make_unique<internal::Reading<WatchPlace>>(connection_, WatchPlace(std::move(request)), options.stream));
}

}  // namespace statekeep
