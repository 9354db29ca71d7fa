#include "base/metrics_declarations.h"

#include <fmt/format.h>

#include <iterator>

#include "base/log.h"
#include "base/metrics_registry.h"
#include "base/throw.h"

namespace hammock::metrics {

void detail::Declare(const Spec& spec, std::string_view kind) {
  Declaration declaration = {std::string(spec.name), std::string(kind), std::string(spec.doc),
                             std::string(spec.old_name)};
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  if (!spec.old_name.empty()) registry.renamed.emplace(spec.old_name, spec.name);
  // A library that is loaded twice declares the same again.
  auto [at, is_new] = registry.declarations.emplace(spec.name, declaration);
  if (is_new || (at->second.kind == kind && at->second.doc == spec.doc)) return;
  Throw(ErrorCode::kDuplicateRegistration,
        "metrics: '{}' is declared already; a library begins the names of its metrics with its own",
        spec.name);
}

std::vector<Declaration> Declarations() {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mutex);
  std::vector<Declaration> all;
  for (const auto& [name, declaration] : registry.declarations) all.push_back(declaration);
  return all;
}

namespace {

/// The part of a family's name before the part that varies: `fallback::` of `fallback::<op>`.
std::string_view FixedPart(std::string_view name) { return name.substr(0, name.find('<')); }

/// The present name of a metric that was renamed, alone or with its family; else empty.
std::string Renamed(const Registry& registry, std::string_view name) {
  for (const auto& [old_name, new_name] : registry.renamed) {
    const std::string_view fixed = FixedPart(old_name);
    const bool is_family = fixed.size() < old_name.size();
    if (is_family ? !name.starts_with(fixed) : name != old_name) continue;
    return std::string(FixedPart(new_name)) + std::string(name.substr(fixed.size()));
  }
  return "";
}

}  // namespace

std::string PresentName(std::string_view name) {
  std::string present;
  {
    Registry& registry = GetRegistry();
    std::lock_guard lock(registry.mutex);
    present = Renamed(registry, name);
    if (present.empty()) return std::string(name);
  }
  LogOnce("metrics: " + std::string(name), LogLevel::kWarn,
          "metrics: '{}' is now called '{}'; the next version does not know the old name", name,
          present);
  return present;
}

std::string DescribeMarkdown() {
  std::string text =
      "# Metrics\n"
      "Generated from the declarations in the files that count (`hammock/metric.h`); a test keeps "
      "it fresh.\n\n"
      "Counting is always on. `metrics::Report()` and `metrics::ReportJson()` show all of it, "
      "`metrics::CounterValue(name)`,\n`GaugeValue` and `MetricValue` one; `metrics::Reset()` "
      "starts anew. [design/metrics.md](design/metrics.md) says what counting costs.\n\n"
      "A counter is a number of events, a gauge a level with its peak. A metric (time, bytes, "
      "value) keeps count, sum, rate and\npercentiles of its samples. Old names are accepted for "
      "one version, with a warning.\n\n"
      "| name | kind | meaning | old name |\n|---|---|---|---|\n";
  for (const Declaration& row : Declarations()) {
    std::string old_name = row.old_name.empty() ? "" : '`' + row.old_name + '`';
    fmt::format_to(std::back_inserter(text), "| `{}` | {} | {} | {} |\n", row.name, row.kind,
                   row.doc, old_name);
  }
  return text;
}

}  // namespace hammock::metrics
