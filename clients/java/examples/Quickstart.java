import dev.statekeep.Event;
import dev.statekeep.NewEvent;
import dev.statekeep.RecordStream;
import dev.statekeep.Scope;
import dev.statekeep.StatekeepClient;
import dev.statekeep.Value;
import java.util.Map;

class Quickstart {
  public static void main(String[] args) {
    // The server is that of STATEKEEP_ADDRESS, or 127.0.0.1:50051.
    try (StatekeepClient client = StatekeepClient.connect()) {
      Scope app = Scope.namespace("app");
      client.memory().set(app, "user/name", Value.jsonOf(Map.of("first", "Ada")));
      Value name = client.memory().get(app, "user/name").orElseThrow().value().orElseThrow();
      System.out.println(name.asJson().node().get("first").asString());

      client.state().appendNextEvent("chat-java", NewEvent.of("message", Value.text("hello")));
      try (RecordStream<Event> history = client.state().streamHistory("chat-java")) {
        while (history.hasNext()) {
          Event event = history.next();
          System.out.println(event.sequence() + " " + event.data().orElseThrow().asText());
        }
      }
    }
  }
}
