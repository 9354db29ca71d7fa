#include "lazy/computation_cache.h"

#include <algorithm>

#include "hammock/config.h"
#include "hammock/metrics.h"

namespace hammock {

namespace {

int64_t NextNumber() {
  static constinit std::atomic<int64_t> latest{0};
  return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

CompiledStep::CompiledStep() : number(NextNumber()) {}

CompiledStepPtr ComputationCache::Find(const Hash128& hash, std::span<const uint64_t> key) {
  std::lock_guard lock(mutex_);
  auto [first, last] = by_hash_.equal_range(hash.lo);
  for (auto it = first; it != last; ++it) {
    const CompiledStepPtr& step = *it->second;
    if (step->hash != hash) continue;
    if (!std::ranges::equal(step->key, key)) {
      ++stats_.collisions;
      continue;
    }
    ++stats_.hits;
    lru_.splice(lru_.begin(), lru_, it->second);
    return step;
  }
  ++stats_.misses;
  return nullptr;
}

CompiledStepPtr ComputationCache::FindByHash(const Hash128& hash) {
  std::lock_guard lock(mutex_);
  auto [first, last] = by_hash_.equal_range(hash.lo);
  for (auto it = first; it != last; ++it) {
    if ((*it->second)->hash == hash) return *it->second;
  }
  return nullptr;
}

std::vector<CompiledStepPtr> ComputationCache::FindAlike(const Hash128& skeleton, uint64_t scope) {
  constexpr size_t kMost = 16;
  std::vector<CompiledStepPtr> alike;
  std::lock_guard lock(mutex_);
  // A scan, since it is done before a compilation only.
  for (const CompiledStepPtr& step : lru_) {
    if (step->skeleton != skeleton || step->key.empty() || step->key[0] != scope) continue;
    alike.push_back(step);
    if (alike.size() == kMost) break;
  }
  return alike;
}

CompiledStepPtr ComputationCache::Add(CompiledStepPtr step) {
  std::lock_guard lock(mutex_);
  auto [first, last] = by_hash_.equal_range(step->hash.lo);
  for (auto it = first; it != last; ++it) {
    if ((*it->second)->hash == step->hash && (*it->second)->key == step->key) return *it->second;
  }
  if (config::Get<config::kCompilationCacheSize>() == 0) return step;
  lru_.push_front(step);
  by_hash_.emplace(step->hash.lo, lru_.begin());
  stats_.bytes += step->bytes;
  latest_ = step;
  evicted_.erase(step->hash.lo);
  Shrink();
  Publish();
  return step;
}

void ComputationCache::EraseAt(Lru::iterator at) {
  auto [first, last] = by_hash_.equal_range((*at)->hash.lo);
  for (auto it = first; it != last; ++it) {
    if (it->second == at) {
      by_hash_.erase(it);
      break;
    }
  }
  stats_.bytes -= (*at)->bytes;
  if (latest_ == *at) latest_ = nullptr;
  lru_.erase(at);
}

// The newest entry stays even if it alone is over a bound: it is about to run. Pinned ones stay as
// long as somebody holds them.
void ComputationCache::Shrink() {
  auto max_entries =
      static_cast<size_t>(std::max<int64_t>(1, config::Get<config::kCompilationCacheSize>()));
  int64_t max_bytes = config::Get<config::kCompilationCacheBytes>();
  auto over = [&] { return lru_.size() > max_entries || stats_.bytes > max_bytes; };
  for (auto at = lru_.end(); over() && at != std::next(lru_.begin());) {
    --at;
    if ((*at)->pins.load() > 0) continue;
    if (evicted_.size() > 4096) evicted_.clear();
    evicted_[(*at)->hash.lo] = (*at)->hash;
    auto next = std::next(at);
    EraseAt(at);
    at = next;
    ++stats_.evictions;
  }
}

void ComputationCache::Publish() {
  static metrics::Gauge& entries = metrics::GetGauge("CacheEntries", metrics::Kind::kValue);
  static metrics::Gauge& bytes = metrics::GetGauge("CacheBytes", metrics::Kind::kBytes);
  entries.Set(static_cast<int64_t>(lru_.size()));
  bytes.Set(stats_.bytes);
}

bool ComputationCache::Erase(const Hash128& hash) {
  std::lock_guard lock(mutex_);
  bool found = false;
  for (auto it = lru_.begin(); it != lru_.end();) {
    auto next = std::next(it);
    if ((*it)->hash == hash) {
      EraseAt(it);
      found = true;
    }
    it = next;
  }
  Publish();
  return found;
}

void ComputationCache::EraseDevice(const DeviceEntry* device) {
  std::lock_guard lock(mutex_);
  for (auto it = lru_.begin(); it != lru_.end();) {
    auto next = std::next(it);
    bool uses = false;
    for (const CompiledSegment& segment : (*it)->segments) uses |= segment.device == device;
    if (uses || (*it)->device == device) EraseAt(it);
    it = next;
  }
  Publish();
}

void ComputationCache::Clear() {
  std::lock_guard lock(mutex_);
  lru_.clear();
  by_hash_.clear();
  latest_ = nullptr;
  evicted_.clear();
  stats_.bytes = 0;
  Publish();
}

CompiledStepPtr ComputationCache::Latest() {
  std::lock_guard lock(mutex_);
  return latest_;
}

std::vector<CompiledStepPtr> ComputationCache::All() {
  std::lock_guard lock(mutex_);
  return {lru_.begin(), lru_.end()};
}

bool ComputationCache::WasEvicted(const Hash128& hash) {
  std::lock_guard lock(mutex_);
  auto found = evicted_.find(hash.lo);
  return found != evicted_.end() && found->second == hash;
}

CacheStats ComputationCache::Stats() {
  std::lock_guard lock(mutex_);
  CacheStats stats = stats_;
  stats.entries = static_cast<int64_t>(lru_.size());
  return stats;
}

}  // namespace hammock
