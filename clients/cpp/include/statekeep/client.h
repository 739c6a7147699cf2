// The client of a Statekeep server. This header brings all of the client but nlohmann.h.
#pragma once

#include <memory>

#include "statekeep/errors.h"
#include "statekeep/memory.h"
#include "statekeep/options.h"
#include "statekeep/scratch.h"
#include "statekeep/state.h"
#include "statekeep/values.h"

namespace statekeep {

/// A client: one channel, shared by its copies and by the streams it gave out. Safe to use from any thread.
/// The channel connects with the first call, and closes with the last object that uses it.
class Client {
 public:
  /// Throws InvalidArgumentError where no metadata can carry the token.
  explicit Client(ClientOptions options = {});

  /// Versioned values under keys.
  Memory memory() const { return Memory(connection_); }
  /// Values that live as long as an instance.
  Scratch scratch() const { return Scratch(connection_); }
  /// Threads of events, checkpoints and branches.
  State state() const { return State(connection_); }

 private:
  std::shared_ptr<internal::Connection> connection_;
};

}  // namespace statekeep
