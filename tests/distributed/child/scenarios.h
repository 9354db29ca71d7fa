#pragma once
/// What one rank of a program does, by name: distributed_child SCENARIO.

#include <hammock/distributed.h>
#include <hammock/hammock.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "../child_kit.h"

namespace hammock::testing {

using distributed::Group;
using distributed::Reduction;

using Scenarios = std::map<std::string, void (*)()>;
Scenarios CollectivesScenarios();
Scenarios DivergenceScenarios();
Scenarios FaultsScenarios();
Scenarios DevicesScenarios();

// Scenarios that others go on from.

void Collectives();
void Sizes();
void MergesOnDevice();

/// `count` times: the sum of all ranks' values.
Tensor SumsInLoop(const Tensor& x, int64_t count);

/// A rank that has gone is noticed at once, one that does not answer by the time limit, in which
/// 2 s are for a machine that does other things too.
inline constexpr int64_t kAtOnce = 5000, kSlack = 2000;

/// The last rank misbehaves in a step; the others get the right error in so many milliseconds, have
/// their values from before it, and go on without it.
void Fault(int64_t most_ms, const std::function<void()>& misbehave);

inline const char* const kPatient = "60000";
inline const int64_t kTimeout = std::atoi(std::getenv("HAMMOCK_DISTRIBUTED_TIMEOUT"));

/// A value that outlives its scenario, so that the step needs it.
inline Tensor kept;

}  // namespace hammock::testing
