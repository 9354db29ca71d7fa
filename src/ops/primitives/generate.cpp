#include "ir/primitives.h"
#include "ops/kit/record.h"

namespace hammock::ops {
namespace {

void InferIota(const InferCall& call) {
  int64_t size = call.attrs[0].integer();
  DType dtype = call.attrs[1].dtype();
  CheckSizes(call.op.name(), {size});
  Shape result(dtype, {size});
  RequireDType(call, dtype != DType::kBool && InfoOf(dtype).supported, result, "a number dtype");
  call.out = {result};
}

void InferRngBits(const InferCall& call) {
  const Shape& state = *call.in[0];
  if (state != Shape(DType::kU64, {2})) {
    Refuse(call, ErrorCode::kShapeMismatch, "state is {}, needs u64[2] (seed, offset)",
           state.to_string());
  }
  Dims sizes = call.attrs[0].ints();
  CheckSizes(call.op.name(), sizes);
  call.out = {Shape(DType::kU32, sizes)};
}

}  // namespace

constinit const OpDef kIota = {
    .schema = "iota(SymInt size, ScalarType dtype) -> Tensor",
    .doc = "0, 1, 2, ... as a vector.",
    .infer = InferIota,
    .samples = {{"", "{size=5, dtype=i64}"}, {"", "{size=0, dtype=f32}"}},
};
constinit const OpDef kRngBits = {
    .schema = "rng_bits(Tensor state, SymInt[] sizes) -> Tensor",
    .doc = "Random u32 words of the Philox4x32-10 stream that `state` (seed, offset) names.",
    .infer = InferRngBits,
    .samples = {{"u64[2]", "{sizes=[7]}"}, {"u64[2]", "{sizes=[2,3]}"}},
};

}  // namespace hammock::ops
