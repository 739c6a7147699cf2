// Addresses, tokens, TLS, deadlines, cancellation and retries, against a servicer that says what it was sent.
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <sstream>
#include <thread>

#include "server.h"
#include "statekeep/client.h"
#include "statekeep/v1/memory.grpc.pb.h"

namespace statekeep::testing {
namespace {

using namespace std::chrono_literals;

// Answers each Get with the token it came with, after so many failures.
class Telling final : public v1::Memory::Service {
 public:
  grpc::Status Get(grpc::ServerContext* context, const v1::MemoryGetRequest* request,
                   v1::MemoryGetResponse* response) override {
    ++calls;
    if (request->key() == "wait") return Wait(*context);
    if (failures-- > 0) return {grpc::StatusCode::UNAVAILABLE, "not now"};
    const auto token = context->client_metadata().find("authorization");
    const bool there = token != context->client_metadata().end();
    response->mutable_entry()->set_key(there ? std::string(token->second.data(), token->second.size()) : "none");
    return grpc::Status::OK;
  }

  grpc::Status Purge(grpc::ServerContext*, const v1::MemoryPurgeRequest*, v1::MemoryPurgeResponse*) override {
    ++calls;
    return {grpc::StatusCode::UNAVAILABLE, "not now"};
  }

  grpc::Status Set(grpc::ServerContext*, const v1::MemorySetRequest* request, v1::MemorySetResponse*) override {
    ids.push_back(request->request_id());
    if (failures-- > 0) return {grpc::StatusCode::UNAVAILABLE, "not now"};
    return grpc::Status::OK;
  }

  std::atomic<int> calls = 0;
  std::atomic<int> failures = 0;
  std::vector<std::string> ids;
  std::latch waiting{1};

 private:
  grpc::Status Wait(const grpc::ServerContext& context) {
    waiting.count_down();
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (!context.IsCancelled() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  }
};

class Connecting : public ::testing::Test {
 protected:
  void Start(const std::shared_ptr<grpc::ServerCredentials>& credentials = grpc::InsecureServerCredentials()) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~Connecting() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }
  std::string Told(const ClientOptions& options) {
    return Client(options).memory().Get(NamespaceScope("s"), "k").value().key();
  }

  Telling service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(Connecting, SendsTheTokenAsBearerWithoutTheWhiteSpaceAroundIt) {
  Start();
  EXPECT_EQ(Told({.address = address_, .token = " secret\n"}), "Bearer secret");
  EXPECT_EQ(Told({.address = address_, .token = ""}), "none");
}

TEST_F(Connecting, TakesAddressAndTokenFromTheEnvironment) {
  Start();
  setenv("STATEKEEP_ADDRESS", address_.c_str(), 1);
  setenv("STATEKEEP_TOKEN", "from-there", 1);
  EXPECT_EQ(Told({}), "Bearer from-there");
  unsetenv("STATEKEEP_ADDRESS");
  unsetenv("STATEKEEP_TOKEN");
}

TEST_F(Connecting, RefusesATokenThatNoMetadataCanCarryWithoutRepeatingIt) {
  try {
    Client({.address = "127.0.0.1:1", .token = "sec\nret"});
    FAIL() << "it was taken";
  } catch (const InvalidArgumentError& error) {
    EXPECT_EQ(std::string(error.what()).find("sec"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("printable ASCII"), std::string::npos);
  }
}

TEST_F(Connecting, RefusesWhatIsNoAddressAndSaysWhatIsOne) {
  for (const auto* address :
       {"nonsense", "host:", ":1", "unix:", "http://host:1", "host:65536", "host:99999", "::1:5"}) {
    try {
      Client({.address = address});
      FAIL() << address << " was taken";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("HOST:PORT, [IPv6]:PORT or unix:PATH"), std::string::npos);
    }
  }
  EXPECT_NO_THROW(Client({.address = "[::1]:65535"}));
}

TEST_F(Connecting, ReachesAServerOnAUnixSocket) {
  const TemporaryFolder folder;
  const ServerProcess server({}, "unix:" + (folder.path() / "socket").string());
  const Client client({.address = server.address()});
  client.memory().Set(NamespaceScope("s"), "k", Json("1"));
  EXPECT_EQ(client.memory().Get(NamespaceScope("s"), "k").value().value().json(), "1");
}

TEST_F(Connecting, TrustsTheCertificatesItIsGiven) {
  const TemporaryFolder folder;
  const auto file = [&folder](const char* name) { return (folder.path() / name).string(); };
  OutputOf(
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=statekeep.test -addext "
      "subjectAltName=DNS:statekeep.test -keyout " +
      file("key") + " -out " + file("cert") + " 2>/dev/null");
  const auto read = [](const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  const auto certificate = read(file("cert"));
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({read(file("key")), certificate});
  Start(grpc::SslServerCredentials(tls));
  EXPECT_EQ(Told({.address = address_,
                  .token = "t",
                  .tls = TlsOptions{.root_certificates = certificate, .server_name = "statekeep.test"}}),
            "Bearer t");
  EXPECT_THROW(Told({.address = address_, .tls = TlsOptions{.server_name = "statekeep.test"}}), UnavailableError);
}

TEST_F(Connecting, TriesAReadAgainWhereTheServerIsUnavailable) {
  Start();
  service_.failures = 2;
  EXPECT_EQ(Told({.address = address_, .token = ""}), "none");
  EXPECT_EQ(service_.calls, 3);
}

TEST_F(Connecting, TriesAWriteAgainWithTheIdOfTheFirstTry) {
  Start();
  service_.failures = 2;
  Client({.address = address_}).memory().Set(NamespaceScope("s"), "k", Json("1"));
  ASSERT_EQ(service_.ids.size(), 3u);
  EXPECT_EQ(service_.ids[0].size(), 32u);
  EXPECT_EQ(service_.ids[0], service_.ids[1]);
  EXPECT_EQ(service_.ids[0], service_.ids[2]);
}

TEST_F(Connecting, DoesNotTryAPurgeAgain) {
  Start();
  EXPECT_THROW(Client({.address = address_}).memory().Purge(NamespaceScope("s"), "k"), UnavailableError);
  EXPECT_EQ(service_.calls, 1);
}

TEST_F(Connecting, EndsACallAtItsDeadline) {
  Start();
  const Client client({.address = address_, .timeout = 100ms});
  EXPECT_THROW(client.memory().Get(NamespaceScope("s"), "wait"), DeadlineExceededError);
}

TEST_F(Connecting, TakesTheLongestTimeoutForALongOne) {
  Start();
  EXPECT_EQ(Told({.address = address_, .token = "", .timeout = std::chrono::milliseconds::max()}), "none");
}

TEST_F(Connecting, EndsACallWhoseStopTokenAsksForIt) {
  Start();
  std::stop_source stop;
  const std::jthread stopper([this, &stop] {
    service_.waiting.wait();
    stop.request_stop();
  });
  const Client client({.address = address_});
  EXPECT_THROW(client.memory().Get(NamespaceScope("s"), "wait", {.call = {.stop = stop.get_token()}}), CancelledError);
}

TEST_F(Connecting, FailsWhereThereIsNoServer) {
  const Client client({.address = "127.0.0.1:1"});
  EXPECT_THROW(client.memory().Get(NamespaceScope("s"), "k"), UnavailableError);
  EXPECT_THROW(client.state().StreamHistory("t"), UnavailableError);
}

}  // namespace
}  // namespace statekeep::testing
