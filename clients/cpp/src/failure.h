// Turns a failed gRPC status into the typed error that it says.
#pragma once

#include <grpcpp/support/status.h>

#include <exception>

namespace statekeep::internal {

// The error of a status that is not OK: by the server's reason, or else by the code.
std::exception_ptr ErrorOf(const grpc::Status& status);

}  // namespace statekeep::internal
