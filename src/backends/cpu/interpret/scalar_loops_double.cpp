#include "backends/cpu/interpret/scalar_loops_of.h"

namespace hammock::cpu {

const Loops* DoubleLoops() { return loops::Find<DType::kF64, double>(); }

}  // namespace hammock::cpu
