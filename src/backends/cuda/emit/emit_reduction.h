#pragma once
/// How the accumulators of the threads of a line become one value: Note [Reductions on a GPU].

#include <string>

#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/launch_config.h"

namespace hammock::cuda {

/// Lines that combine the accumulators r{number} of all threads of a line. Then x{number} is the
/// result of instruction `number` in all of them; across rows an array of the results of the
/// thread's lines, or, of several passes, r{number}_passes or, of blocks, `parts` has those of this
/// one. Threads exchange through `exchange`; `ordinal` counts the kernel's reductions.
std::string EmitReduction(const compiler::Instr& instr, int number, int ordinal,
                          const LaunchConfig& config, ScalarText& scalars);

/// Lines after which only that block goes on which is the last of `blocks` along y.
std::string WaitForLastBlockText(int blocks);

/// Lines after which x{number} is the result of all passes.
std::string EmitPasses(const compiler::Instr& instr, int number, int ordinal,
                       const LaunchConfig& config, ScalarText& scalars);

}  // namespace hammock::cuda
