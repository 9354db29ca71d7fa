#pragma once
/// How the accumulators of the threads of a line become one value: Note [Reductions on a GPU].

#include <string>

#include "backends/cuda/kernel_cut.h"
#include "backends/cuda/scalar_text.h"

namespace hammock::cuda {

/// Lines that combine those accumulators of a thread, in r{number}, that one pass over a row made;
/// only where there are several. They leave one in r{number}_passes.
std::string EmitPassEnd(const compiler::Instr& instr, int number, const KernelCut& cut,
                        ScalarText& scalars);

/// Lines after which x{number} is the result of instruction `number` in all threads of the line.
/// Accumulators are in r{number}; threads exchange through `exchange`.
std::string EmitReduction(const compiler::Instr& instr, int number, const KernelCut& cut,
                          ScalarText& scalars);

}  // namespace hammock::cuda
