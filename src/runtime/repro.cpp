#include "hammock/repro.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/throw.h"
#include "base/whole_file.h"
#include "ir/primitives.h"
#include "runtime/backend_calls.h"
#include "runtime/code_settings.h"
#include "runtime/dump.h"
#include "runtime/executor.h"
#include "trace/record.h"

namespace hammock {

namespace {

constexpr std::string_view kMagic = "HAMMOCK-REPRO\n";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeader = kMagic.size() + 4 + 8 + 16;  // magic, version, size, checksum

// A saved tensor is a value of the graph; inputs are nodes of it too.
struct Repro {
  Graph graph;
  std::vector<HostTensor> inputs;
  std::vector<GraphValue> values;
};

// ---- Bytes, little-endian

void PutInt(std::string& out, uint64_t value, int bytes = 8) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void PutBytes(std::string& out, std::string_view bytes) {
  PutInt(out, bytes.size());
  out += bytes;
}

class Reader {
 public:
  Reader(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  uint64_t Int(int bytes = 8) {
    std::string_view text = Take(static_cast<uint64_t>(bytes));
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(text[static_cast<size_t>(i)]))
               << (8 * i);
    }
    return value;
  }
  std::string_view Take(uint64_t count) {
    if (count > bytes_.size()) Damaged("it ends too early");
    std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view Bytes() { return Take(Int()); }
  size_t left() const { return bytes_.size(); }

  [[noreturn]] void Damaged(const std::string& what) const {
    Throw(ErrorCode::kParse, "repro: '{}' is damaged: {}", path_, what);
  }

 private:
  const std::string& path_;
  std::string_view bytes_;
};

// ---- Elements, as in memory

void AppendElements(std::string& out, const HostTensor& tensor) {
  static_assert(std::endian::native == std::endian::little, "elements are stored little-endian");
  PutBytes(out, {static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes())});
}

HostTensor ReadElements(Reader& reader, const Shape& type) {
  std::string_view bytes = reader.Bytes();
  if (bytes.size() != static_cast<size_t>(type.bytes())) {
    reader.Damaged(fmt::format("an input of {} has {} bytes", type.to_string(), bytes.size()));
  }
  return HostTensor::Copy(type, bytes.data());
}

// ---- Saving

std::string Encode(const Repro& repro) {
  std::string payload;
  PutBytes(payload, Serialize(repro.graph));
  PutInt(payload, repro.inputs.size());
  for (const HostTensor& input : repro.inputs) AppendElements(payload, input);
  PutInt(payload, repro.values.size());
  for (GraphValue value : repro.values) {
    PutInt(payload, static_cast<uint64_t>(value.node), 4);
    PutInt(payload, static_cast<uint64_t>(value.index), 4);
  }
  std::string file(kMagic);
  PutInt(file, kVersion, 4);
  PutInt(file, payload.size());
  Hash128 checksum = HashString(payload);
  PutInt(file, checksum.lo);
  PutInt(file, checksum.hi);
  return file + payload;
}

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
      auto id = static_cast<NodeId>(walk.EntryOf(root.node.get(), root.index));
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

Repro Decode(const std::string& path, std::string_view file) {
  Reader header(path, file);
  if (file.substr(0, kMagic.size()) != kMagic) {
    Throw(ErrorCode::kParse, "repro: '{}' is not a repro file", path);
  }
  header.Take(kMagic.size());
  uint64_t version = header.Int(4);
  if (version != kVersion) {
    Throw(ErrorCode::kParse, "repro: '{}' has version {}, this library reads version {}", path,
          version, kVersion);
  }
  uint64_t size = header.Int();
  Hash128 checksum;
  checksum.lo = header.Int();
  checksum.hi = header.Int();
  if (size != header.left()) {
    header.Damaged(fmt::format("it has {} bytes after its header, needs {}", header.left(), size));
  }
  std::string_view payload = header.Take(size);
  if (HashString(payload) != checksum) header.Damaged("its checksum does not match");

  Reader reader(path, payload);
  Repro repro;
  repro.graph = DeserializeGraph(reader.Bytes());
  const Graph& graph = repro.graph;
  if (reader.Int() != graph.inputs().size()) reader.Damaged("it has inputs of another graph");
  for (NodeId id : graph.inputs()) repro.inputs.push_back(ReadElements(reader, graph[id].type()));
  uint64_t count = reader.Int();
  for (uint64_t i = 0; i < count; ++i) {
    GraphValue value{static_cast<NodeId>(reader.Int(4)), static_cast<int32_t>(reader.Int(4))};
    bool good = value.node >= 0 && value.node < graph.size() && value.index >= 0 &&
                value.index < static_cast<int32_t>(graph[value.node].types.size());
    if (!good) reader.Damaged(fmt::format("value {} is not in its graph", i));
    repro.values.push_back(value);
  }
  if (reader.left() != 0) reader.Damaged("there are bytes behind its end");
  return repro;
}

/// Makes the traced nodes again, with their lines.
std::vector<NodePtr> Retrace(const Repro& repro, DeviceId device) {
  std::vector<NodePtr> nodes;
  size_t next_input = 0;
  for (const GraphNode& node : repro.graph.nodes()) {
    if (node.op == &ops::kInput) {
      nodes.push_back(MakeHostLeaf(repro.inputs[next_input++], device, node.location));
      continue;
    }
    std::vector<Value> operands;
    for (GraphValue input : node.inputs) {
      operands.push_back(input.node < 0 ? Value{}
                                        : Value{nodes[static_cast<size_t>(input.node)],
                                                static_cast<uint32_t>(input.index)});
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
  const std::string bytes = Encode(Collect(tensors, device));
  const std::string_view parts[] = {bytes};
  WriteWholeFile(path, parts);
}

void WriteRepro(const std::string& path, const Graph& graph, std::vector<HostTensor> inputs) {
  std::vector<GraphValue> outputs(graph.outputs().begin(), graph.outputs().end());
  const std::string bytes = Encode({graph, std::move(inputs), std::move(outputs)});
  const std::string_view parts[] = {bytes};
  WriteWholeFile(path, parts);
}

std::vector<Tensor> RunRepro(const std::string& path, const Device& device, Location at) {
  LocationScope scope(at);
  Repro repro = Decode(path, ReadFile(path));
  std::vector<NodePtr> nodes = Retrace(repro, device.id());
  auto value_of = [&](GraphValue value) {
    return Value{nodes[static_cast<size_t>(value.node)], static_cast<uint32_t>(value.index)};
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
