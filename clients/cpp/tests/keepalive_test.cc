// Pings on an idle stream: they are sent, and the server does not mind them.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <future>

#include "server.h"
#include "statekeep/client.h"

namespace statekeep::testing {
namespace {

using namespace std::chrono_literals;

TEST(Keepalive, NoticesAServerThatHangs) {
  ServerProcess server;
  const Client client({.address = server.address(), .keepalive = 1s, .keepalive_timeout = 1s});
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.patience = 0ms, .timeout = 60s}});
  const auto begin = std::chrono::steady_clock::now();
  server.Signal(SIGSTOP);
  EXPECT_THROW(stream.Next(), UnavailableError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST(Keepalive, DoesNotHaveAnIdleStreamCutOff) {
  const char* soak = std::getenv("STATEKEEP_SOAK");
  const bool long_one = soak && std::string(soak) == "1";
  // The server minds pings within 5 s, and cuts off at the third of them.
  const auto ping = long_one ? 10s : 6s;
  const auto idle = long_one ? 61s : 20s;
  const ServerProcess server;
  const Client client({.address = server.address(), .keepalive = ping});
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.patience = 0ms}});
  auto next = std::async(std::launch::async, [&stream] { return stream.Next(); });
  // Where it is cut off, it throws before the time is over.
  ASSERT_EQ(next.wait_for(idle), std::future_status::timeout);
  client.state().AppendNextEvent("t", {.type = "note"});
  EXPECT_EQ(next.get().value().sequence(), 1);
}

}  // namespace
}  // namespace statekeep::testing
