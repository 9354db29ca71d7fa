#include "distributed/file_store.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/throw.h"

namespace hammock::distributed {

FileStore::FileStore(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (!std::filesystem::is_directory(folder_)) {
    Throw(ErrorCode::kValue, "distributed: the folder '{}' cannot be made: {}", folder_,
          error.message());
  }
}

/// Letters, digits and "-_." stay; other bytes become %XX, so that a key is one file name.
std::string FileStore::PathOf(const std::string& key) const {
  std::string path = folder_ + "/";
  for (unsigned char c : key) {
    if (std::isalnum(c) || c == '-' || c == '_' || c == '.') {
      path += static_cast<char>(c);
    } else {
      path += fmt::format("%{:02X}", c);
    }
  }
  return path;
}

std::string FileStore::WriteTemporary(const std::string& value) const {
  static std::atomic<uint64_t> count{0};
  // Containers on one host may have its name, and the same process ids.
  static const uint32_t drawn = std::random_device()();
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::string path =
      fmt::format("{}/%tmp-{}-{}-{:08x}-{}", folder_, host, getpid(), drawn, ++count);
  std::ofstream file(path, std::ios::binary);
  file.write(value.data(), static_cast<std::streamsize>(value.size()));
  file.close();
  if (!file) Throw(ErrorCode::kValue, "distributed: '{}' cannot be written", path);
  return path;
}

void FileStore::Set(const std::string& key, const std::string& value) {
  std::string from = WriteTemporary(value), to = PathOf(key);
  if (std::rename(from.c_str(), to.c_str()) == 0) return;
  Throw(ErrorCode::kValue, "distributed: '{}' cannot be written: {}", to, std::strerror(errno));
}

std::optional<std::string> FileStore::Get(const std::string& key) {
  std::ifstream file(PathOf(key), std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string FileStore::SetOnce(const std::string& key, const std::string& value) {
  std::string from = WriteTemporary(value), to = PathOf(key);
  const bool first = link(from.c_str(), to.c_str()) == 0;
  const int reason = errno;
  unlink(from.c_str());
  if (first) return value;
  if (reason == EEXIST) {
    if (auto present = Get(key)) return *present;
  }
  Throw(ErrorCode::kValue, "distributed: '{}' cannot be written: {}", to, std::strerror(reason));
}

}  // namespace hammock::distributed
