#include "connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <regex>

#include "statekeep/errors.h"

namespace statekeep::internal {
namespace {

// Unary calls whose answers do not say what they removed; streams resume by cursor. A write among them carries an id
// by which the server knows it again.
constexpr auto kServiceConfig = R"({"methodConfig": [{
  "name": [
    {"service": "statekeep.v1.Memory", "method": "Set"}, {"service": "statekeep.v1.Memory", "method": "BatchSet"},
    {"service": "statekeep.v1.Memory", "method": "Get"}, {"service": "statekeep.v1.Memory", "method": "BatchGet"},
    {"service": "statekeep.v1.Memory", "method": "List"}, {"service": "statekeep.v1.Memory", "method": "Delete"},
    {"service": "statekeep.v1.Memory", "method": "ListPurges"},
    {"service": "statekeep.v1.Memory", "method": "ListScopes"},
    {"service": "statekeep.v1.Scratch", "method": "Put"}, {"service": "statekeep.v1.Scratch", "method": "Get"},
    {"service": "statekeep.v1.Scratch", "method": "List"},
    {"service": "statekeep.v1.StateStore", "method": "AppendEvent"},
    {"service": "statekeep.v1.StateStore", "method": "AppendNextEvent"},
    {"service": "statekeep.v1.StateStore", "method": "AppendEvents"},
    {"service": "statekeep.v1.StateStore", "method": "SaveCheckpoint"},
    {"service": "statekeep.v1.StateStore", "method": "LatestCheckpoint"},
    {"service": "statekeep.v1.StateStore", "method": "ListCheckpoints"},
    {"service": "statekeep.v1.StateStore", "method": "GetHistory"},
    {"service": "statekeep.v1.StateStore", "method": "Fork"},
    {"service": "statekeep.v1.StateStore", "method": "ListBranches"},
    {"service": "statekeep.v1.StateStore", "method": "ListThreads"}
  ],
  "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
                  "retryableStatusCodes": ["UNAVAILABLE"]}
}]})";

std::string FromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

// gRPC would take a port beyond 65535 for another one, and wait for a host that is none.
bool IsAddress(const std::string& address) {
  if (address.starts_with("unix:")) return address.size() > std::strlen("unix:");
  static const std::regex host_and_port(R"((\[[0-9A-Fa-f:.]+\]|[^:/\[\]\s]+):([0-9]{1,5}))");
  std::smatch parts;
  return std::regex_match(address, parts, host_and_port) && std::stoi(parts[2]) <= 65535;
}

std::string AddressOf(const ClientOptions& options) {
  const std::string given = options.address.empty() ? FromEnvironment("STATEKEEP_ADDRESS") : options.address;
  if (given.empty()) return "127.0.0.1:50051";
  if (!IsAddress(given))
    throw InvalidArgumentError("an address is HOST:PORT, [IPv6]:PORT or unix:PATH, not \"" + given + "\"",
                               {.code = grpc::StatusCode::INVALID_ARGUMENT});
  return given;
}

// The token without the white space around it: a file that it is read from ends with a newline.
std::string TokenOf(const ClientOptions& options) {
  const std::string given = options.token ? *options.token : FromEnvironment("STATEKEEP_TOKEN");
  constexpr auto blanks = " \t\r\n";
  const auto first = given.find_first_not_of(blanks);
  if (first == std::string::npos) return {};
  std::string token = given.substr(first, given.find_last_not_of(blanks) - first + 1);
  if (!std::ranges::all_of(token, [](char c) { return c >= ' ' && c <= '~'; }))
    throw InvalidArgumentError(
        "the token (ClientOptions::token or STATEKEEP_TOKEN) holds a character that is not printable ASCII",
        {.code = grpc::StatusCode::INVALID_ARGUMENT});
  return token;
}

void AddKeepalive(grpc::ChannelArguments& arguments, const ClientOptions& options) {
  if (options.keepalive.count() == 0) return;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(options.keepalive.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(options.keepalive_timeout.count()));
  // gRPC would stop after two pings without data, and wait five minutes between them.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MIN_SENT_PING_INTERVAL_WITHOUT_DATA_MS, static_cast<int>(options.keepalive.count()));
}

grpc::ChannelArguments ArgumentsOf(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(kServiceConfig);
  // A call is only repeated where its request was kept, and one record may have close to 4 MiB.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, 8 << 20);
  // gRPC's own default waits up to two minutes before it looks again for a server that came back.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5'000);
  AddKeepalive(arguments, options);
  if (options.tls && !options.tls->server_name.empty()) arguments.SetSslTargetNameOverride(options.tls->server_name);
  return arguments;
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const std::optional<TlsOptions>& tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = tls->root_certificates,
                               .pem_private_key = tls->private_key,
                               .pem_cert_chain = tls->certificate_chain});
}

}  // namespace

Connection::Connection(const ClientOptions& options)
    : authorization_(TokenOf(options)),
      timeout_(options.timeout),
      channel_(grpc::CreateCustomChannel(AddressOf(options), CredentialsOf(options.tls), ArgumentsOf(options))),
      memory(v1::Memory::NewStub(channel_)),
      scratch(v1::Scratch::NewStub(channel_)),
      state(v1::StateStore::NewStub(channel_)) {
  if (!authorization_.empty()) authorization_.insert(0, "Bearer ");
}

void Connection::Prepare(grpc::ClientContext& context, std::chrono::milliseconds timeout) const {
  if (!authorization_.empty()) context.AddMetadata("authorization", authorization_);
  constexpr std::chrono::hours longest{24 * 365 * 100};  // a time beyond what the clock can name would be long ago
  if (timeout.count() != 0)
    context.set_deadline(std::chrono::system_clock::now() + std::min<std::chrono::milliseconds>(timeout, longest));
}

std::string NewId() {
  thread_local std::random_device random;
  constexpr auto digits = "0123456789abcdef";
  std::string id(32, '0');
  for (std::size_t at = 0; at < id.size(); at += 8) {
    std::uint32_t bits = random();
    for (std::size_t digit = at; digit < at + 8; ++digit, bits >>= 4) id[digit] = digits[bits & 15];
  }
  return id;
}

}  // namespace statekeep::internal
