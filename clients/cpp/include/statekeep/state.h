// State: threads of events, with checkpoints and branches, read as streams.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "statekeep/options.h"
#include "statekeep/range.h"
#include "statekeep/v1/state_store.pb.h"
#include "statekeep/values.h"

namespace statekeep {

namespace internal {
class Connection;
}

using v1::Branch;
using v1::Checkpoint;
using v1::Event;
using v1::History;
using v1::Thread;

/// An event or a checkpoint of a branch.
using Record = std::variant<Event, Checkpoint>;

using Time = std::chrono::system_clock::time_point;

/// An event to append.
struct NewEvent {
  /// What happened: run_started, node_completed, error, …
  std::string type;
  std::optional<Value> data = {};
  /// Sending an id again that its branch holds changes nothing. Empty: the client makes one up.
  std::string id = {};
  std::optional<std::string> node = {};
  std::optional<std::string> parent_id = {};
  std::optional<std::string> error_type = {};
  std::optional<std::string> message = {};
  /// Unset: the server's clock. Never used for order.
  std::optional<Time> create_time = {};
  std::map<std::string, std::string> labels = {};
};

/// A whole snapshot of a thread's state, to be saved.
struct NewCheckpoint {
  /// The event it was taken at, and that event's sequence number.
  std::string event_id;
  std::int64_t sequence = 0;
  Value state;
  /// Saving an id again replaces what was saved under it. Empty: the client makes one up.
  std::string id = {};
  /// The tasks still to run, a JSON list. Unset: [].
  std::optional<Value> active = {};
  /// running, completed, forked, … Empty: running.
  std::string status = {};
  std::optional<Time> create_time = {};
  std::optional<std::string> parent_id = {};
  std::optional<Value> metadata = {};
  std::map<std::string, std::string> labels = {};
};

/// In all that follows, an empty `branch` is "main".
struct BranchOptions {
  std::string branch = {};
  CallOptions call = {};
};

struct AppendOptions {
  std::string branch = {};
  /// The highest sequence on the branch must be this, 0 for none. Unset: any.
  std::optional<std::int64_t> expected_last_sequence = {};
  CallOptions call = {};
};

/// What appending several events gave them.
struct AppendedEvents {
  std::int64_t first_sequence = 0;
  std::int64_t last_sequence = 0;
  std::vector<std::string> ids;
  std::int64_t revision = 0;
};

struct StreamHistoryOptions {
  std::string branch = {};
  /// Only what was stored after this revision. 0: from the start.
  std::int64_t after_revision = 0;
  /// Counts events. 0: no limit.
  std::int64_t limit = 0;
  /// Begin at the last so many events. Not together with after_revision or limit.
  std::int64_t last = 0;
  /// First what the branch inherits: its parents' events up to where each was forked.
  bool include_ancestors = false;
  /// Stay, and hand out what is stored from then on.
  bool follow = false;
  /// With `follow`: how often an idle server says that it is there; 100 ms at least. 0: never.
  std::chrono::milliseconds heartbeat{0};
  StreamOptions stream = {};
};

struct LatestCheckpointOptions {
  std::string branch = {};
  /// An event of the branch: only checkpoints up to its sequence number count.
  std::optional<std::string> at_event_id = {};
  CallOptions call = {};
};

struct ListCheckpointsOptions {
  std::string branch = {};
  /// Only those that carry all of these.
  std::map<std::string, std::string> labels = {};
  /// 0: the server's default.
  std::int32_t page_size = 0;
  /// For each page.
  CallOptions call = {};
};

struct ForkOptions {
  /// The branch to fork.
  std::string branch = {};
  /// The new branch's id. Unset: the server makes one up.
  std::optional<std::string> name = {};
  /// The first checkpoint and event of the new branch, stored with it or not at all.
  std::optional<NewCheckpoint> checkpoint = {};
  std::optional<NewEvent> event = {};
  /// A retry with the same id gets the first answer. Empty: the client makes one up.
  std::string request_id = {};
  CallOptions call = {};
};

/// A new branch, with its first checkpoint and event where they were given.
struct Forked {
  Branch branch;
  std::optional<Checkpoint> checkpoint;
  std::optional<Event> event;
};

struct ListBranchesOptions {
  /// Also "main", and branches that hold records without having been forked.
  bool include_unforked = false;
  /// 0: the server's default.
  std::int32_t page_size = 0;
  /// For each page.
  CallOptions call = {};
};

struct ListThreadsOptions {
  /// Literal.
  std::string prefix = {};
  /// 0: the server's default.
  std::int32_t page_size = 0;
  /// For each page.
  CallOptions call = {};
};

/// What went with a thread.
struct DeletedThread {
  std::int64_t events_deleted = 0;
  std::int64_t checkpoints_deleted = 0;
};

/// Threads of events, checkpoints and branches. Every call may throw a statekeep::Error; safe to use from any thread.
class State {
 public:
  explicit State(std::shared_ptr<internal::Connection> connection);

  /// Stores an event with a sequence number of one's own. Throws EventExistsError.
  Event AppendEvent(std::string thread_id, std::int64_t sequence, NewEvent event, BranchOptions options = {});
  /// Stores an event with the next sequence number. Throws SequenceMismatchError, EventExistsError.
  Event AppendNextEvent(std::string thread_id, NewEvent event, AppendOptions options = {});
  /// Stores several events with the next sequence numbers, all or none. Throws as AppendNextEvent.
  AppendedEvents AppendEvents(std::string thread_id, std::vector<NewEvent> events, AppendOptions options = {});
  /// Stores a checkpoint, in place of one of the same id.
  Checkpoint SaveCheckpoint(std::string thread_id, NewCheckpoint checkpoint, BranchOptions options = {});
  /// The newest checkpoint, or the newest at or before an event; empty where there is none.
  std::optional<Checkpoint> LatestCheckpoint(std::string thread_id, LatestCheckpointOptions options = {});
  /// The checkpoints of a branch, newest first.
  Pages<Checkpoint> ListCheckpoints(std::string thread_id, ListCheckpointsOptions options = {});
  /// A whole branch in one message. Throws HistoryTooLargeError: StreamHistory reads any.
  History GetHistory(std::string thread_id, BranchOptions options = {});
  /// The events of a branch in the order they were stored; with `follow`, also those that come.
  /// Returns once the server has answered.
  Stream<Event> StreamHistory(std::string thread_id, StreamHistoryOptions options = {});
  /// As StreamHistory, with the checkpoints of the branch among the events.
  Stream<Record> StreamRecords(std::string thread_id, StreamHistoryOptions options = {});
  /// Makes a branch that starts at an event. Throws ThreadNotFoundError, BranchNotFoundError, EventNotFoundError,
  /// BranchExistsError.
  Forked Fork(std::string thread_id, std::string from_event_id, ForkOptions options = {});
  /// The branches that were forked, oldest first.
  Pages<Branch> ListBranches(std::string thread_id, ListBranchesOptions options = {});
  /// The threads, sorted by id.
  Pages<Thread> ListThreads(ListThreadsOptions options = {});
  /// Removes a thread with all its branches. Not retried: the answer would be wrong.
  DeletedThread DeleteThread(std::string thread_id, CallOptions options = {});

 private:
  std::shared_ptr<internal::Connection> connection_;
};

}  // namespace statekeep
