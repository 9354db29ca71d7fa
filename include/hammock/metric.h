#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hammock/export.h"
#include "hammock/metrics.h"

/// Counters, gauges and metrics are declared at namespace scope by the file that counts: a part of
/// Hammock, a backend, a library of its own.
///
///   constinit const metrics::DeclaredCounter kMerged({
///       .name = "toy::KernelsMerged",
///       .doc = "Kernels that became part of another.",
///   });
///
///   metrics::Get<kMerged>().Add();
///
/// Code that counts registers the declaration when its library is loaded. From then on it is listed
/// in `metrics::Declarations()`. A backend that follows these names is part of `Activity`:
/// `<device type>::KernelsCompiled` and `<device type>::KernelRuns...` are counters,
/// `<device type>::KernelCompileTime` is a time.
namespace hammock::metrics {

struct Spec {
  std::string_view name;     ///< `owner::Name`; those of Hammock itself have no owner
  Kind kind = Kind::kValue;  ///< of a gauge or metric
  std::string_view doc;
  std::string_view old_name = {};  ///< accepted for one version, with a warning
};

/// T is Counter, Gauge or Metric.
template <class T>
struct Declared {
  using Object = T;
  constexpr explicit Declared(const Spec& given) : spec(given) {}
  Spec spec;
};

using DeclaredCounter = Declared<Counter>;
using DeclaredGauge = Declared<Gauge>;
using DeclaredMetric = Declared<Metric>;

struct Declaration {
  std::string name;
  std::string kind;  ///< counter, gauge, time, bytes or value
  std::string doc;
  std::string old_name;
};

/// By name.
HAMMOCK_API std::vector<Declaration> Declarations();

namespace detail {

HAMMOCK_API void Declare(const Spec& spec, std::string_view kind);

inline Counter& Find(const DeclaredCounter&, std::string_view name) { return GetCounter(name); }
inline Gauge& Find(const DeclaredGauge& gauge, std::string_view name) {
  return GetGauge(name, gauge.spec.kind);
}
inline Metric& Find(const DeclaredMetric& metric, std::string_view name) {
  return GetMetric(name, metric.spec.kind);
}

constexpr std::string_view KindOf(const DeclaredCounter&) { return "counter"; }
constexpr std::string_view KindOf(const DeclaredGauge&) { return "gauge"; }
constexpr std::string_view KindOf(const DeclaredMetric& metric) {
  constexpr std::string_view kNames[] = {"value", "bytes", "time"};
  return kNames[static_cast<size_t>(metric.spec.kind)];
}

/// Registers a declaration when the library that counts is loaded.
template <auto& declared>
struct [[gnu::visibility("hidden")]] DeclaredAtLoad {
  DeclaredAtLoad() { Declare(declared.spec, KindOf(declared)); }
  static inline const DeclaredAtLoad registrar;
};

}  // namespace detail

/// The object, made at the first use. It can be used at any time, also before main.
template <auto& declared>
auto& Get() {
  static_cast<void>(&detail::DeclaredAtLoad<declared>::registrar);
  static auto& object = detail::Find(declared, declared.spec.name);
  return object;
}

/// One of a family, whose declared name ends as in `fallback::<op>`: `member` instead of the part
/// from `<` on.
template <auto& declared>
auto& Get(std::string_view member) {
  static_cast<void>(&detail::DeclaredAtLoad<declared>::registrar);
  std::string_view family = declared.spec.name.substr(0, declared.spec.name.find('<'));
  return detail::Find(declared, std::string(family).append(member));
}

}  // namespace hammock::metrics
