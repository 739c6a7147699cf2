// What this client writes for the others, and what it reads of theirs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tree.h"

namespace cases {

// Writes every oddity to its four places, in the name of a language.
Tree Write(const std::filesystem::path& folder, const std::string& run, const std::string& language);

// Looks whether what each language wrote is there as it should be.
Tree Read(const std::filesystem::path& folder, const std::string& run, const std::vector<std::string>& languages);

}  // namespace cases
