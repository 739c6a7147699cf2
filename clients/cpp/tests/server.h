// A real server in a process of its own, on a free port of the loopback.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace statekeep::testing {

class ServerProcess {
 public:
  // Returns once the server is ready. Throws std::runtime_error where it does not come up.
  explicit ServerProcess(std::vector<std::string> flags = {}, const std::string& listen = "127.0.0.1:0");
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }
  void Signal(int number) const;
  // Waits for its end, for 30 s at most; returns the exit code, or minus the signal.
  int Wait();
  // Ends it at once, and waits.
  void Kill();

 private:
  pid_t pid_ = 0;
  int output_ = -1;
  std::string address_;
};

// Whether the server's command knows the flag's value, such as sqlite.
bool ServeKnows(const std::string& word);

// A new folder that is gone with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// What a command, run by the shell, writes to its standard output. Throws std::runtime_error where it fails.
std::string OutputOf(const std::string& command);

}  // namespace statekeep::testing
