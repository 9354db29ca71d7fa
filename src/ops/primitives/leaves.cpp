#include "hammock/tensor.h"
#include "ir/primitives.h"
#include "ops/kit/record.h"
#include "ops/primitives/complex_parts.h"

namespace hammock::ops {
namespace {

/// Leaves come with their type; nothing says it but the node itself.
void GivenType(const InferCall& call) {
  Refuse<InternalError>(call, ErrorCode::kInternal, "a leaf's type is given, never inferred");
}

void InferRngState(const InferCall& call) { call.out = {Shape(DType::kU64, {2})}; }

void InferTensorList(const InferCall& call) {
  for (const Shape* type : call.in) call.out.push_back(*type);
}

std::vector<Tensor> ExpandTensorList(const ExpandCall& call) {
  return {call.in.begin(), call.in.end()};
}

void InferConstant(const InferCall& call) { call.out = {Shape(call.attrs[1].dtype(), {})}; }

}  // namespace

constinit const OpDef kInput = {
    .schema = "input() -> Tensor",
    .doc = "A parameter of a graph.",
    .infer = GivenType,
};
constinit const OpDef kDeviceData = {
    .schema = "device_data() -> Tensor",
    .doc = "A traced leaf whose data lives on its device or on the host.",
    .infer = GivenType,
};
constinit const OpDef kScalarLeaf = {
    .schema = "scalar(Scalar value) -> Tensor",
    .doc = "A traced lifted scalar; its value is a parameter, not part of the key.",
    .baked = "value",
    .infer = GivenType,
};
constinit const OpDef kRngState = {
    .schema = "rng_state(int seed, SymInt offset, int blocks) -> Tensor",
    .doc = "Seed and offset of a random node, fixed when it is traced.",
    .infer = InferRngState,
};
constinit const OpDef kTensorList = {
    .schema = "tensor_list(Tensor[] tensors) -> Tensor[]",
    .doc = "Its operands, as the outputs of one node.",
    .infer = InferTensorList,
    .expand = ExpandTensorList,
};
constinit const OpDef kConstant = {
    .schema = "constant(Scalar value, ScalarType dtype) -> Tensor",
    .doc = "A rank-0 constant that is part of the key.",
    .baked = "value",
    .infer = InferConstant,
    .complex = ConstantParts,
    .samples = {{"", "{value=2.5, dtype=f32}"}, {"", "{value=-3, dtype=i64}"}},
};

}  // namespace hammock::ops
