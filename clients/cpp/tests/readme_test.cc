// What the READMEs show is the example, and the example does what it says.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "server.h"

namespace statekeep::testing {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first block of C++ in a README.
std::string BlockOf(const std::string& readme) {
  const std::string begin = "```cpp\n";
  const auto from = readme.find(begin) + begin.size();
  return readme.substr(from, readme.find("```", from) - from);
}

TEST(Readme, ShowsTheExample) {
  const auto example = TextOf(CLIENT_FOLDER "/examples/quickstart.cc");
  ASSERT_FALSE(example.empty());
  EXPECT_EQ(BlockOf(TextOf(CLIENT_FOLDER "/README.md")), example);
}

TEST(Readme, OfTheRepositoryShowsAPartOfTheExample) {
  const auto part = BlockOf(TextOf(CLIENT_FOLDER "/../../README.md"));
  ASSERT_FALSE(part.empty());
  std::istringstream lines(part);
  const auto example = TextOf(CLIENT_FOLDER "/examples/quickstart.cc");
  for (std::string line; std::getline(lines, line);) EXPECT_NE(example.find(line), std::string::npos) << line;
}

TEST(Readme, ExampleRemembersAndStreamsBack) {
  const ServerProcess server;
  EXPECT_EQ(OutputOf("STATEKEEP_ADDRESS=" + server.address() + " " QUICKSTART),
            "{\"first\": \"Ada\"}\n1 message {\"text\": \"hello\"}\n");
}

}  // namespace
}  // namespace statekeep::testing
