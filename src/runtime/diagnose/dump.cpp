#include "runtime/diagnose/dump.h"

#include <fmt/format.h>

#include <fstream>
#include <mutex>

#include "base/log.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "ir/primitives.h"
#include "runtime/devices/backend_calls.h"
#include "trace/record.h"

namespace hammock {

constinit config::Option<std::string> config::kSaveTensorsFile({
    .name = "save_tensors_file",
    .default_value = "",
    .doc = "File to which every synced graph is appended; empty: none.",
    .upstream = "LTC_SAVE_TENSORS_FILE",
});

constinit config::Option<std::string> config::kSaveTensorsFormat({
    .name = "save_tensors_format",
    .default_value = "text",
    .doc = "Form of the graphs in `save_tensors_file`: text, dot or backend.",
    .choices = "text, dot, backend",
    .upstream = "LTC_SAVE_TENSORS_FMT",
});

namespace {

std::vector<Value> ValuesOf(const char* op, std::span<const Tensor> tensors) {
  std::vector<Value> values;
  values.reserve(tensors.size());
  for (const Tensor& tensor : tensors) values.push_back(ValueOf(op, tensor));
  return values;
}

std::string BackendText(const CompiledStep& step) {
  std::string text;
  for (const CompiledSegment& segment : step.segments) {
    if (step.segments.size() > 1) {
      text += fmt::format("# segment {} of {}, on {}\n", &segment - step.segments.data() + 1,
                          step.segments.size(), segment.device->name());
    }
    text += CallBackend(*segment.device, "GetComputationBackendText", [&](auto& backend) {
      return backend.GetComputationBackendText(segment.computation);
    });
    if (!text.empty() && text.back() != '\n') text += '\n';
  }
  return text;
}

/// The computation that the device would run, from the cache if it is there; nothing is added to
/// the cache.
std::string BackendText(DeviceEntry* device, const Hash128& hash, const Graph& graph) {
  if (!device || graph.outputs().empty()) return "# nothing to compute\n";
  LocationScope scope(graph[graph.outputs()[0].node].location);  // of what the backend raises
  CompiledStepPtr step = Executor().cache.FindByHash(hash);
  if (!step || step->device != device || step->traced != graph) step = CompileStep(*device, graph);
  return BackendText(*step);
}

std::string GraphText(const Graph& graph, const std::string& format) {
  return format == "dot" ? ToDot(graph) : ToText(graph, {.locations = true});
}

}  // namespace

CompiledStepPtr CachedStep(const char* op, const Hash128& hash) {
  if (CompiledStepPtr step = Executor().cache.FindByHash(hash)) return step;
  Throw(ErrorCode::kUnknownName, "{}: no graph of hash {} is cached{}", op, ToString(hash),
        Executor().cache.WasEvicted(hash) ? "; it was, and has been evicted since" : "");
}

void CheckDumpFormat(const char* op, const std::string& format) {
  if (format == "text" || format == "dot" || format == "backend") return;
  Throw(ErrorCode::kUnknownName, "{}: unknown format '{}', valid ones are text, dot, backend", op,
        format);
}

DeviceEntry* DeviceOfAll(const char* op, std::span<const Tensor> tensors) {
  DeviceEntry* common = nullptr;
  for (const Tensor& tensor : tensors) {
    Value value = ValueOf(op, tensor);
    if (!value) ThrowUndefined(op);
    if (value.node->device() == kNoDevice) {
      if (&value.node->op() == &ops::kScalarLeaf || &value.node->op() == &ops::kConstant) continue;
      Throw(ErrorCode::kForeignTensor, "{}: a symbolic tensor ({}) has no device and no value", op,
            value.shape().to_string());
    }
    DeviceEntry* device = &EntryOf(value.node->device());
    if (!device->active) {
      Throw(ErrorCode::kForeignTensor, "{}: the backend of device {} is no longer registered", op,
            device->name());
    }
    if (common && common != device) {
      Throw(ErrorCode::kDeviceMismatch,
            "{}: the tensors live on different devices: {} and {}; give those of one device", op,
            common->name(), device->name());
    }
    common = device;
  }
  return common;
}

std::string LazyGraphExecutor::DumpTensors(std::span<const Tensor> tensors,
                                           const std::string& format) {
  CheckDumpFormat("dump", format);
  DeviceEntry* device = DeviceOfAll("dump", tensors);
  Hash128 hash;
  Graph graph = Executor().TraceOf(ValuesOf("dump", tensors), &hash);
  return format == "backend" ? BackendText(device, hash, graph) : GraphText(graph, format);
}

Hash128 LazyGraphExecutor::GetGraphHash(std::span<const Tensor> tensors) {
  DeviceOfAll("graph hash", tensors);
  Hash128 hash;
  Executor().TraceOf(ValuesOf("graph hash", tensors), &hash);
  return hash;
}

int64_t LazyGraphExecutor::GetTensorId(const Tensor& tensor) {
  if (!tensor.defined()) ThrowUndefined("tensor id");
  return tensor.id();
}

std::string LazyGraphExecutor::GetCachedText(const Hash128& hash, const std::string& format) {
  CheckDumpFormat("cached text", format);
  CompiledStepPtr step = CachedStep("cached text", hash);
  return format == "backend" ? BackendText(*step) : GraphText(step->traced, format);
}

void SaveGraph(const Graph& traced, const Hash128& hash, DeviceEntry& device, const char* trigger) {
  const std::string& path = config::Get<config::kSaveTensorsFile>();
  if (path.empty()) return;
  try {
    const std::string& format = config::Get<config::kSaveTensorsFormat>();
    std::string where = LocationText(CurrentLocation());
    std::string block = fmt::format(
        "[SyncTensorsGraph]\nTrigger: {}\nSource: {}\nDevice: {}\nHash: {}\n## BEGIN_GRAPH\n",
        trigger, where.empty() ? "unknown" : where, device.name(), ToString(hash));
    block += format == "backend" ? BackendText(&device, hash, traced) : GraphText(traced, format);
    if (block.back() != '\n') block += '\n';
    block += "## END_GRAPH\n\n";
    static auto& writing = NeverDestroyed<std::mutex>();
    std::lock_guard lock(writing);
    std::ofstream file(path, std::ios::app | std::ios::binary);
    file << block << std::flush;
    if (!file) {
      LogOnce("save_tensors_file:" + path, LogLevel::kWarn,
              "save_tensors_file: cannot write to '{}'; graphs are not saved there", path);
    }
  } catch (const std::exception& error) {
    LogOnce("save_tensors_file:" + path, LogLevel::kWarn,
            "save_tensors_file: a graph could not be saved to '{}': {}", path, error.what());
  }
}

}  // namespace hammock
