// Sparse tensors: construction, conversions, coalescing.

#include "hammock/sparse.h"

#include <fmt/format.h>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/rearrange.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/require.h"
#include "ops/sparse/sparse_matmul.h"
#include "ops/sparse/sparse_parts.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

namespace {

void NeedIndices(const char* op, const char* what, const Tensor& x) {
  if (x.dtype() == DType::kI64 || x.dtype() == DType::kI32) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: {} are i64 or i32, got {}", op, what,
                   x.shape().to_string());
}

Dims WithoutLast(const Dims& sizes, int count) {
  Dims result;
  for (int i = 0; i < sizes.size() - count; ++i) result.push_back(sizes[i]);
  return result;
}

/// (sorted keys, where each came from) along the only dim; equal ones stay in order.
std::pair<Tensor, Tensor> Sorted(const Tensor& keys) {
  Tensor from = argsort(keys, 0, false, true);
  return {Rows(keys, from, 0), from};
}

/// Where the elements of each of `count` rows begin, given the rows in order.
Tensor RowStarts(const Tensor& rows, int64_t count) {
  return searchsorted(rows, Counting(count + 1, rows));
}

}  // namespace

// ---- Facts

SparseTensor SparseTensor::Coo(Tensor indices, Tensor values, Dims sizes, bool coalesced) {
  SparseTensor s;
  s.indices_ = std::move(indices);
  s.values_ = std::move(values);
  s.sizes_ = std::move(sizes);
  s.coalesced_ = coalesced;
  return s;
}

SparseTensor SparseTensor::Csr(Tensor crow, Tensor col, Tensor values, Dims sizes) {
  SparseTensor s = Coo(std::move(col), std::move(values), std::move(sizes), false);
  s.layout_ = Layout::kCsr;
  s.crow_ = std::move(crow);
  return s;
}

int64_t SparseTensor::size(int64_t dim, Location at) const {
  LocationScope scope(at);
  return sizes_[WrapDim("size", dim, this->dim())];
}

int SparseTensor::sparse_dim() const {
  return layout_ == Layout::kCsr ? 2 : static_cast<int>(indices_.size(0));
}

int SparseTensor::dense_dim() const { return layout_ == Layout::kCsr ? 0 : dim() - sparse_dim(); }

int64_t SparseTensor::nnz() const { return indices_.size(-1); }

std::string SparseTensor::summary() const {
  return fmt::format("{} {} of {} elements on {}",
                     layout_ == Layout::kCoo ? "sparse_coo" : "sparse_csr",
                     Shape(dtype(), sizes_).to_string(), nnz(), device().to_string());
}

const Tensor& SparseTensor::indices(Location at) const {
  LocationScope scope(at);
  NeedLayout("indices", *this, Layout::kCoo);
  return indices_;
}

const Tensor& SparseTensor::crow_indices(Location at) const {
  LocationScope scope(at);
  NeedLayout("crow_indices", *this, Layout::kCsr);
  return crow_;
}

const Tensor& SparseTensor::col_indices(Location at) const {
  LocationScope scope(at);
  NeedLayout("col_indices", *this, Layout::kCsr);
  return indices_;
}

void NeedLayout(const char* op, const SparseTensor& s, SparseTensor::Layout layout) {
  if (s.layout() == layout) return;
  bool coo = layout == SparseTensor::Layout::kCoo;
  Throw(ErrorCode::kValue, "{}: needs {}, got {}; convert it by {}", op, coo ? "COO" : "CSR",
        s.summary(), coo ? "to_sparse_coo" : "to_sparse_csr");
}

void NeedMatrix(const char* op, const SparseTensor& s) {
  if (s.layout() == SparseTensor::Layout::kCsr || (s.sparse_dim() == 2 && s.dense_dim() == 0))
    return;
  Throw(ErrorCode::kShapeMismatch, "{}: needs a matrix of which both dims are sparse, got {}", op,
        s.summary());
}

// ---- Parts

Dims SparseParts::SparseSizes(const SparseTensor& s) {
  return WithoutLast(s.sizes(), s.dense_dim());
}

int64_t SparseParts::Count(const Dims& sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

Tensor SparseParts::IndexOf(const SparseTensor& s, int i) {
  return Reshaped(Casted(Sliced(s.indices_, 0, i, 1), DType::kI64), {s.nnz()});
}

Tensor SparseParts::Flattened(const SparseTensor& s, const Dims& dims) {
  Tensor flat;
  for (int64_t dim : dims) {
    Tensor index = IndexOf(s, static_cast<int>(dim));
    flat =
        flat.defined()
            ? add(hammock::mul(flat, ConstantLike(s.sizes()[static_cast<int>(dim)], flat)), index)
            : index;
  }
  return flat.defined() ? flat : Filled({s.nnz()}, 0, DType::kI64, s.values());
}

Tensor SparseParts::Flattened(const SparseTensor& s) {
  Dims dims;
  for (int d = 0; d < s.sparse_dim(); ++d) dims.push_back(d);
  return Flattened(s, dims);
}

Tensor SparseParts::OneBatch(const SparseTensor& s, const Tensor& x) {
  if (s.dim() <= 3) return x;
  return Reshaped(x, {Count(WithoutLast(s.sizes(), 2)), x.size(-1)});
}

Tensor SparseParts::PositionsInMatrix(const SparseTensor& s) {
  Tensor row = RowsOfElements(OneBatch(s, s.crow_), s.nnz());
  Tensor col = Casted(OneBatch(s, s.indices_), DType::kI64);
  return add(hammock::mul(row, ConstantLike(s.sizes()[s.dim() - 1], row)), col);
}

// ---- Construction

SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                               const std::optional<Dims>& size, bool is_coalesced, Location at) {
  LocationScope scope(at);
  constexpr const char* kOp = "sparse_coo_tensor";
  NeedIndices(kOp, "indices", indices);
  if (indices.dim() != 2 || values.dim() < 1 || values.size(0) != indices.size(1)) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs indices of [sparse dims, elements] and values of [elements, ...], got {} and "
          "{}",
          kOp, indices.shape().to_string(), values.shape().to_string());
  }
  const int sparse = static_cast<int>(indices.size(0)), dense = values.dim() - 1;
  Dims sizes;
  if (size) {
    sizes = *size;
  } else {
    if (indices.numel() == 0) {
      Throw(ErrorCode::kValue, "{}: no elements say no size; give the sizes", kOp);
    }
    for (int64_t last : amax(Casted(indices, DType::kI64), {1}).to_vector<int64_t>(at)) {
      sizes.push_back(last + 1);
    }
    for (int d = 0; d < dense; ++d) sizes.push_back(values.size(d + 1));
  }
  CheckSizes(kOp, sizes);
  bool fits = sizes.size() == sparse + dense;
  for (int d = 0; fits && d < dense; ++d) fits = sizes[sparse + d] == values.size(d + 1);
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch, "{}: sizes {} do not fit indices of {} dims and values {}",
          kOp, ToString(sizes), sparse, values.shape().to_string());
  }
  Tensor checked = indices;
  if (indices.numel() > 0) {
    Tensor good;
    for (int d = 0; d < sparse; ++d) {
      Tensor index = Sliced(indices, 0, d, 1);
      Tensor inside =
          logical_and(ge(index, ConstantLike(0, index)), lt(index, ConstantLike(sizes[d], index)));
      good = good.defined() ? logical_and(good, inside) : inside;
    }
    checked = Required(indices, good, kOp, "an index is not in the range of its dim's size");
  }
  return SparseParts::Coo(checked, values, sizes, is_coalesced);
}

SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, const Dims& size, Location at) {
  LocationScope scope(at);
  constexpr const char* kOp = "sparse_csr_tensor";
  NeedIndices(kOp, "crow_indices", crow_indices);
  NeedIndices(kOp, "col_indices", col_indices);
  CheckSizes(kOp, size);
  const int rank = size.size();
  auto fits = [&](const Tensor& x, int64_t last) {
    Dims wanted = WithoutLast(size, 2);
    wanted.push_back(last);
    return x.sizes() == wanted;
  };
  if (rank < 2 || col_indices.dim() < 1 || !fits(crow_indices, size[rank - 2] + 1) ||
      !fits(col_indices, col_indices.size(-1)) || !fits(values, col_indices.size(-1))) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs crow_indices [batch.., rows + 1], col_indices and values [batch.., elements] "
          "for sizes {}, got {}, {} and {}",
          kOp, ToString(size), crow_indices.shape().to_string(), col_indices.shape().to_string(),
          values.shape().to_string());
  }
  const int last = crow_indices.dim() - 1;
  const int64_t rows = size[rank - 2], count = col_indices.size(-1);
  Tensor begin = Sliced(crow_indices, last, 0, 1), end = Sliced(crow_indices, last, rows, 1);
  Tensor ends = logical_and(eq(begin, ConstantLike(0, begin)), eq(end, ConstantLike(count, end)));
  Tensor crow = Required(crow_indices, ends, kOp,
                         "crow_indices must begin with 0 and end with the number of elements");
  if (rows > 0) {
    Tensor grows = le(Sliced(crow, last, 0, rows), Sliced(crow, last, 1, rows));
    crow = Required(crow, grows, kOp, "crow_indices must not decrease");
  }
  Tensor col = col_indices;
  if (col.numel() > 0) {
    Tensor inside =
        logical_and(ge(col, ConstantLike(0, col)), lt(col, ConstantLike(size[rank - 1], col)));
    col = Required(col, inside, kOp, "a column is not in the range of its dim's size");
  }
  return SparseParts::Csr(crow, col, values, size);
}

SparseTensor to_sparse(const Tensor& self, std::optional<int64_t> max_nnz, Location at) {
  LocationScope scope(at);
  NeedRank("to_sparse", self, 1);
  if (max_nnz && *max_nnz < 0) {
    Throw(ErrorCode::kValue, "to_sparse: max_nnz {} must not be negative", *max_nnz);
  }
  Tensor flat = reshape(self, {self.numel()});
  Tensor used = ne(flat, ConstantLike(0, flat));
  if (!max_nnz) {
    Tensor at_rows = NonzeroFor("to_sparse", used);
    Tensor position = Reshaped(at_rows, {at_rows.size(0)});
    return SparseParts::Coo(stack(unravel_index(position, self.sizes()), 0),
                            index_select(flat, 0, position), self.sizes(), true);
  }
  Tensor count = sum(used, {}, false, DType::kI64);
  Tensor found = Reshaped(nonzero_static(used, *max_nnz, -1), {*max_nnz});
  found = Required(found, le(count, ConstantLike(*max_nnz, count)), "to_sparse",
                   "there are more elements than max_nnz");
  Tensor there = ge(found, ConstantLike(0, found));
  // Zeros at the last index that there is: the order stays.
  Tensor position =
      *max_nnz == 0 ? found : std::get<0>(cummax(maximum(found, ConstantLike(0, found)), 0));
  Tensor values = *max_nnz == 0 || self.numel() == 0 ? Filled({*max_nnz}, 0, self.dtype(), self)
                                                     : index_select(flat, 0, position);
  values = hammock::mul(values, Casted(there, self.dtype()));
  return SparseParts::Coo(stack(unravel_index(position, self.sizes()), 0), values, self.sizes(),
                          true);
}

SparseTensor to_sparse_csr(const Tensor& self, std::optional<int64_t> max_nnz, Location at) {
  LocationScope scope(at);
  if (self.dim() != 2) {
    Throw(ErrorCode::kShapeMismatch, "to_sparse_csr: needs a matrix, got {}",
          self.shape().to_string());
  }
  return to_sparse(self, max_nnz).to_sparse_csr();
}

// ---- Conversions

SparseTensor SparseTensor::with_values(const Tensor& values, Location at) const {
  LocationScope scope(at);
  if (values.sizes() != values_.sizes()) {
    Throw(ErrorCode::kShapeMismatch, "with_values: values {} must have the sizes {}",
          values.shape().to_string(), ToString(values_.sizes()));
  }
  SparseTensor result = *this;
  result.values_ = values;
  return result;
}

SparseTensor SparseTensor::coalesce(std::optional<int64_t> max_nnz, Location at) const {
  LocationScope scope(at);
  NeedLayout("coalesce", *this, Layout::kCoo);
  if (max_nnz && *max_nnz < 0) {
    Throw(ErrorCode::kValue, "coalesce: max_nnz {} must not be negative", *max_nnz);
  }
  if (coalesced_ || nnz() == 0) return *this;
  auto [keys, from] = Sorted(SparseParts::Flattened(*this));
  Tensor differs = ne(Sliced(keys, 0, 1, nnz() - 1), Sliced(keys, 0, 0, nnz() - 1));
  Tensor group = cumsum(Padded(differs, 0, 1, 0, false), 0, DType::kI64);
  Tensor count = add(Sliced(group, 0, nnz() - 1, 1), ConstantLike(1, group));
  int64_t kept = max_nnz ? *max_nnz : ReadCount("coalesce", Reshaped(count, {}));
  if (max_nnz) {
    group = Required(group, le(count, ConstantLike(kept, count)), "coalesce",
                     "there are more elements than max_nnz");
  }
  Dims value_sizes = values_.sizes();
  value_sizes[0] = kept;
  Tensor summed =
      AddedAlong(Filled(value_sizes, 0, dtype(), values_), 0, group, Rows(values_, from, 0));
  // Where max_nnz leaves some over, zeros at the last index that there is: the order stays.
  Tensor unique = Scattered(Filled({kept}, 0, DType::kI64, values_), group, keys, 0, "amax");
  if (max_nnz && kept > 0) unique = std::get<0>(cummax(unique, 0));
  return Coo(stack(unravel_index(unique, SparseParts::SparseSizes(*this)), 0), summed, sizes_,
             true);
}

Tensor SparseTensor::to_dense(Location at) const {
  LocationScope scope(at);
  if (layout_ == Layout::kCsr) {
    Tensor position = SparseParts::PositionsInMatrix(*this);
    Tensor values = SparseParts::OneBatch(*this, values_);
    Dims sizes = WithoutLast(values.sizes(), 1);
    sizes.push_back(sizes_[dim() - 2] * sizes_[dim() - 1]);
    Tensor zeros = Filled(sizes, 0, dtype(), values_);
    if (nnz() == 0) return Reshaped(zeros, sizes_);
    return Reshaped(Scattered(zeros, position, values, values.dim() - 1, "sum"), sizes_);
  }
  Dims sizes = values_.sizes();
  sizes[0] = SparseParts::Count(SparseParts::SparseSizes(*this));
  Tensor zeros = Filled(sizes, 0, dtype(), values_);
  if (nnz() == 0) return Reshaped(zeros, sizes_);
  return Reshaped(AddedAlong(zeros, 0, SparseParts::Flattened(*this), values_), sizes_);
}

SparseTensor SparseTensor::to_sparse_coo(Location at) const {
  LocationScope scope(at);
  if (layout_ == Layout::kCoo) return *this;
  if (dim() == 2) {
    Tensor row = RowsOfElements(crow_, nnz());
    return Coo(stack({row, Casted(indices_, DType::kI64)}, 0), values_, sizes_, false);
  }
  const int64_t batch = SparseParts::Count(WithoutLast(sizes_, 2)),
                matrix = sizes_[dim() - 2] * sizes_[dim() - 1];
  Tensor position = Reshaped(SparseParts::PositionsInMatrix(*this), {batch, nnz()});
  Tensor number = Reshaped(Counting(batch, values_), {batch, 1});
  Tensor flat =
      reshape(add(position, hammock::mul(number, ConstantLike(matrix, number))), {batch * nnz()});
  return Coo(stack(unravel_index(flat, sizes_), 0), reshape(values_, {batch * nnz()}), sizes_,
             false);
}

SparseTensor SparseTensor::to_sparse_csr(Location at) const {
  LocationScope scope(at);
  if (layout_ == Layout::kCsr) return *this;
  NeedMatrix("to_sparse_csr", *this);
  Tensor row = SparseParts::IndexOf(*this, 0), col = SparseParts::IndexOf(*this, 1),
         values = values_;
  if (!coalesced_ && nnz() > 0) {
    Tensor from = Sorted(SparseParts::Flattened(*this)).second;
    row = Rows(row, from, 0), col = Rows(col, from, 0), values = Rows(values, from, 0);
  }
  return Csr(RowStarts(row, sizes_[0]), col, values, sizes_);
}

SparseTensor SparseTensor::transpose(int64_t dim0, int64_t dim1, Location at) const {
  LocationScope scope(at);
  int a = WrapDim("transpose", dim0, dim()), b = WrapDim("transpose", dim1, dim());
  if (layout_ == Layout::kCsr) return to_sparse_coo().transpose(a, b).to_sparse_csr();
  if (std::max(a, b) >= sparse_dim()) {
    Throw(ErrorCode::kValue, "transpose: dims {} and {} of {} must both be sparse", a, b,
          summary());
  }
  if (a == b) return *this;
  Dims sizes = sizes_;
  std::swap(sizes[a], sizes[b]);
  std::vector<Tensor> rows;
  for (int d = 0; d < sparse_dim(); ++d) {
    rows.push_back(SparseParts::IndexOf(*this, d == a ? b : d == b ? a : d));
  }
  return Coo(stack(rows, 0), values_, sizes, false);
}

SparseTensor SparseTensor::to(DType dtype, Location at) const {
  return with_values(values_.to(dtype, at), at);
}

SparseTensor SparseTensor::to(const Device& device, Location at) const {
  LocationScope scope(at);
  SparseTensor result = *this;
  result.values_ = values_.to(device);
  result.indices_ = indices_.to(device);
  if (crow_.defined()) result.crow_ = crow_.to(device);
  return result;
}

}  // namespace hammock
