#include "hammock/metrics.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/metrics_declarations.h"
#include "base/metrics_registry.h"
#include "hammock/config.h"
#include "hammock/error.h"
#include "support/source_path.h"

namespace hammock::metrics {
namespace {

using std::chrono::milliseconds;
using TimePoint = std::chrono::steady_clock::time_point;

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Counters live as long as the process; each test starts from zero, in any order and repetition.
struct FromZero : ::testing::Test {
  void SetUp() override { Reset(); }
};
using CounterTest = FromZero;
using GaugeTest = FromZero;
using MetricTest = FromZero;
using ScopedTimerTest = FromZero;
using ReportTest = FromZero;

Gauge& ZeroGauge(std::string_view name, Kind kind) {
  Gauge& gauge = GetGauge(name, kind);
  gauge.Set(0);
  gauge.ResetPeak();
  return gauge;
}

TEST_F(CounterTest, CountsAndResets) {
  Counter& counter = GetCounter("test.counts");
  counter.Add();
  counter.Add(41);
  EXPECT_EQ(counter.Value(), 42);
  EXPECT_EQ(&GetCounter("test.counts"), &counter);
  EXPECT_EQ(CounterValue("test.counts"), 42);
  counter.Reset();
  EXPECT_EQ(counter.Value(), 0);
  counter.Add(3);
  EXPECT_EQ(counter.Value(), 3);
}

TEST_F(CounterTest, UnknownNameHasNoValueAndIsNotMade) {
  EXPECT_EQ(CounterValue("test.unknown"), std::nullopt);
  EXPECT_EQ(GaugeValue("test.unknown"), std::nullopt);
  EXPECT_EQ(MetricValue("test.unknown"), std::nullopt);
  auto names = CounterNames();
  EXPECT_EQ(std::count(names.begin(), names.end(), "test.unknown"), 0);
}

TEST_F(CounterTest, LosesNothingOfRunningAndEndedThreads) {
  Counter& counter = GetCounter("test.threads");
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    int64_t last = 0;
    while (!stop) {
      int64_t now = counter.Value();
      EXPECT_GE(now, last) << "also while threads end";
      last = now;
    }
  });
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) counter.Add();
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(counter.Value(), 4000 * (round + 1));
  }
  stop = true;
  reader.join();
}

TEST_F(CounterTest, ResetWhileOthersCountLosesOnlyWhatWasBefore) {
  Counter& counter = GetCounter("test.reset_race");
  std::atomic<int64_t> added{0};
  std::thread writer([&] {
    for (int i = 0; i < 20000; ++i) {
      counter.Add();
      added.fetch_add(1);
    }
  });
  while (added < 100) std::this_thread::yield();
  int64_t before = added;
  counter.Reset();
  int64_t after = added;
  writer.join();
  // The writer counts before it adds to `added`, so it may be one ahead at each look.
  EXPECT_LE(counter.Value(), 20000 - before);
  EXPECT_GE(counter.Value(), 20000 - after - 1);
}

TEST_F(CounterTest, CountsInDestructorsOfThreadLocalObjects) {
  struct AtExit {
    ~AtExit() { GetCounter("test.thread_exit").Add(); }
  };
  auto blocks = [] {
    std::lock_guard lock(GetRegistry().mutex);
    return GetRegistry().blocks.size();
  };
  size_t blocks_before = blocks();
  std::thread([] {
    static thread_local AtExit first;  // destroyed after the thread's part of the counters
    (void)&first;
    GetCounter("test.thread_exit").Add();
    static thread_local AtExit second;  // destroyed before it
    (void)&second;
  }).join();
  EXPECT_EQ(CounterValue("test.thread_exit"), 3);
  EXPECT_EQ(blocks(), blocks_before) << "a thread that ended leaves nothing behind";
}

TEST_F(CounterTest, TheChildOfAForkIsNeverLockedOut) {
  std::atomic<bool> done{false};
  std::jthread other([&] {
    while (!done) CounterValue("a name that is looked up");
  });
  for (int i = 0; i < 300; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(10);
      GetCounter("of a child").Add();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "it hung";
  }
  done = true;
}

TEST_F(CounterTest, ThereMayBeMoreThanSlots) {
  for (uint32_t i = 0; i < detail::kSlots + 10; ++i) {
    GetCounter("test.many." + std::to_string(i)).Add(i + 1);
  }
  std::thread([] { GetCounter("test.many." + std::to_string(detail::kSlots + 5)).Add(); }).join();
  EXPECT_EQ(CounterValue("test.many.0"), 1);
  EXPECT_EQ(CounterValue("test.many." + std::to_string(detail::kSlots + 5)), detail::kSlots + 7);
  Counter& last = GetCounter("test.many." + std::to_string(detail::kSlots + 9));
  last.Reset();
  EXPECT_EQ(last.Value(), 0);
}

TEST_F(GaugeTest, KnowsItsPeak) {
  Gauge& gauge = ZeroGauge("test.gauge", Kind::kBytes);
  gauge.Add(1000);
  gauge.Add(536);
  gauge.Add(-1024);
  EXPECT_EQ(gauge.Value(), 512);
  EXPECT_EQ(gauge.Peak(), 1536);
  EXPECT_TRUE(Has(Report(), "Gauge: test.gauge\n  Value: 512.00B\n  Peak: 1.50KB\n")) << Report();
  gauge.ResetPeak();
  EXPECT_EQ(gauge.Peak(), 512);
  gauge.Set(7);
  EXPECT_EQ(GaugeValue("test.gauge"), 7);
}

TEST_F(GaugeTest, PeakIsRightWithManyThreads) {
  Gauge& gauge = ZeroGauge("test.gauge_threads", Kind::kValue);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) gauge.Add(1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(gauge.Value(), 4000);
  EXPECT_EQ(gauge.Peak(), 4000);
}

TEST_F(MetricTest, HasTotalRatesAndPercentiles) {
  Metric metric(Kind::kValue);
  TimePoint start;
  for (int i = 100; i >= 1; --i) metric.AddSample(i, start + milliseconds(20 * (100 - i)));
  MetricData data = metric.Data();
  EXPECT_EQ(data.samples, 100);
  EXPECT_EQ(data.total, 5050);
  EXPECT_NEAR(data.rate, 100 / 1.98, 1e-9);
  EXPECT_NEAR(data.value_rate, 5050 / 1.98, 1e-9);
  ASSERT_EQ(data.percentiles.size(), 9u);
  EXPECT_EQ(data.percentiles[0], std::make_pair(0.01, 2.0));
  EXPECT_EQ(data.percentiles[4], std::make_pair(0.5, 51.0));
  EXPECT_EQ(data.percentiles[8], std::make_pair(0.99, 100.0));
}

TEST_F(MetricTest, PercentilesAreOfTheLatestSamples) {
  config::Override size("metrics_samples", "4");
  config::Override percentiles("metrics_percentiles", "0.1:0.9");
  Metric metric(Kind::kValue);
  TimePoint when;
  auto add = [&](double value) { metric.AddSample(value, when += milliseconds(1)); };
  auto range = [&] {
    MetricData data = metric.Data();
    return std::make_pair(data.percentiles.front().second, data.percentiles.back().second);
  };
  for (int i = 1; i <= 6; ++i) add(i);
  EXPECT_EQ(range(), std::make_pair(3.0, 6.0));
  EXPECT_EQ(metric.Data().total, 21) << "the total is of all samples";
  {
    config::Override smaller("metrics_samples", "2");
    add(7);
    EXPECT_EQ(range(), std::make_pair(6.0, 7.0));
  }
  for (int i = 8; i <= 9; ++i) add(i);
  EXPECT_EQ(range(), std::make_pair(6.0, 9.0)) << "grows again from what was kept";
}

TEST_F(MetricTest, ReportHasUpstreamsForm) {
  config::Override percentiles("metrics_percentiles", "0.01:0.5:0.995");
  Metric& metric = GetMetric("test.form", Kind::kTime);
  TimePoint start;
  metric.AddSample(1'500, start);
  metric.AddSample(63'282'217'172, start + std::chrono::seconds(2));
  EXPECT_EQ(Report({}, {"test.form"}),
            "Metric: test.form\n"
            "  TotalSamples: 2\n"
            "  Accumulator: 01m03s282ms218.672us\n"
            "  ValueRate: 31s641ms109.336us / second\n"
            "  Rate: 1.00 / second\n"
            "  Percentiles: 1%=001.500us; 50%=01m03s282ms217.172us; 99.5%=01m03s282ms217.172us\n");
}

TEST_F(MetricTest, OneKindPerName) {
  Metric& metric = GetMetric("test.kind", Kind::kBytes);
  EXPECT_EQ(&GetMetric("test.kind", Kind::kBytes), &metric);
  EXPECT_THROW(GetMetric("test.kind", Kind::kTime), ValueError);
  EXPECT_THROW(GetGauge("test.gauge_kind", Kind::kTime);
               GetGauge("test.gauge_kind", Kind::kValue), ValueError);
}

TEST_F(MetricTest, TakesSamplesFromManyThreads) {
  Metric& metric = GetMetric("test.metric_threads", Kind::kValue);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        metric.AddSample(1);
        if (i % 500 == 0) Report();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(metric.Data().samples, 8000);
  EXPECT_EQ(metric.Data().total, 8000);
}

TEST_F(ScopedTimerTest, AddsItsLife) {
  Metric& metric = GetMetric("test.timer", Kind::kTime);
  {
    ScopedTimer timer(metric);
    std::this_thread::sleep_for(milliseconds(3));
  }
  MetricData data = metric.Data();
  EXPECT_EQ(data.samples, 1);
  EXPECT_GE(data.total, 3e6);
  EXPECT_LT(data.total, 3e9);
}

TEST(Repr, ShowsTimeBytesAndValues) {
  EXPECT_EQ(Repr(Kind::kTime, 63'282'217'172), "01m03s282ms217.172us");
  EXPECT_EQ(Repr(Kind::kTime, 0), "000.000us");
  EXPECT_EQ(Repr(Kind::kTime, 999'999.7), "001ms000.000us");
  EXPECT_EQ(Repr(Kind::kTime, 1.7 * 60e9), "01m42s000ms000.000us") << "parts are not rounded up";
  EXPECT_EQ(Repr(Kind::kTime, 90'061'001'002'003), "01d01h01m01s001ms002.003us");
  EXPECT_EQ(Repr(Kind::kBytes, 1536), "1.50KB");
  EXPECT_EQ(Repr(Kind::kBytes, 1023), "1023.00B");
  EXPECT_EQ(Repr(Kind::kBytes, -3.0 * 1024 * 1024), "-3.00MB");
  EXPECT_EQ(Repr(Kind::kValue, 3.14159), "3.14");
}

TEST_F(ReportTest, ShowsWhatIsNotZero) {
  GetCounter("test.report.a").Add(5);
  GetCounter("test.report.zero");
  GetMetric("test.report.empty", Kind::kTime);
  std::string text = Report();
  EXPECT_TRUE(Has(text, "Counter: test.report.a\n  Value: 5\n")) << text;
  EXPECT_FALSE(Has(text, "test.report.zero"));
  EXPECT_FALSE(Has(text, "test.report.empty"));
}

TEST_F(ReportTest, FilterTakesNamesAndPrefixesAndAlwaysShowsFallbacks) {
  GetCounter("test.filter.a").Add();
  GetCounter("test.filter.b").Add();
  GetCounter("fallback::test_op").Add();
  std::string one = Report({"test.filter.a"}, {});
  EXPECT_TRUE(Has(one, "test.filter.a") && !Has(one, "test.filter.b")) << one;
  EXPECT_TRUE(Has(one, "fallback::test_op")) << one;
  std::string both = Report({"test.filter.*"}, {});
  EXPECT_TRUE(Has(both, "test.filter.a") && Has(both, "test.filter.b")) << both;
  EXPECT_FALSE(Has(Report({"test.filter"}, {}), "test.filter.a"));
  int section = AddReportProvider("test.section", [] { return std::string("of a backend\n"); });
  EXPECT_FALSE(Has(Report({"test.filter.*"}, {}), "of a backend"));
  EXPECT_TRUE(Has(Report({"test.section"}, {}), "of a backend"));
  EXPECT_TRUE(Has(Report(), "of a backend"));
  RemoveReportProvider(section);
}

TEST_F(ReportTest, ProvidersAddTheirText) {
  int good = AddReportProvider("good", [] { return std::string("good says hello\n"); });
  int bad = AddReportProvider("bad", []() -> std::string { throw std::runtime_error("broken"); });
  std::string text = Report();
  EXPECT_TRUE(Has(text, "good says hello\nbad: no report: broken\n")) << text;
  auto json = nlohmann::json::parse(ReportJson());
  EXPECT_EQ(json["reports"]["good"], "good says hello\n");
  RemoveReportProvider(good);
  RemoveReportProvider(bad);
  EXPECT_FALSE(Has(Report(), "good says hello"));
}

TEST_F(ReportTest, ProviderMayUseMetrics) {
  int id = AddReportProvider("nested", [] {
    GetCounter("test.nested").Add();
    return std::to_string(CounterNames().size()) + "\n";
  });
  Report();
  RemoveReportProvider(id);
  EXPECT_EQ(CounterValue("test.nested"), 1);
}

TEST_F(ReportTest, JsonHasTheSameNumbers) {
  GetCounter("test.json.counter").Add(7);
  ZeroGauge("test.json.gauge", Kind::kBytes).Add(64);
  Metric& metric = GetMetric("test.json.metric", Kind::kTime);
  metric.AddSample(10, TimePoint());
  metric.AddSample(30, TimePoint() + std::chrono::seconds(1));
  int id = AddReportProvider("bytes", [] { return std::string("\xff\xfe"); });
  auto json = nlohmann::json::parse(ReportJson());
  RemoveReportProvider(id);
  EXPECT_EQ(json["counters"]["test.json.counter"], 7);
  EXPECT_EQ(json["gauges"]["test.json.gauge"]["peak"], 64);
  auto& data = json["metrics"]["test.json.metric"];
  EXPECT_EQ(data["kind"], "time");
  EXPECT_EQ(data["samples"], 2);
  EXPECT_EQ(data["total"], 40);
  EXPECT_EQ(data["value_rate"], 40);
  EXPECT_EQ(data["percentiles"]["0.5"], 30);
}

TEST(Reset, KeepsNamesAndHandles) {
  Counter& counter = GetCounter("test.reset");
  Metric& metric = GetMetric("test.reset", Kind::kValue);
  Gauge& gauge = ZeroGauge("test.reset", Kind::kValue);
  counter.Add(2);
  metric.AddSample(2);
  gauge.Add(9);
  gauge.Add(-4);
  Reset();
  EXPECT_EQ(CounterValue("test.reset"), 0);
  EXPECT_EQ(metric.Data().samples, 0);
  EXPECT_EQ(gauge.Value(), 5) << "what is in use stays in use";
  EXPECT_EQ(gauge.Peak(), 5);
  EXPECT_FALSE(Has(Report(), "Counter: test.reset\n"));
  counter.Add();
  EXPECT_EQ(CounterValue("test.reset"), 1);
}

// Constructed before main and destroyed after it.
struct EarlyAndLate {
  EarlyAndLate() {
    GetCounter("test.before_main").Add();
    value_before_main = CounterValue("test.before_main").value_or(-1);
  }
  ~EarlyAndLate() { GetCounter("test.before_main").Add(); }

  int64_t value_before_main;
} early_and_late;

TEST_F(CounterTest, WorksBeforeMain) { EXPECT_EQ(early_and_late.value_before_main, 1); }

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Metrics, DocumentIsFresh) {
  std::string path = testing::SourcePath("docs/metrics.md");
  if (std::getenv("UPDATE_DOCS")) std::ofstream(path) << DescribeMarkdown();
  EXPECT_EQ(ReadText(path), DescribeMarkdown()) << "run base_tests with UPDATE_DOCS=1";
}

/// Names that files count without declaring them would be missing in the document.
TEST(Metrics, SourcesCountOnlyWhatTheyDeclare) {
  const std::regex by_name("\\bGet(?:Counter|Gauge|Metric)\\(");
  const std::regex declared("\\.name = \"([^\"]+)\",\\s+(?:\\.kind = [^,]+,\\s+)?\\.doc");
  const std::string text = DescribeMarkdown();
  int found = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(testing::SourcePath("src"))) {
    const std::string path = entry.path();
    if (entry.path().extension() != ".cpp" || path.find("/base/metrics") != path.npos) continue;
    std::string source = ReadText(path);
    EXPECT_FALSE(std::regex_search(source, by_name)) << path << " counts without a declaration";
    if (!Has(source, "constinit const metrics::Declared")) continue;
    for (std::sregex_iterator it(source.begin(), source.end(), declared), end; it != end; ++it) {
      ++found;
      EXPECT_TRUE(Has(text, "| `" + (*it)[1].str() + "` |")) << (*it)[1] << " of " << path;
    }
  }
  EXPECT_GT(found, 50);
}

TEST(Metrics, CoreNamesNoBackend) {
  for (const char* folder : {"src/base", "src/runtime"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(testing::SourcePath(folder))) {
      if (entry.path().extension() != ".cpp") continue;
      std::string source = ReadText(entry.path());
      EXPECT_FALSE(std::regex_search(source, std::regex("\"(cpu|cuda|reference)(::\\w*)?\"")))
          << entry.path();
    }
  }
}

}  // namespace
}  // namespace hammock::metrics
