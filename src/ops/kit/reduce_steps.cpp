#include "ops/kit/reduce_steps.h"

#include "base/throw.h"
#include "ops/kit/compose.h"

namespace hammock::ops {

Tensor Reduce(const OpDef& op, const Tensor& x, const Dims& dims, bool keepdim) {
  return Apply(op, Location(), {x}, {dims, keepdim});
}

DType SumType(const Tensor& self, std::optional<DType> dtype) {
  if (dtype) return *dtype;
  return IsIntegral(self.dtype()) ? DType::kI64 : self.dtype();
}

void NeedElements(const char* op, const Tensor& self, const Dims& dims) {
  if (self.dim() == 0) return;
  for (int64_t d : dims) {
    if (self.size(d) != 0) continue;
    Throw(
        ErrorCode::kEmptyTensor,
        "{}: dim {} of {} has size 0 and this reduction has no identity; name a dim with elements",
        op, d, self.shape().to_string());
  }
}

void InferReduced(const InferCall& c, DType dtype) {
  const Shape& self = *c.in[0];
  c.out.push_back(
      Shape(dtype, ReducedSizes(self.sizes(), Dims(c.attrs[0].ints()),
                                c.attrs[c.op.info().AttributeIndex("keepdim")].boolean())));
}

Tensor KeptLike(const VjpCall& call, const Tensor& x, DType dtype) {
  int dims = call.op.info().AttributeIndex("dim");
  Dims sizes = ReducedSizes(call.in[0].sizes(), Dims(call.attrs[dims].ints()), true);
  return Casted(Reshaped(x, sizes), dtype);
}

Dims BoxedDims(const std::optional<Dims>& dim) { return dim ? *dim : Dims(); }

}  // namespace hammock::ops
