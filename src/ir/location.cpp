#include "hammock/location.h"

#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ir/location_scope.h"

namespace hammock {

constinit thread_local LocationId tls_location = 0;

namespace {

// A record is the place and, for each frame, its label and where it was called, separated.
constexpr char kSeparator = '\x1f';

struct Table {
  std::mutex mutex;
  std::deque<std::string> records{""};  // by id
  std::unordered_map<std::string, LocationId> ids;
  std::unordered_map<std::string, std::string> files;  // by place, as the compiler named them
  std::set<std::string> frames;                        // never removed: threads point to them
};
Table& table() {
  static Table* instance = new Table;
  return *instance;
}

constinit thread_local ModuleFrameScope* innermost_frame = nullptr;

/// The frames that are open on this thread, as they stand in records; null: none.
const std::string* OpenFrameText() { return innermost_frame ? &innermost_frame->Text() : nullptr; }

std::string_view PlaceOf(std::string_view record) {
  return record.substr(0, record.find(kSeparator));
}
std::string_view FrameParts(std::string_view record) {
  return record.substr(PlaceOf(record).size());
}

// Most programs trace from few lines: a direct-mapped cache keeps the lock off the op path.
struct CacheEntry {
  const char* file;
  const std::string* frames;
  uint32_t line;
  LocationId id;
};
constexpr size_t kCacheSize = 256;
constinit thread_local CacheEntry cache[kCacheSize] = {};

}  // namespace

LocationId InternLocationRecord(const std::string& record) {
  if (record.empty()) return 0;
  std::lock_guard lock(table().mutex);
  auto [entry, added] =
      table().ids.try_emplace(record, static_cast<LocationId>(table().records.size()));
  if (added) table().records.push_back(record);
  return entry->second;
}

LocationId InternLocationText(const std::string& text) {
  return InternLocationRecord(std::string(PlaceOf(text)));
}

namespace {

/// "file:line"; remembers where the file is.
std::string PlaceText(const Location& at) {
  const char* base = std::strrchr(at.file_name(), '/');
  std::string place =
      std::string(base ? base + 1 : at.file_name()) + ":" + std::to_string(at.line());
  std::lock_guard lock(table().mutex);
  table().files.try_emplace(place, at.file_name());
  return place;
}

}  // namespace

LocationId InternLocation(const Location& at) {
  const char* file = at.file_name();
  uint32_t line = at.line();
  CacheEntry& entry = cache[(reinterpret_cast<uintptr_t>(file) / 8 + line) % kCacheSize];
  const std::string* frames = OpenFrameText();
  if (entry.file == file && entry.line == line && entry.frames == frames) return entry.id;
  entry = {file, frames, line, InternLocationRecord(PlaceText(at) + (frames ? *frames : ""))};
  return entry.id;
}

std::string LocationRecord(LocationId id) {
  std::lock_guard lock(table().mutex);
  return id < table().records.size() ? table().records[id] : "";
}

std::string LocationText(LocationId id) { return std::string(PlaceOf(LocationRecord(id))); }

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

ModuleFrameScope::ModuleFrameScope(LabelFn label, const Module& module, const std::string& method,
                                   const Location& called_at)
    : outer_(std::exchange(innermost_frame, this)),
      label_(label),
      module_(module),
      method_(method),
      called_at_(called_at),
      called_inside_(tls_location) {}

ModuleFrameScope::~ModuleFrameScope() { innermost_frame = outer_; }

const std::string& ModuleFrameScope::Text() {
  if (text_) return *text_;
  std::string text = outer_ ? outer_->Text() : "";
  text += kSeparator + label_(module_, outer_ ? &outer_->module_ : nullptr, method_);
  text += kSeparator + (called_inside_ ? LocationText(called_inside_) : PlaceText(called_at_));
  std::lock_guard lock(table().mutex);
  text_ = &*table().frames.insert(std::move(text)).first;
  return *text_;
}

namespace {

/// Of what is behind the place of a record.
std::vector<ModuleFrame> ParseFrames(std::string_view rest) {
  auto next_part = [&] {
    if (rest.empty()) return std::string();
    rest.remove_prefix(1);
    std::string part(PlaceOf(rest));
    rest.remove_prefix(part.size());
    return part;
  };
  std::vector<ModuleFrame> frames;
  while (!rest.empty()) {
    std::string label = next_part();
    frames.push_back({std::move(label), next_part()});
  }
  return frames;
}

}  // namespace

std::vector<ModuleFrame> OpenFrames() {
  const std::string* frames = OpenFrameText();
  return frames ? ParseFrames(*frames) : std::vector<ModuleFrame>();
}

std::vector<ModuleFrame> FramesOf(LocationId id) {
  std::string record = LocationRecord(id);
  return ParseFrames(FrameParts(record));
}

LocationId OutsideFrames(LocationId id, const ModuleFrame& frame) {
  std::string record = LocationRecord(id);
  return InternLocationRecord(std::string(PlaceOf(record)) + kSeparator + frame.label + kSeparator +
                              frame.called_at + std::string(FrameParts(record)));
}

LocationId InsideOpenFrames(LocationId id) {
  const std::string* frames = OpenFrameText();
  if (!frames || id == 0) return id;
  std::string record = LocationRecord(id);
  return InternLocationRecord(std::string(PlaceOf(record)) + *frames +
                              std::string(FrameParts(record)));
}

std::string SourceLine(const std::string& place) {
  std::string path;
  {
    std::lock_guard lock(table().mutex);
    auto entry = table().files.find(place);
    if (entry == table().files.end()) return "";
    path = entry->second;
  }
  std::ifstream file(path);
  std::string line;
  for (int number = std::atoi(place.c_str() + place.rfind(':') + 1); number > 0; --number) {
    if (!std::getline(file, line)) return "";
  }
  size_t start = line.find_first_not_of(" \t");
  return start == std::string::npos ? "" : line.substr(start);
}

}  // namespace hammock
