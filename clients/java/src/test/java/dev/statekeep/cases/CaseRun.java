package dev.statekeep.cases;

import dev.statekeep.StatekeepClient;
import dev.statekeep.StatekeepException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.LongStream;

/** A case under way: what was saved, and what stays open. */
final class CaseRun implements AutoCloseable {
  private static final Duration WITHIN = Duration.ofSeconds(30);
  private static final long EVENTUALLY = Duration.ofSeconds(10).toNanos();
  private static final long PAUSE_MILLIS = 20;

  private final Case one;
  private final String run;
  private final StatekeepClient client;
  private final Supplier<StatekeepClient> another;
  private final Map<String, Object> saved = new LinkedHashMap<>();
  private final Map<String, Operations.Opened> opened = new LinkedHashMap<>();

  CaseRun(Case one, String run, StatekeepClient client, Supplier<StatekeepClient> another) {
    this.one = one;
    this.run = run;
    this.client = client;
    this.another = another;
  }

  /** Takes every step, and returns what went wrong; null where nothing did. */
  String problem() throws Exception {
    for (int number = 1; number <= one.steps().size(); number++) {
      Map<String, Object> step = one.steps().get(number - 1);
      String problem = take(step);
      if (problem != null) {
        String kind = Case.kind(step);
        return one.id() + ", step " + number + " (" + kind + " " + step.get(kind) + "): " + problem;
      }
    }
    return null;
  }

  @Override
  public void close() {
    opened.values().forEach(each -> each.end().run());
  }

  private String take(Map<String, Object> step) throws Exception {
    if (step.containsKey("close")) {
      opened.remove(step.get("close").toString()).end().run();
      return null;
    }
    if (step.containsKey("at_once")) {
      return atOnce(step);
    }
    String problem = attempt(step);
    long giveUp = System.nanoTime() + EVENTUALLY;
    while (problem != null && step.containsKey("eventually") && System.nanoTime() < giveUp) {
      TimeUnit.MILLISECONDS.sleep(PAUSE_MILLIS);
      problem = attempt(step);
    }
    return problem;
  }

  private String attempt(Map<String, Object> step) {
    Object answer;
    try {
      answer = answer(step);
    } catch (StatekeepException error) {
      Object right = step.containsKey("error") ? right(step.get("error")) : null;
      return Tree.difference(right, errorTree(error, right), "error");
    }
    if (step.containsKey("error")) {
      return "no error, but " + Tree.shown(answer);
    }
    String problem = Tree.difference(right(step.getOrDefault("answer", Map.of())), answer, "");
    if (problem == null && step.containsKey("save")) {
      Tree.object(step.get("save"))
          .forEach((name, path) -> saved.put(name, Tree.at(answer, path.toString())));
    }
    return problem;
  }

  private Object answer(Map<String, Object> step) {
    return switch (Case.kind(step)) {
      case "call" -> Operations.CALLS.get(step.get("call").toString()).apply(client, args(step));
      case "open" -> {
        Operations.Opened open = Operations.opened(client, step.get("open").toString(), args(step));
        opened.put(step.get("as").toString(), open);
        yield open.answer();
      }
      default -> read(step);
    };
  }

  private Object read(Map<String, Object> step) {
    Operations.Opened open = opened.get(step.get("read").toString());
    int count = step.containsKey("count") ? ((Number) step.get("count")).intValue() : 1;
    List<Object> records = new ArrayList<>();
    while (records.size() < count) {
      Object came =
          open.poll(WITHIN)
              .orElseThrow(() -> new IllegalStateException("the stream ended, or nothing came"));
      records.add(Tree.of(came));
    }
    return Map.of(open.field(), records);
  }

  private Arguments args(Map<String, Object> step) {
    Object given = step.getOrDefault("args", Map.of());
    return new Arguments(Tree.replaced(given, run, saved, one.oddity()));
  }

  private Object right(Object tree) {
    Object oddity = one.oddity() == null ? null : one.oddityWithContentType();
    return Tree.replaced(tree, run, saved, oddity);
  }

  private static Object errorTree(StatekeepException error, Object right) {
    Object named = right == null ? null : Tree.object(right).get("field");
    String first = error.fields().keySet().stream().findFirst().orElse("");
    return Map.of(
        "code", error.code().name(),
        "reason", error.reasonName(),
        "metadata", error.metadata(),
        "field", error.fields().containsKey(String.valueOf(named)) ? named : first,
        "message", String.valueOf(error.getMessage()));
  }

  private String atOnce(Map<String, Object> step) throws InterruptedException, ExecutionException {
    Map<String, Object> wanted = Tree.object(step.get("at_once"));
    int callers = ((Number) wanted.get("callers")).intValue();
    ExecutorService threads = Executors.newFixedThreadPool(callers);
    List<Future<List<Long>>> running = new ArrayList<>();
    try {
      for (int caller = 0; caller < callers; caller++) {
        running.add(threads.submit(() -> numbers(step, wanted)));
      }
      List<Long> all = new ArrayList<>();
      for (Future<List<Long>> each : running) {
        all.addAll(each.get());
      }
      long from = ((Number) wanted.get("from")).longValue();
      long to = ((Number) wanted.get("to")).longValue();
      List<Long> right = LongStream.rangeClosed(from, to).boxed().toList();
      List<Long> came = all.stream().sorted().toList();
      return came.equals(right) ? null : "the numbers of all answers are " + Tree.shown(came);
    } finally {
      threads.shutdownNow();
    }
  }

  private List<Long> numbers(Map<String, Object> step, Map<String, Object> wanted) {
    List<Long> numbers = new ArrayList<>();
    int calls = ((Number) wanted.get("calls")).intValue();
    var operation = Operations.CALLS.get(step.get("call").toString());
    try (StatekeepClient own = another.get()) {
      for (int call = 0; call < calls; call++) {
        Object answer = operation.apply(own, args(step));
        numbers.add(Long.parseLong(Tree.at(answer, wanted.get("numbers").toString()).toString()));
      }
    }
    return numbers;
  }
}
