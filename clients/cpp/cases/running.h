// The files of cases, and one case run step by step.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tree.h"

namespace cases {

struct Case {
  // file/case, or file/case/oddity.
  std::string id;
  Tree steps;
  std::vector<std::string> needs;
  // The value whose turn it is; null where the case is about none.
  Tree oddity;
};

// The names and values of what is easily damaged on its way, in the order of the file.
std::vector<std::pair<std::string, Tree>> OdditiesOf(const std::filesystem::path& folder);

// Every case of a folder. Throws CaseError where there are none.
std::vector<Case> CasesOf(const std::filesystem::path& folder);

// Runs a case under a name of its own. Throws CaseError where a step goes wrong.
void Run(const Case& one, const std::string& run, const statekeep::Client& client);

}  // namespace cases
