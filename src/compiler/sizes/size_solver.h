#pragma once
/// Expressions in parameters that agree with sizes at all samples.

#include <cstdint>
#include <optional>
#include <vector>

#include "hammock/ir/graph.h"
#include "hammock/lazy/lowering_context.h"

namespace hammock {

/// One size at each sample.
using SizeValues = std::vector<int64_t>;

/// `values` as a product with an integer of parameters.
std::optional<lazy::DerivedSize> ProductOf(const std::vector<SizeValues>& parameters,
                                           const SizeValues& values,
                                           const std::vector<size_t>& factors);

/// `values` as quotients of others, rounded down, by the least divisor; without the factor.
std::optional<lazy::DerivedSize> QuotientOf(const SizeValues& dividends, const SizeValues& values);

/// Finds the plainest expression: a multiple of one parameter; the sum or difference of two; then
/// the same with a constant; then a parameter, a multiple of another and a constant.
class SizeSolver {
 public:
  SizeSolver(const std::vector<SizeValues>& parameters, const SizeValues& values)
      : parameters_(parameters), values_(values) {}

  std::optional<DimExpr> Multiple();
  /// Without a constant, so that few fit by chance.
  std::optional<DimExpr> Sum();
  std::optional<DimExpr> Plain();
  std::optional<DimExpr> Linear();

 private:
  int count() const { return static_cast<int>(parameters_.size()); }
  void Line(int p, bool constant);
  void Pairs(bool constant);
  void Remainders();
  void Offer(DimExpr expr);

  const std::vector<SizeValues>& parameters_;
  const SizeValues& values_;
  std::optional<DimExpr> best_;
};

}  // namespace hammock
