// Casts that PyTorch has as methods, by name only: most are keywords in C++, where one writes `to`.

#include "hammock/ops/view.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock::ops {
namespace {

template <DType dtype>
Tensor Converted(const Tensor& self, Location at) {
  return to(self, dtype, at);
}

#define CONVERSION(name, dtype)                                              \
  {                                                                          \
    .schema = name "(Tensor self) -> Tensor",                                \
    .doc = "Cast to " #dtype "; the tensor itself where it has that dtype.", \
    .call = Box<UnaryFn(Converted<dtype>)>                                   \
  }

constinit const OpDef kFunctions[] = {
    CONVERSION("bool", boolean), CONVERSION("byte", u8),       CONVERSION("char", i8),
    CONVERSION("short", i16),    CONVERSION("int", i32),       CONVERSION("long", i64),
    CONVERSION("half", f16),     CONVERSION("bfloat16", bf16), CONVERSION("float", f32),
    CONVERSION("double", f64),
};
#undef CONVERSION

}  // namespace

std::span<const OpDef* const> ConversionOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace hammock::ops
