#include "hammock/metrics.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/metrics_registry.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "hammock/config.h"

namespace hammock {
namespace {

/// Nothing if the text is not a list of numbers in (0,1).
std::optional<std::vector<double>> ParsePercentiles(std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    size_t end = text.find(':');
    std::string_view item = text.substr(0, end);
    double number = 0;
    auto [rest, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    if (error != std::errc() || rest != item.data() + item.size()) return std::nullopt;
    if (!(number > 0 && number < 1)) return std::nullopt;
    numbers.push_back(number);
    if (end == std::string_view::npos) return numbers;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::string> CheckPercentiles(std::string_view value) {
  if (ParsePercentiles(value)) return std::nullopt;
  return "numbers above 0 and below 1, separated by colons";
}

}  // namespace

constinit config::Option<std::string> config::kMetricsPercentiles({
    .name = "metrics_percentiles",
    .default_value = "0.01:0.05:0.1:0.2:0.5:0.8:0.9:0.95:0.99",
    .doc = "Percentiles in reports, each above 0 and below 1, separated by colons.",
    .check = CheckPercentiles,
    .upstream = "torch_lazy_metrics_percentiles",
});

constinit config::Option<int64_t> config::kMetricsSamples({
    .name = "metrics_samples",
    .default_value = 1024,
    .doc = "Latest samples that a metric keeps for rates and percentiles.",
    .min = 1,
    .upstream = "torch_lazy_metrics_samples",
});

}  // namespace hammock

namespace hammock::metrics {

constinit thread_local detail::CounterBlock* detail::counter_block = nullptr;

namespace {

/// Ends a thread's part of the counters. Events after that, in destructors of other thread-local
/// objects, go to the shared part.
struct ThreadExit {
  ~ThreadExit() { GetRegistry().RetireThread(); }
};

constinit thread_local bool thread_ended = false;

}  // namespace

Registry& GetRegistry() {
  static auto& registry = []() -> Registry& {
    // A thread that does not exist in the child of a fork would never unlock it there.
    pthread_atfork([] { GetRegistry().mutex.lock(); }, [] { GetRegistry().mutex.unlock(); },
                   [] { GetRegistry().mutex.unlock(); });
    return NeverDestroyed<Registry>();
  }();
  return registry;
}

void Registry::AddThread() {
  auto block = std::make_unique<detail::CounterBlock>();
  static thread_local ThreadExit exit;
  std::lock_guard lock(mutex);
  blocks.push_back(std::move(block));
  detail::counter_block = blocks.back().get();
}

void Registry::RetireThread() {
  std::lock_guard lock(mutex);
  thread_ended = true;
  detail::CounterBlock* mine = std::exchange(detail::counter_block, nullptr);
  for (auto& [name, counter] : counters) {
    if (counter->slot_ >= detail::kSlots) continue;
    counter->shared_.fetch_add(mine->slots[counter->slot_].load(std::memory_order_relaxed),
                               std::memory_order_relaxed);
  }
  std::erase_if(blocks, [&](const auto& block) { return block.get() == mine; });
}

int64_t Registry::Sum(const Counter& counter) const {
  int64_t sum = counter.shared_.load(std::memory_order_relaxed);
  if (counter.slot_ >= detail::kSlots) return sum;
  for (const auto& block : blocks) {
    sum += block->slots[counter.slot_].load(std::memory_order_relaxed);
  }
  return sum;
}

int64_t Registry::Value(const Counter& counter) const {
  return Sum(counter) - counter.base_.load(std::memory_order_relaxed);
}

void Registry::Reset(Counter& counter) {
  counter.base_.store(Sum(counter), std::memory_order_relaxed);
}

void Counter::AddSlow(int64_t n) noexcept {
  try {
    if (slot_ < detail::kSlots && !thread_ended) {
      GetRegistry().AddThread();
      return Add(n);
    }
  } catch (const std::bad_alloc&) {  // then it counts, only slower
  }
  shared_.fetch_add(n, std::memory_order_relaxed);
}

int64_t Counter::Value() const {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  return registry.Value(*this);
}

void Counter::Reset() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  registry.Reset(*this);
}

namespace {

int64_t Now() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

struct Metric::Samples {
  struct Sample {
    int64_t when;  // nanoseconds of the steady clock
    double value;
  };

  /// Keeps the latest `size` samples, oldest first, when the option changes.
  void Resize(size_t size) {
    std::rotate(ring.begin(), ring.begin() + next, ring.end());
    if (ring.size() > size) ring.erase(ring.begin(), ring.end() - size);
    capacity = size;
    next = 0;
  }

  mutable std::mutex mutex;
  int64_t count = 0;
  double total = 0;
  size_t capacity = 0;
  size_t next = 0;  // the oldest one, once the ring is full
  std::vector<Sample> ring;
};

Metric::Metric(Kind kind) : kind_(kind), samples_(std::make_unique<Samples>()) {}
Metric::~Metric() = default;

void Metric::AddSample(double value) { AddSampleAt(value, Now()); }

void Metric::AddSampleAt(double value, int64_t when) {
  auto capacity = static_cast<size_t>(config::Get<config::kMetricsSamples>());
  Samples& s = *samples_;
  std::lock_guard lock(s.mutex);
  ++s.count;
  s.total += value;
  if (s.capacity != capacity) s.Resize(capacity);
  if (s.ring.size() < capacity) {
    s.ring.push_back({when, value});
    return;
  }
  s.ring[s.next] = {when, value};
  s.next = s.next + 1 == capacity ? 0 : s.next + 1;
}

MetricData Metric::Data() const {
  MetricData data{.kind = kind_, .percentiles = {}};
  std::vector<Samples::Sample> latest;
  {
    std::lock_guard lock(samples_->mutex);
    data.samples = samples_->count;
    data.total = samples_->total;
    latest = samples_->ring;
  }
  if (latest.empty()) return data;

  auto by_time = [](const auto& a, const auto& b) { return a.when < b.when; };
  auto [first, last] = std::minmax_element(latest.begin(), latest.end(), by_time);
  double seconds = static_cast<double>(last->when - first->when) / 1e9;
  double sum = 0;
  std::vector<double> values;
  for (const auto& sample : latest) {
    sum += sample.value;
    values.push_back(sample.value);
  }
  if (seconds > 0) {
    data.rate = static_cast<double>(latest.size()) / seconds;
    data.value_rate = sum / seconds;
  }

  std::sort(values.begin(), values.end());
  auto percentiles = ParsePercentiles(config::Get<config::kMetricsPercentiles>());
  HAMMOCK_CHECK(percentiles);
  for (double p : *percentiles) {
    auto index = static_cast<size_t>(p * static_cast<double>(values.size()));
    data.percentiles.emplace_back(p, values[std::min(index, values.size() - 1)]);
  }
  return data;
}

void Metric::Reset() {
  std::lock_guard lock(samples_->mutex);
  samples_->count = 0;
  samples_->total = 0;
  samples_->next = 0;
  samples_->ring.clear();
}

ScopedTimer::ScopedTimer(Metric& metric) : metric_(metric), start_(Now()) {}

ScopedTimer::~ScopedTimer() {
  int64_t now = Now();
  metric_.AddSampleAt(static_cast<double>(now - start_), now);
}

namespace {

template <class T>
T& WithKind(T& object, std::string_view name, Kind kind) {
  if (object.kind() == kind) return object;
  Throw(ErrorCode::kDuplicateRegistration, "metrics: {} exists with another kind", name);
}

template <class T>
std::vector<std::string> Names(const ByName<T>& objects) {
  std::lock_guard lock(GetRegistry().mutex);
  std::vector<std::string> names;
  for (const auto& [name, object] : objects) names.push_back(name);
  return names;
}

/// Null: there is none.
template <class T>
T* Find(const ByName<T>& objects, std::string_view name) {
  std::lock_guard lock(GetRegistry().mutex);
  auto found = objects.find(name);
  return found == objects.end() ? nullptr : found->second.get();
}

template <class T>
T* FindByAnyName(const ByName<T>& objects, std::string_view name) {
  if (T* object = Find(objects, name)) return object;
  return Find(objects, PresentName(name));
}

/// Finds by name or makes by `make`, which is called with the mutex held.
template <class T, class Make>
T& FindOrMake(ByName<T>& objects, std::string_view name, Make make) {
  if (T* object = Find(objects, name)) return *object;
  std::string present = PresentName(name);
  std::lock_guard lock(GetRegistry().mutex);
  auto found = objects.find(present);
  if (found != objects.end()) return *found->second;
  return *objects.emplace(std::move(present), make()).first->second;
}

}  // namespace

Counter& GetCounter(std::string_view name) {
  auto& counters = GetRegistry().counters;
  return FindOrMake(counters, name, [&] {
    return std::make_unique<Counter>(static_cast<uint32_t>(counters.size()));
  });
}

Gauge& GetGauge(std::string_view name, Kind kind) {
  auto make = [&] { return std::make_unique<Gauge>(kind); };
  return WithKind(FindOrMake(GetRegistry().gauges, name, make), name, kind);
}

Metric& GetMetric(std::string_view name, Kind kind) {
  auto make = [&] { return std::make_unique<Metric>(kind); };
  return WithKind(FindOrMake(GetRegistry().metrics, name, make), name, kind);
}

std::vector<std::string> CounterNames() { return Names(GetRegistry().counters); }
std::vector<std::string> GaugeNames() { return Names(GetRegistry().gauges); }
std::vector<std::string> MetricNames() { return Names(GetRegistry().metrics); }

std::optional<int64_t> CounterValue(std::string_view name) {
  Counter* counter = FindByAnyName(GetRegistry().counters, name);
  if (!counter) return std::nullopt;
  return counter->Value();
}

std::optional<int64_t> GaugeValue(std::string_view name) {
  Gauge* gauge = FindByAnyName(GetRegistry().gauges, name);
  if (!gauge) return std::nullopt;
  return gauge->Value();
}

std::optional<MetricData> MetricValue(std::string_view name) {
  Metric* metric = FindByAnyName(GetRegistry().metrics, name);
  if (!metric) return std::nullopt;
  return metric->Data();
}

void Reset() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  for (auto& [name, counter] : registry.counters) registry.Reset(*counter);
  for (auto& [name, gauge] : registry.gauges) gauge->ResetPeak();
  for (auto& [name, metric] : registry.metrics) metric->Reset();
}

int AddReportProvider(std::string name, std::function<std::string()> text) {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  int id = registry.next_provider++;
  registry.providers.emplace(id, Provider{std::move(name), std::move(text)});
  return id;
}

void RemoveReportProvider(int id) {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  registry.providers.erase(id);
}

}  // namespace hammock::metrics
