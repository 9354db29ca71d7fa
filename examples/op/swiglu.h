#pragma once
/// An op of another project. Loading the library registers it, so that it can be called by name
/// too.

#include <hammock/ir/op_def.h>
#include <hammock/tensor.h>

namespace swiglu_op {

extern const hammock::OpDef kSwiglu;

/// gate * sigmoid(beta * gate) * value; gate and value broadcast.
hammock::Tensor swiglu(const hammock::Tensor& gate, const hammock::Tensor& value,
                       const hammock::Scalar& beta = 1.0,
                       hammock::Location at = hammock::Location::current());

}  // namespace swiglu_op
