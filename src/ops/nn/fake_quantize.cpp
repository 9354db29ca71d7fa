// Quantised and dequantised at once, for training: values are those of integers, gradients pass.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/operators.h"
#include "hammock/ops/quantize.h"
#include "ops/kit/compose.h"
#include "ops/nn/quantize.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/apply.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

void InferFakeQuantize(const InferCall& call) {
  InferFloatLikeFirst(call);
  const Dims& sizes = call.in[0]->sizes();
  for (size_t i : {1, 2}) {
    if (BroadcastSizes(call.op.name(), sizes, call.in[i]->sizes()) == sizes) continue;
    Refuse(call, ErrorCode::kShapeMismatch, "{} {} does not broadcast to {}",
           i == 1 ? "scale" : "zero_point", call.in[i]->to_string(), ToString(sizes));
  }
}

/// Steps from zero before they are clamped.
Tensor StepsOf(const Tensor& x, const Tensor& scale, const Tensor& zero) {
  return round(x * reciprocal(scale)) + zero;
}

Tensors ExpandFakeQuantize(const ExpandCall& call) {
  Tensor scale = Wide(call, 1), zero = Wide(call, 2);
  Tensor least = ConstantLike(call.attrs[0].integer(), zero);
  Tensor most = ConstantLike(call.attrs[1].integer(), zero);
  Tensor steps = StepsOf(Wide(call, 0), scale, zero);
  return Narrow(call, (minimum(maximum(steps, least), most) - zero) * scale);
}

/// Passes where the value was not clamped, as if nothing were rounded.
Tensors FakeQuantizeVjp(const VjpCall& call) {
  const DType wide = WideFloat(call.in[0].dtype());
  auto in = [&](int i) { return Casted(call.in[i], wide); };
  Tensor steps = StepsOf(in(0), in(1), in(2));
  Tensor inside =
      logical_and(ge(steps, call.attrs[0].integer()), le(steps, call.attrs[1].integer()));
  return {where(inside, call.grad(), ConstantLike(0, call.grad())), Tensor(), Tensor()};
}

void CheckRange(const char* op, int64_t quant_min, int64_t quant_max) {
  if (quant_min <= quant_max) return;
  Throw(ErrorCode::kValue, "{}: quant_min {} must not be above quant_max {}", op, quant_min,
        quant_max);
}

}  // namespace

Tensor fake_quantize_per_tensor_affine(const Tensor& self, const TensorArg& scale,
                                       const TensorArg& zero_point, int64_t quant_min,
                                       int64_t quant_max, Location at) {
  constexpr const char* kOp = "fake_quantize_per_tensor_affine";
  LocationScope scope(at);
  CheckRange(kOp, quant_min, quant_max);
  auto one = [&](const TensorArg& arg, const char* what) {
    Tensor value = AsTensor(arg, self);
    if (value.numel() == 1) return Reshaped(value, {});
    Throw(ErrorCode::kShapeMismatch, "{}: {} must be one number, got {}", kOp, what,
          value.shape().to_string());
  };
  return Apply(kFakeQuantize, at, {self, one(scale, "scale"), one(zero_point, "zero_point")},
               {quant_min, quant_max});
}

Tensor fake_quantize_per_channel_affine(const Tensor& self, const Tensor& scale,
                                        const Tensor& zero_point, int64_t axis, int64_t quant_min,
                                        int64_t quant_max, Location at) {
  constexpr const char* kOp = "fake_quantize_per_channel_affine";
  LocationScope scope(at);
  CheckRange(kOp, quant_min, quant_max);
  const int dim = WrapDim(kOp, axis, self.dim());
  Dims sizes = Dims::Filled(self.dim(), 1);
  sizes[dim] = self.size(dim);
  auto channels = [&](const Tensor& values, const char* what) {
    if (values.sizes() == Dims{self.size(dim)}) return Reshaped(values, sizes);
    Throw(ErrorCode::kShapeMismatch, "{}: {} must have the sizes [{}], got {}", kOp, what,
          self.size(dim), values.shape().to_string());
  };
  return Apply(kFakeQuantize, at,
               {self, channels(scale, "scale"), channels(zero_point, "zero_point")},
               {quant_min, quant_max});
}

constinit const OpDef ops::kFakeQuantize = {
    .schema =
        "_fake_quantize(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int "
        "quant_max) -> Tensor",
    .doc = "self rounded to quantised values; gradients pass where it was not clamped.",
    .infer = InferFakeQuantize,
    .keeps_layout = true,
    .expand = ExpandFakeQuantize,
    .vjp = FakeQuantizeVjp,
};
constinit const OpDef ops::kFakeQuantizeFunctions[] = {
    {.schema = "fake_quantize_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, int "
               "quant_min, int quant_max) -> Tensor",
     .doc = "self, quantised and dequantised; gradients pass where it was not clamped.",
     .call = Box<fake_quantize_per_tensor_affine>},
    {.schema =
         "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, "
         "int quant_min, int quant_max) -> Tensor",
     .doc = "The same with a scale for each index along a dim.",
     .call = Box<fake_quantize_per_channel_affine>},
};

}  // namespace hammock
