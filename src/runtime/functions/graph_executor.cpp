/// LazyGraphExecutor's calls that only look at the computation cache.

#include "runtime/cache/general_step.h"
#include "runtime/step/executor.h"

namespace hammock {

CacheStats LazyGraphExecutor::GetCacheStats() { return Executor().cache.Stats(); }

bool LazyGraphExecutor::IsCached(const Hash128& hash) { return Executor().cache.Has(hash); }

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

std::vector<GraphInfo> LazyGraphExecutor::GetGraphs() {
  std::vector<GraphInfo> graphs;
  for (const CompiledStepPtr& step : Executor().cache.All()) {
    GraphInfo info;
    info.hash = step->hash;
    info.device = step->device->name();
    info.where = step->where;
    info.nodes = step->traced.size();
    info.executions = step->executions.load();
    info.execute_ns = step->execute_ns.load();
    if (step->general && step->general->compiled_as == step->number) {
      info.executions += step->general->executions.load();
      info.execute_ns += step->general->execute_ns.load();
    }
    info.compile_ns = step->compile_ns;
    info.argument_bytes = step->argument_bytes;
    info.result_bytes = step->result_bytes;
    info.cache_bytes = step->bytes;
    info.segments = static_cast<int64_t>(step->segments.size());
    for (const CompiledSegment& segment : step->segments)
      info.fallback_segments += segment.fallback;
    info.generalised = step->general != nullptr;
    graphs.push_back(std::move(info));
  }
  return graphs;
}

}  // namespace hammock
