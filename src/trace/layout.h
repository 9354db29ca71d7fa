#pragma once
/// Where the elements of a new tensor lie: PyTorch's rules for the strides of results. They are
/// host metadata; values and keys know nothing of them.

#include <span>

#include "trace/alias.h"

namespace hammock {

/// Whether the last dim is the fastest and elements lie one after another; also if there are none.
bool IsRowMajor(const Geometry& geometry);
/// Whether the elements fill their memory without gaps and none share a place.
bool IsDense(const Geometry& geometry);
/// Of the result of an elementwise op on these operands, which broadcast to `sizes`. Operands that
/// lie alike pass their order on; else the first one that tells two dims apart orders them.
Dims ElementwiseStrides(const Dims& sizes, std::span<const Geometry> operands);
/// Of a copy, a conversion, and of what is made `like` a tensor.
Dims CopyStrides(const Geometry& geometry);

/// Says where the elements of a tensor lie that shares its memory with no other. The strides are
/// dense.
void SetStrides(TensorImpl& impl, const Dims& strides);
/// The dims of a dense tensor from the slowest to the fastest; empty if that is their own order.
Dims StorageOrder(const Dims& sizes, const Dims& strides);

/// Whether the strides are others than those of new row-major memory.
bool IsStrided(const TensorImpl& impl);
/// Gives the result of an elementwise op on these operands its strides. Lifted numbers take no part
/// if `numbers` is false.
void KeepLayout(const Tensor& result, std::span<const Tensor> operands, bool numbers);
/// A new tensor in the layout of `self`.
Tensor LikeLayout(Tensor result, const Tensor& self);
/// A new tensor that is row-major whatever its operands are.
Tensor RowMajor(Tensor result);

}  // namespace hammock
