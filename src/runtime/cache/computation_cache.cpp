#include "runtime/cache/computation_cache.h"

#include <algorithm>

#include "hammock/config.h"
#include "hammock/metric.h"
#include "runtime/cache/general_step.h"

namespace hammock {

constinit config::Option<int64_t> config::kCompilationCacheBytes({
    .name = "compilation_cache_bytes",
    .default_value = 268435456,
    .doc = "Bytes that cached compilations may take; the least recently used ones leave first.",
});

constinit config::Option<int64_t> config::kCompilationCacheSize({
    .name = "compilation_cache_size",
    .default_value = 1024,
    .doc = "Number of cached compilations; 0 caches none.",
    .upstream = "torch_lazy_compilation_cache_size, torch_lazy_enable_compilation_cache",
});

namespace {

constinit const metrics::DeclaredGauge kCacheEntries({
    .name = "CacheEntries",
    .kind = metrics::Kind::kValue,
    .doc = "Compiled steps that are kept.",
});

constinit const metrics::DeclaredGauge kCacheBytes({
    .name = "CacheBytes",
    .kind = metrics::Kind::kBytes,
    .doc = "Bytes of the compiled steps that are kept.",
});

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
  return nullptr;
}

void ComputationCache::CountMiss() {
  std::lock_guard lock(mutex_);
  ++stats_.misses;
}

GeneralMatch ComputationCache::FindGeneral(uint64_t structure, std::span<const uint64_t> key) {
  std::lock_guard lock(mutex_);
  auto [first, last] = by_structure_.equal_range(structure);
  for (auto it = first; it != last; ++it) {
    const std::shared_ptr<GeneralStep>& general = (*it->second)->general;
    if (!general) continue;
    std::optional<std::vector<int64_t>> sizes = general->SizesOf(key);
    if (!sizes || !general->Covers(*sizes)) continue;
    lru_.splice(lru_.begin(), lru_, it->second);
    GeneralMatch match{general, std::move(*sizes), nullptr};
    auto instances = instances_.find(general.get());
    if (instances == instances_.end()) return match;
    auto found = instances->second.find(match.sizes);
    if (found == instances->second.end()) return match;
    ++stats_.hits;
    instance_lru_.splice(instance_lru_.begin(), instance_lru_, found->second);
    match.step = *found->second;
    return match;
  }
  return {};
}

CompiledStepPtr ComputationCache::FindByHash(const Hash128& hash) {
  std::lock_guard lock(mutex_);
  auto [first, last] = by_hash_.equal_range(hash.lo);
  for (auto it = first; it != last; ++it) {
    if ((*it->second)->hash == hash) return *it->second;
  }
  return nullptr;
}

std::vector<CompiledStepPtr> ComputationCache::FindAlike(uint64_t structure) {
  std::vector<CompiledStepPtr> alike;
  std::lock_guard lock(mutex_);
  auto [first, last] = by_structure_.equal_range(structure);
  for (auto it = first; it != last; ++it) alike.push_back(*it->second);
  auto newer = [](const CompiledStepPtr& a, const CompiledStepPtr& b) {
    return a->number > b->number;
  };
  std::ranges::sort(alike, newer);
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
  if (step->structure != 0) by_structure_.emplace(step->structure, lru_.begin());
  stats_.bytes += step->bytes;
  latest_ = step;
  evicted_.erase(step->hash.lo);
  Shrink();
  Publish();
  return step;
}

CompiledStepPtr ComputationCache::AddInstance(CompiledStepPtr step) {
  std::lock_guard lock(mutex_);
  if (config::Get<config::kCompilationCacheSize>() == 0) return step;
  if (auto of_general = instances_.find(step->general.get()); of_general != instances_.end()) {
    auto known = of_general->second.find(step->sizes);
    if (known != of_general->second.end()) return *known->second;
  }
  // Note [Instances in turn]
  constexpr uint64_t kPromoted = 16;
  const bool last = MakeRoomForInstance(step->bytes) && ++instances_added_ % kPromoted != 0;
  auto at = instance_lru_.insert(last ? instance_lru_.end() : instance_lru_.begin(), step);
  instances_[step->general.get()].emplace(step->sizes, at);
  instance_bytes_ += step->bytes;
  stats_.bytes += step->bytes;
  Shrink();
  Publish();
  return step;
}

/// Whether others had to go.
bool ComputationCache::MakeRoomForInstance(int64_t bytes) {
  const size_t before = instance_lru_.size();
  const int64_t max_bytes = config::Get<config::kCompilationCacheBytes>();
  while (!instance_lru_.empty() &&
         (instance_bytes_ + bytes > max_bytes / 8 || stats_.bytes + bytes > max_bytes)) {
    EraseInstance(std::prev(instance_lru_.end()));
  }
  return instance_lru_.size() < before;
}

void ComputationCache::EraseInstance(Lru::iterator at) {
  auto of_general = instances_.find((*at)->general.get());
  of_general->second.erase((*at)->sizes);
  if (of_general->second.empty()) instances_.erase(of_general);
  instance_bytes_ -= (*at)->bytes;
  stats_.bytes -= (*at)->bytes;
  instance_lru_.erase(at);
}

void ComputationCache::EraseFrom(Index& index, uint64_t key, Lru::iterator at) {
  auto [first, last] = index.equal_range(key);
  for (auto it = first; it != last; ++it) {
    if (it->second != at) continue;
    index.erase(it);
    return;
  }
}

void ComputationCache::EraseAt(Lru::iterator at) {
  EraseFrom(by_hash_, (*at)->hash.lo, at);
  EraseFrom(by_structure_, (*at)->structure, at);
  stats_.bytes -= (*at)->bytes;
  if (latest_ == *at) latest_ = nullptr;
  std::shared_ptr<GeneralStep> general = (*at)->general;
  lru_.erase(at);
  if (general) EraseInstancesOf(*general);
}

/// The instances that no entry leads to any more.
void ComputationCache::EraseInstancesOf(const GeneralStep& general) {
  auto [first, last] = by_structure_.equal_range(general.structure);
  for (auto it = first; it != last; ++it) {
    if ((*it->second)->general.get() == &general) return;
  }
  auto found = instances_.find(&general);
  if (found == instances_.end()) return;
  for (const auto& [sizes, at] : found->second) {
    instance_bytes_ -= (*at)->bytes;
    stats_.bytes -= (*at)->bytes;
    instance_lru_.erase(at);
  }
  instances_.erase(found);
}

bool ComputationCache::Has(const Hash128& hash) {
  if (FindByHash(hash)) return true;
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(instance_lru_,
                             [&](const CompiledStepPtr& step) { return step->hash == hash; });
}

// The newest entry stays even if it alone is over a bound: it is about to run. Pinned ones stay as
// long as somebody holds them.
void ComputationCache::Shrink() {
  auto max_entries =
      static_cast<size_t>(std::max<int64_t>(1, config::Get<config::kCompilationCacheSize>()));
  int64_t max_bytes = config::Get<config::kCompilationCacheBytes>();
  // The newest instance stays as well.
  while (instance_lru_.size() > 1 &&
         (instance_bytes_ > max_bytes / 8 || stats_.bytes > max_bytes)) {
    EraseInstance(std::prev(instance_lru_.end()));
  }
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
  metrics::Get<kCacheEntries>().Set(static_cast<int64_t>(lru_.size()));
  metrics::Get<kCacheBytes>().Set(stats_.bytes);
}

void ComputationCache::EraseInstancesIf(const std::function<bool(const CompiledStep&)>& wanted,
                                        bool* found) {
  for (auto it = instance_lru_.begin(); it != instance_lru_.end();) {
    auto next = std::next(it);
    if (wanted(**it)) {
      EraseInstance(it);
      if (found) *found = true;
    }
    it = next;
  }
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
  EraseInstancesIf([&](const CompiledStep& step) { return step.hash == hash; }, &found);
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
  EraseInstancesIf([&](const CompiledStep& step) { return step.device == device; });
  Publish();
}

void ComputationCache::Clear() {
  std::lock_guard lock(mutex_);
  lru_.clear();
  by_hash_.clear();
  by_structure_.clear();
  instance_lru_.clear();
  instances_.clear();
  instance_bytes_ = 0;
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
