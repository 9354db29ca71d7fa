// Advanced indexing, item access, and access by flat index.

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"
#include "trace/tensor_impl.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kIndexPut;

using Indices = std::vector<std::optional<Tensor>>;

bool IsMask(const Tensor& index) {
  return index.dtype() == DType::kBool || index.dtype() == DType::kU8;
}

/// Masks become one vector of coordinates for each of their dims; absent entries stay absent.
Indices WithoutMasks(const Tensor& self, const Indices& indices) {
  Indices result;
  for (const auto& index : indices) {
    if (!index || !index->defined()) {
      result.emplace_back();
      continue;
    }
    if (!IsMask(*index)) {
      if (!IsIntegral(index->dtype())) {
        Throw<TypeError>(ErrorCode::kDTypeMismatch,
                         "index: indices must be integers or bool, got {}",
                         index->shape().to_string());
      }
      result.emplace_back(*index);
      continue;
    }
    int first = static_cast<int>(result.size());
    for (int i = 0; i < index->dim(); ++i) {
      if (first + i < self.dim() && index->size(i) == self.size(first + i)) continue;
      Throw(ErrorCode::kIndexOutOfRange,
            "index: the mask {} at dim {} does not match the indexed tensor {}",
            index->shape().to_string(), first, self.shape().to_string());
    }
    Tensor coordinates = NonzeroFor("index", *index);
    for (int i = 0; i < index->dim(); ++i) {
      result.emplace_back(Reshaped(Sliced(coordinates, 1, i, 1), {coordinates.size(0)}));
    }
  }
  if (static_cast<int>(result.size()) > self.dim()) {
    Throw(ErrorCode::kIndexOutOfRange, "index: too many indices for {}: got {}",
          self.shape().to_string(), result.size());
  }
  return result;
}

/// An indexing as rows of a matrix: self permuted so that the indexed dims come first, those
/// flattened to one, and one flat index for each element of the broadcast index tensors.
struct Plan {
  Dims order;        // the permutation
  Dims index_sizes;  // of the broadcast indices
  Dims rest_sizes;   // of the dims that are not indexed
  int64_t rows = 1;  // product of the indexed sizes
  int64_t rest = 1;
  Tensor flat_index;  // i64[number of index elements]
  int position = 0;   // where the index dims go in the result
};

Plan MakePlan(const Tensor& self, const Indices& indices) {
  Plan plan;
  int first = -1, last = -1;
  bool adjacent = true;
  Dims others;
  for (int i = 0; i < self.dim(); ++i) {
    bool indexed = i < static_cast<int>(indices.size()) && indices[i];
    if (!indexed) {
      others.push_back(i);
      continue;
    }
    if (first < 0) first = i;
    if (last >= 0 && last != i - 1) adjacent = false;
    last = i;
    plan.order.push_back(i);
    plan.index_sizes = BroadcastSizes("index", plan.index_sizes, indices[i]->sizes());
    plan.rows *= self.size(i);
  }
  Tensor flat, valid;
  for (int64_t dim : plan.order) {
    int64_t size = self.size(dim);
    Tensor i = WrappedIndex(*indices[dim], size);
    if (plan.order.size() == 1) {
      flat = i;
      break;
    }
    // With several dims a wrong index could hit another row: it must stay visible.
    Tensor good = logical_and(ge(i, ConstantLike(0, i)), lt(i, ConstantLike(size, i)));
    valid = valid.defined() ? logical_and(valid, good) : good;
    flat = flat.defined() ? flat * ConstantLike(size, flat) + i : i;
  }
  if (valid.defined()) flat = where(valid, flat, ConstantLike(plan.rows, flat));
  flat = Broadcasted(flat, plan.index_sizes);
  plan.flat_index = Reshaped(flat, {flat.numel()});
  for (int64_t dim : others) {
    plan.order.push_back(dim);
    plan.rest_sizes.push_back(self.size(dim));
    plan.rest *= self.size(dim);
  }
  plan.position = adjacent ? first : 0;
  return plan;
}

/// Sizes of the result with the index dims where they belong, and the permutation that puts them
/// there from [index dims, other dims].
Dims ResultOrder(const Plan& plan) {
  Dims order;
  int count = plan.index_sizes.size();
  for (int i = 0; i < plan.position; ++i) order.push_back(count + i);
  for (int i = 0; i < count; ++i) order.push_back(i);
  for (int i = plan.position; i < plan.rest_sizes.size(); ++i) order.push_back(count + i);
  return order;
}

Dims Joined(const Dims& a, const Dims& b) {
  Dims result = a;
  for (int64_t size : b) result.push_back(size);
  return result;
}

Dims Inverse(const Dims& order) {
  Dims inverse = order;
  for (int i = 0; i < order.size(); ++i) inverse[static_cast<int>(order[i])] = i;
  return inverse;
}

bool NothingIndexed(const Indices& indices) {
  for (const auto& index : indices) {
    if (index) return false;
  }
  return true;
}

Tensor IndexBy(const Tensor& self, const Indices& given) {
  Indices indices = WithoutMasks(self, given);
  if (NothingIndexed(indices)) return self;
  Plan plan = MakePlan(self, indices);
  Tensor matrix = Reshaped(Permuted(self, plan.order), {plan.rows, plan.rest});
  Tensor rows = Rows(matrix, plan.flat_index, 0);
  return Permuted(Reshaped(rows, Joined(plan.index_sizes, plan.rest_sizes)), ResultOrder(plan));
}

Tensor PutBy(const Tensor& self, const Indices& given, const Tensor& values, bool accumulate) {
  if (values.dtype() != self.dtype()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "index_put: self and values need one dtype, got {} and {}",
                     self.shape().to_string(), values.shape().to_string());
  }
  // One mask and one value need no count.
  if (given.size() == 1 && given[0] && IsMask(*given[0]) && values.numel() == 1 && !accumulate &&
      given[0]->dim() <= self.dim()) {
    const Tensor& mask = *given[0];
    bool fits = true;
    for (int i = 0; i < mask.dim(); ++i) fits = fits && mask.size(i) == self.size(i);
    if (fits) {
      Dims sizes = mask.sizes();
      sizes.resize(self.dim(), 1);
      return where(Reshaped(Casted(mask, DType::kBool), sizes), Reshaped(values, {}), self);
    }
  }
  Indices indices = WithoutMasks(self, given);
  auto spread = [&](const Dims& sizes) {
    return values.dim() == 0 ? Stretched(values, sizes, self) : Broadcasted(values, sizes);
  };
  if (NothingIndexed(indices)) return spread(self.sizes());
  Plan plan = MakePlan(self, indices);
  if (plan.flat_index.numel() == 0) return clone(self);
  Dims order = ResultOrder(plan);
  Dims front = Joined(plan.index_sizes, plan.rest_sizes);
  Dims result_sizes;
  for (int64_t dim : order) result_sizes.push_back(front[static_cast<int>(dim)]);
  if (BroadcastSizes("index_put", values.sizes(), result_sizes) != result_sizes) {
    Throw(ErrorCode::kShapeMismatch,
          "index_put: values {} do not broadcast to the indexed sizes {}",
          values.shape().to_string(), ToString(result_sizes));
  }
  int64_t count = plan.flat_index.numel();
  Tensor source = Reshaped(Permuted(spread(result_sizes), Inverse(order)), {count, plan.rest});
  Tensor matrix = Reshaped(Permuted(self, plan.order), {plan.rows, plan.rest});
  Tensor index = Broadcasted(Reshaped(plan.flat_index, {count, 1}), {count, plan.rest});
  Tensor written = Scattered(matrix, index, source, 0, accumulate ? "sum" : "none");
  Dims permuted;
  for (int64_t dim : plan.order) permuted.push_back(self.size(dim));
  return Permuted(Reshaped(written, permuted), Inverse(plan.order));
}

// ---- Items: views first, then advanced indices

/// The meaning of an index list for a tensor: a view of it, and the tensors that index that view.
struct Item {
  Tensor view;
  Indices indices;
};

int ConsumedDims(const std::vector<Index>& items) {
  int count = 0;
  for (const Index& item : items) {
    if (std::holds_alternative<int64_t>(item) || std::holds_alternative<Slice>(item)) ++count;
    if (const Tensor* tensor = std::get_if<Tensor>(&item)) {
      count += IsMask(*tensor) ? tensor->dim() : 1;
    }
  }
  return count;
}

/// A tensor index at `dim` of the view.
void SetIndex(Item& item, int dim, const Tensor& index) {
  item.indices.resize(dim);
  item.indices.emplace_back(index);
}

/// A tensor or mask at `dim`; returns how many dims of the view it stands for. A mask that is the
/// only index stays one, since writing a single value through it needs no count.
int SetTensorIndex(Item& item, int dim, const Tensor& index, bool only) {
  if (!IsMask(index)) {
    SetIndex(item, dim, index);
    return 1;
  }
  if (index.dim() == 0) {
    item.view = unsqueeze(item.view, dim);
    Tensor picked = NonzeroFor("index", Reshaped(index, {1}));
    SetIndex(item, dim, Reshaped(picked, {picked.size(0)}));
    return 1;
  }
  for (int i = 0; i < index.dim(); ++i) {
    if (index.size(i) == item.view.size(dim + i)) continue;
    Throw(ErrorCode::kIndexOutOfRange,
          "index: the mask {} at dim {} does not match the indexed tensor {}",
          index.shape().to_string(), dim, item.view.shape().to_string());
  }
  if (only) {
    SetIndex(item, dim, index);
    return index.dim();
  }
  Tensor coordinates = NonzeroFor("index", index);
  for (int i = 0; i < index.dim(); ++i) {
    SetIndex(item, dim + i, Reshaped(Sliced(coordinates, 1, i, 1), {coordinates.size(0)}));
  }
  return index.dim();
}

/// One integer: as in PyTorch it counts as the number it holds, which is read for it. Where nothing
/// may run it is an index like any other, and the result a copy.
bool IsPosition(const Tensor& index) {
  const ThreadContext& context = Context();
  bool may_read = context.symbolic == 0 && context.forbid_execution.empty();
  return may_read && index.dim() == 0 && IsIntegral(index.dtype()) && !IsMask(index);
}

Item Resolve(const Tensor& self, const std::vector<Index>& items) {
  int consumed = ConsumedDims(items);
  if (consumed > self.dim()) {
    Throw(ErrorCode::kIndexOutOfRange, "too many indices for {}: got {}", self.shape().to_string(),
          consumed);
  }
  Item result{self, {}};
  int dim = 0;
  bool ellipsis = false;
  for (const Index& item : items) {
    if (const int64_t* i = std::get_if<int64_t>(&item)) {
      int64_t size = result.view.size(dim);
      if (*i < -size || *i >= size) {
        Throw(ErrorCode::kIndexOutOfRange,
              "index {} is out of bounds for dimension {} with size {}", *i, dim, size);
      }
      result.view = select(result.view, dim, *i);
    } else if (const Slice* range = std::get_if<Slice>(&item)) {
      bool whole = !range->start && !range->stop && range->step == 1;
      if (!whole) {
        result.view = slice(result.view, dim, range->start, range->stop, range->step);
      }
      ++dim;
    } else if (std::holds_alternative<EllipsisType>(item)) {
      if (ellipsis) {
        Throw(ErrorCode::kValue, "an index can only have a single ellipsis ('...')");
      }
      ellipsis = true;
      dim += self.dim() - consumed;
    } else if (std::holds_alternative<std::nullopt_t>(item)) {
      result.view = unsqueeze(result.view, dim++);
    } else if (const bool* truth = std::get_if<bool>(&item)) {
      // A bool indexes a new dim of size one: all of it, or none.
      result.view = unsqueeze(result.view, dim);
      SetIndex(result, dim++, Counting(*truth ? 1 : 0, self));
    } else if (const Tensor& tensor = std::get<Tensor>(item); IsPosition(tensor)) {
      result.view = select(result.view, dim, tensor.item<int64_t>());
    } else {
      dim += SetTensorIndex(result, dim, tensor, items.size() == 1);
    }
  }
  return result;
}

/// Leading sizes of one that the target does not have are dropped, as in PyTorch.
Tensor WithoutLeadingOnes(const Tensor& value, int rank) {
  Dims sizes = value.sizes();
  while (sizes.size() > rank && sizes[0] == 1) sizes.erase(0);
  return Reshaped(value, sizes);
}

}  // namespace

// ---- Functions

Tensor index(const Tensor& self, const std::vector<std::optional<Tensor>>& indices, Location at) {
  LocationScope scope(at);
  return IndexBy(self, indices);
}

Tensor index_put(const Tensor& self, const std::vector<std::optional<Tensor>>& indices,
                 const Tensor& values, bool accumulate, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kIndexPut, at, self, values); cast) {
    return index_put(cast(self), indices, cast(values), accumulate, at);
  }
  return PutBy(self, indices, values, accumulate);
}

Tensor& index_put_(Tensor& self, const std::vector<std::optional<Tensor>>& indices,
                   const Tensor& values, bool accumulate, Location at) {
  LocationScope scope(at);
  return WriteInPlace("index_put_", self, PutBy(self, indices, values, accumulate));
}

namespace {

void CheckLongIndex(const char* op, const Tensor& index) {
  if (index.dtype() == DType::kI64) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: index must be i64, got {}", op,
                   index.shape().to_string());
}

}  // namespace

Tensor take(const Tensor& self, const Tensor& index, Location at) {
  LocationScope scope(at);
  CheckLongIndex("take", index);
  if (self.numel() == 0 && index.numel() != 0) {
    Throw(ErrorCode::kEmptyTensor, "take: cannot take {} elements from the empty {}", index.numel(),
          self.shape().to_string());
  }
  Tensor flat = Reshaped(self, {self.numel()});
  Tensor picked = Rows(flat, WrappedIndex(Reshaped(index, {index.numel()}), self.numel()), 0);
  return Reshaped(picked, index.sizes());
}

Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate,
           Location at) {
  LocationScope scope(at);
  CheckLongIndex("put", index);
  if (index.numel() != source.numel() || self.dtype() != source.dtype()) {
    Throw(ErrorCode::kShapeMismatch,
          "put: source {} needs as many elements as index {} and the dtype of self {}",
          source.shape().to_string(), index.shape().to_string(), self.shape().to_string());
  }
  if (index.numel() == 0) return clone(self);
  Tensor flat = Reshaped(self, {self.numel()});
  Tensor wrapped = WrappedIndex(Reshaped(index, {index.numel()}), self.numel());
  Tensor written =
      Scattered(flat, wrapped, Reshaped(source, {source.numel()}), 0, accumulate ? "sum" : "none");
  return Reshaped(written, self.sizes());
}

Tensor& put_(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate,
             Location at) {
  LocationScope scope(at);
  return WriteInPlace("put_", self, put(self, index, source, accumulate, at));
}

Tensor Tensor::operator[](const IndexArg& index) const {
  return this->index({Index(index.index)}, index.at);
}

Tensor Tensor::index(const std::vector<Index>& indices, Location at) const {
  LocationScope scope(at);
  Item item = Resolve(*this, indices);
  if (!NothingIndexed(item.indices)) return IndexBy(item.view, item.indices);
  return item.view.is_same(*this) ? alias(*this) : item.view;
}

void Tensor::index_put_(const std::vector<Index>& indices, const TensorArg& value, Location at) {
  LocationScope scope(at);
  Item item = Resolve(*this, indices);
  Tensor source =
      value.is_tensor() ? Casted(value.tensor(), dtype()) : Lift(value.scalar(), dtype());
  if (NothingIndexed(item.indices)) {
    WriteInPlace("index_put_", item.view, WithoutLeadingOnes(source, item.view.dim()));
    return;
  }
  Tensor written = PutBy(item.view, item.indices, source, false);
  WriteInPlace("index_put_", item.view, written);
}

// ---- Records

namespace {

/// Nested lists of ints or bools, as a tensor that indexes.
struct ListOfIndices {
  std::vector<int64_t> values;
  Dims sizes;
  bool all_bools = true;

  void Add(const Any& item, int depth) {
    if (!item.IsSequence()) {
      bool is_bool = item.kind() == Any::Kind::kBool;
      if (!is_bool && item.kind() != Any::Kind::kInt) {
        Throw<TypeError>(ErrorCode::kSchema,
                         "getitem: a list that indexes has ints or bools, got {}",
                         item.to_string());
      }
      if (depth != sizes.size()) ThrowUneven();
      all_bools &= is_bool;
      values.push_back(is_bool ? item.ToBool() : item.ToInt());
      return;
    }
    const AnyList& items = item.ToList();
    auto size = static_cast<int64_t>(items.size());
    if (depth == kMaxRank) {
      Throw(ErrorCode::kValue, "getitem: lists that index nest at most {} deep", kMaxRank);
    }
    if (depth == sizes.size() && values.empty()) sizes.push_back(size);
    if (depth >= sizes.size() || sizes[depth] != size) ThrowUneven();
    for (const Any& inner : items) Add(inner, depth + 1);
  }

  [[noreturn]] static void ThrowUneven() {
    Throw(ErrorCode::kValue, "getitem: lists that index must have the same length at each depth");
  }
};

Tensor TensorFrom(const Any& list, const Device& device) {
  ListOfIndices indices;
  indices.Add(list, 0);
  bool mask = indices.all_bools && !indices.values.empty();
  return tensor(indices.values, indices.sizes, mask ? DType::kBool : DType::kI64, device);
}

/// Indices of a boxed call: ints, bools, none, "...", {"slice": [a, b, c]}, tensors, lists.
Index IndexFrom(const Any& item, const Device& device) {
  switch (item.kind()) {
    case Any::Kind::kNone:
      return None;
    case Any::Kind::kBool:
      return item.ToBool();
    case Any::Kind::kInt:
      return item.ToInt();
    case Any::Kind::kTensor:
      return item.ToTensor();
    case Any::Kind::kList:
    case Any::Kind::kTuple:
      return TensorFrom(item, device);
    case Any::Kind::kString:
      if (item.ToStringRef() == "...") return Ellipsis;
      break;
    case Any::Kind::kDict: {
      const AnyDict& dict = item.ToDict();
      auto found = dict.find("slice");
      if (found == dict.end() || found->second.ToList().size() != 3) break;
      const AnyList& parts = found->second.ToList();
      auto bound = [](const Any& part) {
        return part.IsNone() ? std::optional<int64_t>() : part.ToInt();
      };
      return Slice(bound(parts[0]), bound(parts[1]), parts[2].IsNone() ? 1 : parts[2].ToInt());
    }
    default:
      break;
  }
  Throw<TypeError>(ErrorCode::kSchema,
                   "getitem: an index is an int, a bool, none, \"...\", a tensor, a list or "
                   "{{\"slice\": [start, stop, step]}}, got {}",
                   item.to_string());
}

/// The outer list has one index a dim: x[[0, 2]] is getitem(x, [[0, 2]]).
std::vector<Index> IndicesFrom(const Any& value, const Device& device) {
  std::vector<Index> indices;
  if (!value.IsSequence()) return {IndexFrom(value, device)};
  for (const Any& item : value.ToList()) indices.push_back(IndexFrom(item, device));
  return indices;
}

Any CallGetitem(std::span<const Any> args) {
  const Tensor& self = args[0].ToTensor();
  return Any(self.index(IndicesFrom(args[1], self.device())));
}

Any CallSetitem(std::span<const Any> args) {
  Tensor self = args[0].ToTensor();
  self.index_put_(IndicesFrom(args[1], self.device()), boxing::ToTensorArg(args[2]));
  return args[0];
}

HAMMOCK_FUNCTION(kIndex, "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
                 "Elements that tensors of indices or masks name.", index)
HAMMOCK_FUNCTION(kIndexPut,
                 "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) "
                 "-> Tensor",
                 "`self` with the indexed elements replaced or added to.", index_put,
                 AutocastRule::kWidest)
HAMMOCK_FUNCTION(kIndexPutI,
                 "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool "
                 "accumulate=False) -> Tensor(a!)",
                 "index_put in place.", index_put_)
HAMMOCK_FUNCTION(kTake, "take(Tensor self, Tensor index) -> Tensor",
                 "Elements by their index in the flattened tensor.", take)
HAMMOCK_FUNCTION(kPut,
                 "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
                 "`self` with elements written by their flat index.", put)
HAMMOCK_FUNCTION(kPutI,
                 "put_(Tensor(a!) self, Tensor index, Tensor source, bool accumulate=False) -> "
                 "Tensor(a!)",
                 "put in place.", put_)
constinit const OpDef kGetitem = {
    .schema = "getitem(Tensor self, Any indices) -> Tensor",
    .doc = "self[indices], one index a dim; a view unless a tensor or a list of ints indexes.",
    .call = CallGetitem,
};
constinit const OpDef kSetitem = {
    .schema = "setitem(Tensor(a!) self, Any indices, Any value) -> Tensor(a!)",
    .doc = "self[indices] = value.",
    .call = CallSetitem,
};

}  // namespace

std::span<const OpDef* const> ops::IndexOps() {
  static constexpr const OpDef* kOps[] = {&kIndex, &kIndexPut, &kIndexPutI, &kTake,
                                          &kPut,   &kPutI,     &kGetitem,   &kSetitem};
  return kOps;
}

}  // namespace hammock
