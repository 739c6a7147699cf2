package dev.statekeep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import statekeep.v1.StateStoreGrpc;
import statekeep.v1.StateStoreOuterClass;
import statekeep.v1.StateStoreOuterClass.StreamHistoryRequest;
import statekeep.v1.StateStoreOuterClass.StreamHistoryResponse;

class FollowTest {
  private static final BranchId BRANCH = BranchId.main("t");
  private static final Scope SCOPE = Scope.namespace("followed");
  private static final Duration LONG = Duration.ofSeconds(30);

  private static void append(StatekeepClient client, int from, int to) {
    for (int number = from; number <= to; number++) {
      client.state().appendNextEvent(BRANCH, NewEvent.of("note").withId("e" + number));
    }
  }

  private static List<Long> sequences(RecordStream<Event> events, int count) {
    List<Long> sequences = new ArrayList<>();
    while (sequences.size() < count) {
      sequences.add(events.poll(LONG).orElseThrow().sequence());
    }
    return sequences;
  }

  private static List<Long> numbers(int from, int to) {
    return LongStream.rangeClosed(from, to).boxed().toList();
  }

  @Test
  void aHistoryIsStreamedInTheOrderItWasStored() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      List<NewEvent> events = new ArrayList<>();
      for (int number = 0; number < 1000; number++) {
        events.add(NewEvent.of("note", Value.text("x".repeat(2000))));
      }
      client.state().appendEvents(BRANCH, events);

      try (RecordStream<Event> history = client.state().streamHistory(BRANCH)) {
        List<Event> came = history.stream().toList();
        assertEquals(
            events.stream().map(NewEvent::id).toList(), came.stream().map(Event::id).toList());
        assertTrue(history.caughtUp());
        assertEquals(came.get(999).revision(), history.revision());
      }
    }
  }

  @Test
  void theCursorMovesWithEachRecordHandedOut() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      append(client, 1, 3);
      long cursor;
      try (RecordStream<Event> history = client.state().streamHistory(BRANCH)) {
        Event first = history.next();
        cursor = history.revision();
        assertEquals(first.revision(), cursor);
        assertFalse(history.caughtUp());
      }
      try (RecordStream<Event> rest =
          client.state().streamHistory(BRANCH, options -> options.afterRevision(cursor))) {
        assertEquals(List.of(2L, 3L), rest.stream().map(Event::sequence).toList());
      }
    }
  }

  @Test
  void noRecordComesAfterClose() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      append(client, 1, 5);
      RecordStream<Event> history = client.state().streamHistory(BRANCH);
      history.next();
      history.close();

      assertFalse(history.hasNext());
      assertEquals(Optional.empty(), history.poll(LONG));
      assertThrows(NoSuchElementException.class, history::next);
    }
  }

  @Test
  void aFollowerGoesOnAfterKillAndRestartWithoutGapOrRepeat(@TempDir Path folder) throws Exception {
    boolean hasSqlite = StatekeepServer.hasSqlite();
    if (!hasSqlite) {
      System.err.println(
          "SKIPPED: no record survives kill -9, for this server has no sqlite store");
    }
    assumeTrue(hasSqlite, "this server has no sqlite store");
    String store = "sqlite:" + folder.resolve("state.db");
    StatekeepServer server = StatekeepServer.start("--store", store);
    try (StatekeepClient client = StatekeepClient.connect(server.address());
        RecordStream<Event> tail = client.state().tail(BRANCH);
        RecordStream<Entry> watch =
            client.memory().watch(SCOPE, options -> options.afterRevision(0))) {
      var writing = new FutureTask<>(() -> writeThroughOutages(client, 400), null);
      new Thread(writing).start();
      for (int round = 0; round < 3; round++) {
        assertEquals(numbers(round * 100 + 1, round * 100 + 100), sequences(tail, 100));
        server.kill();
        server = StatekeepServer.startAt(server.address(), "--store", store);
      }
      assertEquals(numbers(301, 400), sequences(tail, 100));
      writing.get(LONG.toSeconds(), TimeUnit.SECONDS);
      assertEquals(Optional.empty(), tail.poll(Duration.ofMillis(200)), "nothing comes twice");
      for (long version : numbers(1, 400)) {
        assertEquals(version, watch.poll(LONG).orElseThrow().version());
      }
    } finally {
      server.close();
    }
  }

  /**
   * Appends events and sets a key so many times, each again with its own id until it was answered.
   */
  private static void writeThroughOutages(StatekeepClient client, int count) {
    long giveUp = System.nanoTime() + LONG.toNanos() * 3 / 2;
    for (int number = 1; number <= count; number++) {
      NewEvent event = NewEvent.of("note").withId("e" + number);
      String requestId = "r" + number;
      Write write = Write.of("k", Value.json("" + number));
      untilAnswered(giveUp, () -> client.state().appendNextEvent(BRANCH, event));
      untilAnswered(giveUp, () -> client.memory().set(SCOPE, write, requestId));
    }
  }

  private static void untilAnswered(long giveUp, Runnable call) {
    while (true) {
      try {
        call.run();
        return;
      } catch (StatekeepException.Unavailable away) {
        if (System.nanoTime() > giveUp) {
          throw away;
        }
      }
    }
  }

  @Test
  void aServerThatRestartedWithoutItsRecordsRefusesTheCursor() throws Exception {
    StatekeepServer server = StatekeepServer.start("--store", "memory:");
    try (StatekeepClient client = StatekeepClient.connect(server.address())) {
      append(client, 1, 1);
      try (RecordStream<Event> tail = client.state().tail(BRANCH)) {
        assertEquals(List.of(1L), sequences(tail, 1));
        server.kill();
        server = StatekeepServer.startAt(server.address());
        var error = assertThrows(StatekeepException.OutOfRange.class, tail::hasNext);
        assertEquals(Reason.REVISION_GONE, error.reason());
        assertFalse(tail.hasNext(), "an ended stream stays ended");
      }
    } finally {
      server.close();
    }
  }

  @Test
  void aServerThatGoesAwaySaysSoAndWhenToComeBack() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address());
        RecordStream<Event> tail =
            client.state().tail(BRANCH, options -> options.retryFor(Duration.ZERO))) {
      server.terminate();

      var error = assertThrows(StatekeepException.Unavailable.class, tail::hasNext);
      assertEquals(Reason.SHUTTING_DOWN, error.reason());
      assertTrue(error.retryDelay().isPresent());
    }
  }

  @Test
  void patienceEndsWhenTheUserSaid() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address());
        RecordStream<Event> tail =
            client.state().tail(BRANCH, options -> options.retryFor(Duration.ofSeconds(1)))) {
      server.kill();

      long began = System.nanoTime();
      assertThrows(StatekeepException.Unavailable.class, tail::hasNext);
      assertTrue(System.nanoTime() - began >= Duration.ofSeconds(1).toNanos());
    }
  }

  /** Sends what it is told to, and ends as lost; writes down what it was asked. */
  private static final class Losing extends StateStoreGrpc.StateStoreImplBase {
    private final List<StreamHistoryRequest> asked = new CopyOnWriteArrayList<>();

    @Override
    public void streamHistory(
        StreamHistoryRequest request, StreamObserver<StreamHistoryResponse> answer) {
      asked.add(request);
      long after = request.getAfterRevision();
      if (after < 6) {
        answer.onNext(message(after + 1, after + 2, after + 3));
        answer.onError(Status.UNAVAILABLE.asRuntimeException());
      } else {
        answer.onNext(
            StreamHistoryResponse.newBuilder().setCaughtUp(true).setRevision(after).build());
        answer.onCompleted();
      }
    }

    // Two events and a revision beyond them, as where others' records lie between.
    private static StreamHistoryResponse message(long first, long second, long revision) {
      return StreamHistoryResponse.newBuilder()
          .addEvents(StateStoreOuterClass.Event.newBuilder().setRevision(first).setSequence(first))
          .addEvents(
              StateStoreOuterClass.Event.newBuilder().setRevision(second).setSequence(second))
          .setRevision(revision)
          .build();
    }
  }

  @Test
  void aReadThatIsLostGoesOnAfterTheLastMessagesRevision() throws Exception {
    Losing state = new Losing();
    try (FakeServer server = new FakeServer(state);
        StatekeepClient client = StatekeepClient.connect(server.address());
        RecordStream<Event> history =
            client.state().streamHistory(BRANCH, options -> options.limit(9))) {
      assertEquals(List.of(1L, 2L, 4L, 5L), history.stream().map(Event::sequence).toList());
    }
    assertEquals(
        List.of(0L, 3L, 6L),
        state.asked.stream().map(StreamHistoryRequest::getAfterRevision).toList());
    assertEquals(
        List.of(9L, 7L, 5L), state.asked.stream().map(StreamHistoryRequest::getLimit).toList());
  }

  @Test
  void aReadOfTheLastFewIsOverOnceTheyCame() throws Exception {
    Losing state = new Losing();
    try (FakeServer server = new FakeServer(state);
        StatekeepClient client = StatekeepClient.connect(server.address());
        RecordStream<Event> history =
            client.state().streamHistory(BRANCH, options -> options.last(2))) {
      assertEquals(List.of(1L, 2L), history.stream().map(Event::sequence).toList());
    }
    assertEquals(1, state.asked.size());
  }

  @Test
  void anotherThreadMayCloseAFollower() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      RecordStream<Event> tail = client.state().tail(BRANCH);
      var waiting = new FutureTask<>(tail::hasNext);
      new Thread(waiting).start();
      tail.close();

      assertFalse(waiting.get(LONG.toSeconds(), TimeUnit.SECONDS));
    }
  }

  @Test
  void closingTheClientTellsItsFollowersSo() throws Exception {
    try (StatekeepServer server = StatekeepServer.start()) {
      StatekeepClient client = StatekeepClient.connect(server.address());
      RecordStream<Event> tail = client.state().tail(BRANCH);
      var waiting = new FutureTask<>(tail::hasNext);
      new Thread(waiting).start();
      client.close();

      var error =
          assertThrows(
              ExecutionException.class, () -> waiting.get(LONG.toSeconds(), TimeUnit.SECONDS));
      assertInstanceOf(StatekeepException.Cancelled.class, error.getCause());
    }
  }

  @Test
  void anInterruptedReaderIsCancelled() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address());
        RecordStream<Event> tail = client.state().tail(BRANCH)) {
      Thread.currentThread().interrupt();

      assertThrows(StatekeepException.Cancelled.class, tail::hasNext);
      assertTrue(Thread.interrupted());
    }
  }

  @Test
  void heartbeatsMoveTheCursorPastWhatOthersWrote() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      append(client, 1, 1);
      try (RecordStream<Event> tail =
          client.state().tail(BRANCH, options -> options.heartbeat(Duration.ofMillis(100)))) {
        assertEquals(List.of(1L), sequences(tail, 1));
        assertEquals(Optional.empty(), tail.poll(Duration.ofMillis(300)));
        append(client, 2, 2);
        assertEquals(List.of(2L), sequences(tail, 1));
      }
    }
  }

  @Test
  @Timeout(120)
  void pingsOnAnIdleStreamAreNoReasonToCutItOff() throws Exception {
    boolean isSoak = "1".equals(System.getenv("STATEKEEP_SOAK"));
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client =
            StatekeepClient.builder()
                .address(server.address())
                .keepAlive(Duration.ofSeconds(10))
                .build();
        // Without patience, so that a lost connection is an error here.
        RecordStream<Event> tail =
            client.state().tail(BRANCH, options -> options.retryFor(Duration.ZERO))) {
      assertEquals(Optional.empty(), tail.poll(Duration.ofSeconds(isSoak ? 65 : 12)));
      append(client, 1, 1);
      assertEquals(List.of(1L), sequences(tail, 1));
    }
  }

  @Test
  void pagesAreFetchedAsTheyAreNeeded() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      List<Write> writes = new ArrayList<>();
      for (int number = 10; number < 35; number++) {
        writes.add(Write.of("k" + number, Value.text("x")));
      }
      client.memory().batchSet(SCOPE, writes);
      Pages<Entry> pages = client.memory().list(SCOPE, options -> options.pageSize(10));

      assertEquals(25, pages.stream().map(Entry::key).distinct().count());
      assertEquals(25, pages.stream().count(), "it can be gone through again");
      assertEquals(Optional.of("k10"), pages.stream().findFirst().map(Entry::key));
    }
  }

  @Test
  void anAttachedInstanceEndsWithItsAttachment() throws Exception {
    try (StatekeepServer server = StatekeepServer.start();
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      try (Attachment attachment = client.scratch().attach("run")) {
        client.scratch().put(attachment.instanceId(), "k", Value.text("x"));
        var error =
            assertThrows(
                StatekeepException.FailedPrecondition.class, () -> client.scratch().attach("run"));
        assertEquals(Reason.INSTANCE_ATTACHED, error.reason());
        assertEquals(List.of("k"), client.scratch().list("run"));
      }
      long giveUp = System.nanoTime() + LONG.toNanos();
      while (!client.scratch().list("run").isEmpty()) {
        assertTrue(System.nanoTime() < giveUp, "the instance did not end");
      }
    }
  }
}
