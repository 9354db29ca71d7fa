// Draws of the gamma distribution.

#include <array>
#include <cmath>
#include <limits>

#include "distributions/parameters.h"
#include "hammock/autograd.h"

namespace hammock::distributions {
namespace {

/// Marsaglia and Tsang's method. A proposal is rejected with a probability below 0.05, so that one
/// of these is accepted but in 4e-11 of all cases; then the first is taken.
constexpr int64_t kProposals = 8;

Tensor Draws(const Tensor& concentration) {
  const Dims& sizes = concentration.sizes();
  Dims many = Joined({kProposals}, sizes);
  Tensor below_one = concentration.lt(1.0);
  Tensor d = where(below_one, concentration + 1.0, concentration) - 1.0 / 3.0;
  Tensor normal = NormalLike(concentration, many);
  Tensor t = 1.0 + normal * rsqrt(d * 9.0);
  Tensor positive = t.gt(0.0);
  Tensor v = where(positive, t * t * t, 1.0);
  Tensor u = 1.0 - UniformLike(concentration, many);
  Tensor accepted = logical_and(positive, log(u).lt(square(normal) * 0.5 + d - d * v + d * log(v)));
  Tensor first = argmax(accepted.to(DType::kI32), 0, true);
  Tensor draw = d * squeeze(gather(v, 0, first), 0);
  Tensor factor = pow(1.0 - UniformLike(concentration, sizes), reciprocal(concentration));
  double smallest = concentration.dtype() == DType::kF64 ? std::numeric_limits<double>::min()
                                                         : std::numeric_limits<float>::min();
  return clamp_min(where(below_one, draw * factor, draw), smallest);
}

// ---- The gradient, as PyTorch approximates it

/// A Taylor series of the distribution function, for small draws.
Tensor SmallDraw(const Tensor& alpha, const Tensor& x) {
  Tensor numerator = ones_like(x), denominator = alpha;
  Tensor series1 = reciprocal(alpha), series2 = reciprocal(square(alpha));
  for (int i = 1; i <= 5; ++i) {
    numerator = numerator * (x / -static_cast<double>(i));
    denominator = denominator + 1.0;
    series1 = series1 + numerator / denominator;
    series2 = series2 + numerator / square(denominator);
  }
  // Of distribution function and density, without the common factor x ** (alpha - 1).
  Tensor by_alpha = (log(x) - digamma(alpha)) * x * series1 - x * series2;
  Tensor result = -by_alpha * exp(x);
  return where(isnan(result), 0.0, result);
}

/// Rice's saddle point expansion, for large concentrations.
Tensor LargeConcentration(const Tensor& alpha, const Tensor& x) {
  Tensor squared = square(alpha);
  Tensor near = (1.0 + alpha * 24.0 * (1.0 + alpha * 12.0)) *
                (squared * 1440.0 + x * 6.0 * (53.0 - x * 120.0) - square(x) * 65.0 / alpha +
                 alpha * (107.0 + x * 3600.0)) /
                (square(squared) * 1244160.0);
  Tensor root = sqrt(alpha * 8.0), ratio = log(x / alpha);
  Tensor term2 = root / (alpha - x);
  Tensor term3 = pow(x - alpha - alpha * ratio, -1.5);
  Tensor term23 = where(x.lt(alpha), term2 - term3, term2 + term3);
  Tensor term1 = ratio * term23 - sqrt(2.0 / alpha) * (alpha + x) / square(alpha - x);
  Tensor stirling = 1.0 + 1.0 / (alpha * 12.0) * (1.0 + 1.0 / (alpha * 24.0));
  Tensor far = -stirling * x * term1 / root;
  return where(logical_and(x.ge(alpha * 0.9), x.le(alpha * 1.1)), near, far);
}

/// A rational function of both logarithms, for the rest.
Tensor Between(const Tensor& alpha, const Tensor& x) {
  constexpr std::array<std::array<double, 8>, 3> kCoefficients = {{
      {0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089,
       0.0014179084},
      {0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915,
       -0.00058392623},
      {0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326,
       0.00085092367, -1.5247877e-07},
  }};
  Tensor u = log(x / alpha), v = log(alpha);
  auto coefficient = [&](size_t i) {
    return (u * kCoefficients[2][i] + kCoefficients[1][i]) * u + kCoefficients[0][i];
  };
  auto polynomial = [&](size_t first) {
    Tensor sum = coefficient(first + 3);
    for (size_t i = 3; i-- > 0;) sum = coefficient(first + i) + v * sum;
    return sum;
  };
  return exp(polynomial(0) / polynomial(4));
}

struct StandardGammaFunction : autograd::Function<StandardGammaFunction> {
  static Tensor forward(autograd::AutogradContext* context, const Tensor& concentration) {
    Tensor draw = Draws(concentration);
    context->save_for_backward({concentration, draw});
    return draw;
  }
  static std::vector<Tensor> backward(autograd::AutogradContext* context,
                                      std::vector<Tensor> grads) {
    std::vector<Tensor> saved = context->get_saved_variables();
    return {grads[0] * StandardGammaGrad(saved[0].detach(), saved[1].detach())};
  }
};

}  // namespace

Tensor StandardGamma(const Tensor& concentration) {
  return StandardGammaFunction::apply(concentration);
}

Tensor StandardGammaGrad(const Tensor& alpha, const Tensor& x) {
  Tensor rest = where(alpha.gt(8.0), LargeConcentration(alpha, x), Between(alpha, x));
  return where(x.lt(0.8), SmallDraw(alpha, x), rest);
}

}  // namespace hammock::distributions
