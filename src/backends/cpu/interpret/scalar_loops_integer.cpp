#include "backends/cpu/interpret/scalar_loops_of.h"

namespace hammock::cpu {

const Loops* IntegerLoopsFor(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return loops::Find<DType::kBool, uint8_t>();
    case DType::kU8:
      return loops::Find<DType::kU8, uint8_t>();
    case DType::kU16:
      return loops::Find<DType::kU16, uint16_t>();
    case DType::kU32:
      return loops::Find<DType::kU32, uint32_t>();
    case DType::kU64:
      return loops::Find<DType::kU64, uint64_t>();
    case DType::kI8:
      return loops::Find<DType::kI8, int8_t>();
    case DType::kI16:
      return loops::Find<DType::kI16, int16_t>();
    case DType::kI32:
      return loops::Find<DType::kI32, int32_t>();
    case DType::kI64:
      return loops::Find<DType::kI64, int64_t>();
    default:
      return nullptr;
  }
}

}  // namespace hammock::cpu
