// Compilation, capabilities and saved computations of PluginBackend.
#include <algorithm>

#include "base/of_thread.h"
#include "hammock/config.h"
#include "hammock/lazy/saved_computation.h"
#include "plugins/graph_bytes.h"
#include "plugins/plugin_calls.h"

namespace hammock::plugins {

using lazy::Capability;

namespace {

/// The data that HammockCompilation points to.
struct Compilation {
  Compilation(const lazy::Computation& computation, std::string bytes)
      : graph(computation.graph()),
        name(computation.name()),
        derived(computation.derived_sizes),
        artifact(std::move(bytes)),
        ordinal(computation.device().ordinal()),
        in_mark_step(computation.in_mark_step) {
    for (auto [result, parameter] : computation.aliases) aliases.push_back({result, parameter});
    compiled.struct_size = sizeof(compiled);
  }

  template <class F>
  HammockStatus With(F&& call) {
    std::vector<std::vector<int32_t>> factors;
    std::vector<HammockDerivedSize> sizes;
    for (const lazy::DerivedSize& size : derived) {
      const auto& list = factors.emplace_back(size.factors.begin(), size.factors.end());
      sizes.push_back({size.coefficient, list.size(), list.data(), size.offset, size.divisor});
    }
    const HammockCompilation request = {sizeof(HammockCompilation),
                                        in_mark_step,
                                        ordinal,
                                        name.c_str(),
                                        graph.get(),
                                        aliases.size(),
                                        aliases.data(),
                                        sizes.size(),
                                        sizes.data()};
    return call(request);
  }

  GraphBytes graph;
  std::string name;
  std::vector<HammockAlias> aliases;
  std::vector<lazy::DerivedSize> derived;
  std::string artifact;
  int64_t ordinal;
  bool in_mark_step;
  HammockCompiled compiled = {};
};

}  // namespace

void PluginBackend::Adopt(lazy::Computation& computation, const HammockCompiled& compiled,
                          const char* function) const {
  if (compiled.executable == 0) {
    Throw<InternalError>(ErrorCode::kInternal, "{} of {} gave no executable", function,
                         table_.name);
  }
  computation.artifact = std::make_shared<Executable>(*this, compiled.executable);
  computation.artifact_bytes = std::max<int64_t>(compiled.code_bytes, 0);
  computation.run_bytes = std::max<int64_t>(compiled.run_bytes, 0);
}

ComputationPtr PluginBackend::CompileBy(const char* function, const ComputationPtr& computation,
                                        std::string artifact) const {
  Compilation state(*computation, std::move(artifact));
  Call(function, state, [](const HammockPlugin& table, Compilation& call, HammockError* error) {
    return call.With([&](const HammockCompilation& request) {
      if (call.artifact.empty()) {
        return table.compile(table.self, &request, &call.compiled, error);
      }
      const HammockBytes bytes = {call.artifact.data(), call.artifact.size()};
      return table.deserialize(table.self, &request, bytes, &call.compiled, error);
    });
  });
  Adopt(*computation, state.compiled, function);
  return computation;
}

std::vector<ComputationPtr> PluginBackend::Compile(std::vector<ComputationPtr> instances) const {
  for (const ComputationPtr& instance : instances) CompileBy("compile", instance, "");
  return instances;
}

bool PluginBackend::SupportsDimParams(const BackendDevice&) const {
  return Has(HAMMOCK_DIM_PARAMS) && table_.instantiate;
}

ComputationPtr PluginBackend::Instantiate(const ComputationPtr& general,
                                          std::span<const int64_t> sizes) const {
  struct State {
    HammockExecutable executable;
    std::vector<int64_t> sizes;
    HammockCompiled compiled = {};
  } state{ExecutableOf(general), {sizes.begin(), sizes.end()}};
  state.compiled.struct_size = sizeof(state.compiled);
  Call("instantiate", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    return table.instantiate(table.self, call.executable, call.sizes.size(), call.sizes.data(),
                             &call.compiled, error);
  });
  auto instance = std::make_shared<lazy::Computation>(*general, sizes);
  Adopt(*instance, state.compiled, "instantiate");
  return instance;
}

// ---- Capabilities

namespace {

/// Answers about a graph, with all that an answer may depend on, so that it serves any graph that
/// has the same node.
struct Answers {
  struct Node {
    const OpDef* op;
    SharedList<Attr> attrs;
    SharedList<Shape> types;
    std::vector<Shape> inputs;
  };

  bool Fits(const PluginBackend* backend, int64_t device) const {
    return plugin == backend && ordinal == device && generation == config::Generation();
  }
  /// Whether the node with this id is the same.
  bool Has(const Graph& graph, NodeId id) const {
    const auto index = static_cast<size_t>(id.number());
    if (index >= nodes.size()) return false;
    const GraphNode& node = graph[id];
    const Node& known = nodes[index];
    if (known.op != node.op || known.inputs.size() != node.inputs.size()) return false;
    if (known.types != node.types || known.attrs != node.attrs) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (known.inputs[i] != TypeOf(graph, node.inputs[i])) return false;
    }
    return true;
  }
  void Remember(const Graph& graph) {
    nodes.clear();
    for (const GraphNode& node : graph.nodes()) {
      std::vector<Shape> inputs;
      for (GraphValue input : node.inputs) inputs.push_back(TypeOf(graph, input));
      nodes.push_back({node.op, node.attrs, node.types, std::move(inputs)});
    }
  }
  static Shape TypeOf(const Graph& graph, GraphValue value) {
    return value.node ? graph.TypeOf(value) : Shape();
  }

  const PluginBackend* plugin = nullptr;
  int64_t ordinal = 0;
  uint64_t generation = 0;
  std::vector<Node> nodes;
  std::vector<Capability> verdicts;
};

HammockStatus Answer(void* context, int32_t node, uint32_t verdict, const char* reason) noexcept {
  auto& verdicts = *static_cast<std::vector<Capability>*>(context);
  if (node < 0 || static_cast<size_t>(node) >= verdicts.size() || verdict > HAMMOCK_REFUSE) {
    return HAMMOCK_VALUE_ERROR;
  }
  constexpr Capability::Verdict kVerdicts[] = {
      Capability::Verdict::kRun, Capability::Verdict::kExpand, Capability::Verdict::kRefuse};
  try {
    verdicts[static_cast<size_t>(node)] = {kVerdicts[verdict], reason ? reason : ""};
    return HAMMOCK_OK;
  } catch (...) {
    return HAMMOCK_OUT_OF_MEMORY;
  }
}

/// The first dtype of a node's values, or of its bodies', that `knows` does not.
template <class Knows>
std::optional<DType> UnknownDType(const Graph& graph, const GraphNode& node, const Knows& knows) {
  for (const Shape& type : node.types) {
    if (!knows(type.dtype())) return type.dtype();
  }
  for (GraphValue input : node.inputs) {
    if (input.node && !knows(graph.TypeOf(input).dtype())) return graph.TypeOf(input).dtype();
  }
  for (const Attr& attr : node.attrs) {
    if (attr.kind() != Attr::Kind::kGraph) continue;
    for (const GraphNode& inner : attr.graph().nodes()) {
      if (auto unknown = UnknownDType(attr.graph(), inner, knows)) return unknown;
    }
  }
  return std::nullopt;
}

}  // namespace

Capability PluginBackend::QueryCapability(const Graph& graph, NodeId node,
                                          const BackendDevice& device) const {
  const auto knows = [this](DType dtype) { return Knows(dtype); };
  if (const auto unknown = UnknownDType(graph, graph[node], knows)) {
    const uint32_t minor = MinorOf(*unknown);
    return {Capability::Verdict::kRefuse,
            fmt::format("{} has version {}.{} of the plug-in interface, storage types ({}) came "
                        "with 1.{}",
                        table_.name, table_.version_major, table_.version_minor,
                        minor == 2 ? "f8, i4" : "i2", minor)};
  }
  if (!table_.capabilities) {
    return BackendImplInterface::QueryCapability(graph, node, device);
  }
  // The runtime asks for one node after another of the same graph.
  auto& answers = OfThread<Answers>();
  const auto index = static_cast<size_t>(node.number());
  if (answers.Fits(this, device.ordinal()) && answers.Has(graph, node)) {
    return answers.verdicts[index];
  }
  struct State {
    GraphBytes graph;
    std::vector<Capability> verdicts;
    int64_t ordinal;
  } state{GraphBytes(graph), {}, device.ordinal()};
  for (NodeId id : graph.ids()) {
    state.verdicts.push_back(BackendImplInterface::QueryCapability(graph, id, device));
  }
  const uint64_t generation = config::Generation();
  answers.plugin = nullptr;
  Call("capabilities", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    return table.capabilities(table.self, call.ordinal, call.graph.get(), {&call.verdicts, Answer},
                              error);
  });
  answers.Remember(graph);
  answers.verdicts = std::move(state.verdicts);
  answers.ordinal = device.ordinal();
  answers.generation = generation;
  answers.plugin = this;
  return answers.verdicts[index];
}

// ---- Saved computations

std::string PluginBackend::Fingerprint(const BackendDevice& device) const {
  struct State {
    Collected<std::string> text;
    int64_t ordinal;
  } state{
      Collected(fmt::format("plug-in {} {}: ", table_.name, table_.version ? table_.version : "")),
      device.ordinal()};
  if (!table_.fingerprint) return std::move(state.text.value());
  Call("fingerprint", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    return table.fingerprint(table.self, call.ordinal, Into(call.text), error);
  });
  state.text.Check();
  return std::move(state.text.value());
}

std::string PluginBackend::SerializeComputation(const ComputationPtr& computation) const {
  struct State {
    HammockExecutable executable;
    Collected<std::string> bytes;
  } state{ExecutableOf(computation), {}};
  if (!table_.fingerprint) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "{} saves no computations", table_.name);
  }
  lazy::SavedComputation saved(*computation, Fingerprint(computation->device()));
  if (table_.serialize && table_.deserialize) {
    Call("serialize", state, [](const HammockPlugin& table, State& call, HammockError* error) {
      return table.serialize(table.self, call.executable, Into(call.bytes), error);
    });
    state.bytes.Check();
    saved.artifact = std::move(state.bytes.value());
  }
  return saved.ToBytes();
}

ComputationPtr PluginBackend::DeserializeComputation(std::string_view bytes,
                                                     const BackendDevice& device) const {
  lazy::SavedComputation saved = lazy::SavedComputation::Parse(bytes);
  ComputationPtr computation = saved.ToComputation(device);
  const bool loads = table_.deserialize && !saved.artifact.empty();
  return CompileBy(loads ? "deserialize" : "compile", computation,
                   loads ? std::move(saved.artifact) : "");
}

}  // namespace hammock::plugins
