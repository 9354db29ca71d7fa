#pragma once
/// How the accumulators of the threads of a line become one value: Note [Reductions on a GPU].

#include <string>

#include "backends/cuda/kernel_cut.h"
#include "backends/cuda/scalar_text.h"

namespace hammock::cuda {

/// Lines after which x{number} is the result of instruction `number` in all threads of the line.
/// Accumulators are in r{number}; threads exchange through `exchange`.
std::string EmitReduction(const compiler::Instr& instr, int number, const KernelCut& cut,
                          ScalarText& scalars);

}  // namespace hammock::cuda
