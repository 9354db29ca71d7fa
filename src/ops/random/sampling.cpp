// Draws from distributions that tensors describe: multinomial, poisson, gumbel_softmax.

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/random.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/special.h"
#include "ir/primitives.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "ops/primitives/loop.h"
#include "ops/primitives/require.h"
#include "ops/random/draw.h"
#include "trace/rng.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

namespace {

// ---- multinomial
//
// Note [Same draws everywhere]: an index must not depend on how a backend rounds log or orders a
// sum. So what decides it is made of operations that IEEE 754 or integers define exactly: weights
// are scaled to integers before they are summed, and the logarithm is a polynomial.

/// log(x) of normal f64 numbers, by operations that round the same on every backend.
Tensor PortableLog(const Tensor& x) {
  auto [mantissa, exponent] = frexp(x);
  Tensor one = ConstantLike(1, x);
  // log(m) = 2 artanh((m - 1) / (m + 1)), with m in [1/2, 1): the argument is in [-1/3, 0).
  Tensor s = div(sub(mantissa, one), add(mantissa, one));
  Tensor square = mul(s, s);
  constexpr int kLast = 35;  // (1/3)**35 / 35 is below 2**-60
  Tensor series = ConstantLike(2.0 / kLast, x);
  for (int power = kLast - 2; power > 0; power -= 2) {
    series = add(mul(series, square), ConstantLike(2.0 / power, x));
  }
  return add(mul(series, s), Times(Casted(exponent, DType::kF64), std::numbers::ln2));
}

/// One uniform f64 in [0, 1) for each element.
Tensor UniformIn(const Dims& sizes, const Tensor& like, const OptionalGenerator& generator) {
  return Uniform({sizes, DType::kF64, like.device(), generator});
}

/// Indices with replacement, of f64[rows, classes]: where a point of the summed weights falls.
Tensor WithReplacement(const Tensor& weights, int64_t count, const OptionalGenerator& generator) {
  // As many bits as leave the sum below 2**52.
  int bits = 52 - std::bit_width(static_cast<uint64_t>(weights.size(1)));
  Tensor scaled = Times(div(weights, amax(weights, 1, true)), std::ldexp(1.0, bits));
  Tensor sums = cumsum(Casted(scaled, DType::kI64), 1);
  Tensor total = Sliced(sums, 1, weights.size(1) - 1, 1);
  Tensor u = UniformIn({weights.size(0), count}, weights, generator);
  Tensor point = minimum(Casted(mul(u, Casted(total, DType::kF64)), DType::kI64),
                         sub(total, ConstantLike(1, total)));
  return searchsorted(sums, point, false, /*right=*/true);
}

/// Indices without replacement: an exponential race, in which the rate of each class is its weight.
Tensor WithoutReplacement(const Tensor& weights, int64_t count,
                          const OptionalGenerator& generator) {
  Tensor u = UniformIn(weights.sizes(), weights, generator);
  Tensor time = neg(PortableLog(sub(ConstantLike(1, u), u)));
  Tensor zero = ConstantLike(0, weights);
  Tensor arrival = where(gt(weights, zero), div(maximum(time, zero), weights),
                         ConstantLike(std::numeric_limits<double>::infinity(), weights));
  return std::get<1>(topk(arrival, count, 1, /*largest=*/false));
}

void CheckMultinomial(const Tensor& self, int64_t count, bool replacement) {
  NeedFloat("multinomial", self);
  if (self.dim() < 1 || self.dim() > 2) {
    Throw(ErrorCode::kShapeMismatch, "multinomial: needs weights of 1 or 2 dims, got {}",
          self.shape().to_string());
  }
  int64_t classes = self.size(-1);
  if (classes == 0 || classes >= int64_t{1} << 24) {
    Throw(ErrorCode::kShapeMismatch, "multinomial: needs 1 to 2**24 - 1 classes, got {}",
          self.shape().to_string());
  }
  if (count <= 0 || (!replacement && count > classes)) {
    Throw(ErrorCode::kValue,
          "multinomial: num_samples {} must be at least 1 and, without replacement, at most the {} "
          "classes of {}",
          count, classes, self.shape().to_string());
  }
}

Tensor CheckedWeights(const Tensor& weights, int64_t count, bool replacement) {
  Tensor fine = InRange(weights, 0, std::numeric_limits<double>::max());
  Tensor checked =
      Required(weights, fine, "multinomial", "weights must be finite and not negative");
  Tensor positive = sum(Casted(gt(weights, ConstantLike(0, weights)), DType::kI64), 1);
  int64_t needed = replacement ? 1 : count;
  return Required(checked, ge(positive, ConstantLike(needed, positive)), "multinomial",
                  "too few weights of a row are above zero");
}

// ---- poisson

constexpr double kLargeRate = 10;
// The chance that an element is left after so many iterations, of which each accepts more than 3 of
// 4, is below 2**-60.
constexpr int64_t kRounds = 32;
// A rate below kLargeRate has more events with a chance below 2**-60.
constexpr int64_t kMostOfSmall = 64;

/// Inversion: how many values of the distribution function are at most a uniform number.
Tensor SmallPoisson(const Tensor& rate, const Tensor& u) {
  Tensor none = Filled(rate.sizes(), 0.0, DType::kF64, rate);
  LoopOperands operands{{exp(neg(rate)), none, none}, {}, {rate, u}};
  return Loop(kMostOfSmall, operands, [](const LoopStep& s) -> Tensors {
    const Tensor &mass = s.carried[0], &rate = s.invariant[0], &u = s.invariant[1];
    Tensor sum = add(s.carried[1], mass);
    Tensor next = Casted(add(s.index, ConstantLike(1, s.index)), DType::kF64);
    return {div(mul(mass, rate), next), sum, add(s.carried[2], Casted(ge(u, sum), DType::kF64))};
  })[2];
}

/// One iteration of Hoermann's transformed rejection (PTRS): (candidate, whether it is accepted).
std::pair<Tensor, Tensor> TryPoisson(const Tensor& rate, const Tensor& first, const Tensor& v) {
  auto c = [&](double value) { return ConstantLike(value, rate); };
  Tensor b = add(Times(sqrt(rate), 2.53), c(0.931));
  Tensor a = sub(Times(b, 0.02483), c(0.059));
  Tensor u = sub(first, c(0.5));
  Tensor us = sub(c(0.5), abs(u));
  Tensor k = floor(add(mul(add(div(Times(a, 2), us), b), u), add(rate, c(0.43))));
  Tensor limit = sub(c(0.9277), div(c(3.6224), sub(b, c(2))));
  Tensor at_once = logical_and(ge(us, c(0.07)), le(v, limit));
  Tensor outside = logical_or(lt(k, c(0)), logical_and(lt(us, c(0.013)), gt(v, us)));
  Tensor inverse = add(div(c(1.1328), sub(b, c(3.4))), c(1.1239));
  Tensor left = log(div(mul(v, inverse), add(div(a, mul(us, us)), b)));
  Tensor right = sub(sub(mul(k, log(rate)), rate), lgamma(add(k, c(1))));
  return {k, logical_or(at_once, logical_and(logical_not(outside), le(left, right)))};
}

/// f64 uniforms of rows `row` and `row + 1` of the words.
Tensor UniformOf(const Tensor& words, int row, const Dims& sizes) {
  auto part = [&](int i) { return Reshaped(Sliced(words, 0, i, 1), sizes); };
  return Times(Bits53(part(row), part(row + 1)), 0x1p-53);
}

Tensor LargePoisson(const Tensor& rate, const OptionalGenerator& generator) {
  const DrawnSizes drawn = SizesToDraw(rate.sizes());
  const auto blocks = static_cast<int64_t>(drawn.blocks(4));
  Tensor state = MakeRngState(generator, static_cast<uint64_t>(blocks * kRounds), rate.device());
  Tensor pending = Filled(rate.sizes(), true, DType::kBool, rate);
  LoopOperands operands{{floor(rate), pending}, {}, {rate, state}};
  return Loop(kRounds, operands, [&](const LoopStep& s) -> Tensors {
    const Tensor &rate = s.invariant[0], &state = s.invariant[1];
    Tensor moved = mul(Casted(s.index, DType::kU64), Constant(blocks, DType::kU64));
    // (0, 1) times the move: the seed stays.
    Tensor which = Casted(Counting(2, state), DType::kU64);
    Tensor bits = WordsFrom(add(state, mul(which, moved)), rate.sizes(), drawn, 4);
    auto [k, accepted] =
        TryPoisson(rate, UniformOf(bits, 0, rate.sizes()), UniformOf(bits, 2, rate.sizes()));
    Tensor taken = logical_and(s.carried[1], accepted);
    return {where(taken, k, s.carried[0]), logical_and(s.carried[1], logical_not(accepted))};
  })[0];
}

}  // namespace

Tensor multinomial(const Tensor& self, int64_t num_samples, bool replacement,
                   const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  CheckMultinomial(self, num_samples, replacement);
  const int64_t classes = self.size(-1), rows = self.dim() == 2 ? self.size(0) : 1;
  Tensor weights = Reshaped(Casted(self.detach(), DType::kF64), {rows, classes});
  weights = CheckedWeights(weights, num_samples, replacement);
  Tensor drawn = replacement ? WithReplacement(weights, num_samples, generator)
                             : WithoutReplacement(weights, num_samples, generator);
  return self.dim() == 2 ? drawn : Reshaped(drawn, {num_samples});
}

Tensor poisson(const Tensor& self, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  NeedFloat("poisson", self);
  Tensor given = Casted(self.detach(), DType::kF64);
  Tensor rate = Required(given, InRange(given, 0, std::numeric_limits<double>::max()), "poisson",
                         "rates must be finite and not negative");
  Tensor border = ConstantLike(kLargeRate, rate);
  Tensor small = SmallPoisson(minimum(rate, border), UniformIn(rate.sizes(), rate, generator));
  Tensor large = LargePoisson(maximum(rate, border), generator);
  return Casted(where(lt(rate, border), small, large), self.dtype());
}

Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, int64_t dim,
                      const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  NeedFloat("gumbel_softmax", logits);
  if (!(tau > 0)) Throw(ErrorCode::kValue, "gumbel_softmax: tau {} must be above 0", tau);
  int wrapped = WrapDim("gumbel_softmax", dim, logits.dim());
  // Half a step off the grid, so that neither logarithm is infinite.
  Draw draw{logits.sizes(), DType::kF32, logits.device(), generator};
  Tensor bits = UpperBits(Row(Words(draw, 1), 0, draw), 23, DType::kF32);
  Tensor u = Times(add(bits, ConstantLike(0.5, bits)), 0x1p-23);
  Tensor noise = neg(log(neg(log(u))));
  Tensor soft = softmax(div(add(logits, Casted(noise, logits.dtype())), tau), wrapped);
  if (!hard) return soft;
  Tensor best = argmax(soft, wrapped, true);
  Tensor one_hot =
      Casted(eq(CountingAlong(wrapped, soft.dim(), soft.size(wrapped), soft), best), soft.dtype());
  return add(sub(one_hot, soft.detach()), soft);
}

Tensor Tensor::multinomial(int64_t num_samples, bool replacement, Location at) const {
  return hammock::multinomial(*this, num_samples, replacement, std::nullopt, at);
}

// ---- records

namespace ops {
namespace {

#define DRAW(text, what, function) \
  { .schema = text ", *, Generator? generator=None) -> Tensor", .doc = what, .call = Box<function> }
constinit const OpDef kFunctions[] = {
    DRAW("multinomial(Tensor self, int num_samples, bool replacement=False",
         "Indices into the last dim, drawn in proportion to the weights that it holds.",
         multinomial),
    DRAW("poisson(Tensor self", "Counts of events that happen at the rates `self` holds.", poisson),
    DRAW("gumbel_softmax(Tensor logits, float tau=1, bool hard=False, int dim=-1",
         "softmax((logits + Gumbel noise) / tau), or one-hot with its gradient.", gumbel_softmax),
};
#undef DRAW

}  // namespace

std::span<const OpDef* const> SamplingOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace ops
}  // namespace hammock
