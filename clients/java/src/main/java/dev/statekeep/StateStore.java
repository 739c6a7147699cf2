package dev.statekeep;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import statekeep.v1.StateStoreGrpc;
import statekeep.v1.StateStoreOuterClass.AppendEventRequest;
import statekeep.v1.StateStoreOuterClass.AppendEventsRequest;
import statekeep.v1.StateStoreOuterClass.AppendEventsResponse;
import statekeep.v1.StateStoreOuterClass.AppendNextEventRequest;
import statekeep.v1.StateStoreOuterClass.DeleteThreadRequest;
import statekeep.v1.StateStoreOuterClass.DeleteThreadResponse;
import statekeep.v1.StateStoreOuterClass.ForkRequest;
import statekeep.v1.StateStoreOuterClass.ForkResponse;
import statekeep.v1.StateStoreOuterClass.GetHistoryRequest;
import statekeep.v1.StateStoreOuterClass.LatestCheckpointRequest;
import statekeep.v1.StateStoreOuterClass.LatestCheckpointResponse;
import statekeep.v1.StateStoreOuterClass.ListBranchesRequest;
import statekeep.v1.StateStoreOuterClass.ListBranchesResponse;
import statekeep.v1.StateStoreOuterClass.ListCheckpointsRequest;
import statekeep.v1.StateStoreOuterClass.ListCheckpointsResponse;
import statekeep.v1.StateStoreOuterClass.ListThreadsRequest;
import statekeep.v1.StateStoreOuterClass.ListThreadsResponse;
import statekeep.v1.StateStoreOuterClass.SaveCheckpointRequest;
import statekeep.v1.StateStoreOuterClass.StreamHistoryRequest;

/**
 * The history of threads: events in the order they were stored, checkpoints of state, and branches.
 *
 * <p>Sequence numbers are 0 to 2^53−1. Appending an event again, which has the same id and says the
 * same, changes nothing and answers with the stored one: so a retry is safe.
 */
public final class StateStore {
  private final Calls calls;

  StateStore(Calls calls) {
    this.calls = calls;
  }

  /**
   * Stores an event under the sequence number given, whatever it is.
   *
   * @param branch the branch
   * @param sequence the number
   * @param event the event
   * @return the event as stored
   * @throws StatekeepException.AlreadyExists the branch holds an event of this id that says
   *     something else
   */
  public Event appendEvent(BranchId branch, long sequence, NewEvent event) {
    AppendEventRequest request =
        AppendEventRequest.newBuilder()
            .setEvent(event.on(branch).toBuilder().setSequence(sequence))
            .build();
    return Messages.event(calls.answer(StateStoreGrpc.getAppendEventMethod(), request).getEvent());
  }

  /**
   * Stores an event with the next sequence number of a thread's main branch.
   *
   * @param threadId the thread, which begins with its first event
   * @param event the event
   * @return the event as stored
   * @throws StatekeepException.AlreadyExists the branch holds an event of this id that says
   *     something else
   */
  public Event appendNextEvent(String threadId, NewEvent event) {
    return appendNextEvent(BranchId.main(threadId), event);
  }

  /**
   * Stores an event with the next sequence number of its branch.
   *
   * @param branch the branch
   * @param event the event
   * @return the event as stored
   * @throws StatekeepException.AlreadyExists the branch holds an event of this id that says
   *     something else
   */
  public Event appendNextEvent(BranchId branch, NewEvent event) {
    return appendNext(AppendNextEventRequest.newBuilder().setEvent(event.on(branch)));
  }

  /**
   * Stores an event with the next sequence number, where nobody has written since.
   *
   * @param branch the branch
   * @param event the event
   * @param expectedLastSequence the highest number on the branch; 0: it holds none
   * @return the event as stored
   * @throws StatekeepException.Conflict the branch's last number is another
   * @throws StatekeepException.AlreadyExists the branch holds an event of this id that says
   *     something else
   */
  public Event appendNextEvent(BranchId branch, NewEvent event, long expectedLastSequence) {
    return appendNext(
        AppendNextEventRequest.newBuilder()
            .setEvent(event.on(branch))
            .setExpectedLastSequence(expectedLastSequence));
  }

  private Event appendNext(AppendNextEventRequest.Builder request) {
    return Messages.event(
        calls.answer(StateStoreGrpc.getAppendNextEventMethod(), request.build()).getEvent());
  }

  /**
   * Stores several events with the next sequence numbers, all or none.
   *
   * @param branch the branch
   * @param events the events, at least one
   * @return where they were stored
   * @throws StatekeepException.AlreadyExists the branch holds some of them already
   */
  public Appended appendEvents(BranchId branch, List<NewEvent> events) {
    return append(batch(branch, events));
  }

  /**
   * Stores several events with the next sequence numbers, all or none, where nobody has written
   * since.
   *
   * @param branch the branch
   * @param events the events, at least one
   * @param expectedLastSequence the highest number on the branch; 0: it holds none
   * @return where they were stored
   * @throws StatekeepException.Conflict the branch's last number is another
   * @throws StatekeepException.AlreadyExists the branch holds some of them already
   */
  public Appended appendEvents(BranchId branch, List<NewEvent> events, long expectedLastSequence) {
    return append(batch(branch, events).setExpectedLastSequence(expectedLastSequence));
  }

  private static AppendEventsRequest.Builder batch(BranchId branch, List<NewEvent> events) {
    return AppendEventsRequest.newBuilder()
        .setThreadId(branch.threadId())
        .setBranchId(branch.branchId())
        .addAllEvents(Messages.all(events, NewEvent::message));
  }

  private Appended append(AppendEventsRequest.Builder request) {
    AppendEventsResponse answer =
        calls.answer(StateStoreGrpc.getAppendEventsMethod(), request.build());
    return new Appended(
        answer.getFirstSequence(),
        answer.getLastSequence(),
        List.copyOf(answer.getIdsList()),
        answer.getRevision());
  }

  /**
   * Stores a snapshot of state.
   *
   * @param branch the branch
   * @param checkpoint the checkpoint
   * @return the checkpoint as stored
   */
  public Checkpoint saveCheckpoint(BranchId branch, NewCheckpoint checkpoint) {
    SaveCheckpointRequest request =
        SaveCheckpointRequest.newBuilder().setCheckpoint(checkpoint.on(branch)).build();
    return Messages.checkpoint(
        calls.answer(StateStoreGrpc.getSaveCheckpointMethod(), request).getCheckpoint());
  }

  /**
   * Reads the checkpoint with the highest sequence number of a branch; of equals the one saved
   * last.
   *
   * @param branch the branch
   * @return the checkpoint; empty where there is none
   */
  public Optional<Checkpoint> latestCheckpoint(BranchId branch) {
    return latest(branch, LatestCheckpointRequest.newBuilder());
  }

  /**
   * Reads the newest checkpoint at or before an event.
   *
   * @param branch the branch
   * @param atEventId an event of the branch
   * @return the checkpoint; empty where there is none
   * @throws StatekeepException.NotFound the branch holds no such event
   */
  public Optional<Checkpoint> latestCheckpoint(BranchId branch, String atEventId) {
    return latest(branch, LatestCheckpointRequest.newBuilder().setAtEventId(atEventId));
  }

  private Optional<Checkpoint> latest(BranchId branch, LatestCheckpointRequest.Builder request) {
    request.setThreadId(branch.threadId()).setBranchId(branch.branchId());
    LatestCheckpointResponse answer =
        calls.answer(StateStoreGrpc.getLatestCheckpointMethod(), request.build());
    return answer.hasCheckpoint()
        ? Optional.of(Messages.checkpoint(answer.getCheckpoint()))
        : Optional.empty();
  }

  /**
   * Lists the checkpoints of a branch, newest first.
   *
   * @param branch the branch
   * @return the checkpoints
   */
  public Pages<Checkpoint> listCheckpoints(BranchId branch) {
    return listCheckpoints(branch, Map.of(), 0);
  }

  /**
   * Lists those checkpoints of a branch that carry all of the labels, newest first.
   *
   * @param branch the branch
   * @param labels the labels
   * @param pageSize how many are fetched at once; 0 leaves it to the server
   * @return the checkpoints
   */
  public Pages<Checkpoint> listCheckpoints(
      BranchId branch, Map<String, String> labels, int pageSize) {
    ListCheckpointsRequest request =
        ListCheckpointsRequest.newBuilder()
            .setThreadId(branch.threadId())
            .setBranchId(branch.branchId())
            .putAllLabels(labels)
            .setPageSize(pageSize)
            .build();
    return new Pages<>(
        token -> {
          ListCheckpointsResponse answer =
              calls.answer(
                  StateStoreGrpc.getListCheckpointsMethod(),
                  request.toBuilder().setPageToken(token).build());
          return new Pages.Page<>(
              Messages.all(answer.getCheckpointsList(), Messages::checkpoint),
              answer.getNextPageToken());
        });
  }

  /**
   * Reads a whole branch in one message. {@link #streamHistory(BranchId)} reads one of any size.
   *
   * @param branch the branch
   * @return its events and checkpoints; empty lists where it is not there
   * @throws StatekeepException.ResourceExhausted it does not fit one message
   */
  public History getHistory(BranchId branch) {
    GetHistoryRequest request =
        GetHistoryRequest.newBuilder()
            .setThreadId(branch.threadId())
            .setBranchId(branch.branchId())
            .build();
    var answer = calls.answer(StateStoreGrpc.getGetHistoryMethod(), request).getHistory();
    return new History(
        new BranchId(answer.getThreadId(), answer.getBranchId()),
        Messages.all(answer.getEventsList(), Messages::event),
        Messages.all(answer.getCheckpointsList(), Messages::checkpoint));
  }

  /**
   * Streams the events of a thread's main branch, in the order they were stored.
   *
   * @param threadId the thread
   * @return the events, to be closed
   */
  public RecordStream<Event> streamHistory(String threadId) {
    return streamHistory(BranchId.main(threadId));
  }

  /**
   * Streams the events of a branch, in the order they were stored.
   *
   * @param branch the branch
   * @return the events, to be closed
   */
  public RecordStream<Event> streamHistory(BranchId branch) {
    return streamHistory(branch, options -> {});
  }

  /**
   * Streams events of a branch, in the order they were stored.
   *
   * @param branch the branch
   * @param options which
   * @return the events, to be closed
   * @throws StatekeepException.OutOfRange it cannot go on after the revision given
   */
  public RecordStream<Event> streamHistory(BranchId branch, Consumer<HistoryOptions> options) {
    return calls.read(new HistoryPlace<>(asked(branch, options).build(), Event.class::cast));
  }

  /**
   * Streams the events of a branch, with its checkpoints where they were saved among them.
   *
   * @param branch the branch
   * @param options which
   * @return the records, to be closed
   * @throws StatekeepException.OutOfRange it cannot go on after the revision given
   */
  public RecordStream<StateRecord> streamRecords(
      BranchId branch, Consumer<HistoryOptions> options) {
    StreamHistoryRequest request = asked(branch, options).setIncludeCheckpoints(true).build();
    return calls.read(new HistoryPlace<>(request, one -> one));
  }

  private static StreamHistoryRequest.Builder asked(
      BranchId branch, Consumer<HistoryOptions> options) {
    HistoryOptions given = new HistoryOptions();
    options.accept(given);
    return given.request.setThreadId(branch.threadId()).setBranchId(branch.branchId());
  }

  /**
   * Streams the events of a branch as {@link #streamHistory(BranchId)} does, and then each that is
   * stored, until it is closed. The branch need not be there yet.
   *
   * @param branch the branch
   * @return the events, to be closed
   */
  public RecordStream<Event> tail(BranchId branch) {
    return tail(branch, options -> {});
  }

  /**
   * Streams events of a branch, and then each that is stored, until it is closed. The branch need
   * not be there yet.
   *
   * @param branch the branch
   * @param options from where on, and with what patience
   * @return the events, to be closed
   * @throws StatekeepException.OutOfRange it cannot go on after the revision given
   */
  public RecordStream<Event> tail(BranchId branch, Consumer<TailOptions> options) {
    TailOptions given = new TailOptions();
    options.accept(given);
    given.request.setThreadId(branch.threadId()).setBranchId(branch.branchId()).setFollow(true);
    return calls.follow(
        new HistoryPlace<>(given.request.build(), Event.class::cast), given.retryFor);
  }

  /**
   * Records a new branch that starts at an event.
   *
   * @param branch the branch to fork
   * @param fromEventId the event of it that the new one starts at
   * @return the new branch
   * @throws StatekeepException.NotFound there is nothing to fork
   */
  public Forked fork(BranchId branch, String fromEventId) {
    return fork(branch, fromEventId, options -> {});
  }

  /**
   * Records a new branch that starts at an event, with its first checkpoint and event in one step.
   *
   * @param branch the branch to fork
   * @param fromEventId the event of it that the new one starts at
   * @param options the new branch's name, and what it begins with
   * @return the new branch
   * @throws StatekeepException.AlreadyExists the name is taken, or {@code main}
   * @throws StatekeepException.NotFound there is nothing to fork
   */
  public Forked fork(BranchId branch, String fromEventId, Consumer<ForkOptions> options) {
    ForkOptions given = new ForkOptions();
    options.accept(given);
    ForkRequest request =
        given
            .request
            .setThreadId(branch.threadId())
            .setBranchId(branch.branchId())
            .setFromEventId(fromEventId)
            .build();
    ForkResponse answer = calls.answer(StateStoreGrpc.getForkMethod(), request);
    return new Forked(
        Messages.branch(answer.getBranch()),
        Messages.optional(answer.hasCheckpoint(), Messages.checkpoint(answer.getCheckpoint())),
        Messages.optional(answer.hasEvent(), Messages.event(answer.getEvent())));
  }

  /**
   * Lists the branches forked from a thread, oldest first. {@code main} is not among them.
   *
   * @param threadId the thread
   * @return the branches
   */
  public Pages<Branch> listBranches(String threadId) {
    return listBranches(threadId, false, 0);
  }

  /**
   * Lists branches of a thread, oldest first.
   *
   * @param threadId the thread
   * @param includeUnforked also {@code main}, and branches that hold records without having been
   *     forked
   * @param pageSize how many are fetched at once; 0 leaves it to the server
   * @return the branches
   */
  public Pages<Branch> listBranches(String threadId, boolean includeUnforked, int pageSize) {
    ListBranchesRequest request =
        ListBranchesRequest.newBuilder()
            .setThreadId(threadId)
            .setIncludeUnforked(includeUnforked)
            .setPageSize(pageSize)
            .build();
    return new Pages<>(
        token -> {
          ListBranchesResponse answer =
              calls.answer(
                  StateStoreGrpc.getListBranchesMethod(),
                  request.toBuilder().setPageToken(token).build());
          return new Pages.Page<>(
              Messages.all(answer.getBranchesList(), Messages::branch), answer.getNextPageToken());
        });
  }

  /**
   * Lists the threads, sorted by id.
   *
   * @return the threads
   */
  public Pages<ThreadInfo> listThreads() {
    return listThreads("", 0);
  }

  /**
   * Lists threads, sorted by id.
   *
   * @param prefix what their ids begin with, literally
   * @param pageSize how many are fetched at once; 0 leaves it to the server
   * @return the threads
   */
  public Pages<ThreadInfo> listThreads(String prefix, int pageSize) {
    ListThreadsRequest request =
        ListThreadsRequest.newBuilder().setPrefix(prefix).setPageSize(pageSize).build();
    return new Pages<>(
        token -> {
          ListThreadsResponse answer =
              calls.answer(
                  StateStoreGrpc.getListThreadsMethod(),
                  request.toBuilder().setPageToken(token).build());
          return new Pages.Page<>(
              Messages.all(answer.getThreadsList(), Messages::thread), answer.getNextPageToken());
        });
  }

  /**
   * Removes a thread with all its branches, and ends its followers. A lost connection is not tried
   * again: the answer would be wrong.
   *
   * @param threadId the thread; it need not be there
   * @return what was removed
   */
  public DeletedThread deleteThread(String threadId) {
    DeleteThreadRequest request = DeleteThreadRequest.newBuilder().setThreadId(threadId).build();
    DeleteThreadResponse answer = calls.answer(StateStoreGrpc.getDeleteThreadMethod(), request);
    return new DeletedThread(answer.getEventsDeleted(), answer.getCheckpointsDeleted());
  }

  /** Which records of a branch are streamed. */
  public static final class HistoryOptions {
    private final StreamHistoryRequest.Builder request = StreamHistoryRequest.newBuilder();

    private HistoryOptions() {}

    /**
     * Only what was stored after this revision.
     *
     * @param revision a cursor; 0: from the start
     * @return these options
     */
    public HistoryOptions afterRevision(long revision) {
      request.setAfterRevision(revision);
      return this;
    }

    /**
     * At most so many events.
     *
     * @param limit how many; 0: all
     * @return these options
     */
    public HistoryOptions limit(long limit) {
      request.setLimit(limit);
      return this;
    }

    /**
     * Only the newest so many events, oldest of them first. Not together with a revision or a
     * limit.
     *
     * @param count how many
     * @return these options
     */
    public HistoryOptions last(long count) {
      request.setLast(count);
      return this;
    }

    /**
     * First what the branch inherits: its ancestors' events up to where each was forked.
     *
     * @return these options
     */
    public HistoryOptions includeAncestors() {
      request.setIncludeAncestors(true);
      return this;
    }
  }

  /** From where on a branch is followed, and with what patience. */
  public static final class TailOptions {
    private final StreamHistoryRequest.Builder request = StreamHistoryRequest.newBuilder();
    private Duration retryFor;

    private TailOptions() {}

    /**
     * Goes on after this revision.
     *
     * @param revision a cursor; 0: from the start
     * @return these options
     */
    public TailOptions afterRevision(long revision) {
      request.setAfterRevision(revision);
      return this;
    }

    /**
     * Begins with the newest so many events, oldest of them first. Not together with a revision.
     *
     * @param count how many
     * @return these options
     */
    public TailOptions last(long count) {
      request.setLast(count);
      return this;
    }

    /**
     * First what the branch inherits: its ancestors' events up to where each was forked.
     *
     * @return these options
     */
    public TailOptions includeAncestors() {
      request.setIncludeAncestors(true);
      return this;
    }

    /**
     * Has the server send signs of life, which move {@link RecordStream#revision()}.
     *
     * @param interval how often, at least every 100 ms
     * @return these options
     */
    public TailOptions heartbeat(Duration interval) {
      request.setHeartbeat(Messages.message(interval));
      return this;
    }

    /**
     * For how long a lost connection is tried again: without an end, unless told otherwise.
     *
     * @param patience how long, counted from the first failure; zero: not at all
     * @return these options
     */
    public TailOptions retryFor(Duration patience) {
      retryFor = patience;
      return this;
    }
  }

  /** The name of a new branch, and what it begins with. */
  public static final class ForkOptions {
    private final ForkRequest.Builder request =
        ForkRequest.newBuilder().setRequestId(Calls.newId());

    private ForkOptions() {}

    /**
     * Names the new branch.
     *
     * @param name its id; without one the server makes one up
     * @return these options
     */
    public ForkOptions name(String name) {
      request.setName(name);
      return this;
    }

    /**
     * Stores the first checkpoint with it.
     *
     * @param checkpoint the checkpoint
     * @return these options
     */
    public ForkOptions checkpoint(NewCheckpoint checkpoint) {
      request.setCheckpoint(checkpoint.message());
      return this;
    }

    /**
     * Stores the first event with it.
     *
     * @param event the event
     * @return these options
     */
    public ForkOptions event(NewEvent event) {
      request.setEvent(event.message());
      return this;
    }

    /**
     * Forks once for each id.
     *
     * @param id a fork with an id that was used already gets the first answer, and makes no second
     *     branch
     * @return these options
     */
    public ForkOptions requestId(String id) {
      request.setRequestId(Calls.idOr(id));
      return this;
    }
  }
}
