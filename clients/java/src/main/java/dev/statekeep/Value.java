package dev.statekeep;

import java.util.Arrays;
import java.util.Objects;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamWriteConstraints;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.core.json.JsonWriteFeature;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.cfg.JsonNodeFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * A value as it is kept: one JSON text, plain text, or bytes. It comes back byte for byte.
 *
 * <p>Each has a media type, {@code contentType}; left empty it reads as its kind's default.
 */
public sealed interface Value permits Value.Json, Value.Text, Value.Data {
  /**
   * The media type as it was given.
   *
   * @return the media type, maybe empty
   */
  String contentType();

  /**
   * The text of it: JSON text or plain text, as it was sent.
   *
   * @return the text
   * @throws IllegalStateException it is bytes
   */
  default String asText() {
    if (this instanceof Json json) {
      return json.text();
    }
    if (this instanceof Text text) {
      return text.text();
    }
    throw new IllegalStateException("the value is bytes, not text: see Value.Data");
  }

  /**
   * The value as JSON.
   *
   * @return the JSON
   * @throws IllegalStateException it is plain text or bytes
   */
  default Json asJson() {
    if (this instanceof Json json) {
      return json;
    }
    throw new IllegalStateException("the value is a " + getClass().getSimpleName() + ", not JSON");
  }

  /**
   * One JSON text (RFC 8259), kept as it is.
   *
   * @param text the JSON text
   * @return the value
   */
  static Json json(String text) {
    return new Json(text, "");
  }

  /**
   * What Jackson makes of a Java object: a map, a list, a record, a {@link JsonNode}, a number, a
   * string.
   *
   * @param object the object; null is JSON {@code null}
   * @return the value
   * @throws tools.jackson.core.JacksonException where Jackson cannot write the object
   */
  static Json jsonOf(Object object) {
    return json(Json.MAPPER.writeValueAsString(object));
  }

  /**
   * Plain text.
   *
   * @param text the text
   * @return the value
   */
  static Text text(String text) {
    return new Text(text, "");
  }

  /**
   * Bytes.
   *
   * @param data the bytes, which are copied
   * @return the value
   */
  static Data data(byte[] data) {
    return new Data(data, "");
  }

  /**
   * One JSON text. No digit of it is lost: {@link #text()} is what was sent, and {@link #node()}
   * reads whole numbers of any size as such and all others as {@link java.math.BigDecimal}.
   *
   * @param text the JSON text
   * @param contentType the media type
   */
  record Json(String text, String contentType) implements Value {
    // Nesting as deep as the server allows. Numbers of more than 1000 digits are left to the text.
    private static final JsonMapper MAPPER =
        JsonMapper.builder(
                JsonFactory.builder()
                    .streamWriteConstraints(
                        StreamWriteConstraints.builder().maxNestingDepth(512).build())
                    .streamReadConstraints(
                        StreamReadConstraints.builder().maxNestingDepth(512).build())
                    .disable(JsonWriteFeature.WRITE_NAN_AS_STRINGS)
                    .build())
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
            .build();

    /**
     * Checks that nothing is null.
     *
     * @param text the JSON text
     * @param contentType the media type
     */
    public Json {
      Objects.requireNonNull(text, "text");
      Objects.requireNonNull(contentType, "contentType");
    }

    /**
     * The value as a tree.
     *
     * @return the tree, a new one each time
     * @throws tools.jackson.core.JacksonException where Jackson does not read it: a number of more
     *     than 1000 digits
     */
    public JsonNode node() {
      return MAPPER.readTree(text);
    }

    /**
     * The value as a Java object.
     *
     * @param <T> the object's type
     * @param type the object's class
     * @return the object; null for JSON {@code null}
     * @throws tools.jackson.core.JacksonException where the value is not of this type
     */
    public <T> T as(Class<T> type) {
      return MAPPER.readValue(text, type);
    }
  }

  /**
   * Plain text.
   *
   * @param text the text
   * @param contentType the media type
   */
  record Text(String text, String contentType) implements Value {
    /**
     * Checks that nothing is null.
     *
     * @param text the text
     * @param contentType the media type
     */
    public Text {
      Objects.requireNonNull(text, "text");
      Objects.requireNonNull(contentType, "contentType");
    }
  }

  /**
   * Bytes.
   *
   * @param data the bytes, copied on the way in and out
   * @param contentType the media type
   */
  record Data(byte[] data, String contentType) implements Value {
    /**
     * Copies the bytes.
     *
     * @param data the bytes
     * @param contentType the media type
     */
    public Data {
      data = data.clone();
      Objects.requireNonNull(contentType, "contentType");
    }

    /**
     * The bytes.
     *
     * @return a copy
     */
    @Override
    public byte[] data() {
      return data.clone();
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Data that
          && Arrays.equals(data, that.data)
          && contentType.equals(that.contentType);
    }

    @Override
    public int hashCode() {
      return 31 * Arrays.hashCode(data) + contentType.hashCode();
    }

    @Override
    public String toString() {
      return "Data[" + data.length + " bytes, contentType=" + contentType + "]";
    }
  }
}
