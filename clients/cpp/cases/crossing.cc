#include "crossing.h"

#include <iostream>
#include <set>

#include "running.h"

namespace cases {
namespace {

constexpr std::chrono::seconds kWithin(60);

statekeep::Scope ScopeOf(const std::string& run, const std::string& language) {
  return statekeep::NamespaceScope("cross/" + run + "/" + language);
}

std::string ThreadOf(const std::string& run, const std::string& language) { return "cross-" + run + "-" + language; }

Tree ValueIn(const std::map<std::string, Tree>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? Tree() : found->second;
}

// How many oddities of a language are not as they were written; each is told.
int Wrong(const statekeep::Client& client, const std::string& run, const std::string& language,
          const std::vector<std::pair<std::string, Tree>>& oddities) {
  const auto thread = ThreadOf(run, language);
  std::map<std::string, Tree> events, checkpoints;
  std::vector<std::string> order, names;
  for (const auto& event : client.state().StreamHistory(thread, {.stream = {.timeout = kWithin}})) {
    order.push_back(event.id());
    events[event.id()] = TreeOf(event.data());
  }
  for (const auto& one : client.state().ListCheckpoints(thread)) checkpoints[one.id()] = TreeOf(one.state());
  for (const auto& [name, value] : oddities) names.push_back(name);
  const bool whole = order == names && checkpoints.size() == names.size();
  int wrong = 0;
  for (const auto& [name, value] : oddities) {
    const auto entry = client.memory().Get(ScopeOf(run, language), name);
    const auto item = client.scratch().Get(thread, name);
    Tree right = value;
    if (!right.contains("content_type")) right["content_type"] = "";
    const Tree got = {{"memory", entry ? TreeOf(entry->value()) : Tree()},
                      {"scratch", item ? TreeOf(item->value) : Tree()},
                      {"event", ValueIn(events, name)},
                      {"checkpoint", ValueIn(checkpoints, name)}};
    auto problem = whole ? std::string() : "the thread does not hold what was written";
    for (const auto& [place, one] : got.items())
      if (problem.empty()) problem = Difference(right, one, "." + place);
    if (problem.empty()) continue;
    ++wrong;
    std::cerr << "FAILED crossing from " << language << ", " << name << ": " << problem << "\n";
  }
  return wrong;
}

}  // namespace

Tree Write(const std::filesystem::path& folder, const std::string& run, const std::string& language) {
  const statekeep::Client client({.timeout = kWithin});
  const auto thread = ThreadOf(run, language);
  int number = 0;
  for (const auto& [name, tree] : OdditiesOf(folder)) {
    ++number;
    const auto value = ValueOf(tree);
    client.memory().Set(ScopeOf(run, language), name, value);
    client.scratch().Put(thread, name, value);
    client.state().AppendNextEvent(thread, {.type = "oddity", .data = value, .id = name});
    client.state().SaveCheckpoint(thread, {.event_id = name, .sequence = number, .state = value, .id = name});
  }
  return {{"passed", number}, {"failed", 0}, {"skipped", Tree::array()}};
}

Tree Read(const std::filesystem::path& folder, const std::string& run, const std::vector<std::string>& languages) {
  const statekeep::Client client({.timeout = kWithin});
  const auto oddities = OdditiesOf(folder);
  const int count = static_cast<int>(oddities.size());
  Tree read = Tree::object();
  int failed = 0;
  for (const auto& language : languages) {
    const int wrong = Wrong(client, run, language, oddities);
    failed += wrong;
    read[language] = {{"passed", count - wrong}, {"failed", wrong}};
  }
  const int all = count * static_cast<int>(languages.size());
  return {{"passed", all - failed}, {"failed", failed}, {"skipped", Tree::array()}, {"read", read}};
}

}  // namespace cases
