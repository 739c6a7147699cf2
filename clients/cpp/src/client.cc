#include "statekeep/client.h"

#include "connection.h"

namespace statekeep {

Client::Client(ClientOptions options) : connection_(std::make_shared<internal::Connection>(options)) {}

}  // namespace statekeep
