#pragma once
/// Kernels of the loop IR as OpenCL C: a pure function, and the launches of such kernels.
///
/// A kernel without reductions has a work-item for each element. Otherwise work-groups of 64 share
/// rows: `threads` work-items, a power of two that follows from the number of columns, have a row,
/// and item k combines columns k, k + threads, ... in order; their results are combined as a tree.
/// So a result depends on the number of columns alone.

#include <hammock/compiler/kernel.h>
#include <hammock/compiler/scalar_text.h>

#include "queued_command.h"

namespace opencl {

struct KernelKind {
  bool wide_index = false;   ///< positions of elements have 64 bits
  bool one_pointer = false;  ///< all memory is in one buffer
};

/// The text of a kernel; functions that it calls are collected in `scalars`.
KernelSource EmitKernel(const hammock::compiler::Kernel& kernel, int outer_dims, KernelKind kind,
                        hammock::compiler::ScalarText& scalars);

/// A launch without elements has a global size of 0.
QueuedCommand MakeQueuedCommand(const hammock::compiler::Launch& launch,
                                const KernelSource& source);

/// Memory for values that stages of a kernel pass to later ones.
int64_t ScratchBytes(const hammock::compiler::Launch& launch);

}  // namespace opencl
