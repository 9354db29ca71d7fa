#include "trace/known_calls.h"

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/backend_data.h"
#include "ir/primitives.h"
#include "trace/apply.h"

namespace hammock {
namespace {

const Shape kMatrix(DType::kF32, {4, 6});

struct Call {
  const OpDef& op;
  std::vector<const Shape*> types;
  std::vector<Attr> attrs;
};

/// Twice, so that the second one is known; the result types and hash are those of inference.
void ExpectInferred(const Call& call) {
  std::vector<Shape> types = InferShapes(call.op, call.types, call.attrs);
  std::vector<Node::Operand> operands(call.types.size());
  Hash128 hash = Node::Make(call.op, {}, call.attrs, types, kNoDevice, 0)->hash();
  for (int i = 0; i < 2; ++i) {
    NodePtr node = MakeInferredNode(call.op, operands, call.types, call.attrs, kNoDevice, 7);
    ASSERT_EQ(node->num_outputs(), static_cast<int>(types.size()));
    for (int k = 0; k < node->num_outputs(); ++k) {
      EXPECT_EQ(node->shape(k), types[k]) << call.op.name();
    }
    EXPECT_TRUE(std::ranges::equal(node->attrs(), call.attrs)) << call.op.name();
    EXPECT_EQ(node->hash(), hash) << call.op.name();
    EXPECT_EQ(node->location(), 7u);
  }
}

TEST(KnownCalls, TellCallsApart) {
  const Shape half(DType::kF16, {4, 6}), flat(DType::kF32, {24}), one(DType::kF32, {});
  const std::vector<Call> calls = {
      {ops::kReduceSum, {&kMatrix}, {Dims{0}, false}},
      {ops::kReduceSum, {&kMatrix}, {Dims{1}, false}},
      {ops::kReduceSum, {&kMatrix}, {Dims{1}, true}},
      {ops::kReduceSum, {&half}, {Dims{1}, true}},
      {ops::kReduceMax, {&half}, {Dims{1}, true}},
      {ops::kSlice, {&kMatrix}, {0, 1, 2, 1}},
      {ops::kSlice, {&kMatrix}, {1, 1, 2, 1}},
      {ops::kReshape, {&kMatrix}, {Dims{24}}},
      {ops::kReshape, {&kMatrix}, {Dims{6, 4}}},
      {ops::kReshape, {&flat}, {Dims{6, 4}}},
      {ops::kCast, {&kMatrix}, {DType::kF16}},
      {ops::kCast, {&kMatrix}, {DType::kBF16}},
      {ops::kAdd, {&kMatrix, &one}, {}},
      {ops::kAdd, {&one, &kMatrix}, {}},
      {ops::kAdd, {&kMatrix, &kMatrix}, {}},
  };
  for (int round = 0; round < 2; ++round) {
    for (const Call& call : calls) ExpectInferred(call);
  }
}

// They are recorded without looking them up.
TEST(KnownCalls, CastsHaveTheirInferredTypeAndHash) {
  Tensor x = zeros({4, 6}, f32, "reference");
  for (DType dtype : {f16, i32, boolean}) {
    Value cast = ApplyCast(Location::current(), x, dtype).value();
    const Attr attr(dtype);
    const Shape type = kMatrix.With(dtype);
    NodePtr node = Node::Make(ops::kCast, {}, std::span(&attr, 1), std::span(&type, 1), 0, 0);
    EXPECT_EQ(cast.shape(), type);
    EXPECT_EQ(cast.node->hash(), node->hash());
    EXPECT_TRUE(std::ranges::equal(cast.node->attrs(), node->attrs()));
  }
}

TEST(KnownCalls, ACallThatIsRefusedIsRefusedAgain) {
  const Node::Operand operand{};
  const Shape* type = &kMatrix;
  const std::vector<Attr> attrs = {Dims{25}};
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(MakeInferredNode(ops::kReshape, std::span(&operand, 1), std::span(&type, 1), attrs,
                                  kNoDevice, 0),
                 ValueError);
  }
}

// What is remembered of calls holds no graphs.
TEST(KnownCalls, LetGoOfGraphs) {
  auto body = std::make_shared<Graph>();
  body->SetOutputs({body->AddInput(kMatrix)});
  std::weak_ptr<Graph> weak = body;
  {
    const Attr attr{std::shared_ptr<const Graph>(std::move(body))};
    const Node::Operand operand{};
    const Shape* type = &kMatrix;
    MakeInferredNode(op_registry::Get("call"), std::span(&operand, 1), std::span(&type, 1),
                     std::span(&attr, 1), kNoDevice, 0);
  }
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace hammock
