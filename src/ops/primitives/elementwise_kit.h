#pragma once
/// Parts that the files of elementwise ops share: the types of their front functions, inference
/// that the dtype rules do not cover, and the frame of an expansion.

#include <span>
#include <vector>

#include "hammock/op_builder.h"
#include "hammock/tensor.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"

namespace hammock::ops {

// Box<UnaryFn(abs)>: which of the overloads is meant.
using UnaryFn = Tensor (*)(const Tensor&, Location);
using BinaryFn = Tensor (*)(const Tensor&, const TensorArg&, Location);
using UnaryInPlaceFn = Tensor& (*)(Tensor&, Location);
using BinaryInPlaceFn = Tensor& (*)(Tensor&, const TensorArg&, Location);

/// A file's records in order of registration: those that code names, then the nameless ones. Made
/// once and never destroyed: for the initial value of a static object.
std::span<const OpDef* const> Listed(std::span<const OpDef* const> nodes,
                                     std::span<const OpDef> functions);

/// Promoted and broadcast as the record's rule says; bool is refused.
void InferNotBool(const InferCall& call);
/// As above; refuses everything but floats.
void InferFloatOnly(const InferCall& call);
/// The type of the first operand, which must be a float, whatever the others are.
void InferFloatLikeFirst(const InferCall& call);
/// The type of the first operand, which may not be bool.
void InferLikeFirst(const InferCall& call);
/// The type of the first operand, as a float.
void InferFloatOfFirst(const InferCall& call);

/// A number as an operand next to `self`, in the dtype that expansions compute in; lifted.
Tensor LiftWide(const Scalar& value, const Tensor& self);

/// Operand `i` in the dtype that the expansion computes in: f32 for f16 and bf16.
inline Tensor Wide(const ExpandCall& call, int i) {
  return Casted(call.in[i], WideFloat(call.out[0].dtype()));
}
/// The results of an expansion: `y` rounded to the result's dtype.
inline std::vector<Tensor> Narrow(const ExpandCall& call, const Tensor& y) {
  return {Casted(y, call.out[0].dtype())};
}

/// A gradient of the first operand alone, in the dtype that expansions compute in.
template <auto F>
Tensors FirstVjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  DType wide = WideFloat(x.dtype());
  Tensors grads(call.in.size());
  grads[0] = Casted(F(Casted(call.grad(), wide), Casted(x, wide), call), x.dtype());
  return grads;
}

}  // namespace hammock::ops
