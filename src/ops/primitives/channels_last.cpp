#include "ops/primitives/channels_last.h"

#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/families.h"
#include "ops/primitives/fused_forms.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

Dims ops::ChannelsToLast(int rank) {
  Dims dims = {0};
  for (int d = 2; d < rank; ++d) dims.push_back(d);
  dims.push_back(1);
  return dims;
}

Dims ops::ChannelsToFirst(int rank) {
  Dims dims = {0, rank - 1};
  for (int d = 1; d + 1 < rank; ++d) dims.push_back(d);
  return dims;
}

namespace {

Shape Ordered(const Shape& type, const Dims& dims) {
  Dims sizes;
  for (int64_t d : dims) sizes.push_back(type.size(static_cast<int>(d)));
  return type.With(sizes);
}

}  // namespace

Shape ops::WithChannelsLast(const Shape& first) {
  return Ordered(first, ChannelsToLast(first.rank()));
}
Shape ops::WithChannelsFirst(const Shape& last) {
  return Ordered(last, ChannelsToFirst(last.rank()));
}

namespace {

/// The last two attributes; the others are those of the op with all channels first.
struct Layout {
  explicit Layout(std::span<const Attr> attrs)
      : own(attrs.first(attrs.size() - 2)),
        input_last(attrs[own.size()].boolean()),
        result_last(attrs[own.size() + 1].boolean()) {}
  std::span<const Attr> own;
  bool input_last, result_last;
};

void InferLast(const InferCall& call) {
  const Shape& input = *call.in[0];
  if (input.rank() < 3) {
    Refuse(call, ErrorCode::kShapeMismatch, "needs batch, channels and pixels, got {}",
           input.to_string());
  }
  Layout layout(call.attrs);
  const Shape first = WithByteSums(layout.input_last ? WithChannelsFirst(input) : input);
  const Shape weight = WithByteSums(*call.in[1]);
  const Shape* in[] = {&first, &weight};
  Shape result = InferShapes(kConvolution, in, layout.own)[0];
  call.out = {layout.result_last ? WithChannelsLast(result) : result};
}

Tensors ExpandLast(const ExpandCall& c) {
  Layout layout(c.attrs);
  int rank = c.in[0].dim();
  const DType sums = c.out[0].dtype();
  Tensor in[] = {layout.input_last ? Permuted(c.in[0], ChannelsToFirst(rank)) : c.in[0], c.in[1]};
  for (Tensor& operand : in) operand = Casted(operand, sums);
  Tensor result = Apply(kConvolution, Location(), std::span<const Tensor>(in), layout.own);
  return {layout.result_last ? Permuted(result, ChannelsToLast(rank)) : result};
}

void InferWeightLast(const InferCall& call) {
  Layout layout(call.attrs);  // of both operands
  const bool last[] = {layout.input_last, layout.result_last};
  Shape first[] = {*call.in[0], *call.in[1]};
  for (int i = 0; i < 2; ++i) {
    if (first[i].rank() < 3) {
      Refuse(call, ErrorCode::kShapeMismatch, "needs batch, channels and pixels, got {}",
             first[i].to_string());
    }
    if (last[i]) first[i] = WithChannelsFirst(first[i]);
  }
  const Shape* in[] = {&first[0], &first[1]};
  call.out = {InferShapes(kConvolutionWeightBackward, in, layout.own)[0]};
}

Tensors ExpandWeightLast(const ExpandCall& c) {
  Layout layout(c.attrs);
  Dims to_first = ChannelsToFirst(c.in[0].dim());
  Tensor in[] = {layout.input_last ? Permuted(c.in[0], to_first) : c.in[0],
                 layout.result_last ? Permuted(c.in[1], to_first) : c.in[1]};
  return {Apply(kConvolutionWeightBackward, Location(), std::span<const Tensor>(in), layout.own)};
}

}  // namespace

constinit const OpDef ops::kConvolutionLast = {
    .schema =
        "_convolution_last(Tensor input, Tensor weight, int[] stride, int[] padding, int[] "
        "dilation, bool transposed, SymInt[] output_padding, int groups, bool input_last, bool "
        "result_last) -> Tensor",
    .doc =
        "`convolution` of images, or to images, whose channels are the last dim; bytes are summed "
        "in i32.",
    .infer = InferLast,
    .expand = ExpandLast,
    .samples = {{"f32[2,6,5,4] f32[6,2,3,2]",
                 "{stride=[2,1], padding=[1,0], dilation=[1,2], transposed=false, "
                 "output_padding=[0,0], groups=2, input_last=true, result_last=true}"},
                {"f32[2,4,5] f32[4,3,3]",
                 "{stride=[2], padding=[1], dilation=[1], transposed=true, output_padding=[1], "
                 "groups=1, input_last=false, result_last=true}"},
                {"u8[2,6,5,4] i8[6,2,3,2]",
                 "{stride=[2,1], padding=[1,0], dilation=[1,2], transposed=false, "
                 "output_padding=[0,0], groups=2, input_last=true, result_last=true}"}},
};
constinit const OpDef ops::kConvolutionWeightBackwardLast = {
    .schema =
        "_convolution_weight_backward_last(Tensor grad, Tensor input, SymInt[] sizes, int[] "
        "stride, int[] padding, int[] dilation, int groups, bool grad_last, bool input_last) -> "
        "Tensor",
    .doc = "`_convolution_weight_backward` of images whose channels are the last dim.",
    .infer = InferWeightLast,
    .expand = ExpandWeightLast,
    .samples = {{"f32[2,3,3,6] f32[2,6,5,4]",
                 "{sizes=[6,2,3,2], stride=[2,1], padding=[1,0], dilation=[1,2], groups=2, "
                 "grad_last=true, input_last=true}"},
                {"f32[3,2,5] f32[3,5,4]",
                 "{sizes=[2,4,3], stride=[1], padding=[1], dilation=[1], groups=1, "
                 "grad_last=false, input_last=true}"}},
};

std::span<const OpDef* const> ops::ChannelsLastOps() {
  static constexpr const OpDef* kOps[] = {&kConvolutionLast, &kConvolutionWeightBackwardLast};
  return kOps;
}

}  // namespace hammock
