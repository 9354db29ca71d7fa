#include "base/profile_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/fork.h"
#include "base/log.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/config.h"

namespace hammock {

constinit config::Option<std::string> config::kProfileFile({
    .name = "profile_file",
    .default_value = "",
    .doc = "File that gets a profile of what the process does, for `hammock report` and "
           "ui.perfetto.dev; `%p` in it is the process id; empty: none.",
    .changed = profile::FollowOption,
    .old_name = "trace_file",
});

constinit config::Option<int64_t> config::kProfileFileBytes({
    .name = "profile_file_bytes",
    .default_value = 268435456,
    .doc = "Bytes that a profile may take; what happens after that is left out of it.",
    .min = 65536,
    .old_name = "trace_file_bytes",
});

}  // namespace hammock

namespace hammock::profile {

constinit std::atomic<uint32_t> detail::wanted{0};
constinit thread_local int64_t span_boundary = 0;

namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr int64_t kFlushNs = 200'000'000;
constexpr std::string_view kEnd = "\n]\n";

/// The profile that is being written. Guarded by its mutex; never destroyed. The child of a fork
/// has one of its own: the parent's mutex may be locked for ever there.
struct File {
  const uint64_t forks = ForkCount();
  std::mutex mutex;
  int fd = -1;
  std::string path;
  std::string option;   // the value of `profile_file` that was followed last
  std::string buffer;   // not yet in the file
  int64_t written = 0;  // without the end
  int64_t limit = 0;
  int64_t left_out = 0;  // events
  int64_t start = 0;
  int64_t flushed_at = 0;
};

File& GetFile() {
  static constinit std::atomic<File*> current{nullptr};
  File* file = current.load(std::memory_order_acquire);
  while (!file || file->forks != ForkCount()) {
    auto* fresh = new File;
    if (current.compare_exchange_strong(file, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *file;
}

constinit std::atomic<uint64_t> profile_number{0};  // of the latest profile

/// The latest profile that knows the thread's name.
constinit thread_local uint64_t named_in = 0;

int64_t ThreadId() {
  static thread_local int64_t id = 0;
  static thread_local pid_t process = 0;  // a fork gives the thread another number
  if (process != getpid()) {
    process = getpid();
    id = syscall(SYS_gettid);
  }
  return id;
}

std::string ThreadName() {
  if (ThreadId() == getpid()) return "main";
  char name[16] = "", main[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  std::string path = fmt::format("/proc/self/task/{}/comm", getpid());
  if (int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC); fd >= 0) {
    ssize_t count = read(fd, main, sizeof main - 1);
    if (count > 0 && main[count - 1] == '\n') main[count - 1] = '\0';
    close(fd);
  }
  // A thread that nobody named has the name of the process.
  return std::strcmp(name, main) == 0 ? fmt::format("thread {}", ThreadId()) : name;
}

/// With the mutex held.
void WriteOut(File& file) {
  std::string bytes = file.buffer;
  bytes += kEnd;
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = pwrite(file.fd, bytes.data() + done, bytes.size() - done,
                           static_cast<off_t>(file.written + static_cast<int64_t>(done)));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      LogOnce("profile_file:" + file.path, LogLevel::kWarn, "profile: cannot write to '{}': {}",
              file.path, std::strerror(errno));
      break;
    }
    done += static_cast<size_t>(count);
  }
  file.written += static_cast<int64_t>(file.buffer.size());
  file.buffer.clear();
  file.flushed_at = Now();
}

/// With the mutex held.
void Append(File& file, std::string_view event) {
  if (file.written + static_cast<int64_t>(file.buffer.size() + event.size()) > file.limit) {
    ++file.left_out;
    return;
  }
  if (file.written + static_cast<int64_t>(file.buffer.size()) > 2) file.buffer += ",\n";
  file.buffer += event;
}

double Microseconds(const File& file, int64_t ns) {
  return static_cast<double>(ns - file.start) / 1000.0;
}

std::string MetadataEvent(std::string_view name, std::string_view args) {
  return fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":{},"args":{}}})", getpid(), ThreadId(),
                     Quoted(name), args);
}

/// Calls `make`, which gives the text of an event, if a profile is being written here.
template <class Make>
void Write(const Make& make) {
  File& file = GetFile();
  std::lock_guard lock(file.mutex);
  if (file.fd < 0) return;
  if (named_in != profile_number.load(std::memory_order_relaxed)) {
    named_in = profile_number.load(std::memory_order_relaxed);
    Append(file,
           MetadataEvent("thread_name", fmt::format(R"({{"name":{}}})", Quoted(ThreadName()))));
  }
  Append(file, make(file));
  if (file.buffer.size() > kBufferBytes || Now() - file.flushed_at > kFlushNs) WriteOut(file);
}

std::string ExpandPath(const std::string& path) {
  std::string text = path;
  for (size_t at; (at = text.find("%p")) != std::string::npos;) {
    text.replace(at, 2, std::to_string(getpid()));
  }
  return text;
}

std::string ProgramName() {
  char path[4096];
  ssize_t count = readlink("/proc/self/exe", path, sizeof path);
  std::string text(path, count > 0 ? static_cast<size_t>(count) : 0);
  return text.substr(text.rfind('/') + 1);
}

/// With the mutex held. Why it could not be done, or empty.
std::string Open(File& file, const std::string& path) {
  file.path = ExpandPath(path);
  file.fd = open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.fd < 0) return std::strerror(errno);
  file.buffer = "[\n";
  file.written = file.left_out = 0;
  file.limit = config::Get<config::kProfileFileBytes>();
  file.start = file.flushed_at = Now();
  profile_number.fetch_add(1, std::memory_order_relaxed);
  std::string name = Quoted(ProgramName());
  Append(file, MetadataEvent("process_name", fmt::format(R"({{"name":{}}})", name)));
  auto now = std::chrono::system_clock::now().time_since_epoch();
  Append(file,
         MetadataEvent(
             "hammock_profile",
             fmt::format(R"({{"version":1,"program":{},"started":{},"started_us":{}}})", name,
                         std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                         std::chrono::duration_cast<std::chrono::microseconds>(now).count())));
  WriteOut(file);
  process_exit::Register(process_exit::Stage::kProfile, [] { Stop(); });
  detail::wanted.fetch_or(1, std::memory_order_relaxed);
  return "";
}

/// With the mutex held.
void Close(File& file) {
  detail::wanted.fetch_and(~uint32_t{1}, std::memory_order_relaxed);
  if (file.fd < 0) return;
  if (file.left_out > 0) {
    file.limit = INT64_MAX;
    Append(file,
           MetadataEvent("hammock_left_out", fmt::format(R"({{"events":{}}})", file.left_out)));
  }
  WriteOut(file);
  close(file.fd);
  file.fd = -1;
}

}  // namespace

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint64_t ProfileNumber() { return IsOn() ? profile_number.load(std::memory_order_relaxed) : 0; }

std::string Quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Start(const std::string& path, Location at) {
  LocationScope scope(at);
  config::Get<config::kProfileFileBytes>();  // the first look at options follows one, with the
                                             // mutex
  File& file = GetFile();
  std::lock_guard lock(file.mutex);
  if (file.fd >= 0) {
    Throw(ErrorCode::kValue, "profile: '{}' is being written; stop it before another begins",
          file.path);
  }
  if (path.empty()) Throw(ErrorCode::kValue, "profile: the path is empty");
  if (std::string why = Open(file, path); !why.empty()) {
    Throw(ErrorCode::kValue, "profile: cannot write '{}': {}", file.path, why);
  }
}

void Stop() {
  File& file = GetFile();
  std::lock_guard lock(file.mutex);
  Close(file);
}

void FollowOption() {
  const std::string& path = config::Get<config::kProfileFile>();
  std::string why, shown;
  {
    File& file = GetFile();
    std::lock_guard lock(file.mutex);
    if (path == file.option) return;
    file.option = path;
    Close(file);
    if (path.empty()) return;
    why = Open(file, path);
    shown = file.path;
  }
  if (!why.empty()) Log(LogLevel::kWarn, "profile_file: cannot write '{}': {}", shown, why);
}

void Flush() {
  File& file = GetFile();
  std::lock_guard lock(file.mutex);
  if (file.fd >= 0) WriteOut(file);
}

void WriteSpan(const char* category, std::string_view name, int64_t begin, int64_t end,
               std::string_view args) {
  Write([&](const File& file) {
    return fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"cat":"{}","name":{},"ts":{:.3f},"dur":{:.3f}{}{}}})",
        getpid(), ThreadId(), category, Quoted(name),
        Microseconds(file, std::max(begin, file.start)),
        static_cast<double>(end - std::max(begin, file.start)) / 1000.0,
        args.empty() ? "" : R"(,"args":)", args);
  });
}

void WriteInstant(const char* category, std::string_view name, std::string_view args) {
  Write([&](const File& file) {
    return fmt::format(
        R"({{"ph":"i","s":"t","pid":{},"tid":{},"cat":"{}","name":{},"ts":{:.3f}{}{}}})", getpid(),
        ThreadId(), category, Quoted(name), Microseconds(file, Now()),
        args.empty() ? "" : R"(,"args":)", args);
  });
}

void WriteCounter(std::string_view name, std::string_view args) {
  Write([&](const File& file) {
    return fmt::format(R"({{"ph":"C","pid":{},"tid":{},"name":{},"ts":{:.3f},"args":{}}})",
                       getpid(), ThreadId(), Quoted(name), Microseconds(file, Now()), args);
  });
}

void WriteMemory(std::string_view device, int64_t in_use, int64_t planned) {
  WriteCounter(fmt::format("memory of {}", device),
               fmt::format(R"({{"in use":{},"planned":{}}})", in_use, std::max(in_use, planned)));
}

void WriteMetadata(std::string_view name, std::string_view args) {
  Write([&](const File&) { return MetadataEvent(name, args); });
}

void Mark(std::string_view name, const char* category) {
  if (IsOn()) WriteInstant(category, name);
}

// ---- Spans

struct Span::State {
  const char* category;
  const char* name;
  int64_t begin;
  std::string args;

  void Add(const char* key, std::string_view value) {
    args += args.empty() ? '{' : ',';
    args += Quoted(key);
    args += ':';
    args += value;
  }
};

void Span::Begin(const char* name, const char* category) {
  span_boundary = Now();
  state_ = new State{category, name, span_boundary, {}};
}

void Span::End() noexcept {
  try {
    if (!state_->args.empty()) state_->args += '}';
    span_boundary = Now();
    WriteSpan(state_->category, state_->name, state_->begin, span_boundary, state_->args);
  } catch (...) {
    // A profile is not worth an error in the program that it is of.
  }
  delete state_;
}

void Span::Add(const char* key, std::string_view text) { state_->Add(key, Quoted(text)); }
void Span::Add(const char* key, int64_t number) { state_->Add(key, std::to_string(number)); }

}  // namespace hammock::profile
