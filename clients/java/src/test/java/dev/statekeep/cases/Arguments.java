package dev.statekeep.cases;

import dev.statekeep.BranchId;
import dev.statekeep.NewCheckpoint;
import dev.statekeep.NewEvent;
import dev.statekeep.Scope;
import dev.statekeep.Value;
import dev.statekeep.Write;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;

/** The arguments of a call. Each is taken once; {@link #done} refuses what nothing took. */
final class Arguments {
  private final Map<String, Object> left;

  Arguments(Object tree) {
    left = new LinkedHashMap<>(Tree.object(tree));
  }

  /** The client's method does not take an argument, so the case is skipped. */
  static final class NotTaken extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotTaken(String what) {
      super(what);
    }
  }

  void done() {
    if (!left.isEmpty()) {
      throw new NotTaken("the method does not take " + String.join(", ", left.keySet()));
    }
  }

  boolean has(String name) {
    return left.containsKey(name);
  }

  String text(String name) {
    return text(name, "");
  }

  String text(String name, String otherwise) {
    return has(name) ? (String) left.remove(name) : otherwise;
  }

  long number(String name) {
    return has(name) ? Long.parseLong(left.remove(name).toString()) : 0;
  }

  int small(String name) {
    return Math.toIntExact(number(name));
  }

  boolean flag(String name) {
    return has(name) && (Boolean) left.remove(name);
  }

  /** Calls with an argument where it is there. */
  void ifText(String name, Consumer<String> then) {
    if (has(name)) {
      then.accept(text(name));
    }
  }

  void ifNumber(String name, Consumer<Long> then) {
    if (has(name)) {
      then.accept(number(name));
    }
  }

  void ifFlag(String name, Runnable then) {
    if (flag(name)) {
      then.run();
    }
  }

  void ifDuration(String name, Consumer<Duration> then) {
    if (has(name)) {
      then.accept(duration(name));
    }
  }

  Duration duration(String name) {
    String seconds = text(name).replaceFirst("s$", "");
    return Duration.ofNanos(new BigDecimal(seconds).movePointRight(9).longValueExact());
  }

  Arguments part(String name) {
    return new Arguments(left.remove(name));
  }

  List<Arguments> parts(String name) {
    List<Arguments> parts = new ArrayList<>();
    ((List<?>) left.remove(name)).forEach(part -> parts.add(new Arguments(part)));
    return parts;
  }

  List<String> texts(String name) {
    List<String> texts = new ArrayList<>();
    ((List<?>) left.remove(name)).forEach(text -> texts.add((String) text));
    return texts;
  }

  Map<String, String> labels() {
    Map<String, String> labels = new LinkedHashMap<>();
    if (has("labels")) {
      Tree.object(left.remove("labels")).forEach((name, text) -> labels.put(name, (String) text));
    }
    return labels;
  }

  Scope scope() {
    Arguments scope = part("scope");
    Scope.Type type = Scope.Type.valueOf(scope.text("type", "namespace").toUpperCase(Locale.ROOT));
    Scope found = new Scope(type, scope.text("name"));
    scope.done();
    return found;
  }

  BranchId branch() {
    return new BranchId(text("thread_id"), text("branch_id", BranchId.MAIN));
  }

  Value value(String name) {
    return value(left.remove(name));
  }

  static Value value(Object tree) {
    Map<String, Object> value = Tree.object(tree);
    String contentType = (String) value.getOrDefault("content_type", "");
    if (value.containsKey("json")) {
      return new Value.Json((String) value.get("json"), contentType);
    }
    if (value.containsKey("text")) {
      return new Value.Text((String) value.get("text"), contentType);
    }
    return new Value.Data(Base64.getDecoder().decode((String) value.get("data")), contentType);
  }

  Write write() {
    Write write = Write.of(text("key"), value("value")).withLabels(labels());
    write = has("ttl") ? write.withTtl(duration("ttl")) : write;
    write = has("expected_version") ? write.withExpectedVersion(number("expected_version")) : write;
    write = has("execution_id") ? write.withExecutionId(text("execution_id")) : write;
    write = has("flow_id") ? write.withFlowId(text("flow_id")) : write;
    return has("flow_name") ? write.withFlowName(text("flow_name")) : write;
  }

  /** The event that is left when its place was taken. */
  NewEvent event() {
    String type = text("type");
    NewEvent event = has("data") ? NewEvent.of(type, value("data")) : NewEvent.of(type);
    event = event.withLabels(labels());
    event = has("id") ? event.withId(text("id")) : event;
    event = has("node") ? event.withNode(text("node")) : event;
    event = has("parent_id") ? event.withParentId(text("parent_id")) : event;
    event = has("error_type") ? event.withErrorType(text("error_type")) : event;
    event = has("message") ? event.withMessage(text("message")) : event;
    event = has("create_time") ? event.withCreateTime(Instant.parse(text("create_time"))) : event;
    done();
    return event;
  }

  NewCheckpoint checkpoint() {
    NewCheckpoint one =
        NewCheckpoint.of(text("event_id"), number("sequence"), value("state")).withLabels(labels());
    one = has("id") ? one.withId(text("id")) : one;
    one = has("active") ? one.withActive(value("active")) : one;
    one = has("status") ? one.withStatus(text("status")) : one;
    one = has("parent_id") ? one.withParentId(text("parent_id")) : one;
    one = has("metadata") ? one.withMetadata(value("metadata")) : one;
    one = has("create_time") ? one.withCreateTime(Instant.parse(text("create_time"))) : one;
    done();
    return one;
  }
}
