#pragma once
/// The workloads on Hammock's CPU backend.

#include <string>

#include "workload.h"

namespace ours {

/// Sets the device, the number of threads and whether kernels are compiled before they run.
void Start(int threads, bool wait_for_code);
bench::Side Make(const bench::Row& row, const std::vector<bench::Array>& inputs);

/// What the latest graph became: "3 kernels, 2 calls: 1 dot_general (oneDNN), 1 gather
/// (reference)".
std::string LatestSteps();
/// The latest graph, its steps and its memory, for people.
std::string LatestText();

/// Seconds that `count` new kernels took each to be compiled, or to be loaded as cached objects.
std::vector<double> NewKernels(int count);
std::vector<double> CachedKernels(int count);
/// Seconds to the first result of `count` graphs that were never seen, and until they run as fast
/// as they ever do. Kernels must not be waited for.
struct ColdStart {
  std::vector<double> first_result;
  std::vector<double> full_speed;
};
ColdStart NewGraphs(int count);

}  // namespace ours
