#include "compiler/sizes/size_grid.h"

#include <algorithm>
#include <set>

namespace hammock::compiler {
namespace {

/// Extents are products of sizes: the fewer parameters, the more often one may be a factor.
int MostDegree(size_t parameters) {
  if (parameters <= 1) return 4;
  return parameters <= 3 ? 3 : 2;
}

using Axis = SizeGrid::Axis;

/// Of the group of `p`.
int CountInGroup(const std::vector<Axis>& axes, size_t p) {
  return static_cast<int>(
      std::ranges::count(axes, axes[p].group, [](const Axis& axis) { return axis.group; }));
}

/// Whether coordinate `p` may be one more factor.
bool MayRaise(const std::vector<int>& degrees, size_t p, const std::vector<Axis>& axes,
              SizeGrid::Products products) {
  if (axes.empty() || CountInGroup(axes, p) == 1) return true;
  if (axes[p].most > 0 && degrees[p] >= axes[p].most) return false;
  const int most = products == SizeGrid::Products::kInGroups ? 2 : 1;
  int sum = 0;
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (axes[i].group == axes[p].group) sum += degrees[i];
  }
  return sum < most;
}

/// All degrees whose sum is at most `most`, lower sums first.
std::vector<std::vector<int>> DegreesUpTo(size_t parameters, int most,
                                          const std::vector<Axis>& axes,
                                          SizeGrid::Products products) {
  std::vector<std::vector<int>> all = {std::vector<int>(parameters)};
  for (size_t i = 0; i < all.size(); ++i) {
    int sum = 0;
    size_t last = 0;  // only later ones are raised, so that each comes once
    for (size_t p = 0; p < parameters; ++p) {
      sum += all[i][p];
      if (all[i][p] > 0) last = p;
    }
    for (size_t p = last; p < parameters && sum < most; ++p) {
      if (!MayRaise(all[i], p, axes, products)) continue;
      std::vector<int> next = all[i];
      ++next[p];
      all.push_back(std::move(next));
    }
  }
  return all;
}

/// n over k, for any n.
__int128 Choose(int64_t n, int k) {
  __int128 product = 1;
  for (int i = 0; i < k; ++i) product = product * (n - i) / (i + 1);
  return product;
}

}  // namespace

SizeGrid::SizeGrid(std::vector<int64_t> base, const std::vector<Axis>& axes, Products products)
    : base_(std::move(base)) {
  std::set<int> groups;
  for (const Axis& axis : axes) groups.insert(axis.group);
  int most = MostDegree(axes.empty() ? base_.size() : groups.size());
  degrees_ = DegreesUpTo(base_.size(), most, axes, products);
  for (const std::vector<int>& degrees : degrees_) {
    std::vector<int64_t> point = base_;
    for (size_t p = 0; p < point.size(); ++p) point[p] += degrees[p];
    points_.push_back(std::move(point));
  }
}

SizePolynomial SizeGrid::Fit(std::span<const int64_t> values) const {
  SizePolynomial polynomial;
  polynomial.constant = values[0];
  bool varies =
      std::any_of(values.begin(), values.end(), [&](int64_t v) { return v != values[0]; });
  for (size_t a = 1; varies && a < degrees_.size(); ++a) {
    __int128 difference = 0;
    for (size_t b = 0; b < degrees_.size(); ++b) {
      __int128 weight = 1;
      for (size_t p = 0; p < base_.size() && weight != 0; ++p) {
        int steps = degrees_[a][p] - degrees_[b][p];
        weight = steps < 0 ? 0 : weight * Choose(degrees_[a][p], steps) * (steps % 2 == 0 ? 1 : -1);
      }
      difference += weight * values[b];
    }
    if (difference != 0) {
      polynomial.terms.emplace_back(static_cast<int>(a), static_cast<int64_t>(difference));
    }
  }
  return polynomial;
}

SizeGrid::Basis SizeGrid::BasisAt(std::span<const int64_t> sizes) const {
  Basis basis;
  basis.reserve(degrees_.size());
  for (const std::vector<int>& degrees : degrees_) {
    __int128 product = 1;
    for (size_t p = 0; p < sizes.size(); ++p) {
      if (degrees[p] > 0) product *= Choose(sizes[p] - base_[p], degrees[p]);
    }
    basis.push_back(product);
  }
  return basis;
}

int64_t SizeGrid::Evaluate(const SizePolynomial& polynomial, const Basis& basis) {
  __int128 sum = polynomial.constant;
  for (auto [function, coefficient] : polynomial.terms) {
    sum += coefficient * basis[function];
  }
  return static_cast<int64_t>(sum);
}

}  // namespace hammock::compiler
