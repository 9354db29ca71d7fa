/// Why a graph is not in the cache.

#include "runtime/diagnose/explain.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "hammock/config.h"
#include "runtime/cache/walk.h"
#include "runtime/devices/code_settings.h"
#include "runtime/diagnose/graph_diff.h"
#include "runtime/step/executor.h"

namespace hammock {

namespace {

constexpr int kMostCandidates = 64;  // of the same device, and as many of others
constexpr int64_t kLeastWork = 1 << 16;

struct Nearest {
  CompiledStepPtr step;
  int64_t similarity = 0;
  bool is_first_step = false;    // of the loop that `traced` is a later step of
  bool is_first_of_line = true;  // no candidate was compiled for the line that syncs now
};

/// Looks at candidates until the work is used up, so that explaining costs a fraction of compiling.
/// `where` is the line that syncs.
Nearest FindNearest(const std::vector<CompiledStepPtr>& candidates, const DeviceEntry& device,
                    const Graph& traced, const std::string& where) {
  Nearest nearest;
  CompiledStepPtr first_step;
  int64_t work = kLeastWork + 8 * int64_t{traced.size()};
  for (bool same_device : {true, false}) {
    int seen = 0;
    for (const CompiledStepPtr& step : candidates) {
      if ((step->device == &device) != same_device) continue;
      if (seen++ == kMostCandidates || work <= 0) break;
      work -= 1 + std::min(traced.size(), step->traced.size());
      bool here = !where.empty() && step->where == where;
      nearest.is_first_of_line &= !here;
      bool later = here && same_device && !first_step && IsLaterStep(traced, step->traced);
      if (later) first_step = step;
      int64_t similarity = Similarity(traced, step->traced);
      if (nearest.step && similarity <= nearest.similarity) continue;
      nearest.step = step;
      nearest.similarity = similarity;
    }
  }
  if (!first_step) return nearest;
  // An equal graph, under other options, explains more than one with other ops.
  bool equal =
      nearest.step->device == &device && FirstDifference(traced, nearest.step->traced).kind.empty();
  return equal ? nearest : Nearest{first_step, 0, true, false};
}

/// Equal graphs: something of the key that is not in the graph.
GraphDifference KeyDifference(const DeviceEntry& device, uint32_t settings,
                              const CompiledStep& cached) {
  if (cached.device != &device) {
    return {"device",
            fmt::format("the same graph is cached for {}, not for {}",
                        cached.device ? cached.device->name() : "no device", device.name())};
  }
  uint32_t cached_settings = SettingsIn(cached.key);
  if (cached_settings != settings) {
    return {"config",
            "the same graph was compiled under other options: " +
                DescribeChange(CodeSettingsOf(cached_settings), CodeSettingsOf(settings))};
  }
  return {"unknown", "the same graph is cached, and no difference was found"};
}

GraphDifference DifferenceFrom(const Nearest& nearest, const DeviceEntry& device, uint32_t settings,
                               const Graph& traced, const std::string& where) {
  const Graph& cached = nearest.step->traced;
  if (nearest.is_first_step) {
    return {"first step", fmt::format("the cached graph of {} nodes also makes values that are "
                                      "given to this one, as the first step of a loop does",
                                      cached.size())};
  }
  GraphDifference difference = FirstDifference(traced, cached);
  if (difference.kind.empty()) return KeyDifference(device, settings, *nearest.step);
  if (AreAlike(traced, cached, nearest.similarity)) return difference;
  if (nearest.is_first_of_line && !where.empty()) {
    return {"first graph", "no graph was compiled for this line, and no cached one is like it"};
  }
  return {"op", fmt::format("no cached graph is like it; the nearest has {} nodes", cached.size())};
}

std::string Counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

CompileMiss ExplainMiss(StepExecutor& executor, DeviceEntry& device, const Hash128& hash,
                        uint32_t settings, const Graph& traced, const std::string& where) {
  CompileMiss miss;
  miss.hash = hash;
  miss.device = device.name();
  miss.nodes = traced.size();
  miss.outputs = static_cast<int64_t>(traced.outputs().size());
  if (executor.cache.WasEvicted(hash)) {
    miss.kind = "evicted";
    miss.detail = fmt::format(
        "it was compiled before and has left the cache, which holds {} entries (option "
        "compilation_cache_size) and {} bytes (option compilation_cache_bytes)",
        config::Get<config::kCompilationCacheSize>(),
        config::Get<config::kCompilationCacheBytes>());
    return miss;
  }
  Nearest nearest = FindNearest(executor.cache.All(), device, traced, where);
  if (!nearest.step) {
    miss.kind = "first graph";
    miss.detail = "no graph is cached";
    return miss;
  }
  GraphDifference difference = DifferenceFrom(nearest, device, settings, traced, where);
  if (difference.kind == "first graph") {
    miss.kind = difference.kind;
    miss.detail = difference.detail;
    return miss;
  }
  miss.nearest = ToString(nearest.step->hash);
  miss.kind = difference.kind;
  miss.detail = difference.detail;
  if (!nearest.step->where.empty()) {
    miss.detail += fmt::format("; the cached graph was compiled at {}", nearest.step->where);
  }
  return miss;
}

CompileMiss ExplainMiss(StepExecutor& executor, DeviceEntry& device, const Hash128& hash,
                        const Graph& traced) {
  return ExplainMiss(executor, device, hash, CodeSettingsId(), traced, "");
}

std::string CompileMiss::ToText() const {
  std::string text = fmt::format("compile {} on {}: {}, {}", number, device, Counted(nodes, "node"),
                                 Counted(outputs, "output"));
  if (outputs_kept > 0) {
    text += fmt::format(" ({} only because a live handle or a pending op keeps it)", outputs_kept);
  }
  text += fmt::format(", hash {}\n  triggered by {}{}\n  why: {}: {}", hammock::ToString(hash),
                      trigger.empty() ? "an unknown caller" : trigger,
                      where.empty() ? "" : " at " + where, kind, detail);
  if (!nearest.empty()) text += "\n  nearest cached graph: " + nearest;
  if (!generalised.empty()) text += "\n  compiled " + generalised;
  return text;
}

std::string CompileMiss::ToJson() const {
  nlohmann::ordered_json json = {
      {"number", number},   {"hash", hammock::ToString(hash)},
      {"device", device},   {"trigger", trigger},
      {"where", where},     {"nodes", nodes},
      {"outputs", outputs}, {"outputs_kept", outputs_kept},
      {"kind", kind},       {"nearest", nearest},
      {"detail", detail},   {"generalised", generalised},
  };
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace hammock
