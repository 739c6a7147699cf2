// History and lists as input ranges.
#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>

#include "server.h"
#include "statekeep/client.h"

namespace statekeep::testing {
namespace {

static_assert(std::ranges::input_range<Stream<Event>>);
static_assert(std::ranges::input_range<Pages<Thread>>);

class HistoryTest : public ::testing::Test {
 protected:
  void Append(int count) {
    std::vector<NewEvent> events(static_cast<std::size_t>(count), NewEvent{.type = "note", .data = Json("{}")});
    client_.state().AppendEvents("t", std::move(events));
  }

  ServerProcess server_;
  Client client_{{.address = server_.address()}};
};

TEST_F(HistoryTest, StreamsABranchInTheOrderItWasStored) {
  Append(2000);
  auto stream = client_.state().StreamHistory("t");
  std::int64_t sequence = 0;
  for (const auto& event : stream) EXPECT_EQ(event.sequence(), ++sequence);
  EXPECT_EQ(sequence, 2000);
  EXPECT_TRUE(stream.caught_up());
}

TEST_F(HistoryTest, WorksWithTheRangesOfTheStandardLibrary) {
  Append(10);
  auto stream = client_.state().StreamHistory("t");
  auto odd = stream | std::views::filter([](const Event& event) { return event.sequence() % 2 == 1; });
  EXPECT_EQ(std::ranges::distance(odd), 5);
}

TEST_F(HistoryTest, GoesOnAfterACursor) {
  Append(3);
  auto first = client_.state().StreamHistory("t");
  EXPECT_EQ(first.Next().value().sequence(), 1);
  const auto cursor = first.revision();
  auto rest = client_.state().StreamHistory("t", {.after_revision = cursor});
  EXPECT_EQ(rest.Next().value().sequence(), 2);
  EXPECT_EQ(rest.Next().value().sequence(), 3);
  EXPECT_FALSE(rest.Next());
}

TEST_F(HistoryTest, HasCheckpointsAmongTheEventsWhereRecordsAreAskedFor) {
  const auto event = client_.state().AppendNextEvent("t", {.type = "note"});
  client_.state().SaveCheckpoint("t", {.event_id = event.id(), .sequence = 1, .state = Json("{}")});
  client_.state().AppendNextEvent("t", {.type = "note"});
  std::string order;
  for (const auto& record : client_.state().StreamRecords("t"))
    order += std::holds_alternative<Event>(record) ? 'e' : 'c';
  EXPECT_EQ(order, "ece");
}

TEST_F(HistoryTest, OfAKeyIsNewestFirstAndStopsAtItsLimit) {
  const auto scope = NamespaceScope("s");
  for (const auto* text : {"1", "2", "3"}) client_.memory().Set(scope, "k", Json(text));
  std::vector<std::string> values;
  for (const auto& entry : client_.memory().History(scope, "k", {.limit = 2})) values.push_back(entry.value().json());
  EXPECT_EQ(values, (std::vector<std::string>{"3", "2"}));
}

TEST_F(HistoryTest, ListsAreWalkedPageByPage) {
  const auto scope = NamespaceScope("s");
  for (const auto* key : {"a", "b", "c", "d", "e"}) client_.memory().Set(scope, key, Json("1"));
  std::string keys;
  for (const auto& entry : client_.memory().List(scope, {.page_size = 2})) keys += entry.key();
  EXPECT_EQ(keys, "abcde");
}

TEST_F(HistoryTest, AnInstanceEndsWithItsAttachment) {
  {
    const auto attachment = client_.scratch().Attach("i");
    client_.scratch().Put("i", "k", Text("v"));
    EXPECT_EQ(client_.scratch().Get("i", "k").value().value.text(), "v");
    EXPECT_THROW(client_.scratch().Attach("i"), InstanceAttachedError);
  }
  // The server hears of the end a little later.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (client_.scratch().Get("i", "k") && std::chrono::steady_clock::now() < give_up) continue;
  EXPECT_FALSE(client_.scratch().Get("i", "k"));
}

}  // namespace
}  // namespace statekeep::testing
