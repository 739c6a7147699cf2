#include <iostream>

#include "statekeep/client.h"

int main() {
  try {
    const statekeep::Client client;  // STATEKEEP_ADDRESS, or 127.0.0.1:50051
    const auto scope = statekeep::NamespaceScope("app");

    // Memory: every write makes a version, a delete hides the key, History shows all.
    client.memory().Set(scope, "user/name", statekeep::Json(R"({"first": "Ada"})"));
    if (const auto entry = client.memory().Get(scope, "user/name")) std::cout << entry->value().json() << "\n";

    // State: append to a thread, and stream it back.
    client.state().AppendNextEvent("chat-cpp", {.type = "message", .data = statekeep::Json(R"({"text": "hello"})")});
    for (const auto& event : client.state().StreamHistory("chat-cpp"))
      std::cout << event.sequence() << " " << event.type() << " " << event.data().json() << "\n";
  } catch (const statekeep::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
