#include <algorithm>
#include <numeric>

#include "hammock/op_builder.h"
#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

/// Negative indices count from the end.
Tensor FromFront(const Tensor& index, int64_t size) {
  Tensor wide = index.to(DType::kI64);
  return where(wide < 0, wide + size, wide);
}

Values Gather(Call& c) {
  Tensor x = c[0];
  int64_t axis = Wrapped(c, c.Int("axis", 0), x.dim());
  if (c.At(1).known() && c.Host(1).numel() == 1) {  // one slice: no index is read
    int64_t at = c.Number(1).ToInt();
    int rank = c.Host(1).shape().rank();
    if (at < 0) at += x.size(axis);
    if (at < 0 || at >= x.size(axis)) {
      c.Fail("index {} of {} along axis {}", c.Number(1).ToInt(), x.shape().to_string(), axis);
    }
    Dims sizes = x.sizes();
    sizes.erase(static_cast<int>(axis));
    for (int i = 0; i < rank; ++i) sizes.insert(static_cast<int>(axis), 1);
    return {reshape(narrow(x, axis, at, 1), sizes)};
  }
  Tensor index = FromFront(c[1], x.size(axis));
  Dims sizes = x.sizes();
  sizes.erase(static_cast<int>(axis));
  for (int i = 0; i < index.dim(); ++i) {
    sizes.insert(static_cast<int>(axis) + i, index.size(i));
  }
  return {reshape(index_select(x, axis, index.reshape({-1})), sizes)};
}

Values GatherElements(Call& c) {
  Tensor x = c[0];
  int64_t axis = Wrapped(c, c.Int("axis", 0), x.dim());
  return {gather(x, axis, FromFront(c[1], x.size(axis)))};
}

/// The first dims of `x` as one, and the positions in it that the last dim of `index` addresses.
struct Flat {
  Tensor x, index;
  int depth;  // how many dims are addressed
};

Flat Flattened(const Call& c, const Tensor& x, const Tensor& index, int batch) {
  int depth = static_cast<int>(index.size(-1));
  if (batch + depth > x.dim())
    c.Fail("indices {} of {}", index.shape().to_string(), x.shape().to_string());
  Tensor at;
  for (int i = 0; i < depth; ++i) {
    int64_t size = x.size(batch + i);
    Tensor part = FromFront(select(index, -1, i), size);
    at = i == 0 ? part : at * size + part;
  }
  Dims sizes;
  for (int i = 0; i < batch; ++i) sizes.push_back(x.size(i));
  sizes.push_back(Product(x.sizes(), batch, batch + depth));
  for (int i = batch + depth; i < x.dim(); ++i) sizes.push_back(x.size(i));
  return {x.reshape(sizes), at, depth};
}

Values GatherND(Call& c) {
  Tensor x = c[0], index = c[1];
  int batch = static_cast<int>(c.Int("batch_dims", 0));
  // Batch dims become one addressed dim.
  if (batch > 0) {
    Dims sizes;
    for (int i = 0; i < index.dim(); ++i) sizes.push_back(i + 1 < index.dim() ? index.size(i) : 1);
    std::vector<Tensor> parts;
    for (int i = 0; i < batch; ++i) {
      Dims along = Dims::Filled(index.dim(), 1);
      along[i] = index.size(i);
      parts.push_back(
          broadcast_to(arange(index.size(i), DType::kI64, c.device()).reshape(along), sizes));
    }
    parts.push_back(index.to(DType::kI64));
    index = cat(parts, -1);
  }
  Dims out = index.sizes();
  int depth = static_cast<int>(out.back());
  out.erase(out.size() - 1);
  for (int i = depth; i < x.dim(); ++i) out.push_back(x.size(i));
  Flat flat = Flattened(c, x, index, 0);
  return {reshape(index_select(flat.x, 0, flat.index.reshape({-1})), out)};
}

std::string ReductionOf(const Call& c) {
  std::string reduction = c.Text("reduction", "none");
  if (reduction == "add") return "sum";
  if (reduction == "mul") return "prod";
  if (reduction == "max") return "amax";
  if (reduction == "min") return "amin";
  if (reduction != "none") c.Fail("reduction '{}'", reduction);
  return reduction;
}

Values ScatterElements(Call& c) {
  Tensor x = c[0], updates = c[2];
  int64_t axis = Wrapped(c, c.Int("axis", 0), x.dim());
  Tensor index = FromFront(c[1], x.size(axis));
  std::string reduction = ReductionOf(c);
  if (reduction == "none") return {scatter(x, axis, index, updates)};
  return {scatter_reduce(x, axis, index, updates, reduction)};
}

Values ScatterND(Call& c) {
  Tensor x = c[0], index = c[1], updates = c[2];
  Flat flat = Flattened(c, x, index, 0);
  Tensor at = flat.index.reshape({-1});
  Dims sizes = flat.x.sizes();
  sizes[0] = at.numel();
  Tensor rows = updates.reshape(sizes);
  std::string reduction = ReductionOf(c);
  Tensor result;
  if (reduction == "none") {
    result = index_copy(flat.x, 0, at, rows);
  } else {
    Dims along = Dims::Filled(rows.dim(), 1);
    along[0] = at.numel();
    result = scatter_reduce(flat.x, 0, broadcast_to(at.reshape(along), sizes), rows, reduction);
  }
  return {reshape(result, x.sizes())};
}

Values TensorScatter(Call& c) {
  Tensor past = c[0], update = c[1];
  int64_t axis = Wrapped(c, c.Int("axis", -2), past.dim());
  bool circular = c.Text("mode", "linear") == "circular";
  int64_t batch = past.size(0), count = update.size(axis);
  Tensor start = c.Has(2) ? c[2].to(DType::kI64) : zeros({batch}, DType::kI64, c.device());
  Dims across = Dims::Filled(past.dim(), 1), along = across;
  across[0] = batch;
  along[static_cast<int>(axis)] = count;
  Tensor index = start.reshape(across) + arange(count, DType::kI64, c.device()).reshape(along);
  if (circular) index = remainder(index, past.size(axis));
  return {scatter(past, axis, broadcast_to(index, update.sizes()), update)};
}

/// Of an operator that reads how many there are. Known values are counted on the host.
Values NonZero(Call& c) {
  if (!c.At(0).known()) return {nonzero(c[0]).t().contiguous()};
  HostTensor host = c.Host(0);
  int rank = std::max(host.shape().rank(), 1);
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(rank));
  Dims strides = ContiguousStrides(host.shape().sizes());
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (!host.at(i).ToBool()) continue;
    int64_t left = i;
    for (int d = 0; d < rank; ++d) {
      int64_t stride = host.shape().rank() == 0 ? 1 : strides[d];
      rows[static_cast<size_t>(d)].push_back(left / stride);
      left %= stride;
    }
  }
  std::vector<int64_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  auto count = static_cast<int64_t>(rows[0].size());
  return {Value::Known(HostTensor::From(all, {rank, count}))};
}

Values Compress(Call& c) {
  Tensor x = c[0];
  std::vector<int64_t> condition = c.Ints(1), index;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i]) index.push_back(static_cast<int64_t>(i));
  }
  if (!c.HasAttribute("axis")) return {index_select(x.reshape({-1}), 0, VectorOf(c, index))};
  return {index_select(x, Wrapped(c, c.Int("axis", 0), x.dim()), VectorOf(c, index))};
}

Values OneHot(Call& c) {
  Tensor index = c[0].to(DType::kI64), values = c[2];
  int64_t depth = c.Number(1).ToInt();
  int64_t axis = Wrapped(c, c.Int("axis", -1), index.dim() + 1);
  Dims along = Dims::Filled(index.dim() + 1, 1);
  along[static_cast<int>(axis)] = depth;
  Tensor classes = arange(depth, DType::kI64, c.device()).reshape(along);
  Tensor hot = eq(where(index < 0, index + depth, index).unsqueeze(axis), classes);
  return {where(hot, select(values, 0, 1), select(values, 0, 0))};
}

Values TopK(Call& c) {
  Tensor x = c[0];
  int64_t k = c.opset() < 10 ? c.Int("k", 1) : c.Number(1).ToInt();
  int64_t axis = Wrapped(c, c.Int("axis", -1), x.dim());
  if (k < 0 || k > x.size(axis)) c.Fail("k {} of {}", k, x.shape().to_string());
  // Of equal values the one with the lower index comes first, as in a stable sort.
  auto [values, index] = sort(x, axis, c.Int("largest", 1) != 0, true);
  return {narrow(values, axis, 0, k), narrow(index, axis, 0, k)};
}

/// (values, first indices, inverse, counts), sorted or in the order of their first occurrence.
Values Unique(Call& c) {
  Tensor x = c[0];
  bool sorted = c.Int("sorted", 1);
  std::optional<int64_t> axis;
  if (c.HasAttribute("axis")) axis = Wrapped(c, c.Int("axis", 0), x.dim());
  auto [values, inverse, counts] = unique(x, true, axis);
  inverse = inverse.reshape({-1});
  int64_t all = inverse.numel(), distinct = counts.numel(), along = axis.value_or(0);
  Tensor first = scatter_reduce(full({distinct}, all, DType::kI64, c.device()), 0, inverse,
                                arange(all, DType::kI64, c.device()), "amin");
  if (!sorted) {
    Tensor order = argsort(first);
    Tensor rank = scatter(zeros_like(order), 0, order, arange(distinct, DType::kI64, c.device()));
    values = index_select(values, along, order);
    first = index_select(first, 0, order);
    counts = index_select(counts, 0, order);
    inverse = index_select(rank, 0, inverse);
  }
  return {values, first, inverse, counts};
}

constexpr Operator kRows[] = {
    {"Compress", 9, kNewestOpset, Compress},
    {"Gather", 1, kNewestOpset, Gather},
    {"GatherElements", 11, kNewestOpset, GatherElements},
    {"GatherND", 11, kNewestOpset, GatherND},
    {"NonZero", 9, kNewestOpset, NonZero},
    {"OneHot", 9, kNewestOpset, OneHot},
    {"Scatter", 9, kNewestOpset, ScatterElements},
    {"ScatterElements", 11, kNewestOpset, ScatterElements},
    {"ScatterND", 11, kNewestOpset, ScatterND},
    {"TensorScatter", 24, kNewestOpset, TensorScatter},
    {"TopK", 1, kNewestOpset, TopK},
    {"Unique", 11, kNewestOpset, Unique},
};

}  // namespace

std::span<const Operator> IndexOperators() { return kRows; }

}  // namespace hammock::onnx
