#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hammock/export.h"

/// Counters, gauges and metrics (samples with rates and percentiles) of the whole process, cheap
/// enough to be always on. Objects are found by name, made at the first use and never destroyed;
/// all of it may be used from any thread, before anything is set up and while the process exits.
///
///   static metrics::Counter& hits = metrics::GetCounter("CachedCompile");
///   hits.Add();
///   static metrics::Metric& time = metrics::GetMetric("CompileTime", metrics::Kind::kTime);
///   metrics::ScopedTimer timer(time);
///   std::cout << metrics::Report();
namespace hammock::metrics {

/// How a number is shown: `3.25`, `1.50KB`, or (from nanoseconds) `01m03s282ms217.172us`.
enum class Kind : uint8_t { kValue, kBytes, kTime };

namespace detail {

inline constexpr uint32_t kSlots = 512;

/// A thread's part of the first `kSlots` counters. Only that thread writes it, so adding needs no
/// locked instruction.
struct CounterBlock {
  std::array<std::atomic<int64_t>, kSlots> slots{};
};

/// Null until the thread's first event.
extern HAMMOCK_API constinit thread_local CounterBlock* counter_block;

}  // namespace detail

/// How often something happened.
class HAMMOCK_API Counter {
 public:
  explicit Counter(uint32_t slot) : slot_(slot) {}
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  void Add(int64_t n = 1) noexcept {
    detail::CounterBlock* block = detail::counter_block;
    if (block == nullptr || slot_ >= detail::kSlots) [[unlikely]]
      return AddSlow(n);
    std::atomic<int64_t>& slot = block->slots[slot_];
    slot.store(slot.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  /// The sum over all threads since the last reset.
  int64_t Value() const;
  void Reset();

 private:
  friend struct Registry;
  void AddSlow(int64_t n) noexcept;

  const uint32_t slot_;
  std::atomic<int64_t> shared_{0};  // from threads that ended, and from counters without a slot
  std::atomic<int64_t> base_{0};    // what a reset subtracts: only a slot's thread may write it
};

/// A level that rises and falls, and its peak: bytes in use, entries of a cache.
class HAMMOCK_API Gauge {
 public:
  explicit Gauge(Kind kind) : kind_(kind) {}
  Gauge(const Gauge&) = delete;
  Gauge& operator=(const Gauge&) = delete;

  void Add(int64_t delta) noexcept {
    Raise(value_.fetch_add(delta, std::memory_order_relaxed) + delta);
  }
  void Set(int64_t value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    Raise(value);
  }

  int64_t Value() const noexcept { return value_.load(std::memory_order_relaxed); }
  int64_t Peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  void ResetPeak() noexcept { peak_.store(Value(), std::memory_order_relaxed); }
  Kind kind() const noexcept { return kind_; }

 private:
  void Raise(int64_t value) noexcept {
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (value > peak && !peak_.compare_exchange_weak(peak, value, std::memory_order_relaxed)) {
    }
  }

  const Kind kind_;
  std::atomic<int64_t> value_{0};
  std::atomic<int64_t> peak_{0};
};

/// The numbers of a metric. Rates and percentiles are of the latest `metrics_samples` samples.
struct MetricData {
  Kind kind = Kind::kValue;
  int64_t samples = 0;
  double total = 0;
  double rate = 0;                                     ///< samples a second
  double value_rate = 0;                               ///< sum of values a second
  std::vector<std::pair<double, double>> percentiles;  ///< of `metrics_percentiles`
};

/// Values or durations (nanoseconds) of events.
class HAMMOCK_API Metric {
 public:
  explicit Metric(Kind kind);
  ~Metric();
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  void AddSample(double value);
  /// `when` is a time of std::chrono::steady_clock, whose header costs more than all of this one.
  template <class TimePoint>
  void AddSample(double value, TimePoint when) {
    static_assert(TimePoint::clock::is_steady && TimePoint::period::den == 1'000'000'000);
    AddSampleAt(value, when.time_since_epoch().count());
  }

  MetricData Data() const;
  void Reset();
  Kind kind() const noexcept { return kind_; }

 private:
  friend class ScopedTimer;
  struct Samples;
  void AddSampleAt(double value, int64_t nanoseconds);

  const Kind kind_;
  std::unique_ptr<Samples> samples_;
};

/// Adds the time from its construction to its end.
class HAMMOCK_API ScopedTimer {
 public:
  explicit ScopedTimer(Metric& metric);
  ~ScopedTimer();
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  Metric& metric_;
  const int64_t start_;  // nanoseconds of the steady clock
};

/// Find or make. A name that already has another kind is a ValueError (kDuplicateRegistration).
HAMMOCK_API Counter& GetCounter(std::string_view name);
HAMMOCK_API Gauge& GetGauge(std::string_view name, Kind kind);
HAMMOCK_API Metric& GetMetric(std::string_view name, Kind kind);

/// Names in alphabetical order, those that are zero included.
HAMMOCK_API std::vector<std::string> CounterNames();
HAMMOCK_API std::vector<std::string> GaugeNames();
HAMMOCK_API std::vector<std::string> MetricNames();

/// Nothing for an unknown name; asking does not make one.
HAMMOCK_API std::optional<int64_t> CounterValue(std::string_view name);
HAMMOCK_API std::optional<int64_t> GaugeValue(std::string_view name);
HAMMOCK_API std::optional<MetricData> MetricValue(std::string_view name);

/// All that has samples or is not zero, then what backends add.
HAMMOCK_API std::string Report();

/// Only these names, or those with a prefix (`fallback::*`). Counters of fallbacks
/// (`fallback::<op>`) are always shown, since they are what a slow program should look at first.
HAMMOCK_API std::string Report(const std::vector<std::string>& counters_and_gauges,
                               const std::vector<std::string>& metrics);

/// The same as JSON: {"counters": {name: value}, "gauges": {name: {...}}, "metrics": {name: {...}},
/// "reports": {provider: text}}. Times are in nanoseconds.
HAMMOCK_API std::string ReportJson();

/// Starts all counting anew; names, gauges' values and handles stay.
HAMMOCK_API void Reset();

/// Adds a text to reports, such as a backend's. The function may be called from any thread, and
/// once more while `RemoveReportProvider` returns. What it throws is shown as its text.
HAMMOCK_API int AddReportProvider(std::string name, std::function<std::string()> text);
HAMMOCK_API void RemoveReportProvider(int id);

/// A number as reports show it.
HAMMOCK_API std::string Repr(Kind kind, double value);

}  // namespace hammock::metrics
