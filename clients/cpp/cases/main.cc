// Runs the cases of tests/clients/cases through this client; the README there says how.
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>

#include "crossing.h"
#include "operations.h"
#include "running.h"

namespace cases {
namespace {

std::string Environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::string Needed(const char* name) {
  auto text = Environment(name);
  if (text.empty()) throw CaseError(std::string(name) + " is not set: see tests/clients/cases/README.md");
  return text;
}

// Why a case is skipped; empty where it is not.
std::string WhySkipped(const Case& one) {
  for (const auto& need : one.needs)
    if (const auto why = WhyNot(need); !why.empty()) return why;
  return {};
}

bool Passes(const Case& one, const std::string& run, const statekeep::Client& client) {
  try {
    Run(one, run, client);
    return true;
  } catch (const std::exception& error) {
    std::cerr << "FAILED " << one.id << ", " << error.what() << "\n";
    return false;
  }
}

Tree RunAll(const std::string& folder, const std::string& only) {
  const statekeep::Client client;
  const std::string run = std::to_string(std::random_device{}()) + "-cpp-";
  int passed = 0, failed = 0, number = 0;
  Tree skipped = Tree::array();
  for (const auto& one : CasesOf(folder)) {
    ++number;
    if (one.id.find(only) == std::string::npos) continue;
    if (const auto why = WhySkipped(one); !why.empty())
      skipped.push_back({one.id, why});
    else
      ++(Passes(one, run + std::to_string(number), client) ? passed : failed);
  }
  return {{"passed", passed}, {"failed", failed}, {"skipped", skipped}};
}

Tree Cross(const std::string& folder, const std::string& crossing) {
  const auto at = crossing.find(':');
  const auto way = crossing.substr(0, at);
  if (at == std::string::npos || (way != "write" && way != "read"))
    throw CaseError("STATEKEEP_CROSS is write:LANGUAGE or read:LANGUAGE,…, not " + crossing);
  const auto run = Needed("STATEKEEP_RUN");
  if (way == "write") return Write(folder, run, crossing.substr(at + 1));
  std::vector<std::string> languages;
  std::istringstream rest(crossing.substr(at + 1));
  for (std::string language; std::getline(rest, language, ',');) languages.push_back(language);
  return Read(folder, run, languages);
}

int Main() {
  Needed("STATEKEEP_ADDRESS");
  const auto folder = Needed("STATEKEEP_CASES");
  const auto crossing = Environment("STATEKEEP_CROSS");
  Tree result = crossing.empty() ? RunAll(folder, Environment("STATEKEEP_ONLY")) : Cross(folder, crossing);
  result["language"] = "cpp";
  std::cout << result.dump() << std::endl;
  const bool ran = result["passed"] > 0 || !result["skipped"].empty();
  return result["failed"] == 0 && ran ? 0 : 1;
}

}  // namespace
}  // namespace cases

int main() {
  try {
    return cases::Main();
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
