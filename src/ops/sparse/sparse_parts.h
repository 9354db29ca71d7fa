#pragma once
/// The parts of sparse tensors for the files of this folder: positions as dense tensors.

#include "hammock/sparse.h"

namespace hammock {

struct SparseParts {
  static SparseTensor Coo(Tensor indices, Tensor values, Dims sizes, bool coalesced) {
    return SparseTensor::Coo(std::move(indices), std::move(values), std::move(sizes), coalesced);
  }
  static SparseTensor Csr(Tensor crow, Tensor col, Tensor values, Dims sizes) {
    return SparseTensor::Csr(std::move(crow), std::move(col), std::move(values), std::move(sizes));
  }

  /// Sizes of the dims that COO indices address.
  static Dims SparseSizes(const SparseTensor& s);
  /// The product of the sizes.
  static int64_t Count(const Dims& sizes);
  /// Row `i` of COO indices: i64[nnz].
  static Tensor IndexOf(const SparseTensor& s, int i);
  /// The position of each COO element among those of the given sparse dims, flattened: i64[nnz].
  static Tensor Flattened(const SparseTensor& s, const Dims& dims);
  static Tensor Flattened(const SparseTensor& s);
  /// CSR: [rows + 1] or [batch, rows + 1], with all batch dims in one; so the others.
  static Tensor OneBatch(const SparseTensor& s, const Tensor& x);
  /// CSR: the position of each element in its flattened matrix: [nnz] or [batch, nnz].
  static Tensor PositionsInMatrix(const SparseTensor& s);
};

/// ValueError unless it has that layout: "coalesce: needs COO, got sparse_csr f32[...]".
void NeedLayout(const char* op, const SparseTensor& s, SparseTensor::Layout layout);
/// ValueError unless it is a matrix of numbers, or a batch of them.
void NeedMatrix(const char* op, const SparseTensor& s);

}  // namespace hammock
