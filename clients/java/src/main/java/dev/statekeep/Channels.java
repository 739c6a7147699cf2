package dev.statekeep;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.ServiceDescriptor;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import statekeep.v1.MemoryGrpc;
import statekeep.v1.ScratchGrpc;
import statekeep.v1.StateStoreGrpc;

/** Makes gRPC channels to a server. */
final class Channels {
  private static final Pattern HOST_AND_PORT =
      Pattern.compile("(\\[[0-9A-Fa-f:.]+\\]|[^:/\\[\\]\\s]+):([0-9]{1,5})");
  private static final int HIGHEST_PORT = 65535;
  private static final String UNIX = "unix:";
  private static final long KEEPALIVE_TIMEOUT_SECONDS = 10;
  // A call is only repeated where its request was kept, and one record may have close to 4 MiB.
  private static final long RETRY_BUFFER_PER_CALL = 8 << 20;
  private static final long RETRY_BUFFER = 64 << 20;

  // Their answers say what they removed: repeated after a lost answer they would say "nothing".
  // Every other unary
  // method either reads, or carries an id by which the server knows it again.
  private static final Set<MethodDescriptor<?, ?>> NOT_REPEATED =
      Set.of(
          MemoryGrpc.getPurgeMethod(),
          ScratchGrpc.getOpenMethod(),
          ScratchGrpc.getClearMethod(),
          ScratchGrpc.getCloseMethod(),
          StateStoreGrpc.getDeleteThreadMethod());

  private static final Map<String, Object> SERVICE_CONFIG =
      Map.of(
          "methodConfig",
          List.of(
              Map.of(
                  "name",
                  Stream.of(
                          MemoryGrpc.getServiceDescriptor(),
                          ScratchGrpc.getServiceDescriptor(),
                          StateStoreGrpc.getServiceDescriptor())
                      .map(ServiceDescriptor::getMethods)
                      .flatMap(methods -> methods.stream())
                      .filter(Channels::isRepeated)
                      .map(Channels::name)
                      .toList(),
                  "retryPolicy",
                  Map.of(
                      "maxAttempts",
                      4.0,
                      "initialBackoff",
                      "0.1s",
                      "maxBackoff",
                      "1s",
                      "backoffMultiplier",
                      2.0,
                      "retryableStatusCodes",
                      List.of("UNAVAILABLE")))));

  private Channels() {}

  static ManagedChannel open(String address, ChannelCredentials credentials, Duration keepAlive) {
    ChannelCredentials used =
        credentials == null ? InsecureChannelCredentials.create() : credentials;
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(target(address), used)
            .defaultServiceConfig(SERVICE_CONFIG)
            .enableRetry()
            .perRpcBufferLimit(RETRY_BUFFER_PER_CALL)
            .retryBufferSize(RETRY_BUFFER)
            .keepAliveTime(keepAlive.toMillis(), TimeUnit.MILLISECONDS)
            .keepAliveTimeout(KEEPALIVE_TIMEOUT_SECONDS, TimeUnit.SECONDS);
    if (address.startsWith(UNIX)) {
      builder.overrideAuthority("localhost");
    }
    return builder.build();
  }

  /** The name that gRPC resolves. Throws IllegalArgumentException where the address is none. */
  static String target(String address) {
    if (address.startsWith(UNIX) && address.length() > UNIX.length()) {
      Path path = Path.of(address.substring(UNIX.length())).toAbsolutePath();
      try {
        return new URI("unix", null, path.toString(), null).toString();
      } catch (URISyntaxException wrong) {
        throw new IllegalArgumentException("not a path: " + path, wrong);
      }
    }
    Matcher parts = HOST_AND_PORT.matcher(address);
    if (!parts.matches() || Integer.parseInt(parts.group(2)) > HIGHEST_PORT) {
      throw new IllegalArgumentException(
          "an address is HOST:PORT, [IPv6]:PORT or unix:PATH, not \"" + address + "\"");
    }
    return "dns:///" + address.replace("[", "%5B").replace("]", "%5D");
  }

  // Streams are not repeated: they resume by cursor.
  static boolean isRepeated(MethodDescriptor<?, ?> method) {
    return method.getType() == MethodDescriptor.MethodType.UNARY && !NOT_REPEATED.contains(method);
  }

  private static Map<String, String> name(MethodDescriptor<?, ?> method) {
    return Map.of("service", method.getServiceName(), "method", method.getBareMethodName());
  }
}
