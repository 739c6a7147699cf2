// Scratch: values that live as long as one instance of a program.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "statekeep/options.h"
#include "statekeep/v1/scratch.pb.h"
#include "statekeep/values.h"

namespace statekeep {

namespace internal {
class Connection;
class AttachedCall;
}  // namespace internal

/// An instance that was opened: `instance_id()`, the keys `cleared()`, and its `expire_time()`.
using ScratchInstance = v1::ScratchOpenResponse;

/// A value, and its key as it is kept: trimmed.
struct ScratchItem {
  std::string key;
  Value value;
};

struct OpenOptions {
  /// Empty: the server makes one up.
  std::string instance_id = {};
  /// Ends the instance when it has not been used for so long. Unset: the server's default.
  std::optional<std::chrono::nanoseconds> idle_ttl = {};
  CallOptions call = {};
};

struct AttachOptions {
  /// How long to wait for the instance. 0: for ever.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// Ends the instance, from any thread.
  std::stop_token stop = {};
};

/// An instance that ends with this object, or with the program.
class Attachment {
 public:
  explicit Attachment(std::unique_ptr<internal::AttachedCall> call);
  Attachment(Attachment&&) noexcept;
  Attachment& operator=(Attachment&&) noexcept;
  ~Attachment();

  const std::string& instance_id() const;

 private:
  std::unique_ptr<internal::AttachedCall> call_;
};

/// Values by instance and key. Every call may throw a statekeep::Error; safe to use from any thread.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<internal::Connection> connection);

  /// Begins an instance, or empties it where it was used before. Not retried: the answer would be wrong.
  ScratchInstance Open(OpenOptions options = {});
  /// Keeps a value under a key, and returns that key trimmed. Begins the instance where it has not been.
  std::string Put(std::string instance_id, std::string key, Value value, CallOptions options = {});
  /// Reads a value; empty where there is no such key.
  std::optional<ScratchItem> Get(std::string instance_id, std::string key, CallOptions options = {});
  /// The keys, sorted.
  std::vector<std::string> List(std::string instance_id, CallOptions options = {});
  /// Removes one key, or with none, an empty or a blank one, all; returns those removed, sorted. Not retried.
  std::vector<std::string> Clear(std::string instance_id, std::optional<std::string> key = {},
                                 CallOptions options = {});
  /// Ends an instance; returns the keys that were there, sorted. Not retried.
  std::vector<std::string> Close(std::string instance_id, CallOptions options = {});
  /// Opens an instance that ends with what this returns. Throws InstanceAttachedError where someone else has it.
  /// It ends too where the connection is lost: what is put into it after that is in a new instance.
  Attachment Attach(std::string instance_id, AttachOptions options = {});

 private:
  std::shared_ptr<internal::Connection> connection_;
};

}  // namespace statekeep
