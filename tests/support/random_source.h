#pragma once
/// Random choices that are the same everywhere.

#include <cstdint>
#include <vector>

namespace hammock::testing {

/// SplitMix64: the same numbers everywhere.
class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// In [low, high].
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int n) { return In(1, n) == 1; }
  template <class T>
  const T& Pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(In(0, static_cast<int64_t>(items.size()) - 1))];
  }

 private:
  uint64_t state_;
};

}  // namespace hammock::testing
