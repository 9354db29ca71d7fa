#pragma once
/// The calling convention of kernels, compiled and interpreted: a call computes one tile of rows
/// and columns.

#include <cstdint>

#include "hammock/ir/dtype.h"
#include "hammock/ir/scalar_fn.h"

namespace hammock::cpu {

constexpr int LaneFunctionIndex(ScalarFn fn, DType dtype) {
  return static_cast<int>(dtype) * static_cast<int>(kNumScalarFns) + static_cast<int>(fn);
}
/// The functions of lane_functions.h in one table, by LaneFunctionIndex; null for functions that
/// are not there. Kernels call the entries of functions without a body.
const void* const* LaneFunctionTable();

/// Lists have one entry per access of the kernel. Emitted code depends on this layout.
struct KernelArgs {
  int64_t rows;
  int64_t columns;
  /// The addresses of row 0 and column 0 of the tile; of an index or a constant, its value there.
  char* const* pointers;
  const int64_t* row_strides;  ///< in elements
  const int64_t* column_strides;
  const void* const* lane_functions;  ///< LaneFunctionTable()
};
using NativeKernel = void (*)(const KernelArgs*);

/// Elements of scratch memory that a row needs in addition to `columns`, for vectors across rows.
inline constexpr int kMaxRowLanes = 64;

}  // namespace hammock::cpu
