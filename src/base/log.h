#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace hammock {

/// Messages for people, on stderr: through spdlog where it is present. Quiet by default; the option
/// `log_level` says what is shown. Callable from any thread and at any time, never throws.
///   Log(LogLevel::kWarn, "fallback: {} runs on {}: {}", op, device, reason);
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

bool LogEnabled(LogLevel level);
void LogText(LogLevel level, std::string_view text);

template <class... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) LogText(level, fmt::format(format, std::forward<Args>(args)...));
}

/// True the first time that it is called with `key` in this process.
bool FirstTime(std::string_view key);

/// Logs only the first message with that key.
template <class... Args>
void LogOnce(std::string_view key, LogLevel level, fmt::format_string<Args...> format,
             Args&&... args) {
  if (!LogEnabled(level) || !FirstTime(key)) return;
  LogText(level, fmt::format(format, std::forward<Args>(args)...));
}

/// For tests: collects messages instead of printing them, as long as it lives. Not nestable.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// Lines "level: message".
  std::string text() const;
};

}  // namespace hammock
