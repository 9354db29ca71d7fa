#pragma once
/// ByRange: what was made for ranges of sizes.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace hammock::compiler {

/// `Made` has Covers(sizes) and bytes(). Thread-safe.
template <class Made>
class ByRange {
 public:
  using Maker = std::function<std::shared_ptr<const Made>()>;

  /// The entry that covers `sizes`, else the one that `make` makes for them; null where it returns
  /// null. `make` is not called again near sizes for which it returned null, and after some
  /// failures not at all.
  std::shared_ptr<const Made> Find(const std::vector<int64_t>& sizes, const Maker& make) {
    constexpr size_t kMostFailures = 6;
    constexpr size_t kMostMade = 8;
    std::lock_guard lock(mutex_);
    for (const auto& made : made_) {
      if (made->Covers(sizes)) return made;
    }
    auto is_near = [&](const std::vector<int64_t>& failed) { return AreNear(failed, sizes); };
    if (failed_.size() == kMostFailures || std::ranges::any_of(failed_, is_near)) return nullptr;
    std::shared_ptr<const Made> made = make();
    if (!made) {
      failed_.push_back(sizes);
      return nullptr;
    }
    if (made_.size() == kMostMade) made_.erase(made_.begin());
    made_.push_back(made);
    return made;
  }

  void Add(std::shared_ptr<const Made> made) {
    std::lock_guard lock(mutex_);
    made_.push_back(std::move(made));
  }
  std::vector<std::shared_ptr<const Made>> all() const {
    std::lock_guard lock(mutex_);
    return made_;
  }

  int64_t bytes() const {
    std::lock_guard lock(mutex_);
    int64_t bytes = 0;
    for (const auto& made : made_) bytes += made->bytes();
    return bytes;
  }

 private:
  static bool AreNear(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    return std::ranges::equal(
        a, b, [](int64_t x, int64_t y) { return std::abs(x - y) <= std::max(x, y) / 8; });
  }

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Made>> made_;
  std::vector<std::vector<int64_t>> failed_;  // sizes for which nothing could be made
};

}  // namespace hammock::compiler
