#include "hammock/ops/quantize.h"

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/operators.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/nn/quantize.h"
#include "ops/primitives/fused_forms.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kQuantize, kDequantize, kIntMatmul, kIntConvolution;

/// A tensor and its blocks: sizes in which each block is a dim of its own, and those of what has
/// one element for each block.
struct Blocks {
  Dims whole, blocks;
};

Blocks BlocksOf(const char* op, const Shape& self, const Dims& sizes, const char* what) {
  Blocks result;
  const int missing = self.rank() - sizes.size();
  bool good = missing >= 0;
  for (int i = 0; good && i < self.rank(); ++i) {
    const int64_t size = self.size(i), blocks = i < missing ? 1 : sizes[i - missing];
    good = blocks > 0 ? size % blocks == 0 : size == 0;
    if (blocks == 1 || blocks == size || !good) {
      result.whole.push_back(size);
      result.blocks.push_back(blocks);
    } else {
      good = result.whole.size() + 2 <= kMaxRank;
      if (!good) break;
      for (int64_t each : {blocks, size / blocks}) result.whole.push_back(each);
      for (int64_t each : {blocks, int64_t{1}}) result.blocks.push_back(each);
    }
  }
  if (good) return result;
  Throw(ErrorCode::kShapeMismatch,
        "{}: a {} of sizes {} for {}: each of its sizes, aligned at the right, must divide that of "
        "the tensor",
        op, what, ToString(sizes), self.to_string());
}

/// Scales or zero points with a dim for the elements of a block.
Tensor OfBlocks(const char* op, const Tensor& values, const Shape& self, const Dims& scale,
                const char* what) {
  if (values.numel() == 1) return Reshaped(values, {});
  if (values.sizes() != scale) {
    Throw(ErrorCode::kShapeMismatch, "{}: a {} of sizes {} for scales of sizes {}", op, what,
          ToString(values.sizes()), ToString(scale));
  }
  return Reshaped(values, BlocksOf(op, self, values.sizes(), what).blocks);
}

bool IsQuantized(DType dtype) {
  return IsStorage(dtype) ||
         (IsIntegral(dtype) && dtype != DType::kBool && InfoOf(dtype).bits <= 32);
}

/// Results have the sizes of the first operand; the blocks must fit.
template <bool kQuantizes>
void InferQuantize(const InferCall& call) {
  const Shape &self = *call.in[0], &scale = *call.in[1];
  const DType to = call.attrs[0].dtype();
  const DType quantized = kQuantizes ? to : self.dtype(), real = kQuantizes ? self.dtype() : to;
  RequireDType(call, IsQuantized(quantized), self.With(quantized), "integers of 32 bits or f8");
  RequireDType(call, IsFloat(real) && !IsStorage(real), self.With(real), "floats");
  RequireDType(call, IsFloat(scale.dtype()) && !IsStorage(scale.dtype()), scale, "a float scale");
  BlocksOf(call.op.name(), self, scale.sizes(), "scale");
  if (call.in[2]) {
    RequireDType(call, IsIntegral(quantized) && IsIntegral(call.in[2]->dtype()), *call.in[2],
                 "integers for integers");
    if (call.in[2]->numel() != 1 && call.in[2]->sizes() != scale.sizes()) {
      Refuse(call, ErrorCode::kShapeMismatch, "zero points {} must have the sizes of the scale {}",
             call.in[2]->to_string(), scale.to_string());
    }
  }
  call.out = {self.With(to)};
}

/// Steps as integers of at most 16 bits. Bounds are whole numbers, so steps may be clamped before
/// they are rounded, and are then small enough that adding 3 * 2^22 rounds them, ties to even, and
/// leaves them in the low bits.
Tensor ShortSteps(const Tensor& steps, const Tensor& zero, DType dtype) {
  const double low = InfoOf(dtype).lowest, high = InfoOf(dtype).highest;
  Tensor least = ConstantLike(low, steps), most = ConstantLike(high, steps);
  if (zero.defined()) {
    least = least - Casted(zero, DType::kF32);
    most = most - Casted(zero, DType::kF32);
  }
  Tensor shifted = minimum(maximum(steps, least), most) + 0x1.8p23;
  Tensor bits = Apply(kBitcast, Location(), {shifted}, {DType::kI32});
  return Casted(zero.defined() ? bits + Casted(zero, DType::kI32) : bits, dtype);
}

Tensors ExpandQuantize(const ExpandCall& call) {
  const Tensor& self = call.in[0];
  const DType dtype = call.out[0].dtype();
  const DType wide = self.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const Dims& sizes = call.in[1].sizes();
  const Blocks blocks = BlocksOf("quantize", self.shape(), sizes, "scale");
  auto spread = [&](const Tensor& values, const char* what) {
    return OfBlocks("quantize", values, self.shape(), sizes, what);
  };
  Tensor scale = Casted(spread(call.in[1], "scale"), wide), zero;
  if (call.in[2].defined()) zero = spread(call.in[2], "zero point");
  Tensor steps = Casted(Reshaped(self, blocks.whole), wide) / scale;
  if (IsFloat(dtype)) {
    steps = clamp(steps, InfoOf(dtype).lowest, InfoOf(dtype).highest);
    return {Casted(Reshaped(steps, self.sizes()), dtype)};
  }
  steps = where(isnan(steps), 0.0, steps);  // 0 on every device
  const bool is_short = wide == DType::kF32 && InfoOf(dtype).bits <= 16;
  if (is_short) return {Reshaped(ShortSteps(steps, zero, dtype), self.sizes())};
  steps = round(steps);
  if (zero.defined()) steps = steps + Casted(zero, wide);
  steps = clamp(steps, InfoOf(dtype).lowest, HighestStep(dtype, wide));
  return {Casted(Reshaped(steps, self.sizes()), dtype)};
}

Tensors ExpandDequantize(const ExpandCall& call) {
  const Tensor& self = call.in[0];
  const DType dtype = call.out[0].dtype();
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Dims& sizes = call.in[1].sizes();
  const Blocks blocks = BlocksOf("dequantize", self.shape(), sizes, "scale");
  Tensor steps = self;
  if (call.in[2].defined()) {
    // 64 bits hold any difference.
    const DType exact = InfoOf(self.dtype()).bits < 32 ? DType::kI32 : DType::kI64;
    Tensor zero = OfBlocks("dequantize", call.in[2], self.shape(), sizes, "zero point");
    steps = Reshaped(Casted(self, exact), blocks.whole) - Casted(zero, exact);
  } else {
    steps = Reshaped(Casted(self, wide), blocks.whole);
  }
  Tensor scale = OfBlocks("dequantize", call.in[1], self.shape(), sizes, "scale");
  return {Casted(Reshaped(Casted(steps, wide) * Casted(scale, wide), self.sizes()), dtype)};
}

// ---- weights alone

void InferQuantizedLinear(const InferCall& call) {
  const Shape &input = *call.in[0], &weight = *call.in[1], &scale = *call.in[2];
  RequireDType(call, IsFloat(input.dtype()) && !IsStorage(input.dtype()), input, "a float input");
  RequireDType(call, IsQuantized(weight.dtype()), weight, "integers of 32 bits or f8");
  RequireDType(call, IsFloat(scale.dtype()) && !IsStorage(scale.dtype()), scale, "a float scale");
  if (input.rank() == 0 || weight.rank() != 2 || input.sizes().back() != weight.size(1)) {
    Refuse(call, ErrorCode::kShapeMismatch,
           "needs input [..., in] and weight [out, in], got {} and {}", input.to_string(),
           weight.to_string());
  }
  BlocksOf(call.op.name(), weight, scale.sizes(), "scale");
  if (call.in[3] && call.in[3]->numel() != 1 && call.in[3]->sizes() != scale.sizes()) {
    Refuse(call, ErrorCode::kShapeMismatch, "zero points {} must have the sizes of the scale {}",
           call.in[3]->to_string(), scale.to_string());
  }
  if (call.in[4]) {
    RequireSameDType(call, input, *call.in[4]);
    if (call.in[4]->sizes() != Dims{weight.size(0)}) {
      Refuse(call, ErrorCode::kShapeMismatch, "bias {} must have the sizes [{}]",
             call.in[4]->to_string(), weight.size(0));
    }
  }
  Dims sizes = input.sizes();
  sizes[sizes.size() - 1] = weight.size(0);
  call.out = {input.With(sizes)};
}

Tensor OrNone(const std::optional<Tensor>& x) { return x ? *x : Tensor(); }
std::optional<Tensor> OrNone(const Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

Tensors ExpandQuantizedLinear(const ExpandCall& call) {
  Tensor weight = dequantize(call.in[1], call.in[2], OrNone(call.in[3]), call.in[0].dtype());
  return {linear(call.in[0], weight, OrNone(call.in[4]))};
}

// ---- integers

void RequireZero(const InferCall& call, const Shape* zero) {
  if (zero) RequireDType(call, IsIntegral(zero->dtype()), *zero, "integers as zero points");
}

void InferIntMatmul(const InferCall& call) {
  const Shape &self = *call.in[0], &other = *call.in[1];
  RequireDType(call, IsByte(self.dtype()), self, "i8 or u8");
  RequireDType(call, IsByte(other.dtype()), other, "i8 or u8");
  RequireZero(call, call.in[2]);
  RequireZero(call, call.in[3]);
  if (self.rank() < 2 || other.rank() < 2 ||
      self.size(self.rank() - 1) != other.size(other.rank() - 2)) {
    Refuse(call, ErrorCode::kShapeMismatch, "needs [..., m, k] and [..., k, n], got {} and {}",
           self.to_string(), other.to_string());
  }
  Dims a = self.sizes(), b = other.sizes();
  const int64_t m = a[a.size() - 2], n = b.back();
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  Dims sizes = BroadcastSizes(call.op.name(), a, b);
  sizes.push_back(m);
  sizes.push_back(n);
  for (int i : {2, 3}) {
    if (!call.in[i] || call.in[i]->numel() == 1) continue;
    const Dims& zero = call.in[i]->sizes();
    const int rank = zero.size(), last = i == 2 ? 1 : 2;  // of size 1, from the right
    if (rank < 2 || zero[rank - last] != 1 ||
        BroadcastSizes(call.op.name(), zero, sizes) != sizes) {
      Refuse(call, ErrorCode::kShapeMismatch, "zero points {} must be one, or [..., {}]",
             call.in[i]->to_string(), i == 2 ? "m, 1" : "1, n");
    }
  }
  call.out = {Shape(DType::kI32, sizes)};
}

Tensor Wide(const Tensor& x) { return Casted(x, DType::kI32); }
Tensor ZeroOf(const Tensor& zero) {
  return zero.numel() == 1 ? Reshaped(Wide(zero), {}) : Wide(zero);
}

/// Elements of a second operand, signed, with the zero point that this gives; undefined for none.
struct Signed {
  Tensor values, zero;

  Signed(const Tensor& x, const Tensor& x_zero) : values(x) {
    if (x_zero.defined()) zero = ZeroOf(x_zero);
    if (x.dtype() == DType::kI8) return;
    values = Apply(kBitcast, Location(), {bitwise_xor(x, 0x80)}, {DType::kI8});
    zero = zero.defined() ? zero - 128 : ConstantLike(-128, Wide(values));
  }
};

Tensor SumOver(const Tensor& x, const Dims& dims) {
  return Apply(kReduceSum, Location(), {Wide(x)}, {dims, true});
}

/// Note [Bytes times bytes]
/// Matmuls and convolutions of bytes are those of i32 with casts before them, which backends that
/// multiply bytes leave out (compiler/passes/narrow_matmuls.h): the first operand is i8 or u8, the
/// second i8. Zero points are corrections of the sums: (a - p)(b - q) = ab - p sum(b) - q sum(a) +
/// k p q, exactly, since sums wrap alike.
Tensors ExpandIntMatmul(const ExpandCall& call) {
  const Tensor& a = call.in[0];
  const auto [b, q] = Signed(call.in[1], call.in[3]);
  Tensor sums = matmul(Wide(a), Wide(b)), p;
  if (call.in[2].defined()) p = ZeroOf(call.in[2]);
  if (p.defined()) sums = sums - p * SumOver(b, {b.dim() - 2});
  if (q.defined()) sums = sums - q * SumOver(a, {a.dim() - 1});
  if (p.defined() && q.defined()) sums = sums + p * q * a.size(-1);
  return {sums};
}

void InferIntConvolution(const InferCall& call) {
  const Shape &input = *call.in[0], &weight = *call.in[1];
  RequireDType(call, IsByte(input.dtype()), input, "i8 or u8");
  RequireDType(call, IsByte(weight.dtype()), weight, "i8 or u8");
  RequireZero(call, call.in[2]);
  RequireZero(call, call.in[3]);
  const Shape wide[] = {input.With(DType::kI32), weight.With(DType::kI32)};
  const Shape* operands[] = {&wide[0], &wide[1]};
  const Dims none = Dims::Filled(static_cast<int>(call.attrs[0].ints().size()), 0);
  const Attr attrs[] = {call.attrs[0], call.attrs[1], call.attrs[2],
                        Attr(false),   Attr(none),    call.attrs[3]};
  call.out = InferShapes(kConvolution, operands, attrs);
  if (call.in[2] && call.in[2]->numel() != 1) {
    Refuse(call, ErrorCode::kShapeMismatch, "the zero point of the input {} must be one",
           call.in[2]->to_string());
  }
  if (call.in[3] && call.in[3]->numel() != 1 && call.in[3]->numel() != weight.size(0)) {
    Refuse(call, ErrorCode::kShapeMismatch, "zero points {} of {} output channels",
           call.in[3]->to_string(), weight.size(0));
  }
}

/// `x` with the zero point around it.
Tensor PaddedBy(const Tensor& x, const Tensor& zero, const Dims& padding) {
  Dims low = Dims::Filled(x.dim(), 0);
  for (int i = 0; i < padding.size(); ++i) low[i + 2] = padding[i];
  return Apply(kPad, Location(), {x, Casted(Reshaped(zero, {}), x.dtype())},
               {Attr(low), Attr(low)});
}

Tensors ExpandIntConvolution(const ExpandCall& call) {
  const Tensor& zero = call.in[2];
  const auto [weight, q] = Signed(call.in[1], call.in[3]);
  const Dims none = Dims::Filled(weight.dim() - 2, 0);
  const int64_t groups = call.attrs[3].integer(), filters = weight.size(0) / groups;
  Dims padding(call.attrs[1].ints());
  Tensor input = call.in[0], p;
  if (zero.defined()) {
    p = ZeroOf(zero);
    if (padding != none) input = PaddedBy(input, zero, padding);
    padding = none;
  }
  auto convolved = [&](const Tensor& w) {
    return Apply(
        kConvolution, Location(), {Wide(input), Wide(w)},
        {call.attrs[0], Attr(padding), call.attrs[2], Attr(false), Attr(none), Attr(groups)});
  };
  Tensor sums = convolved(weight);
  // One element for each filter: [filters, 1, ...] becomes a channel of the result.
  auto of_channels = [&](const Tensor& x) {
    Dims sizes = Dims::Filled(weight.dim(), 1);
    sizes[1] = x.numel();
    return Reshaped(x, sizes);
  };
  if (p.defined()) {
    Dims summed;
    for (int i = 1; i < weight.dim(); ++i) summed.push_back(i);
    sums = sums - p * of_channels(SumOver(weight, summed));
  }
  if (!q.defined()) return {sums};
  Tensor zeros = of_channels(q);
  Dims filter = weight.sizes();
  filter[0] = groups;
  Tensor windows = convolved(Broadcasted(ConstantLike(1, weight), filter));
  if (groups > 1) {  // [n, groups, ...] repeated for the filters of each group
    Dims apart = windows.sizes(), repeated = windows.sizes();
    apart.insert(2, 1);
    repeated.insert(2, filters);
    windows = Reshaped(Broadcasted(Reshaped(windows, apart), repeated), call.out[0].sizes());
  }
  sums = sums - zeros * windows;
  if (p.defined()) {
    int64_t terms = 1;  // of each sum
    for (int i = 1; i < weight.dim(); ++i) terms *= weight.size(i);
    sums = sums + zeros * p * terms;
  }
  return {sums};
}

}  // namespace

Tensor quantize(const Tensor& self, const Tensor& scale, const std::optional<Tensor>& zero_point,
                DType dtype, Location at) {
  return Apply(kQuantize, at, {self, scale, OrNone(zero_point)}, {dtype});
}

Tensor dequantize(const Tensor& self, const Tensor& scale, const std::optional<Tensor>& zero_point,
                  DType dtype, Location at) {
  return Apply(kDequantize, at, {self, scale, OrNone(zero_point)}, {dtype});
}

Tensor quantization_scale(const Tensor& self, const Dims& sizes, DType dtype, Location at) {
  LocationScope scope(at);
  if (!IsQuantized(dtype)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "quantization_scale: {} is no integer of at most 32 bits, nor f8",
                     NameOf(dtype));
  }
  const Blocks blocks = BlocksOf("quantization_scale", self.shape(), sizes, "scale");
  Tensor largest = abs(Casted(Reshaped(self, blocks.whole), DType::kF32));
  Dims summed;
  for (int i = 0; i < blocks.whole.size(); ++i) {
    if (blocks.blocks[i] == 1) summed.push_back(i);
  }
  if (summed.size() > 0) largest = amax(largest, summed, true);
  Tensor scale = Reshaped(largest / InfoOf(dtype).highest, sizes);
  return where(gt(scale, 0.0), scale, 1.0);
}

Tensor quantized_linear(const Tensor& input, const Tensor& weight, const Tensor& scale,
                        const std::optional<Tensor>& zero_point, const std::optional<Tensor>& bias,
                        Location at) {
  return Apply(kQuantizedLinear, at, {input, weight, scale, OrNone(zero_point), OrNone(bias)});
}

Tensor int_matmul(const Tensor& self, const Tensor& other, const std::optional<Tensor>& self_zero,
                  const std::optional<Tensor>& other_zero, Location at) {
  return Apply(kIntMatmul, at, {self, other, OrNone(self_zero), OrNone(other_zero)});
}

Tensor int_convolution(const Tensor& input, const Tensor& weight,
                       const std::optional<Tensor>& input_zero,
                       const std::optional<Tensor>& weight_zero, const Dims& stride,
                       const Dims& padding, const Dims& dilation, int64_t groups, Location at) {
  LocationScope scope(at);
  const int spatial = weight.dim() - 2;
  if (spatial < 1) {
    Throw(ErrorCode::kShapeMismatch, "int_convolution: needs a weight [out, in, ...], got {}",
          weight.shape().to_string());
  }
  auto each = [&](const Dims& given, int64_t by_default) {
    if (given.size() == spatial) return given;
    return Dims::Filled(spatial, given.size() == 1 ? given[0] : by_default);
  };
  return Apply(
      kIntConvolution, at, {input, weight, OrNone(input_zero), OrNone(weight_zero)},
      {Attr(each(stride, 1)), Attr(each(padding, 0)), Attr(each(dilation, 1)), Attr(groups)});
}

namespace {

constinit const OpDef kQuantize = {
    .schema =
        "quantize(Tensor self, Tensor scale, Tensor? zero_point=None, ScalarType dtype=i8) -> "
        "Tensor",
    .doc = "round(self / scale) + zero_point, clamped; `scale` has one element for each block.",
    .call = Box<quantize>,
    .infer = InferQuantize<true>,
    .expand = ExpandQuantize,
    .samples = {{"f32[2,4] f32[] none", "{dtype=i8}"},
                {"f32[2,4] f32[2,1] i8[2,1]", "{dtype=i8}"},
                {"f32[2,8] f32[2,2] none", "{dtype=i4}"}},
};
constinit const OpDef kDequantize = {
    .schema =
        "dequantize(Tensor self, Tensor scale, Tensor? zero_point=None, ScalarType dtype=f32) -> "
        "Tensor",
    .doc = "(self - zero_point) * scale; `scale` has one element for each block.",
    .call = Box<dequantize>,
    .infer = InferQuantize<false>,
    .expand = ExpandDequantize,
    .samples = {{"i8[2,4] f32[] none", "{dtype=f64}"},
                {"u8[2,4] f32[2,1] u8[2,1]", "{dtype=bf16}"},
                {"i4[2,8] f32[2,2] none", "{dtype=f64}"}},
};
constinit const OpDef kIntConvolution = {
    .schema =
        "int_convolution(Tensor input, Tensor weight, Tensor? input_zero=None, Tensor? "
        "weight_zero=None, int[] stride=[], int[] padding=[], int[] dilation=[], int groups=1) -> "
        "Tensor",
    .doc = "Convolution of i8 or u8 without their zero points; sums are i32.",
    .call = Box<int_convolution>,
    .infer = InferIntConvolution,
    .expand = ExpandIntConvolution,
    .samples = {{"i8[2,4,6,5] i8[6,2,3,2] none none",
                 "{stride=[2,1], padding=[1,0], dilation=[1,2], groups=2}"},
                {"u8[1,2,5] i8[3,2,3] u8[] i8[3]",
                 "{stride=[1], padding=[1], dilation=[1], groups=1}"}},
};

}  // namespace

constinit const OpDef ops::kQuantizedLinear = {
    .schema =
        "quantized_linear(Tensor input, Tensor weight, Tensor scale, Tensor? zero_point=None, "
        "Tensor? bias=None) -> Tensor",
    .doc = "linear with a quantised weight; `scale` has one element for each block of it.",
    .call = Box<quantized_linear>,
    .infer = InferQuantizedLinear,
    .expand = ExpandQuantizedLinear,
    .samples = {{"f32[2,8] i8[3,8] f32[3,1] none none"},
                {"f32[8] u4[3,8] f32[3,2] u8[3,2] f32[3]"}},
};

namespace {
constinit const OpDef kIntMatmul = {
    .schema =
        "int_matmul(Tensor self, Tensor other, Tensor? self_zero=None, Tensor? other_zero=None) -> "
        "Tensor",
    .doc = "matmul of i8 or u8 without their zero points; sums are i32.",
    .call = Box<int_matmul>,
    .infer = InferIntMatmul,
    .expand = ExpandIntMatmul,
    .samples = {{"i8[3,4] i8[4,2] none none"}, {"u8[2,3,4] i8[4,2] u8[] i8[1,2]"}},
};
}  // namespace

// The largest i32 is no f32: the next smaller one is.
double ops::HighestStep(DType dtype, DType wide) {
  if (InfoOf(dtype).bits != 32 || wide != DType::kF32) return InfoOf(dtype).highest;
  return dtype == DType::kU32 ? 0x1.fffffep31 : 0x1.fffffep30;
}

std::span<const OpDef* const> ops::QuantizeOps() {
  static constexpr const OpDef* kOps[] = {
      &kQuantize,       &kDequantize,   &kQuantizedLinear,          &kIntMatmul,
      &kIntConvolution, &kFakeQuantize, &kFakeQuantizeFunctions[0], &kFakeQuantizeFunctions[1]};
  return kOps;
}

}  // namespace hammock
