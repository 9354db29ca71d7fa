#pragma once
/// Starts the ranks of a program and waits for them.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "hammock/distributed/engine.h"
#include "runtime/child.h"

namespace hammock::testing {

/// A folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hammock-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Results by rank. `command` is a program and its arguments; `started` ranks of `count` are there.
inline std::vector<ChildResult> RunRanks(int count, const std::vector<std::string>& command,
                                         int timeout_ms, int started = -1) {
  TemporaryFolder folder;
  std::vector<ChildResult> results(static_cast<size_t>(started < 0 ? count : started));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::string> words = {
          "/usr/bin/env",
          "RANK=" + std::to_string(rank),
          "WORLD_SIZE=" + std::to_string(count),
          "LOCAL_RANK=" + std::to_string(rank),
          "HAMMOCK_CPU_THREADS=1",
          "HAMMOCK_DISTRIBUTED_STORE=" + folder.path(),
          "RANKS_TEST_FOLDER=" + folder.path(),
          "HAMMOCK_DISTRIBUTED_TIMEOUT=" + std::to_string(timeout_ms)};
      words.insert(words.end(), command.begin(), command.end());
      results[rank] = RunChild(words, 120);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

/// Why ranks cannot be connected; empty if they can.
inline std::string WhyNoEngine() {
  for (const distributed::EngineFact& fact : distributed::DescribeEngines()) {
    if (fact.name == "gloo" && fact.missing) return fact.text;
  }
  return "";
}

}  // namespace hammock::testing
