#pragma once
/// Random words and uniforms, of which all random ops are made. Every backend gives the same ones.
/// The caller has opened a LocationScope.

#include "hammock/ops/random.h"
#include "hammock/tensor.h"

namespace hammock::ops {

/// Where random numbers come from and what they become.
struct Draw {
  Dims sizes;
  DType dtype;
  Device device;
  const OptionalGenerator& generator;
  bool whole = false;  ///< also where tensors are drawn in parts

  int64_t count() const { return Shape(dtype, sizes).numel(); }
};

/// The tensor of which a draw is a part: see distributed::RandomPart.
struct DrawnSizes {
  Dims whole, start;
  /// Of the generator, for `rows` words each.
  uint64_t blocks(int64_t rows) const;
};
/// By what this thread draws now.
DrawnSizes SizesToDraw(const Dims& sizes);
/// The words of a stream that belong to this part, as [rows, count].
Tensor WordsFrom(const Tensor& state, const Dims& sizes, const DrawnSizes& drawn, int64_t rows);

/// `rows` independent u32 words for each element, as [rows, count].
Tensor Words(const Draw& draw, int64_t rows);
/// One of those rows, in the sizes of the draw.
Tensor Row(const Tensor& words, int row, const Draw& draw);
/// The upper `bits` of each word, as a number of `dtype`, which holds it exactly.
Tensor UpperBits(const Tensor& words, int bits, DType dtype);
/// 53 random bits of two words as an integer in f64.
Tensor Bits53(const Tensor& high, const Tensor& low);
/// In [0, 1), with as many bits as the dtype's mantissa has.
Tensor Uniform(const Draw& draw);
/// x * factor, a constant.
Tensor Times(const Tensor& x, double factor);

}  // namespace hammock::ops
