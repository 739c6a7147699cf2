package dev.statekeep;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.time.Duration;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** One channel, and what goes with every call through it. Safe to use from any thread. */
final class Connection {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final Set<Status.Code> AWAY =
      EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED);
  private static final long CLOSE_SECONDS = 5;

  private final ManagedChannel managed;
  private final Channel channel;
  private final boolean waitForReady;
  private final CountDownLatch closed = new CountDownLatch(1);
  private final Set<RecordStream<?>> streams = Collections.newSetFromMap(new WeakHashMap<>());

  Connection(ManagedChannel managed, String token, boolean waitForReady) {
    this.managed = managed;
    this.waitForReady = waitForReady;
    if (token.isEmpty()) {
      channel = managed;
    } else {
      Metadata headers = new Metadata();
      headers.put(AUTHORIZATION, "Bearer " + token);
      channel =
          ClientInterceptors.intercept(managed, MetadataUtils.newAttachHeadersInterceptor(headers));
    }
  }

  /** The answer of a unary call. Throws StatekeepException where it fails. */
  <Q extends Message, A> A answer(MethodDescriptor<Q, A> method, Q request, Duration timeout) {
    checkOpen();
    WellFormed.check(request);
    CallOptions options =
        CallOptions.DEFAULT.withDeadlineAfter(Calls.nanos(timeout), TimeUnit.NANOSECONDS);
    CallOptions used = waitForReady ? options.withWaitForReady() : options;
    try {
      return ClientCalls.blockingUnaryCall(channel, method, used, request);
    } catch (StatusRuntimeException failure) {
      if (!isMistakenForUnknown(failure) || !Channels.isRepeated(method)) {
        throw failed(failure);
      }
    }
    // gRPC tries again by itself, but not what it took for something else.
    try {
      return ClientCalls.blockingUnaryCall(channel, method, used, request);
    } catch (StatusRuntimeException failure) {
      throw failed(failure);
    }
  }

  /** Begins a streaming call, without a deadline where that is null. */
  <Q extends Message, A> ServerStream<A> stream(
      MethodDescriptor<Q, A> method, Q request, Deadline deadline) {
    checkOpen();
    WellFormed.check(request);
    return ServerStream.begin(channel, method, CallOptions.DEFAULT.withDeadline(deadline), request);
  }

  StatekeepException failed(StatusRuntimeException failure) {
    if (isClosed()) {
      return StatekeepException.closed();
    }
    StatusRuntimeException told = failure;
    if (isMistakenForUnknown(failure)) {
      told =
          Status.UNAVAILABLE
              .withDescription(failure.getStatus().getDescription())
              .withCause(failure)
              .asRuntimeException();
    }
    if (AWAY.contains(told.getStatus().getCode())) {
      // gRPC's own pauses grow to two minutes, long after the server is back. (A call may have
      // waited for it.)
      managed.resetConnectBackoff();
    }
    return StatekeepException.of(told);
  }

  /**
   * Whether a connection was lost while a call began: grpc-java calls that UNKNOWN (its issue
   * 10120).
   */
  static boolean isMistakenForUnknown(StatusRuntimeException failure) {
    return failure.getStatus().getCode() == Status.Code.UNKNOWN
        && failure.getStatus().getCause() instanceof IOException;
  }

  boolean isClosed() {
    return closed.getCount() == 0;
  }

  void checkOpen() {
    if (isClosed()) {
      throw StatekeepException.closed();
    }
  }

  void add(RecordStream<?> stream) {
    synchronized (streams) {
      streams.add(stream);
    }
  }

  /** Ends every call and stream, and waits until their threads have left them. */
  void close() {
    closed.countDown();
    managed.shutdownNow();
    List<RecordStream<?>> open;
    synchronized (streams) {
      open = List.copyOf(streams);
    }
    open.forEach(RecordStream::closeWithClient);
    try {
      managed.awaitTermination(CLOSE_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
