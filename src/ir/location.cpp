#include "hammock/location.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "ir/location_scope.h"

namespace hammock {

constinit thread_local LocationId tls_location = 0;

namespace {

struct Table {
  std::mutex mutex;
  std::deque<std::string> texts{""};  // by id
  std::unordered_map<std::string, LocationId> ids;
};
Table& table() {
  static Table* instance = new Table;
  return *instance;
}

// Most programs trace from few lines: a direct-mapped cache keeps the lock off the op path.
struct CacheEntry {
  const char* file;
  uint32_t line;
  LocationId id;
};
constexpr size_t kCacheSize = 256;
constinit thread_local CacheEntry cache[kCacheSize] = {};

}  // namespace

LocationId InternLocationText(const std::string& text) {
  if (text.empty()) return 0;
  std::lock_guard lock(table().mutex);
  auto [entry, added] =
      table().ids.try_emplace(text, static_cast<LocationId>(table().texts.size()));
  if (added) table().texts.push_back(text);
  return entry->second;
}

LocationId InternLocation(const Location& at) {
  const char* file = at.file_name();
  uint32_t line = at.line();
  CacheEntry& entry = cache[(reinterpret_cast<uintptr_t>(file) / 8 + line) % kCacheSize];
  if (entry.file == file && entry.line == line) return entry.id;
  const char* base = std::strrchr(file, '/');
  entry = {file, line,
           InternLocationText(std::string(base ? base + 1 : file) + ":" + std::to_string(line))};
  return entry.id;
}

std::string LocationText(LocationId id) {
  std::lock_guard lock(table().mutex);
  return id < table().texts.size() ? table().texts[id] : "";
}

LocationScope::LocationScope(const Location& at) : outermost_(tls_location == 0) {
  if (outermost_) tls_location = InternLocation(at);
}

LocationScope::LocationScope(LocationId id) : outermost_(tls_location == 0) {
  if (outermost_) tls_location = id;
}

LocationScope::~LocationScope() {
  if (outermost_) tls_location = 0;
}

LocationId CurrentLocation(const Location& at) {
  return tls_location != 0 ? tls_location : InternLocation(at);
}

LocationId CurrentLocation() { return tls_location; }

}  // namespace hammock
