#include "runtime/cache/saved_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file_cache.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "base/process_exit.h"
#include "base/record_bytes.h"
#include "base/work_queue.h"
#include "compiler/sizes/skeleton.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "hammock/profile.h"
#include "runtime/cache/compile_step.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/devices/code_settings.h"
#include "runtime/step/executor.h"

namespace hammock {
namespace {

constinit const metrics::DeclaredCounter kDiskCacheHits({
    .name = "DiskCacheHits",
    .doc = "Compiled steps that an earlier process had saved.",
});
constinit const metrics::DeclaredCounter kDiskCacheWrites({
    .name = "DiskCacheWrites",
    .doc = "Compiled steps that were saved.",
});

struct SavedSegment {
  std::string device;
  bool fallback = false;
  std::string computation;  // as its backend serialises it
  std::vector<int> inputs;
  int first_output = 0;

  template <class Io>
  friend void Fields(Io& io, SavedSegment& segment) {
    io(segment.device, segment.fallback, segment.computation, segment.inputs, segment.first_output);
  }
};

struct SavedRefusal {
  std::string op, reason;
  NodeId traced;  // a traced node of the same line
  int64_t bytes = 0;

  template <class Io>
  friend void Fields(Io& io, SavedRefusal& refusal) {
    io(refusal.op, refusal.reason, refusal.traced, refusal.bytes);
  }
};

struct SavedStep {
  std::vector<SavedSegment> segments;
  std::vector<int> results;
  std::vector<SavedRefusal> refusals;
  std::string fallback;  // the device's name
  int num_parameters = 0;
  int num_values = 0;

  template <class Io>
  friend void Fields(Io& io, SavedStep& step) {
    io(step.segments, step.results, step.refusals, step.fallback, step.num_parameters,
       step.num_values);
  }
};

DeviceEntry& EntryNamed(const std::string& device) { return EntryOf(Device(device).id()); }

// ---- Keys

/// All but the graph.
std::string KeyOf(const DeviceEntry& device) {
  return device.backend->Fingerprint(device.device) + "\n" + CodeOptionLines();
}

std::string KeyOf(const DeviceEntry& device, const Graph& traced,
                  std::span<const std::string> devices) {
  std::string key = KeyOf(device);
  for (const std::string& name : devices) key += name + "\n";
  return key + Serialize(traced, {.locations = false});
}

/// Graphs that differ in sizes alone have one form.
Graph WithoutSizes(Graph graph) {
  constexpr int64_t kSize = 2;  // which has an inverse
  const std::vector<SizeSlot> slots = SizeSlotsOf(graph);
  for (size_t i = 0, end = 0; i < slots.size(); i = end) {
    while (end < slots.size() && slots[end].node == slots[i].node) ++end;
    std::vector<int64_t> sizes(end - i, kSize);
    SetSizes(graph.mutable_node(slots[i].node), std::span(slots).subspan(i, end - i), sizes);
  }
  return graph;
}

// ---- Computations

/// Null where it was compiled for another build or device. `traced`: whose locations its nodes get;
/// null: those that they were saved with.
lazy::ComputationPtr LoadComputation(DeviceEntry& device, const std::string& bytes,
                                     const Graph* traced) {
  lazy::ComputationPtr computation = Deserialize(device, bytes);
  if (!computation) return nullptr;
  if (traced) computation->SetLocations(*traced);
  computation->in_mark_step = InMarkStep();
  return computation;
}

// ---- Files

/// Logs the current exception of a backend: without the file the step is compiled, so it is no
/// error.
void WarnOfCurrent(const DeviceEntry& device) {
  LogOnce("cache_dir:" + device.type, LogLevel::kWarn, "cache_dir: {}",
          CurrentError(ErrorCode::kCompile, "a step of " + device.type)->what());
}

/// `read(bytes)` of the file, if there is one; null where that is null or raises.
template <class KeyOf, class Read>
auto Load(const DeviceEntry& device, const char* kind, const KeyOf& key_of, const Read& read)
    -> decltype(read(std::string())) {
  profile::Span span("load", "compile");
  try {
    std::optional<std::string> bytes = FileCache::OfConfig()->Load(device.type + kind, key_of());
    if (!bytes) return nullptr;
    if (auto loaded = read(*bytes)) {
      metrics::Get<kDiskCacheHits>().Add();
      return loaded;
    }
  } catch (...) {
    WarnOfCurrent(device);
  }
  metrics::Get<kDiskCacheRefused>().Add();
  return nullptr;
}

WorkQueue& Saves() {
  static auto& queue = NeverDestroyed<WorkQueue>("save compiled steps", size_t{1} << 16);
  return queue;
}

/// `before` reads what the file holds, if there is one.
using MakeBytes =
    std::function<std::string(const std::function<std::optional<std::string>()>& before)>;

/// Writes what `bytes` returns in the background.
void Save(const DeviceEntry& device, const char* kind, const std::function<std::string()>& key_of,
          MakeBytes bytes) {
  if (process_exit::Begun()) return;
  [[maybe_unused]] static const bool registered = [] {
    process_exit::Register(process_exit::Stage::kSavedSteps,
                           [] { Saves().Stop(process_exit::Limit()); });
    return true;
  }();
  try {
    Saves().Push([&device, cache = FileCache::OfConfig(), file_kind = device.type + kind,
                  key = key_of(), bytes = std::move(bytes)] {
      process_exit::Run run(/*before_exit=*/false);
      try {
        std::string made = bytes([&] { return cache->Load(file_kind, key); });
        if (cache->Save(file_kind, key, made, config::Get<config::kCacheDirBytes>())) {
          metrics::Get<kDiskCacheWrites>().Add();
        }
      } catch (const NotSupported&) {  // there is nothing to save
      } catch (...) {
        WarnOfCurrent(device);
      }
    });
  } catch (const DeviceError&) {  // the child of a fork saves nothing
  } catch (...) {
    WarnOfCurrent(device);
  }
}

constexpr char kStepKind[] = "-step";
constexpr char kGeneralKind[] = "-general";
constexpr char kComputationKind[] = "-computation";

// ---- Steps

NodeId NodeOnLine(const Graph& traced, LocationId line) {
  auto found = std::ranges::find(traced.nodes(), line, &GraphNode::location);
  return found == traced.nodes().end() ? NodeId() : NodeId(found - traced.nodes().begin());
}

std::string BytesOf(const CompiledStep& step, const Graph& traced) {
  SavedStep saved;
  saved.results = step.results;
  if (step.fallback) saved.fallback = step.fallback->name();
  saved.num_parameters = step.num_parameters;
  saved.num_values = step.num_values;
  for (const CompiledSegment& segment : step.segments) {
    saved.segments.push_back({segment.device->name(), segment.fallback,
                              segment.device->backend->SerializeComputation(segment.computation),
                              segment.inputs, segment.first_output});
  }
  for (const Refusal& refusal : step.refusals) {
    saved.refusals.push_back(
        {refusal.op, refusal.reason, NodeOnLine(traced, refusal.location), refusal.bytes});
  }
  RecordWriter record;
  record(saved);
  return record.Take();
}

CompiledStepPtr StepIn(const std::string& bytes, DeviceEntry& device, const Graph& traced) {
  SavedStep saved;
  RecordReader record("a compiled step", bytes);
  record(saved);
  record.ExpectEnd();
  auto step = std::make_shared<CompiledStep>();
  step->device = &device;
  step->results = std::move(saved.results);
  step->num_parameters = saved.num_parameters;
  step->num_values = saved.num_values;
  if (!saved.fallback.empty()) step->fallback = &EntryNamed(saved.fallback);
  for (SavedRefusal& refusal : saved.refusals) {
    LocationId line = refusal.traced ? traced[refusal.traced].location : 0;
    step->refusals.push_back(
        {std::move(refusal.op), std::move(refusal.reason), line, refusal.bytes});
  }
  for (SavedSegment& segment : saved.segments) {
    DeviceEntry& runs = EntryNamed(segment.device);
    lazy::ComputationPtr computation = LoadComputation(runs, segment.computation, &traced);
    if (!computation) return nullptr;
    step->segments.push_back({&runs, segment.fallback, std::move(computation),
                              std::move(segment.inputs), segment.first_output});
  }
  FinishStep(*step, traced);
  return step;
}

// ---- General steps

/// Graphs of one form may follow several rules: each has a step.
struct SavedGeneral {
  std::string rule;     // its bytes, by which it is told from others
  std::string general;  // the fields of GeneralStep
  std::string computation;

  template <class Io>
  friend void Fields(Io& io, SavedGeneral& saved) {
    io(saved.rule, saved.general, saved.computation);
  }
};
constexpr size_t kMostGenerals = 8;

std::vector<SavedGeneral> GeneralsIn(const std::string& bytes) {
  std::vector<SavedGeneral> all;
  RecordReader record("general steps", bytes);
  record(all);
  record.ExpectEnd();
  return all;
}

}  // namespace

bool SavesSteps() { return FileCache::OfConfig() != nullptr; }

CompiledStepPtr LoadStep(DeviceEntry& device, const Graph& traced,
                         std::span<const std::string> devices) {
  return Load(
      device, kStepKind, [&] { return KeyOf(device, traced, devices); },
      [&](const std::string& bytes) { return StepIn(bytes, device, traced); });
}

void SaveStep(CompiledStepPtr step, const Graph& traced, std::span<const std::string> devices) {
  if (!SavesSteps()) return;
  const DeviceEntry& device = *step->device;
  Save(
      device, kStepKind, [&] { return KeyOf(device, traced, devices); },
      [step, traced](const auto&) { return BytesOf(*step, traced); });
}

lazy::ComputationPtr LoadOrCompile(DeviceEntry& device, Graph graph) {
  if (!SavesSteps()) return CompileGraph(device, {}, std::move(graph));
  auto key = [&device, bytes = Serialize(graph, {.locations = false})] {
    return KeyOf(device) + bytes;
  };
  auto read = [&](const std::string& bytes) { return LoadComputation(device, bytes, nullptr); };
  if (lazy::ComputationPtr loaded = Load(device, kComputationKind, key, read)) return loaded;
  lazy::ComputationPtr compiled = CompileGraph(device, {}, std::move(graph));
  Save(device, kComputationKind, key,
       [&device, compiled](const auto&) { return device.backend->SerializeComputation(compiled); });
  return compiled;
}

CompiledStepPtr LoadInstance(
    DeviceEntry& device, const Graph& traced, std::span<const int64_t> sizes,
    std::span<const std::string> devices,
    const std::function<CompiledStepPtr(const std::shared_ptr<GeneralStep>&)>& make) {
  auto read = [&](const std::string& bytes) -> CompiledStepPtr {
    for (const SavedGeneral& saved : GeneralsIn(bytes)) {
      auto general = std::make_shared<GeneralStep>();
      RecordReader("a general step", saved.general)(*general);
      if (!general->rule.ParametersOf(sizes)) continue;
      general->computation = LoadComputation(device, saved.computation, &traced);
      if (!general->computation) continue;
      if (CompiledStepPtr step = make(general)) return step;
    }
    return nullptr;
  };
  return Load(
      device, kGeneralKind, [&] { return KeyOf(device, WithoutSizes(traced), devices); }, read);
}

void SaveGeneral(DeviceEntry& device, std::shared_ptr<GeneralStep> general, const Graph& traced,
                 std::span<const std::string> devices) {
  if (!SavesSteps()) return;
  auto bytes = [&device, general](const auto& before) {
    std::vector<SavedGeneral> all;
    if (std::optional<std::string> others = before()) all = GeneralsIn(*others);
    RecordWriter rule, fields;
    rule(general->rule);
    fields(*general);
    SavedGeneral saved{rule.Take(), fields.Take(),
                       device.backend->SerializeComputation(general->computation)};
    std::erase_if(all, [&](const SavedGeneral& other) { return other.rule == saved.rule; });
    all.insert(all.begin(), std::move(saved));
    if (all.size() > kMostGenerals) all.pop_back();
    RecordWriter record;
    record(all);
    return record.Take();
  };
  Save(
      device, kGeneralKind, [&] { return KeyOf(device, WithoutSizes(traced), devices); }, bytes);
}

void WaitForSavedSteps() {
  try {
    Saves().Drain();
  } catch (const DeviceError&) {  // the child of a fork has none
  }
}

}  // namespace hammock
