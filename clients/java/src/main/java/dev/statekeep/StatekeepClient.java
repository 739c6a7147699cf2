package dev.statekeep;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.time.Duration;
import java.util.Objects;

/**
 * A client of a Statekeep server. It connects with its first call, and may be shared between
 * threads.
 *
 * <pre>{@code
 * try (StatekeepClient client = StatekeepClient.connect("127.0.0.1:50051")) {
 *   client.memory().set(Scope.namespace("app"), "user/name", Value.json("{\"first\": \"Ada\"}"));
 * }
 * }</pre>
 *
 * <p>A unary call is tried again where the server cannot be reached; what it writes carries an id,
 * by which the server knows it again. It fails after 30 seconds, or what {@link #withTimeout} says.
 */
public final class StatekeepClient implements AutoCloseable {
  private static final String DEFAULT_ADDRESS = "127.0.0.1:50051";

  private final Calls calls;

  private StatekeepClient(Calls calls) {
    this.calls = calls;
  }

  /**
   * A client of the server that the environment names: {@code STATEKEEP_ADDRESS}, or {@code
   * 127.0.0.1:50051}.
   *
   * @return the client
   */
  public static StatekeepClient connect() {
    return builder().build();
  }

  /**
   * A client of the server at an address. The token is that of {@code STATEKEEP_TOKEN}, where there
   * is one.
   *
   * @param address {@code HOST:PORT} or {@code unix:PATH}
   * @return the client
   * @throws IllegalArgumentException the address is neither
   */
  public static StatekeepClient connect(String address) {
    return builder().address(address).build();
  }

  /**
   * Builds a client with other settings.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Versioned values under keys.
   *
   * @return the calls
   */
  public Memory memory() {
    return new Memory(calls);
  }

  /**
   * Values that live as long as an instance.
   *
   * @return the calls
   */
  public Scratch scratch() {
    return new Scratch(calls);
  }

  /**
   * Threads of events, checkpoints and branches.
   *
   * @return the calls
   */
  public StateStore state() {
    return new StateStore(calls);
  }

  /**
   * The same client, with another time for its calls. It shares the connection, and closing either
   * closes both.
   *
   * @param timeout how long a unary call may take, retries included, and a whole streamed read that
   *     ends; a follower has no timeout
   * @return the client
   */
  public StatekeepClient withTimeout(Duration timeout) {
    return new StatekeepClient(new Calls(calls.connection(), timeout, timeout));
  }

  /**
   * Ends every call and stream. Closing again does nothing; a call after it throws {@link
   * StatekeepException}.
   */
  @Override
  public void close() {
    calls.connection().close();
  }

  /** Settings of a client. */
  public static final class Builder {
    private String address = environment("STATEKEEP_ADDRESS", DEFAULT_ADDRESS);
    private String token = environment("STATEKEEP_TOKEN", "");
    private Duration timeout = Duration.ofSeconds(30);
    private Duration keepAlive = Duration.ofSeconds(30);
    private ChannelCredentials credentials;
    private boolean waitForReady;

    private Builder() {}

    /**
     * The server's address, in place of {@code STATEKEEP_ADDRESS}.
     *
     * @param address {@code HOST:PORT} or {@code unix:PATH}
     * @return this builder
     */
    public Builder address(String address) {
      this.address = Objects.requireNonNull(address, "address");
      return this;
    }

    /**
     * The token that goes with every call as {@code authorization: Bearer …}, in place of {@code
     * STATEKEEP_TOKEN}.
     *
     * @param token the token, which is trimmed; empty: none
     * @return this builder
     */
    public Builder token(String token) {
      this.token = Objects.requireNonNull(token, "token");
      return this;
    }

    /**
     * Encrypts the connection, trusting Java's root certificates.
     *
     * @return this builder
     */
    public Builder tls() {
      return tls(TlsChannelCredentials.create());
    }

    /**
     * Encrypts the connection.
     *
     * @param credentials such as those that {@link TlsChannelCredentials#newBuilder()} makes
     * @return this builder
     */
    public Builder tls(ChannelCredentials credentials) {
      this.credentials = Objects.requireNonNull(credentials, "credentials");
      return this;
    }

    /**
     * How long a unary call may take, retries included, in place of 30 seconds.
     *
     * @param timeout how long
     * @return this builder
     */
    public Builder timeout(Duration timeout) {
      this.timeout = Objects.requireNonNull(timeout, "timeout");
      return this;
    }

    /**
     * How often a connection with calls is looked at while nothing comes, in place of every 30
     * seconds: so that a follower notices that its server is gone.
     *
     * @param interval how often; gRPC takes ten seconds where it is less
     * @return this builder
     */
    public Builder keepAlive(Duration interval) {
      this.keepAlive = Objects.requireNonNull(interval, "interval");
      return this;
    }

    /**
     * Has unary calls wait for a server that is not there yet, up to their timeout. Streams try
     * again by themselves.
     *
     * @return this builder
     */
    public Builder waitForReady() {
      this.waitForReady = true;
      return this;
    }

    /**
     * Makes the client.
     *
     * @return the client, to be closed
     * @throws IllegalArgumentException the address or the token is malformed
     */
    public StatekeepClient build() {
      String trimmed = token.strip();
      if (!trimmed.chars().allMatch(unit -> unit >= ' ' && unit <= '~')) {
        // Without the token itself, which is a secret.
        throw new IllegalArgumentException(
            "the token (token() or STATEKEEP_TOKEN) holds a character that is not printable ASCII");
      }
      Connection connection =
          new Connection(Channels.open(address, credentials, keepAlive), trimmed, waitForReady);
      return new StatekeepClient(new Calls(connection, timeout, null));
    }

    private static String environment(String name, String otherwise) {
      String value = System.getenv(name);
      return value == null || value.isEmpty() ? otherwise : value;
    }
  }
}
