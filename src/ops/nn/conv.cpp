// Convolutions over one, two or three dims.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/nn/window.h"
#include "ops/primitives/convolution.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

/// One number for each spatial dim.
struct ConvCall {
  const char* op;
  int spatial;
  Dims stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
};

void CheckConv(const ConvCall& c, const Tensor& input, const Tensor& weight,
               const std::optional<Tensor>& bias) {
  bool ranks = weight.dim() == c.spatial + 2 &&
               (input.dim() == c.spatial + 2 || input.dim() == c.spatial + 1);
  if (!ranks) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs input of {} or {} dims and weight of {}, got {} and {}", c.op, c.spatial + 1,
          c.spatial + 2, c.spatial + 2, input.shape().to_string(), weight.shape().to_string());
  }
  if (input.dtype() != weight.dtype() || (bias && bias->dtype() != weight.dtype())) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "{}: input, weight and bias need one dtype, got {} and {}", c.op,
                     input.shape().to_string(), weight.shape().to_string());
  }
  if (c.groups < 1) Throw(ErrorCode::kValue, "{}: groups is {}, needs at least 1", c.op, c.groups);
  int64_t channels = c.transposed ? weight.size(1) * c.groups : weight.size(0);
  if (bias && (bias->dim() != 1 || bias->size(0) != channels)) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: bias must hold one number for each of {} channels, got {}", c.op, channels,
          bias->shape().to_string());
  }
  for (int i = 0; c.transposed && i < c.spatial; ++i) {
    if (c.output_padding[i] >= c.stride[i] && c.output_padding[i] >= c.dilation[i]) {
      Throw(ErrorCode::kValue,
            "{}: output_padding {} must be smaller than stride {} or dilation {}", c.op,
            ToString(c.output_padding), ToString(c.stride), ToString(c.dilation));
    }
  }
}

Tensor Convolve(const ConvCall& c, const Tensor& input, const Tensor& weight,
                const std::optional<Tensor>& bias, const Location& at) {
  if (Autocasted cast(kConvolution, at); cast) {
    return Convolve(c, cast(input), cast(weight), cast(bias), at);
  }
  CheckConv(c, input, weight, bias);
  bool batched = input.dim() == c.spatial + 2;
  Dims sizes = input.sizes();
  if (!batched) sizes.insert(0, 1);
  Tensor result = c.transposed
                      ? ops::ConvolveTransposed(Reshaped(input, sizes), weight,
                                                {c.stride, c.padding, c.dilation, c.groups},
                                                c.output_padding, at)
                      : Apply(kConvolution, at, {Reshaped(input, sizes), weight},
                              {c.stride, c.padding, c.dilation, false, c.output_padding, c.groups});
  if (bias) {
    Dims along = Dims::Filled(c.spatial + 1, 1);
    along[0] = bias->numel();
    result = result + Reshaped(*bias, along);
  }
  if (batched) return result;
  Dims unbatched = result.sizes();
  unbatched.erase(0);
  return Reshaped(result, unbatched);
}

Tensor Conv(const char* op, int rank, const Tensor& input, const Tensor& weight,
            const std::optional<Tensor>& bias, const Dims& stride, const Dims& padding,
            const Dims& dilation, int64_t groups, const Location& at) {
  ConvCall c{op,
             rank,
             PerDim(op, "stride", stride, rank),
             PerDim(op, "padding", padding, rank),
             PerDim(op, "dilation", dilation, rank),
             Dims::Filled(rank, 0),
             groups,
             false};
  return Convolve(c, input, weight, bias, at);
}

Tensor ConvNamed(const char* op, int rank, const Tensor& input, const Tensor& weight,
                 const std::optional<Tensor>& bias, const Dims& stride, const std::string& padding,
                 const Dims& dilation, int64_t groups, const Location& at) {
  Dims none = Dims::Filled(rank, 0);
  if (padding == "valid") {
    return Conv(op, rank, input, weight, bias, stride, none, dilation, groups, at);
  }
  if (padding != "same") {
    Throw(ErrorCode::kValue, "{}: padding must be numbers, valid or same, got '{}'", op, padding);
  }
  Dims strides = PerDim(op, "stride", stride, rank);
  Dims dilations = PerDim(op, "dilation", dilation, rank);
  if (weight.dim() != rank + 2 || input.dim() < rank + 1) {
    return Conv(op, rank, input, weight, bias, stride, none, dilation, groups, at);  // raises
  }
  Tensor x = input;
  Dims amounts = none;
  for (int i = 0; i < rank; ++i) {
    if (strides[i] != 1) {
      Throw(ErrorCode::kValue, "{}: padding 'same' needs a stride of 1, got {}", op,
            ToString(strides));
    }
    int64_t total = dilations[i] * (weight.size(i + 2) - 1);
    amounts[i] = total / 2;
    // An odd amount has its extra element behind.
    x = Padded(x, x.dim() - rank + i, 0, total % 2, int64_t{0});
  }
  return Conv(op, rank, x, weight, bias, stride, amounts, dilation, groups, at);
}

Tensor ConvTransposed(const char* op, int rank, const Tensor& input, const Tensor& weight,
                      const std::optional<Tensor>& bias, const Dims& stride, const Dims& padding,
                      const Dims& output_padding, int64_t groups, const Dims& dilation,
                      const Location& at) {
  ConvCall c{op,
             rank,
             PerDim(op, "stride", stride, rank),
             PerDim(op, "padding", padding, rank),
             PerDim(op, "dilation", dilation, rank),
             PerDim(op, "output_padding", output_padding, rank),
             groups,
             true};
  return Convolve(c, input, weight, bias, at);
}

}  // namespace

#define HAMMOCK_CONV(name, rank)                                                               \
  Tensor name(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,    \
              const Dims& stride, const Dims& padding, const Dims& dilation, int64_t groups,   \
              Location at) {                                                                   \
    LocationScope scope(at);                                                                   \
    return Conv(#name, rank, input, weight, bias, stride, padding, dilation, groups, at);      \
  }                                                                                            \
  Tensor name##_padding(const Tensor& input, const Tensor& weight,                             \
                        const std::optional<Tensor>& bias, const Dims& stride,                 \
                        const std::string& padding, const Dims& dilation, int64_t groups,      \
                        Location at) {                                                         \
    LocationScope scope(at);                                                                   \
    return ConvNamed(#name, rank, input, weight, bias, stride, padding, dilation, groups, at); \
  }
HAMMOCK_CONV(conv1d, 1)
HAMMOCK_CONV(conv2d, 2)
HAMMOCK_CONV(conv3d, 3)
#undef HAMMOCK_CONV

#define HAMMOCK_CONV(name, rank)                                                                   \
  Tensor name(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,        \
              const Dims& stride, const Dims& padding, const Dims& output_padding, int64_t groups, \
              const Dims& dilation, Location at) {                                                 \
    LocationScope scope(at);                                                                       \
    return ConvTransposed(#name, rank, input, weight, bias, stride, padding, output_padding,       \
                          groups, dilation, at);                                                   \
  }
HAMMOCK_CONV(conv_transpose1d, 1)
HAMMOCK_CONV(conv_transpose2d, 2)
HAMMOCK_CONV(conv_transpose3d, 3)
#undef HAMMOCK_CONV

namespace {

using ByNumbers = Tensor (*)(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                             const Dims&, const Dims&, const Dims&, int64_t, Location);

#define HAMMOCK_CONV(name, rank)                                                                  \
  constinit const OpDef k_##name = {.schema = #name                                               \
                                    "(Tensor input, Tensor weight, Tensor? bias=None, int[" #rank \
                                    "] stride=1, int[" #rank "] padding=0, int[" #rank            \
                                    "] dilation=1, int groups=1) -> Tensor",                      \
                                    .doc = "Cross-correlation over the last " #rank " dims.",     \
                                    .call = Box<static_cast<ByNumbers>(name)>};                   \
  constinit const OpDef k_##name##_padding = {                                                    \
      .schema = #name ".padding(Tensor input, Tensor weight, Tensor? bias=None, int[" #rank       \
                      "] stride=1, str padding=\"valid\", int[" #rank                             \
                      "] dilation=1, int groups=1) -> Tensor",                                    \
      .doc = "Cross-correlation over the last " #rank " dims, padded by name.",                   \
      .call = Box<name##_padding>};
HAMMOCK_CONV(conv1d, 1)
HAMMOCK_CONV(conv2d, 2)
HAMMOCK_CONV(conv3d, 3)
#undef HAMMOCK_CONV

#define HAMMOCK_CONV(name, rank)                                                                \
  constinit const OpDef k_##name = {                                                            \
      .schema = #name "(Tensor input, Tensor weight, Tensor? bias=None, int[" #rank             \
                      "] stride=1, int[" #rank "] padding=0, int[" #rank                        \
                      "] output_padding=0, int groups=1, int[" #rank "] dilation=1) -> Tensor", \
      .doc = "Transposed cross-correlation over the last " #rank " dims.",                      \
      .call = Box<name>};
HAMMOCK_CONV(conv_transpose1d, 1)
HAMMOCK_CONV(conv_transpose2d, 2)
HAMMOCK_CONV(conv_transpose3d, 3)
#undef HAMMOCK_CONV

}  // namespace

std::span<const OpDef* const> ops::ConvOps() {
  static constexpr const OpDef* kOps[] = {
      &k_conv1d,         &k_conv1d_padding,   &k_conv2d,           &k_conv2d_padding,   &k_conv3d,
      &k_conv3d_padding, &k_conv_transpose1d, &k_conv_transpose2d, &k_conv_transpose3d,
  };
  return kOps;
}

}  // namespace hammock
