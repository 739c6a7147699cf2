package dev.statekeep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.rpc.Code;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.grpc.TlsServerCredentials;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.File;
import java.io.InputStream;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import statekeep.v1.MemoryGrpc;
import statekeep.v1.MemoryOuterClass.MemoryGetRequest;
import statekeep.v1.MemoryOuterClass.MemoryGetResponse;
import statekeep.v1.MemoryOuterClass.MemoryPurgeRequest;
import statekeep.v1.MemoryOuterClass.MemoryPurgeResponse;
import statekeep.v1.MemoryOuterClass.MemorySetRequest;
import statekeep.v1.MemoryOuterClass.MemorySetResponse;

class CallTest {
  private static final Scope SCOPE = Scope.namespace("calls");
  private static final Duration LONG = Duration.ofSeconds(30);

  /** Fails each call with the next failure, and answers once there is none left. */
  private static final class Failing extends MemoryGrpc.MemoryImplBase {
    private final LinkedBlockingQueue<Throwable> failures;
    private final LinkedBlockingQueue<String> requestIds = new LinkedBlockingQueue<>();

    private Failing(Throwable... failures) {
      this.failures = new LinkedBlockingQueue<>(List.of(failures));
    }

    @Override
    public void set(MemorySetRequest request, StreamObserver<MemorySetResponse> answer) {
      requestIds.add(request.getRequestId());
      end(answer, MemorySetResponse.getDefaultInstance());
    }

    @Override
    public void get(MemoryGetRequest request, StreamObserver<MemoryGetResponse> answer) {
      end(answer, MemoryGetResponse.getDefaultInstance());
    }

    @Override
    public void purge(MemoryPurgeRequest request, StreamObserver<MemoryPurgeResponse> answer) {
      end(answer, MemoryPurgeResponse.getDefaultInstance());
    }

    private <A> void end(StreamObserver<A> answer, A message) {
      Throwable failure = failures.poll();
      if (failure != null) {
        answer.onError(failure);
        return;
      }
      answer.onNext(message);
      answer.onCompleted();
    }
  }

  /** Never answers, and says when a call came and when it was cancelled. */
  private static final class Silent extends MemoryGrpc.MemoryImplBase {
    private final CountDownLatch came = new CountDownLatch(1);
    private final CountDownLatch cancelled = new CountDownLatch(1);

    @Override
    public void get(MemoryGetRequest request, StreamObserver<MemoryGetResponse> answer) {
      ((ServerCallStreamObserver<MemoryGetResponse>) answer)
          .setOnCancelHandler(cancelled::countDown);
      came.countDown();
    }
  }

  @ParameterizedTest
  @CsvSource({
    "UNAUTHENTICATED, UNAUTHENTICATED, Unauthenticated",
    "PERMISSION_DENIED, PERMISSION_DENIED, PermissionDenied",
    "FAILED_PRECONDITION, INSTANCE_ATTACHED, FailedPrecondition",
    "ABORTED, VERSION_MISMATCH, Conflict",
    "ALREADY_EXISTS, EVENT_EXISTS, AlreadyExists",
    "NOT_FOUND, THREAD_NOT_FOUND, NotFound",
    "OUT_OF_RANGE, REVISION_GONE, OutOfRange",
    "RESOURCE_EXHAUSTED, LIMIT_REACHED, ResourceExhausted"
  })
  void eachReasonIsAnErrorOfItsCode(Code code, Reason reason, String type) throws Exception {
    try (FakeServer server = new FakeServer(new Failing(FakeServer.failure(code, reason)));
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      var error = assertThrows(StatekeepException.class, () -> client.memory().get(SCOPE, "k"));

      assertEquals(type, error.getClass().getSimpleName());
      assertEquals(reason, error.reason());
      assertEquals(code.name(), error.code().name());
      assertEquals("it failed", error.getMessage());
      assertEquals(Map.of("key", "text"), error.metadata());
      assertEquals(Optional.of(Duration.ofMillis(1)), error.retryDelay());
    }
  }

  @Test
  void aSetWithAnEmptyRequestIdIsTriedAgainUnderOneOfItsOwn() throws Exception {
    var ids = new LinkedBlockingQueue<String>();
    var memory =
        new MemoryGrpc.MemoryImplBase() {
          @Override
          public void set(MemorySetRequest request, StreamObserver<MemorySetResponse> answer) {
            ids.add(request.getRequestId());
            if (ids.size() < 2) {
              answer.onError(FakeServer.failure(Code.UNAVAILABLE, Reason.STORE_UNAVAILABLE));
              return;
            }
            answer.onNext(MemorySetResponse.getDefaultInstance());
            answer.onCompleted();
          }
        };
    try (FakeServer server = new FakeServer(memory);
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      client.memory().set(SCOPE, Write.of("k", Value.json("1")), "");

      String first = ids.take();
      assertEquals(first, ids.take());
      assertNotEquals("", first);
    }
  }

  @Test
  void nobodyAtTheAddressIsSaid() {
    try (StatekeepClient client = StatekeepClient.connect("127.0.0.1:1")) {
      var error =
          assertThrows(StatekeepException.Unavailable.class, () -> client.memory().get(SCOPE, "k"));

      assertTrue(error.getMessage().contains("refused"), error.getMessage());
    }
  }

  @Test
  void aServerOnIpv6IsReached() throws Exception {
    try (StatekeepServer server = StatekeepServer.startAt("[::1]:0");
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      assertEquals(Optional.empty(), client.memory().get(SCOPE, "k"));
    }
  }

  @Test
  void aStoreThatStaysAwayIsUnavailableAfterAFewTries() throws Exception {
    Throwable failure = FakeServer.failure(Code.UNAVAILABLE, Reason.STORE_UNAVAILABLE);
    Failing memory = new Failing(failure, failure, failure, failure);
    try (FakeServer server = new FakeServer(memory);
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      var error =
          assertThrows(StatekeepException.Unavailable.class, () -> client.memory().get(SCOPE, "k"));

      assertEquals(Reason.STORE_UNAVAILABLE, error.reason());
      assertTrue(memory.failures.isEmpty(), "it was not tried again");
      assertEquals(Optional.empty(), client.memory().get(SCOPE, "k"));
    }
  }

  @Test
  void aConnectionLostWhileACallBeganIsUnavailableButNoServersUnknown() throws Exception {
    Status lost = Status.UNKNOWN.withCause(new ClosedChannelException());
    assertTrue(Connection.isMistakenForUnknown(lost.asRuntimeException()));

    Failing memory = new Failing(Status.UNKNOWN.asRuntimeException());
    try (FakeServer server = new FakeServer(memory);
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      var error =
          assertThrows(
              StatekeepException.class, () -> client.memory().set(SCOPE, "k", Value.text("x")));
      assertEquals(Status.Code.UNKNOWN, error.code());
      assertEquals(1, memory.requestIds.size(), "it was tried again");
    }
  }

  @Test
  void aReasonOfANewerServerIsKeptByItsName() throws Exception {
    Throwable failure = FakeServer.failure(Code.ABORTED, Reason.UNRECOGNIZED);
    try (FakeServer server = new FakeServer(new Failing(failure));
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      var error =
          assertThrows(StatekeepException.Conflict.class, () -> client.memory().get(SCOPE, "k"));

      assertEquals(Reason.UNRECOGNIZED, error.reason());
      assertEquals("UNRECOGNIZED", error.reasonName());
    }
  }

  @Test
  void aWriteThatIsTriedAgainHasTheSameRequestId() throws Exception {
    Failing memory = new Failing(Status.UNAVAILABLE.asRuntimeException());
    try (FakeServer server = new FakeServer(memory);
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      client.memory().set(SCOPE, "k", Value.text("x"));

      List<String> ids = List.copyOf(memory.requestIds);
      assertEquals(2, ids.size());
      assertEquals(1, ids.stream().distinct().count());
      assertTrue(!ids.get(0).isEmpty());
    }
  }

  @Test
  void aPurgeIsNotTriedAgain() throws Exception {
    try (FakeServer server = new FakeServer(new Failing(Status.UNAVAILABLE.asRuntimeException()));
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      assertThrows(
          StatekeepException.Unavailable.class, () -> client.memory().purge(SCOPE, "k", 0));
    }
  }

  @Test
  void theTokenGoesWithEveryCall() throws Exception {
    try (FakeServer server = new FakeServer(new Failing());
        StatekeepClient client =
            StatekeepClient.builder().address(server.address()).token(" secret\n").build()) {
      client.memory().get(SCOPE, "k");
      client.memory().set(SCOPE, "k", Value.text("x"));

      assertEquals(List.of("Bearer secret", "Bearer secret"), server.authorizations());
    }
  }

  @Test
  void aCallThatIsNotAnsweredInTimeHasExceededItsDeadline() throws Exception {
    Silent memory = new Silent();
    try (FakeServer server = new FakeServer(memory);
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      client.memory();
      var error =
          assertThrows(
              StatekeepException.DeadlineExceeded.class,
              () -> client.withTimeout(Duration.ofMillis(300)).memory().get(SCOPE, "k"));

      assertEquals(Reason.NONE, error.reason());
      assertTrue(memory.cancelled.await(30, TimeUnit.SECONDS), "the server was not told");
    }
  }

  @Test
  void anInterruptedThreadCancelsItsCallAtTheServer() throws Exception {
    Silent memory = new Silent();
    try (FakeServer server = new FakeServer(memory);
        StatekeepClient client = StatekeepClient.connect(server.address())) {
      var waiting = new FutureTask<>(() -> client.memory().get(SCOPE, "k"));
      Thread thread = new Thread(waiting);
      thread.start();
      assertTrue(memory.came.await(30, TimeUnit.SECONDS));
      thread.interrupt();

      var error =
          assertThrows(
              java.util.concurrent.ExecutionException.class,
              () -> waiting.get(LONG.toSeconds(), TimeUnit.SECONDS));
      assertInstanceOf(StatekeepException.Cancelled.class, error.getCause());
      assertTrue(memory.cancelled.await(30, TimeUnit.SECONDS), "the server was not told");
    }
  }

  @Test
  void aCancelledContextCancelsTheCallsMadeInIt() throws Exception {
    Silent memory = new Silent();
    try (FakeServer server = new FakeServer(memory);
        StatekeepClient client = StatekeepClient.connect(server.address());
        Context.CancellableContext context = Context.current().withCancellation()) {
      var waiting = new FutureTask<>(() -> client.memory().get(SCOPE, "k"));
      new Thread(context.wrap(waiting)).start();
      assertTrue(memory.came.await(30, TimeUnit.SECONDS));
      context.cancel(null);

      var error =
          assertThrows(
              java.util.concurrent.ExecutionException.class,
              () -> waiting.get(LONG.toSeconds(), TimeUnit.SECONDS));
      assertInstanceOf(StatekeepException.Cancelled.class, error.getCause());
    }
  }

  @Test
  void closingTheClientEndsItsCallsAndAnyAfterIt() throws Exception {
    Silent memory = new Silent();
    try (FakeServer server = new FakeServer(memory)) {
      StatekeepClient client = StatekeepClient.connect(server.address());
      var waiting = new FutureTask<>(() -> client.memory().get(SCOPE, "k"));
      new Thread(waiting).start();
      assertTrue(memory.came.await(30, TimeUnit.SECONDS));
      client.close();
      client.close();

      assertThrows(
          java.util.concurrent.ExecutionException.class,
          () -> waiting.get(LONG.toSeconds(), TimeUnit.SECONDS));
      var error =
          assertThrows(StatekeepException.Cancelled.class, () -> client.memory().get(SCOPE, "k"));
      assertEquals("the Statekeep client is closed", error.getMessage());
    }
  }

  @Test
  void aServerThatIsNotThereIsUnavailable() throws Exception {
    String address;
    try (FakeServer server = new FakeServer()) {
      address = server.address();
    }
    try (StatekeepClient client = StatekeepClient.connect(address)) {
      assertThrows(StatekeepException.Unavailable.class, () -> client.memory().get(SCOPE, "k"));
    }
  }

  @Test
  void aClientMayWaitForAServerThatIsNotThereYet(@TempDir Path folder) throws Exception {
    Path socket = folder.resolve("a b.sock");
    try (StatekeepClient client =
        StatekeepClient.builder().address("unix:" + socket).timeout(LONG).waitForReady().build()) {
      var waiting =
          new FutureTask<>(() -> client.memory().set(SCOPE, "k", Value.text("x")).version());
      new Thread(waiting).start();
      try (StatekeepServer server = StatekeepServer.startAt("unix:" + socket)) {
        assertEquals("unix:" + socket, server.address());
        assertEquals(1, waiting.get(LONG.toSeconds(), TimeUnit.SECONDS));
      }
    }
  }

  @Test
  void tlsIsSpokenWithTheCertificatesGiven(@TempDir Path folder) throws Exception {
    char[] password = "password".toCharArray();
    KeyStore store = selfSigned(folder.resolve("keys.p12"), password);
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(store, password);
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    var credentials = TlsServerCredentials.newBuilder().keyManager(keys.getKeyManagers()).build();
    var trusting =
        TlsChannelCredentials.newBuilder().trustManager(trust.getTrustManagers()).build();
    try (FakeServer server = new FakeServer(credentials, new Failing());
        StatekeepClient client =
            StatekeepClient.builder().address(server.address()).tls(trusting).build();
        StatekeepClient distrusting =
            StatekeepClient.builder().address(server.address()).tls().build()) {
      assertEquals(Optional.empty(), client.memory().get(SCOPE, "k"));
      assertThrows(
          StatekeepException.Unavailable.class, () -> distrusting.memory().get(SCOPE, "k"));
    }
  }

  private static KeyStore selfSigned(Path file, char[] password) throws Exception {
    String keytool =
        System.getProperty("java.home") + File.separator + "bin" + File.separator + "keytool";
    Process process =
        new ProcessBuilder(
                keytool,
                "-genkeypair",
                "-keyalg",
                "EC",
                "-alias",
                "server",
                "-dname",
                "CN=localhost",
                "-ext",
                "san=dns:localhost",
                "-storetype",
                "PKCS12",
                "-keystore",
                file.toString(),
                "-storepass",
                new String(password))
            .inheritIO()
            .start();
    assertTrue(process.waitFor(30, TimeUnit.SECONDS) && process.exitValue() == 0, "keytool");
    KeyStore made = KeyStore.getInstance("PKCS12");
    try (InputStream keys = Files.newInputStream(file)) {
      made.load(keys, password);
    }
    // Beside the key, its certificate as one to be trusted.
    made.setCertificateEntry("trusted", made.getCertificate("server"));
    return made;
  }
}
