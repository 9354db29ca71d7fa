#include "compiler/loops/cost.h"

#include <gtest/gtest.h>

#include "hammock/compiler/describe_schedule.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "hammock/tensor.h"

namespace hammock::compiler {
namespace {

void InferLikeFirst(const InferCall& call) { call.out = {*call.in[0]}; }

constinit const OpDef kCounted = {
    .schema = "cost_test::counted(Tensor self, int passes) -> Tensor",
    .infer = InferLikeFirst,
    .flops = [](const CostCall& c) { return 3 * c.attrs[0].integer() * c.out[0].numel(); },
    .bytes = [](const CostCall& c) { return c.attrs[0].integer() * c.in[0]->bytes(); },
};
constinit const OpDef kUncounted = {
    .schema = "cost_test::uncounted(Tensor self, Tensor? other) -> (Tensor, Tensor)",
    .infer =
        [](const InferCall& call) {
          call.out = {*call.in[0], *call.in[0]};
        },
    .num_outputs = 2,
};
constinit const OpDef kComposite = {
    .schema = "cost_test::composite(Tensor self) -> Tensor",
    .infer = InferLikeFirst,
    .expand =
        [](const ExpandCall& c) {
          Tensor counted = Apply(kCounted, Location(), {c.in[0]}, {int64_t{2}});
          return std::vector<Tensor>{exp(counted) + c.in[0]};
        },
};
const OpRegistrar counted(kCounted), uncounted(kUncounted), composite(kComposite);

/// Of the last node.
int64_t Flops(const std::string& text) {
  Graph graph = ParseGraph(text);
  return FlopsOf(graph, NodeId(graph.size() - 1));
}
int64_t Bytes(const std::string& text) {
  Graph graph = ParseGraph(text);
  return BytesOf(graph, NodeId(graph.size() - 1));
}
lazy::KernelInfo OnlyCommand(const std::string& text) {
  Graph graph = ParseGraph(text);
  std::vector<lazy::KernelInfo> commands = DescribeCommands(graph, MakeSchedule(graph));
  EXPECT_EQ(commands.size(), 1u);
  return commands.at(0);
}

TEST(Cost, OfElementwiseOpsIsThatOfTheScalarFunction) {
  EXPECT_EQ(Flops("%0 = input : f32[3,4]\n%1 = exp %0 : f32[3,4]\nreturn %1"),
            12 * InfoOf(ScalarFn::kExp).cost);
  EXPECT_EQ(Flops("%0 = input : f32[3,4]\n%1 = input : f32[4]\n%2 = add %0, %1 : f32[3,4]\n"
                  "return %2"),
            12);
  EXPECT_EQ(Flops("%0 = input : f32[3,4]\n%1 = permute %0 {dims=[1,0]} : f32[4,3]\nreturn %1"), 0);
}

TEST(Cost, OfAKernelIsThatOfItsNodes) {
  EXPECT_EQ(OnlyCommand(R"(
    %0 = input : f32[3,4]
    %1 = exp %0 : f32[3,4]
    %2 = reduce_sum %1 {dims=[1], keepdim=false} : f32[3]
    return %2)")
                .flops,
            12 * InfoOf(ScalarFn::kExp).cost + 12);
}

TEST(Cost, OfReductionsIsOneForEachElement) {
  EXPECT_EQ(Flops("%0 = input : f32[3,4]\n%1 = reduce_max %0 {dims=[0,1], keepdim=false} : f32[]\n"
                  "return %1"),
            12);
  EXPECT_EQ(Flops("%0 = input : f32[2,7]\n%1 = reduce_window %0 {kind=\"sum\", window=[3], "
                  "stride=[2], low=[0], high=[0], dilation=[1]} : f32[2,3]\nreturn %1"),
            2 * 3 * 3);
}

TEST(Cost, OfFactorsIsThatOfTheUsualAlgorithms) {
  auto of = [](const std::string& node) {
    return Flops("%0 = input : f32[2,6,6]\n%1 = input : f32[9,3]\n%2 = input : c64[6,6]\n" + node);
  };
  EXPECT_EQ(of("%3 = linalg_cholesky %0 {upper=false} : f32[2,6,6]\nreturn %3"), 2 * 216 / 3);
  EXPECT_EQ(of("%3 = linalg_cholesky %2 {upper=false} : c64[6,6]\nreturn %3"), 4 * 216 / 3);
  EXPECT_EQ(of("%3:3 = lu_decompose %0 {op=\"\"} : f32[2,6,6], i32[2,6], i64[2,6]\nreturn %3.0"),
            2 * 2 * 216 / 3);
  EXPECT_EQ(of("%3:2 = linalg_qr %0 {mode=\"reduced\"} : f32[2,6,6], f32[2,6,6]\nreturn %3.0"),
            2 * 8 * 216 / 3);
  EXPECT_EQ(of("%3:2 = linalg_qr %1 {mode=\"reduced\"} : f32[9,3], f32[3,3]\nreturn %3.0"),
            4 * (9 * 9 - 27 / 3));
  EXPECT_EQ(of("%3:2 = linalg_eigh %0 {UPLO=\"L\"} : f32[2,6], f32[2,6,6]\nreturn %3.0"),
            2 * 9 * 216);
  EXPECT_EQ(of("%3:2 = linalg_eig %0 : c64[2,6], c64[2,6,6]\nreturn %3.0"), 2 * 25 * 216);
  EXPECT_EQ(of("%3:3 = linalg_svd %1 {full_matrices=false} : f32[9,3], f32[3], f32[3,3]\n"
               "return %3.0"),
            6 * 81 + 20 * 27);
  EXPECT_EQ(of("%3:3 = linalg_svd %1 {full_matrices=true} : f32[9,9], f32[3], f32[3,3]\n"
               "return %3.0"),
            4 * 243 + 22 * 27);
  EXPECT_EQ(Flops("%0 = input : f32[3,3]\n%1 = input : f32[3,5]\n%2 = solve_triangular %0, %1 "
                  "{upper=true, transpose=false, unitriangular=false} : f32[3,5]\nreturn %2"),
            3 * 3 * 5);
}

TEST(Cost, OfACompositeIsThatOfItsExpansion) {
  EXPECT_EQ(Flops(R"(
    %0 = input : f32[3,4]
    %1 = input : f32[4,5]
    %2 = input : f32[5]
    %3 = _dot_general_fused %0, %1, %2 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[], dtype=f32, relu=true} : f32[3,5]
    return %3)"),
            2 * 4 * 15 + 15 + 15);
  EXPECT_GE(Flops(R"(
    %0 = input : f32[2,8,16]
    %1:2 = _attention %0, %0, %0, none {is_causal=false, scale=0.25} : f32[2,8,16], f32[2,8]
    return %1.0)"),
            2 * (2 * 2 * 8 * 8 * 16));
}

TEST(Cost, OfOpsOutOfTreeIsInTheirRecords) {
  const std::string counted =
      "%0 = input : f32[6]\n%1 = cost_test::counted %0 {passes=5} : f32[6]\nreturn %1";
  EXPECT_EQ(Flops(counted), 3 * 5 * 6);
  EXPECT_EQ(Bytes(counted), 5 * 24);
  EXPECT_EQ(OnlyCommand(counted).flops, 3 * 5 * 6);
  EXPECT_EQ(OnlyCommand(counted).bytes, 5 * 24);
  EXPECT_EQ(Flops("%0 = input : f32[6]\n%1 = cost_test::composite %0 : f32[6]\nreturn %1"),
            3 * 2 * 6 + 6 * InfoOf(ScalarFn::kExp).cost + 6);
}

TEST(Cost, WithoutARecordIsAllBytesAndNoFlops) {
  const std::string text =
      "%0 = input : f32[6]\n%1:2 = cost_test::uncounted %0, none : f32[6], f32[6]\nreturn %1.0";
  EXPECT_EQ(Flops(text), 0);
  EXPECT_EQ(Bytes(text), 3 * 24);
}

TEST(Cost, OfASelectionIsThatOfTheSelected) {
  const std::string text =
      "%0 = input : f32[1000,4]\n%1 = input : i64[3]\n"
      "%2 = index_select %0, %1 {dim=0} : f32[3,4]\nreturn %2";
  EXPECT_EQ(Bytes(text), 2 * 3 * 4 * 4 + 3 * 8);
  EXPECT_EQ(OnlyCommand(text).bytes, 2 * 3 * 4 * 4 + 3 * 8);
}

}  // namespace
}  // namespace hammock::compiler
