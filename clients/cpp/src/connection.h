// One channel to a server with its stubs, and the way every call goes through it.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <exception>
#include <memory>
#include <string>

#include "failure.h"
#include "statekeep/options.h"
#include "statekeep/v1/memory.grpc.pb.h"
#include "statekeep/v1/scratch.grpc.pb.h"
#include "statekeep/v1/state_store.grpc.pb.h"

namespace statekeep::internal {

class Connection {
 public:
  explicit Connection(const ClientOptions& options);

  // The answer of a unary call. Throws Error.
  template <class Stub, class Request, class Response>
  Response Call(const std::unique_ptr<Stub>& stub,
                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const Request& request,
                const CallOptions& options) {
    grpc::ClientContext context;
    Prepare(context, options.timeout.value_or(timeout_));
    const std::stop_callback cancel(options.stop, [&context] { context.TryCancel(); });
    Response response;
    if (const auto status = ((*stub).*method)(&context, request, &response); !status.ok())
      std::rethrow_exception(ErrorOf(status));
    return response;
  }

  // Gives a call its token, and its deadline where the timeout is not 0.
  void Prepare(grpc::ClientContext& context, std::chrono::milliseconds timeout) const;

 private:
  std::string authorization_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<grpc::Channel> channel_;

 public:
  const std::unique_ptr<v1::Memory::Stub> memory;
  const std::unique_ptr<v1::Scratch::Stub> scratch;
  const std::unique_ptr<v1::StateStore::Stub> state;
};

// 128 random bits in hex: an id that no one else makes up.
std::string NewId();

}  // namespace statekeep::internal
