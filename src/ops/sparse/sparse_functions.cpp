// Functions of sparse tensors: matmuls, sums, softmax, arithmetic with dense tensors.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "hammock/sparse.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/sparse/sparse_matmul.h"
#include "ops/sparse/sparse_parts.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

namespace {

using Layout = SparseTensor::Layout;

bool IsCsr(const SparseTensor& s) { return s.layout() == Layout::kCsr; }

void CheckInner(const char* op, const SparseTensor& s, const Tensor& dense, int64_t sparse_size,
                int64_t dense_size) {
  if (sparse_size == dense_size) return;
  Throw(ErrorCode::kShapeMismatch, "{}: inner sizes differ: {} and {} need {} == {}", op,
        s.summary(), dense.shape().to_string(), sparse_size, dense_size);
}

/// Where the elements of a matrix, or of a batch of them, lie.
struct Elements {
  Tensor crow;  // CSR only
  Tensor row;   // made when it is needed
  Tensor col, values;

  explicit Elements(const SparseTensor& s) {
    if (IsCsr(s)) {
      crow = SparseParts::OneBatch(s, s.crow_indices());
      col = SparseParts::OneBatch(s, s.col_indices());
      values = SparseParts::OneBatch(s, s.values());
    } else {
      row = SparseParts::IndexOf(s, 0);
      col = SparseParts::IndexOf(s, 1);
      values = s.values();
    }
  }
  Tensor rows() const { return row.defined() ? row : RowsOfElements(crow, col.size(-1)); }
};

/// s @ dense, or s^T @ dense; dense has the batch dims of s, and two more.
Tensor Product(const SparseTensor& s, const Tensor& dense, bool transposed) {
  Elements e(s);
  Tensor x = dense;
  if (s.dim() > 3) x = reshape(x, {-1, x.size(-2), x.size(-1)});
  Tensor y;
  if (transposed) {
    y = CooMatmul(e.col, e.rows(), e.values, x, s.sizes()[s.dim() - 1]);
  } else if (e.crow.defined()) {
    y = CsrMatmul(e.crow, e.col, e.values, x);
  } else {
    y = CooMatmul(e.row, e.col, e.values, x, s.sizes()[0]);
  }
  if (s.dim() <= 3) return y;
  Dims sizes = s.sizes();
  sizes[s.dim() - 2] = y.size(-2), sizes[s.dim() - 1] = y.size(-1);
  return Reshaped(y, sizes);
}

/// The sums of products of elements of a and of b, a CSR matrix; COO.
SparseTensor Products(const SparseTensor& a, const SparseTensor& b) {
  const Dims sizes = {a.sizes()[0], b.sizes()[1]};
  const Elements left(a), right(b);
  Tensor begins, firsts;  // of the products of each element of a; of the row of b that it meets
  int64_t count = 0;
  if (a.nnz() > 0 && b.nnz() > 0) {
    const Tensor row = Casted(left.col, DType::kI64);
    const Tensor starts = Casted(right.crow, DType::kI64);
    firsts = Rows(starts, row, 0);
    const Tensor lasts = Rows(starts, add(row, ConstantLike(1, row)), 0);
    begins = Padded(cumsum(sub(lasts, firsts), 0), 0, 1, 0, 0);
    count = ReadCount("sparse::mm", Reshaped(Sliced(begins, 0, a.nnz(), 1), {}));
  }
  if (count == 0) {
    return SparseParts::Coo(Filled({2, 0}, 0, DType::kI64, a.values()),
                            Filled({0}, 0, a.dtype(), a.values()), sizes, true);
  }
  const Tensor from = RowsOfElements(begins, count);
  const Tensor within = sub(Counting(count, from), Rows(begins, from, 0));
  const Tensor other = add(Rows(firsts, from, 0), within);
  const Tensor row = Rows(Casted(left.rows(), DType::kI64), from, 0);
  const Tensor col = Casted(Rows(right.col, other, 0), DType::kI64);
  const Tensor values = mul(Rows(left.values, from, 0), Rows(right.values, other, 0));
  return SparseParts::Coo(stack({row, col}, 0), values, sizes, false).coalesce();
}

void CheckBatch(const char* op, const SparseTensor& s, const Tensor& dense) {
  bool same = dense.dim() == s.dim();
  for (int d = 0; same && d < s.dim() - 2; ++d) same = dense.size(d) == s.sizes()[d];
  if (same && dense.dtype() == s.dtype()) return;
  if (same) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: dtypes differ: {} and {}; cast one of them",
                     op, s.summary(), dense.shape().to_string());
  }
  Throw(ErrorCode::kShapeMismatch, "{}: {} and {} do not have the same batch dims before matrices",
        op, s.summary(), dense.shape().to_string());
}

/// `x` as [product of sparse sizes, dense dims...], for positions of COO; [batch, matrix] or
/// [matrix] for CSR.
Tensor InPositions(const SparseTensor& s, const Tensor& x) {
  Dims sizes;
  if (IsCsr(s)) {
    const int64_t matrix = s.sizes()[s.dim() - 2] * s.sizes()[s.dim() - 1];
    if (s.dim() > 2) sizes.push_back(x.numel() == 0 ? 0 : x.numel() / matrix);
    sizes.push_back(matrix);
  } else {
    sizes = s.values().sizes();
    sizes[0] = SparseParts::Count(SparseParts::SparseSizes(s));
  }
  return reshape(x, sizes);
}

/// The elements of `x`, which has the sizes of `s`, at the positions of s; shaped as its values.
Tensor At(const SparseTensor& s, const Tensor& x) {
  if (s.nnz() == 0) return Filled(s.values().sizes(), 0, x.dtype(), x);
  Tensor flat = InPositions(s, x);
  if (!IsCsr(s)) return index_select(flat, 0, SparseParts::Flattened(s));
  Tensor position = SparseParts::PositionsInMatrix(s);
  return reshape(gather(flat, flat.dim() - 1, position), s.values().sizes());
}

Tensor Stretch(const char* op, const Tensor& x, const SparseTensor& s) {
  if (x.sizes() == s.sizes()) return x;
  if (x.dim() > s.dim()) {
    Throw(ErrorCode::kShapeMismatch, "{}: {} does not broadcast to {}", op, x.shape().to_string(),
          s.summary());
  }
  return expand(x, s.sizes());
}

// ---- Softmax

/// The number of each element's line along `dim`, and how many lines there are.
std::pair<Tensor, int64_t> LinesAlong(const char* op, const SparseTensor& s, int dim) {
  if (IsCsr(s)) {
    if (dim != s.dim() - 1) {
      Throw(ErrorCode::kValue, "{}: CSR along dim {}: rows, the last dim, are possible; convert {}",
            op, dim, s.summary());
    }
    const int64_t rows = s.sizes()[dim - 1];
    Tensor line = RowsOfElements(SparseParts::OneBatch(s, s.crow_indices()), s.nnz());
    int64_t batch = line.dim() == 2 ? line.size(0) : 1;
    if (line.dim() == 2) {
      Tensor number = Reshaped(Counting(batch, line), {batch, 1});
      line = add(line, mul(number, ConstantLike(rows, number)));
    }
    return {reshape(line, {line.numel()}), batch * rows};
  }
  Dims others;
  int64_t count = 1;
  for (int d = 0; d < s.sparse_dim(); ++d) {
    if (d == dim) continue;
    others.push_back(d);
    count *= s.sizes()[d];
  }
  return {SparseParts::Flattened(s, others), count};
}

SparseTensor Softmax(const char* op, const SparseTensor& s, int64_t given_dim, bool logarithm) {
  int dim = WrapDim(op, given_dim, s.dim());
  NeedFloat(op, s.values());
  if (!IsCsr(s) && dim >= s.sparse_dim()) {
    int along = 1 + dim - s.sparse_dim();
    return s.with_values(logarithm ? log_softmax(s.values(), along) : softmax(s.values(), along));
  }
  if (s.nnz() == 0) return s;
  auto [line, lines] = LinesAlong(op, s, dim);
  Tensor x = Casted(s.values(), WideFloat(s.dtype()));
  if (IsCsr(s)) x = reshape(x, {x.numel()});
  Dims sizes = x.sizes();
  sizes[0] = lines;
  Tensor wide = line;
  if (x.dim() > 1) {
    Dims column = Dims::Filled(x.dim(), 1);
    column[0] = x.size(0);
    wide = Broadcasted(Reshaped(line, column), x.sizes());
  }
  Tensor lowest = Filled(sizes, -std::numeric_limits<double>::infinity(), x.dtype(), x);
  Tensor top = Rows(Scattered(lowest, wide, x.detach(), 0, "amax"), line, 0);
  Tensor shifted = sub(x, top.detach()), power = exp(shifted);
  Tensor total = AddedAlong(Filled(sizes, 0, x.dtype(), x), 0, line, power);
  Tensor y = logarithm ? sub(shifted, Rows(log(total), line, 0)) : div(power, Rows(total, line, 0));
  return s.with_values(Casted(reshape(y, s.values().sizes()), s.dtype()));
}

}  // namespace

namespace sparse {

Tensor mm(const SparseTensor& a, const Tensor& b, Location at) {
  LocationScope scope(at);
  NeedMatrix("sparse::mm", a);
  if (b.dim() == a.dim() - 1) return squeeze(mm(a, unsqueeze(b, -1), at), -1);
  CheckBatch("sparse::mm", a, b);
  CheckInner("sparse::mm", a, b, a.sizes()[a.dim() - 1], b.size(-2));
  return Product(a, b, false);
}

Tensor mm(const Tensor& a, const SparseTensor& b, Location at) {
  LocationScope scope(at);
  NeedMatrix("sparse::mm", b);
  CheckBatch("sparse::mm", b, a);
  CheckInner("sparse::mm", b, a, b.sizes()[b.dim() - 2], a.size(-1));
  return transpose(Product(b, transpose(a, -2, -1), true), -2, -1);
}

SparseTensor mm(const SparseTensor& a, const SparseTensor& b, Location at) {
  LocationScope scope(at);
  for (const SparseTensor* s : {&a, &b}) {
    NeedMatrix("sparse::mm", *s);
    if (s->dim() == 2) continue;
    Throw(ErrorCode::kShapeMismatch,
          "sparse::mm: of two sparse operands each is one matrix, got {}", s->summary());
  }
  if (a.dtype() != b.dtype()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "sparse::mm: dtypes differ: {} and {}; cast one of them", a.summary(),
                     b.summary());
  }
  if (a.sizes()[1] != b.sizes()[0]) {
    Throw(ErrorCode::kShapeMismatch, "sparse::mm: inner sizes differ: {} and {} need {} == {}",
          a.summary(), b.summary(), a.sizes()[1], b.sizes()[0]);
  }
  const SparseTensor products = Products(a, b.to_sparse_csr());
  return IsCsr(a) ? products.to_sparse_csr() : products;
}

Tensor addmm(const Tensor& self, const SparseTensor& a, const Tensor& b, const Scalar& beta,
             const Scalar& alpha, Location at) {
  LocationScope scope(at);
  Tensor product = hammock::mul(mm(a, b), alpha);
  if (beta.ToDouble() == 0) return product;
  return hammock::add(product, hammock::mul(self, beta));
}

SparseTensor sampled_addmm(const SparseTensor& self, const Tensor& a, const Tensor& b,
                           const Scalar& beta, const Scalar& alpha, Location at) {
  LocationScope scope(at);
  NeedMatrix("sparse::sampled_addmm", self);
  CheckBatch("sparse::sampled_addmm", self, a);
  CheckBatch("sparse::sampled_addmm", self, b);
  const int rank = self.dim();
  CheckInner("sparse::sampled_addmm", self, a, self.sizes()[rank - 2], a.size(-2));
  CheckInner("sparse::sampled_addmm", self, b, self.sizes()[rank - 1], b.size(-1));
  Tensor left = a, right = transpose(b, -2, -1);
  if (rank > 3) {
    left = reshape(left, {-1, left.size(-2), left.size(-1)});
    right = reshape(right, {-1, right.size(-2), right.size(-1)});
  }
  Elements e(self);
  Tensor dots = reshape(SampledMatmul(e.rows(), e.col, left, right), self.values().sizes());
  Tensor result = hammock::mul(dots, alpha);
  if (beta.ToDouble() != 0) result = hammock::add(result, hammock::mul(self.values(), beta));
  return self.with_values(result);
}

Tensor sum(const SparseTensor& self, Location at) {
  return hammock::sum(self.values(), {}, false, std::nullopt, at);
}

SparseTensor sum(const SparseTensor& self, const Dims& dims, Location at) {
  LocationScope scope(at);
  if (IsCsr(self)) return sum(self.to_sparse_coo(), dims, at);
  Dims wrapped = WrapDims("sparse::sum", dims, self.dim());
  std::vector<Tensor> rows;
  Dims sizes, inner;
  for (int d = 0; d < self.dim(); ++d) {
    bool summed = Contains(wrapped, d);
    if (d < self.sparse_dim() && !summed) rows.push_back(SparseParts::IndexOf(self, d));
    if (d >= self.sparse_dim() && summed) inner.push_back(1 + d - self.sparse_dim());
    if (!summed) sizes.push_back(self.sizes()[d]);
  }
  if (rows.empty()) {
    Throw(ErrorCode::kValue,
          "sparse::sum: no sparse dim of {} remains beside dims {}; the sum is dense: sum "
          "values() or to_dense()",
          self.summary(), ToString(dims));
  }
  Tensor values = inner.empty() ? self.values() : hammock::sum(self.values(), inner);
  return SparseParts::Coo(stack(rows, 0), values, sizes, false);
}

SparseTensor softmax(const SparseTensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  return Softmax("sparse::softmax", self, dim, false);
}

SparseTensor log_softmax(const SparseTensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  return Softmax("sparse::log_softmax", self, dim, true);
}

SparseTensor mask(const Tensor& dense, const SparseTensor& pattern, Location at) {
  LocationScope scope(at);
  if (dense.sizes() != pattern.sizes()) {
    Throw(ErrorCode::kShapeMismatch, "sparse::mask: {} does not have the sizes of {}",
          dense.shape().to_string(), pattern.summary());
  }
  return pattern.with_values(At(pattern, dense));
}

SparseTensor mul(const SparseTensor& a, const Tensor& b, Location at) {
  LocationScope scope(at);
  if (b.dim() == 0) return a.with_values(hammock::mul(a.values(), b));
  return a.with_values(hammock::mul(a.values(), At(a, Stretch("sparse::mul", b, a))));
}

SparseTensor mul(const SparseTensor& a, const Scalar& b, Location at) {
  LocationScope scope(at);
  return a.with_values(hammock::mul(a.values(), b));
}

SparseTensor div(const SparseTensor& a, const Tensor& b, Location at) {
  LocationScope scope(at);
  if (b.dim() == 0) return a.with_values(hammock::div(a.values(), b));
  return a.with_values(hammock::div(a.values(), At(a, Stretch("sparse::div", b, a))));
}

SparseTensor div(const SparseTensor& a, const Scalar& b, Location at) {
  LocationScope scope(at);
  return a.with_values(hammock::div(a.values(), b));
}

Tensor add(const Tensor& a, const SparseTensor& b, const Scalar& alpha, Location at) {
  LocationScope scope(at);
  Tensor whole = Stretch("sparse::add", a, b);
  if (b.nnz() == 0) return whole;
  DType dtype = PromoteTypes(whole.dtype(), b.dtype());
  Tensor values = hammock::mul(Casted(b.values(), dtype), alpha);
  Tensor flat = InPositions(b, Casted(whole, dtype));
  if (!IsCsr(b)) {
    return Reshaped(AddedAlong(flat, 0, SparseParts::Flattened(b), values), b.sizes());
  }
  Tensor position = SparseParts::PositionsInMatrix(b);
  values = reshape(values, position.sizes());
  return Reshaped(Scattered(flat, position, values, flat.dim() - 1, "sum"), b.sizes());
}

SparseTensor add(const SparseTensor& a, const SparseTensor& b, const Scalar& alpha, Location at) {
  LocationScope scope(at);
  NeedLayout("sparse::add", a, Layout::kCoo);
  NeedLayout("sparse::add", b, Layout::kCoo);
  if (a.sizes() != b.sizes() || a.sparse_dim() != b.sparse_dim()) {
    Throw(ErrorCode::kShapeMismatch, "sparse::add: {} and {} differ in their dims", a.summary(),
          b.summary());
  }
  auto whole = [](const SparseTensor& s) { return Casted(s.indices(), DType::kI64); };
  DType dtype = PromoteTypes(a.dtype(), b.dtype());
  Tensor values = hammock::mul(Casted(b.values(), dtype), alpha);
  return SparseParts::Coo(cat({whole(a), whole(b)}, 1), cat({Casted(a.values(), dtype), values}, 0),
                          a.sizes(), false);
}

}  // namespace sparse
}  // namespace hammock
