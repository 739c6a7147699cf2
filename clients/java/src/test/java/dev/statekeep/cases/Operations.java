package dev.statekeep.cases;

import dev.statekeep.Attachment;
import dev.statekeep.BranchId;
import dev.statekeep.Checkpoint;
import dev.statekeep.Entry;
import dev.statekeep.Event;
import dev.statekeep.Memory;
import dev.statekeep.NewCheckpoint;
import dev.statekeep.NewEvent;
import dev.statekeep.Pages;
import dev.statekeep.RecordStream;
import dev.statekeep.Scope;
import dev.statekeep.ScratchItem;
import dev.statekeep.StateRecord;
import dev.statekeep.StateStore;
import dev.statekeep.StatekeepClient;
import dev.statekeep.Value;
import dev.statekeep.Write;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Consumer;

/** The table from an operation to the client's method. */
final class Operations {
  private Operations() {}

  /** What stays open, and the field that its records are in. */
  record Opened(Object what, String field, Runnable end) {
    Object answer() {
      return what instanceof Attachment attachment
          ? Map.of("instance_id", attachment.instanceId())
          : Map.of();
    }

    Optional<?> poll(Duration within) {
      return ((RecordStream<?>) what).poll(within);
    }
  }

  static final Map<String, BiFunction<StatekeepClient, Arguments, Object>> CALLS = table();

  private static Map<String, BiFunction<StatekeepClient, Arguments, Object>> table() {
    Map<String, BiFunction<StatekeepClient, Arguments, Object>> table = new LinkedHashMap<>();
    table.put("memory.set", Operations::set);
    table.put("memory.batch_set", Operations::batchSet);
    table.put("memory.get", Operations::get);
    table.put("memory.batch_get", Operations::batchGet);
    table.put("memory.list", Operations::list);
    table.put("memory.history", Operations::versions);
    table.put("memory.delete", Operations::delete);
    table.put("memory.purge", Operations::purge);
    table.put("memory.list_purges", Operations::listPurges);
    table.put("memory.list_scopes", Operations::listScopes);
    table.put("scratch.open", Operations::open);
    table.put("scratch.put", Operations::put);
    table.put("scratch.get", Operations::scratchGet);
    table.put("scratch.list", Operations::scratchList);
    table.put("scratch.clear", Operations::clear);
    table.put("scratch.close", Operations::close);
    table.put("state.append_event", Operations::appendEvent);
    table.put("state.append_next_event", Operations::appendNextEvent);
    table.put("state.append_events", Operations::appendEvents);
    table.put("state.save_checkpoint", Operations::saveCheckpoint);
    table.put("state.latest_checkpoint", Operations::latestCheckpoint);
    table.put("state.list_checkpoints", Operations::listCheckpoints);
    table.put("state.get_history", Operations::getHistory);
    table.put("state.stream_history", Operations::streamHistory);
    table.put("state.fork", Operations::fork);
    table.put("state.list_branches", Operations::listBranches);
    table.put("state.list_threads", Operations::listThreads);
    table.put("state.delete_thread", Operations::deleteThread);
    return table;
  }

  static Opened opened(StatekeepClient client, String operation, Arguments args) {
    return switch (operation) {
      case "memory.watch" -> opened(watch(client, args), "entries");
      case "state.stream_history" -> opened(tail(client, args), "events");
      case "scratch.attach" -> {
        String instance = args.text("instance_id");
        args.done();
        Attachment attachment = client.scratch().attach(instance);
        yield new Opened(attachment, "", attachment::close);
      }
      default -> throw new IllegalStateException("nothing stays open of " + operation);
    };
  }

  private static Opened opened(RecordStream<?> stream, String field) {
    return new Opened(stream, field, stream::close);
  }

  private static Object named(String name, Object answer) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put(name, Tree.of(answer));
    return tree;
  }

  private static Object named(String name, Pages<?> pages) {
    return named(name, pages.stream().toList());
  }

  private static Object set(StatekeepClient client, Arguments args) {
    Scope scope = args.scope();
    Write write = args.write();
    String requestId = args.text("request_id");
    args.done();
    Memory memory = client.memory();
    Entry entry =
        requestId.isEmpty() ? memory.set(scope, write) : memory.set(scope, write, requestId);
    return named("entry", entry);
  }

  private static Object batchSet(StatekeepClient client, Arguments args) {
    List<Write> writes = new ArrayList<>();
    Scope scope = Scope.namespace("none");
    for (Arguments part : args.parts("sets")) {
      scope = part.scope();
      writes.add(part.write());
      part.done();
    }
    String requestId = args.text("request_id");
    args.done();
    Memory memory = client.memory();
    List<Entry> entries =
        requestId.isEmpty()
            ? memory.batchSet(scope, writes)
            : memory.batchSet(scope, writes, requestId);
    return named("entries", entries);
  }

  private static Object get(StatekeepClient client, Arguments args) {
    Scope scope = args.scope();
    String key = args.text("key");
    Consumer<Memory.GetOptions> options =
        given -> {
          args.ifNumber("version", given::version);
          args.ifFlag("include_deleted", given::includeDeleted);
          args.done();
        };
    return named("entry", client.memory().get(scope, key, options));
  }

  private static Object batchGet(StatekeepClient client, Arguments args) {
    Scope scope = args.scope();
    List<String> keys = args.texts("keys");
    args.done();
    List<Entry> entries = client.memory().batchGet(scope, keys);
    List<String> found = entries.stream().map(Entry::key).toList();
    Map<String, Object> answer = Tree.object(named("entries", entries));
    answer.put("missing_keys", keys.stream().filter(key -> !found.contains(key.strip())).toList());
    return answer;
  }

  private static Object list(StatekeepClient client, Arguments args) {
    Consumer<Memory.ListOptions> options =
        given -> {
          args.ifText("prefix", given::prefix);
          given.pageSize(args.small("page_size"));
          args.ifFlag("include_values", given::includeValues);
          args.ifFlag("include_deleted", given::includeDeleted);
          args.done();
        };
    return named("entries", client.memory().list(args.scope(), options));
  }

  private static Object versions(StatekeepClient client, Arguments args) {
    Scope scope = args.scope();
    String key = args.text("key");
    Consumer<Memory.HistoryOptions> options =
        given -> {
          args.ifFlag("oldest_first", given::oldestFirst);
          args.ifFlag("include_values", given::includeValues);
          args.ifNumber("limit", given::limit);
          args.done();
        };
    try (RecordStream<Entry> versions = client.memory().history(scope, key, options)) {
      return named("entries", versions.stream().toList());
    }
  }

  private static Object delete(StatekeepClient client, Arguments args) {
    Scope scope = args.scope();
    String key = args.text("key");
    Consumer<Memory.DeleteOptions> options =
        given -> {
          args.ifNumber("expected_version", given::expectedVersion);
          args.ifText("execution_id", given::executionId);
          args.ifText("flow_id", given::flowId);
          args.ifText("flow_name", given::flowName);
          args.ifText("request_id", given::requestId);
          args.done();
        };
    return named("entry", client.memory().delete(scope, key, options));
  }

  private static Object purge(StatekeepClient client, Arguments args) {
    Scope scope = args.scope();
    int keep = args.small("keep");
    if (args.flag("all_keys")) {
      boolean includeDeleted = args.flag("include_deleted");
      args.done();
      return Tree.of(client.memory().purgeAll(scope, keep, includeDeleted));
    }
    String key = args.text("key");
    args.done();
    return Tree.of(client.memory().purge(scope, key, keep));
  }

  private static Object listPurges(StatekeepClient client, Arguments args) {
    Scope scope = args.scope();
    int pageSize = args.small("page_size");
    args.done();
    return named("purges", client.memory().listPurges(scope, pageSize));
  }

  private static Object listScopes(StatekeepClient client, Arguments args) {
    int pageSize = args.small("page_size");
    args.done();
    return named("scopes", client.memory().listScopes(pageSize));
  }

  private static RecordStream<Entry> watch(StatekeepClient client, Arguments args) {
    return client
        .memory()
        .watch(
            args.scope(),
            given -> {
              args.ifText("prefix", given::prefix);
              args.ifNumber("after_revision", given::afterRevision);
              given.includeValues(args.flag("include_values"));
              args.ifDuration("heartbeat", given::heartbeat);
              args.done();
            });
  }

  private static Object open(StatekeepClient client, Arguments args) {
    String instance = args.text("instance_id");
    if (!args.has("idle_ttl")) {
      args.done();
      return Tree.of(client.scratch().open(instance));
    }
    var idleTtl = args.duration("idle_ttl");
    args.done();
    return Tree.of(client.scratch().open(instance, idleTtl));
  }

  private static Object put(StatekeepClient client, Arguments args) {
    String instance = args.text("instance_id");
    String key = args.text("key");
    Value value = args.value("value");
    args.done();
    return named("key", client.scratch().put(instance, key, value));
  }

  private static Object scratchGet(StatekeepClient client, Arguments args) {
    String instance = args.text("instance_id");
    String key = args.text("key");
    args.done();
    Optional<ScratchItem> item = client.scratch().get(instance, key);
    return item.isPresent() ? Tree.of(item) : named("value", Optional.empty());
  }

  private static Object scratchList(StatekeepClient client, Arguments args) {
    String instance = args.text("instance_id");
    args.done();
    return named("keys", client.scratch().list(instance));
  }

  private static Object clear(StatekeepClient client, Arguments args) {
    String instance = args.text("instance_id");
    boolean hasKey = args.has("key");
    String key = args.text("key");
    args.done();
    List<String> cleared =
        hasKey ? client.scratch().clear(instance, key) : client.scratch().clear(instance);
    return named("cleared", cleared);
  }

  private static Object close(StatekeepClient client, Arguments args) {
    String instance = args.text("instance_id");
    args.done();
    return named("cleared", client.scratch().close(instance));
  }

  private static Object appendEvent(StatekeepClient client, Arguments args) {
    Arguments given = args.part("event");
    args.done();
    BranchId branch = given.branch();
    long sequence = given.number("sequence");
    return named("event", client.state().appendEvent(branch, sequence, given.event()));
  }

  private static Object appendNextEvent(StatekeepClient client, Arguments args) {
    Arguments given = args.part("event");
    boolean isExpecting = args.has("expected_last_sequence");
    long last = args.number("expected_last_sequence");
    args.done();
    BranchId branch = given.branch();
    NewEvent event = given.event();
    StateStore state = client.state();
    Event stored =
        isExpecting
            ? state.appendNextEvent(branch, event, last)
            : state.appendNextEvent(branch, event);
    return named("event", stored);
  }

  private static Object appendEvents(StatekeepClient client, Arguments args) {
    BranchId branch = args.branch();
    List<NewEvent> events = args.parts("events").stream().map(Arguments::event).toList();
    boolean isExpecting = args.has("expected_last_sequence");
    long last = args.number("expected_last_sequence");
    args.done();
    StateStore state = client.state();
    return Tree.of(
        isExpecting
            ? state.appendEvents(branch, events, last)
            : state.appendEvents(branch, events));
  }

  private static Object saveCheckpoint(StatekeepClient client, Arguments args) {
    Arguments given = args.part("checkpoint");
    args.done();
    BranchId branch = given.branch();
    return named("checkpoint", client.state().saveCheckpoint(branch, given.checkpoint()));
  }

  private static Object latestCheckpoint(StatekeepClient client, Arguments args) {
    BranchId branch = args.branch();
    boolean isAtEvent = args.has("at_event_id");
    String event = args.text("at_event_id");
    args.done();
    StateStore state = client.state();
    Optional<Checkpoint> latest =
        isAtEvent ? state.latestCheckpoint(branch, event) : state.latestCheckpoint(branch);
    return named("checkpoint", latest);
  }

  private static Object listCheckpoints(StatekeepClient client, Arguments args) {
    BranchId branch = args.branch();
    Map<String, String> labels = args.labels();
    int pageSize = args.small("page_size");
    args.done();
    return named("checkpoints", client.state().listCheckpoints(branch, labels, pageSize));
  }

  private static Object getHistory(StatekeepClient client, Arguments args) {
    BranchId branch = args.branch();
    args.done();
    Map<String, Object> history = Tree.object(Tree.of(client.state().getHistory(branch)));
    history.putAll(Tree.object(history.remove("branch")));
    return Map.of("history", history);
  }

  private static Object streamHistory(StatekeepClient client, Arguments args) {
    BranchId branch = args.branch();
    boolean withCheckpoints = args.flag("include_checkpoints");
    Consumer<StateStore.HistoryOptions> options =
        given -> {
          args.ifNumber("after_revision", given::afterRevision);
          args.ifNumber("limit", given::limit);
          args.ifNumber("last", given::last);
          args.ifFlag("include_ancestors", given::includeAncestors);
          args.done();
        };
    StateStore state = client.state();
    try (RecordStream<? extends StateRecord> records =
        withCheckpoints
            ? state.streamRecords(branch, options)
            : state.streamHistory(branch, options)) {
      List<StateRecord> all = new ArrayList<>();
      records.forEachRemaining(all::add);
      return Map.of(
          "events", Tree.of(all.stream().filter(Event.class::isInstance).toList()),
          "checkpoints", Tree.of(all.stream().filter(Checkpoint.class::isInstance).toList()),
          "caught_up", records.caughtUp(),
          "revision", records.revision());
    }
  }

  private static RecordStream<Event> tail(StatekeepClient client, Arguments args) {
    BranchId branch = args.branch();
    if (!args.flag("follow")) {
      throw new IllegalStateException("a stream is only opened to follow");
    }
    return client
        .state()
        .tail(
            branch,
            given -> {
              args.ifNumber("after_revision", given::afterRevision);
              args.ifNumber("last", given::last);
              args.ifFlag("include_ancestors", given::includeAncestors);
              args.ifDuration("heartbeat", given::heartbeat);
              args.done();
            });
  }

  private static Object fork(StatekeepClient client, Arguments args) {
    BranchId branch = args.branch();
    String from = args.text("from_event_id");
    Optional<NewCheckpoint> checkpoint =
        args.has("checkpoint")
            ? Optional.of(args.part("checkpoint").checkpoint())
            : Optional.empty();
    Optional<NewEvent> event =
        args.has("event") ? Optional.of(args.part("event").event()) : Optional.empty();
    return Tree.of(
        client
            .state()
            .fork(
                branch,
                from,
                given -> {
                  checkpoint.ifPresent(given::checkpoint);
                  event.ifPresent(given::event);
                  args.ifText("name", given::name);
                  args.ifText("request_id", given::requestId);
                  args.done();
                }));
  }

  private static Object listBranches(StatekeepClient client, Arguments args) {
    String thread = args.text("thread_id");
    boolean unforked = args.flag("include_unforked");
    int pageSize = args.small("page_size");
    args.done();
    return named("branches", client.state().listBranches(thread, unforked, pageSize));
  }

  private static Object listThreads(StatekeepClient client, Arguments args) {
    String prefix = args.text("prefix");
    int pageSize = args.small("page_size");
    args.done();
    return named("threads", client.state().listThreads(prefix, pageSize));
  }

  private static Object deleteThread(StatekeepClient client, Arguments args) {
    String thread = args.text("thread_id");
    args.done();
    return Tree.of(client.state().deleteThread(thread));
  }
}
