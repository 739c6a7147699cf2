#include "running.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <thread>

#include "operations.h"

namespace cases {
namespace {

constexpr auto kOddities = "oddities.json";
constexpr std::chrono::milliseconds kPause(20);
constexpr std::chrono::seconds kEventually(10);
constexpr std::size_t kReadOn = 10'000;

Tree Load(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw CaseError("cannot read " + path.string());
  return Tree::parse(file);
}

void AddCases(const Tree& file, const std::filesystem::path& folder, std::vector<Case>& found) {
  for (const auto& one : file.at("cases")) {
    Case made{.id = file.at("name").get<std::string>() + "/" + one.at("name").get<std::string>(),
              .steps = one.at("steps"),
              .needs = one.value("needs", std::vector<std::string>()),
              .oddity = {}};
    if (!one.contains("each")) {
      found.push_back(std::move(made));
      continue;
    }
    for (auto& [name, value] : OdditiesOf(folder))
      found.push_back({made.id + "/" + name, made.steps, made.needs, value});
  }
}

// A case under way: what was saved, and what is open.
class Steps {
 public:
  Steps(const Case& one, const std::string& run, const statekeep::Client& client)
      : client_(client), replacements_{run, {}, one.oddity} {}

  // Takes a step, and returns what went wrong.
  std::string Take(const Tree& step) {
    if (step.contains("close")) {
      open_.erase(step["close"].get<std::string>());
      return {};
    }
    if (step.contains("at_once")) return AtOnce(step);
    auto problem = Try(step);
    const auto give_up = std::chrono::steady_clock::now() + kEventually;
    while (!problem.empty() && step.value("eventually", false) && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(kPause);
      problem = Try(step);
    }
    return problem;
  }

 private:
  std::string Try(const Tree& step) {
    Tree answer;
    try {
      answer = Attempt(step);
    } catch (const statekeep::Error& error) {
      const Tree right = step.value("error", Tree());
      if (right.is_null()) return Shown(TreeOf(error, Tree::object()));
      return Compared(right, TreeOf(error, right));
    }
    if (step.contains("error")) return "no error, but " + Shown(answer);
    auto problem = Compared(step.value("answer", Tree::object()), answer);
    if (!problem.empty()) return problem;
    const Tree saved = step.value("save", Tree::object());
    for (const auto& [name, path] : saved.items()) replacements_.saved[name] = At(answer, path);
    return {};
  }

  Tree Attempt(const Tree& step) {
    const Tree args = Replaced(step.value("args", Tree::object()), replacements_);
    if (step.contains("call")) return Call(client_, step["call"], args);
    if (step.contains("open")) {
      auto opened = Open(client_, step["open"], args);
      Tree answer = opened->Answer();
      // An error may come with the first read only.
      if (step.contains("error")) opened->Read(1);
      open_[step["as"]] = std::move(opened);
      return answer;
    }
    return open_.at(step["read"])->Read(step.value("count", step.contains("error") ? kReadOn : 1));
  }

  std::string Compared(const Tree& right, const Tree& got) const {
    auto replacements = replacements_;
    if (replacements.oddity.is_object() && !replacements.oddity.contains("content_type"))
      replacements.oddity["content_type"] = "";
    return Difference(Replaced(right, replacements), got, "");
  }

  std::string AtOnce(const Tree& step) const {
    const Tree& wanted = step["at_once"];
    const Tree args = Replaced(step["args"], replacements_);
    const auto caller = [&step, &wanted, &args] {
      const statekeep::Client client;
      std::vector<std::int64_t> numbers;
      for (int call = 0; call < wanted["calls"]; ++call)
        numbers.push_back(NumberOf(At(Call(client, step["call"], args), wanted["numbers"])));
      return numbers;
    };
    std::vector<std::future<std::vector<std::int64_t>>> callers;
    for (int at = 0; at < wanted["callers"]; ++at) callers.push_back(std::async(std::launch::async, caller));
    std::vector<std::int64_t> numbers;
    for (auto& one : callers) std::ranges::copy(one.get(), std::back_inserter(numbers));
    std::ranges::sort(numbers);
    std::vector<std::int64_t> right;
    for (auto number = NumberOf(wanted["from"]); number <= NumberOf(wanted["to"]); ++number) right.push_back(number);
    return numbers == right ? "" : "the numbers of all answers are " + Shown(numbers);
  }

  const statekeep::Client& client_;
  Replacements replacements_;
  std::map<std::string, std::unique_ptr<Opened>> open_;
};

}  // namespace

std::vector<std::pair<std::string, Tree>> OdditiesOf(const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, Tree>> oddities;
  for (const auto& one : Load(folder / kOddities)) oddities.emplace_back(one.at("name"), Replaced(one.at("value"), {}));
  return oddities;
}

std::vector<Case> CasesOf(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".json" && file.path().filename() != kOddities) files.push_back(file.path());
  std::ranges::sort(files);
  std::vector<Case> found;
  for (const auto& file : files) AddCases(Load(file), folder, found);
  if (found.empty()) throw CaseError("there are no cases in " + folder.string());
  return found;
}

void Run(const Case& one, const std::string& run, const statekeep::Client& client) {
  Steps steps(one, run, client);
  int number = 0;
  for (const auto& step : one.steps) {
    ++number;
    if (const auto problem = steps.Take(step); !problem.empty())
      throw CaseError("step " + std::to_string(number) + ": " + problem);
  }
}

}  // namespace cases
