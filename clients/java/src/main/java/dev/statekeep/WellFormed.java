package dev.statekeep;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import com.google.protobuf.Message;
import io.grpc.Status;
import java.util.List;
import java.util.Map;

/** Refuses texts that UTF-8 cannot carry: protobuf would silently send a question mark instead. */
final class WellFormed {
  private WellFormed() {}

  /**
   * Throws InvalidArgument, naming the field, where a text anywhere in the request holds a lone
   * surrogate.
   */
  static void check(Message request) {
    check(request, "");
  }

  private static void check(Message message, String path) {
    for (Map.Entry<FieldDescriptor, Object> field : message.getAllFields().entrySet()) {
      JavaType type = field.getKey().getJavaType();
      if (type != JavaType.STRING && type != JavaType.MESSAGE) {
        continue;
      }
      String name = path + field.getKey().getName();
      if (field.getValue() instanceof List<?> items) {
        for (int place = 0; place < items.size(); place++) {
          checkOne(items.get(place), name + "[" + place + "]");
        }
      } else {
        checkOne(field.getValue(), name);
      }
    }
  }

  private static void checkOne(Object item, String path) {
    if (item instanceof Message message) {
      check(message, path + ".");
    } else if (item instanceof String text) {
      int place = loneSurrogate(text);
      if (place >= 0) {
        String wrong =
            "a lone surrogate at " + place + ", which UTF-8 cannot carry: send it as data";
        throw StatekeepException.of(
            Status.Code.INVALID_ARGUMENT,
            path + ": " + wrong,
            StatekeepException.Details.invalidField(path, wrong),
            null);
      }
    }
  }

  private static int loneSurrogate(String text) {
    for (int place = 0; place < text.length(); place++) {
      char unit = text.charAt(place);
      if (!Character.isSurrogate(unit)) {
        continue;
      }
      boolean isPair =
          Character.isHighSurrogate(unit)
              && place + 1 < text.length()
              && Character.isLowSurrogate(text.charAt(place + 1));
      if (!isPair) {
        return place;
      }
      place++;
    }
    return -1;
  }
}
