package dev.statekeep.cases;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import tools.jackson.databind.json.JsonMapper;

/**
 * One case of tests/clients/cases.
 *
 * @param oddity the value that it is about, where it is run once for each
 */
record Case(String id, List<Map<String, Object>> steps, List<String> needs, Object oddity) {
  private static final String ODDITIES = "oddities.json";
  private static final Set<String> NEEDS =
      Set.of("no_value", "batch_parts", "purge_selector", "from_now");
  private static final Set<String> MEMBERS = Set.of("name", "rule", "steps", "needs", "each");
  private static final Set<String> WITH_ANSWER = Set.of("answer", "error", "save");
  private static final Map<String, Set<String>> STEPS =
      Map.of(
          "call", Set.of("args", "eventually", "at_once"),
          "open", Set.of("args", "as"),
          "read", Set.of("count"),
          "close", Set.of());

  /** A value that is easily damaged on its way. */
  record Oddity(String name, Map<String, Object> value) {}

  static List<Oddity> oddities(Path folder) throws IOException {
    List<Oddity> found = new ArrayList<>();
    for (Object entry : (List<?>) read(folder.resolve(ODDITIES))) {
      Map<String, Object> one = Tree.object(entry);
      Object value = Tree.replaced(one.get("value"), "", Map.of(), null);
      found.add(new Oddity((String) one.get("name"), Tree.object(value)));
    }
    return found;
  }

  /**
   * Every case of a folder. Throws IllegalStateException where there are none, or one is not as it
   * must be.
   */
  static List<Case> all(Path folder) throws IOException {
    List<Path> files;
    try (Stream<Path> listed = Files.list(folder)) {
      files = listed.filter(file -> file.toString().endsWith(".json")).sorted().toList();
    }
    List<Case> found = new ArrayList<>();
    for (Path file : files) {
      if (!file.getFileName().toString().equals(ODDITIES)) {
        addFile(found, Tree.object(read(file)), folder);
      }
    }
    Set<String> ids = new HashSet<>();
    found.forEach(one -> check(ids.add(one.id), "two cases have the id " + one.id));
    check(!found.isEmpty(), "there are no cases in " + folder);
    return found;
  }

  private static void addFile(List<Case> found, Map<String, Object> file, Path folder)
      throws IOException {
    for (Object item : (List<?>) file.get("cases")) {
      Map<String, Object> one = Tree.object(item);
      String id = file.get("name") + "/" + one.get("name");
      List<Map<String, Object>> steps = new ArrayList<>();
      ((List<?>) one.get("steps")).forEach(step -> steps.add(Tree.object(step)));
      List<String> needs = new ArrayList<>();
      if (one.get("needs") instanceof List<?> given) {
        given.forEach(need -> needs.add((String) need));
      }
      check(
          MEMBERS.containsAll(one.keySet()) && NEEDS.containsAll(needs),
          id + " has an unknown member");
      check(!steps.isEmpty(), id + " has no steps");
      steps.forEach(step -> checkStep(step, id));
      if (one.containsKey("each")) {
        oddities(folder)
            .forEach(odd -> found.add(new Case(id + "/" + odd.name, steps, needs, odd.value)));
      } else {
        found.add(new Case(id, steps, needs, null));
      }
    }
  }

  /** What a step is: call, open, read or close. */
  static String kind(Map<String, Object> step) {
    return STEPS.keySet().stream().filter(step::containsKey).findFirst().orElse("");
  }

  private static void checkStep(Map<String, Object> step, String id) {
    String kind = kind(step);
    check(!kind.isEmpty(), id + " has a step of no known kind: " + step.keySet());
    Set<String> rest = new HashSet<>(step.keySet());
    rest.remove(kind);
    rest.removeAll(STEPS.get(kind));
    if (!kind.equals("close")) {
      rest.removeAll(WITH_ANSWER);
    }
    check(rest.isEmpty(), id + " has a step with unknown members: " + rest);
  }

  private static Object read(Path file) throws IOException {
    return JsonMapper.shared().readValue(Files.readString(file), Object.class);
  }

  private static void check(boolean isRight, String wrong) {
    if (!isRight) {
      throw new IllegalStateException(wrong);
    }
  }

  Map<String, Object> oddityWithContentType() {
    Map<String, Object> whole = new LinkedHashMap<>(Map.of("content_type", ""));
    whole.putAll(Tree.object(oddity));
    return whole;
  }
}
