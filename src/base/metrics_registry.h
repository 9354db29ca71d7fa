#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hammock/metric.h"

namespace hammock::metrics {

template <class T>
using ByName = std::map<std::string, std::unique_ptr<T>, std::less<>>;

struct Provider {
  std::string name;
  std::function<std::string()> text;
};

/// All counters, gauges and metrics, and the threads' parts of the counters. `mutex` guards
/// everything; it is not held while a provider runs.
struct Registry {
  /// Gives the calling thread its part of the counters.
  void AddThread();
  /// Moves the calling thread's part to the counters themselves.
  void RetireThread();

  /// The next three need `mutex`.
  int64_t Sum(const Counter& counter) const;
  int64_t Value(const Counter& counter) const;
  void Reset(Counter& counter);

  std::mutex mutex;
  ByName<Counter> counters;
  ByName<Gauge> gauges;
  ByName<Metric> metrics;
  std::vector<std::unique_ptr<detail::CounterBlock>> blocks;
  std::map<std::string, Declaration, std::less<>> declarations;
  std::map<std::string, std::string, std::less<>> renamed;  // from an old name to the present one
  std::map<int, Provider> providers;
  int next_provider = 1;
};

/// Never destroyed.
Registry& GetRegistry();

/// The present name of a metric that was renamed, of which it warns once; else `name`.
std::string PresentName(std::string_view name);

}  // namespace hammock::metrics
