#include "test_records.h"

#include <string>

#include "hammock/ir/graph.h"

namespace hammock {
namespace {

void InferEveryKind(const InferCall& call) { call.out = {*call.in[0]}; }

Any TwiceInt(std::span<const Any> args) { return Any(args[0].ToInt() * 2); }
Any TwiceStr(std::span<const Any> args) {
  return Any(args[0].ToStringRef() + args[0].ToStringRef());
}

void PercentToFactor(int version, GraphNode& node) {
  if (version == 1 && node.attrs.size() == 1)
    node.attrs.Set(0, Attr(node.attrs[0].scalar().ToDouble() / 100));
}

}  // namespace

constinit const OpDef kScaled = {
    .schema = "test::scaled(Tensor self, float factor) -> Tensor",
    .version = 2,
    .upgrade = PercentToFactor,
    .infer = InferEveryKind,
};
constinit const OpDef kNotUpgraded = {
    .schema = "test::without_upgrade(Tensor self, float factor) -> Tensor",
    .version = 2,
    .infer = InferEveryKind,
};
constinit const OpDef kEveryKind = {
    .schema =
        "test::every_kind.node(Tensor self, Tensor? maybe, Scalar lifted, Tensor?[] more, "
        "int a, float b, bool c, str d, ScalarType e, int[] f, float[] g, str[] h, "
        "bool[] i, Graph j, Scalar k, int? l=None, ScalarType? m=None, Device? n=None, "
        "int[2] o=1, Graph? p=None, float[]? q=None) -> Tensor",
    .version = 3,
    .baked = "k",
    .infer = InferEveryKind,
};
constinit const OpDef kTwiceInt = {.schema = "test::twice.int(int x) -> int", .call = TwiceInt};
constinit const OpDef kTwiceStr = {.schema = "test::twice.str(str x) -> str", .call = TwiceStr};

namespace {
const OpRegistrar scaled(kScaled);
const OpRegistrar not_upgraded(kNotUpgraded);
const OpRegistrar every_kind(kEveryKind);
const OpRegistrar twice_int(kTwiceInt);
const OpRegistrar twice_str(kTwiceStr);
}  // namespace

}  // namespace hammock
