#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

DType DTypeOf(const Call& c, DType otherwise) {
  if (!c.HasAttribute("dtype")) return otherwise;
  return DTypeOfElement(static_cast<int32_t>(c.Int("dtype", 1)));
}

/// A generator of its own where the node has a seed.
OptionalGenerator GeneratorOf(const Call& c) {
  if (!c.HasAttribute("seed")) return std::nullopt;
  return Generator(static_cast<uint64_t>(static_cast<int64_t>(c.Float("seed", 0))));
}

Tensor Uniform(const Call& c, const Dims& sizes, DType dtype) {
  double low = c.Float("low", 0), high = c.Float("high", 1);
  return (rand(sizes, DType::kF32, c.device(), GeneratorOf(c)) * (high - low) + low).to(dtype);
}

Tensor Normal(const Call& c, const Dims& sizes, DType dtype) {
  Tensor x = randn(sizes, DType::kF32, c.device(), GeneratorOf(c));
  return (x * c.Float("scale", 1) + c.Float("mean", 0)).to(dtype);
}

Values RandomUniform(Call& c) {
  return {Uniform(c, Dims(c.IntList("shape")), DTypeOf(c, DType::kF32))};
}
Values RandomUniformLike(Call& c) {
  Tensor x = c[0];
  return {Uniform(c, x.sizes(), DTypeOf(c, x.dtype()))};
}
Values RandomNormal(Call& c) {
  return {Normal(c, Dims(c.IntList("shape")), DTypeOf(c, DType::kF32))};
}
Values RandomNormalLike(Call& c) {
  Tensor x = c[0];
  return {Normal(c, x.sizes(), DTypeOf(c, x.dtype()))};
}
Values Bernoulli(Call& c) {
  Tensor x = c[0];
  return {bernoulli(x, GeneratorOf(c)).to(DTypeOf(c, x.dtype()))};
}
Values Multinomial(Call& c) {
  Tensor x = c[0];
  Tensor drawn = multinomial(softmax(x, -1), c.Int("sample_size", 1), true, GeneratorOf(c));
  return {drawn.to(DTypeOf(c, DType::kI32))};
}

constexpr Operator kRows[] = {
    {"Bernoulli", 15, kNewestOpset, Bernoulli, Needs::kRandom},
    {"Multinomial", 7, kNewestOpset, Multinomial, Needs::kRandom},
    {"RandomNormal", 1, kNewestOpset, RandomNormal, Needs::kRandom},
    {"RandomNormalLike", 1, kNewestOpset, RandomNormalLike, Needs::kRandom},
    {"RandomUniform", 1, kNewestOpset, RandomUniform, Needs::kRandom},
    {"RandomUniformLike", 1, kNewestOpset, RandomUniformLike, Needs::kRandom},
};

}  // namespace

std::span<const Operator> RandomOperators() { return kRows; }

}  // namespace hammock::onnx
