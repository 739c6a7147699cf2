#include "server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace statekeep::testing {
namespace {

constexpr std::chrono::seconds kWithin(30);

std::string Command() {
  const char* given = std::getenv("STATEKEEP_COMMAND");
  return given ? given : CLIENT_FOLDER "/../../.venv/bin/statekeep";
}

// This process's environment without what would set the server up.
std::vector<char*> Environment() {
  std::vector<char*> kept;
  for (char** one = environ; *one; ++one)
    if (!std::string_view(*one).starts_with("STATEKEEP_")) kept.push_back(*one);
  kept.push_back(nullptr);
  return kept;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The first line that comes from a file descriptor; what came, where it ends or takes too long.
std::string FirstLine(int from) {
  std::string line;
  const auto give_up = std::chrono::steady_clock::now() + kWithin;
  while (!line.ends_with('\n') && std::chrono::steady_clock::now() < give_up) {
    pollfd wait{from, POLLIN, 0};
    char letter = 0;
    if (poll(&wait, 1, 1000) > 0 && read(from, &letter, 1) != 1) break;
    if (wait.revents & POLLIN) line += letter;
  }
  return line;
}

}  // namespace

ServerProcess::ServerProcess(std::vector<std::string> flags, const std::string& listen) {
  std::istringstream parts(Command());
  std::vector<std::string> words;
  for (std::string word; parts >> word;) words.push_back(word);
  for (auto* word : {"serve", "--listen"}) words.emplace_back(word);
  words.push_back(listen);
  words.insert(words.end(), flags.begin(), flags.end());
  auto arguments = Pointers(words);
  auto environment = Environment();
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  pid_ = fork();
  if (pid_ == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    execvpe(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  output_ = pipe_ends[0];
  const auto line = FirstLine(output_);
  const auto ready = nlohmann::json::parse(line, nullptr, false);
  if (ready.is_discarded() || !ready.contains("listen")) {
    Kill();
    close(output_);
    throw std::runtime_error("the server did not come up: " + Command() + " wrote '" + line + "'");
  }
  address_ = ready["listen"][0];
}

ServerProcess::~ServerProcess() {
  Kill();
  close(output_);
}

void ServerProcess::Signal(int number) const { kill(pid_, number); }

int ServerProcess::Wait() {
  // The end of the server closes its side of the pipe.
  const auto give_up = std::chrono::steady_clock::now() + kWithin;
  pollfd wait{output_, POLLIN, 0};
  char rest[256];
  while (std::chrono::steady_clock::now() < give_up)
    if (poll(&wait, 1, 1000) > 0 && read(output_, rest, sizeof rest) <= 0) break;
  if (std::chrono::steady_clock::now() >= give_up) kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void ServerProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

bool ServeKnows(const std::string& word) {
  return OutputOf(Command() + " serve --help").find(word) != std::string::npos;
}

TemporaryFolder::TemporaryFolder() {
  auto name = (std::filesystem::temp_directory_path() / "statekeep-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string output;
  char part[4096];
  while (const auto count = fread(part, 1, sizeof part, pipe)) output.append(part, count);
  if (pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return output;
}

}  // namespace statekeep::testing
