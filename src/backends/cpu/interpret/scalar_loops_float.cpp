#include "backends/cpu/interpret/scalar_loops_of.h"

namespace hammock::cpu {

const Loops* FloatLoops() { return loops::Find<DType::kF32, float>(); }

}  // namespace hammock::cpu
