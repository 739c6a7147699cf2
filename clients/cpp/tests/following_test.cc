// Followers: what they see, how they end, and how they go on when their server comes back.
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "server.h"
#include "statekeep/client.h"

namespace statekeep::testing {
namespace {

using namespace std::chrono_literals;

TEST(Following, SeesWhatComesAfterItBegan) {
  const ServerProcess server;
  const Client client({.address = server.address()});
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.timeout = 30s}});
  client.state().AppendNextEvent("t", {.type = "note"});
  EXPECT_EQ(stream.Next().value().sequence(), 1);
  auto watch = client.memory().Watch(NamespaceScope("s"), {.stream = {.timeout = 30s}});
  client.memory().Set(NamespaceScope("s"), "k", Json("1"));
  EXPECT_EQ(watch.Next().value().key(), "k");
}

TEST(Following, EndsWhenItIsCancelledFromAnotherThread) {
  const ServerProcess server;
  const Client client({.address = server.address()});
  auto stream = client.state().StreamHistory("t", {.follow = true});
  const std::jthread canceller([&stream] { stream.Cancel(); });
  EXPECT_FALSE(stream.Next());
  EXPECT_FALSE(stream.Next());
}

TEST(Following, ThrowsWhereItsStopTokenAsksForItsEnd) {
  const ServerProcess server;
  const Client client({.address = server.address()});
  std::stop_source stop;
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.stop = stop.get_token()}});
  const std::jthread stopper([&stop] { stop.request_stop(); });
  EXPECT_THROW(stream.Next(), CancelledError);
}

TEST(Following, EndsAtItsDeadline) {
  const ServerProcess server;
  const Client client({.address = server.address()});
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.timeout = 500ms}});
  EXPECT_THROW(stream.Next(), DeadlineExceededError);
}

TEST(Following, IsToldThatTheServerShutsDown) {
  ServerProcess server;
  const Client client({.address = server.address()});
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.patience = 0ms}});
  server.Signal(SIGTERM);
  try {
    stream.Next();
    FAIL() << "it goes on";
  } catch (const ShuttingDownError& error) {
    EXPECT_EQ(error.code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_TRUE(error.retry_delay());
  }
  EXPECT_EQ(server.Wait(), 0);
}

TEST(Following, GivesUpWhenItsPatienceEnds) {
  ServerProcess server;
  const Client client({.address = server.address()});
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.patience = 300ms}});
  server.Kill();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(stream.Next(), UnavailableError);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 300ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(Following, IsToldThatARestartedServerHasLostItsRevisions) {
  auto server = std::make_unique<ServerProcess>();
  const Client client({.address = server->address()});
  client.state().AppendNextEvent("t", {.type = "note"});
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.timeout = 60s}});
  EXPECT_EQ(stream.Next().value().sequence(), 1);
  const auto address = server->address();
  server->Kill();
  server = std::make_unique<ServerProcess>(std::vector<std::string>(), address);
  EXPECT_THROW(stream.Next(), RevisionGoneError);
}

TEST(Following, ResumesWithoutAGapOrARepeatWhenTheServerIsKilledAndStartedAgain) {
  if (!ServeKnows("sqlite"))
    GTEST_SKIP() << "this server keeps nothing across a restart: it has no --store sqlite:PATH";
  const TemporaryFolder folder;
  const std::vector<std::string> flags = {"--store", "sqlite:" + (folder.path() / "store").string()};
  auto server = std::make_unique<ServerProcess>(flags);
  const auto address = server->address();
  const Client client({.address = address});
  client.state().AppendEvents("t", std::vector<NewEvent>(500, {.type = "note"}));
  client.memory().Set(NamespaceScope("s"), "k0", Json("0"));
  auto stream = client.state().StreamHistory("t", {.follow = true, .stream = {.timeout = 90s}});
  auto watch = client.memory().Watch(NamespaceScope("s"), {.after_revision = 0, .stream = {.timeout = 90s}});
  std::int64_t sequence = 0;
  // It is in the midst of a message when the first server dies.
  while (sequence < 250) ASSERT_EQ(stream.Next().value().sequence(), ++sequence);
  EXPECT_EQ(watch.Next().value().key(), "k0");
  for (int round = 1; round <= 3; ++round) {
    server->Kill();
    server = std::make_unique<ServerProcess>(flags, address);
    const Client writer({.address = address, .keepalive = 20s});
    writer.state().AppendEvents("t", std::vector<NewEvent>(500, {.type = "note"}));
    writer.memory().Set(NamespaceScope("s"), "k" + std::to_string(round), Json("1"));
    while (sequence < 250 + round * 500) ASSERT_EQ(stream.Next().value().sequence(), ++sequence);
    EXPECT_EQ(watch.Next().value().key(), "k" + std::to_string(round));
  }
}

}  // namespace
}  // namespace statekeep::testing
