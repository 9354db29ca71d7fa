#include "backends/cuda/passes/attention_views.h"

#include <gtest/gtest.h>

#include "compiler/passes/remove_dead.h"

namespace hammock::cuda {
namespace {

/// Operands are read where a projection left them, and the result lies as its user wants it.
TEST(FoldAttentionViews, ReadsPartsOfAProjection) {
  Graph graph = ParseGraph(R"(
    %0 = input : bf16[2,20,96]
    %1 = reshape %0 {sizes=[2,20,3,2,16]} : bf16[2,20,3,2,16]
    %2 = permute %1 {dims=[2,0,3,1,4]} : bf16[3,2,2,20,16]
    %3 = slice %2 {dim=0, start=0, size=1, step=1} : bf16[1,2,2,20,16]
    %4 = reshape %3 {sizes=[2,2,20,16]} : bf16[2,2,20,16]
    %5 = slice %2 {dim=0, start=2, size=1, step=1} : bf16[1,2,2,20,16]
    %6 = reshape %5 {sizes=[2,2,20,16]} : bf16[2,2,20,16]
    %7 = input : bf16[2,2,20,16]
    %8:2 = _attention %4, %7, %6, none {is_causal=false, scale=0.25} : bf16[2,2,20,16], f32[2,2,20]
    %9 = permute %8.0 {dims=[0,2,1,3]} : bf16[2,20,2,16]
    %10 = reshape %9 {sizes=[2,20,32]} : bf16[2,20,32]
    return %10)");
  Graph out = RemoveDead(FoldAttentionViews(graph));
  ASSERT_EQ(out.size(), 4);
  const GraphNode& node = out[NodeId(2)];
  EXPECT_EQ(node.inputs[0], (GraphValue{NodeId(0), 0}));
  EXPECT_EQ(node.inputs[1], (GraphValue{NodeId(1), 0}));
  EXPECT_EQ(node.inputs[2], (GraphValue{NodeId(0), 0}));
  EXPECT_EQ(node.types[0].sizes(), (Dims{2, 20, 2, 16}));
  auto rows = [&](size_t which) {
    RowLayout layout = LayoutOf(node, which);
    return Dims{layout.offset, layout.outer, layout.inner, layout.row};
  };
  EXPECT_EQ(rows(0), (Dims{0, 20 * 96, 16, 96}));
  EXPECT_EQ(rows(1), (Dims{0, 2 * 20 * 16, 20 * 16, 16}));
  EXPECT_EQ(rows(2), (Dims{64, 20 * 96, 16, 96}));
  EXPECT_EQ(rows(3), (Dims{0, 20 * 32, 16, 32}));
}

TEST(PackAttentionGradients, GradientsOfPartsAreWrittenSideBySide) {
  EXPECT_EQ(ToText(RemoveDead(PackAttentionGradients(RemoveDead(FoldAttentionViews(ParseGraph(R"(
    %0 = input : bf16[2,20,2,16]
    %1 = permute %0 {dims=[0,2,1,3]} : bf16[2,2,20,16]
    %2 = input : f32[2,2,20]
    %3:3 = _attention_backward %1, %1, %1, %1, none, %2, %2 {is_causal=true, scale=0.25} : bf16[2,2,20,16], bf16[2,2,20,16], bf16[2,2,20,16]
    %4 = permute %3.0 {dims=[0,2,1,3]} : bf16[2,20,2,16]
    %5 = permute %3.1 {dims=[0,2,1,3]} : bf16[2,20,2,16]
    %6 = permute %3.2 {dims=[0,2,1,3]} : bf16[2,20,2,16]
    %7 = constant {value=0.0:f32, dtype=bf16} : bf16[]
    %8 = broadcast %7 {sizes=[2,20,2,16]} : bf16[2,20,2,16]
    %9 = add %4, %8 : bf16[2,20,2,16]
    %10 = add %5, %8 : bf16[2,20,2,16]
    %11 = add %6, %8 : bf16[2,20,2,16]
    %12 = concat %9, %10, %11 {dim=2} : bf16[2,20,6,16]
    return %12)")))))),
            R"(%0 = input : bf16[2,20,2,16]
%1 = input : f32[2,2,20]
%2 = _attention_packed_backward %0, %0, %0, %0, none, %1, %1 {is_causal=true, scale=0.25, sizes=[2,2,20,20,16], strides=[0,0,0,0,0,0,640,16,32,0,640,16,32,0,640,16,32,0,640,16,32,0,1920,16,96,32,1920,16,96,64,1920,16,96], bshd=true} : bf16[2,20,3,2,16]
%3 = reshape %2 {sizes=[2,20,6,16]} : bf16[2,20,6,16]
return %3
)");
}

}  // namespace
}  // namespace hammock::cuda
