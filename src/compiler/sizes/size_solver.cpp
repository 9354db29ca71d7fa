#include "compiler/sizes/size_solver.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace hammock {

namespace {

bool Agrees(const DimExpr& expr, const std::vector<SizeValues>& parameters,
            const SizeValues& values) {
  for (size_t sample = 0; sample < values.size(); ++sample) {
    __int128 sum = expr.constant;
    for (auto [parameter, coefficient] : expr.terms) {
      sum += static_cast<__int128>(coefficient) * parameters[parameter][sample];
    }
    if (sum != values[sample]) return false;
  }
  return true;
}

}  // namespace

std::optional<lazy::DerivedSize> ProductOf(const std::vector<SizeValues>& parameters,
                                           const SizeValues& values,
                                           const std::vector<size_t>& factors) {
  lazy::DerivedSize product;
  for (size_t sample = 0; sample < values.size(); ++sample) {
    __int128 value = 1;
    for (size_t factor : factors) value *= parameters[factor][sample];
    if (value == 0 || values[sample] % value != 0) return std::nullopt;
    int64_t coefficient = static_cast<int64_t>(values[sample] / value);
    if (sample > 0 && coefficient != product.coefficient) return std::nullopt;
    product.coefficient = coefficient;
  }
  for (size_t factor : factors) product.factors.push_back(static_cast<int>(factor));
  return product;
}

std::optional<lazy::DerivedSize> QuotientOf(const SizeValues& dividends, const SizeValues& values) {
  constexpr int64_t kMostDivisor = 64;
  for (int64_t divisor = 2; divisor <= kMostDivisor; ++divisor) {
    // The offsets that give all values.
    int64_t least = -kMostDivisor, most = kMostDivisor;
    for (size_t sample = 0; sample < values.size(); ++sample) {
      int64_t exact = 0;
      if (__builtin_mul_overflow(divisor, values[sample], &exact)) return std::nullopt;
      least = std::max(least, exact - dividends[sample]);
      most = std::min(most, exact - dividends[sample] + divisor - 1);
    }
    if (least > most) continue;
    // Rather x / divisor + integer than one that rounds otherwise.
    int64_t multiple =
        most >= 0 ? most - most % divisor : -(-most + divisor - 1) / divisor * divisor;
    if (least <= 0 && most >= 0) multiple = 0;
    int64_t offset = multiple >= least ? multiple : std::clamp<int64_t>(0, least, most);
    return lazy::DerivedSize{1, {}, offset, divisor};
  }
  return std::nullopt;
}

std::optional<DimExpr> SizeSolver::Multiple() {
  for (int p = 0; p < count(); ++p) Line(p, false);
  return best_;
}

std::optional<DimExpr> SizeSolver::Sum() {
  if (!Multiple()) Pairs(false);
  return best_;
}

std::optional<DimExpr> SizeSolver::Plain() {
  if (Sum()) return best_;
  for (int p = 0; p < count(); ++p) Line(p, true);
  return best_;
}

std::optional<DimExpr> SizeSolver::Linear() {
  if (Plain()) return best_;
  Pairs(true);
  if (!best_) Remainders();
  return best_;
}

/// coefficient * parameter + constant, through the first two samples at which the parameter
/// differs.
void SizeSolver::Line(int p, bool constant) {
  const SizeValues& x = parameters_[p];
  size_t other = 1;
  while (x[other] == x[0]) ++other;
  int64_t rise = values_[other] - values_[0], run = x[other] - x[0];
  if (rise == 0 || rise % run != 0) return;
  int64_t coefficient = rise / run, product = 0, rest = 0;
  if (__builtin_mul_overflow(coefficient, x[0], &product)) return;
  if (__builtin_sub_overflow(values_[0], product, &rest)) return;
  if (rest != 0 && !constant) return;
  Offer({rest, {{p, coefficient}}});
}

void SizeSolver::Pairs(bool constant) {
  constexpr std::pair<int, int> kSigns[] = {{1, 1}, {1, -1}, {-1, 1}};
  for (int p = 0; p < count(); ++p) {
    for (int q = p + 1; q < count(); ++q) {
      for (auto [a, b] : kSigns) {
        int64_t rest = values_[0] - a * parameters_[p][0] - b * parameters_[q][0];
        if (rest == 0 || constant) Offer({rest, {{p, a}, {q, b}}});
      }
    }
  }
}

/// parameter - multiple * another + constant, such as what a quotient leaves.
void SizeSolver::Remainders() {
  for (int p = 0; p < count(); ++p) {
    for (int q = 0; q < count(); ++q) {
      const SizeValues &x = parameters_[p], &y = parameters_[q];
      size_t other = 1;
      while (y[other] == y[0]) ++other;
      int64_t rise = x[other] - x[0] - (values_[other] - values_[0]), run = y[other] - y[0];
      if (p == q || rise == 0 || rise % run != 0) continue;
      int64_t multiple = rise / run, product = 0;
      if (__builtin_mul_overflow(multiple, y[0], &product)) continue;
      int64_t rest = 0;
      if (__builtin_add_overflow(values_[0] - x[0], product, &rest)) continue;
      DimExpr expr{rest, {{p, 1}, {q, -multiple}}};
      if (p > q) std::swap(expr.terms[0], expr.terms[1]);
      Offer(std::move(expr));
    }
  }
}

void SizeSolver::Offer(DimExpr expr) {
  auto weight = [](const DimExpr& e) { return std::abs(e.terms[0].second); };
  if (best_ && weight(*best_) <= weight(expr)) return;
  if (Agrees(expr, parameters_, values_)) best_ = std::move(expr);
}

}  // namespace hammock
