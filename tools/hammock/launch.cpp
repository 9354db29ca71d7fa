// hammock launch: starts the ranks of a program, on this host or several, and waits for all of
// them.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "commands.h"
#include "store_server.h"

namespace hammock::tool {

namespace {

/// A rank's process, and the beginning of a line that it has written.
struct Rank {
  pid_t pid = -1;
  int pipe = -1;
  std::string line;
};

constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP};
std::atomic<int> stop_signal{0};

/// `how`: SIG_BLOCK or SIG_UNBLOCK.
void MaskEndingSignals(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : kEndingSignals) sigaddset(&signals, signal);
  pthread_sigmask(how, &signals, nullptr);
}

/// A word of a shell's command line.
std::string Quoted(const std::string& word) {
  std::string text = "'";
  for (char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

/// The names between commas; one that is empty where there are none.
std::vector<std::string> HostsIn(const std::string& text) {
  std::vector<std::string> hosts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    hosts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return hosts;
}

/// Another host's shell gets the variables and the program as text; it starts in the same folder.
std::vector<std::string> OnHost(const std::string& shell, const std::string& host,
                                const std::vector<std::string>& variables,
                                const std::vector<std::string>& program) {
  std::string line = "cd " + Quoted(std::filesystem::current_path().string()) + " && exec env";
  for (const std::string& word : variables) line += " " + Quoted(word);
  for (const std::string& word : program) line += " " + Quoted(word);
  return {shell, host, line};
}

Rank Start(const std::vector<std::string>& variables, const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("launch: no pipe can be made");
  Rank rank;
  rank.pid = fork();
  if (rank.pid < 0) throw std::runtime_error("launch: no process can be started");
  if (rank.pid == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    for (const std::string& variable : variables) putenv(strdup(variable.c_str()));
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    MaskEndingSignals(SIG_UNBLOCK);
    execvp(words[0], words.data());
    dprintf(2, "%s: %s\n", words[0], std::strerror(errno));
    _exit(127);
  }
  close(ends[1]);
  rank.pipe = ends[0];
  return rank;
}

/// Writes whole lines behind the rank's number, so that those of several do not mix.
void Print(size_t number, Rank& rank, std::string_view text) {
  rank.line += text;
  size_t begin = 0;
  for (size_t end; (end = rank.line.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::cout << fmt::format("[{}] {}\n", number, rank.line.substr(begin, end - begin));
  }
  rank.line.erase(0, begin);
  std::cout.flush();
}

/// Until all ranks have closed their ends. A signal that ends this program goes to the ranks.
void CopyOutput(std::vector<Rank>& ranks) {
  std::vector<pollfd> polled;
  for (const Rank& rank : ranks) polled.push_back({rank.pipe, POLLIN, 0});
  for (size_t open = ranks.size(); open > 0;) {
    if (int signal = stop_signal.exchange(0)) {
      for (const Rank& rank : ranks) kill(rank.pid, signal);
    }
    if (poll(polled.data(), polled.size(), 200) <= 0) continue;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (polled[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(ranks[i].pipe, buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) continue;
      if (got > 0) {
        Print(i, ranks[i], {buffer, static_cast<size_t>(got)});
        continue;
      }
      if (!ranks[i].line.empty()) Print(i, ranks[i], "\n");
      close(ranks[i].pipe);
      polled[i].fd = -1;
      --open;
    }
  }
}

/// The exit code of a shell: that of the process, or 128 and the signal that ended it.
int CodeOf(const Rank& rank) {
  int status = 0;
  while (waitpid(rank.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// Where ranks meet: as the options say; else ranks of this host in a folder, those of several at
/// this program.
class MeetingPlace {
 public:
  explicit MeetingPlace(const LaunchOptions& options) : store_(options.store) {
    if (!store_.empty()) return;
    if (!options.hosts.empty()) {
      server_.emplace();
      const std::string& address = options.address.empty() ? HostName() : options.address;
      store_ = fmt::format("redis://{}:{}", address, server_->port());
      return;
    }
    folder_ = (std::filesystem::temp_directory_path() / "hammock-launch-XXXXXX").string();
    if (!mkdtemp(folder_.data())) {
      throw std::runtime_error("launch: '" + folder_ + "' cannot be made");
    }
    store_ = folder_;
  }
  ~MeetingPlace() {
    std::error_code none;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, none);
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  const std::string& store() const { return store_; }

 private:
  std::string store_;
  std::string folder_;  // empty: it is not this program's
  std::optional<StoreServer> server_;
};

}  // namespace

int Launch(const LaunchOptions& options) {
  MaskEndingSignals(SIG_BLOCK);  // until all ranks are there to get them
  MeetingPlace place(options);
  const std::vector<std::string> hosts = HostsIn(options.hosts);
  const auto count = static_cast<size_t>(options.ranks);
  const size_t each = (count + hosts.size() - 1) / hosts.size();
  std::vector<Rank> ranks;
  for (size_t i = 0; i < count; ++i) {
    const std::vector<std::string> variables = {
        fmt::format("RANK={}", i), fmt::format("WORLD_SIZE={}", count),
        fmt::format("LOCAL_RANK={}", i % each), "HAMMOCK_DISTRIBUTED_STORE=" + place.store()};
    if (options.hosts.empty()) {
      ranks.push_back(Start(variables, options.program));
    } else {
      ranks.push_back(
          Start({}, OnHost(options.shell, hosts[i / each], variables, options.program)));
    }
  }
  for (int signal : kEndingSignals) {
    std::signal(signal, [](int number) { stop_signal = number; });
  }
  MaskEndingSignals(SIG_UNBLOCK);
  CopyOutput(ranks);
  int result = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int code = CodeOf(ranks[i]);
    if (code == 0) continue;
    std::cerr << (code > 128 && code <= 128 + SIGRTMAX  // 255 is what ssh itself ends with
                      ? fmt::format("hammock: rank {} was ended by signal {}\n", i, code - 128)
                      : fmt::format("hammock: rank {} exited with {}\n", i, code));
    if (result == 0) result = code;
  }
  return result;
}

}  // namespace hammock::tool
