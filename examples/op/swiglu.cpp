#include "swiglu.h"

#include <hammock/op_builder.h>
#include <hammock/ops.h>

namespace swiglu_op {

using namespace hammock;

namespace {

/// The expansion for backends that do not take the op whole.
std::vector<Tensor> Expand(const ExpandCall& call) {
  Tensor gate = call.in[0], value = call.in[1], beta = call.in[2];
  return {gate * sigmoid(beta * gate) * value};
}

/// As if nothing had been broadcast or promoted: that of elementwise ops is undone by the caller.
std::vector<Tensor> Gradient(const VjpCall& call) {
  Tensor gate = call.in[0], value = call.in[1], beta = call.in[2];
  Tensor s = sigmoid(beta * gate), slope = gate * s * (1.0 - s);
  Tensor grad = call.grad();
  return {grad * value * (s + beta * slope), grad * gate * s, grad * value * gate * slope};
}

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& value, const Scalar& beta, Location at) {
  // Lifted: another beta needs no other compilation.
  return Apply(kSwiglu, at, {gate, value, Lift(beta, ResultType(gate, beta))});
}

constinit const OpDef kSwiglu = {
    .schema = "swiglu(Tensor gate, Tensor value, Scalar beta=1.0) -> Tensor",
    .doc = "gate * sigmoid(beta * gate) * value.",
    .call = Box<swiglu>,
    .rule = DTypeRule::kFloat,
    .expand = Expand,
    .vjp = Gradient,
    .samples = {{"f32[2,3] f32[2,3] f32[]"}, {"f32[2,1] f32[3] f32[]"}},
};

namespace {
const OpRegistrar registrar(kSwiglu);
}

}  // namespace swiglu_op
