#include "plugins/plugin_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "backends/common/collectives.h"
#include "base/log.h"
#include "base/option_registry.h"
#include "base/option_value.h"
#include "base/throw.h"
#include "hammock/metric.h"
#include "hammock/option.h"
#include "hammock/profile.h"
#include "plugins/status.h"

namespace hammock::plugins {

struct PluginHost::DeclaredMetric {
  metrics::Counter* counter = nullptr;
  metrics::Gauge* gauge = nullptr;
  metrics::Metric* metric = nullptr;
};

namespace {

using config::detail::AnyOption;

/// A copy that is never freed; null is empty.
const std::string& Kept(const char* text) { return config::Intern(text ? text : ""); }

constexpr const char* kMetricKinds[] = {"counter", "gauge", "value", "bytes", "time"};
constexpr metrics::Kind kSampleKinds[] = {metrics::Kind::kValue, metrics::Kind::kBytes,
                                          metrics::Kind::kTime};

/// Nothing that a function of the host throws leaves it.
template <class F>
HammockStatus Guarded(F&& run) noexcept {
  try {
    return run();
  } catch (...) {
    return WriteCurrentError(nullptr);
  }
}

Shape ShapeFrom(const HammockShape& shape) {
  if (shape.dtype >= uint32_t{kNumDTypes} || shape.rank > kMaxRank) {
    Throw(ErrorCode::kValue, "no shape has dtype {} and {} dims", shape.dtype, shape.rank);
  }
  if (shape.rank > 0 && !shape.sizes) Throw(ErrorCode::kValue, "the sizes of a shape are null");
  const std::span sizes(shape.sizes, shape.rank);
  if (std::ranges::any_of(sizes, [](int64_t size) { return size < 0; })) {
    Throw(ErrorCode::kValue, "a shape has a negative size");
  }
  return Shape(static_cast<DType>(shape.dtype), Dims(sizes));
}

/// Of the last collective that failed on this thread.
thread_local std::exception_ptr collective_error;

/// The node of a graph that a plug-in runs.
GraphNode CollectiveOf(const HammockCollective& given, const Shape& type) {
  const OpDef* op = given.op ? op_registry::Find(given.op) : nullptr;
  if (!op || !IsCollective(*op) || !given.group) {
    Throw(ErrorCode::kValue, "`collective` of the host: '{}' is no collective, or has no group",
          given.op ? given.op : "");
  }
  if (given.pair_count > 0 && !given.pairs) {
    Throw(ErrorCode::kValue, "{}: its pairs are null", given.op);
  }
  std::vector<Attr> attrs;
  for (size_t i = 0; i < op->info().attribute_args.size(); ++i) {
    const std::string& name = op->info().AttributeName(static_cast<int>(i));
    if (name == "reduction") attrs.emplace_back(given.reduction ? given.reduction : "");
    if (name == "root") attrs.emplace_back(given.root);
    if (name == "pairs") {
      attrs.emplace_back(std::vector<int64_t>(given.pairs, given.pairs + 2 * given.pair_count));
    }
    if (name == "group") attrs.emplace_back(given.group);
    if (name == "size") attrs.emplace_back(given.size);
  }
  if (attrs.size() != op->info().attribute_args.size()) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "{} does not go through the plug-in interface",
                        given.op);
  }
  Graph graph;
  const GraphValue in = graph.AddInput(type);
  return graph[graph.AddNode(*op, {in}, std::move(attrs))];
}

}  // namespace

/// The entries of HammockHost.
struct HostFunctions {
  static PluginHost& Of(void* context) { return *static_cast<PluginHost*>(context); }

  static HammockStatus Known(bool handle) { return handle ? HAMMOCK_OK : HAMMOCK_STALE_HANDLE; }

  static void LogLine(void* context, uint32_t level, const char* text) noexcept {
    constexpr LogLevel kLevels[] = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn,
                                    LogLevel::kError};
    Guarded([&]() -> HammockStatus {
      LogText(kLevels[std::min<uint32_t>(level, HAMMOCK_LOG_ERROR)],
              fmt::format("{}: {}", Of(context).name_.empty() ? "plug-in" : Of(context).name_,
                          text ? text : ""));
      return HAMMOCK_OK;
    });
  }

  static HammockStatus BufferRetain(void* context, HammockBuffer buffer) noexcept {
    return Known(Of(context).buffers_.With(buffer, [](auto& held) { ++held.users; }));
  }
  static HammockStatus BufferRelease(void* context, HammockBuffer buffer) noexcept {
    return Guarded([&]() -> HammockStatus { return Of(context).Release(buffer); });
  }

  static HammockStatus EventSet(void* context, HammockEvent event, HammockStatus status,
                                int32_t node, const char* op, const char* text) noexcept {
    return Guarded([&]() -> HammockStatus {
      auto pending = Of(context).events_.Take(event);
      if (!pending) return HAMMOCK_STALE_HANDLE;
      if (status == HAMMOCK_OK) {
        pending->data->SetReady();
      } else {
        // A lack of memory keeps its class, by which programs know it.
        const bool names_node = node < pending->nodes && status != HAMMOCK_OUT_OF_MEMORY;
        const int32_t known = names_node ? node : -1;
        pending->data->SetError(ErrorOf(status, text ? text : "", op ? op : "", known));
      }
      return HAMMOCK_OK;
    });
  }

  static HammockStatus OptionFind(void* context, const char* name, HammockOption* option) noexcept {
    return Guarded([&]() -> HammockStatus {
      if (!name || !option) return HAMMOCK_VALUE_ERROR;
      AnyOption* found = config::FindOption(name);
      if (!found) return HAMMOCK_VALUE_ERROR;
      *option = Of(context).options_.Add(found);
      return HAMMOCK_OK;
    });
  }
  static AnyOption* FindIn(void* context, HammockOption option) {
    return static_cast<AnyOption*>(Of(context).options_.Find(option).value_or(nullptr));
  }
  static int64_t ValueOf(AnyOption& option) {
    int64_t value = option.value.load(std::memory_order_acquire);
    return value == config::detail::kUnset ? config::detail::Initialize(option) : value;
  }
  static HammockStatus OptionInt(void* context, HammockOption option, int64_t* value) noexcept {
    return Guarded([&]() -> HammockStatus {
      AnyOption* found = FindIn(context, option);
      if (!found) return HAMMOCK_STALE_HANDLE;
      if (found->type == config::Type::kString || !value) return HAMMOCK_VALUE_ERROR;
      *value = ValueOf(*found);
      return HAMMOCK_OK;
    });
  }
  static HammockStatus OptionText(void* context, HammockOption option,
                                  HammockWriter text) noexcept {
    return Guarded([&]() -> HammockStatus {
      AnyOption* found = FindIn(context, option);
      if (!found) return HAMMOCK_STALE_HANDLE;
      hammock_write(text, config::Format(*found, ValueOf(*found)).c_str());
      return HAMMOCK_OK;
    });
  }

  static HammockStatus MetricDeclare(void* context, uint32_t kind, const char* name,
                                     const char* doc, HammockMetric* metric) noexcept {
    return Guarded([&]() -> HammockStatus {
      if (kind > HAMMOCK_TIMES || !name || !metric) return HAMMOCK_VALUE_ERROR;
      const metrics::Spec spec = {.name = Kept(name),
                                  .kind = kind >= HAMMOCK_VALUES
                                              ? kSampleKinds[kind - HAMMOCK_VALUES]
                                              : metrics::Kind::kValue,
                                  .doc = Kept(doc)};
      metrics::detail::Declare(spec, kMetricKinds[kind]);
      auto declared = std::make_shared<PluginHost::DeclaredMetric>();
      if (kind == HAMMOCK_COUNTER) {
        declared->counter = &metrics::detail::Find(metrics::DeclaredCounter(spec), spec.name);
      } else if (kind == HAMMOCK_GAUGE) {
        declared->gauge = &metrics::detail::Find(metrics::DeclaredGauge(spec), spec.name);
      } else {
        declared->metric = &metrics::detail::Find(metrics::DeclaredMetric(spec), spec.name);
      }
      *metric = Of(context).metrics_.Add(std::move(declared));
      return HAMMOCK_OK;
    });
  }
  static HammockStatus MetricAdd(void* context, HammockMetric metric, double value) noexcept {
    return Guarded([&]() -> HammockStatus {
      auto found = Of(context).metrics_.Find(metric);
      if (!found) return HAMMOCK_STALE_HANDLE;
      PluginHost::DeclaredMetric& declared = **found;
      const bool fits = declared.metric ? std::isfinite(value) : std::abs(value) < 0x1p63;
      if (!fits) return HAMMOCK_VALUE_ERROR;
      if (declared.counter) declared.counter->Add(static_cast<int64_t>(value));
      if (declared.gauge) declared.gauge->Set(static_cast<int64_t>(value));
      if (declared.metric) declared.metric->AddSample(value);
      return HAMMOCK_OK;
    });
  }

  static HammockStatus SpanBegin(void* context, const char* name, HammockSpan* span) noexcept {
    return Guarded([&]() -> HammockStatus {
      if (!name || !span) return HAMMOCK_VALUE_ERROR;
      *span = 0;
      if (!profile::IsOn()) return HAMMOCK_OK;
      PluginHost& host = Of(context);
      *span = host.spans_.Add(
          {std::make_shared<profile::Span>(Kept(name).c_str(), Kept(host.name_.c_str()).c_str()),
           std::this_thread::get_id()});
      return HAMMOCK_OK;
    });
  }
  static HammockStatus SpanEnd(void* context, HammockSpan span) noexcept {
    return Guarded([&]() -> HammockStatus {
      if (span == 0) return HAMMOCK_OK;
      PluginHost& host = Of(context);
      bool here = true;
      const bool known = host.spans_.TakeIf(span, [&](const PluginHost::OpenSpan& open) {
        return here = open.thread == std::this_thread::get_id();
      });
      return here ? Known(known) : HAMMOCK_WRONG_THREAD;
    });
  }

  static int64_t Now(void*) noexcept { return lazy::RunProfile::Now(); }
  static HammockStatus RunKernel(void* context, HammockRun run, uint64_t kernel, const char* name,
                                 int64_t begin, int64_t end) noexcept {
    return Guarded([&]() -> HammockStatus {
      auto profile = Of(context).runs_.Find(run);
      if (!profile) return HAMMOCK_STALE_HANDLE;
      profile->AddKernel(kernel, name ? name : "kernel", begin, end);
      return HAMMOCK_OK;
    });
  }
  static HammockStatus RunMemory(void* context, HammockRun run, int64_t in_use) noexcept {
    return Guarded([&]() -> HammockStatus {
      auto profile = Of(context).runs_.Find(run);
      if (!profile) return HAMMOCK_STALE_HANDLE;
      profile->AddMemory(in_use);
      return HAMMOCK_OK;
    });
  }

  static HammockStatus LocationTextOf(void*, uint32_t location, HammockWriter text) noexcept {
    return Guarded([&]() -> HammockStatus {
      hammock_write(text, LocationText(location).c_str());
      return HAMMOCK_OK;
    });
  }

  static HammockStatus Collective(void*, const HammockCollective* given,
                                  HammockError* error) noexcept {
    try {
      const auto known = KnownPart(given, HAMMOCK_SIZE_UP_TO(HammockCollective, out));
      if (!known) Throw(ErrorCode::kValue, "`collective` of the host: null, or without its size");
      const Shape type = ShapeFrom(known->shape);
      const GraphNode node = CollectiveOf(*known, type);
      if ((!known->in && type.bytes() > 0) || (!known->out && node.type().bytes() > 0)) {
        Throw(ErrorCode::kValue, "{}: its elements, or the place for its result, are null",
              known->op);
      }
      RunCollective({.collectives = CollectiveScope::Current()}, node, type, known->in, known->out);
      return HAMMOCK_OK;
    } catch (...) {
      PluginHost::KeepCollectiveError();
      return WriteCurrentError(error);
    }
  }
};

PluginHost::PluginHost()
    : table_{.struct_size = sizeof(HammockHost),
             .version_major = HAMMOCK_PLUGIN_MAJOR,
             .version_minor = HAMMOCK_PLUGIN_MINOR,
             .reserved = 0,
             .version = HAMMOCK_VERSION,
             .context = this,
             .log = HostFunctions::LogLine,
             .buffer_retain = HostFunctions::BufferRetain,
             .buffer_release = HostFunctions::BufferRelease,
             .event_set = HostFunctions::EventSet,
             .option_find = HostFunctions::OptionFind,
             .option_int = HostFunctions::OptionInt,
             .option_text = HostFunctions::OptionText,
             .metric_declare = HostFunctions::MetricDeclare,
             .metric_add = HostFunctions::MetricAdd,
             .span_begin = HostFunctions::SpanBegin,
             .span_end = HostFunctions::SpanEnd,
             .now = HostFunctions::Now,
             .run_kernel = HostFunctions::RunKernel,
             .run_memory = HostFunctions::RunMemory,
             .location_text = HostFunctions::LocationTextOf,
             .collective = HostFunctions::Collective} {}

std::exception_ptr PluginHost::TakeCollectiveError() {
  return std::exchange(collective_error, nullptr);
}

void PluginHost::KeepCollectiveError() {
  if (CollectiveScope::Current()) collective_error = std::current_exception();
}

bool PluginHost::IsOurs(const HammockHost& table) { return table.log == HostFunctions::LogLine; }

HammockStatus PluginHost::Release(HammockBuffer buffer) {
  // In one step: a thread that retains it meanwhile must not get bytes that go.
  const bool known = buffers_.TakeIf(buffer, [](Buffer& held) { return --held.users == 0; });
  return HostFunctions::Known(known);
}

HammockEvent PluginHost::AddEvent(BackendDataPtr data, int32_t nodes,
                                  std::shared_ptr<const HammockRun> run) {
  return events_.Add({std::move(data), nodes, std::move(run), {}});
}

bool PluginHost::HasLateEvent(std::chrono::steady_clock::time_point now,
                              std::chrono::milliseconds most) {
  return events_.HasAny([&](Event& event) {
    if (event.seen == std::chrono::steady_clock::time_point()) event.seen = now;
    return now - event.seen > most;
  });
}

BackendDataPtr PluginHost::TakeEvent(HammockEvent event) {
  auto taken = events_.Take(event);
  return taken ? taken->data : nullptr;
}

void PluginHost::FailEvents(const std::shared_ptr<const Error>& error) {
  for (const Event& event : events_.TakeAll()) event.data->SetError(error);
}

std::shared_ptr<const HammockRun> PluginHost::AddRun(const lazy::RunProfile& profile) {
  return {new HammockRun(runs_.Add(profile)), [this](const HammockRun* run) {
            runs_.Take(*run);
            delete run;
          }};
}

void PluginHost::DeclareOptions(const HammockPlugin& plugin) {
  for (uint64_t i = 0; i < plugin.option_count; ++i) {
    const auto given = KnownPart(plugin.options ? plugin.options[i] : nullptr,
                                 HAMMOCK_SIZE_UP_TO(HammockOptionSpec, choices));
    if (!given || !given->name) {
      Throw(ErrorCode::kValue, "option {}: null, or without a name or its size", i);
    }
    const std::string& name = Kept(given->name);
    if (!name.starts_with(std::string(plugin.name) + ".")) {
      Throw(ErrorCode::kValue, "option '{}': its name does not begin with '{}.'", name,
            plugin.name);
    }
    if (given->type > HAMMOCK_OPTION_TEXT) {
      Throw(ErrorCode::kValue, "option '{}': unknown type {}", name, given->type);
    }
    if (config::FindOption(name)) continue;  // of an attempt that failed later
    auto* option = new AnyOption{};
    option->type = static_cast<config::Type>(given->type);
    option->name = name;
    option->doc = Kept(given->doc);
    option->affects_code = given->affects_code != 0;
    option->min = given->min;
    option->choices = Kept(given->choices);
    option->default_text = Kept(given->default_text);
    if (option->type != config::Type::kString) {
      option->default_number = config::Parse(*option, option->default_text);
    }
    config::detail::Register(*option);
  }
}

}  // namespace hammock::plugins
