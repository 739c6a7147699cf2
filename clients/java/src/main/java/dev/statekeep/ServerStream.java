package dev.statekeep;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The messages of one streaming call, taken one by one. Two are asked for ahead, so gRPC's flow
 * control holds back the server where nobody takes them.
 */
final class ServerStream<A> {
  private static final int AHEAD = 2;

  private final LinkedBlockingQueue<Came<A>> queue = new LinkedBlockingQueue<>();
  private final ClientCall<?, A> call;
  private boolean ended;

  private ServerStream(ClientCall<?, A> call) {
    this.call = call;
  }

  static <Q, A> ServerStream<A> begin(
      Channel channel, MethodDescriptor<Q, A> method, CallOptions options, Q request) {
    ClientCall<Q, A> call = channel.newCall(method, options);
    ServerStream<A> stream = new ServerStream<>(call);
    call.start(stream.new Listener(), new Metadata());
    call.request(AHEAD);
    call.sendMessage(request);
    call.halfClose();
    return stream;
  }

  /**
   * Waits for the next message, up to so many nanoseconds; null where none came, or the stream has
   * ended well.
   *
   * @throws io.grpc.StatusRuntimeException where the call failed
   */
  A poll(long nanos) throws InterruptedException {
    if (ended) {
      return null;
    }
    Came<A> came = queue.poll(nanos, TimeUnit.NANOSECONDS);
    if (came == null) {
      return null;
    }
    if (came.status == null) {
      call.request(1);
      return came.message;
    }
    ended = true;
    if (!came.status.isOk()) {
      throw came.status.asRuntimeException(came.trailers);
    }
    return null;
  }

  boolean ended() {
    return ended;
  }

  /** Ends the call, from any thread: whoever waits for a message is told. */
  void cancel() {
    call.cancel("the reader closed the stream", null);
  }

  /** A message, or the end. */
  private record Came<A>(A message, Status status, Metadata trailers) {}

  private final class Listener extends ClientCall.Listener<A> {
    @Override
    public void onMessage(A message) {
      queue.add(new Came<>(message, null, null));
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      queue.add(new Came<>(null, status, trailers));
    }
  }
}
