#include "ops/primitives/storage.h"

#include <bit>
#include <cmath>
#include <limits>

#include "hammock/ops/elementwise.h"
#include "hammock/ops/operators.h"
#include "ir/primitives.h"
#include "ir/storage.h"
#include "ops/kit/record.h"

namespace hammock::ops {

DType UnpackedDType(DType storage) {
  return IsFloat(storage) || !IsSigned(storage) ? DType::kU8 : DType::kI8;
}

namespace {

Tensor Bits(const Tensor& x, DType dtype) { return Apply(kBitcast, Location(), {x}, {dtype}); }

Tensor Unpack(const Tensor& x) { return Apply(kUnpack, Location(), {x}); }
Tensor Pack(const Tensor& x, DType dtype) { return Apply(kPack, Location(), {x}, {dtype}); }

// ---- f8

/// Note [Bits of f8]: Float8 of float8.h, in ops on i32.
template <class Float>
Tensor Encoded(const Tensor& x) {
  constexpr int kShift = 23 - Float::kMantissa;
  constexpr int kRebias = (127 - Float::kBias) << 23;
  const auto smallest_normal = std::bit_cast<int>(float(Float::FromBits(1 << Float::kMantissa)));
  const auto magic = std::bit_cast<int>(float(Float::FromBits(1)) * 0x1p23f);
  Tensor bits = Bits(Casted(x, DType::kF32), DType::kI32);
  Tensor size = bits & 0x7fffffff;
  Tensor odd = (size >> kShift) & 1;
  Tensor normal = (size + ((1 << (kShift - 1)) - 1 - kRebias) + odd) >> kShift;
  Tensor small =
      Bits(Bits(size, DType::kF32) + double(std::bit_cast<float>(magic)), DType::kI32) - magic;
  Tensor result = where(lt(size, smallest_normal), small, normal);
  result = where(lt(size, int(Float::kTooLarge)), result, int(Float::kOverflow));
  result = result | ((bits >> 24) & 0x80);
  return Casted(where(gt(size, 0x7f800000), int(Float::kNaN), result), DType::kU8);
}

/// The value in f32.
template <class Float>
Tensor Decoded(const Tensor& bits) {
  constexpr int kRebias = (127 - Float::kBias) << 23;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor wide = Casted(bits, DType::kI32);
  Tensor size = wide & 0x7f;
  Tensor normal = Bits((size << (23 - Float::kMantissa)) + kRebias, DType::kF32);
  Tensor small = Casted(size, DType::kF32) * double(float(Float::FromBits(1)));
  Tensor result = where(lt(size, 1 << Float::kMantissa), small, normal);
  if (std::isinf(float(Float::FromBits(Float::kOverflow)))) {
    result = where(eq(size, int(Float::kOverflow)), kInfinity, result);
  }
  result = where(ge(size, int(Float::kFirstNaN)), std::numeric_limits<double>::quiet_NaN(), result);
  return where(gt(wide, 0x7f), -result, result);
}

// ---- several elements a byte

/// Sizes with the elements of a byte as a dim of their own, of as many dims as there may be.
Dims ByBytes(const Dims& sizes, int64_t each) {
  Dims result = sizes;
  if (sizes.size() == kMaxRank) {
    int64_t count = 1;
    for (int64_t size : sizes) count *= size;
    result = {count};
  }
  result[result.size() - 1] /= each;
  result.push_back(each);
  return result;
}

/// The numbers that the lowest bits of u8 elements encode.
Tensor LowBits(const Tensor& bytes, DType dtype) {
  const int bits = InfoOf(dtype).bits, sign = 1 << (bits - 1);
  Tensor value = bytes & ((1 << bits) - 1);
  return IsSigned(dtype) ? Bits(bitwise_xor(value, sign), DType::kI8) - sign : value;
}

Tensors ExpandUnpack(const ExpandCall& call) {
  const Tensor& x = call.in[0];
  const DType dtype = x.dtype();
  if (IsFloat(dtype)) return {Bits(x, DType::kU8)};
  const int bits = InfoOf(dtype).bits;
  const int64_t each = 8 / bits;
  Tensor bytes = Bits(x, DType::kU8);
  if (x.dim() > 0) {
    Dims sizes = ByBytes(x.sizes(), each), single = sizes;
    single[single.size() - 1] = 1;
    bytes = Broadcasted(Reshaped(bytes, single), sizes);
    Tensor shift = Casted(Counting(each, x), DType::kU8) * bits;
    bytes = bitwise_right_shift(bytes, shift);
  }
  return {Reshaped(LowBits(bytes, dtype), x.sizes())};
}

Tensors ExpandPack(const ExpandCall& call) {
  const Tensor& x = call.in[0];
  const DType dtype = call.attrs[0].dtype();
  if (IsFloat(dtype)) return {Bits(x, dtype)};
  const int bits = InfoOf(dtype).bits;
  Tensor elements = Bits(x, DType::kU8) & ((1 << bits) - 1);
  if (x.dim() == 0) return {Bits(elements, dtype)};
  const int each = 8 / bits;
  Dims sizes = ByBytes(x.sizes(), each);
  const int last = sizes.size() - 1;
  elements = Reshaped(elements, sizes);
  Tensor bytes;
  for (int i = 0; i < each; ++i) {
    Tensor part = Sliced(elements, last, i, 1);
    bytes = i == 0 ? part : bytes | bitwise_left_shift(part, i * bits);
  }
  Dims packed = x.sizes();
  packed[packed.size() - 1] /= each;
  return {Bits(Reshaped(bytes, packed), dtype)};
}

void InferUnpack(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, IsStorage(self.dtype()), self, "a storage type");
  call.out = {self.With(UnpackedDType(self.dtype()))};
}

void InferPack(const InferCall& call) {
  const Shape& self = *call.in[0];
  const DType dtype = call.attrs[0].dtype();
  RequireDType(call, IsStorage(dtype) && self.dtype() == UnpackedDType(dtype), self,
               "what _unpack gives");
  call.out = {self.With(dtype)};
}

}  // namespace

Tensors CastStored(const ExpandCall& call) {
  Tensor x = call.in[0];
  const DType from = x.dtype(), to = call.attrs[0].dtype();
  if (from == to) return {x};
  if (IsStorage(from)) x = Unpack(x);
  if (from == DType::kF8E4M3) x = Decoded<Float8E4M3>(x);
  if (from == DType::kF8E5M2) x = Decoded<Float8E5M2>(x);
  if (!IsStorage(to)) return {Casted(x, to)};
  if (to == DType::kF8E4M3) return {Pack(Encoded<Float8E4M3>(x), to)};
  if (to == DType::kF8E5M2) return {Pack(Encoded<Float8E5M2>(x), to)};
  return {Pack(LowBits(Bits(Casted(x, UnpackedDType(to)), DType::kU8), to), to)};
}

Tensors ConstantStored(const ExpandCall& call) {
  const DType dtype = call.attrs[1].dtype();
  const Scalar value = call.attrs[0].scalar().To(dtype);
  uint8_t bits = 0;
  value.Store(&bits);
  const DType wide = UnpackedDType(dtype);
  const Scalar element = IsFloat(dtype) ? Scalar(int64_t{bits}) : Scalar(value.ToInt());
  return {Pack(ApplyOn(kConstant, Location(), Device(), {element.To(wide), wide}), dtype)};
}

Tensors MoveStored(const ExpandCall& call) {
  Tensors operands;
  for (const Tensor& x : call.in) {
    operands.push_back(x.defined() && IsStorage(x.dtype()) ? Unpack(x) : x);
  }
  return {Pack(Apply(call.op, Location(), operands, call.attrs), call.out[0].dtype())};
}

constinit const OpDef kUnpack = {
    .schema = "_unpack(Tensor self) -> Tensor",
    .doc = "Elements of a storage type as u8 or i8; of f8 the bits.",
    .infer = InferUnpack,
    .expand = ExpandUnpack,
    .samples = {{"i4[2,4]"}, {"u4[8]"}, {"u2[2,8]"}},
};
constinit const OpDef kPack = {
    .schema = "_pack(Tensor self, ScalarType dtype) -> Tensor",
    .doc = "Elements as _unpack gives them, in the bits of a storage type that holds them.",
    .infer = InferPack,
    .expand = ExpandPack,
    .samples = {{"u8[2,3]", "{dtype=f8e5m2}"}, {"i8[2,4]", "{dtype=i4}"}, {"u8[8]", "{dtype=u2}"}},
};

std::span<const OpDef* const> StorageOps() {
  static constexpr const OpDef* kNodes[] = {&kUnpack, &kPack};
  return kNodes;
}

}  // namespace hammock::ops
