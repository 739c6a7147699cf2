package dev.statekeep.cases;

import dev.statekeep.StatekeepClient;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import tools.jackson.databind.json.JsonMapper;

/** Runs the cases, or one side of a crossing, as tests/clients/cases/README.md says. */
public final class Main {
  private static final Duration WITHIN = Duration.ofSeconds(30);
  private static final int SHOWN = 2000;
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  private static final PrintStream ERR = new PrintStream(System.err, true, StandardCharsets.UTF_8);

  /** What this client cannot express, and why. */
  private static final Map<String, String> UNMET =
      Map.of(
          "no_value", "a value is always there: null is refused by the compiler's types or at once",
          "batch_parts", "a batch has one scope and one request id",
          "purge_selector", "purge takes one key, purgeAll every key");

  private int passed;
  private int failed;
  private final List<List<String>> skipped = new ArrayList<>();
  private final Map<String, Map<String, Integer>> read = new LinkedHashMap<>();

  private Main() {}

  /**
   * Runs what the environment says, and ends with 0 where nothing failed.
   *
   * @param args none
   * @throws IOException where the cases cannot be read
   */
  public static void main(String[] args) throws IOException {
    System.exit(new Main().run() ? 0 : 1);
  }

  private boolean run() throws IOException {
    Path folder = Path.of(required("STATEKEEP_CASES"));
    String crossing = System.getenv().getOrDefault("STATEKEEP_CROSS", "");
    if (crossing.isEmpty()) {
      runAll(folder, System.getenv().getOrDefault("STATEKEEP_ONLY", ""));
    } else {
      cross(folder, crossing);
    }
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("language", "java");
    result.put("passed", passed);
    result.put("failed", failed);
    result.put("skipped", skipped);
    if (!read.isEmpty()) {
      result.put("read", read);
    }
    OUT.println(JsonMapper.shared().writeValueAsString(result));
    return failed == 0 && passed + skipped.size() > 0;
  }

  private void runAll(Path folder, String only) throws IOException {
    String run = UUID.randomUUID().toString().substring(0, 8);
    int number = 0;
    for (Case one : Case.all(folder)) {
      if (one.id().contains(only)) {
        runOne(one, run + "-j-" + number++);
      }
    }
  }

  private void runOne(Case one, String run) {
    for (String need : one.needs()) {
      if (UNMET.containsKey(need)) {
        skipped.add(List.of(one.id(), need + ": " + UNMET.get(need)));
        return;
      }
    }
    String problem;
    try (StatekeepClient client = client();
        CaseRun steps = new CaseRun(one, run, client, Main::client)) {
      problem = steps.problem();
    } catch (Arguments.NotTaken notTaken) {
      skipped.add(List.of(one.id(), notTaken.getMessage()));
      return;
    } catch (Exception wrong) {
      // Whatever it was: this case failed, the next may not.
      problem = one.id() + ": " + wrong;
    }
    count(problem);
  }

  private void count(String problem) {
    if (problem == null) {
      passed++;
    } else {
      failed++;
      ERR.println("FAILED " + problem.substring(0, Math.min(problem.length(), SHOWN)));
    }
  }

  private void cross(Path folder, String crossing) {
    String run = required("STATEKEEP_RUN");
    String[] parts = crossing.split(":", 2);
    try (StatekeepClient client = client()) {
      List<Case.Oddity> oddities = Case.oddities(folder);
      if (parts[0].equals("write") && parts.length == 2) {
        new Crossing(client, oddities, run, parts[1]).write();
        passed = oddities.size();
      } else if (parts[0].equals("read") && parts.length == 2) {
        for (String language : parts[1].split(",")) {
          readFrom(language, new Crossing(client, oddities, run, language), oddities.size());
        }
      } else {
        throw new IllegalArgumentException(
            "STATEKEEP_CROSS is write:LANGUAGE or read:LANGUAGE,…, not " + crossing);
      }
    } catch (IOException wrong) {
      throw new UncheckedIOException(wrong);
    }
  }

  private void readFrom(String language, Crossing crossing, int all) {
    Map<String, String> wrong = crossing.wrong();
    wrong
        .values()
        .forEach(problem -> ERR.println("FAILED crossing from " + language + ": " + problem));
    passed += all - wrong.size();
    failed += wrong.size();
    read.put(language, Map.of("passed", all - wrong.size(), "failed", wrong.size()));
  }

  private static StatekeepClient client() {
    return StatekeepClient.builder()
        .address(required("STATEKEEP_ADDRESS"))
        .build()
        .withTimeout(WITHIN);
  }

  private static String required(String name) {
    String value = System.getenv(name);
    if (value == null || value.isEmpty()) {
      throw new IllegalArgumentException(name + " is not set: see tests/clients/cases/README.md");
    }
    return value;
  }
}
