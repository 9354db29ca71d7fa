#pragma once
/// Runs exit_child.cpp and checks all of it: how it ended, what it printed and how long it waited.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "runtime/child.h"

namespace hammock::testing {

constexpr const char* kWaysToExit[] = {"return",
                                       "exit",
                                       "quick_exit",
                                       "immediate_exit",
                                       "exit_in_new_thread",
                                       "exit_in_using_thread",
                                       "exit_in_closure",
                                       "exit_in_custom_call"};

/// EXIT_ROUNDS=500 is how many exits a test tries; by default a sample.
inline int ExitRounds(int usual) {
  const char* wanted = std::getenv("EXIT_ROUNDS");
  return wanted ? std::atoi(wanted) : usual;
}

/// What the process prints first, and after it the destructors that its way to end runs.
inline std::string OutputOfExit(const std::string& way) {
  std::string output;
  for (int i = 0; i < 2000; ++i) output += "line " + std::to_string(i) + "\n";
  if (way == "quick_exit" || way == "immediate_exit") return output;
  const bool main_thread = way == "return" || way == "exit" || way == "exit_in_custom_call";
  return output + (main_thread ? "thread_local right\n" : "") + "static right\n";
}

/// Takes the line that begins with `text` out of `output`; what follows in it, or empty.
inline std::string TakeLine(std::string& output, const std::string& text) {
  const size_t from = output.find(text);
  if (from == std::string::npos) return "";
  const size_t end = std::min(output.find('\n', from), output.size() - 1);
  const std::string rest = output.substr(from + text.size(), end - from - text.size());
  output.erase(from, end - from + 1);
  return rest;
}

/// At the end steps have two seconds in all; as much again is for a machine that is busy.
inline constexpr double kMostSecondsOfExit = 4;

/// quick_exit and _exit wait for nothing; half of it is for a machine that is busy.
inline constexpr double kMostSecondsWithoutDestructors = 1;

/// `environment` has assignments.
inline void CheckExit(const std::string& child, const std::string& work, const std::string& way,
                      int microseconds, const std::vector<std::string>& environment = {},
                      double most_seconds = kMostSecondsOfExit) {
  SCOPED_TRACE(work + " " + way + " " + std::to_string(microseconds));
  std::vector<std::string> command = {"/usr/bin/env"};
  command.insert(command.end(), environment.begin(), environment.end());
  for (const std::string& word : {child, work, way, std::to_string(microseconds)}) {
    command.push_back(word);
  }
  ChildResult result = RunChild(command, 60);
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.code, 3);
  // A machine that is slow: closures have a second and a half.
  TakeLine(result.output, "[hammock] [warn] at exit, ");
  if (const std::string left = TakeLine(result.output, "left at "); !left.empty()) {
    EXPECT_LE(now.count() - std::atof(left.c_str()), kMostSecondsWithoutDestructors);
  }
  const std::string waited = TakeLine(result.output, "waited ");
  EXPECT_LE(std::atof(waited.c_str()), most_seconds);
  const std::string expected = OutputOfExit(way);
  EXPECT_EQ(waited.empty(), !expected.ends_with("static right\n"));
  auto [differs, _] = std::ranges::mismatch(result.output, expected);
  EXPECT_TRUE(result.output == expected)
      << "differs from: "
      << result.output.substr(static_cast<size_t>(differs - result.output.begin()), 2000);
}

}  // namespace hammock::testing
