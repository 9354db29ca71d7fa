// What the runtime counts and times: everything of upstream's list and what is missing there.

#include "hammock/metric.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "hammock/config.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

constinit const metrics::DeclaredCounter kMerged({
    .name = "demo::KernelsMerged",
    .doc = "Kernels that became part of another.",
    .old_name = "DemoMerged",
});
constinit const metrics::DeclaredMetric kMergeTime({
    .name = "demo::MergeTime",
    .kind = metrics::Kind::kTime,
    .doc = "Time of merging.",
    .old_name = "DemoTime",
});
constinit const metrics::DeclaredGauge kOpen({
    .name = "demo::Open",
    .kind = metrics::Kind::kBytes,
    .doc = "Bytes of open files.",
    .old_name = "DemoOpen",
});
constinit const metrics::DeclaredCounter kVisits({.name = "demo::visits::<op>", .doc = "Visits."});
constinit const metrics::DeclaredCounter kKernelsCompiled({
    .name = "demo::KernelsCompiled",
    .doc = "Kernels.",
});
constinit const metrics::DeclaredCounter kKernelRuns({.name = "demo::KernelRuns", .doc = "Runs."});
constinit const metrics::DeclaredMetric kKernelCompileTime({
    .name = "demo::KernelCompileTime",
    .kind = metrics::Kind::kTime,
    .doc = "Time.",
});

using namespace hammock::testing;

class RuntimeMetrics : public Runtime {
 protected:
  static double Total(const char* name) {
    auto data = metrics::MetricValue(name);
    return data ? data->total : 0;
  }
  static int64_t Samples(const char* name) {
    auto data = metrics::MetricValue(name);
    return data ? data->samples : 0;
  }
};

TEST_F(RuntimeMetrics, StepsAreCountedAndTimed) {
  const char* timers[] = {"CompileTime", "LowerTime", "ExecuteTime", "TransferToDeviceTime",
                          "TransferFromDeviceTime"};
  std::map<std::string, int64_t> samples;
  std::map<std::string, double> totals;
  for (const char* name : timers) {
    samples[name] = Samples(name);
    totals[name] = Total(name);
  }
  double up = Total("TransferToDeviceBytes"), down = Total("TransferFromDeviceBytes");
  int64_t compiles = Compiles(), hits = Hits(), steps = CounterOf("MarkStep");
  int64_t created = CounterOf("CreateLtcTensor"), destroyed = CounterOf("DestroyLtcTensor");
  {
    for (int i = 0; i < 3; ++i) {
      Tensor x = OnHost({1, 2, 3, 4});
      Tensor y = x.exp() + 1.0f;
      mark_step(true);
      y.host();
    }
  }
  EXPECT_EQ(CounterOf("MarkStep"), steps + 3);
  EXPECT_EQ(Compiles(), compiles + 1);
  EXPECT_GE(Hits(), hits + 2);
  EXPECT_GE(CounterOf("CreateLtcTensor"), created + 6);
  EXPECT_EQ(CounterOf("CreateLtcTensor") - created, CounterOf("DestroyLtcTensor") - destroyed)
      << "all of them are gone";
  EXPECT_EQ(Total("TransferToDeviceBytes") - up, 3 * 16);
  EXPECT_EQ(Total("TransferFromDeviceBytes") - down, 3 * 16);
  EXPECT_EQ(Samples("CompileTime"), samples["CompileTime"] + 1);
  EXPECT_EQ(Samples("LowerTime"), samples["LowerTime"] + 1);
  EXPECT_EQ(Samples("ExecuteTime"), samples["ExecuteTime"] + 3);
  for (const char* name : timers) {
    EXPECT_GT(Total(name), totals[name]) << name;
    EXPECT_LT(Total(name) - totals[name], 60e9) << name << " is in nanoseconds";
  }
  EXPECT_GT(Samples("TensorsGraphSize"), 0);
}

TEST(DeclaredMetrics, AreListedAndCounted) {
  metrics::Get<kMerged>().Add(2);
  metrics::Get<kVisits>("mul").Add(3);
  EXPECT_EQ(metrics::CounterValue("demo::KernelsMerged"), 2);
  EXPECT_EQ(metrics::CounterValue("demo::visits::mul"), 3);
  std::map<std::string, std::string> kinds;
  for (const metrics::Declaration& each : metrics::Declarations()) kinds[each.name] = each.kind;
  EXPECT_EQ(kinds["demo::KernelsMerged"], "counter");
  EXPECT_EQ(kinds["demo::MergeTime"], "time");
  EXPECT_EQ(kinds["demo::Open"], "gauge");
  EXPECT_EQ(kinds["demo::visits::<op>"], "counter");
  EXPECT_EQ(kinds["cpu::KernelsCompiled"], "counter");
}

TEST(DeclaredMetrics, HaveTheirOldNamesForOneVersion) {
  metrics::Get<kMerged>().Reset();
  metrics::Get<kMerged>().Add(7);
  metrics::Get<kMergeTime>().AddSample(5);
  metrics::Get<kOpen>().Set(11);
  LogCapture log;
  EXPECT_EQ(metrics::CounterValue("DemoMerged"), 7);
  EXPECT_EQ(&metrics::GetCounter("DemoMerged"), &metrics::Get<kMerged>());
  EXPECT_EQ(log.text(),
            "warn: metrics: 'DemoMerged' is now called 'demo::KernelsMerged'; the next version "
            "does not know the old name\n");
  EXPECT_EQ(metrics::MetricValue("DemoTime")->total, 5);
  EXPECT_EQ(&metrics::GetMetric("DemoTime", metrics::Kind::kTime), &metrics::Get<kMergeTime>());
  EXPECT_EQ(metrics::GaugeValue("DemoOpen"), 11);
  EXPECT_NE(metrics::Report({"DemoMerged"}, {}).find("Counter: demo::KernelsMerged\n  Value: 7"),
            std::string::npos);
}

TEST(DeclaredMetrics, RefuseASecondMeaningOfAName) {
  EXPECT_NO_THROW(metrics::detail::Declare(kMerged.spec, "counter"));
  EXPECT_THROW(metrics::detail::Declare(kMerged.spec, "time"), ValueError);
}

TEST(DeclaredMetrics, OfAnyBackendAreInActivity) {
  Activity activity;
  metrics::Get<kKernelsCompiled>().Add(2);
  metrics::Get<kKernelRuns>().Add(3);
  metrics::Get<kKernelCompileTime>().AddSample(4e9);
  ActivityTotals totals = activity.totals();
  EXPECT_EQ(totals.kernels_compiled, 2);
  EXPECT_EQ(totals.kernels_run, 3);
  EXPECT_DOUBLE_EQ(totals.kernel_compiling_seconds, 4);
}

TEST_F(RuntimeMetrics, TheCacheHasGauges) {
  Lazy().ClearComputationCache();
  EXPECT_EQ(metrics::GaugeValue("CacheEntries"), 0);
  EXPECT_EQ(metrics::GaugeValue("CacheBytes"), 0);
  (OnHost({1, 2}) + 1.0f).host();
  CacheStats stats = Lazy().GetCacheStats();
  EXPECT_EQ(metrics::GaugeValue("CacheEntries"), stats.entries);
  EXPECT_EQ(metrics::GaugeValue("CacheBytes"), stats.bytes);
  EXPECT_GT(stats.bytes, 0);
}

TEST_F(RuntimeMetrics, MemoryIsReportedPerDevice) {
  Tensor x = ones({1000}, f32, "reference") + 1.0f;
  sync_multi({x});
  std::string report = metrics::Report();
  EXPECT_NE(report.find("reference"), std::string::npos) << report;
  auto json = nlohmann::json::parse(metrics::ReportJson());
  EXPECT_TRUE(json["counters"].contains("UncachedCompile"));
  EXPECT_TRUE(json["metrics"].contains("ExecuteTime"));
  EXPECT_TRUE(json["gauges"].contains("CacheEntries"));
  EXPECT_TRUE(json["reports"].contains("reference")) << json["reports"].dump();
  std::string text = json["reports"]["reference"];
  EXPECT_NE(text.find("memory"), std::string::npos) << text;
}

TEST_F(RuntimeMetrics, FallbacksAreCountedPerOp) {
  HostBackend& backend = *new HostBackend("metered");
  Registered registered(backend);
  config::Override forced("force_fallback", "cos");
  int64_t before = CounterOf("fallback::cos");
  double bytes = Total("FallbackTransferBytes");
  (ones({4}, f32, "metered").cos()).host();
  EXPECT_EQ(CounterOf("fallback::cos"), before + 1);
  EXPECT_GE(Total("FallbackTransferBytes"), bytes + 16);
  EXPECT_NE(metrics::Report({"MarkStep"}, {}).find("fallback::cos"), std::string::npos);
}

TEST_F(RuntimeMetrics, FailuresAndTrimsAreCounted) {
  int64_t failed = CounterOf("FailedSteps");
  Tensor bad = gather(OnDevice({1, 2}), 0, Indices({9}));
  EXPECT_THROW(bad.host(), Error);
  EXPECT_EQ(CounterOf("FailedSteps"), failed + 1);
  int64_t shapes = CounterOf("DataDependentShape");
  nonzero(OnDevice({0, 1})).host();
  EXPECT_GT(CounterOf("DataDependentShape"), shapes);
}

TEST_F(RuntimeMetrics, TracedOpsAreCounted) {
  Tensor x = OnDevice({1, 2});
  mark_step();
  int64_t before = CounterOf("TracedOps");
  Tensor y = x;
  for (int i = 0; i < 7; ++i) y = y + x;
  y.host();
  EXPECT_EQ(CounterOf("TracedOps"), before + 7) << "as of the last sync";
  y = y + x;
  mark_step();
  EXPECT_EQ(CounterOf("TracedOps"), before + 8);
  std::thread([&] { Tensor z = x + x; }).join();
  EXPECT_EQ(CounterOf("TracedOps"), before + 9);
  EagerMode eager;
  y = y + x;
  EXPECT_EQ(CounterOf("TracedOps"), before + 10);
}

TEST_F(RuntimeMetrics, ScalarsOnADeviceAreReused) {
  Tensor x = OnDevice({1, 2});
  (x * 0.123f).host();
  int64_t misses = CounterOf("DeviceDataCacheMiss");
  for (int i = 0; i < 5; ++i) (x * 0.123f).host();
  EXPECT_EQ(CounterOf("DeviceDataCacheMiss"), misses);
  config::Override none("device_data_cache_size", "0");
  (x * 0.123f).host();
  EXPECT_GT(CounterOf("DeviceDataCacheMiss"), misses);
}

TEST_F(RuntimeMetrics, ResetStartsAnew) {
  (OnHost({1, 2}) + 1.0f).host();
  EXPECT_GT(Samples("ExecuteTime"), 0);
  metrics::Reset();
  EXPECT_EQ(Samples("ExecuteTime"), 0);
  EXPECT_EQ(Compiles(), 0);
  (OnHost({1, 2, 3}) + 1.0f).host();
  EXPECT_EQ(Compiles(), 1);
}

}  // namespace
}  // namespace hammock
