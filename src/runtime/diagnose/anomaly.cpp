#include "runtime/diagnose/anomaly.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/anomaly.h"
#include "hammock/config.h"
#include "ir/primitives.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/step/executor.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

constinit config::Option<bool> config::kDebugNans({
    .name = "debug_nans",
    .default_value = false,
    .doc = "Fail a step whose results have a NaN or an infinity that did not come with its "
           "inputs, with an error that names the op, as an AnomalyGuard does, on all threads; "
           "reads every result.",
});
namespace {

constinit std::atomic<int> guards = 0;
constinit thread_local bool tls_searching = false;

// The outermost frame of what a gradient recorded; no part of the path of a module.
constexpr std::string_view kGradientFrame = "__gradient of ";

// ---- Values

enum class Kind : uint8_t { kFinite, kInfinity, kNan };

/// The worst that a tensor has, and where it is first.
struct Finding {
  Kind kind = Kind::kFinite;
  int64_t index = 0;
};

template <class T>
Finding WorstOf(std::span<const T> values) {
  Finding worst;
  for (size_t i = 0; i < values.size(); ++i) {
    auto value = static_cast<double>(values[i]);
    if (std::isfinite(value)) continue;
    if (std::isnan(value)) return {Kind::kNan, static_cast<int64_t>(i)};
    if (worst.kind == Kind::kFinite) worst = {Kind::kInfinity, static_cast<int64_t>(i)};
  }
  return worst;
}

Finding WorstOf(const HostTensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF16:
      return WorstOf(tensor.values<Half>());
    case DType::kBF16:
      return WorstOf(tensor.values<BFloat16>());
    case DType::kF32:
      return WorstOf(tensor.values<float>());
    case DType::kF64:
      return WorstOf(tensor.values<double>());
    default:
      return {};
  }
}

std::string IndexText(int64_t flat, const Dims& sizes) {
  Dims index = sizes;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return ToString(index);
}

/// The operand's value where the result is not finite; its range if the sizes differ.
std::string OperandText(const HostTensor& operand, const Shape& result, int64_t index) {
  if (operand.shape().sizes() == result.sizes()) {
    return fmt::format("{:g}", operand.at(index).ToDouble());
  }
  if (operand.numel() == 1) return fmt::format("{:g}", operand.at(0).ToDouble());
  double low = operand.numel() > 0 ? operand.at(0).ToDouble() : 0, high = low;
  for (int64_t i = 1; i < operand.numel(); ++i) {
    double value = operand.at(i).ToDouble();
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  return fmt::format("{} from {:g} to {:g}", operand.shape().to_string(), low, high);
}

// ---- The step once more, all of its values kept

struct CopiedNode {
  const OpDef* op = nullptr;
  LocationId location = 0;
  NodePtr node;
  std::vector<std::pair<size_t, uint32_t>> inputs;  // copies and their outputs
  bool given = false;                               // an argument of the step
};

class StepCopy {
 public:
  explicit StepCopy(const Step& step) {
    std::lock_guard lock(Executor().graph_mutex);
    if (step.recipe) {
      CopyGraph(step);
    } else {
      CopyOrder(step);
    }
  }

  const std::vector<CopiedNode>& nodes() const { return nodes_; }
  /// The copy of each result of the step.
  const std::vector<std::pair<size_t, uint32_t>>& results() const { return results_; }

  void Compute() {
    std::vector<Tensor> tensors;
    std::vector<HostTensor*> into;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NodePtr& node = nodes_[i].node;
      for (uint32_t k = 0; k < static_cast<uint32_t>(node->num_outputs()); ++k) {
        if (!IsFloat(node->shape(static_cast<int>(k)).dtype())) continue;
        HostTensor& value = values_[{i, k}];
        if (&node->op() == &ops::kScalarLeaf || &node->op() == &ops::kConstant) {
          value = HostTensor::From(node->attrs()[0].scalar());
        } else {
          tensors.push_back(Tensor::FromValue({node, k}));
          into.push_back(&value);
        }
      }
    }
    std::vector<HostTensor> read = Executor().Read(tensors, "anomaly");
    for (size_t i = 0; i < read.size(); ++i) *into[i] = std::move(read[i]);
  }
  /// Null unless it is of floats.
  const HostTensor* value(std::pair<size_t, uint32_t> output) const {
    auto found = values_.find(output);
    return found == values_.end() ? nullptr : &found->second;
  }
  Kind kind(std::pair<size_t, uint32_t> output) const {
    const HostTensor* found = value(output);
    return found ? WorstOf(*found).kind : Kind::kFinite;
  }

 private:
  void CopyOrder(const Step& step) {
    std::unordered_map<const Node*, size_t> numbers;  // looked up, never iterated
    for (Node* node : step.order) {
      numbers[node] = nodes_.size();
      // Arguments, and what another step has computed meanwhile; what one will compute is copied.
      const BackendDataPtr& data = node->slots()[0].data;
      if (node->IsLeaf() || (data && data->IsReady())) {
        nodes_.push_back({&node->op(), node->location(), NodePtr(node), {}, true});
        continue;
      }
      std::vector<std::pair<size_t, uint32_t>> inputs;
      std::vector<Value> operands;
      for (const Node::Operand& operand : node->operands()) {
        operands.emplace_back();
        if (!operand.node) continue;
        size_t number = numbers.at(operand.node);
        inputs.emplace_back(number, operand.index);
        operands.back() = {nodes_[number].node, operand.index};
      }
      std::vector<Shape> types;
      for (int i = 0; i < node->num_outputs(); ++i) types.push_back(node->shape(i));
      nodes_.push_back(
          {&node->op(), node->location(),
           Node::Make(node->op(), operands, node->attrs(), types, node->device(), node->location()),
           std::move(inputs), false});
    }
    for (const lazy::BackendData* placeholder : step.placeholders) {
      for (const NodePtr& node : step.output_nodes) {
        for (int i = 0; i < node->num_outputs(); ++i) {
          if (node->slots()[i].data.get() != placeholder) continue;
          results_.emplace_back(numbers.at(node.get()), static_cast<uint32_t>(i));
        }
      }
    }
  }

  void CopyGraph(const Step& step) {
    const Graph& graph = step.compiled->traced;
    DeviceId device = step.compiled->device->id;
    size_t next_argument = 0;
    for (NodeId id : graph.ids()) {
      const GraphNode& node = graph[id];
      if (node.op == &ops::kInput) {
        nodes_.push_back({node.op,
                          node.location,
                          MakeDataLeaf(step.arguments[next_argument++], device, node.location),
                          {},
                          true});
        continue;
      }
      std::vector<std::pair<size_t, uint32_t>> inputs;
      std::vector<Value> operands;
      for (GraphValue input : node.inputs) {
        operands.emplace_back();
        if (!input.node) continue;
        inputs.emplace_back(input.node.number(), input.index);
        operands.back() = {nodes_[inputs.back().first].node, inputs.back().second};
      }
      bool constant = node.op == &ops::kConstant;
      nodes_.push_back({node.op, node.location,
                        Node::Make(*node.op, operands, node.attrs, node.types,
                                   constant ? kNoDevice : device, node.location),
                        std::move(inputs), false});
    }
    for (GraphValue output : graph.outputs()) {
      results_.emplace_back(output.node.number(), output.index);
    }
  }

  std::vector<CopiedNode> nodes_;
  std::vector<std::pair<size_t, uint32_t>> results_;
  std::map<std::pair<size_t, uint32_t>, HostTensor> values_;
};

// ---- The op

/// Goes back from a value along operands that are as bad, to the op that made it so.
std::optional<std::pair<size_t, uint32_t>> MakerOf(const StepCopy& copy,
                                                   std::pair<size_t, uint32_t> at) {
  Kind kind = copy.kind(at);
  if (kind == Kind::kFinite) return std::nullopt;
  for (;;) {
    const CopiedNode& node = copy.nodes()[at.first];
    if (node.given || node.inputs.empty()) return std::nullopt;
    auto bad = std::ranges::find_if(node.inputs,
                                    [&](const auto& input) { return copy.kind(input) == kind; });
    if (bad == node.inputs.end()) return at;
    at = *bad;
  }
}

/// The op as the user knows it: "log", "log in cross_entropy", "the gradient of sqrt (div)".
struct OpName {
  explicit OpName(const CopiedNode& node) : text(node.op->name()) {
    std::string caller = CalledOp(node.location);
    for (const ModuleFrame& frame : FramesOf(node.location)) {
      if (!frame.label.starts_with(kGradientFrame)) continue;
      std::string forward = frame.label.substr(kGradientFrame.size());
      bool is_part = !caller.empty() && caller != forward;
      text = fmt::format("the gradient of {}{} ({})", forward, is_part ? " in " + caller : "",
                         node.op->name());
      backward = fmt::format("; backward() was called at {}", frame.called_at);
      return;
    }
    if (!caller.empty() && caller != text) text += " in " + caller;
  }

  std::string text;
  std::string backward;  // where that was called, for a gradient
};

std::shared_ptr<Error> ErrorOf(const StepCopy& copy, std::pair<size_t, uint32_t> at) {
  const CopiedNode& node = copy.nodes()[at.first];
  const HostTensor& value = *copy.value(at);
  Finding finding = WorstOf(value);
  std::string operands;
  for (const auto& input : node.inputs) {
    const HostTensor* operand = copy.value(input);
    if (!operand) continue;
    operands += operands.empty() ? "" : ", ";
    operands += OperandText(*operand, value.shape(), finding.index);
  }
  OpName name(node);
  auto error = std::make_shared<ValueError>(
      ErrorCode::kExecute, fmt::format("{} made {} at {} of {}, where it was given {}{}", name.text,
                                       finding.kind == Kind::kNan ? "a NaN" : "an infinity",
                                       IndexText(finding.index, value.shape().sizes()),
                                       value.shape().to_string(), operands, name.backward));
  error->SetWhere(WhereText(node.location));
  return error;
}

bool HasBadResult(const Step& step, std::span<const BackendDataPtr> results) {
  for (const BackendDataPtr& result : results) {
    if (!IsFloat(result->shape().dtype())) continue;
    result->WaitReady();
    if (result->error()) return false;
    HostTensor host = Download(*step.compiled->device, std::span(&result, 1))[0];
    if (WorstOf(host).kind != Kind::kFinite) return true;
  }
  return false;
}

}  // namespace

bool ChecksValues() {
  bool on = guards.load(std::memory_order_relaxed) > 0 || config::Get<config::kDebugNans>();
  return on && !tls_searching;
}

std::optional<Anomaly> FindAnomaly(const Step& step, std::span<const BackendDataPtr> results) {
  if (!HasBadResult(step, results)) return std::nullopt;
  struct Searching {
    Searching() { tls_searching = true; }
    ~Searching() { tls_searching = false; }
  } searching;
  StepCopy copy(step);
  copy.Compute();
  for (const auto& result : copy.results()) {
    if (auto maker = MakerOf(copy, result)) {
      NodeId number(maker->first);
      NodeId origin = step.recipe ? step.compiled->traced[number].origin : number;
      return Anomaly{ErrorOf(copy, *maker), origin};
    }
  }
  return std::nullopt;
}

LocationId GradientLocation(LocationId forward, const std::string& op, LocationId backward) {
  return InsideFrame(forward, {std::string(kGradientFrame) + op, WhereText(backward)});
}

AnomalyGuard::AnomalyGuard() { guards.fetch_add(1, std::memory_order_relaxed); }

AnomalyGuard::~AnomalyGuard() {
  try {
    std::vector<Value> roots = Executor().PendingRoots(Context(), kNoDevice);
    Executor().Sync(roots, {.trigger = "anomaly", .wait = true, .raise_failed = false});
  } catch (...) {
    // The error is stored with its values, and raised where they are read.
  }
  guards.fetch_sub(1, std::memory_order_relaxed);
}

bool AnomalyGuard::is_enabled() { return ChecksValues(); }

}  // namespace hammock
