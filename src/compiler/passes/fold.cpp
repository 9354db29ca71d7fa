#include "compiler/passes/fold.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "compiler/passes/graph_editor.h"
#include "hammock/error.h"
#include "hammock/ir/storage_types.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

constexpr int64_t kMostElements = 64;

/// Ops that move elements, and conversions.
bool MovesElements(const OpDef* op) {
  constexpr const OpDef* kOps[] = {
      &ops::kCast,    &ops::kBitcast, &ops::kIota,         &ops::kReshape,     &ops::kBroadcast,
      &ops::kPermute, &ops::kSlice,   &ops::kDynamicSlice, &ops::kUpdateSlice, &ops::kPad,
      &ops::kConcat,  &ops::kFlip,    &ops::kGather,       &ops::kIndexSelect,
  };
  for (const OpDef* other : kOps) {
    if (op == other) return true;
  }
  return false;
}

class Folder {
 public:
  Folder(Graph graph, const Evaluate& evaluate) : editor_(std::move(graph)), evaluate_(evaluate) {}

  Graph Run() {
    for (NodeId id : editor_.source().ids()) {
      GraphNode node = editor_.Take(id);
      HostTensor value = ValueOf(node);
      if (auto number = IsConstant(node) ? std::nullopt : CommonElement(value)) {
        editor_.Replace(id, Fill(*number, node.type()));
      } else {
        editor_.Keep(id, std::move(node));
      }
      SetLast(std::move(value));
    }
    return editor_.Finish();
  }

 private:
  bool Known(GraphValue value) const { return value.node && known_[value.node] >= 0; }
  const HostTensor& KnownValue(GraphValue value) const { return values_[known_[value.node]]; }
  /// Of the node that was appended last.
  void SetLast(HostTensor value) {
    known_.resize(editor_.graph().size(), -1);
    if (!value.defined()) return;
    known_.back() = static_cast<int32_t>(values_.size());
    values_.push_back(std::move(value));
  }

  /// A constant, or one repeated: there is nothing simpler.
  bool IsConstant(const GraphNode& node) const {
    if (node.op == &ops::kConstant) return true;
    return (node.op == &ops::kBroadcast || node.op == &ops::kReshape) &&
           editor_.OpOf(node.inputs[0]) == &ops::kConstant;
  }

  bool MayFold(const GraphNode& node) const {
    if (node.types.size() != 1 || node.type().numel() > kMostElements) return false;
    if (node.inputs.empty() && node.op != &ops::kIota) return false;
    if (IsStorage(node.type().dtype())) return false;  // bits that no constant is made of
    if (node.op->IsComposite() || node.op == &ops::kBarrier) return false;
    bool floats = IsFloat(node.type().dtype());
    for (GraphValue input : node.inputs) {
      if (!Known(input)) return false;
      floats = floats || IsFloat(editor_.TypeOf(input).dtype());
    }
    for (const Attr& attr : node.attrs) {
      if (attr.kind() == Attr::Kind::kGraph) return false;
    }
    if (node.op->effect != Effect::kPure || !Fits(node)) return false;
    return !floats || MovesElements(node.op) || InfoOf(node.op->scalar).exact;
  }

  /// Casts of floats that the integer type does not hold depend on the machine.
  bool Fits(const GraphNode& node) const {
    if (node.op != &ops::kCast || !IsIntegral(node.type().dtype())) return true;
    const DTypeInfo& to = InfoOf(node.type().dtype());
    const HostTensor& from = KnownValue(node.inputs[0]);
    if (to.dtype == DType::kBool || !IsFloat(from.dtype())) return true;
    for (int64_t i = 0; i < from.numel(); ++i) {
      double x = from.at(i).ToDouble();
      if (!(x >= to.lowest && x < to.highest)) return false;
    }
    return true;
  }

  /// The value of a node, undefined where it is not known.
  HostTensor ValueOf(const GraphNode& node) const {
    if (node.op == &ops::kConstant) {
      return HostTensor::From(node.attrs[0].scalar().To(node.attrs[1].dtype()));
    }
    if (!MayFold(node)) return {};
    std::vector<HostTensor> inputs;
    for (GraphValue input : node.inputs) inputs.push_back(KnownValue(input));
    const Graph alone =
        Alone(node, [&](GraphValue operand) { return KnownValue(operand).shape(); });
    try {
      return evaluate_(alone, inputs)[0];
    } catch (const Error&) {
      return {};
    }
  }

  /// The element that all others equal bit for bit; none for a NaN, whose bits text does not keep.
  static std::optional<Scalar> CommonElement(const HostTensor& value) {
    if (!value.defined() || value.numel() == 0) return std::nullopt;
    size_t size = static_cast<size_t>(value.bytes() / value.numel());
    const char* bytes = static_cast<const char*>(value.data());
    for (int64_t i = 1; i < value.numel(); ++i) {
      if (std::memcmp(bytes, bytes + static_cast<size_t>(i) * size, size) != 0) return std::nullopt;
    }
    Scalar element = value.at(0);
    if (element.IsFloating() && std::isnan(element.ToDouble())) return std::nullopt;
    return element;
  }

  GraphValue Fill(const Scalar& number, const Shape& type) {
    GraphValue constant = editor_.Constant(number, type.dtype());
    if (type.rank() == 0) return constant;
    SetLast(HostTensor::From(number));
    return type.numel() == 1 ? editor_.Reshape(constant, type.sizes())
                             : editor_.Broadcast(constant, type.sizes());
  }

  GraphEditor editor_;
  const Evaluate& evaluate_;
  NodeMap<int32_t> known_;  // by node of the new graph, in values_; -1: not known
  std::vector<HostTensor> values_;
};

}  // namespace

Graph Fold(Graph graph, const Evaluate& evaluate) {
  return Folder(std::move(graph), evaluate).Run();
}

}  // namespace hammock
