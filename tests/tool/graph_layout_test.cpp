#include "graph_layout.h"

#include <gtest/gtest.h>

#include <random>

namespace hammock::tool {
namespace {

/// A graph as a compiler makes them: kernels depend on earlier kernels only.
std::vector<LayoutNode> RandomNodes(int count, int kernels, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<LayoutNode> nodes;
  for (int i = 0; i < count; ++i) {
    LayoutNode node;
    node.width = 40 + static_cast<double>(engine() % 80);
    node.height = 40;
    bool leaf = i == 0 || engine() % 5 == 0;
    node.kernel = leaf ? -1 : i * kernels / count;
    for (int k = 0; !leaf && k < 2; ++k) {
      node.inputs.push_back(static_cast<int>(engine() % static_cast<uint64_t>(i)));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

bool Overlap(const LayoutBox& a, const LayoutBox& b) {
  constexpr double kRounding = 1e-6;
  return a.x + a.width > b.x + kRounding && b.x + b.width > a.x + kRounding &&
         a.y + a.height > b.y + kRounding && b.y + b.height > a.y + kRounding;
}

LayoutBox BoxOf(const LayoutNode& node) { return {node.x, node.y, node.width, node.height}; }

TEST(GraphLayout, PutsUsersBelowAndLetsNothingOverlap) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<LayoutNode> nodes = RandomNodes(120, 9, seed);
    Layout layout = LayOut(nodes, 9);
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (int input : nodes[i].inputs) {
        const LayoutNode& before = nodes[input];
        EXPECT_GE(nodes[i].y, before.y + before.height) << "seed " << seed << " node " << i;
      }
      for (size_t k = 0; k < i; ++k) {
        EXPECT_FALSE(Overlap(BoxOf(nodes[i]), BoxOf(nodes[k]))) << "seed " << seed;
      }
      for (size_t k = 0; k < layout.kernels.size(); ++k) {
        bool own = nodes[i].kernel == static_cast<int>(k);
        const LayoutBox& box = layout.kernels[k];
        EXPECT_EQ(Overlap(BoxOf(nodes[i]), box), own) << "seed " << seed << " node " << i;
        if (!own) continue;
        EXPECT_GE(nodes[i].x, box.x);
        EXPECT_LE(nodes[i].x + nodes[i].width, box.x + box.width);
        EXPECT_LE(nodes[i].y + nodes[i].height, box.y + box.height);
      }
      EXPECT_GE(nodes[i].x, 0);
      EXPECT_LE(nodes[i].x + nodes[i].width, layout.width + 1e-6);
      EXPECT_LE(nodes[i].y + nodes[i].height, layout.height + 1e-6);
    }
  }
}

TEST(GraphLayout, TakesEdgeCases) {
  std::vector<LayoutNode> none;
  EXPECT_EQ(LayOut(none, 2).kernels.size(), 2u);
  std::vector<LayoutNode> one(1);
  one[0].width = one[0].height = 10;
  EXPECT_EQ(LayOut(one, 0).width, 10);
}

TEST(GraphLayout, IsQuickForManyNodes) {
  std::vector<LayoutNode> nodes = RandomNodes(20000, 2000, 1);
  Layout layout = LayOut(nodes, 2000);
  EXPECT_GT(layout.height, 1000);
}

}  // namespace
}  // namespace hammock::tool
