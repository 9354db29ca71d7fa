#pragma once
/// How a kernel is called: one tile of rows and columns, by compiled code or by the interpreter.

#include <cstdint>

#include "hammock/ir/dtype.h"
#include "hammock/ir/scalar_fn.h"

namespace hammock::cpu {

inline constexpr int kScalarFns = static_cast<int>(ScalarFn::kSelect) + 1;

constexpr int LaneFunctionIndex(ScalarFn fn, DType dtype) {
  return static_cast<int>(dtype) * kScalarFns + static_cast<int>(fn);
}
/// The functions of lane_functions.h in one table; null where a function has a body.
const void* const* LaneFunctionTable();

/// Lists have one entry per access of the kernel. The layout is known to emitted code.
struct KernelArgs {
  int64_t rows;
  int64_t columns;
  /// Of row 0 and column 0 of the tile; for an index or a constant, its value there.
  char* const* pointers;
  const int64_t* row_strides;  ///< in elements
  const int64_t* column_strides;
  const void* const* lane_functions;  ///< by LaneFunctionIndex, for those without a body
};
using NativeKernel = void (*)(const KernelArgs*);

/// Elements of scratch memory that a row needs besides `columns`: vectors may lie across rows.
inline constexpr int kMaxRowLanes = 64;

}  // namespace hammock::cpu
