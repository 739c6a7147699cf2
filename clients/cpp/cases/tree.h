// Trees as JSON has them: what cases are written in, and what answers are made to be compared.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "statekeep/client.h"

namespace cases {

using Tree = nlohmann::json;

// A case, or the client, is not as it must be; the text says how.
class CaseError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A message by its fields' names. What is unset is not there; values and times are as cases write them.
Tree TreeOf(const google::protobuf::Message& message);

// The messages of a range, or a list.
template <class Range>
Tree TreesOf(Range&& messages) {
  Tree trees = Tree::array();
  for (const auto& message : messages) trees.push_back(TreeOf(message));
  return trees;
}

template <class Message>
Tree TreeOf(const std::optional<Message>& message) {
  return message ? TreeOf(*message) : Tree();
}

// An error as cases name it. Of several fields at fault, the one that is right where it is among them.
Tree TreeOf(const statekeep::Error& error, const Tree& right);

statekeep::Value ValueOf(const Tree& tree);

// Where and how an answer is not the right one; empty where it is.
std::string Difference(const Tree& right, const Tree& got, const std::string& path);

// What stands for what in a case under way.
struct Replacements {
  std::string run;
  std::map<std::string, Tree> saved;
  Tree oddity;
};
Tree Replaced(const Tree& tree, const Replacements& replacements);

// The part of a tree at a path of names and places, with dots.
const Tree& At(const Tree& tree, const std::string& path);

// A whole number, be it a number or a string of its digits.
std::int64_t NumberOf(const Tree& tree);

// A tree as text, cut short where it is long.
std::string Shown(const Tree& tree);

}  // namespace cases
