#include "store_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

namespace hammock::tool {
namespace {

constexpr size_t kMostWords = 8, kMostBytes = 1 << 20;  // of a command

/// "<mark>number\r\n" at `at`, which moves behind it; nothing if it is not whole.
/// std::invalid_argument if it is something else.
std::optional<size_t> ReadNumber(const std::string& text, char mark, size_t& at, size_t most) {
  constexpr size_t kMostDigits = 20;
  const size_t end = text.find("\r\n", at);
  const bool is_whole = end != text.npos;
  if ((at < text.size() && text[at] != mark) || (!is_whole && text.size() - at > 2 + kMostDigits)) {
    throw std::invalid_argument("no command");
  }
  if (!is_whole) return std::nullopt;
  size_t number = 0;
  auto [last, error] = std::from_chars(text.data() + at + 1, text.data() + end, number);
  const bool is_number = error == std::errc() && last == text.data() + end;
  if (!is_number || number > most) throw std::invalid_argument("no command");
  at = end + 2;
  return number;
}

/// The words of the first command, which is removed; nothing if it is not whole.
std::optional<std::vector<std::string>> TakeCommand(std::string& received) {
  size_t at = 0;
  auto count = ReadNumber(received, '*', at, kMostWords);
  if (!count) return std::nullopt;
  std::vector<std::string> words;
  while (words.size() < *count) {
    auto bytes = ReadNumber(received, '$', at, kMostBytes);
    if (!bytes || received.size() < at + *bytes + 2) return std::nullopt;
    words.push_back(received.substr(at, *bytes));
    at += *bytes + 2;
  }
  received.erase(0, at);
  return words;
}

bool SendAll(int socket, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count = send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

StoreServer::StoreServer() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(address);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || bind(listener_, name, size) != 0 || listen(listener_, SOMAXCONN) != 0 ||
      getsockname(listener_, name, &size) != 0) {
    throw std::runtime_error("launch: no port to meet at");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Work(); });
}

StoreServer::~StoreServer() {
  stops_ = true;
  thread_.join();
  close(listener_);
}

void StoreServer::Work() {
  std::vector<Client> clients;
  while (!stops_) {
    std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
    for (const Client& client : clients) polled.push_back({client.socket, POLLIN, 0});
    if (poll(polled.data(), polled.size(), 50) <= 0) continue;
    std::vector<Client> rest;
    for (size_t i = 0; i < clients.size(); ++i) {
      if (polled[i + 1].revents == 0 || Serve(clients[i])) {
        rest.push_back(std::move(clients[i]));
      } else {
        close(clients[i].socket);
      }
    }
    clients = std::move(rest);
    if (polled[0].revents == 0) continue;
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) clients.push_back({socket, ""});
  }
  for (const Client& client : clients) close(client.socket);
}

bool StoreServer::Serve(Client& client) {
  char buffer[4096];
  const ssize_t got = recv(client.socket, buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  client.received.append(buffer, static_cast<size_t>(got));
  try {
    while (auto words = TakeCommand(client.received)) {
      if (!SendAll(client.socket, Answer(*words))) return false;
    }
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

std::string StoreServer::Answer(const std::vector<std::string>& words) {
  constexpr const char* kNothing = "$-1\r\n";
  if (words.size() == 2 && words[0] == "GET") {
    auto found = values_.find(words[1]);
    if (found == values_.end()) return kNothing;
    return "$" + std::to_string(found->second.size()) + "\r\n" + found->second + "\r\n";
  }
  if (words.size() >= 3 && words[0] == "SET") {
    const bool once = std::ranges::count(words.begin() + 3, words.end(), "NX") > 0;
    if (once && values_.contains(words[1])) return kNothing;
    values_[words[1]] = words[2];
    return "+OK\r\n";
  }
  return "-ERR unknown command\r\n";
}

}  // namespace hammock::tool
