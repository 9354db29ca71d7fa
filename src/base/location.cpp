#include "hammock/location.h"

#include <array>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/location_scope.h"
#include "base/never_destroyed.h"
#include "base/of_thread.h"
#include "hammock/caller_scope.h"
#include "hammock/foreign_call.h"

namespace hammock {

constinit thread_local LocationId tls_location = 0;
constinit std::atomic<uint64_t> module_names_generation{0};

namespace {

// A record is the place, the op that it is a part of, and for each frame its label and where it was
// called. The op has a separator of its own, so that records without one read as before.
constexpr char kSeparator = '\x1f';
constexpr char kOpSeparator = '\x1e';

// The prefix that the build gives to paths of the library's own sources.
constexpr std::string_view kOwnSources = HAMMOCK_SOURCE_PREFIX;

struct Table {
  std::mutex mutex;
  std::deque<std::string> records{""};  // by id
  std::unordered_map<std::string, LocationId> ids;
  // By code, instruction and frames.
  std::map<std::tuple<const void*, uint32_t, ForeignFrames>, LocationId> foreign_ids;
  std::unordered_map<LocationId, ForeignCall> foreign;     // whose records are not made
  std::unordered_map<std::string, std::string> files;      // by place, as the compiler named them
  std::unordered_map<std::string, std::string> functions;  // by place, of other languages
  std::set<std::string> frames;                            // never removed: threads point to them
};
Table& table() {
  static auto& instance = NeverDestroyed<Table>();
  return instance;
}

constinit thread_local ModuleFrameScope* innermost_frame = nullptr;
constinit thread_local CallerScope* innermost_caller = nullptr;

struct RecordParts {
  std::string_view place, op, frames;
};

RecordParts Split(std::string_view record) {
  size_t end = std::min(record.find(kSeparator), record.size());
  std::string_view frames = record.substr(end), place = record.substr(0, end);
  size_t mark = place.find(kOpSeparator);
  if (mark == std::string_view::npos) return {place, {}, frames};
  return {place.substr(0, mark), place.substr(mark + 1), frames};
}

std::string Join(const RecordParts& parts) {
  std::string record(parts.place);
  if (!parts.op.empty()) record.append(1, kOpSeparator).append(parts.op);
  return record.append(parts.frames);
}

/// Of the library's own sources and headers. A location that is not known is no line of the user's
/// either.
bool IsOwn(const Location& at) {
  std::string_view file = at.file_name();
  return at.line() == 0 || file.starts_with(kOwnSources) ||
         file.find("include/hammock/") != std::string_view::npos;
}

/// "file:line"; remembers where the file is.
std::string PlaceText(const char* path, uint32_t line) {
  if (line == 0) return "";
  const char* base = std::strrchr(path, '/');
  std::string place = std::string(base ? base + 1 : path) + ":" + std::to_string(line);
  std::lock_guard lock(table().mutex);
  table().files.try_emplace(place, path);
  return place;
}
std::string PlaceText(const Location& at) { return PlaceText(at.file_name(), at.line()); }

/// Functions that users call are in snake case; helpers and lambdas that open a scope are not.
bool IsPublicName(std::string_view name) {
  if (name.empty() || name.starts_with("operator")) return false;
  for (char c : name) {
    if (c != '_' && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

// Most programs trace from few lines: a direct-mapped cache keeps the lock off the op path.
struct CacheEntry {
  const char* file = nullptr;
  const std::string* frames = nullptr;
  const char* op = nullptr;
  uint32_t line = 0;
  LocationId id = 0;
};
using Cache = std::array<CacheEntry, 256>;

}  // namespace

/// Functions of this file that read the private members of open frames.
struct OpenModules {
  /// The user's line where a method was called, if the program has one: calls inside of Hammock's
  /// own code are passed over.
  static std::string CalledAt(const ModuleFrameScope& frame) {
    if (frame.called_inside_) return LocationText(frame.called_inside_);
    if (!IsOwn(frame.called_at_)) return PlaceText(frame.called_at_);
    return LineInside(frame.outer_);
  }

  /// The user's line that ran Hammock's own code in a frame; null: in none.
  static std::string LineInside(const ModuleFrameScope* frame) {
    for (const CallerScope* caller = innermost_caller; caller; caller = caller->outer_) {
      if (caller->frame_ == frame) return PlaceText(caller->at_);
    }
    return frame ? CalledAt(*frame) : "";
  }

  static std::string PlaceOf(const Location& at) {
    std::string place = IsOwn(at) ? LineInside(innermost_frame) : "";
    return place.empty() ? PlaceText(at) : place;
  }

  /// Another line counts as that of Hammock's own code: what is known of places may be wrong.
  static void CallerChanged() {
    OfThread<Cache>() = {};
    OfThread<Texts>() = {};
  }

  static bool IsInnermost(const Module& module) {
    return innermost_frame && &innermost_frame->module_ == &module;
  }

  static bool Contain(const Module& module) {
    const ModuleFrameScope* frame = innermost_frame;
    while (frame && &frame->module_ != &module) frame = frame->outer_;
    return frame != nullptr;
  }

  /// The open frames as they stand in records; null: none.
  static const std::string* Text() {
    if (!innermost_frame) [[likely]]
      return nullptr;
    return innermost_frame->text_ ? innermost_frame->text_ : &TextOf(*innermost_frame);
  }

 private:
  struct CachedText {
    const std::string* outer = nullptr;
    const Module* module = nullptr;
    const char* method = nullptr;
    const char* file = nullptr;
    uint32_t line = 0;
    LocationId inside = 0;
    uint64_t generation = 0;
    const std::string* text = nullptr;
    auto Key() const { return std::tie(outer, module, method, file, line, inside, generation); }
  };
  using Texts = std::array<CachedText, 256>;

  static const std::string& TextOf(ModuleFrameScope& frame) {
    if (frame.text_) return *frame.text_;
    CachedText wanted{frame.outer_ ? &TextOf(*frame.outer_) : nullptr,
                      &frame.module_,
                      frame.method_.data(),
                      frame.called_at_.file_name(),
                      frame.called_at_.line(),
                      frame.called_inside_,
                      module_names_generation.load(std::memory_order_relaxed),
                      nullptr};
    size_t place = reinterpret_cast<uintptr_t>(wanted.module) / 64 + wanted.line;
    Texts& texts = OfThread<Texts>();
    CachedText& known = texts[place % texts.size()];
    if (!known.text || known.Key() != wanted.Key()) {
      wanted.text = &Make(frame, wanted.outer);
      known = wanted;
    }
    frame.text_ = known.text;
    return *known.text;
  }

  static const std::string& Make(const ModuleFrameScope& frame, const std::string* outer) {
    std::string text = outer ? *outer : "";
    text += kSeparator;
    text +=
        frame.label_(frame.module_, frame.outer_ ? &frame.outer_->module_ : nullptr, frame.method_);
    text += kSeparator;
    std::string called_at = CalledAt(frame);
    text += called_at.empty() ? PlaceText(frame.called_at_) : called_at;
    std::lock_guard lock(table().mutex);
    return *table().frames.insert(std::move(text)).first;
  }
};

LocationId InternLocationRecord(const std::string& record) {
  if (record.empty()) return 0;
  std::lock_guard lock(table().mutex);
  auto [entry, added] =
      table().ids.try_emplace(record, static_cast<LocationId>(table().records.size()));
  if (added) table().records.push_back(record);
  return entry->second;
}

LocationId InternLocationText(const std::string& text) {
  return InternLocationRecord(std::string(Split(text).place));
}

namespace {

/// Apart, so that the way of a known line is short.
[[gnu::noinline]] LocationId InternNew(const Location& at, const char* op,
                                       const std::string* frames, CacheEntry& entry) {
  std::string place = OpenModules::PlaceOf(at);
  RecordParts parts{place, IsPublicName(op) ? op : "", frames ? *frames : std::string_view()};
  entry = {at.file_name(), frames, op, at.line(), InternLocationRecord(Join(parts))};
  return entry.id;
}

inline LocationId Intern(const Location& at, const char* op) {
  const char* file = at.file_name();
  uint32_t line = at.line();
  const std::string* frames = OpenModules::Text();
  auto bits = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) / 8; };
  Cache& cache = OfThread<Cache>();
  CacheEntry& entry = cache[(bits(file) + line + bits(op) + bits(frames)) % cache.size()];
  if (entry.file == file && entry.line == line && entry.frames == frames && entry.op == op) {
    return entry.id;
  }
  return InternNew(at, op, frames, entry);
}

}  // namespace

LocationId InternLocation(const Location& at) { return Intern(at, ""); }

LocationId InternLocation(const ForeignPlace& place) {
  return InternLocation(ForeignCall{.place = place});
}

LocationId InternLocation(const ForeignCall& call) {
  std::lock_guard lock(table().mutex);
  auto next = static_cast<LocationId>(table().records.size());
  auto [entry, added] =
      table().foreign_ids.try_emplace({call.place.code, call.place.instruction, call.frames}, next);
  if (added) {
    table().records.emplace_back();
    table().foreign.emplace(next, call);
  }
  return entry->second;
}

ForeignFrames InternFrames(ForeignFrames outer, const std::string& label,
                           const std::string& called_at) {
  std::string text = outer ? *outer : "";
  text.append(1, kSeparator).append(label).append(1, kSeparator).append(called_at);
  std::lock_guard lock(table().mutex);
  return &*table().frames.insert(std::move(text)).first;
}

namespace {

/// The call of a record whose text is not made yet.
std::optional<ForeignCall> UnreadCall(LocationId id) {
  std::lock_guard lock(table().mutex);
  auto entry = table().foreign.find(id);
  if (entry == table().foreign.end()) return std::nullopt;
  return entry->second;
}

}  // namespace

std::string LocationRecord(LocationId id) {
  if (std::optional<ForeignCall> call = UnreadCall(id)) {
    ForeignPlace::Line line = call->place.lookup(call->place.code, call->place.instruction);
    std::string text = PlaceText(line.path, line.number);
    std::lock_guard lock(table().mutex);
    if (call->function) table().functions.try_emplace(text, call->function);
    table().records[id] = call->frames ? text + *call->frames : text;
    table().foreign.erase(id);
  }
  std::lock_guard lock(table().mutex);
  return id < table().records.size() ? table().records[id] : "";
}

std::string LocationText(LocationId id) { return std::string(Split(LocationRecord(id)).place); }

std::string CalledOp(LocationId id) { return std::string(Split(LocationRecord(id)).op); }

LocationScope::LocationScope(const Location& at, const char* op) : outermost_(tls_location == 0) {
  if (outermost_) tls_location = Intern(at, op);
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

CallerScope::CallerScope(const Location& at)
    : outer_(innermost_caller), frame_(innermost_frame), at_(at) {
  if (IsOwn(at)) return;
  innermost_caller = this;
  OpenModules::CallerChanged();
}

CallerScope::~CallerScope() {
  if (innermost_caller != this) return;
  innermost_caller = outer_;
  OpenModules::CallerChanged();
}

OutsideOfCalls::OutsideOfCalls()
    : location_(std::exchange(tls_location, 0)), frame_(std::exchange(innermost_frame, nullptr)) {}

OutsideOfCalls::~OutsideOfCalls() {
  tls_location = location_;
  innermost_frame = frame_;
}

// ---- Frames

ModuleFrameScope::ModuleFrameScope(LabelFn label, const Module& module, std::string_view method,
                                   const Location& called_at)
    : outer_(std::exchange(innermost_frame, this)),
      label_(label),
      module_(module),
      method_(method),
      called_at_(called_at),
      called_inside_(tls_location) {}

ModuleFrameScope::~ModuleFrameScope() { innermost_frame = outer_; }

namespace {

/// Of what is behind the place of a record.
std::vector<ModuleFrame> ParseFrames(std::string_view rest) {
  auto next_part = [&] {
    if (rest.empty()) return std::string();
    rest.remove_prefix(1);
    std::string part(rest.substr(0, rest.find(kSeparator)));
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

/// The names of the frames, without that of a module that is in no other and those that Hammock
/// gave.
std::string PathOf(const std::vector<ModuleFrame>& frames) {
  std::string path;
  for (const ModuleFrame& frame : frames) {
    std::string_view name = std::string_view(frame.label).substr(0, frame.label.find('('));
    if (name == "top" || name.starts_with("__")) continue;
    if (!path.empty()) path += '.';
    path += name;
  }
  return path;
}

std::string Where(std::string place, const std::string& path) {
  if (path.empty()) return place;
  return place.empty() ? "in " + path : place + " in " + path;
}

}  // namespace

bool IsOwnLine(const Location& at) { return IsOwn(at); }

bool IsInModule() { return innermost_frame != nullptr; }

bool IsRunning(const Module& module) { return OpenModules::Contain(module); }

bool IsInnermost(const Module& module) { return OpenModules::IsInnermost(module); }

std::vector<ModuleFrame> OpenFrames() {
  const std::string* frames = OpenModules::Text();
  return frames ? ParseFrames(*frames) : std::vector<ModuleFrame>();
}

std::vector<ModuleFrame> FramesOf(LocationId id) {
  std::string record = LocationRecord(id);
  return ParseFrames(Split(record).frames);
}

std::string ModulePath(LocationId id) { return PathOf(FramesOf(id)); }

std::string WhereText(LocationId id) {
  const std::string path = ModulePath(id), function = path.empty() ? FunctionName(id) : "";
  return Where(LocationText(id), function.empty() ? path : function + "()");
}

std::string FunctionName(LocationId id) {
  const std::string place = LocationText(id);
  std::lock_guard lock(table().mutex);
  auto found = table().functions.find(place);
  return found == table().functions.end() ? "" : found->second;
}

std::string CurrentWhere() {
  if (tls_location) return WhereText(tls_location);
  return Where(OpenModules::LineInside(innermost_frame), PathOf(OpenFrames()));
}

namespace {

LocationId InsideFrames(LocationId id, std::string frames) {
  std::string record = LocationRecord(id);
  RecordParts parts = Split(record);
  frames += parts.frames;
  parts.frames = frames;
  return InternLocationRecord(Join(parts));
}

}  // namespace

LocationId InsideOpenFrames(LocationId id) {
  const std::string* frames = OpenModules::Text();
  return frames && id != 0 ? InsideFrames(id, *frames) : id;
}

LocationId InsideFrame(LocationId id, const ModuleFrame& frame) {
  return InsideFrames(id, kSeparator + frame.label + kSeparator + frame.called_at);
}

LocationId InternInnerCall(LocationId outer, const std::string& label) {
  std::string record = LocationRecord(outer);
  RecordParts parts = Split(record);
  const std::string called_at(parts.place);
  record.append(1, kSeparator).append(label).append(1, kSeparator).append(called_at);
  return InternLocationRecord(record);
}

LocationId AsPartOf(LocationId id, const char* op) {
  struct Known {
    LocationId id = 0;
    const char* op = nullptr;
    LocationId part = 0;
  };
  auto& known = OfThread<std::array<Known, 64>>();
  size_t place = id + reinterpret_cast<uintptr_t>(op) / 8;
  Known& entry = known[place % known.size()];
  if (id == 0 || (entry.id == id && entry.op == op)) return id == 0 ? 0 : entry.part;
  std::string record = LocationRecord(id);
  RecordParts parts = Split(record);
  if (parts.op.empty()) parts.op = op;
  entry = {id, op, InternLocationRecord(Join(parts))};
  return entry.part;
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
