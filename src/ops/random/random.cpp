#include "hammock/ops/random.h"

#include <limits>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "ops/primitives/require.h"
#include "ops/random/draw.h"
#include "trace/layout.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

namespace {

/// Box-Muller in f32, or f64 for f64; the logarithm's argument is in (0, 1].
Tensor Normal(const Draw& draw) {
  Tensor radius_bits, angle_bits;
  double unit;
  if (draw.dtype == DType::kF64) {
    Tensor words = Words(draw, 4);
    radius_bits = Bits53(Row(words, 0, draw), Row(words, 1, draw));
    angle_bits = Bits53(Row(words, 2, draw), Row(words, 3, draw));
    unit = 0x1p-53;
  } else {
    Tensor words = Words(draw, 2);
    radius_bits = UpperBits(Row(words, 0, draw), 24, DType::kF32);
    angle_bits = UpperBits(Row(words, 1, draw), 24, DType::kF32);
    unit = 0x1p-24;
  }
  Tensor u = Times(add(radius_bits, ConstantLike(1, radius_bits)), unit);
  Tensor radius = sqrt(Times(log(u), -2));
  Tensor angle = Times(angle_bits, unit * 2 * std::numbers::pi);
  return Casted(mul(radius, cos(angle)), draw.dtype);
}

/// Integers in [low, low + range), range 0 meaning 2**64; in i64.
Tensor Integers(const Draw& draw, int64_t low, uint64_t range) {
  Tensor offset;
  if (range != 0 && range < (uint64_t{1} << 32)) {
    Tensor word = Row(Words(draw, 1), 0, draw);
    offset = Casted(remainder(word, Lift(static_cast<int64_t>(range), DType::kU32)), DType::kI64);
  } else {
    Tensor words = Words(draw, 2);
    Tensor high =
        bitwise_left_shift(Casted(Row(words, 0, draw), DType::kU64), Constant(32, DType::kU64));
    Tensor word = bitwise_or(high, Casted(Row(words, 1, draw), DType::kU64));
    if (range != 0) word = remainder(word, Lift(Scalar(range), DType::kU64));
    offset = Casted(word, DType::kI64);
  }
  return add(offset, Lift(low, DType::kI64));
}

DType FloatDType(const char* op, std::optional<DType> dtype, DType fallback) {
  DType result = dtype.value_or(fallback);
  if (IsFloat(result)) return result;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: dtype {} is not floating", op, NameOf(result));
}

DType FloatOrComplexDType(const char* op, std::optional<DType> dtype, DType fallback) {
  DType result = dtype.value_or(fallback);
  return IsComplex(result) ? result : FloatDType(op, dtype, fallback);
}

/// The numbers that `draw` gives; for a complex dtype real and imaginary part are drawn side by
/// side, times `scale`.
Tensor Drawn(Tensor (*draw)(const Draw&), Draw as, double scale) {
  if (!IsComplex(as.dtype)) return draw(as);
  const Dims sizes = as.sizes;
  const DType dtype = as.dtype;
  as.dtype = RealOf(dtype);
  as.sizes.push_back(2);
  Tensor parts = draw(as);
  if (scale != 1) parts = mul(parts, ConstantLike(scale, parts));
  return Reshaped(Apply(kBitcast, Location(), {parts}, {dtype}), sizes);
}

/// A complex normal number has the variance 1: each part has half of it.
constexpr double kRootOfHalf = std::numbers::sqrt2 / 2;

/// [from, to) as a count, checked against what the dtype holds.
uint64_t CheckedRange(const char* op, int64_t from, int64_t to, DType dtype) {
  if (from >= to) Throw(ErrorCode::kValue, "{}: low {} must be below high {}", op, from, to);
  const DTypeInfo& info = InfoOf(dtype);
  double highest = dtype == DType::kBool ? 1 : info.highest;
  double lowest = dtype == DType::kBool ? 0 : info.lowest;
  if (static_cast<double>(from) < lowest || static_cast<double>(to - 1) > highest) {
    Throw(ErrorCode::kValue, "{}: [{}, {}) has values that {} does not hold", op, from, to,
          NameOf(dtype));
  }
  return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
}

Draw Like(const Tensor& self, DType dtype, const std::optional<Device>& device,
          const OptionalGenerator& generator) {
  return {self.sizes(), dtype, device ? *device : self.device(), generator};
}

Draw InPlace(const Tensor& self, const OptionalGenerator& generator) {
  return {self.sizes(), self.dtype(), self.device(), generator};
}

void CheckStd(double std) {
  if (!(std >= 0)) Throw(ErrorCode::kValue, "normal: std {} must not be negative", std);
}

void CheckProbability(double p) {
  if (!(p >= 0 && p <= 1)) Throw(ErrorCode::kValue, "bernoulli: p {} must be in [0, 1]", p);
}

/// As above for values that are known only when the graph runs.
Tensor CheckedProbabilities(const Tensor& p) {
  return Required(p, InRange(p, 0, 1), "bernoulli", "probabilities must be in [0, 1]");
}
Tensor CheckedStd(const Tensor& std) {
  return Required(std, ge(std, ConstantLike(0, std)), "normal", "std must not be negative");
}

}  // namespace

// ---- new tensors

Tensor rand(const Dims& size, std::optional<DType> dtype, const Device& device,
            const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  CheckSizes("rand", size);
  DType result = FloatOrComplexDType("rand", dtype, kDefaultFloat);
  return Drawn(Uniform, {size, result, device, generator}, 1);
}

Tensor rand_like(const Tensor& self, std::optional<DType> dtype,
                 const std::optional<Device>& device, const OptionalGenerator& generator,
                 Location at) {
  LocationScope scope(at);
  DType result = FloatOrComplexDType("rand_like", dtype, self.dtype());
  return LikeLayout(Drawn(Uniform, Like(self, result, device, generator), 1), self);
}

Tensor randn(const Dims& size, std::optional<DType> dtype, const Device& device,
             const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  CheckSizes("randn", size);
  DType result = FloatOrComplexDType("randn", dtype, kDefaultFloat);
  return Drawn(Normal, {size, result, device, generator}, kRootOfHalf);
}

Tensor randn_like(const Tensor& self, std::optional<DType> dtype,
                  const std::optional<Device>& device, const OptionalGenerator& generator,
                  Location at) {
  LocationScope scope(at);
  DType result = FloatOrComplexDType("randn_like", dtype, self.dtype());
  return LikeLayout(Drawn(Normal, Like(self, result, device, generator), kRootOfHalf), self);
}

Tensor randint(int64_t low, int64_t high, const Dims& size, std::optional<DType> dtype,
               const Device& device, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  CheckSizes("randint", size);
  DType result = dtype.value_or(DType::kI64);
  uint64_t range = CheckedRange("randint", low, high, result);
  return Casted(Integers({size, result, device, generator}, low, range), result);
}

Tensor randint(int64_t high, const Dims& size, std::optional<DType> dtype, const Device& device,
               const OptionalGenerator& generator, Location at) {
  return randint(0, high, size, dtype, device, generator, at);
}

Tensor randint_like(const Tensor& self, int64_t low, int64_t high, std::optional<DType> dtype,
                    const std::optional<Device>& device, const OptionalGenerator& generator,
                    Location at) {
  LocationScope scope(at);
  Tensor result = randint(low, high, self.sizes(), dtype.value_or(self.dtype()),
                          device ? *device : self.device(), generator, at);
  return LikeLayout(std::move(result), self);
}

Tensor randint_like(const Tensor& self, int64_t high, std::optional<DType> dtype,
                    const std::optional<Device>& device, const OptionalGenerator& generator,
                    Location at) {
  return randint_like(self, 0, high, dtype, device, generator, at);
}

Tensor randperm(int64_t n, std::optional<DType> dtype, const Device& device,
                const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  CheckSizes("randperm", {n});
  Draw draw{{n}, DType::kU32, device, generator, /*whole=*/true};
  const Tensor keys[] = {Row(Words(draw, 1), 0, draw)};
  const Attr attrs[] = {0, false, true};
  return Casted(ApplyMulti(kSort, at, keys, attrs)[1], dtype.value_or(DType::kI64));
}

// ---- distributions with parameters

Tensor bernoulli(const Tensor& self, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  NeedFloat("bernoulli", self);
  Tensor drawn = lt(Uniform(InPlace(self, generator)), CheckedProbabilities(self.detach()));
  return Casted(drawn, self.dtype());
}

Tensor bernoulli(const Tensor& self, double p, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  CheckProbability(p);
  Draw draw{self.sizes(), DType::kF32, self.device(), generator};
  return Casted(lt(Uniform(draw), p), self.dtype());
}

Tensor normal(const Tensor& mean, const TensorArg& std, const OptionalGenerator& generator,
              Location at) {
  LocationScope scope(at);
  NeedFloat("normal", mean);
  if (!std.is_tensor()) CheckStd(std.scalar().ToDouble());
  Tensor deviation = std.is_tensor() ? CheckedStd(std.tensor()) : AsTensor(std, mean);
  Dims sizes = BroadcastSizes("normal", mean.sizes(), deviation.sizes());
  Tensor z = Normal({sizes, mean.dtype(), mean.device(), generator});
  return add(mul(z, deviation), mean);
}

Tensor normal(double mean, const Tensor& std, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  NeedFloat("normal", std);
  return add(mul(Normal(InPlace(std, generator)), CheckedStd(std)), mean);
}

Tensor normal(double mean, double std, const Dims& size, std::optional<DType> dtype,
              const Device& device, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  CheckStd(std);
  return add(mul(randn(size, dtype, device, generator, at), std), mean);
}

// ---- in place

Tensor& uniform_(Tensor& self, double from, double to, const OptionalGenerator& generator,
                 Location at) {
  LocationScope scope(at);
  NeedFloat("uniform_", self);
  if (!(from <= to)) Throw(ErrorCode::kValue, "uniform_: from {} is above to {}", from, to);
  Tensor u = Uniform(InPlace(self, generator));
  return WriteInPlace("uniform_", self, add(mul(u, to - from), from));
}

Tensor& normal_(Tensor& self, double mean, double std, const OptionalGenerator& generator,
                Location at) {
  LocationScope scope(at);
  NeedFloat("normal_", self);
  CheckStd(std);
  return WriteInPlace("normal_", self, add(mul(Normal(InPlace(self, generator)), std), mean));
}

Tensor& exponential_(Tensor& self, double lambd, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  NeedFloat("exponential_", self);
  if (!(lambd > 0)) Throw(ErrorCode::kValue, "exponential_: lambd {} must be above 0", lambd);
  Tensor u = Uniform(InPlace(self, generator));
  return WriteInPlace("exponential_", self, div(neg(log1p(neg(u))), lambd));
}

Tensor& bernoulli_(Tensor& self, const TensorArg& p, const OptionalGenerator& generator,
                   Location at) {
  LocationScope scope(at);
  if (!p.is_tensor()) CheckProbability(p.scalar().ToDouble());
  Draw draw{self.sizes(), DType::kF32, self.device(), generator};
  Tensor limit = p.is_tensor() ? CheckedProbabilities(p.tensor()) : Lift(p.scalar(), DType::kF32);
  Tensor drawn = lt(Uniform(draw), limit);
  return WriteInPlace("bernoulli_", self, Casted(drawn, self.dtype()));
}

Tensor& random_(Tensor& self, int64_t from, std::optional<int64_t> to,
                const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  int64_t end = to.value_or(std::numeric_limits<int64_t>::max());
  if (!to && InfoOf(self.dtype()).highest < 9e18) {
    end = static_cast<int64_t>(InfoOf(self.dtype()).highest) + 1;
  }
  uint64_t range = CheckedRange("random_", from, end, self.dtype());
  Tensor drawn = Integers(InPlace(self, generator), from, range);
  return WriteInPlace("random_", self, Casted(drawn, self.dtype()));
}

Tensor& random_(Tensor& self, int64_t to, const OptionalGenerator& generator, Location at) {
  return random_(self, 0, to, generator, at);
}

Tensor& random_(Tensor& self, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  DType dtype = self.dtype();
  if (dtype == DType::kBool) return random_(self, 0, 2, generator, at);
  if (!IsFloat(dtype)) return random_(self, 0, std::nullopt, generator, at);
  // Up to where neighbouring floats are one apart.
  double last = 2 / InfoOf(dtype).epsilon;
  return random_(self, 0, static_cast<int64_t>(last) + 1, generator, at);
}

// ---- records

namespace ops {
namespace {

using FillFn = Tensor (*)(const Dims&, std::optional<DType>, const Device&,
                          const OptionalGenerator&, Location);
using SizedFn = Tensor (*)(int64_t, const Dims&, std::optional<DType>, const Device&,
                           const OptionalGenerator&, Location);
using SizedLowFn = Tensor (*)(int64_t, int64_t, const Dims&, std::optional<DType>, const Device&,
                              const OptionalGenerator&, Location);
using LikeFn = Tensor (*)(const Tensor&, int64_t, std::optional<DType>,
                          const std::optional<Device>&, const OptionalGenerator&, Location);
using LikeLowFn = Tensor (*)(const Tensor&, int64_t, int64_t, std::optional<DType>,
                             const std::optional<Device>&, const OptionalGenerator&, Location);
using ProbabilitiesFn = Tensor (*)(const Tensor&, const OptionalGenerator&, Location);
using ProbabilityFn = Tensor (*)(const Tensor&, double, const OptionalGenerator&, Location);
using MeansFn = Tensor (*)(const Tensor&, const TensorArg&, const OptionalGenerator&, Location);
using StdsFn = Tensor (*)(double, const Tensor&, const OptionalGenerator&, Location);
using NormalFn = Tensor (*)(double, double, const Dims&, std::optional<DType>, const Device&,
                            const OptionalGenerator&, Location);
using RandomFn = Tensor& (*)(Tensor&, const OptionalGenerator&, Location);
using RandomToFn = Tensor& (*)(Tensor&, int64_t, const OptionalGenerator&, Location);
using RandomFromFn = Tensor& (*)(Tensor&, int64_t, std::optional<int64_t>, const OptionalGenerator&,
                                 Location);

#define FUNCTION(text, what, function)                                  \
  {                                                                     \
    .schema = text                                                      \
        ", *, ScalarType? dtype=None, Device? device=None, Generator? " \
        "generator=None) -> Tensor",                                    \
    .doc = what, .call = Box<function>                                  \
  }
#define DRAW(text, what, function) \
  { .schema = text ", *, Generator? generator=None) -> Tensor", .doc = what, .call = Box<function> }
#define IN_PLACE(text, what, function)                                           \
  {                                                                              \
    .schema = text ", *, Generator? generator=None) -> Tensor(a!)", .doc = what, \
    .call = Box<function>                                                        \
  }

constinit const OpDef kFunctions[] = {
    FUNCTION("rand(int[] size", "Uniform in [0, 1).", FillFn(rand)),
    FUNCTION("randn(int[] size", "Normal with mean 0 and standard deviation 1.", FillFn(randn)),
    FUNCTION("randint(int high, int[] size", "Integers in [0, high).", SizedFn(randint)),
    FUNCTION("randint.low(int low, int high, int[] size", "Integers in [low, high).",
             SizedLowFn(randint)),
    FUNCTION("randperm(int n", "0 to n - 1 in random order.", randperm),
    FUNCTION("rand_like(Tensor self", "Uniform in [0, 1), in the shape of `self`.", rand_like),
    FUNCTION("randn_like(Tensor self", "Normal, in the shape of `self`.", randn_like),
    FUNCTION("randint_like(Tensor self, int high", "Integers in [0, high).", LikeFn(randint_like)),
    FUNCTION("randint_like.low(Tensor self, int low, int high", "Integers in [low, high).",
             LikeLowFn(randint_like)),
    DRAW("bernoulli(Tensor self", "1 with the probability that `self` holds, else 0.",
         ProbabilitiesFn(bernoulli)),
    DRAW("bernoulli.p(Tensor self, float p", "1 with probability `p`, else 0.",
         ProbabilityFn(bernoulli)),
    FUNCTION("normal(float mean, float std, int[] size", "Normal.", NormalFn(normal)),
    DRAW("normal.mean(Tensor mean, Tensor std=1", "Normal, with a mean for each element.",
         MeansFn(normal)),
    DRAW("normal.std(float mean, Tensor std", "Normal, with a deviation for each element.",
         StdsFn(normal)),
    IN_PLACE("uniform_(Tensor(a!) self, float from=0, float to=1", "Uniform in [from, to).",
             uniform_),
    IN_PLACE("normal_(Tensor(a!) self, float mean=0, float std=1", "Normal.", normal_),
    IN_PLACE("exponential_(Tensor(a!) self, float lambd=1", "Exponential.", exponential_),
    IN_PLACE("bernoulli_(Tensor(a!) self, Tensor p=0.5", "1 with probability `p`, else 0.",
             bernoulli_),
    IN_PLACE("random_(Tensor(a!) self", "Integers that the dtype holds exactly.",
             RandomFn(random_)),
    IN_PLACE("random_.to(Tensor(a!) self, int to", "Integers in [0, to).", RandomToFn(random_)),
    IN_PLACE("random_.from(Tensor(a!) self, int from, int? to", "Integers in [from, to).",
             RandomFromFn(random_)),
};
#undef FUNCTION
#undef DRAW
#undef IN_PLACE

}  // namespace

std::span<const OpDef* const> RandomOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace ops
}  // namespace hammock
