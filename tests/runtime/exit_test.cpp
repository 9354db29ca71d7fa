// Processes end in every way at random moments of their work: none crashes or hangs, the output is
// whole, and destructors still use tensors. EXIT_ROUNDS=500 is how many are tried; by default a
// sample.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>

#include "runtime/child.h"

namespace hammock {
namespace {

using namespace hammock::testing;

constexpr const char* kWork[] = {"train", "serve", "compile", "closures", "reference"};
constexpr const char* kWays[] = {"return",
                                 "exit",
                                 "quick_exit",
                                 "immediate_exit",
                                 "exit_in_new_thread",
                                 "exit_in_using_thread",
                                 "exit_in_closure",
                                 "exit_in_custom_call"};

std::string Lines() {
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += "line " + std::to_string(i) + "\n";
  return lines;
}

/// What the process prints after its lines: the destructors that its way to end runs.
std::string EndOf(const std::string& way) {
  if (way == "quick_exit" || way == "immediate_exit") return "";
  bool main_thread = way == "return" || way == "exit" || way == "exit_in_custom_call";
  return std::string(main_thread ? "thread_local right\n" : "") + "static right\n";
}

/// Without what a machine that is slow adds: at the end closures have a second and a half.
std::string WithoutWarning(std::string output) {
  const size_t from = output.find("[hammock] [warn] at exit, ");
  if (from == std::string::npos) return output;
  return output.erase(from, output.find('\n', from) - from + 1);
}

/// Runs a child and checks all of it; its seconds.
double Check(const std::string& work, const std::string& way, int microseconds) {
  SCOPED_TRACE(work + " " + way + " " + std::to_string(microseconds));
  auto begin = std::chrono::steady_clock::now();
  ChildResult result = RunChild({HAMMOCK_EXIT_CHILD, work, way, std::to_string(microseconds)}, 60);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.code, 3);
  const std::string expected = Lines() + EndOf(way);
  const std::string output = WithoutWarning(result.output);
  auto [differs, _] = std::ranges::mismatch(output, expected);
  EXPECT_TRUE(output == expected) << "differs from: "
                                  << output.substr(static_cast<size_t>(differs - output.begin()),
                                                   2000);
  return time.count();
}

TEST(Exit, IsCleanAtAnyMoment) {
  const char* wanted = std::getenv("EXIT_ROUNDS");
  const int exits = wanted ? std::atoi(wanted) : 40;
  std::mt19937 random(static_cast<unsigned>(exits));
  for (int i = 0; i < exits && !::testing::Test::HasFailure(); ++i) {
    int microseconds = static_cast<int>(random() % 1000 * (random() % 1000));
    Check(kWork[random() % std::size(kWork)], kWays[i % std::size(kWays)], microseconds);
  }
}

TEST(Exit, DoesNotWaitForACustomCallThatIsStuck) {
  EXPECT_LT(Check("stuck", "return", 200000), 10);
}

TEST(Exit, CancelsAStepThatTakesLong) { EXPECT_LT(Check("long", "return", 3000000), 15); }

TEST(Exit, SurvivesABackendThatFailsToEnd) {
  ChildResult result = RunChild({HAMMOCK_EXIT_CHILD, "throwing_backend", "return", "300000"}, 60);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.output.find("PrepareToExit of backend fails_to_end"), std::string::npos)
      << result.output.substr(0, 2000);
  EXPECT_NE(result.output.find("PrepareToExit of backend raises_to_end: the device is gone"),
            std::string::npos)
      << result.output.substr(0, 2000);
}

TEST(Exit, IsCleanAfterTheLibraryWasClosed) {
  EXPECT_TRUE(Succeeded(RunChild({HAMMOCK_UNLOAD_CHILD, HAMMOCK_UNLOAD_MODULE}, 60)));
}

}  // namespace
}  // namespace hammock
