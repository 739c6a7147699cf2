package dev.statekeep;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ValueTest {
  private static final Scope SCOPE = Scope.namespace("values");
  private static StatekeepServer server;
  private static StatekeepClient client;

  @BeforeAll
  static void start() throws Exception {
    server = StatekeepServer.start();
    client = StatekeepClient.connect(server.address());
  }

  @AfterAll
  static void stop() {
    client.close();
    server.close();
  }

  private static Value stored(Value value) {
    client.memory().set(SCOPE, "k", value);
    return client.memory().get(SCOPE, "k").orElseThrow().value().orElseThrow();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "18446744073709551616",
        "9007199254740993",
        "-0.0",
        "[1.0, 1, 1e999]",
        "{\"b\":1,\"a\":2,\"a\":3}"
      })
  void jsonComesBackAsItWasSent(String text) {
    assertEquals(Value.json(text), stored(Value.json(text)));
  }

  @Test
  void theTreeOfJsonLosesNoDigit() {
    var tree =
        ((Value.Json) stored(Value.json("[9007199254740993, 18446744073709551616, 0.10, 1e999]")))
            .node();

    assertEquals(9007199254740993L, tree.get(0).longValue());
    assertEquals(BigInteger.TWO.pow(64), tree.get(1).bigIntegerValue());
    assertEquals(new BigDecimal("0.10"), tree.get(2).decimalValue());
    assertEquals(new BigDecimal("1e999"), tree.get(3).decimalValue());
  }

  @Test
  void objectsGoInAndOutThroughJackson() {
    record Point(BigInteger x, BigDecimal y) {}
    Point point = new Point(BigInteger.TWO.pow(70), new BigDecimal("0.1000000000000000055"));

    assertEquals(point, ((Value.Json) stored(Value.jsonOf(point))).as(Point.class));
    assertEquals(Value.json("null"), Value.jsonOf(null));
    assertNull(Value.jsonOf(null).as(Map.class));
    assertEquals("{\"a\":[1,\"b\"]}", Value.jsonOf(Map.of("a", List.of(1, "b"))).text());
  }

  @Test
  void aNumberThatIsNoneIsRefusedAndNeverTurnedIntoText() {
    var error =
        assertThrows(
            StatekeepException.InvalidArgument.class,
            () -> client.memory().set(SCOPE, "nan", Value.jsonOf(Double.NaN)));

    assertEquals(Reason.INVALID_FIELD, error.reason());
  }

  @Test
  void aLoneSurrogateIsRefusedByItsFieldAndNeverSentAsAQuestionMark() {
    NewEvent event = NewEvent.of("note", Value.text("a\ud83d"));
    var error =
        assertThrows(
            StatekeepException.InvalidArgument.class,
            () -> client.state().appendEvents(BranchId.main("t"), List.of(event)));

    assertEquals(Reason.INVALID_FIELD, error.reason());
    assertEquals(List.of("events[0].data.text"), List.copyOf(error.fields().keySet()));
  }

  @Test
  void aLoneSurrogateInALabelsNameIsRefusedToo() {
    Write write = Write.of("k", Value.text("a")).withLabels(Map.of("\udc00", "x"));

    assertThrows(StatekeepException.InvalidArgument.class, () -> client.memory().set(SCOPE, write));
  }

  @Test
  void bytesAreFrozenWhenTheValueIsMade() {
    byte[] bytes = {0, 1, (byte) 0xff};
    Value.Data value = Value.data(bytes);
    bytes[0] = 9;
    value.data()[1] = 9;

    assertArrayEquals(new byte[] {0, 1, (byte) 0xff}, ((Value.Data) stored(value)).data());
    assertEquals(value, stored(value));
    assertNotEquals(value, Value.data(bytes));
  }

  @Test
  void deepJsonIsReadAsDeepAsTheServerTakesIt() {
    String text = "[".repeat(512) + "]".repeat(512);

    assertEquals(text, Value.jsonOf(stored(Value.json(text)).asJson().node()).text());
  }

  @Test
  void anUnknownAddressIsRefusedWithWhatWouldBeRight() {
    for (String address :
        List.of(
            "nonsense", "host:", ":1", "unix:", "http://host:1", "host:65536", "host:99999", "")) {
      var error =
          assertThrows(
              IllegalArgumentException.class, () -> StatekeepClient.connect(address), address);
      assertEquals(
          "an address is HOST:PORT, [IPv6]:PORT or unix:PATH, not \"" + address + "\"",
          error.getMessage());
    }
  }

  @Test
  void anEmptyIdIsMadeUpAgainSoThatARetryIsKnown() {
    assertNotEquals("", NewEvent.of("x").withId("").id());
    assertEquals("mine", NewEvent.of("x").withId("mine").id());
    assertNotEquals("", NewCheckpoint.of("e", 1, Value.json("1")).withId("").id());
  }

  @Test
  void aTokenThatNoHeaderCarriesIsRefusedWithoutSayingIt() {
    var error =
        assertThrows(
            IllegalArgumentException.class,
            () -> StatekeepClient.builder().token("secr\u00e9t").build());

    assertEquals(-1, error.getMessage().indexOf("secr\u00e9t"));
  }
}
