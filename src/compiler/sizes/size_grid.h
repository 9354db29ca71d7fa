#pragma once
/// Integers that follow from sizes, as polynomials in dim parameters.
///
/// A compiler computes extents, strides and offsets from sizes by sums and products, so as long as
/// it takes the same decisions they are polynomials in the dim parameters. A SizeGrid finds one
/// from its values at sizes that follow each other, in Newton's form: with u = size - base,
///
///   f = sum over a of d(a) * C(u_0, a_0) * C(u_1, a_1) * ...
///
/// where d(a) is a forward difference. Where sizes are rounded down, these are coordinates of them,
/// Note [Size coordinates]. All of these are integers, so nothing is rounded; and among
/// sizes that follow each other, one that is even or a multiple of three shows.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hammock::compiler {

/// Belongs to the grid that it was found on.
struct SizePolynomial {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;  ///< (basis function, coefficient), none zero

  bool varies() const { return !terms.empty(); }
};

template <class Io>
void Fields(Io& io, SizePolynomial& polynomial) {
  io(polynomial.constant, polynomial.terms);
}

class SizeGrid {
 public:
  /// Basis functions at certain sizes.
  using Basis = std::vector<__int128>;

  /// A coordinate. Those of one group belong to one size: products of them are looked for only
  /// where `Products::kInGroups` says so, as in the area of a square, since there are many.
  struct Axis {
    int group = 0;
    int64_t most = 0;  ///< 0 without a bound
  };
  enum class Products { kOfGroups, kInGroups };

  SizeGrid() = default;
  explicit SizeGrid(std::vector<int64_t> base) : SizeGrid(std::move(base), {}) {}
  SizeGrid(std::vector<int64_t> base, const std::vector<Axis>& axes,
           Products products = Products::kOfGroups);

  /// The sizes at which values are needed; the base comes first.
  const std::vector<std::vector<int64_t>>& points() const { return points_; }
  /// `values` are those at the points.
  SizePolynomial Fit(std::span<const int64_t> values) const;
  Basis BasisAt(std::span<const int64_t> sizes) const;
  static int64_t Evaluate(const SizePolynomial& polynomial, const Basis& basis);

  template <class Io>
  friend void Fields(Io& io, SizeGrid& grid) {
    io(grid.base_, grid.degrees_, grid.points_);
  }

 private:
  std::vector<int64_t> base_;
  std::vector<std::vector<int>> degrees_;  // by basis function, which is also by point
  std::vector<std::vector<int64_t>> points_;
};

}  // namespace hammock::compiler
