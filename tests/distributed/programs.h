#pragma once
/// Programs of the system that tests start.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

namespace hammock::testing {

/// The path of a program; empty if it is not installed.
inline std::string Installed(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/usr/sbin/", "/sbin/"}) {
    const std::string path = folder + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

inline int FreePort() {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(file, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  close(file);
  return ntohs(address.sin_port);
}

/// A process that is killed at the end.
class Background {
 public:
  explicit Background(const std::vector<std::string>& command) : pid_(fork()) {
    if (pid_ != 0) return;
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(127);
  }
  ~Background() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

 private:
  const pid_t pid_;
};

}  // namespace hammock::testing
