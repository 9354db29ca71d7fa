// What an event costs: counters, gauges and metrics are always on, and options are read on hot
// paths.
#include <benchmark/benchmark.h>

#include <chrono>

#include "hammock/config.h"
#include "hammock/metrics.h"

namespace hammock::metrics {
namespace {

void CounterAdd(benchmark::State& state) {
  Counter& counter = GetCounter("bench.counter");
  for (auto _ : state) {
    counter.Add();
    benchmark::ClobberMemory();
  }
}
BENCHMARK(CounterAdd)->Threads(1)->Threads(2);

void CounterValueOfOneThread(benchmark::State& state) {
  Counter& counter = GetCounter("bench.counter");
  for (auto _ : state) benchmark::DoNotOptimize(counter.Value());
}
BENCHMARK(CounterValueOfOneThread);

void GaugeAdd(benchmark::State& state) {
  Gauge& gauge = GetGauge("bench.gauge", Kind::kBytes);
  for (auto _ : state) {
    gauge.Add(64);
    gauge.Add(-64);
  }
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(GaugeAdd)->Threads(1)->Threads(2);

void MetricAddSample(benchmark::State& state) {
  Metric& metric = GetMetric("bench.metric", Kind::kValue);
  for (auto _ : state) metric.AddSample(1);
}
BENCHMARK(MetricAddSample)->Threads(1)->Threads(2);

void ScopedTime(benchmark::State& state) {
  Metric& metric = GetMetric("bench.time", Kind::kTime);
  for (auto _ : state) ScopedTimer timer(metric);
}
BENCHMARK(ScopedTime);

void ClockRead(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(std::chrono::steady_clock::now());
}
BENCHMARK(ClockRead);

void ConfigGet(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(config::Get<config::kEager>());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ConfigGet);

}  // namespace
}  // namespace hammock::metrics
