package dev.statekeep.cases;

import dev.statekeep.BranchId;
import dev.statekeep.Checkpoint;
import dev.statekeep.Entry;
import dev.statekeep.Event;
import dev.statekeep.NewCheckpoint;
import dev.statekeep.NewEvent;
import dev.statekeep.RecordStream;
import dev.statekeep.Scope;
import dev.statekeep.ScratchItem;
import dev.statekeep.StatekeepClient;
import dev.statekeep.Value;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** What this client writes for the others, and what it reads of theirs. */
final class Crossing {
  private final StatekeepClient client;
  private final List<Case.Oddity> oddities;
  private final Scope scope;
  private final String thread;

  Crossing(StatekeepClient client, List<Case.Oddity> oddities, String run, String language) {
    this.client = client;
    this.oddities = oddities;
    this.scope = Scope.namespace("cross/" + run + "/" + language);
    this.thread = "cross-" + run + "-" + language;
  }

  /** Writes every oddity to its four places. */
  void write() {
    BranchId branch = BranchId.main(thread);
    long number = 0;
    for (Case.Oddity odd : oddities) {
      Value value = Arguments.value(odd.value());
      client.memory().set(scope, odd.name(), value);
      client.scratch().put(thread, odd.name(), value);
      client.state().appendNextEvent(branch, NewEvent.of("oddity", value).withId(odd.name()));
      client
          .state()
          .saveCheckpoint(branch, NewCheckpoint.of(odd.name(), ++number, value).withId(odd.name()));
    }
  }

  /** What is wrong with each oddity that is not as it was written, by name. */
  Map<String, String> wrong() {
    List<Event> events = new ArrayList<>();
    try (RecordStream<Event> stream = client.state().streamHistory(thread)) {
      stream.forEachRemaining(events::add);
    }
    Map<String, Checkpoint> checkpoints = new LinkedHashMap<>();
    client
        .state()
        .listCheckpoints(BranchId.main(thread))
        .forEach(checkpoint -> checkpoints.put(checkpoint.id(), checkpoint));
    List<String> names = oddities.stream().map(Case.Oddity::name).toList();
    boolean isWhole =
        events.stream().map(Event::id).toList().equals(names)
            && checkpoints.keySet().equals(new java.util.HashSet<>(names));
    Map<String, String> wrong = new LinkedHashMap<>();
    for (int place = 0; place < names.size(); place++) {
      Case.Oddity odd = oddities.get(place);
      String problem =
          isWhole
              ? problem(odd, events.get(place), checkpoints.get(odd.name()))
              : "the thread does not hold what was written";
      if (problem != null) {
        wrong.put(odd.name(), problem);
      }
    }
    return wrong;
  }

  private String problem(Case.Oddity odd, Event event, Checkpoint checkpoint) {
    Map<String, Optional<Value>> places =
        Map.of(
            "memory", client.memory().get(scope, odd.name()).flatMap(Entry::value),
            "scratch", client.scratch().get(thread, odd.name()).map(ScratchItem::value),
            "event", event.data(),
            "checkpoint", Optional.of(checkpoint.state()));
    Map<String, Object> right = new LinkedHashMap<>(Map.of("content_type", ""));
    right.putAll(odd.value());
    for (Map.Entry<String, Optional<Value>> place : places.entrySet()) {
      String path = odd.name() + " in " + place.getKey();
      String problem = Tree.difference(right, Tree.of(place.getValue()), path);
      if (problem != null) {
        return problem;
      }
    }
    return null;
  }
}
