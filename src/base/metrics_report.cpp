#include <fmt/format.h>

#include <array>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/metrics_registry.h"
#include "hammock/metrics.h"

namespace hammock::metrics {
namespace {

std::string ReprBytes(double value) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  for (; unit + 1 < kUnits.size() && std::abs(value) >= 1024; ++unit) value /= 1024;
  return fmt::format("{:.2f}{}", value, kUnits[unit]);
}

/// Whole parts from the largest that is not zero: 01m03s282ms217.172us.
std::string ReprTime(double nanoseconds) {
  struct Part {
    std::string_view suffix;
    int64_t size;
    int width;
  };
  constexpr std::array<Part, 5> kParts = {{{"d", 86'400'000'000'000, 2},
                                           {"h", 3'600'000'000'000, 2},
                                           {"m", 60'000'000'000, 2},
                                           {"s", 1'000'000'000, 2},
                                           {"ms", 1'000'000, 3}}};
  std::string text = nanoseconds < 0 ? "-" : "";
  int64_t rest = std::llround(std::abs(nanoseconds));
  bool started = false;
  for (const Part& part : kParts) {
    started = started || rest >= part.size;
    if (!started) continue;
    fmt::format_to(std::back_inserter(text), "{:0{}}{}", rest / part.size, part.width, part.suffix);
    rest %= part.size;
  }
  fmt::format_to(std::back_inserter(text), "{:03}.{:03}us", rest / 1000, rest % 1000);
  return text;
}

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kValue:
      return "value";
    case Kind::kBytes:
      return "bytes";
    case Kind::kTime:
      return "time";
  }
  return "";
}

bool Matches(std::string_view name, const std::vector<std::string>& patterns) {
  for (std::string_view pattern : patterns) {
    bool is_prefix = pattern.ends_with('*');
    if (is_prefix) pattern.remove_suffix(1);
    if (is_prefix ? name.starts_with(pattern) : name == pattern) return true;
  }
  return false;
}

std::vector<std::string> PresentNames(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) names.push_back(PresentName(pattern));
  return names;
}

/// A copy of the values that a report shows, so that it is formatted without the lock.
struct Snapshot {
  std::vector<std::pair<std::string, int64_t>> counters;
  std::vector<std::pair<std::string, const Gauge*>> gauges;
  std::vector<std::pair<std::string, const Metric*>> metrics;
  std::vector<Provider> providers;
};

Snapshot TakeSnapshot() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  Snapshot snapshot;
  for (const auto& [name, counter] : registry.counters) {
    if (int64_t value = registry.Value(*counter)) snapshot.counters.emplace_back(name, value);
  }
  for (const auto& [name, gauge] : registry.gauges) {
    if (gauge->Value() || gauge->Peak()) snapshot.gauges.emplace_back(name, gauge.get());
  }
  for (const auto& [name, metric] : registry.metrics) {
    snapshot.metrics.emplace_back(name, metric.get());
  }
  for (const auto& [id, provider] : registry.providers) snapshot.providers.push_back(provider);
  return snapshot;
}

std::string TextOf(const Provider& provider) {
  try {
    return provider.text();
  } catch (const std::exception& error) {
    return fmt::format("{}: no report: {}\n", provider.name, error.what());
  }
}

void AppendMetric(std::string& text, std::string_view name, const MetricData& data) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "Metric: {}\n  TotalSamples: {}\n  Accumulator: {}\n", name, data.samples,
                 Repr(data.kind, data.total));
  if (data.rate > 0) {
    fmt::format_to(out, "  ValueRate: {} / second\n  Rate: {:.2f} / second\n",
                   Repr(data.kind, data.value_rate), data.rate);
  }
  text += "  Percentiles: ";
  for (size_t i = 0; i < data.percentiles.size(); ++i) {
    auto [p, value] = data.percentiles[i];
    fmt::format_to(out, "{}{:g}%={}", i ? "; " : "", p * 100, Repr(data.kind, value));
  }
  text += "\n";
}

using Filter = std::function<bool(std::string_view)>;

std::string Report(const Filter& shows_counter, const Filter& shows_metric,
                   const Filter& shows_section) {
  Snapshot snapshot = TakeSnapshot();
  std::string text;
  auto out = std::back_inserter(text);
  for (const auto& [name, metric] : snapshot.metrics) {
    if (!shows_metric(name)) continue;
    MetricData data = metric->Data();
    if (data.samples > 0) AppendMetric(text, name, data);
  }
  for (const auto& [name, gauge] : snapshot.gauges) {
    if (!shows_counter(name)) continue;
    fmt::format_to(out, "Gauge: {}\n  Value: {}\n  Peak: {}\n", name,
                   Repr(gauge->kind(), static_cast<double>(gauge->Value())),
                   Repr(gauge->kind(), static_cast<double>(gauge->Peak())));
  }
  for (const auto& [name, value] : snapshot.counters) {
    if (shows_counter(name)) fmt::format_to(out, "Counter: {}\n  Value: {}\n", name, value);
  }
  for (const Provider& provider : snapshot.providers) {
    if (shows_section(provider.name)) text += TextOf(provider);
  }
  return text;
}

}  // namespace

std::string Repr(Kind kind, double value) {
  switch (kind) {
    case Kind::kValue:
      return fmt::format("{:.2f}", value);
    case Kind::kBytes:
      return ReprBytes(value);
    case Kind::kTime:
      return ReprTime(value);
  }
  return "";
}

std::string Report() {
  auto all = [](std::string_view) { return true; };
  return Report(all, all, all);
}

std::string Report(const std::vector<std::string>& counters_and_gauges,
                   const std::vector<std::string>& metrics) {
  const std::vector<std::string> wanted = PresentNames(counters_and_gauges);
  const std::vector<std::string> wanted_metrics = PresentNames(metrics);
  return Report(
      [&](std::string_view name) {
        return name.starts_with("fallback::") || Matches(name, wanted);
      },
      [&](std::string_view name) { return Matches(name, wanted_metrics); },
      [&](std::string_view name) { return Matches(name, wanted); });
}

std::string ReportJson() {
  Snapshot snapshot = TakeSnapshot();
  using Json = nlohmann::ordered_json;
  Json json = {{"counters", Json::object()},
               {"gauges", Json::object()},
               {"metrics", Json::object()},
               {"reports", Json::object()}};
  for (const auto& [name, value] : snapshot.counters) json["counters"][name] = value;
  for (const auto& [name, gauge] : snapshot.gauges) {
    json["gauges"][name] = {
        {"kind", KindName(gauge->kind())}, {"value", gauge->Value()}, {"peak", gauge->Peak()}};
  }
  for (const auto& [name, metric] : snapshot.metrics) {
    MetricData data = metric->Data();
    if (data.samples == 0) continue;
    Json percentiles = Json::object();
    for (auto [p, value] : data.percentiles) percentiles[fmt::format("{:g}", p)] = value;
    json["metrics"][name] = {{"kind", KindName(data.kind)},   {"samples", data.samples},
                             {"total", data.total},           {"rate", data.rate},
                             {"value_rate", data.value_rate}, {"percentiles", percentiles}};
  }
  for (const Provider& provider : snapshot.providers) {
    json["reports"][provider.name] = TextOf(provider);
  }
  // A provider's text may hold any bytes; a report must not fail because of them.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hammock::metrics
