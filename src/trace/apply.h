#pragma once
/// Recording: how a front-end function makes a node. Included by src/ops/ and by out-of-tree ops
/// through hammock/op_builder.h.

#include <initializer_list>
#include <span>
#include <vector>

#include "hammock/ir/node.h"
#include "hammock/ir/op_def.h"
#include "hammock/op_builder.h"
#include "hammock/tensor.h"

namespace hammock {

/// Two tensor operands of an elementwise op: the fast path of tracing.
Tensor ApplyBinary(const OpDef& op, const Location& at, const Tensor& a, const Tensor& b);
/// The same where the second one may be a number: it has the dtype that AsTensor gives it.
Tensor ApplyBinary(const OpDef& op, const Location& at, const Tensor& a, const TensorArg& b);
Tensor ApplyUnary(const OpDef& op, const Location& at, const Tensor& a);
/// A cast, which many ops of a training step are.
Tensor ApplyCast(const Location& at, const Tensor& a, DType dtype);

/// The node of a number as Lift makes it.
NodePtr LiftNode(const Scalar& value, DType dtype);

/// Records one node without history and writes its results to `targets`, in order, which have their
/// types: an update of several tensors as one op. The caller has opened a LocationScope.
void ApplyInto(const OpDef& op, std::span<const Tensor* const> operands,
               std::span<const Attr> attrs, std::span<const Tensor> targets);

}  // namespace hammock
