package dev.statekeep.cases;

import dev.statekeep.Scope;
import dev.statekeep.Value;
import java.lang.reflect.RecordComponent;
import java.math.BigInteger;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/** Trees as JSON has them: what cases are made of, and what answers become to be compared. */
final class Tree {
  private static final DateTimeFormatter TIME =
      DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'").withZone(ZoneOffset.UTC);
  private static final int SHOWN = 400;

  private Tree() {}

  static Map<String, Object> object(Object tree) {
    Map<String, Object> typed = new LinkedHashMap<>();
    ((Map<?, ?>) tree).forEach((name, item) -> typed.put((String) name, item));
    return typed;
  }

  /** A tree in which $run, $repeat, $saved and $oddity are replaced by what they stand for. */
  static Object replaced(Object tree, String run, Map<String, Object> saved, Object oddity) {
    if (tree instanceof String text) {
      return text.replace("$run", run);
    }
    if (tree instanceof List<?> list) {
      List<Object> items = new ArrayList<>();
      list.forEach(item -> items.add(replaced(item, run, saved, oddity)));
      return items;
    }
    if (!(tree instanceof Map<?, ?> map)) {
      return tree;
    }
    if (map.containsKey("$repeat")) {
      return ((String) map.get("$repeat")).repeat(((Number) map.get("times")).intValue());
    }
    if (map.containsKey("$saved")) {
      return saved(map, saved);
    }
    if (map.containsKey("$oddity")) {
      return oddity;
    }
    Map<String, Object> members = new LinkedHashMap<>();
    map.forEach((name, item) -> members.put((String) name, replaced(item, run, saved, oddity)));
    return members;
  }

  private static Object saved(Map<?, ?> map, Map<String, Object> saved) {
    String name = (String) map.get("$saved");
    if (!saved.containsKey(name)) {
      throw new IllegalStateException("nothing was saved as " + name);
    }
    Object kept = saved.get(name);
    Object plus = map.get("plus");
    return plus == null
        ? kept
        : new BigInteger(kept.toString()).add(new BigInteger(plus.toString()));
  }

  /** The part of a tree at a path such as {@code entries.0.revision}. */
  static Object at(Object tree, String path) {
    Object part = tree;
    for (String name : path.split("\\.")) {
      part =
          part instanceof List<?> list ? list.get(Integer.parseInt(name)) : object(part).get(name);
    }
    return part;
  }

  /** What a client's method returned, by the contract's names. */
  static Object of(Object answer) {
    if (answer instanceof Optional<?> optional) {
      return of(optional.orElse(null));
    }
    if (answer instanceof Value value) {
      return ofValue(value);
    }
    if (answer instanceof Instant time) {
      return TIME.format(time);
    }
    if (answer instanceof Scope.Type type) {
      return type.name().toLowerCase(Locale.ROOT);
    }
    if (answer instanceof List<?> list) {
      List<Object> items = new ArrayList<>();
      list.forEach(item -> items.add(of(item)));
      return items;
    }
    return answer instanceof Record record ? ofRecord(record) : answer;
  }

  static Map<String, Object> ofValue(Value value) {
    Map<String, Object> tree = new LinkedHashMap<>();
    if (value instanceof Value.Json json) {
      tree.put("json", json.text());
    } else if (value instanceof Value.Text text) {
      tree.put("text", text.text());
    } else if (value instanceof Value.Data data) {
      tree.put("data", Base64.getEncoder().encodeToString(data.data()));
    }
    tree.put("content_type", value.contentType());
    return tree;
  }

  private static Map<String, Object> ofRecord(Record record) {
    Map<String, Object> tree = new LinkedHashMap<>();
    for (RecordComponent component : record.getClass().getRecordComponents()) {
      try {
        String name = component.getName().replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT);
        tree.put(name, of(component.getAccessor().invoke(record)));
      } catch (ReflectiveOperationException wrong) {
        throw new IllegalStateException(wrong);
      }
    }
    return tree;
  }

  /** Where and how what came is not what is right; null where it is. */
  static String difference(Object right, Object came, String path) {
    if (right == null || came == null) {
      return right == came ? null : told(path, right, came);
    }
    if (right instanceof Map<?, ?> map) {
      return differenceOfObject(object(map), came, path);
    }
    if (right instanceof List<?> list) {
      return differenceOfList(list, came, path);
    }
    if (right instanceof Boolean || came instanceof Boolean) {
      return right.equals(came) ? null : told(path, right, came);
    }
    boolean isPlain = came instanceof String || came instanceof Number;
    return isPlain && right.toString().equals(came.toString()) ? null : told(path, right, came);
  }

  private static String differenceOfObject(Map<String, Object> right, Object came, String path) {
    if (right.containsKey("$any")) {
      return null;
    }
    if (right.containsKey("$count")) {
      int count = came instanceof List<?> list ? list.size() : -1;
      return difference(right.get("$count"), count, path + ", how many");
    }
    if (right.containsKey("$has")) {
      return differenceOfPart((List<?>) right.get("$has"), came, path);
    }
    if (!(came instanceof Map<?, ?> members)) {
      return told(path, right, came);
    }
    for (Map.Entry<String, Object> member : right.entrySet()) {
      String found =
          difference(member.getValue(), members.get(member.getKey()), path + "." + member.getKey());
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  private static String differenceOfList(List<?> right, Object came, String path) {
    if (!(came instanceof List<?> items) || items.size() != right.size()) {
      return told(path, right, came);
    }
    for (int place = 0; place < right.size(); place++) {
      String found = difference(right.get(place), items.get(place), path + "." + place);
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  private static String differenceOfPart(List<?> wanted, Object came, String path) {
    if (!(came instanceof List<?> items)) {
      return told(path, wanted, came);
    }
    int place = 0;
    for (Object item : wanted) {
      while (place < items.size() && difference(item, items.get(place), path) != null) {
        place++;
      }
      if (place++ == items.size()) {
        return path + ": has no " + shown(item) + ", or not in this order";
      }
    }
    return null;
  }

  private static String told(String path, Object right, Object came) {
    return (path.isEmpty() ? "answer" : path)
        + ": right is "
        + shown(right)
        + ", came "
        + shown(came);
  }

  static String shown(Object tree) {
    String text = String.valueOf(tree);
    return text.length() <= SHOWN
        ? text
        : text.substring(0, SHOWN) + "… (" + text.length() + " characters)";
  }
}
