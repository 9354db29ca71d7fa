#include "what_happened.h"

#include <hammock/hammock.h>

#include <cstdio>

using namespace hammock;

namespace {

long Count(const char* counter) {
  return static_cast<long>(metrics::CounterValue(counter).value_or(0));
}

double Seconds(const char* metric) {
  auto data = metrics::MetricValue(metric);
  return data ? data->total * 1e-9 : 0;
}

long Fallbacks() {
  long count = 0;
  for (const std::string& name : metrics::CounterNames()) {
    if (name.starts_with("fallback::")) count += Count(name.c_str());
  }
  return count;
}

}  // namespace

metrics::Metric& TraceTime() {
  static metrics::Metric& time = metrics::GetMetric("demo.TraceTime", metrics::Kind::kTime);
  return time;
}

WhatHappened::WhatHappened(double seconds)
    : seconds_(seconds),
      tracing_(Seconds("demo.TraceTime")),
      compiling_(Seconds("CompileTime")),
      running_(Seconds("ExecuteTime")),
      ops_(Count("TracedOps")),
      compiled_(Count("UncachedCompile")),
      hits_(Count("CachedCompile")),
      kernels_(Count("cpu::Kernels")),
      fallbacks_(Fallbacks()),
      peak_megabytes_(static_cast<double>(GetMemoryInfo(Device()).peak) / 1e6) {}

void WhatHappened::Show(double times_eager) const {
  std::printf("\nWhat happened on %s in %.0f s\n", Device().to_string().c_str(), seconds_);
  std::printf("  ops traced       %9ld   %6.2f s to record them, while the device worked\n", ops_,
              tracing_);
  std::printf("  graphs compiled  %9ld   %6.2f s; their kernels are compiled in the background\n",
              compiled_, compiling_);
  std::printf("  cache hits       %9ld   %6.2f s running\n", hits_, running_);
  std::printf("  kernels          %9ld   fused from the ops of these graphs\n", kernels_);
  std::printf("  fallbacks        %9ld   ops that the device left to another\n", fallbacks_);
  std::printf("  peak memory      %9.0f   MB\n", peak_megabytes_);
  std::printf("  speed            %9.1f   times that of eager mode, op by op\n", times_eager);
}
