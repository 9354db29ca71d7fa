#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"

namespace hammock::ops {
namespace {

void InferBarrier(const InferCall& call) { call.out = {*call.in[0]}; }

Tensors BarrierVjp(const VjpCall& call) {
  Tensors grads(call.in.size());
  grads[0] = call.grad();
  return grads;
}

}  // namespace

constinit const OpDef kBarrier = {
    .schema = "barrier(Tensor self, Tensor[] after) -> Tensor",
    .doc = "`self`, but not before `after` is there; the compiler does not look through it.",
    .infer = InferBarrier,
    .takes_complex = true,
    .vjp = BarrierVjp,
    .samples = {{"f32[2,3] f32[4]"}, {"f32[2]"}},
};

}  // namespace hammock::ops
