#include "hammock/lazy/lowering_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/throw.h"
#include "hammock/lazy/backend_interface.h"
#include "ir/graph_node_of.h"
#include "ir/primitives.h"
#include "runtime/cache/walk.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/devices/backend_registry.h"

namespace hammock::lazy {

Computation::Computation(std::string name, Graph graph, BackendDevice device)
    : name_(std::move(name)),
      graph_(std::make_shared<Graph>(std::move(graph))),
      device_(std::move(device)) {
  std::vector<std::string> names;
  std::vector<VaryingDim> varying;
  auto add_varying = [&](GraphValue value, bool of_result, size_t index) {
    auto at = graph_->dim_exprs.lower_bound({value.node, value.index, 0});
    for (; at != graph_->dim_exprs.end(); ++at) {
      auto [node, output, dim] = at->first;
      if (node != value.node || output != value.index) return;
      varying.push_back({of_result, index, dim, at->second});
    }
  };
  names.reserve(graph_->inputs().size());
  parameter_shapes_.reserve(graph_->inputs().size());
  result_shapes_.reserve(graph_->outputs().size());
  for (NodeId id : graph_->inputs()) {
    add_varying({id, 0}, false, names.size());
    names.push_back("p" + std::to_string(names.size()));
    parameter_shapes_.push_back((*graph_)[id].type());
  }
  for (GraphValue value : graph_->outputs()) {
    add_varying(value, true, result_shapes_.size());
    result_shapes_.push_back(graph_->TypeOf(value));
  }
  for (const DimParam& param : graph_->dim_params) sizes_.push_back(param.value);
  parameter_names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
  varying_ = std::make_shared<const std::vector<VaryingDim>>(std::move(varying));
}

Computation::Computation(const Computation& general, std::span<const int64_t> sizes)
    : derived_sizes(general.derived_sizes),
      aliases(general.aliases),
      devices(general.devices),
      in_mark_step(general.in_mark_step),
      name_(general.name_),
      graph_(general.graph_),
      device_(general.device_),
      sizes_(sizes.begin(), sizes.end()),
      parameter_shapes_(general.parameter_shapes_),
      parameter_names_(general.parameter_names_),
      result_shapes_(general.result_shapes_),
      varying_(general.varying_) {
  for (const VaryingDim& varying : *varying_) {
    Shape& shape = (varying.of_result ? result_shapes_ : parameter_shapes_)[varying.index];
    Dims dims = shape.sizes();
    dims[varying.dim] = varying.size.Evaluate(sizes_);
    shape = shape.With(dims);
  }
}
Computation::~Computation() = default;
std::string Computation::to_string() const { return ToText(*graph_); }

void Computation::SetLocations(const Graph& traced) {
  Graph& graph = const_cast<Graph&>(*graph_);  // in place: artifacts may refer to it
  for (NodeId id : graph.ids()) {
    GraphNode& node = graph.mutable_node(id);
    node.location = traced.Contains(node.origin) ? traced[node.origin].location : 0;
  }
}

namespace Util {

std::vector<const Node*> ComputePostOrder(std::span<const Node* const> nodes, EmissionMap* emap) {
  std::vector<const Node*> order;
  std::vector<const Node*> stack;
  for (const Node* root : nodes) {
    stack.push_back(root);
    while (!stack.empty()) {
      const Node* node = stack.back();
      EmitStatus& status = (*emap)[node];
      if (status == kEmitted) {
        stack.pop_back();
        continue;
      }
      if (status == kEmitting) {
        status = kEmitted;
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      status = kEmitting;
      auto operands = node->operands();
      for (size_t i = operands.size(); i-- > 0;) {
        if (!operands[i].node) continue;
        auto found = emap->find(operands[i].node);
        if (found == emap->end() || found->second == kNotEmitted) {
          stack.push_back(operands[i].node);
        } else if (found->second == kEmitting &&
                   std::find(stack.begin(), stack.end(), operands[i].node) != stack.end()) {
          Throw(ErrorCode::kVerify, "Graph loop found at {}", operands[i].node->to_string());
        }
      }
    }
  }
  return order;
}

std::vector<const Node*> ComputePostOrder(const Node* node, EmissionMap* emap) {
  return ComputePostOrder(std::span(&node, 1), emap);
}

std::vector<const Node*> ComputePostOrder(std::span<const Node* const> nodes) {
  EmissionMap emap;
  return ComputePostOrder(nodes, &emap);
}

size_t GetGraphSize(std::span<const Node* const> nodes) { return ComputePostOrder(nodes).size(); }

}  // namespace Util

LoweringContext::LoweringContext(std::string name, BackendDevice device)
    : name_(std::move(name)), device_(std::move(device)) {}

LoweringContext::LoweringContext(std::string name, BackendDevice device,
                                 std::span<const Node* const> post_order,
                                 Util::EmissionMap emit_status)
    : name_(std::move(name)), device_(std::move(device)), emit_status_(std::move(emit_status)) {
  for (const Node* node : post_order) Lower(node);
}
LoweringContext::~LoweringContext() = default;

namespace {

/// A leaf's data is what its backend says it is.
BackendDataPtr DataOf(const BackendDevice& device, const Node& node, int output) {
  if (node.IsLeaf()) {
    for (const DeviceEntry* entry : AllDevices()) {
      if (entry->device != device) continue;
      return CallBackend(*entry, "GetComputationDataFromNode",
                         [&](auto& backend) { return backend.GetComputationDataFromNode(&node); });
    }
  }
  return node.slots()[output].data;
}

}  // namespace

void LoweringContext::Lower(const Node* node) {
  if (values_.contains(node)) return;
  std::vector<GraphValue> values;
  if (IsAvailable(*node)) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      values.push_back(graph_.AddInput(node->shape(i)));
      graph_.mutable_node(values.back().node).location = node->location();
      parameters_.push_back(DataOf(device_, *node, i));
    }
  } else {
    NodeId id = graph_.Append(GraphNodeOf(*node, [&](const Node::Operand& operand) {
      return Emitted({operand.node, operand.index});
    }));
    for (int i = 0; i < node->num_outputs(); ++i) values.push_back({id, i});
  }
  values_[node] = std::move(values);
  ++emitted_;
}

GraphValue LoweringContext::Emitted(const Output& output) {
  auto found = values_.find(output.node);
  if (found == values_.end()) {
    for (const Node* node : Util::ComputePostOrder(output.node, &emit_status_)) Lower(node);
    found = values_.find(output.node);
  }
  HAMMOCK_CHECK(found != values_.end() && output.index < found->second.size(),
                "output {} of {} was not lowered", output.index, output.node->to_string());
  return found->second[output.index];
}

size_t LoweringContext::AddResult(const Output& output) {
  if (!output.node) Throw(ErrorCode::kValue, "AddResult: the output is empty");
  graph_.AddOutput(Emitted(output));
  return graph_.outputs().size() - 1;
}

void LoweringContext::AddParameter(const Output& output, size_t index, const Shape& shape,
                                   const std::string& name) {
  if (index != graph_.inputs().size()) {
    Throw(ErrorCode::kValue, "AddParameter: '{}' has index {}, the next one is {}", name, index,
          graph_.inputs().size());
  }
  auto& values = values_[output.node];
  values.resize(std::max<size_t>(values.size(), output.index + 1));
  values[output.index] = graph_.AddInput(shape);
  parameters_.push_back(nullptr);
}

namespace {

/// Whether two values have one type at all values of the dim parameters.
bool AlwaysSameType(const Graph& graph, GraphValue a, GraphValue b) {
  if (graph.TypeOf(a) != graph.TypeOf(b)) return false;
  auto expr = [&](GraphValue value, int dim) {
    auto found = graph.dim_exprs.find({value.node, value.index, dim});
    return found == graph.dim_exprs.end() ? DimExpr{} : found->second;
  };
  for (int dim = 0; dim < graph.TypeOf(a).rank(); ++dim) {
    if (expr(a, dim) != expr(b, dim)) return false;
  }
  return true;
}

}  // namespace

void LoweringContext::SetUpAlias(int output_index, int param_index, bool must_alias) {
  bool fits =
      output_index >= 0 && output_index < static_cast<int>(graph_.outputs().size()) &&
      param_index >= 0 && param_index < static_cast<int>(graph_.inputs().size()) &&
      AlwaysSameType(graph_, graph_.outputs()[output_index], {graph_.inputs()[param_index], 0});
  if (fits) {
    aliases_.emplace_back(output_index, param_index);
  } else if (must_alias) {
    Throw(ErrorCode::kShapeMismatch, "SetUpAlias: result {} cannot overwrite parameter {}",
          output_index, param_index);
  }
}

bool LoweringContext::CheckResultShape(const BackendDataPtr& parameter, size_t result_index) {
  return parameter && result_index < graph_.outputs().size() &&
         parameter->shape() == graph_.TypeOf(graph_.outputs()[result_index]);
}

ComputationPtr LoweringContext::Build() {
  auto computation = std::make_shared<Computation>(name_, std::move(graph_), device_);
  computation->aliases = std::move(aliases_);
  return computation;
}

}  // namespace hammock::lazy
