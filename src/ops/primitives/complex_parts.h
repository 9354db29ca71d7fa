#pragma once
/// Ops on complex numbers as ops on their parts: what records name in `complex`. The operands have
/// one dtype and the sizes of the result (make_explicit), unless an op says otherwise.

#include "hammock/op_builder.h"
#include "ops/kit/compose.h"

namespace hammock::ops {

/// A complex tensor as two real ones.
struct Parts {
  Tensor real;
  Tensor imag;
};
/// Nodes, not views; the imaginary part of a real tensor is zero.
Parts PartsOf(const Tensor& x);
Tensor Joined(const Parts& parts);
/// A node, not a view; a real tensor itself.
Tensor RealPart(const Tensor& x);
Tensor ImagPart(const Tensor& x);

// ---- For `complex` of records

/// The op of the real parts and of the imaginary parts: linear ops and movement of data. Operands
/// that are not complex (indices, conditions) are used twice.
Tensors EachPart(const ExpandCall& call);
/// A product: (a c - b d, a d + b c).
Tensors BilinearParts(const ExpandCall& call);
Tensors MulParts(const ExpandCall& call);
Tensors DivParts(const ExpandCall& call);
Tensors PowParts(const ExpandCall& call);
Tensors AbsParts(const ExpandCall& call);
Tensors ReciprocalParts(const ExpandCall& call);
Tensors SqrtParts(const ExpandCall& call);
Tensors RsqrtParts(const ExpandCall& call);
Tensors ExpParts(const ExpandCall& call);
Tensors Exp2Parts(const ExpandCall& call);
Tensors Expm1Parts(const ExpandCall& call);
Tensors LogParts(const ExpandCall& call);
Tensors Log2Parts(const ExpandCall& call);
Tensors Log10Parts(const ExpandCall& call);
Tensors Log1pParts(const ExpandCall& call);
Tensors SinParts(const ExpandCall& call);
Tensors CosParts(const ExpandCall& call);
Tensors TanParts(const ExpandCall& call);
Tensors AsinParts(const ExpandCall& call);
Tensors AcosParts(const ExpandCall& call);
Tensors AtanParts(const ExpandCall& call);
Tensors SinhParts(const ExpandCall& call);
Tensors CoshParts(const ExpandCall& call);
Tensors TanhParts(const ExpandCall& call);
Tensors AsinhParts(const ExpandCall& call);
Tensors AcoshParts(const ExpandCall& call);
Tensors AtanhParts(const ExpandCall& call);
Tensors SigmoidParts(const ExpandCall& call);
Tensors EqParts(const ExpandCall& call);
Tensors NeParts(const ExpandCall& call);
Tensors IsNanParts(const ExpandCall& call);
Tensors CastParts(const ExpandCall& call);
Tensors ConstantParts(const ExpandCall& call);
Tensors NonzeroParts(const ExpandCall& call);
/// Products over dims, and running ones, in as many steps as the extent has binary digits.
Tensors ReduceProdParts(const ExpandCall& call);
Tensors ScanParts(const ExpandCall& call);

}  // namespace hammock::ops
