// Distinct elements and distinct slices.

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/statistics.h"
#include "ops/compose.h"
#include "ops/families.h"
#include "ops/index_steps.h"
#include "ops/primitives.h"
#include "ops/reduce_steps.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

struct Sorted {
  Tensor values, order;
};

Sorted SortRows(const Tensor& x) {
  const Attr attrs[] = {0, false, true};
  auto both = ApplyMulti(kSort, Location(), std::span(&x, 1), attrs);
  return {both[0], both[1]};
}

/// Whether each row differs from the one before it; the first one does. NaN differs from itself.
Tensor Changes(const Tensor& x) {
  int64_t size = x.size(0);
  Tensor changed = ne(Sliced(x, 0, 1, size - 1), Sliced(x, 0, 0, size - 1));
  return Padded(Casted(changed, DType::kI64), 0, 1, 0, int64_t{1});
}

/// The number of the group that each row is in, from the rows where a group begins.
Tensor Groups(const Tensor& begins) {
  Tensor count = Apply(kScan, Location(), {begins}, {"sum", 0, false});
  return count - ConstantLike(1, count);
}

/// Each column's elements as ranks: equal ones are equal, larger ones larger.
Tensor RankColumns(const Tensor& x) {
  Sorted sorted = SortRows(x);
  Tensor ranks = Groups(Changes(sorted.values));
  return Scattered(Filled(x.sizes(), int64_t{0}, DType::kI64, x), sorted.order, ranks, 0, "none");
}

/// One number a row of x[n, columns], in the order of the rows as words: pairs of columns are
/// ranked together until one is left.
Tensor RankRows(const Tensor& x) {
  Tensor ranks = RankColumns(x);
  while (ranks.size(1) > 1) {
    int64_t columns = ranks.size(1);
    ranks = Padded(ranks, 1, 0, columns % 2, int64_t{0});
    int64_t pairs = (columns + 1) / 2;
    Tensor first = Sliced(ranks, 1, 0, pairs, 2), second = Sliced(ranks, 1, 1, pairs, 2);
    ranks = RankColumns(first * ConstantLike(x.size(0), first) + second);
  }
  return Reshaped(ranks, {x.size(0)});
}

struct Grouped {
  Tensor firsts;  // the row at which each group begins
  Tensor groups;  // of each row
  Tensor counts;
};

Grouped GroupRows(const Tensor& begins) {
  Tensor total = Apply(kReduceSum, Location(), {begins}, {Dims{0}, false});
  int64_t count = ReadCount(total);
  Tensor firsts = Apply(kNonzeroBounded, Location(), {begins}, {count});
  Tensor groups = Groups(begins);
  Tensor ones = Filled(groups.sizes(), int64_t{1}, DType::kI64, groups);
  Tensor zeros = Filled({count}, int64_t{0}, DType::kI64, groups);
  return {Reshaped(firsts, {count}), groups, Scattered(zeros, groups, ones, 0, "sum")};
}

/// What was asked for of the distinct rows of `x` [n, ...]; `order` undefined: x is in order.
Unique Selected(const Tensor& x, const Grouped& grouped, const Tensor& order, bool inverse,
                bool counts) {
  Unique result;
  Tensor none = Filled({0}, int64_t{0}, DType::kI64, x);
  Tensor rows = order.defined() ? Rows(order, grouped.firsts, 0) : grouped.firsts;
  result.values = Rows(x, rows, 0);
  result.inverse = none;
  if (inverse) {
    Tensor blank = Filled({x.size(0)}, int64_t{0}, DType::kI64, x);
    result.inverse =
        order.defined() ? Scattered(blank, order, grouped.groups, 0, "none") : grouped.groups;
  }
  result.counts = counts ? grouped.counts : none;
  return result;
}

/// No elements: nothing to count. PyTorch refuses other empty dims than the one asked for.
Unique OfNothing(const char* op, const Tensor& self, std::optional<int> dim) {
  int empty_dims = 0;
  for (int64_t size : self.sizes()) empty_dims += size == 0;
  if (dim && (self.size(*dim) != 0 || empty_dims > 1)) {
    Throw(ErrorCode::kEmptyTensor, "{}: {} has an empty dim that is not dim {}", op,
          self.shape().to_string(), *dim);
  }
  Tensor none = Filled({0}, int64_t{0}, DType::kI64, self);
  if (dim) return {clone(self), none, none};
  return {new_empty(self, {0}), Filled(self.sizes(), int64_t{0}, DType::kI64, self), none};
}

Unique UniqueOf(const char* op, const Tensor& self, bool sort, bool inverse, bool counts,
                std::optional<int64_t> dim) {
  std::optional<int> along;
  if (dim && self.dim() > 0) along = WrapDim(op, *dim, self.dim());
  if (self.numel() == 0) return OfNothing(op, self, along);
  if (!along) {
    Tensor flat = Reshaped(self, {self.numel()});
    Tensor order, keys = flat;
    if (sort) {
      Sorted sorted = SortRows(flat);
      keys = sorted.values;
      order = sorted.order;
    }
    Unique result = Selected(flat, GroupRows(Changes(keys)), order, inverse, counts);
    if (inverse) result.inverse = Reshaped(result.inverse, self.sizes());
    return result;
  }
  // Slices are compared in the order that they have when the dim changes places with the first.
  Dims swapped;
  for (int i = 0; i < self.dim(); ++i) swapped.push_back(i);
  std::swap(swapped[0], swapped[*along]);
  Tensor moved = Permuted(self, swapped);
  Tensor matrix = Reshaped(moved, {moved.size(0), moved.numel() / moved.size(0)});
  Tensor order, begins;
  if (sort) {
    Sorted sorted = SortRows(RankRows(matrix));
    begins = Changes(sorted.values);
    order = sorted.order;
  } else {
    Tensor changes = Changes(matrix);
    begins = Apply(kReduceMax, Location(), {changes}, {Dims{1}, false});
  }
  Unique result = Selected(matrix, GroupRows(begins), order, inverse, counts);
  Dims sizes = moved.sizes();
  sizes[0] = result.values.size(0);
  result.values = Permuted(Reshaped(result.values, sizes), swapped);
  return result;
}

/// As PyTorch's functions: the values alone, or a tuple with what was asked for.
Any Answer(const Unique& unique, bool inverse, bool counts) {
  if (!inverse && !counts) return Any(unique.values);
  AnyList parts{Any(unique.values)};
  if (inverse) parts.push_back(Any(unique.inverse));
  if (counts) parts.push_back(Any(unique.counts));
  return Any::Tuple(parts);
}

std::optional<int64_t> DimFrom(const Any& value) {
  return value.IsNone() ? std::optional<int64_t>() : value.ToInt();
}

Any CallUnique(std::span<const Any> args) {
  bool inverse = args[2].ToBool(), counts = args[3].ToBool();
  return Answer(unique(args[0].ToTensor(), args[1].ToBool(), inverse, counts, DimFrom(args[4])),
                inverse, counts);
}

Any CallUniqueConsecutive(std::span<const Any> args) {
  bool inverse = args[1].ToBool(), counts = args[2].ToBool();
  return Answer(unique_consecutive(args[0].ToTensor(), inverse, counts, DimFrom(args[3])), inverse,
                counts);
}

}  // namespace

Unique unique(const Tensor& self, bool, bool return_inverse, bool return_counts,
              std::optional<int64_t> dim, Location at) {
  LocationScope scope(at);
  return UniqueOf("unique", self, true, return_inverse, return_counts, dim);
}

Unique unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts,
                          std::optional<int64_t> dim, Location at) {
  LocationScope scope(at);
  return UniqueOf("unique_consecutive", self, false, return_inverse, return_counts, dim);
}

namespace {

constinit const OpDef kUnique = {
    .schema =
        "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool "
        "return_counts=False, int? dim=None) -> Any",
    .doc = "Distinct elements or slices in ascending order; reads their count.",
    .call = CallUnique,
};
constinit const OpDef kUniqueConsecutive = {
    .schema =
        "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? "
        "dim=None) -> Any",
    .doc = "Elements or slices that differ from the one before; reads their count.",
    .call = CallUniqueConsecutive,
};

}  // namespace

std::span<const OpDef* const> ops::SetOps() {
  static constexpr const OpDef* kOps[] = {&kUnique, &kUniqueConsecutive};
  return kOps;
}

}  // namespace hammock
