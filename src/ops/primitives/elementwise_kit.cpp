#include "ops/primitives/elementwise_kit.h"

#include <algorithm>

namespace hammock::ops {
namespace {

Dims BroadcastAll(const InferCall& call) {
  Dims sizes = call.in[0]->sizes();
  for (const Shape* other : call.in.subspan(1)) {
    if (other) sizes = BroadcastSizes(call.op.name(), sizes, other->sizes());
  }
  return sizes;
}

}  // namespace

std::span<const OpDef* const> Listed(std::span<const OpDef* const> nodes,
                                     std::span<const OpDef> functions) {
  const size_t count = nodes.size() + functions.size();
  const OpDef** list = new const OpDef*[count];
  const OpDef** end = std::copy(nodes.begin(), nodes.end(), list);
  for (const OpDef& record : functions) *end++ = &record;
  return {list, count};
}

void InferNotBool(const InferCall& call) {
  Shape result(ComputeDType(call.op, call.in), BroadcastAll(call));
  RequireDType(call, result.dtype() != DType::kBool, result, "numbers");
  call.out = {result};
}

void InferFloatOnly(const InferCall& call) {
  DType promoted = call.in[0]->dtype();
  for (const Shape* other : call.in.subspan(1)) {
    if (other) promoted = PromoteTypes(promoted, other->dtype());
  }
  Shape result(ComputeDType(call.op, call.in), BroadcastAll(call));
  RequireDType(call, IsFloat(promoted), result.With(promoted), "a floating dtype");
  call.out = {result};
}

void InferFloatLikeFirst(const InferCall& call) {
  RequireDType(call, IsFloat(call.in[0]->dtype()), *call.in[0], "a floating dtype");
  call.out = {*call.in[0]};
}

void InferLikeFirst(const InferCall& call) {
  RequireDType(call, call.in[0]->dtype() != DType::kBool, *call.in[0], "numbers");
  call.out = {*call.in[0]};
}

void InferFloatOfFirst(const InferCall& call) {
  call.out = {call.in[0]->With(FloatOf(call.in[0]->dtype()))};
}

Tensor LiftWide(const Scalar& value, const Tensor& self) {
  return Lift(value, WideFloat(self.dtype()));
}

}  // namespace hammock::ops
