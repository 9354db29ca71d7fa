#pragma once
/// Scalar functions over contiguous elements, for the instructions that this processor has. Results
/// have the bits that compiled code gives: Note [Scalar bodies] in compiler/scalar/scalar_bodies.h.

#include <cstdint>

#include "hammock/ir/dtype.h"
#include "hammock/ir/scalar_fn.h"

namespace hammock::cpu {

/// out[i] = f(x[i]) for i < count, in place if wanted. Elements are of the loop's dtype, results of
/// tests and compares are bytes, 0 or 1. f16 and bf16 have no loops: see WidenLoop.
using UnaryLoop = void (*)(int64_t count, const void* x, void* out);
using BinaryLoop = void (*)(int64_t count, const void* x, const void* y, void* out);

/// Null where the function has no body for this dtype, or another form.
UnaryLoop UnaryLoopFor(ScalarFn fn, DType dtype);
BinaryLoop BinaryLoopFor(ScalarFn fn, DType dtype);

/// f16 or bf16 to float, and back: rounded to nearest, ties to even.
UnaryLoop WidenLoopFor(DType dtype);
UnaryLoop RoundLoopFor(DType dtype);

}  // namespace hammock::cpu
