#pragma once
/// The store in which ranks meet that see no common folder. It speaks the part of Redis's protocol
/// that ranks use (GET, and SET with EX and NX), so a Redis server can take its place.

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace hammock::tool {

class StoreServer {
 public:
  /// Listens at a free port, at all addresses of this host. std::runtime_error where it cannot.
  StoreServer();
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  int port() const { return port_; }

 private:
  struct Client {
    int socket;
    std::string received;
  };
  void Work();
  /// Answers the commands that have come; false if the client has gone or speaks otherwise.
  bool Serve(Client& client);
  std::string Answer(const std::vector<std::string>& words);

  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stops_{false};
  std::map<std::string, std::string> values_;
  std::thread thread_;
};

}  // namespace hammock::tool
