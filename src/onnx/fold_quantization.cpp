#include "onnx/fold_quantization.h"

#include <algorithm>
#include <unordered_map>

namespace hammock::onnx {
namespace {

const format::Attribute* Find(const format::Node& node, std::string_view name) {
  auto found = std::ranges::find(node.attributes, name, &format::Attribute::name);
  return found == node.attributes.end() ? nullptr : &*found;
}
int64_t IntOf(const format::Node& node, std::string_view name, int64_t otherwise) {
  const format::Attribute* found = Find(node, name);
  return found ? found->i : otherwise;
}
bool IsOne(const format::Node& node, std::string_view name) {
  const format::Attribute* found = Find(node, name);
  return !found || found->f == 1;
}

bool HasInput(const format::Node& node, size_t i) {
  return i < node.inputs.size() && !node.inputs[i].empty();
}

/// An attribute that the caller of a function gives is not known here.
bool IsKnown(const format::Node& node) {
  return node.domain.empty() && std::ranges::all_of(node.attributes, [](const auto& attribute) {
           return attribute.from_caller.empty();
         });
}

/// Dims come from the file unchecked, so they are not multiplied.
bool IsNumber(const format::Tensor& tensor) {
  return tensor.dims.empty() || (tensor.dims.size() == 1 && tensor.dims[0] == 1);
}

class Folder {
 public:
  explicit Folder(std::vector<format::Node>& nodes) : nodes_(nodes) {}

  explicit Folder(format::Graph& graph) : nodes_(graph.nodes) {
    for (const format::ValueInfo& input : graph.inputs) elements_[input.name] = input.type.element;
    for (const format::Tensor& tensor : graph.initializers) AddConstant(tensor.name, tensor);
  }

  void Run() {
    for (const format::Node& node : nodes_) Note(node);
    for (format::Node& node : nodes_) {
      if (IsKnown(node) && IsFoldable(node)) Fold(node);
      for (format::Attribute& attribute : node.attributes) {
        for (const auto& inner : attribute.graphs) Folder(*inner).Run();
      }
    }
  }

 private:
  void Note(const format::Node& node) {
    if (!IsKnown(node) || node.outputs.size() != 1) return;
    const format::Attribute* value = node.op == "Constant" ? Find(node, "value") : nullptr;
    if (value && value->tensors.size() == 1) AddConstant(node.outputs[0], value->tensors[0]);
    if (node.op == "QuantizeLinear") elements_[node.outputs[0]] = ElementOfResult(node);
    if (node.op == "DequantizeLinear") dequantized_[node.outputs[0]] = &node;
  }

  void AddConstant(const std::string& name, const format::Tensor& tensor) {
    constants_[name] = &tensor;
    elements_[name] = tensor.element;
  }

  /// Of QuantizeLinear: that of its zero point, where it has one.
  int32_t ElementOfResult(const format::Node& node) const {
    if (HasInput(node, 2)) return ElementOf(node.inputs[2]);
    auto element = static_cast<int32_t>(IntOf(node, "output_dtype", format::kUndefined));
    return element == format::kUndefined ? format::kUint8 : element;
  }

  /// kUndefined where it is not known.
  int32_t ElementOf(const std::string& name) const {
    auto found = elements_.find(name);
    return found == elements_.end() ? format::kUndefined : found->second;
  }

  /// Whether an input was dequantised from bytes, by one scale or by one for each slice of `axis`;
  /// -1: by one.
  bool IsQuantized(const std::string& input, int64_t axis) const {
    auto found = dequantized_.find(input);
    if (found == dequantized_.end() || found->second->inputs.size() < 2) return false;
    const format::Node& node = *found->second;
    const bool centred = !HasInput(node, 2);  // the zero point is 0
    auto scale = constants_.find(node.inputs[1]);
    auto zero = centred ? scale : constants_.find(node.inputs[2]);
    if (scale == constants_.end() || zero == constants_.end()) return false;
    const int32_t element = ElementOf(node.inputs[centred ? 0 : 2]);
    if (element != format::kInt8 && element != format::kUint8) return false;
    if (scale->second->element != format::kFloat || Find(node, "output_dtype")) return false;
    if (IntOf(node, "block_size", 0) != 0) return false;
    if (IsNumber(*scale->second)) return IsNumber(*zero->second);
    return axis >= 0 && scale->second->dims.size() == 1 &&
           zero->second->dims == scale->second->dims && IntOf(node, "axis", 1) == axis;
  }

  /// The number of dims of a quantised weight, -1 where it is no constant.
  int64_t RankOf(const std::string& input) const {
    auto found = constants_.find(dequantized_.at(input)->inputs[0]);
    return found == constants_.end() ? -1 : static_cast<int64_t>(found->second->dims.size());
  }

  bool IsFoldable(const format::Node& node) const {
    if (node.inputs.size() < 2 || !IsQuantized(node.inputs[0], -1)) return false;
    const std::string& weight = node.inputs[1];
    if (node.op == "Conv") return IsQuantized(weight, 0) && RankOf(weight) > 2;
    if (node.op == "Gemm") {
      return IsOne(node, "alpha") && IsOne(node, "beta") &&
             IsQuantized(weight, IntOf(node, "transB", 0) ? 0 : 1);
    }
    if (node.op != "MatMul") return false;
    return IsQuantized(weight, -1) || (IsQuantized(weight, 1) && RankOf(weight) == 2);
  }

  void Fold(format::Node& node) const {
    std::vector<std::string> inputs;
    for (const std::string& input : {node.inputs[0], node.inputs[1]}) {
      const format::Node& from = *dequantized_.at(input);
      inputs.insert(inputs.end(), from.inputs.begin(), from.inputs.end());
      if (from.inputs.size() == 2) inputs.emplace_back();
    }
    inputs.insert(inputs.end(), node.inputs.begin() + 2, node.inputs.end());
    node.inputs = std::move(inputs);
    node.domain = kDequantizedDomain;
  }

  std::vector<format::Node>& nodes_;
  std::unordered_map<std::string, const format::Tensor*> constants_;
  std::unordered_map<std::string, int32_t> elements_;
  std::unordered_map<std::string, const format::Node*> dequantized_;
};

}  // namespace

void FoldQuantization(format::Model& model) {
  Folder(model.graph).Run();
  for (format::Function& function : model.functions) Folder(function.nodes).Run();
}

}  // namespace hammock::onnx
