package dev.statekeep;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import statekeep.v1.ScratchGrpc;
import statekeep.v1.ScratchOuterClass.ScratchAttachRequest;
import statekeep.v1.ScratchOuterClass.ScratchAttachResponse;

/** A scratch instance that ends when this is closed. */
public final class Attachment implements AutoCloseable {
  private final ServerStream<ScratchAttachResponse> stream;
  private final String instanceId;

  private Attachment(ServerStream<ScratchAttachResponse> stream, String instanceId) {
    this.stream = stream;
    this.instanceId = instanceId;
  }

  static Attachment open(Calls calls, String instanceId) {
    ScratchAttachRequest request =
        ScratchAttachRequest.newBuilder().setInstanceId(instanceId).build();
    ServerStream<ScratchAttachResponse> stream =
        calls.connection().stream(ScratchGrpc.getAttachMethod(), request, null);
    Attachment attachment = null;
    try {
      attachment = new Attachment(stream, answered(calls, stream));
      return attachment;
    } finally {
      if (attachment == null) {
        stream.cancel();
      }
    }
  }

  private static String answered(Calls calls, ServerStream<ScratchAttachResponse> stream) {
    try {
      ScratchAttachResponse answer = stream.poll(Calls.nanos(calls.timeout()));
      if (answer != null) {
        return answer.getInstanceId();
      }
    } catch (StatusRuntimeException failure) {
      throw calls.connection().failed(failure);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new StatekeepException.Cancelled(
          "the thread was interrupted", StatekeepException.Details.NONE, interrupted);
    }
    Status.Code code = stream.ended() ? Status.Code.INTERNAL : Status.Code.DEADLINE_EXCEEDED;
    String told =
        stream.ended() ? "the server ended Attach without an answer" : "no answer came in time";
    throw StatekeepException.of(code, told, StatekeepException.Details.NONE, null);
  }

  /**
   * The instance's id.
   *
   * @return the id
   */
  public String instanceId() {
    return instanceId;
  }

  /** Ends the instance. Closing again does nothing. */
  @Override
  public void close() {
    stream.cancel();
  }
}
