// Memory: versioned values under keys, in scopes that outlive a program.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "statekeep/options.h"
#include "statekeep/range.h"
#include "statekeep/values.h"

namespace statekeep {

namespace internal {
class Connection;
}

using v1::MemoryEntry;
using v1::MemoryPurgeRecord;
using v1::MemoryScopeInfo;

/// Who writes a version; kept with it.
struct Writer {
  std::optional<std::string> execution_id = {};
  std::optional<std::string> flow_id = {};
  std::optional<std::string> flow_name = {};
};

/// What may go with a new version of a key.
struct VersionOptions {
  /// The key's current version, 0 where it has no value. Unset: any.
  std::optional<std::int64_t> expected_version = {};
  /// Until the version expires. Unset: never.
  std::optional<std::chrono::nanoseconds> ttl = {};
  std::map<std::string, std::string> labels = {};
  Writer writer = {};
};

/// A write of one key in a batch.
struct MemoryWrite {
  std::string key;
  Value value;
  VersionOptions version = {};
};

struct SetOptions {
  VersionOptions version = {};
  /// A retry with the same id gets the first answer, and writes nothing. Empty: the client makes one up.
  std::string request_id = {};
  CallOptions call = {};
};

struct BatchSetOptions {
  /// As in SetOptions.
  std::string request_id = {};
  CallOptions call = {};
};

struct GetOptions {
  /// Unset: the newest.
  std::optional<std::int64_t> version = {};
  /// Answer with the tombstone where the version read is one.
  bool include_deleted = false;
  CallOptions call = {};
};

struct MemoryListOptions {
  /// Literal.
  std::string prefix = {};
  bool include_values = false;
  bool include_deleted = false;
  /// 0: the server's default.
  std::int32_t page_size = 0;
  /// For each page.
  CallOptions call = {};
};

struct MemoryHistoryOptions {
  bool oldest_first = false;
  bool include_values = true;
  /// 0: all of them.
  std::int64_t limit = 0;
  StreamOptions stream = {};
};

struct DeleteOptions {
  std::optional<std::int64_t> expected_version = {};
  Writer writer = {};
  /// As in SetOptions.
  std::string request_id = {};
  CallOptions call = {};
};

struct PurgeOptions {
  /// How many of the newest versions of each key stay; a tombstone counts as one.
  std::int32_t keep = 0;
  CallOptions call = {};
};

struct PurgeAllOptions {
  /// As in PurgeOptions.
  std::int32_t keep = 0;
  /// Remove deleted keys whole, whatever `keep` says. Otherwise they are passed over.
  bool include_deleted = false;
  CallOptions call = {};
};

struct PageOptions {
  /// 0: the server's default.
  std::int32_t page_size = 0;
  /// For each page.
  CallOptions call = {};
};

struct WatchOptions {
  /// Literal.
  std::string prefix = {};
  /// Unset: only what is written from now on. Otherwise everything after that revision first; 0: all there is.
  std::optional<std::int64_t> after_revision = {};
  bool include_values = true;
  /// How often an idle server says that it is there; 100 ms at least. 0: never.
  std::chrono::milliseconds heartbeat{0};
  StreamOptions stream = {};
};

/// What a BatchGet found: the entries of the keys that have a value, and the other keys.
struct MemoryBatch {
  std::vector<MemoryEntry> entries;
  std::vector<std::string> missing_keys;
};

/// What a purge removed.
struct Purged {
  std::int64_t versions_deleted = 0;
  std::int64_t keys_affected = 0;
};

/// Versioned values under keys. Keys and scopes are trimmed, and consist of letters, digits and `._-/`.
/// Every call may throw a statekeep::Error; safe to use from any thread.
class Memory {
 public:
  explicit Memory(std::shared_ptr<internal::Connection> connection);

  /// Writes a new version of a key; returns it without its value. Throws VersionMismatchError.
  MemoryEntry Set(const Scope& scope, std::string key, Value value, SetOptions options = {});
  /// Writes several keys of one scope, all or none; returns the new versions. Throws VersionMismatchError.
  std::vector<MemoryEntry> BatchSet(const Scope& scope, std::vector<MemoryWrite> writes, BatchSetOptions options = {});
  /// The newest version of a key, or the one asked for; empty where it is not there, deleted or expired.
  std::optional<MemoryEntry> Get(const Scope& scope, std::string key, GetOptions options = {});
  /// The newest versions of several keys, from one point in time. Throws LimitReachedError where they do not fit.
  MemoryBatch BatchGet(const Scope& scope, std::vector<std::string> keys, CallOptions options = {});
  /// The newest versions of the keys that have a value, sorted by key.
  Pages<MemoryEntry> List(Scope scope, MemoryListOptions options = {});
  /// Every version of a key, newest first, tombstones too.
  Stream<MemoryEntry> History(Scope scope, std::string key, MemoryHistoryOptions options = {});
  /// Hides a key behind a tombstone; returns that, or the one that stood there. Empty where it never had a value.
  std::optional<MemoryEntry> Delete(const Scope& scope, std::string key, DeleteOptions options = {});
  /// Removes for good all but the newest versions of a key. Not retried: the answer would be wrong.
  Purged Purge(const Scope& scope, std::string key, PurgeOptions options = {});
  /// As Purge, for every key of the scope.
  Purged PurgeAll(const Scope& scope, PurgeAllOptions options = {});
  /// What was purged in a scope, newest first.
  Pages<MemoryPurgeRecord> ListPurges(Scope scope, PageOptions options = {});
  /// The scopes that hold a key with a value.
  Pages<MemoryScopeInfo> ListScopes(PageOptions options = {});
  /// Follows the writes of a scope. Returns once the server has answered: whatever is written from then on is seen.
  Stream<MemoryEntry> Watch(Scope scope, WatchOptions options = {});

 private:
  std::shared_ptr<internal::Connection> connection_;
};

}  // namespace statekeep
