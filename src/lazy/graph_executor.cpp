/// LazyGraphExecutor's calls that only look at the computation cache.

#include "lazy/executor.h"

namespace hammock {

CacheStats LazyGraphExecutor::GetCacheStats() { return Executor().cache.Stats(); }

bool LazyGraphExecutor::IsCached(const Hash128& hash) {
  return Executor().cache.FindByHash(hash) != nullptr;
}

void LazyGraphExecutor::ClearComputationCache() { Executor().cache.Clear(); }

bool LazyGraphExecutor::RemoveFromComputationCache(const Hash128& hash) {
  return Executor().cache.Erase(hash);
}

std::optional<Hash128> LazyGraphExecutor::GetLatestHash() {
  CompiledStepPtr latest = Executor().cache.Latest();
  if (!latest) return std::nullopt;
  return latest->hash;
}

std::vector<CompileMiss> LazyGraphExecutor::GetMisses() { return Executor().Misses(); }

}  // namespace hammock
