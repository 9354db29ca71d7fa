#include "runtime/devices/backend_calls.h"

#include <fmt/format.h>

#include "base/location_scope.h"
#include "base/throw.h"
#include "runtime/devices/memory_pressure.h"
#include "runtime/step/executor.h"
#include "runtime/step/running_step.h"

namespace hammock {
namespace {

using lazy::BackendImplInterface;

/// The line of the public call in progress, else that of the step that is running.
std::string WhereNow() {
  std::string where = CurrentWhere();
  return where.empty() ? WhereText(running_step_location) : where;
}

[[noreturn]] void Refuse(const DeviceEntry& device, const char* method, const std::string& what) {
  InternalError error(ErrorCode::kInternal,
                      fmt::format("{} of {} returned {}", method, device.name(), what));
  error.SetWhere(WhereNow());
  throw error;
}

void CheckCount(const DeviceEntry& device, const char* method, size_t given, size_t expected) {
  if (given == expected) return;
  Refuse(device, method, fmt::format("{} values, {} were expected", given, expected));
}

void CheckData(const DeviceEntry& device, const char* method, const BackendDataPtr& data,
               const Shape& expected) {
  if (!data) Refuse(device, method, "null");
  if (data->shape() == expected) return;
  Refuse(device, method,
         fmt::format("{}, {} was expected", data->shape().to_string(), expected.to_string()));
}

}  // namespace

void RaiseFromBackend(const std::string& device, const char* method, ErrorCode code) {
  std::shared_ptr<Error> error = CurrentError(code, fmt::format("{} on {}", method, device));
  // One that names a node is told its line by who knows the graph.
  const auto* execution = dynamic_cast<const lazy::ExecutionError*>(error.get());
  bool has_node = execution && execution->node();
  if (error->where().empty() && !has_node) error->SetWhere(WhereNow());
  error->Raise();
  __builtin_unreachable();
}

lazy::MemoryInfo MemoryOf(const DeviceEntry& device) {
  return CallBackend(device, "GetMemoryInfo",
                     [&](auto& backend) { return backend.GetMemoryInfo(device.device); });
}

std::vector<BackendDataPtr> Upload(DeviceEntry& device, std::span<const HostTensor> tensors) {
  constexpr char kMethod[] = "MakeComputationDataFromTensors";
  auto data = WithMemory(device, [&] {
    return CallBackend(
        device, kMethod,
        [&](const BackendImplInterface& backend) {
          return backend.MakeComputationDataFromTensors(tensors, device.device);
        },
        ErrorCode::kTransfer);
  });
  CheckCount(device, kMethod, data.size(), tensors.size());
  for (size_t i = 0; i < data.size(); ++i) CheckData(device, kMethod, data[i], tensors[i].shape());
  return data;
}

BackendDataPtr UploadScalar(DeviceEntry& device, const Scalar& value) {
  constexpr char kMethod[] = "MakeComputationDataFromScalar";
  BackendDataPtr data = WithMemory(device, [&] {
    return CallBackend(
        device, kMethod,
        [&](const BackendImplInterface& backend) {
          return backend.MakeComputationDataFromScalar(value, device.device);
        },
        ErrorCode::kTransfer);
  });
  CheckData(device, kMethod, data, Shape(value.dtype(), {}));
  return data;
}

BackendDataPtr NewPlaceholder(DeviceEntry& device, const Shape& shape) {
  constexpr char kMethod[] = "CreateDataPlaceholder";
  BackendDataPtr data = WithMemory(device, [&] {
    return CallBackend(device, kMethod, [&](const BackendImplInterface& backend) {
      return backend.CreateDataPlaceholder(device.device, shape);
    });
  });
  CheckData(device, kMethod, data, shape);
  data->MakePending();
  return data;
}

std::vector<HostTensor> Download(DeviceEntry& device, std::span<const BackendDataPtr> data) {
  const bool single = data.size() == 1;
  const char* method = single ? "MakeTensorFromComputationData" : "MakeTensorsFromComputationData";
  std::vector<HostTensor> tensors = CallBackend(
      device, method,
      [&](const BackendImplInterface& backend) -> std::vector<HostTensor> {
        if (!single) return backend.MakeTensorsFromComputationData(data);
        return {backend.MakeTensorFromComputationData(data[0], data[0]->shape().dtype())};
      },
      ErrorCode::kTransfer);
  CheckCount(device, method, tensors.size(), data.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Shape& expected = data[i]->shape();
    if (!tensors[i].defined()) Refuse(device, method, "an undefined tensor");
    if (tensors[i].shape() == expected) continue;
    Refuse(
        device, method,
        fmt::format("{}, {} was expected", tensors[i].shape().to_string(), expected.to_string()));
  }
  return tensors;
}

BackendDataPtr CopyDirectly(DeviceEntry& to, const BackendDataPtr& data) {
  constexpr char kMethod[] = "CopyToDevice";
  BackendDataPtr copy = WithMemory(to, [&] {
    return CallBackend(
        to, kMethod,
        [&](const BackendImplInterface& backend) { return backend.CopyToDevice(data, to.device); },
        ErrorCode::kTransfer);
  });
  if (copy) CheckData(to, kMethod, copy, data->shape());
  return copy;
}

std::vector<BackendDataPtr> Execute(DeviceEntry& device, const lazy::ComputationPtr& computation,
                                    std::span<const BackendDataPtr> arguments,
                                    const lazy::RunContext& run) {
  constexpr char kMethod[] = "ExecuteComputation";
  // It may run twice: what is donated is written only when nothing can fail any more.
  auto results = WithMemory(device, [&] {
    return CallBackend(
        device, kMethod,
        [&](const BackendImplInterface& backend) {
          return backend.ExecuteComputation(computation, arguments, device.device, run);
        },
        ErrorCode::kExecute);
  });
  CheckCount(device, kMethod, results.size(), static_cast<size_t>(computation->results_size()));
  for (size_t i = 0; i < results.size(); ++i) {
    CheckData(device, kMethod, results[i], computation->result_shape(static_cast<int>(i)));
  }
  return results;
}

lazy::Capability CapabilityOf(const DeviceEntry& device, const Graph& graph, NodeId node) {
  return CallBackend(device, "QueryCapability", [&](const BackendImplInterface& backend) {
    return backend.QueryCapability(graph, node, device.device);
  });
}

lazy::ComputationPtr Deserialize(DeviceEntry& device, std::string_view bytes) {
  auto fits = [&](auto& backend) { return backend.CheckCompatibility(bytes, device.device); };
  if (CallBackend(device, "CheckCompatibility", fits) != lazy::Compatibility::kOptimal) {
    return nullptr;
  }
  return CallBackend(
      device, "DeserializeComputation",
      [&](auto& backend) { return backend.DeserializeComputation(bytes, device.device); },
      ErrorCode::kCompile);
}

lazy::ComputationPtr Compile(DeviceEntry& device, const lazy::ComputationPtr& computation) {
  constexpr char kMethod[] = "Compile";
  auto compiled = CallBackend(
      device, kMethod,
      [&](const BackendImplInterface& backend) { return backend.Compile({computation}); },
      ErrorCode::kCompile);
  CheckCount(device, kMethod, compiled.size(), 1);
  if (!compiled[0]) Refuse(device, kMethod, "null");
  if (compiled[0]->result_shapes() != computation->result_shapes()) {
    Refuse(device, kMethod, "a computation with other results");
  }
  return compiled[0];
}

}  // namespace hammock
