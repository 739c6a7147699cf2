package dev.statekeep;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import io.grpc.BindableService;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

/**
 * A gRPC server on loopback that answers as a test wants: what a real one does only when something
 * fails.
 */
final class FakeServer implements AutoCloseable {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final List<String> authorizations = new CopyOnWriteArrayList<>();
  private final Server server;

  FakeServer(BindableService... services) throws IOException {
    this(InsecureServerCredentials.create(), services);
  }

  FakeServer(ServerCredentials credentials, BindableService... services) throws IOException {
    ServerBuilder<?> builder = Grpc.newServerBuilderForPort(0, credentials);
    for (BindableService service : services) {
      builder.addService(service);
    }
    server = builder.intercept(new Listening()).build().start();
  }

  String address() {
    return "localhost:" + server.getPort();
  }

  /** What came as authorization with each call. */
  List<String> authorizations() {
    return authorizations;
  }

  static StatusRuntimeException failure(Code code, Reason reason) {
    Status.Builder status =
        Status.newBuilder()
            .setCode(code.getNumber())
            .setMessage("it failed")
            .addDetails(
                Any.pack(
                    ErrorInfo.newBuilder()
                        .setReason(reason.name())
                        .setDomain("statekeep")
                        .putMetadata("key", "text")
                        .build()))
            .addDetails(
                Any.pack(
                    RetryInfo.newBuilder()
                        .setRetryDelay(Duration.newBuilder().setNanos(1_000_000))
                        .build()));
    return StatusProto.toStatusRuntimeException(status.build());
  }

  @Override
  public void close() {
    server.shutdownNow();
    try {
      server.awaitTermination(10, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private final class Listening implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      authorizations.add(String.valueOf(headers.get(AUTHORIZATION)));
      return next.startCall(call, headers);
    }
  }
}
