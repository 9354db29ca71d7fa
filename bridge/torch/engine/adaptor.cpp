#include "engine/adaptor.h"

#include <hammock/autograd.h>
#include <hammock/ops.h>

#include <unordered_map>

namespace hammock_torch {

using hammock::Any;
using hammock::Tensor;

std::vector<Tensor> AtenCall::tensors(size_t i) const {
  std::vector<Tensor> result;
  for (const Any& item : values_.at(i).ToList()) result.push_back(item.ToTensor());
  return result;
}

std::vector<int64_t> AtenCall::ints(size_t i) const {
  const Any& value = values_.at(i);
  if (value.IsNone()) return {};
  return value.IsSequence() ? value.ToInts() : std::vector<int64_t>{value.ToInt()};
}

hammock::Dims AtenCall::dims(size_t i, int rank) const {
  std::vector<int64_t> values = ints(i);
  if (values.size() == 1) return hammock::Dims::Filled(rank, values[0]);
  return values;
}

hammock::DType AtenCall::dtype(size_t i, hammock::DType otherwise) const {
  const Any& value = values_.at(i);
  if (value.IsNone()) return otherwise;
  if (value.kind() == Any::Kind::kDType) return value.ToDType();
  return DTypeOfNumber(value.ToInt());
}

int AtenCall::find(std::string_view name) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return static_cast<int>(i);
  }
  return -1;
}

Adaptor FindAdaptor(std::string_view name) {
  static const auto& table = *[] {
    auto* made = new std::unordered_map<std::string_view, Adaptor>;
    for (auto family :
         {ShapeAdaptors(), MathAdaptors(), NnAdaptors(), AttentionAdaptors(),
          ActivationGradAdaptors(), NnGradAdaptors(), LossAdaptors(), RandomAdaptors()}) {
      for (const AdaptorEntry& entry : family) made->emplace(entry.name, entry.call);
    }
    return made;
  }();
  auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

std::string ReductionName(int64_t reduction) {
  constexpr const char* kNames[] = {"none", "mean", "sum"};
  if (reduction < 0 || reduction > 2)
    throw Unsupported("a reduction of " + std::to_string(reduction));
  return kNames[reduction];
}

Tensor Reduced(const Tensor& losses, int64_t reduction) {
  return reduction == 0 ? losses : reduction == 1 ? hammock::mean(losses) : hammock::sum(losses);
}

Tensor SpreadGrad(const Tensor& grad, const Tensor& like, int64_t reduction) {
  if (reduction != 1) return grad;
  return grad / static_cast<double>(std::max<int64_t>(like.numel(), 1));
}

std::vector<Tensor> GradsOf(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                            const std::vector<Tensor>& inputs, const Tensor& grad) {
  hammock::EnableGradGuard with_grad;
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  Tensor result = fn(leaves);
  return hammock::grad({result}, leaves, {grad}, std::nullopt, false, true);
}

std::vector<Tensor> RecordGrads(const char* record, std::vector<Tensor> operands,
                                std::vector<Tensor> results, std::vector<hammock::Attr> attrs,
                                const Tensor& grad, const std::vector<uint8_t>& needed) {
  const hammock::OpDef& op = hammock::op_registry::Get(record);
  std::vector<Tensor> grads = {grad};
  for (size_t i = 1; i < results.size(); ++i) grads.push_back(hammock::zeros_like(results[i]));
  return op.vjp({op, operands, results, attrs, grads, needed});
}

Any TupleOf(const std::vector<Tensor>& tensors) {
  hammock::AnyList items;
  for (const Tensor& tensor : tensors) items.push_back(tensor.defined() ? Any(tensor) : Any());
  return Any::Tuple(std::move(items));
}

}  // namespace hammock_torch
