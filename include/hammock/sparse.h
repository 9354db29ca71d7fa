#pragma once
/// SparseTensor: a tensor of which most elements are zero, as dense tensors of indices and values.
///
///   Tensor indices = tensor({{0, 1, 1}, {2, 0, 2}}), values = tensor({3.0, 4.0, 5.0});
///   SparseTensor a = sparse_coo_tensor(indices, values, {2, 3});
///   Tensor y = sparse::mm(a, x);             // gradients of a.values() and of x
///   SparseTensor b = to_sparse_csr(weight);  // reads how many elements are not zero
///
/// COO has one column of indices for each element, in any order; elements with equal indices are
/// summed. CSR has rows in order and says where each begins; it may have batch dims in front, with
/// equally many elements in each matrix. Values are ordinary tensors, so gradients, devices, vmap
/// and steps are those of dense ops. Nothing of a SparseTensor is written in place; a copy is the
/// same tensor. Indices are checked when values are used: reading a result that needed a wrong one
/// raises with the line where the SparseTensor was made.

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

class HAMMOCK_API SparseTensor {
 public:
  enum class Layout { kCoo, kCsr };

  Layout layout() const { return layout_; }
  const Dims& sizes() const { return sizes_; }
  int64_t size(int64_t dim, HAMMOCK_AT) const;
  int dim() const { return sizes_.size(); }
  /// Dims that indices address (2 for CSR), and those of each value behind them.
  int sparse_dim() const;
  int dense_dim() const;
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }
  /// Elements that are stored; of each matrix, for CSR.
  int64_t nnz() const;
  /// "sparse_coo f32[2,3] of 3 elements on cpu".
  std::string summary() const;

  /// [nnz, dense dims...], or [batch..., nnz] for CSR.
  const Tensor& values() const { return values_; }
  /// COO: i64[sparse_dim, nnz].
  const Tensor& indices(HAMMOCK_AT) const;
  /// CSR: [batch..., rows + 1], where the elements of each row begin, and [batch..., nnz].
  const Tensor& crow_indices(HAMMOCK_AT) const;
  const Tensor& col_indices(HAMMOCK_AT) const;
  /// COO: whether indices are known to be in order and different.
  bool is_coalesced() const { return coalesced_; }

  /// The same indices with other values: `s.with_values(relu(s.values()))`.
  SparseTensor with_values(const Tensor& values, HAMMOCK_AT) const;
  /// COO with indices in order, and one element for each. How many that are is read, unless
  /// `max_nnz` says a number: then there are as many elements, of which the last may be zeros at
  /// an index that is there already; too small a number raises.
  SparseTensor coalesce(std::optional<int64_t> max_nnz = std::nullopt, HAMMOCK_AT) const;
  Tensor to_dense(HAMMOCK_AT) const;
  SparseTensor to_sparse_coo(HAMMOCK_AT) const;
  /// A matrix. Elements with equal indices stay separate.
  SparseTensor to_sparse_csr(HAMMOCK_AT) const;
  SparseTensor transpose(int64_t dim0, int64_t dim1, HAMMOCK_AT) const;
  SparseTensor t(HAMMOCK_AT) const { return transpose(0, 1, at); }
  SparseTensor to(DType dtype, HAMMOCK_AT) const;
  SparseTensor to(const Device& device, HAMMOCK_AT) const;

 private:
  /// From tensors that are right.
  static SparseTensor Coo(Tensor indices, Tensor values, Dims sizes, bool coalesced);
  static SparseTensor Csr(Tensor crow, Tensor col, Tensor values, Dims sizes);
  friend struct SparseParts;

  SparseTensor() = default;
  Layout layout_ = Layout::kCoo;
  bool coalesced_ = false;
  Dims sizes_;
  Tensor crow_;     // CSR
  Tensor indices_;  // COO: [sparse_dim, nnz]; CSR: the columns
  Tensor values_;
};

/// `indices` i64[sparse_dim, nnz], `values` [nnz, ...]. Without sizes, the largest indices are
/// read.
HAMMOCK_API SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                                           const std::optional<Dims>& size = std::nullopt,
                                           bool is_coalesced = false, HAMMOCK_AT);
/// For sizes that are written `{2, 3}`.
inline SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                                      std::initializer_list<int64_t> size,
                                      bool is_coalesced = false, HAMMOCK_AT) {
  return sparse_coo_tensor(indices, values, Dims(size), is_coalesced, at);
}
/// `crow_indices` [batch..., rows + 1], `col_indices` and `values` [batch..., nnz].
HAMMOCK_API SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                                           const Tensor& values, const Dims& size, HAMMOCK_AT);
/// The elements that are not zero. Their number is read, or given: then zeros fill the rest, and
/// too small a number raises.
HAMMOCK_API SparseTensor to_sparse(const Tensor& self,
                                   std::optional<int64_t> max_nnz = std::nullopt, HAMMOCK_AT);
HAMMOCK_API SparseTensor to_sparse_csr(const Tensor& self,
                                       std::optional<int64_t> max_nnz = std::nullopt, HAMMOCK_AT);

namespace sparse {

/// Sparse times dense and dense times sparse; batches of CSR matrices with batches of dense ones. A
/// vector on the right gives a vector.
HAMMOCK_API Tensor mm(const SparseTensor& a, const Tensor& b, HAMMOCK_AT);
HAMMOCK_API Tensor mm(const Tensor& a, const SparseTensor& b, HAMMOCK_AT);
/// Sparse times sparse, without batches, in the layout of `a`, with gradients of the values of
/// both. How many elements the result has is read. COO is coalesced, rows of CSR are in order.
HAMMOCK_API SparseTensor mm(const SparseTensor& a, const SparseTensor& b, HAMMOCK_AT);
/// beta * self + alpha * (a @ b).
HAMMOCK_API Tensor addmm(const Tensor& self, const SparseTensor& a, const Tensor& b,
                         const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
/// alpha * (a @ b) + beta * self, only where `self` has elements.
HAMMOCK_API SparseTensor sampled_addmm(const SparseTensor& self, const Tensor& a, const Tensor& b,
                                       const Scalar& beta = 1, const Scalar& alpha = 1, HAMMOCK_AT);
/// The sum of all elements.
HAMMOCK_API Tensor sum(const SparseTensor& self, HAMMOCK_AT);
/// Over `dims`, of which one that indices address must remain. COO; not coalesced.
HAMMOCK_API SparseTensor sum(const SparseTensor& self, const Dims& dims, HAMMOCK_AT);
/// Along `dim`, of the elements that are there: others count as minus infinity.
HAMMOCK_API SparseTensor softmax(const SparseTensor& self, int64_t dim, HAMMOCK_AT);
HAMMOCK_API SparseTensor log_softmax(const SparseTensor& self, int64_t dim, HAMMOCK_AT);
/// The elements of `dense` where `pattern` has some.
HAMMOCK_API SparseTensor mask(const Tensor& dense, const SparseTensor& pattern, HAMMOCK_AT);

// Element by element. A product with zeros is zero whatever the dense element is.
HAMMOCK_API SparseTensor mul(const SparseTensor& a, const Tensor& b, HAMMOCK_AT);
HAMMOCK_API SparseTensor mul(const SparseTensor& a, const Scalar& b, HAMMOCK_AT);
HAMMOCK_API SparseTensor div(const SparseTensor& a, const Tensor& b, HAMMOCK_AT);
HAMMOCK_API SparseTensor div(const SparseTensor& a, const Scalar& b, HAMMOCK_AT);
HAMMOCK_API Tensor add(const Tensor& a, const SparseTensor& b, const Scalar& alpha = 1, HAMMOCK_AT);
/// COO; elements of both, not coalesced.
HAMMOCK_API SparseTensor add(const SparseTensor& a, const SparseTensor& b, const Scalar& alpha = 1,
                             HAMMOCK_AT);

// ---- Embeddings

/// Rows of `weight`, a leaf. Its gradient is not added to `weight.grad()` but kept as the rows that
/// were used, which SGD, Adagrad and SparseAdam take: an update costs as much as these, however
/// large the weight is.
HAMMOCK_API Tensor embedding(const Tensor& input, const Tensor& weight,
                             std::optional<int64_t> padding_idx = std::nullopt, HAMMOCK_AT);
/// The gradient that backward passes have added since the last clear_grad; not coalesced.
HAMMOCK_API std::optional<SparseTensor> grad(const Tensor& weight, HAMMOCK_AT);
HAMMOCK_API void clear_grad(const Tensor& weight);

}  // namespace sparse
}  // namespace hammock
