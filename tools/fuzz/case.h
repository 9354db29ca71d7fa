#pragma once
/// A graph with the values of its inputs: what the fuzzer makes, runs, shrinks and writes to files.

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"

namespace hammock::fuzz {

struct Case {
  Graph graph;
  std::vector<HostTensor> inputs;
};

/// Equal seeds give equal numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15u + 1) {}

  uint64_t Bits() { return engine_(); }
  int64_t Below(int64_t end) { return static_cast<int64_t>(Bits() % static_cast<uint64_t>(end)); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  double Unit() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  template <class List>
  auto Pick(const List& list) {
    return *(std::begin(list) + Below(static_cast<int64_t>(std::size(list))));
  }
  template <class T>
  T Pick(std::initializer_list<T> list) {
    return *(list.begin() + Below(static_cast<int64_t>(list.size())));
  }

 private:
  std::mt19937_64 engine_;
};

/// Values for the inputs of a graph. Those that are positions (of gather and the like) are valid;
/// floats have NaN, infinities, -0 and subnormals among them, integers their extremes.
std::vector<HostTensor> RandomInputs(const Graph& graph, uint64_t seed);

/// The graph, then one line for each input with its bytes.
std::string ToText(const Case& test);
/// ValueError for what is not such a text. Inputs without a line are random.
Case ParseCase(std::string_view text);

}  // namespace hammock::fuzz
