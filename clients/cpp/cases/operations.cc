#include "operations.h"

#include <chrono>
#include <set>
#include <unordered_map>

namespace cases {
namespace {

using namespace statekeep;  // NOLINT: all that this file does is call it

constexpr std::chrono::seconds kWithin(30);

// The arguments of a step. Each must be taken by someone.
class Args {
 public:
  explicit Args(const Tree& tree) : tree_(tree) {}

  bool Has(const char* name) const { return tree_.contains(name); }
  std::string Text(const char* name) { return MaybeText(name).value_or(""); }
  std::optional<std::string> MaybeText(const char* name) {
    return Take(name) ? std::optional(tree_[name].get<std::string>()) : std::nullopt;
  }
  std::int64_t Number(const char* name) { return MaybeNumber(name).value_or(0); }
  std::optional<std::int64_t> MaybeNumber(const char* name) {
    return Take(name) ? std::optional(NumberOf(tree_[name])) : std::nullopt;
  }
  std::int32_t Int32(const char* name) { return static_cast<std::int32_t>(Number(name)); }
  bool Flag(const char* name, bool otherwise = false) { return Take(name) ? tree_[name].get<bool>() : otherwise; }
  statekeep::Value Value(const char* name) { return Take(name) ? ValueOf(tree_[name]) : statekeep::Value(); }
  std::optional<statekeep::Value> MaybeValue(const char* name) {
    return Take(name) ? std::optional(ValueOf(tree_[name])) : std::nullopt;
  }
  std::vector<std::string> Texts(const char* name) {
    return Take(name) ? tree_[name].get<std::vector<std::string>>() : std::vector<std::string>();
  }
  std::map<std::string, std::string> Labels() {
    return Take("labels") ? tree_["labels"].get<std::map<std::string, std::string>>()
                          : std::map<std::string, std::string>();
  }
  std::optional<std::chrono::nanoseconds> MaybeSpan(const char* name) {
    if (!Take(name)) return std::nullopt;
    const std::chrono::duration<double> seconds(std::stod(tree_[name].get<std::string>()));
    return std::chrono::round<std::chrono::nanoseconds>(seconds);
  }
  std::chrono::milliseconds Heartbeat() {
    return std::chrono::round<std::chrono::milliseconds>(MaybeSpan("heartbeat").value_or(std::chrono::nanoseconds(0)));
  }
  std::optional<Time> MaybeTime(const char* name) {
    if (!Take(name)) return std::nullopt;
    int year = 0, hour = 0, minute = 0, second = 0, micros = 0;
    unsigned month = 0, day = 0;
    const auto text = tree_[name].get<std::string>();
    if (std::sscanf(text.c_str(), "%d-%u-%uT%d:%d:%d.%6dZ", &year, &month, &day, &hour, &minute, &second, &micros) != 7)
      throw CaseError("no time: " + text);
    const std::chrono::sys_days date{std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day)};
    return date + std::chrono::hours(hour) + std::chrono::minutes(minute) + std::chrono::seconds(second) +
           std::chrono::microseconds(micros);
  }
  // The tree of an argument that is made of others.
  const Tree& Part(const char* name) {
    if (!Take(name)) throw CaseError(std::string("the argument is not there: ") + name);
    return tree_[name];
  }

  statekeep::Scope Scope() {
    Args scope(Part("scope"));
    const auto type = scope.Text("type");
    auto name = scope.Text("name");
    scope.Done();
    if (type == "flow") return FlowScope(std::move(name));
    if (type == "execution") return ExecutionScope(std::move(name));
    if (!type.empty() && type != "namespace") throw CaseError("no type of scope: " + type);
    return NamespaceScope(std::move(name));
  }

  void Done() const {
    for (const auto& [name, value] : tree_.items())
      if (!taken_.contains(name)) throw CaseError("the client's method does not take the argument " + name);
  }

 private:
  bool Take(const char* name) {
    taken_.insert(name);
    return tree_.contains(name);
  }

  const Tree& tree_;
  std::set<std::string> taken_;
};

Writer WriterOf(Args& args) {
  return {args.MaybeText("execution_id"), args.MaybeText("flow_id"), args.MaybeText("flow_name")};
}

VersionOptions VersionOf(Args& args) {
  return {args.MaybeNumber("expected_version"), args.MaybeSpan("ttl"), args.Labels(), WriterOf(args)};
}

Tree Entry(const std::optional<MemoryEntry>& entry) { return {{"entry", TreeOf(entry)}}; }

Tree Set(const Client& client, Args& args) {
  const auto scope = args.Scope();
  const auto key = args.Text("key");
  const auto value = args.Value("value");
  SetOptions options{.version = VersionOf(args), .request_id = args.Text("request_id")};
  args.Done();
  return Entry(client.memory().Set(scope, key, value, std::move(options)));
}

Tree BatchSet(const Client& client, Args& args) {
  // A batch is of one scope here; a case with another in it has a need that this client does not meet.
  Scope scope = NamespaceScope("none");
  std::vector<MemoryWrite> writes;
  for (const auto& tree : args.Part("sets")) {
    Args write(tree);
    scope = write.Scope();
    writes.push_back({write.Text("key"), write.Value("value"), VersionOf(write)});
    write.Done();
  }
  BatchSetOptions options{.request_id = args.Text("request_id")};
  args.Done();
  return {{"entries", TreesOf(client.memory().BatchSet(scope, std::move(writes), std::move(options)))}};
}

Tree MemoryGet(const Client& client, Args& args) {
  const auto scope = args.Scope();
  const auto key = args.Text("key");
  GetOptions options{.version = args.MaybeNumber("version"), .include_deleted = args.Flag("include_deleted")};
  args.Done();
  return Entry(client.memory().Get(scope, key, std::move(options)));
}

Tree BatchGet(const Client& client, Args& args) {
  const auto scope = args.Scope();
  const auto keys = args.Texts("keys");
  args.Done();
  const auto batch = client.memory().BatchGet(scope, keys);
  return {{"entries", TreesOf(batch.entries)}, {"missing_keys", batch.missing_keys}};
}

Tree MemoryList(const Client& client, Args& args) {
  const auto scope = args.Scope();
  MemoryListOptions options{.prefix = args.Text("prefix"),
                            .include_values = args.Flag("include_values"),
                            .include_deleted = args.Flag("include_deleted"),
                            .page_size = args.Int32("page_size")};
  args.Done();
  return {{"entries", TreesOf(client.memory().List(scope, std::move(options)))}};
}

Tree MemoryHistory(const Client& client, Args& args) {
  const auto scope = args.Scope();
  const auto key = args.Text("key");
  MemoryHistoryOptions options{.oldest_first = args.Flag("oldest_first"),
                               .include_values = args.Flag("include_values", true),
                               .limit = args.Number("limit"),
                               .stream = {.timeout = kWithin}};
  args.Done();
  return {{"entries", TreesOf(client.memory().History(scope, key, std::move(options)))}};
}

Tree Delete(const Client& client, Args& args) {
  const auto scope = args.Scope();
  const auto key = args.Text("key");
  DeleteOptions options{.expected_version = args.MaybeNumber("expected_version"),
                        .writer = WriterOf(args),
                        .request_id = args.Text("request_id")};
  args.Done();
  return Entry(client.memory().Delete(scope, key, std::move(options)));
}

Tree Purge(const Client& client, Args& args) {
  const auto scope = args.Scope();
  const auto keep = args.Int32("keep");
  Purged purged;
  if (args.Flag("all_keys")) {
    const auto include_deleted = args.Flag("include_deleted");
    args.Done();
    purged = client.memory().PurgeAll(scope, {.keep = keep, .include_deleted = include_deleted});
  } else {
    const auto key = args.Text("key");
    args.Done();
    purged = client.memory().Purge(scope, key, {.keep = keep});
  }
  return {{"versions_deleted", purged.versions_deleted}, {"keys_affected", purged.keys_affected}};
}

Tree ListPurges(const Client& client, Args& args) {
  const auto scope = args.Scope();
  PageOptions options{.page_size = args.Int32("page_size")};
  args.Done();
  return {{"purges", TreesOf(client.memory().ListPurges(scope, std::move(options)))}};
}

Tree ListScopes(const Client& client, Args& args) {
  PageOptions options{.page_size = args.Int32("page_size")};
  args.Done();
  return {{"scopes", TreesOf(client.memory().ListScopes(std::move(options)))}};
}

Tree ScratchOpen(const Client& client, Args& args) {
  OpenOptions options{.instance_id = args.Text("instance_id"), .idle_ttl = args.MaybeSpan("idle_ttl")};
  args.Done();
  return TreeOf(client.scratch().Open(std::move(options)));
}

Tree ScratchPut(const Client& client, Args& args) {
  const auto instance = args.Text("instance_id");
  const auto key = args.Text("key");
  const auto value = args.Value("value");
  args.Done();
  return {{"key", client.scratch().Put(instance, key, value)}};
}

Tree ScratchGet(const Client& client, Args& args) {
  const auto instance = args.Text("instance_id");
  const auto key = args.Text("key");
  args.Done();
  const auto item = client.scratch().Get(instance, key);
  if (!item) return {{"value", nullptr}};
  return {{"key", item->key}, {"value", TreeOf(item->value)}};
}

Tree ScratchList(const Client& client, Args& args) {
  const auto instance = args.Text("instance_id");
  args.Done();
  return {{"keys", client.scratch().List(instance)}};
}

Tree ScratchClear(const Client& client, Args& args) {
  const auto instance = args.Text("instance_id");
  const auto key = args.MaybeText("key");
  args.Done();
  return {{"cleared", client.scratch().Clear(instance, key)}};
}

Tree ScratchClose(const Client& client, Args& args) {
  const auto instance = args.Text("instance_id");
  args.Done();
  return {{"cleared", client.scratch().Close(instance)}};
}

NewEvent NewEventOf(Args& args) {
  return {.type = args.Text("type"),
          .data = args.MaybeValue("data"),
          .id = args.Text("id"),
          .node = args.MaybeText("node"),
          .parent_id = args.MaybeText("parent_id"),
          .error_type = args.MaybeText("error_type"),
          .message = args.MaybeText("message"),
          .create_time = args.MaybeTime("create_time"),
          .labels = args.Labels()};
}

NewCheckpoint NewCheckpointOf(Args& args) {
  return {.event_id = args.Text("event_id"),
          .sequence = args.Number("sequence"),
          .state = args.Value("state"),
          .id = args.Text("id"),
          .active = args.MaybeValue("active"),
          .status = args.Text("status"),
          .create_time = args.MaybeTime("create_time"),
          .parent_id = args.MaybeText("parent_id"),
          .metadata = args.MaybeValue("metadata"),
          .labels = args.Labels()};
}

Tree AppendEvent(const Client& client, Args& args) {
  Args given(args.Part("event"));
  const auto thread = given.Text("thread_id");
  const auto sequence = given.Number("sequence");
  BranchOptions options{.branch = given.Text("branch_id")};
  const auto event = NewEventOf(given);
  given.Done();
  args.Done();
  return {{"event", TreeOf(client.state().AppendEvent(thread, sequence, event, std::move(options)))}};
}

Tree AppendNextEvent(const Client& client, Args& args) {
  Args given(args.Part("event"));
  const auto thread = given.Text("thread_id");
  AppendOptions options{.branch = given.Text("branch_id"),
                        .expected_last_sequence = args.MaybeNumber("expected_last_sequence")};
  const auto event = NewEventOf(given);
  given.Done();
  args.Done();
  return {{"event", TreeOf(client.state().AppendNextEvent(thread, event, std::move(options)))}};
}

Tree AppendEvents(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  std::vector<NewEvent> events;
  for (const auto& tree : args.Part("events")) {
    Args event(tree);
    events.push_back(NewEventOf(event));
    event.Done();
  }
  AppendOptions options{.branch = args.Text("branch_id"),
                        .expected_last_sequence = args.MaybeNumber("expected_last_sequence")};
  args.Done();
  const auto appended = client.state().AppendEvents(thread, std::move(events), std::move(options));
  return {{"first_sequence", appended.first_sequence},
          {"last_sequence", appended.last_sequence},
          {"ids", appended.ids},
          {"revision", appended.revision}};
}

Tree SaveCheckpoint(const Client& client, Args& args) {
  Args given(args.Part("checkpoint"));
  const auto thread = given.Text("thread_id");
  BranchOptions options{.branch = given.Text("branch_id")};
  const auto checkpoint = NewCheckpointOf(given);
  given.Done();
  args.Done();
  return {{"checkpoint", TreeOf(client.state().SaveCheckpoint(thread, checkpoint, std::move(options)))}};
}

Tree LatestCheckpoint(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  LatestCheckpointOptions options{.branch = args.Text("branch_id"), .at_event_id = args.MaybeText("at_event_id")};
  args.Done();
  return {{"checkpoint", TreeOf(client.state().LatestCheckpoint(thread, std::move(options)))}};
}

Tree ListCheckpoints(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  ListCheckpointsOptions options{
      .branch = args.Text("branch_id"), .labels = args.Labels(), .page_size = args.Int32("page_size")};
  args.Done();
  return {{"checkpoints", TreesOf(client.state().ListCheckpoints(thread, std::move(options)))}};
}

Tree GetHistory(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  BranchOptions options{.branch = args.Text("branch_id")};
  args.Done();
  return {{"history", TreeOf(client.state().GetHistory(thread, std::move(options)))}};
}

StreamHistoryOptions StreamOf(Args& args) {
  return {.branch = args.Text("branch_id"),
          .after_revision = args.Number("after_revision"),
          .limit = args.Number("limit"),
          .last = args.Number("last"),
          .include_ancestors = args.Flag("include_ancestors"),
          .follow = args.Flag("follow"),
          .heartbeat = args.Heartbeat(),
          .stream = {.timeout = kWithin}};
}

Tree StreamHistory(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  const bool records = args.Flag("include_checkpoints");
  auto options = StreamOf(args);
  args.Done();
  Tree answer = {{"events", Tree::array()}, {"checkpoints", Tree::array()}};
  const auto end = [&answer](const auto& stream) {
    answer["caught_up"] = stream.caught_up();
    answer["revision"] = stream.revision();
  };
  if (!records) {
    auto stream = client.state().StreamHistory(thread, std::move(options));
    answer["events"] = TreesOf(stream);
    end(stream);
    return answer;
  }
  auto stream = client.state().StreamRecords(thread, std::move(options));
  for (const auto& record : stream) {
    const auto* list = std::holds_alternative<Event>(record) ? "events" : "checkpoints";
    answer[list].push_back(std::visit([](const auto& one) { return TreeOf(one); }, record));
  }
  end(stream);
  return answer;
}

Tree Fork(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  const auto event = args.Text("from_event_id");
  ForkOptions options{
      .branch = args.Text("branch_id"), .name = args.MaybeText("name"), .request_id = args.Text("request_id")};
  if (args.Has("checkpoint")) {
    Args given(args.Part("checkpoint"));
    options.checkpoint = NewCheckpointOf(given);
    given.Done();
  }
  if (args.Has("event")) {
    Args given(args.Part("event"));
    options.event = NewEventOf(given);
    given.Done();
  }
  args.Done();
  const auto forked = client.state().Fork(thread, event, std::move(options));
  return {
      {"branch", TreeOf(forked.branch)}, {"checkpoint", TreeOf(forked.checkpoint)}, {"event", TreeOf(forked.event)}};
}

Tree ListBranches(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  ListBranchesOptions options{.include_unforked = args.Flag("include_unforked"), .page_size = args.Int32("page_size")};
  args.Done();
  return {{"branches", TreesOf(client.state().ListBranches(thread, std::move(options)))}};
}

Tree ListThreads(const Client& client, Args& args) {
  ListThreadsOptions options{.prefix = args.Text("prefix"), .page_size = args.Int32("page_size")};
  args.Done();
  return {{"threads", TreesOf(client.state().ListThreads(std::move(options)))}};
}

Tree DeleteThread(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  args.Done();
  const auto deleted = client.state().DeleteThread(thread);
  return {{"events_deleted", deleted.events_deleted}, {"checkpoints_deleted", deleted.checkpoints_deleted}};
}

template <class Item>
class OpenedStream final : public Opened {
 public:
  OpenedStream(const char* field, Stream<Item> stream) : field_(field), stream_(std::move(stream)) {}

  Tree Answer() const override { return Tree::object(); }
  Tree Read(std::size_t count) override {
    Tree records = Tree::array();
    while (records.size() < count) {
      const auto record = stream_.Next();
      if (!record) throw CaseError("the stream ended");
      records.push_back(TreeOf(*record));
    }
    return {{field_, records}};
  }

 private:
  const char* field_;
  Stream<Item> stream_;
};

class OpenedInstance final : public Opened {
 public:
  explicit OpenedInstance(Attachment attachment) : attachment_(std::move(attachment)) {}

  Tree Answer() const override { return {{"instance_id", attachment_.instance_id()}}; }
  Tree Read(std::size_t) override { throw CaseError("there is nothing to read of an attached instance"); }

 private:
  Attachment attachment_;
};

std::unique_ptr<Opened> OpenWatch(const Client& client, Args& args) {
  const auto scope = args.Scope();
  WatchOptions options{.prefix = args.Text("prefix"),
                       .after_revision = args.MaybeNumber("after_revision"),
                       .include_values = args.Flag("include_values", true),
                       .heartbeat = args.Heartbeat(),
                       .stream = {.timeout = kWithin}};
  args.Done();
  return std::make_unique<OpenedStream<MemoryEntry>>("entries", client.memory().Watch(scope, std::move(options)));
}

std::unique_ptr<Opened> OpenHistory(const Client& client, Args& args) {
  const auto thread = args.Text("thread_id");
  auto options = StreamOf(args);
  args.Done();
  return std::make_unique<OpenedStream<Event>>("events", client.state().StreamHistory(thread, std::move(options)));
}

std::unique_ptr<Opened> OpenAttached(const Client& client, Args& args) {
  const auto instance = args.Text("instance_id");
  args.Done();
  return std::make_unique<OpenedInstance>(client.scratch().Attach(instance));
}

const std::unordered_map<std::string, Tree (*)(const Client&, Args&)> kCalls = {
    {"memory.set", Set},
    {"memory.batch_set", BatchSet},
    {"memory.get", MemoryGet},
    {"memory.batch_get", BatchGet},
    {"memory.list", MemoryList},
    {"memory.history", MemoryHistory},
    {"memory.delete", Delete},
    {"memory.purge", Purge},
    {"memory.list_purges", ListPurges},
    {"memory.list_scopes", ListScopes},
    {"scratch.open", ScratchOpen},
    {"scratch.put", ScratchPut},
    {"scratch.get", ScratchGet},
    {"scratch.list", ScratchList},
    {"scratch.clear", ScratchClear},
    {"scratch.close", ScratchClose},
    {"state.append_event", AppendEvent},
    {"state.append_next_event", AppendNextEvent},
    {"state.append_events", AppendEvents},
    {"state.save_checkpoint", SaveCheckpoint},
    {"state.latest_checkpoint", LatestCheckpoint},
    {"state.list_checkpoints", ListCheckpoints},
    {"state.get_history", GetHistory},
    {"state.stream_history", StreamHistory},
    {"state.fork", Fork},
    {"state.list_branches", ListBranches},
    {"state.list_threads", ListThreads},
    {"state.delete_thread", DeleteThread},
};

const std::unordered_map<std::string, std::unique_ptr<Opened> (*)(const Client&, Args&)> kOpened = {
    {"memory.watch", OpenWatch},
    {"state.stream_history", OpenHistory},
    {"scratch.attach", OpenAttached},
};

const std::unordered_map<std::string, std::string> kUnmet = {
    {"batch_parts", "a batch has one scope and one request id here, so no part can name another"},
    {"purge_selector", "Purge takes a key and PurgeAll none, so neither or both cannot be said"},
};

}  // namespace

std::string WhyNot(const std::string& need) {
  const auto unmet = kUnmet.find(need);
  return unmet == kUnmet.end() ? "" : unmet->second;
}

Tree Call(const Client& client, const std::string& operation, const Tree& args) {
  const auto call = kCalls.find(operation);
  if (call == kCalls.end()) throw CaseError("there is no operation " + operation);
  Args given(args);
  return call->second(client, given);
}

std::unique_ptr<Opened> Open(const Client& client, const std::string& operation, const Tree& args) {
  const auto open = kOpened.find(operation);
  if (open == kOpened.end()) throw CaseError("there is nothing to open by " + operation);
  Args given(args);
  return open->second(client, given);
}

}  // namespace cases
