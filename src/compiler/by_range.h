#pragma once
/// ByRange: what was made for ranges of sizes.

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

  /// What covers `sizes`, else what `make` makes for them; null where that makes nothing. What
  /// fails twice is not tried again.
  std::shared_ptr<const Made> Find(const std::vector<int64_t>& sizes, const Maker& make) {
    constexpr int kMostFailures = 2;
    constexpr size_t kMostMade = 8;
    std::lock_guard lock(mutex_);
    for (const auto& made : made_) {
      if (made->Covers(sizes)) return made;
    }
    if (failures_ == kMostFailures) return nullptr;
    std::shared_ptr<const Made> made = make();
    if (!made) {
      ++failures_;
      return nullptr;
    }
    if (made_.size() == kMostMade) made_.erase(made_.begin());
    made_.push_back(made);
    return made;
  }

  int64_t bytes() const {
    std::lock_guard lock(mutex_);
    int64_t bytes = 0;
    for (const auto& made : made_) bytes += made->bytes();
    return bytes;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Made>> made_;
  int failures_ = 0;
};

}  // namespace hammock::compiler
