/// Totals of what happened, from the metrics that are counted anyway.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/profile_file.h"
#include "hammock/device.h"
#include "hammock/metrics.h"
#include "hammock/profile.h"
#include "runtime/devices/backend_registry.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

int64_t Count(std::string_view name) { return metrics::CounterValue(name).value_or(0); }

double Seconds(std::string_view name) {
  auto data = metrics::MetricValue(name);
  return data ? data->total / 1e9 : 0;
}

/// Whether it is a metric of some backend, as in hammock/metric.h: `<device type>::<metric>...`.
bool IsOfBackend(std::string_view name, std::string_view metric) {
  size_t owner = name.find("::");
  return owner != std::string_view::npos && name.substr(owner + 2).starts_with(metric);
}

void AddBackends(ActivityTotals& now) {
  for (const std::string& name : metrics::CounterNames()) {
    if (name.starts_with("fallback::")) now.fallbacks += Count(name);
    if (IsOfBackend(name, "KernelsCompiled")) now.kernels_compiled += Count(name);
    if (IsOfBackend(name, "KernelRuns")) now.kernels_run += Count(name);
  }
  for (const std::string& name : metrics::MetricNames()) {
    if (IsOfBackend(name, "KernelCompileTime")) now.kernel_compiling_seconds += Seconds(name);
  }
}

ActivityTotals TotalsNow() {
  CountTraced(Context());  // what this thread has recorded since its last sync
  ActivityTotals now;
  now.steps = Count("MarkStep");
  now.graphs_compiled = Count("UncachedCompile");
  now.cache_hits = Count("CachedCompile") + Count("ReplayedGraphs");
  now.ops_traced = Count("TracedOps");
  AddBackends(now);
  for (const DeviceEntry* entry : AllDevices()) {
    now.peak_bytes = std::max(now.peak_bytes, GetMemoryInfo(Device::FromId(entry->id)).peak);
  }
  now.tracing_seconds = Seconds("RecordTime");
  now.compiling_seconds = Seconds("LowerTime") + Seconds("CompileTime");
  now.running_seconds = Seconds("ExecuteTime");
  return now;
}

std::string TimeText(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.0f} us", seconds * 1e6);
}

}  // namespace

Activity::Activity() : start_ns_(profile::Now()) {
  start_ = TotalsNow();
  profile::detail::wanted.fetch_add(2, std::memory_order_relaxed);
}

Activity::~Activity() { profile::detail::wanted.fetch_sub(2, std::memory_order_relaxed); }

ActivityTotals Activity::totals() const {
  ActivityTotals now = TotalsNow();
  now.steps -= start_.steps;
  now.graphs_compiled -= start_.graphs_compiled;
  now.cache_hits -= start_.cache_hits;
  now.ops_traced -= start_.ops_traced;
  now.kernels_compiled -= start_.kernels_compiled;
  now.kernels_run -= start_.kernels_run;
  now.fallbacks -= start_.fallbacks;
  now.tracing_seconds -= start_.tracing_seconds;
  now.compiling_seconds -= start_.compiling_seconds;
  now.kernel_compiling_seconds -= start_.kernel_compiling_seconds;
  now.running_seconds -= start_.running_seconds;
  now.seconds = static_cast<double>(profile::Now() - start_ns_) / 1e9;
  return now;
}

std::string ActivityTotals::ToText() const {
  std::string text;
  auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<17} {}\n", name, value);
  };
  row("graphs compiled", std::to_string(graphs_compiled));
  row("cache hits", std::to_string(cache_hits));
  row("ops traced", std::to_string(ops_traced));
  row("kernels", fmt::format("{} compiled, {} runs", kernels_compiled, kernels_run));
  row("fallbacks", std::to_string(fallbacks));
  row("peak memory", metrics::Repr(metrics::Kind::kBytes, static_cast<double>(peak_bytes)));
  row("tracing", TimeText(tracing_seconds));
  row("compiling", fmt::format("{}, and {} of kernels in the background",
                               TimeText(compiling_seconds), TimeText(kernel_compiling_seconds)));
  row("running", TimeText(running_seconds));
  row("in all", TimeText(seconds));
  return text;
}

std::string ActivityTotals::ToJson() const {
  return nlohmann::ordered_json{{"steps", steps},
                                {"graphs_compiled", graphs_compiled},
                                {"cache_hits", cache_hits},
                                {"ops_traced", ops_traced},
                                {"kernels_compiled", kernels_compiled},
                                {"kernels_run", kernels_run},
                                {"fallbacks", fallbacks},
                                {"peak_bytes", peak_bytes},
                                {"seconds", seconds},
                                {"tracing_seconds", tracing_seconds},
                                {"compiling_seconds", compiling_seconds},
                                {"kernel_compiling_seconds", kernel_compiling_seconds},
                                {"running_seconds", running_seconds}}
      .dump();
}

}  // namespace hammock
