package dev.statekeep;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import tools.jackson.databind.json.JsonMapper;

/** A server in a process of its own, ready when it is made. */
final class StatekeepServer implements AutoCloseable {
  private static final long WITHIN_SECONDS = 30;

  private final Process process;
  private final BufferedReader output;
  private final String address;

  private StatekeepServer(Process process) throws Exception {
    this.process = process;
    this.output = process.inputReader(StandardCharsets.UTF_8);
    try {
      String line = CompletableFuture.supplyAsync(this::line).get(WITHIN_SECONDS, TimeUnit.SECONDS);
      assertTrue(line != null, "the server ended before it was ready");
      address = JsonMapper.shared().readTree(line).get("listen").get(0).asString();
    } catch (Exception | AssertionError late) {
      kill();
      throw late;
    }
  }

  /** Starts a server on a free port. */
  static StatekeepServer start(String... flags) throws Exception {
    return startAt("127.0.0.1:0", flags);
  }

  static StatekeepServer startAt(String address, String... flags) throws Exception {
    List<String> command = new ArrayList<>(List.of("serve", "--listen", address));
    command.addAll(List.of(flags));
    return new StatekeepServer(process(command));
  }

  /** Whether the server can keep its records on disk. */
  static boolean hasSqlite() throws Exception {
    Process help = process(List.of("serve", "--help"));
    String text = new String(help.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(help.waitFor(WITHIN_SECONDS, TimeUnit.SECONDS) && help.exitValue() == 0, text);
    return text.contains("sqlite:");
  }

  private static Process process(List<String> arguments) throws IOException {
    String given = System.getenv().getOrDefault("STATEKEEP_COMMAND", "../../.venv/bin/statekeep");
    List<String> command = new ArrayList<>(List.of(given.split(" ")));
    command.addAll(arguments);
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().keySet().removeIf(name -> name.startsWith("STATEKEEP_"));
    return builder.start();
  }

  private String line() {
    try {
      return output.readLine();
    } catch (IOException wrong) {
      throw new UncheckedIOException(wrong);
    }
  }

  /** Where it listens: {@code HOST:PORT}, or {@code unix:PATH}. */
  String address() {
    return address;
  }

  /** Ends it as {@code kill -9} does. */
  void kill() throws InterruptedException {
    process.destroyForcibly();
    assertTrue(process.waitFor(WITHIN_SECONDS, TimeUnit.SECONDS), "the server does not end");
  }

  /** Asks it to end, as SIGTERM does. */
  void terminate() {
    process.destroy();
  }

  /** Ends it, by force where it does not go. */
  @Override
  public void close() {
    terminate();
    try {
      if (!process.waitFor(WITHIN_SECONDS, TimeUnit.SECONDS)) {
        kill();
      }
    } catch (InterruptedException interrupted) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
