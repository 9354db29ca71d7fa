#include "ops/random/draw.h"

#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "trace/rng.h"

namespace hammock::ops {

Tensor Words(const Draw& draw, int64_t rows) {
  const DrawnSizes drawn = draw.whole ? DrawnSizes{draw.sizes, {}} : SizesToDraw(draw.sizes);
  Tensor state = MakeRngState(draw.generator, drawn.blocks(rows), draw.device);
  return WordsFrom(state, draw.sizes, drawn, rows);
}

Tensor Row(const Tensor& words, int row, const Draw& draw) {
  return Reshaped(Sliced(words, 0, row, 1), draw.sizes);
}

Tensor UpperBits(const Tensor& words, int bits, DType dtype) {
  return Casted(bitwise_right_shift(words, Constant(32 - bits, DType::kU32)), dtype);
}

Tensor Times(const Tensor& x, double factor) { return mul(x, ConstantLike(factor, x)); }

Tensor Bits53(const Tensor& high, const Tensor& low) {
  Tensor upper = UpperBits(high, 27, DType::kF64), lower = UpperBits(low, 26, DType::kF64);
  return add(Times(upper, 0x1p26), lower);
}

Tensor Uniform(const Draw& draw) {
  switch (draw.dtype) {
    case DType::kF64: {
      Tensor words = Words(draw, 2);
      return Times(Bits53(Row(words, 0, draw), Row(words, 1, draw)), 0x1p-53);
    }
    case DType::kF16:
      return Times(UpperBits(Row(Words(draw, 1), 0, draw), 11, DType::kF16), 0x1p-11);
    case DType::kBF16:
      return Times(UpperBits(Row(Words(draw, 1), 0, draw), 8, DType::kBF16), 0x1p-8);
    default:
      return Times(UpperBits(Row(Words(draw, 1), 0, draw), 24, DType::kF32), 0x1p-24);
  }
}

}  // namespace hammock::ops
