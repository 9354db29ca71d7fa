#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <set>

#include "base/never_destroyed.h"
#include "hammock/config.h"

#if HAMMOCK_WITH_SPDLOG
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#endif

namespace hammock {

constinit config::Option<std::string> config::kLogLevel({
    .name = "log_level",
    .default_value = "warn",
    .doc = "Least severe message that is logged: trace, debug, info, warn, error or off.",
    .choices = "trace, debug, info, warn, error, off",
});
namespace {

constexpr std::array<std::string_view, 6> kLevelNames = {"trace", "debug", "info",
                                                         "warn",  "error", "off"};

struct State {
  std::mutex mutex;
  std::set<std::string, std::less<>> seen;
  std::optional<std::string> captured;
};

State& GetState() {
  static auto& state = NeverDestroyed<State>();
  return state;
}

LogLevel ConfiguredLevel() {
  const std::string& name = config::Get<config::kLogLevel>();
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return LogLevel::kWarn;
}

#if HAMMOCK_WITH_SPDLOG

void Print(LogLevel level, std::string_view text) {
  static spdlog::logger& logger = []() -> auto& {
    auto& created = NeverDestroyed<spdlog::logger>(
        "hammock", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created.set_level(spdlog::level::trace);  // LogEnabled has decided
    created.flush_on(spdlog::level::warn);
    created.set_pattern("[%H:%M:%S.%e] [%n] [%l] %v");
    return created;
  }
  ();
  logger.log(static_cast<spdlog::level::level_enum>(level),
             spdlog::string_view_t(text.data(), text.size()));
}

static_assert(static_cast<int>(LogLevel::kTrace) == SPDLOG_LEVEL_TRACE);
static_assert(static_cast<int>(LogLevel::kError) == SPDLOG_LEVEL_ERROR);

#else

void Print(LogLevel level, std::string_view text) {
  std::string line = fmt::format("[hammock] [{}] {}\n", kLevelNames[static_cast<int>(level)], text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

#endif

}  // namespace

bool LogEnabled(LogLevel level) {
  // The level in the low bits, the generation of the options it was read from above them.
  static constinit std::atomic<uint64_t> cached{UINT64_MAX};
  uint64_t generation = config::Generation();
  uint64_t known = cached.load(std::memory_order_relaxed);
  if (known >> 3 != (generation & (UINT64_MAX >> 3))) {
    known = generation << 3 | static_cast<uint64_t>(ConfiguredLevel());
    cached.store(known, std::memory_order_relaxed);
  }
  return static_cast<uint64_t>(level) >= (known & 7);
}

void LogText(LogLevel level, std::string_view text) {
  State& state = GetState();
  std::lock_guard lock(state.mutex);
  if (!state.captured) return Print(level, text);
  *state.captured += fmt::format("{}: {}\n", kLevelNames[static_cast<int>(level)], text);
}

bool FirstTime(std::string_view key) {
  State& state = GetState();
  std::lock_guard lock(state.mutex);
  return state.seen.emplace(key).second;
}

LogCapture::LogCapture() {
  std::lock_guard lock(GetState().mutex);
  GetState().captured.emplace();
}

LogCapture::~LogCapture() {
  std::lock_guard lock(GetState().mutex);
  GetState().captured.reset();
}

std::string LogCapture::text() const {
  std::lock_guard lock(GetState().mutex);
  return *GetState().captured;
}

}  // namespace hammock
