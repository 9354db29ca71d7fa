// The records of the primitives: what they refuse, and that the interpreter runs their samples.

#include "ir/primitives.h"

#include <set>

#include "backends/run_graph.h"
#include "ir/op_registry.h"
#include "ir/sample_graph.h"
#include "ops/shape/views.h"

namespace hammock {
namespace {

const std::set<const OpDef*> kLeaves = {&ops::kInput, &ops::kDeviceData, &ops::kScalarLeaf,
                                        &ops::kRngState};

TEST(Primitives, HaveDocsAndKernels) {
  for (const OpDef* op : ops::InTreeOps()) {
    EXPECT_STRNE(op->doc, "") << op->name();
    if (op->IsPrimitive()) {
      EXPECT_EQ(reference::HasKernel(*op), !kLeaves.contains(op)) << op->name();
    }
  }
}

TEST(Primitives, HaveEachScalarFunctionOnce) {
  std::set<ScalarFn> seen;
  for (const OpDef* op : ops::InTreeOps()) {
    if (op->IsPrimitive() && op->scalar != ScalarFn::kNone) {
      EXPECT_TRUE(seen.insert(op->scalar).second) << op->name();
    }
  }
  EXPECT_EQ(seen.size(), kNumScalarFns - 1);  // all but kNone
}

/// Small integers, so that indices of samples are in range.
HostTensor SampleTensor(const Shape& type) {
  std::vector<double> values(type.numel());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        IsFloat(type.dtype()) ? 0.25 * static_cast<double>(i) - 1 : static_cast<double>(i % 2);
  }
  return Make(type.dtype(), type.sizes(), values);
}

TEST(Primitives, RunTheirSamples) {
  int ran = 0;
  for (const OpDef* op : ops::InTreeOps()) {
    if (!op->IsPrimitive()) continue;
    for (const SampleCall& sample : SampleCalls(*op)) {
      Graph graph = GraphOfSample(*op, sample);
      Verify(graph);
      std::vector<HostTensor> inputs;
      for (NodeId id : graph.inputs()) inputs.push_back(SampleTensor(graph[id].type()));
      auto outputs = reference::Interpret(graph, inputs);
      for (size_t i = 0; i < outputs.size(); ++i) {
        EXPECT_EQ(outputs[i].shape(), graph.TypeOf(graph.outputs()[i])) << op->name();
      }
      ++ran;
    }
  }
  EXPECT_GT(ran, 50);
}

/// The message of inference for one node, up to the operands that are listed behind it.
std::string Refusal(const OpDef& op, const char* operands, const char* attrs) {
  try {
    GraphOfSample(op, ParseSample(op, {operands, attrs}));
  } catch (const Error& error) {
    const std::string& message = error.message();
    return message.substr(0, message.find("; operands are"));
  }
  return "no error";
}

TEST(Primitives, RefuseBoolWhereItMeansNothing) {
  EXPECT_EQ(Refusal(ops::kNeg, "bool[2]", ""),
            "neg: bool is not supported, use logical_not or logical_xor, or cast");
  EXPECT_EQ(Refusal(ops::kSub, "bool[2] bool[2]", ""),
            "sub: bool is not supported, use logical_not or logical_xor, or cast");
  EXPECT_EQ(Refusal(ops::kReduceSum, "bool[2]", "{dims=[0], keepdim=false}"),
            "reduce_sum: bool[2] is not supported, needs a number dtype; cast first");
  EXPECT_EQ(Refusal(ops::kReduceAny, "f32[2]", "{dims=[0], keepdim=false}"),
            "reduce_any: f32[2] is not supported, needs bool; cast first");
}

TEST(Primitives, RefuseFloatsForBits) {
  EXPECT_EQ(Refusal(ops::kBitwiseAnd, "f32[2] i32[2]", ""),
            "bitwise_and: needs integers or bool, got f32");
}

TEST(Primitives, RefuseShapesThatDoNotFit) {
  EXPECT_EQ(Refusal(ops::kReshape, "f32[2,12]", "{sizes=[5,5]}"),
            "reshape: shape [5,5] is invalid for f32[2,12] of 24 elements");
  EXPECT_EQ(Refusal(ops::kBroadcast, "f32[2]", "{sizes=[3]}"),
            "broadcast: f32[2] does not broadcast to [3]: aligned right, each size must be equal "
            "or 1");
  EXPECT_EQ(Refusal(ops::kPermute, "f32[2,3]", "{dims=[0,0]}"),
            "permute: duplicate dims are not allowed: 0 twice");
  EXPECT_EQ(Refusal(ops::kConcat, "f32[2,3] f32[2,4]", "{dim=0}"),
            "concat: source f32[2,4] must equal f32[2,3] except in dimension 0");
  EXPECT_EQ(Refusal(ops::kDotGeneral, "f32[8,16] f32[32,4]",
                    "{a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]}"),
            "dot_general: inner sizes differ: f32[8,16] @ f32[32,4] needs 16 == 32");
  EXPECT_EQ(Refusal(ops::kDotGeneral, "f32[2] f64[2]",
                    "{a_contract=[0], b_contract=[0], a_batch=[], b_batch=[]}"),
            "dot_general: dtypes differ: f32[2] and f64[2]; cast one of them");
  EXPECT_EQ(Refusal(ops::kConvolution, "f32[2,5,9,8] f32[6,4,3,2]",
                    "{stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, "
                    "output_padding=[0,0], groups=1}"),
            "convolution: given groups=1, weight of size f32[6,4,3,2], expected input "
            "f32[2,5,9,8] to have 4 channels, but got 5 channels instead");
  EXPECT_EQ(Refusal(ops::kConvolution, "f32[1,1,1] f32[1,1,3]",
                    "{stride=[1], padding=[0], dilation=[1], transposed=false, "
                    "output_padding=[0], groups=1}"),
            "convolution: kernel size can't be greater than actual input size: input f32[1,1,1] "
            "padded to 1, weight f32[1,1,3] reaching over 3 in dimension 2");
}

TEST(Primitives, RefuseDimsAndRangesOutOfBounds) {
  EXPECT_EQ(Refusal(ops::kReduceSum, "f32[2,3]", "{dims=[2], keepdim=false}"),
            "reduce_sum: dimension 2 of f32[2,3] is out of range [0, 2)");
  EXPECT_EQ(Refusal(ops::kReduceSum, "f32[2,3]", "{dims=[0,0], keepdim=false}"),
            "reduce_sum: dim 0 appears multiple times in the list of dims");
  EXPECT_EQ(Refusal(ops::kSlice, "f32[5]", "{dim=0, start=3, size=3, step=1}"),
            "slice: start (3) + length (3) by step (1) exceeds dimension 0 of f32[5]");
  EXPECT_EQ(Refusal(ops::kSlice, "f32[5]", "{dim=0, start=0, size=3, step=9223372036854775807}"),
            "slice: start (0) + length (3) by step (9223372036854775807) exceeds dimension 0 of "
            "f32[5]");
  EXPECT_EQ(Refusal(ops::kDynamicSlice, "f32[5] i64[]", "{dim=0, size=6, step=1}"),
            "dynamic_slice: start (any) + length (6) by step (1) exceeds dimension 0 of f32[5]");
  EXPECT_EQ(Refusal(ops::kDynamicSlice, "f32[5] f32[]", "{dim=0, size=1, step=1}"),
            "dynamic_slice: f32[] is not supported, needs an integer start");
  EXPECT_EQ(Refusal(ops::kDynamicSelect, "f32[5,0] i64[]", "{dim=1}"),
            "dynamic_select: start (any) + length (1) by step (1) exceeds dimension 1 of f32[5,0]");
  EXPECT_EQ(Refusal(ops::kDynamicSelect, "f32[] i64[]", "{dim=0}"),
            "dynamic_select: a 0-d tensor cannot be sliced: f32[]");
  EXPECT_EQ(Refusal(ops::kAsStrided, "f32[6]", "{sizes=[2,3], strides=[4,1], offset=0}"),
            "as_strided: sizes [2,3], strides [4,1] and offset 0 reach outside f32[6] of 6 "
            "elements");
  EXPECT_EQ(Refusal(ops::kTopK, "f32[4]", "{k=5, dim=0, largest=true, sorted=true}"),
            "topk: selected index k out of range: 5 of dimension 0 of f32[4]");
  EXPECT_EQ(Refusal(ops::kPad, "f32[2] f32[]", "{low=[-2], high=[-1]}"),
            "pad_constant: low -2 and high -1 leave dimension 0 of f32[2] with size -1");
}

TEST(Primitives, RefuseExtremaOfNothing) {
  EXPECT_EQ(Refusal(ops::kReduceMax, "f32[2,0]", "{dims=[1], keepdim=false}"),
            "reduce_max: expected reduction dim 1 of f32[2,0] to have non-zero size: there is no "
            "identity");
  EXPECT_EQ(Refusal(ops::kArgMin, "f32[0]", "{dim=0, keepdim=false}"),
            "arg_min: expected reduction dim 0 of f32[0] to have non-zero size: there is no "
            "identity");
}

TEST(Primitives, RefuseUnknownKindsAndIndices) {
  EXPECT_EQ(Refusal(ops::kScan, "f32[2]", "{kind=\"mean\", dim=0, reverse=false}"),
            "scan: unknown kind 'mean', needs sum, prod, max or min");
  EXPECT_EQ(Refusal(ops::kScatter, "f32[2] i64[1] f32[1]", "{dim=0, reduce=\"mean\"}"),
            "scatter: unknown reduce 'mean', needs none, sum, prod, amax or amin");
  EXPECT_EQ(Refusal(ops::kGather, "f32[2] f32[1]", "{dim=0}"),
            "gather: f32[1] is not supported, needs an i64 or i32 index");
  EXPECT_EQ(Refusal(ops::kGather, "f32[2,2] i64[3,3]", "{dim=0}"),
            "gather: index i64[3,3] must have the rank of self f32[2,2] and be no larger except "
            "in dimension 0");
  EXPECT_EQ(Refusal(ops::kBitcast, "u8[3]", "{dtype=i32}"),
            "bitcast: the last dimension of u8[3] (8 bits an element) does not divide into i32");
  EXPECT_EQ(Refusal(ops::kRngBits, "i64[2]", "{sizes=[1]}"),
            "rng_bits: state is i64[2], needs u64[2] (seed, offset)");
}

TEST(Primitives, RefuseBodiesOfOtherTypes) {
  EXPECT_EQ(Refusal(ops::kWhile, "i64[]",
                    "{condition=graph { %0 = input : i64[] return %0 }, "
                    "body=graph { %0 = input : i64[] return %0 }}"),
            "while: what `condition` returns is (i64[]), needs (bool[])");
  EXPECT_EQ(Refusal(ops::kLoop, "f32[2]",
                    "{body=graph { %0 = input : i64[] %1 = input : f32[3] return %1 }, count=2, "
                    "num_carried=1, num_stacked_in=0}"),
            "loop: what `body` takes is (i64[], f32[3]), needs (i64[], f32[2])");
  EXPECT_EQ(Refusal(ops::kLoop, "f32[2]",
                    "{body=graph { %0 = input : i64[] %1 = input : f32[] return %1 }, count=3, "
                    "num_carried=0, num_stacked_in=1}"),
            "loop: a stacked operand is f32[2], needs 3 as its first size");
  EXPECT_EQ(Refusal(ops::kCustomCall, "f32[2]",
                    "{target=\"a\", payload=\"\", types=strings[\"f99[2]\"]}"),
            "custom_call: 'f99[2]' is no type, needs one such as f32[2,3]");
}

}  // namespace
}  // namespace hammock
