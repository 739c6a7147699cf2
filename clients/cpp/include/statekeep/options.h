// How a client connects, and what may go with a call.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

namespace statekeep {

/// Transport security. Without any PEM the system's root certificates are trusted.
struct TlsOptions {
  /// PEM of the certificates to trust.
  std::string root_certificates = {};
  /// PEM of the client's own certificate chain and key, where the server asks for them.
  std::string certificate_chain = {};
  std::string private_key = {};
  /// The name that the server's certificate must have, where it is not the address's.
  std::string server_name = {};
};

/// How a client connects.
struct ClientOptions {
  /// HOST:PORT or unix:PATH. Empty: STATEKEEP_ADDRESS, or 127.0.0.1:50051.
  std::string address = {};
  /// Sent with each call as `authorization: Bearer …`. Unset: STATEKEEP_TOKEN; empty: none.
  std::optional<std::string> token = {};
  /// Unset: plain text.
  std::optional<TlsOptions> tls = {};
  /// How long a unary call may take, retries included. 0: for ever.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// A ping this often while a call is open and nothing else is heard, so that a follower notices that its server is
  /// gone. 0: none. A server may cut off who pings more often than every 10 s.
  std::chrono::milliseconds keepalive = std::chrono::seconds(30);
  /// How long to wait for the answer to a ping before the connection counts as lost.
  std::chrono::milliseconds keepalive_timeout = std::chrono::seconds(10);
};

/// What may go with any unary call.
struct CallOptions {
  /// How long the call may take, retries included. Unset: the client's; 0: for ever.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Ends the call with CancelledError, from any thread.
  std::stop_token stop = {};
};

/// What may go with any stream.
struct StreamOptions {
  /// How long to go on trying to get a lost connection back, since it was lost. 0: not at all.
  std::chrono::milliseconds patience = std::chrono::minutes(1);
  /// How long the whole stream may take. Unset: for ever.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Ends the stream with CancelledError, from any thread.
  std::stop_token stop = {};
};

}  // namespace statekeep
