package dev.statekeep;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import statekeep.v1.MemoryGrpc;
import statekeep.v1.MemoryOuterClass.MemoryBatchGetRequest;
import statekeep.v1.MemoryOuterClass.MemoryBatchSetRequest;
import statekeep.v1.MemoryOuterClass.MemoryDeleteRequest;
import statekeep.v1.MemoryOuterClass.MemoryDeleteResponse;
import statekeep.v1.MemoryOuterClass.MemoryGetRequest;
import statekeep.v1.MemoryOuterClass.MemoryGetResponse;
import statekeep.v1.MemoryOuterClass.MemoryHistoryRequest;
import statekeep.v1.MemoryOuterClass.MemoryListPurgesRequest;
import statekeep.v1.MemoryOuterClass.MemoryListPurgesResponse;
import statekeep.v1.MemoryOuterClass.MemoryListRequest;
import statekeep.v1.MemoryOuterClass.MemoryListResponse;
import statekeep.v1.MemoryOuterClass.MemoryListScopesRequest;
import statekeep.v1.MemoryOuterClass.MemoryListScopesResponse;
import statekeep.v1.MemoryOuterClass.MemoryPurgeRequest;
import statekeep.v1.MemoryOuterClass.MemoryPurgeResponse;
import statekeep.v1.MemoryOuterClass.MemoryWatchRequest;

/**
 * Versioned values under keys, in scopes that outlive a program. Every write makes a version, a
 * delete hides the key behind a tombstone, and the history shows all of them.
 */
public final class Memory {
  private final Calls calls;

  Memory(Calls calls) {
    this.calls = calls;
  }

  /**
   * Writes a new version of a key.
   *
   * @param scope the scope
   * @param key the key
   * @param value the value
   * @return the new version, without its value
   */
  public Entry set(Scope scope, String key, Value value) {
    return set(scope, Write.of(key, value));
  }

  /**
   * Writes a new version of a key.
   *
   * @param scope the scope
   * @param write the key, its value, and what goes with it
   * @return the new version, without its value
   * @throws StatekeepException.Conflict the current version is not the expected one
   */
  public Entry set(Scope scope, Write write) {
    return set(scope, write, Calls.newId());
  }

  /**
   * Writes a new version of a key, once for each request id.
   *
   * @param scope the scope
   * @param write the key, its value, and what goes with it
   * @param requestId a write with an id that was used already gets the first answer, and writes
   *     nothing
   * @return the new version, without its value
   * @throws StatekeepException.Conflict the current version is not the expected one
   */
  public Entry set(Scope scope, Write write, String requestId) {
    return Messages.entry(
        calls
            .answer(
                MemoryGrpc.getSetMethod(),
                write.in(scope).toBuilder().setRequestId(Calls.idOr(requestId)).build())
            .getEntry());
  }

  /**
   * Writes several keys of one scope, all or none.
   *
   * @param scope the scope
   * @param writes the writes, each of another key
   * @return the new versions, without their values
   * @throws StatekeepException.Conflict one of the current versions is not the expected one
   */
  public List<Entry> batchSet(Scope scope, List<Write> writes) {
    return batchSet(scope, writes, Calls.newId());
  }

  /**
   * Writes several keys of one scope, all or none, once for each request id.
   *
   * @param scope the scope
   * @param writes the writes, each of another key
   * @param requestId a batch with an id that was used already gets the first answer, and writes
   *     nothing
   * @return the new versions, without their values
   * @throws StatekeepException.Conflict one of the current versions is not the expected one
   */
  public List<Entry> batchSet(Scope scope, List<Write> writes, String requestId) {
    MemoryBatchSetRequest request =
        MemoryBatchSetRequest.newBuilder()
            .addAllSets(Messages.all(writes, write -> write.in(scope)))
            .setRequestId(Calls.idOr(requestId))
            .build();
    return Messages.all(
        calls.answer(MemoryGrpc.getBatchSetMethod(), request).getEntriesList(), Messages::entry);
  }

  /**
   * Reads the newest version of a key.
   *
   * @param scope the scope
   * @param key the key
   * @return the version; empty where it is not there, deleted or expired
   */
  public Optional<Entry> get(Scope scope, String key) {
    return get(scope, key, options -> {});
  }

  /**
   * Reads a version of a key.
   *
   * @param scope the scope
   * @param key the key
   * @param options which version, and whether a tombstone is one
   * @return the version; empty where it is not there, deleted or expired
   */
  public Optional<Entry> get(Scope scope, String key, Consumer<GetOptions> options) {
    GetOptions given = new GetOptions();
    options.accept(given);
    MemoryGetResponse answer =
        calls.answer(
            MemoryGrpc.getGetMethod(),
            given.request.setScope(Messages.message(scope)).setKey(key).build());
    return answer.hasEntry() ? Optional.of(Messages.entry(answer.getEntry())) : Optional.empty();
  }

  /**
   * Reads the newest versions of several keys from one point in time.
   *
   * @param scope the scope
   * @param keys the keys
   * @return the versions of those of them that have a value
   * @throws StatekeepException.ResourceExhausted the values do not fit one message
   */
  public List<Entry> batchGet(Scope scope, List<String> keys) {
    MemoryBatchGetRequest request =
        MemoryBatchGetRequest.newBuilder()
            .setScope(Messages.message(scope))
            .addAllKeys(keys)
            .build();
    return Messages.all(
        calls.answer(MemoryGrpc.getBatchGetMethod(), request).getEntriesList(), Messages::entry);
  }

  /**
   * Lists the newest versions of the keys that have a value, sorted by key, without their values.
   *
   * @param scope the scope
   * @return the versions
   */
  public Pages<Entry> list(Scope scope) {
    return list(scope, options -> {});
  }

  /**
   * Lists the newest versions of keys, sorted by key.
   *
   * @param scope the scope
   * @param options which, and with what
   * @return the versions
   */
  public Pages<Entry> list(Scope scope, Consumer<ListOptions> options) {
    ListOptions given = new ListOptions();
    options.accept(given);
    MemoryListRequest request = given.request.setScope(Messages.message(scope)).build();
    return new Pages<>(
        token -> {
          MemoryListResponse answer =
              calls.answer(
                  MemoryGrpc.getListMethod(), request.toBuilder().setPageToken(token).build());
          return new Pages.Page<>(
              Messages.all(answer.getEntriesList(), Messages::entry), answer.getNextPageToken());
        });
  }

  /**
   * Streams every version of a key, tombstones too, newest first, without their values.
   *
   * @param scope the scope
   * @param key the key
   * @return the versions, to be closed
   */
  public RecordStream<Entry> history(Scope scope, String key) {
    return history(scope, key, options -> {});
  }

  /**
   * Streams the versions of a key, tombstones too.
   *
   * @param scope the scope
   * @param key the key
   * @param options in which order, how many, and with what
   * @return the versions, to be closed
   */
  public RecordStream<Entry> history(Scope scope, String key, Consumer<HistoryOptions> options) {
    HistoryOptions given = new HistoryOptions();
    options.accept(given);
    MemoryHistoryRequest request =
        given.request.setScope(Messages.message(scope)).setKey(key).build();
    return calls.read(new VersionsPlace(request));
  }

  /**
   * Hides a key behind a tombstone.
   *
   * @param scope the scope
   * @param key the key
   * @return the tombstone, or the one that stood there already; empty where the key never had a
   *     value
   */
  public Optional<Entry> delete(Scope scope, String key) {
    return delete(scope, key, options -> {});
  }

  /**
   * Hides a key behind a tombstone.
   *
   * @param scope the scope
   * @param key the key
   * @param options what goes with it
   * @return the tombstone, or the one that stood there already; empty where the key never had a
   *     value
   * @throws StatekeepException.Conflict the current version is not the expected one
   */
  public Optional<Entry> delete(Scope scope, String key, Consumer<DeleteOptions> options) {
    DeleteOptions given = new DeleteOptions();
    options.accept(given);
    MemoryDeleteResponse answer =
        calls.answer(
            MemoryGrpc.getDeleteMethod(),
            given.request.setScope(Messages.message(scope)).setKey(key).build());
    return answer.hasEntry() ? Optional.of(Messages.entry(answer.getEntry())) : Optional.empty();
  }

  /**
   * Removes for good all but the newest versions of a key; a tombstone counts as a version. A lost
   * connection is not tried again: the answer would be wrong.
   *
   * @param scope the scope
   * @param key the key
   * @param keep how many of its newest versions stay
   * @return what was removed
   */
  public Purged purge(Scope scope, String key, int keep) {
    return purge(
        MemoryPurgeRequest.newBuilder()
            .setScope(Messages.message(scope))
            .setKey(key)
            .setKeep(keep));
  }

  /**
   * Removes for good all but the newest versions of every key of a scope, as {@link #purge} does.
   *
   * @param scope the scope
   * @param keep how many of the newest versions of each key stay
   * @param includeDeleted whether deleted keys are removed whole; otherwise they are passed over
   * @return what was removed
   */
  public Purged purgeAll(Scope scope, int keep, boolean includeDeleted) {
    return purge(
        MemoryPurgeRequest.newBuilder()
            .setScope(Messages.message(scope))
            .setAllKeys(true)
            .setKeep(keep)
            .setIncludeDeleted(includeDeleted));
  }

  private Purged purge(MemoryPurgeRequest.Builder request) {
    MemoryPurgeResponse answer = calls.answer(MemoryGrpc.getPurgeMethod(), request.build());
    return new Purged(answer.getVersionsDeleted(), answer.getKeysAffected());
  }

  /**
   * Lists what was purged in a scope, newest first.
   *
   * @param scope the scope
   * @return the purges
   */
  public Pages<PurgeRecord> listPurges(Scope scope) {
    return listPurges(scope, 0);
  }

  /**
   * Lists what was purged in a scope, newest first.
   *
   * @param scope the scope
   * @param pageSize how many are fetched at once; 0 leaves it to the server
   * @return the purges
   */
  public Pages<PurgeRecord> listPurges(Scope scope, int pageSize) {
    MemoryListPurgesRequest.Builder request =
        MemoryListPurgesRequest.newBuilder()
            .setScope(Messages.message(scope))
            .setPageSize(pageSize);
    return new Pages<>(
        token -> {
          MemoryListPurgesResponse answer =
              calls.answer(
                  MemoryGrpc.getListPurgesMethod(), request.clone().setPageToken(token).build());
          return new Pages.Page<>(
              Messages.all(answer.getPurgesList(), Messages::purgeRecord),
              answer.getNextPageToken());
        });
  }

  /**
   * Lists the scopes that hold a key with a value, by name, then namespace, flow, execution.
   *
   * @return the scopes
   */
  public Pages<ScopeInfo> listScopes() {
    return listScopes(0);
  }

  /**
   * Lists the scopes that hold a key with a value, by name, then namespace, flow, execution.
   *
   * @param pageSize how many are fetched at once; 0 leaves it to the server
   * @return the scopes
   */
  public Pages<ScopeInfo> listScopes(int pageSize) {
    MemoryListScopesRequest.Builder request =
        MemoryListScopesRequest.newBuilder().setPageSize(pageSize);
    return new Pages<>(
        token -> {
          MemoryListScopesResponse answer =
              calls.answer(
                  MemoryGrpc.getListScopesMethod(), request.clone().setPageToken(token).build());
          return new Pages.Page<>(
              Messages.all(answer.getScopesList(), Messages::scopeInfo), answer.getNextPageToken());
        });
  }

  /**
   * Follows the writes of a scope from now on, with their values, until it is closed.
   *
   * @param scope the scope
   * @return the writes, to be closed
   */
  public RecordStream<Entry> watch(Scope scope) {
    return watch(scope, options -> {});
  }

  /**
   * Follows the writes of a scope until it is closed.
   *
   * @param scope the scope
   * @param options from where on, which, and with what
   * @return the writes, to be closed
   * @throws StatekeepException.OutOfRange it cannot go on after the revision given
   */
  public RecordStream<Entry> watch(Scope scope, Consumer<WatchOptions> options) {
    WatchOptions given = new WatchOptions();
    options.accept(given);
    MemoryWatchRequest request = given.request.setScope(Messages.message(scope)).build();
    return calls.follow(new WatchPlace(request), given.retryFor);
  }

  /** Which version is read. */
  public static final class GetOptions {
    private final MemoryGetRequest.Builder request = MemoryGetRequest.newBuilder();

    private GetOptions() {}

    /**
     * Reads this version in place of the newest.
     *
     * @param version the version
     * @return these options
     */
    public GetOptions version(long version) {
      request.setVersion(version);
      return this;
    }

    /**
     * Answers with the tombstone where the version read is one.
     *
     * @return these options
     */
    public GetOptions includeDeleted() {
      request.setIncludeDeleted(true);
      return this;
    }
  }

  /** Which keys are listed, and with what. */
  public static final class ListOptions {
    private final MemoryListRequest.Builder request = MemoryListRequest.newBuilder();

    private ListOptions() {}

    /**
     * Only keys that begin with this, literally.
     *
     * @param prefix the prefix
     * @return these options
     */
    public ListOptions prefix(String prefix) {
      request.setPrefix(prefix);
      return this;
    }

    /**
     * How many are fetched at once.
     *
     * @param size the size of a page; 0 leaves it to the server
     * @return these options
     */
    public ListOptions pageSize(int size) {
      request.setPageSize(size);
      return this;
    }

    /**
     * With their values.
     *
     * @return these options
     */
    public ListOptions includeValues() {
      request.setIncludeValues(true);
      return this;
    }

    /**
     * Also deleted keys.
     *
     * @return these options
     */
    public ListOptions includeDeleted() {
      request.setIncludeDeleted(true);
      return this;
    }
  }

  /** In which order the versions of a key come, how many, and with what. */
  public static final class HistoryOptions {
    private final MemoryHistoryRequest.Builder request = MemoryHistoryRequest.newBuilder();

    private HistoryOptions() {}

    /**
     * Oldest first.
     *
     * @return these options
     */
    public HistoryOptions oldestFirst() {
      request.setOldestFirst(true);
      return this;
    }

    /**
     * With their values.
     *
     * @return these options
     */
    public HistoryOptions includeValues() {
      request.setIncludeValues(true);
      return this;
    }

    /**
     * At most so many.
     *
     * @param limit how many; 0: all
     * @return these options
     */
    public HistoryOptions limit(long limit) {
      request.setLimit(limit);
      return this;
    }
  }

  /** What goes with a tombstone. */
  public static final class DeleteOptions {
    private final MemoryDeleteRequest.Builder request =
        MemoryDeleteRequest.newBuilder().setRequestId(Calls.newId());

    private DeleteOptions() {}

    /**
     * Deletes only where the key is at this version.
     *
     * @param version its current version; 0 where it has no value
     * @return these options
     */
    public DeleteOptions expectedVersion(long version) {
      request.setExpectedVersion(version);
      return this;
    }

    /**
     * Says who deletes.
     *
     * @param id the execution's id
     * @return these options
     */
    public DeleteOptions executionId(String id) {
      request.setExecutionId(id);
      return this;
    }

    /**
     * Says which flow deletes.
     *
     * @param id the flow's id
     * @return these options
     */
    public DeleteOptions flowId(String id) {
      request.setFlowId(id);
      return this;
    }

    /**
     * Says the name of the flow that deletes.
     *
     * @param name the flow's name
     * @return these options
     */
    public DeleteOptions flowName(String name) {
      request.setFlowName(name);
      return this;
    }

    /**
     * Deletes once for each id.
     *
     * @param id a delete with an id that was used already gets the first answer, and writes nothing
     * @return these options
     */
    public DeleteOptions requestId(String id) {
      request.setRequestId(Calls.idOr(id));
      return this;
    }
  }

  /** From where on a scope is followed, which keys, and with what. */
  public static final class WatchOptions {
    private final MemoryWatchRequest.Builder request =
        MemoryWatchRequest.newBuilder().setIncludeValues(true);
    private Duration retryFor;

    private WatchOptions() {}

    /**
     * Only keys that begin with this, literally.
     *
     * @param prefix the prefix
     * @return these options
     */
    public WatchOptions prefix(String prefix) {
      request.setPrefix(prefix);
      return this;
    }

    /**
     * Goes on after this revision.
     *
     * @param revision a cursor; 0 begins with all there is
     * @return these options
     */
    public WatchOptions afterRevision(long revision) {
      request.setAfterRevision(revision);
      return this;
    }

    /**
     * Whether entries carry their values, which they do unless told otherwise.
     *
     * @param include whether
     * @return these options
     */
    public WatchOptions includeValues(boolean include) {
      request.setIncludeValues(include);
      return this;
    }

    /**
     * Has the server send signs of life, which move {@link RecordStream#revision()}.
     *
     * @param interval how often, at least every 100 ms
     * @return these options
     */
    public WatchOptions heartbeat(Duration interval) {
      request.setHeartbeat(Messages.message(interval));
      return this;
    }

    /**
     * For how long a lost connection is tried again: without an end, unless told otherwise.
     *
     * @param patience how long, counted from the first failure; zero: not at all
     * @return these options
     */
    public WatchOptions retryFor(Duration patience) {
      retryFor = patience;
      return this;
    }
  }
}
