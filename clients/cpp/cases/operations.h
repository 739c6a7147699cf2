// The table from an operation of the cases to the client's method.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "statekeep/client.h"
#include "tree.h"

namespace cases {

// What stays open until it is destroyed.
class Opened {
 public:
  virtual ~Opened() = default;
  // What opening it answered.
  virtual Tree Answer() const = 0;
  // Reads so many records. Throws statekeep::Error, and CaseError where it ends before.
  virtual Tree Read(std::size_t count) = 0;
};

// Why the client cannot run a case that needs this; empty where it can.
std::string WhyNot(const std::string& need);

// Makes a call. Throws statekeep::Error, and CaseError where an argument is not taken.
Tree Call(const statekeep::Client& client, const std::string& operation, const Tree& args);

// Opens what stays open. Throws as Call.
std::unique_ptr<Opened> Open(const statekeep::Client& client, const std::string& operation, const Tree& args);

}  // namespace cases
