#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/nearest.h"
#include "hammock/config.h"

namespace hammock {
namespace {

TEST(Log, ShowsWarningsAndErrorsByDefault) {
  LogCapture capture;
  Log(LogLevel::kInfo, "hidden");
  Log(LogLevel::kWarn, "shown {}", 1);
  Log(LogLevel::kError, "shown {}", 2);
  EXPECT_EQ(capture.text(), "warn: shown 1\nerror: shown 2\n");
}

TEST(Log, LevelFollowsTheOption) {
  LogCapture capture;
  {
    config::Override loud("log_level", "trace");
    Log(LogLevel::kTrace, "a");
  }
  Log(LogLevel::kTrace, "b");
  {
    config::Override quiet("log_level", "off");
    Log(LogLevel::kError, "c");
  }
  Log(LogLevel::kError, "d");
  EXPECT_EQ(capture.text(), "trace: a\nerror: d\n");
}

TEST(Log, PrintsToStderr) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kWarn, "braces {} and 100%s", "{}");
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("braces {} and 100%s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("hammock"), std::string::npos) << text;
}

/// A key that was not used before, also when tests are repeated.
std::string NewKey() {
  static int count = 0;
  return "log_test." + std::to_string(++count);
}

TEST(Log, OnceIsOncePerKey) {
  LogCapture capture;
  std::string hidden = NewKey();
  std::string a = NewKey();
  LogOnce(hidden, LogLevel::kDebug, "hidden");
  LogOnce(hidden, LogLevel::kWarn, "a hidden message does not use up the key");
  for (int i = 0; i < 3; ++i) LogOnce(a, LogLevel::kWarn, "a{}", i);
  LogOnce(NewKey(), LogLevel::kWarn, "b");
  EXPECT_EQ(capture.text(), "warn: a hidden message does not use up the key\nwarn: a0\nwarn: b\n");
}

TEST(Log, TakesMessagesFromManyThreads) {
  LogCapture capture;
  std::string key = NewKey();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) Log(LogLevel::kWarn, "0123456789");
      LogOnce(key, LogLevel::kWarn, "0123456789");
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(capture.text().size(), 401 * std::string("warn: 0123456789\n").size());
}

TEST(NearestName, CountsEdits) {
  std::vector<std::string_view> names = {"matmul", "add", "addmm"};
  EXPECT_EQ(NearestName("mat_mul", names), "matmul");
  EXPECT_EQ(NearestName("dad", names), "add");
  EXPECT_EQ(NearestName("admm", names), "addmm");
  std::vector<std::string_view> swapped = {"abxy", "abcd"};
  EXPECT_EQ(NearestName("abdc", swapped), "abcd") << "a swap of neighbours is one edit";
  EXPECT_EQ(NearestName("x", {}), "");
}

}  // namespace
}  // namespace hammock
