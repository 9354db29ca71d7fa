// Unique elements and slices, and the forms of value-dependent shapes that are given a size and so
// never read one.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

using Three = std::tuple<Tensor, Tensor, Tensor>;

/// Along dim 0: whether an entry differs from the one before; the first one does.
Tensor Changes(const Tensor& x) {
  int64_t size = x.size(0);
  Tensor differs = ne(Sliced(x, 0, 1, size - 1), Sliced(x, 0, 0, size - 1));
  return Padded(differs, 0, 1, 0, true);
}

/// Along dim 0: the number of changes up to an entry, from 0.
Tensor GroupsOf(const Tensor& changes) {
  Tensor count = cumsum(changes, 0, DType::kI64);
  return count - ConstantLike(1, count);
}

struct SortedKeys {
  Tensor values;
  Tensor from;  // where each came from
};

SortedKeys SortKeys(const Tensor& keys) {
  const Attr attrs[] = {0, false, true};
  auto both = ApplyMulti(kSort, Location(), std::span(&keys, 1), attrs);
  return {both[0], both[1]};
}

/// Entries of `groups` to the positions that the sorted ones came from.
Tensor Unsorted(const Tensor& groups, const Tensor& from) {
  return Scattered(Filled(groups.sizes(), int64_t{0}, DType::kI64, groups), from, groups, 0,
                   "none");
}

/// The rank of each entry within its column, equal ones sharing one.
Tensor Ranks(const Tensor& matrix) {
  SortedKeys sorted = SortKeys(matrix);
  return Unsorted(GroupsOf(Changes(sorted.values)), sorted.from);
}

/// One integer a row, in the rows' lexicographic order: columns are joined in pairs, so the number
/// of nodes grows with the logarithm of their number.
Tensor RowKeys(const Tensor& rows) {
  Tensor ranks = Ranks(rows);
  int64_t count = rows.size(0);
  while (ranks.size(1) > 1) {
    if (ranks.size(1) % 2 == 1) ranks = Padded(ranks, 1, 0, 1, int64_t{0});
    int64_t half = ranks.size(1) / 2;
    Tensor first = Sliced(ranks, 1, 0, half, 2), second = Sliced(ranks, 1, 1, half, 2);
    ranks = Ranks(first * ConstantLike(count, first) + second);
  }
  return Reshaped(ranks, {count});
}

/// `self` as a list of entries: its elements, or its slices along a dim.
struct Entries {
  Tensor all;  // the dim of the entries is `dim`
  int dim = 0;
  Dims inverse_sizes;
  Tensor rows;  // [entries, elements of one]
};

Entries EntriesOf(const char* op, const Tensor& self, std::optional<int64_t> dim) {
  Entries entries;
  if (!dim) {
    entries.all = Reshaped(self, {self.numel()});
    entries.inverse_sizes = self.sizes();
    entries.rows = Reshaped(self, {self.numel(), 1});
    return entries;
  }
  entries.all = self.dim() == 0 ? Reshaped(self, {1}) : self;
  entries.dim = WrapDim(op, *dim, self.dim());
  int64_t count = entries.all.size(entries.dim);
  if (count > 0 && self.numel() == 0) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: {} has a dim of size 0 that is not dim {}, so its slices are empty", op,
          self.shape().to_string(), entries.dim);
  }
  entries.inverse_sizes = {count};
  // PyTorch orders slices by their elements as they lie when the dim is swapped with the first.
  Dims order;
  for (int i = 0; i < entries.all.dim(); ++i) order.push_back(i);
  std::swap(order[0], order[entries.dim]);
  int64_t width = count == 0 ? 1 : self.numel() / count;
  entries.rows = Reshaped(Permuted(entries.all, order), {count, width});
  return entries;
}

/// Where groups begin in the order of `from`, and the group of each entry.
struct Groups {
  Tensor changes;  // bool[entries]
  Tensor inverse;  // i64[entries]
  Tensor from;     // i64[entries]
};

Groups GroupsOf(const Entries& entries, bool sort) {
  const Tensor& rows = entries.rows;
  int64_t count = rows.size(0);
  if (!sort) {
    Tensor changes = any(Changes(rows), {1});
    return {changes, GroupsOf(changes), Counting(count, rows)};
  }
  Tensor keys = rows.size(1) == 1 ? Reshaped(rows, {count}) : RowKeys(rows);
  SortedKeys sorted = SortKeys(keys);
  Tensor changes = Changes(sorted.values);
  return {changes, Unsorted(GroupsOf(changes), sorted.from), sorted.from};
}

/// Positions of the first `size` groups, -1 past the last one.
Tensor Beginnings(const Groups& groups, int64_t size) {
  return Reshaped(Apply(kNonzeroBounded, Location(), {groups.changes}, {size}), {size});
}

/// How many entries each group has, given where the groups begin; none past the last one.
Tensor CountsOf(const Tensor& begins, int64_t entries) {
  int64_t size = begins.size(0);
  Tensor end = ConstantLike(entries, begins);
  Tensor present = ge(begins, ConstantLike(0, begins));
  Tensor begin = where(present, begins, end);
  Tensor next = Padded(Sliced(begin, 0, 1, size - 1), 0, 0, 1, entries);
  return next - begin;
}

Three Unique(const char* op, const Tensor& self, bool sort, std::optional<int64_t> dim) {
  Entries entries = EntriesOf(op, self, dim);
  int64_t count = entries.rows.size(0);
  if (count == 0) {
    Tensor none = Filled({0}, int64_t{0}, DType::kI64, self);
    return {entries.all, Filled(entries.inverse_sizes, int64_t{0}, DType::kI64, self), none};
  }
  Groups groups = GroupsOf(entries, sort);
  int64_t size = ReadCount(op, sum(groups.changes, {}, false, DType::kI64));
  Tensor begins = Beginnings(groups, size);
  Tensor picked = Rows(entries.all, Rows(groups.from, begins, 0), entries.dim);
  return {picked, Reshaped(groups.inverse, entries.inverse_sizes), CountsOf(begins, count)};
}

void NeedSize(const char* op, int64_t size) {
  if (size < 0) Throw(ErrorCode::kNegativeSize, "{}: size is {}, needs at least 0", op, size);
}

}  // namespace

Three unique(const Tensor& self, bool sorted, std::optional<int64_t> dim, Location at) {
  LocationScope scope(at);
  (void)sorted;  // they always are
  return Unique("unique", self, true, dim);
}

Three unique_consecutive(const Tensor& self, std::optional<int64_t> dim, Location at) {
  LocationScope scope(at);
  return Unique("unique_consecutive", self, false, dim);
}

// ---- With a given size

Tensor nonzero_static(const Tensor& self, int64_t size, int64_t fill_value, Location at) {
  LocationScope scope(at);
  NeedSize("nonzero_static", size);
  Tensor found = Apply(kNonzeroBounded, at, {Casted(self, DType::kBool)}, {size});
  if (fill_value == -1) return found;
  return where(lt(found, ConstantLike(0, found)), ConstantLike(fill_value, found), found);
}

Tensor masked_select_static(const Tensor& self, const Tensor& mask, int64_t size,
                            const Scalar& fill_value, Location at) {
  LocationScope scope(at);
  NeedSize("masked_select_static", size);
  CheckMask("masked_select_static", mask);
  Dims sizes = BroadcastSizes("masked_select_static", self.sizes(), mask.sizes());
  Tensor values = Reshaped(Broadcasted(self, sizes), {Shape(self.dtype(), sizes).numel()});
  if (values.numel() == 0) return Filled({size}, fill_value, self.dtype(), self);
  Tensor truth = Reshaped(Broadcasted(Casted(mask, DType::kBool), sizes), {values.numel()});
  Tensor at_places = Reshaped(Apply(kNonzeroBounded, at, {truth}, {size}), {size});
  Tensor present = ge(at_places, ConstantLike(0, at_places));
  Tensor picked = Rows(values, where(present, at_places, ConstantLike(0, at_places)), 0);
  return where(present, picked, ConstantLike(fill_value, picked));
}

Three unique_static(const Tensor& self, int64_t size, const Scalar& fill_value, Location at) {
  LocationScope scope(at);
  NeedSize("unique_static", size);
  Entries entries = EntriesOf("unique_static", self, std::nullopt);
  int64_t count = self.numel();
  if (count == 0) {
    return {Filled({size}, fill_value, self.dtype(), self),
            Filled(self.sizes(), int64_t{0}, DType::kI64, self),
            Filled({size}, int64_t{0}, DType::kI64, self)};
  }
  Groups groups = GroupsOf(entries, true);
  // One group more than asked for, so that the last one's end is known.
  Tensor begins = Beginnings(groups, size + 1);
  Tensor counts = Sliced(CountsOf(begins, count), 0, 0, size);
  Tensor present = ge(begins, ConstantLike(0, begins));
  Tensor picked =
      Rows(entries.all, Rows(groups.from, where(present, begins, ConstantLike(0, begins)), 0), 0);
  Tensor filled = where(present, picked, ConstantLike(fill_value, picked));
  return {Sliced(filled, 0, 0, size), Reshaped(groups.inverse, self.sizes()), counts};
}

// ---- Records

namespace {

/// PyTorch returns what was asked for: a tensor, or a tuple of two or three.
Any Chosen(const Three& all, bool inverse, bool counts) {
  if (!inverse && !counts) return Any(std::get<0>(all));
  AnyList chosen{Any(std::get<0>(all))};
  if (inverse) chosen.push_back(Any(std::get<1>(all)));
  if (counts) chosen.push_back(Any(std::get<2>(all)));
  return Any::Tuple(chosen);
}

std::optional<int64_t> DimOf(const Any& any) {
  if (any.IsNone()) return std::nullopt;
  return any.ToInt();
}

Any CallUnique(std::span<const Any> args) {
  return Chosen(unique(args[0].ToTensor(), args[1].ToBool(), DimOf(args[4])), args[2].ToBool(),
                args[3].ToBool());
}

Any CallConsecutive(std::span<const Any> args) {
  return Chosen(unique_consecutive(args[0].ToTensor(), DimOf(args[3])), args[1].ToBool(),
                args[2].ToBool());
}

constinit const OpDef kUnique = {
    .schema =
        "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool "
        "return_counts=False, int? dim=None) -> Any",
    .doc = "The distinct elements (or slices along a dim), sorted; reads their count.",
    .call = CallUnique,
};
constinit const OpDef kUniqueConsecutive = {
    .schema =
        "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? "
        "dim=None) -> Any",
    .doc = "The first of each run of equal elements (or slices along a dim); reads their count.",
    .call = CallConsecutive,
};
HAMMOCK_FUNCTION(kNonzeroStatic,
                 "nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
                 "Coordinates of the first `size` elements that are not zero; reads nothing.",
                 nonzero_static)
HAMMOCK_FUNCTION(kMaskedSelectStatic,
                 "masked_select_static(Tensor self, Tensor mask, *, int size, Scalar "
                 "fill_value=0) -> Tensor",
                 "The first `size` elements where the mask is true; reads nothing.",
                 masked_select_static)
HAMMOCK_FUNCTION(kUniqueStatic,
                 "unique_static(Tensor self, *, int size, Scalar fill_value=0) -> (Tensor, Tensor, "
                 "Tensor)",
                 "The `size` smallest distinct elements, the inverse, counts; reads nothing.",
                 unique_static)

}  // namespace

std::span<const OpDef* const> ops::UniqueOps() {
  static constexpr const OpDef* kOps[] = {&kUnique, &kUniqueConsecutive, &kNonzeroStatic,
                                          &kMaskedSelectStatic, &kUniqueStatic};
  return kOps;
}

}  // namespace hammock
