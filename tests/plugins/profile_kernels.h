#pragma once
/// Kernels in the profile of a device.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "hammock/hammock.h"

namespace hammock::testing {

/// Names of the kernels in a profile of what `run` does, with their numbers in the graph.
inline std::map<std::string, std::set<int64_t>> KernelsIn(const std::function<void()>& run) {
  const std::string path = ::testing::TempDir() + "plugin_" + std::to_string(getpid()) + ".json";
  LazyGraphExecutor::Get()->ClearComputationCache();
  profile::Start(path);
  run();
  profile::Stop();
  const auto events = nlohmann::json::parse(std::ifstream(path));
  double begin = -1, end = -1;  // of the run
  for (const auto& event : events) {
    if (event.value("cat", "") != "execute") continue;
    if (begin < 0) begin = event["ts"];
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  std::map<std::string, std::set<int64_t>> kernels;
  for (const auto& event : events) {
    if (event.value("cat", "") != "kernel") continue;
    EXPECT_GE(event["ts"].get<double>(), begin - 0.01) << event;
    EXPECT_LE(event["ts"].get<double>() + event["dur"].get<double>(), end + 0.01) << event;
    kernels[event["name"]].insert(event["args"]["kernel"].get<int64_t>());
  }
  std::filesystem::remove(path);
  return kernels;
}

}  // namespace hammock::testing
