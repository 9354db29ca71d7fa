#include "hammock/repro.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/throw.h"
#include "base/whole_file.h"
#include "ir/primitives.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/devices/code_settings.h"
#include "runtime/diagnose/dump.h"
#include "runtime/diagnose/repro_file.h"
#include "runtime/step/executor.h"
#include "trace/record.h"

namespace hammock {

namespace {

// ---- Saving

struct Parameter {
  Value value;
  BackendDataPtr data;
  HostTensor host;  // of a leaf that is not on its device
};

HostTensor ReadParameter(const Parameter& parameter) {
  if (!parameter.data) {
    if (parameter.host.defined()) return parameter.host;
    Throw(ErrorCode::kValue, "repro: the backend has no data of a parameter ({})",
          parameter.value.shape().to_string());
  }
  parameter.data->WaitReady();
  // A lifted scalar is on no device, but its data is.
  const Node& node = *parameter.value.node;
  if (&node.op() == &ops::kScalarLeaf) return HostValue(&node);
  return Download(EntryOf(node.device()), std::span(&parameter.data, 1))[0];
}

Repro Collect(std::span<const Tensor> tensors, DeviceEntry* device) {
  std::vector<Value> roots;
  for (const Tensor& tensor : tensors) roots.push_back(ValueOf("repro", tensor));
  Repro repro;
  std::vector<Parameter> parameters;
  {
    std::lock_guard lock(Executor().graph_mutex);
    Walk walk;
    RunWalk(roots, device ? device->id : kNoDevice, CodeSettingsId(), walk, /*all_roots=*/true);
    repro.graph = GraphOf(walk);
    for (size_t i = 0; i < walk.parameters.size(); ++i) {
      Parameter parameter{{NodePtr(walk.parameters[i]), walk.parameter_outputs[i]}, nullptr, {}};
      const Node* node = walk.parameters[i];
      parameter.data = node->slots()[walk.parameter_outputs[i]].data;
      if (!parameter.data) parameter.host = HostValue(walk.parameters[i]);
      parameters.push_back(std::move(parameter));
    }
    for (const Value& root : roots) {
      // One graph node for each of the walk.
      NodeId id(walk.EntryOf(root.node.get(), root.index));
      bool input = repro.graph[id].op == &ops::kInput;
      repro.values.push_back({id, input ? 0 : static_cast<int32_t>(root.index)});
    }
  }
  for (Parameter& parameter : parameters) {
    const Node* node = parameter.value.node.get();
    if (device && parameter.data && node->IsLeaf()) {
      parameter.data = CallBackend(*device, "GetComputationDataFromNode", [&](auto& backend) {
        return backend.GetComputationDataFromNode(node);
      });
    }
    repro.inputs.push_back(ReadParameter(parameter));
  }
  return repro;
}

// ---- Loading

/// Makes the traced nodes again, with their lines.
NodeMap<NodePtr> Retrace(const Repro& repro, DeviceId device) {
  NodeMap<NodePtr> nodes;
  size_t next_input = 0;
  for (const GraphNode& node : repro.graph.nodes()) {
    if (node.op == &ops::kInput) {
      nodes.push_back(MakeHostLeaf(repro.inputs[next_input++], device, node.location));
      continue;
    }
    std::vector<Value> operands;
    for (GraphValue input : node.inputs) {
      operands.push_back(input.node ? Value{nodes[input.node], static_cast<uint32_t>(input.index)}
                                    : Value{});
    }
    bool constant = node.op == &ops::kConstant;  // on no device, as when traced
    nodes.push_back(Node::Make(*node.op, operands, node.attrs, node.types,
                               constant ? kNoDevice : device, node.location));
  }
  return nodes;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  if (!file) Throw(ErrorCode::kValue, "repro: cannot read '{}'", path);
  return std::move(bytes).str();
}

}  // namespace

void SaveRepro(const std::string& path, const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  CheckNotForked();
  if (tensors.empty()) Throw(ErrorCode::kValue, "repro: no tensors are given");
  DeviceEntry* device = DeviceOfAll("repro", tensors);
  const std::string bytes = EncodeRepro(Collect(tensors, device));
  const std::string_view parts[] = {bytes};
  WriteWholeFile(path, parts);
}

void WriteRepro(const std::string& path, const Graph& graph, std::vector<HostTensor> inputs) {
  std::vector<GraphValue> outputs(graph.outputs().begin(), graph.outputs().end());
  const std::string bytes = EncodeRepro({graph, std::move(inputs), std::move(outputs)});
  const std::string_view parts[] = {bytes};
  WriteWholeFile(path, parts);
}

std::vector<Tensor> RunRepro(const std::string& path, const Device& device, Location at) {
  LocationScope scope(at);
  Repro repro = DecodeRepro(path, ReadFile(path));
  NodeMap<NodePtr> nodes = Retrace(repro, device.id());
  auto value_of = [&](GraphValue value) {
    return Value{nodes[value.node], static_cast<uint32_t>(value.index)};
  };
  std::vector<Value> roots;
  std::vector<Tensor> tensors;
  for (GraphValue output : repro.graph.outputs()) roots.push_back(value_of(output));
  for (GraphValue value : repro.values) tensors.push_back(Tensor::FromValue(value_of(value)));
  nodes.clear();
  Executor().Sync(roots, {.trigger = "repro", .wait = true});
  return tensors;
}

}  // namespace hammock
