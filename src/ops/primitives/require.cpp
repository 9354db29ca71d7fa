#include "ops/primitives/require.h"

#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"

namespace hammock::ops {
namespace {

void InferRequire(const InferCall& call) {
  RequireDType(call, call.in[1]->dtype() == DType::kBool, *call.in[1], "a bool condition");
  call.out = {*call.in[0]};
}

Tensors RequireVjp(const VjpCall& call) { return {call.grad(), Tensor()}; }

}  // namespace

Tensor Required(const Tensor& x, const Tensor& condition, const char* op, const char* message) {
  return Apply(kRequire, Location(), {x, condition}, {fmt::format("{}: {}", op, message)});
}

Tensor InRange(const Tensor& x, double low, double high) {
  return logical_and(ge(x, ConstantLike(low, x)), le(x, ConstantLike(high, x)));
}

constinit const OpDef kRequire = {
    .schema = "require(Tensor self, Tensor condition, str message) -> Tensor",
    .doc = "`self`; fails with `message` unless all of `condition` holds.",
    .infer = InferRequire,
    .takes_complex = true,
    .vjp = RequireVjp,
    .can_fail = true,
    .samples = {{"f32[2,3] bool[0]", "{message=\"no\"}"}},
};

}  // namespace hammock::ops
