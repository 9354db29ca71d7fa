// Which kernels of a CUDA graph are given other arguments, with a driver that only counts.
#include "backends/cuda/driver/gpu_graph.h"

#include <gtest/gtest.h>

namespace hammock::cuda {
namespace {

struct Asked {
  int changes = 0;
  uint64_t last_argument = 0;
  CUgraphNode node = nullptr;
  CUresult update = 0;
};
Asked asked;

Driver CountingDriver() {
  asked = {};
  Driver driver = {};
  driver.graph_instantiate = [](CUgraphExec*, CUgraph, unsigned long long) { return 0; };
  driver.graph_exec_destroy = [](CUgraphExec) { return 0; };
  driver.graph_destroy = [](CUgraph) { return 0; };
  driver.graph_update = [](CUgraphExec, CUgraph, CUgraphUpdate*) { return asked.update; };
  driver.graph_set_kernel = [](CUgraphExec, CUgraphNode node, const CUkernelNode* kernel) {
    ++asked.changes;
    asked.node = node;
    asked.last_argument = static_cast<const uint64_t*>(kernel->parameters[0])[1];
    return 0;
  };
  return driver;
}

class GpuGraphs : public testing::Test {
 protected:
  /// Two kernels, and a matmul between them.
  std::vector<GpuGraph::Op> Ops() {
    return {{&functions_[0], {}, {1, 2}, Node(1), nullptr},
            {&matmul_, {}, {5, 6}, nullptr, nullptr},
            {&functions_[1], {}, {3, 4}, Node(2), nullptr}};
  }
  CUgraphNode Node(int i) { return reinterpret_cast<CUgraphNode>(&nodes_[i]); }
  /// The same with other arguments; whether the graph has them then.
  bool Change(GpuGraph& graph, uint64_t of_kernel, uint64_t of_matmul) {
    if (!graph.StartComparing(pieces_)) return false;
    graph.CompareLaunch(functions_[0], {}, std::vector<uint64_t>{1, 2});
    graph.CompareCall(&matmul_, std::vector<uint64_t>{5, of_matmul});
    graph.CompareLaunch(functions_[1], {}, std::vector<uint64_t>{3, of_kernel});
    return graph.EndComparing();
  }

  Driver driver_ = CountingDriver();
  Function functions_[2];
  char nodes_[3];
  int matmul_ = 0;
  std::vector<Piece> pieces_ = {{nullptr, {}}, {nullptr, {0}}};
};

TEST_F(GpuGraphs, OnlyKernelsWithOtherArgumentsAreChanged) {
  GpuGraph graph(driver_, nullptr, Ops(), pieces_);
  EXPECT_TRUE(Change(graph, 4, 6));
  EXPECT_EQ(asked.changes, 0);
  EXPECT_TRUE(Change(graph, 9, 6));
  EXPECT_EQ(asked.changes, 1);
  EXPECT_EQ(asked.node, Node(2));
  EXPECT_EQ(asked.last_argument, 9u);
  EXPECT_TRUE(Change(graph, 9, 6));
  EXPECT_EQ(asked.changes, 1);
}

TEST_F(GpuGraphs, LibraryCallsCannotBeChangedAlone) {
  GpuGraph graph(driver_, nullptr, Ops(), pieces_);
  EXPECT_FALSE(Change(graph, 4, 7));
  EXPECT_TRUE(graph.BecomeLike(nullptr, Ops()));
  EXPECT_TRUE(Change(graph, 4, 6));
  // Nobody knows now which node is which.
  EXPECT_FALSE(Change(graph, 8, 6));
  EXPECT_EQ(asked.changes, 0);
}

TEST_F(GpuGraphs, OtherPartsOrAnotherOrderAreAnotherGraph) {
  GpuGraph graph(driver_, nullptr, Ops(), pieces_);
  graph.StartComparing(pieces_);
  graph.CompareLaunch(functions_[0], {}, std::vector<uint64_t>{1, 2});
  EXPECT_FALSE(graph.EndComparing());  // something is missing
  graph.StartComparing(pieces_);
  graph.CompareLaunch(functions_[1], {}, std::vector<uint64_t>{1, 2});
  EXPECT_FALSE(graph.EndComparing());
  pieces_[1].after.clear();
  EXPECT_FALSE(Change(graph, 4, 6));
  asked.update = 910;
  EXPECT_FALSE(graph.BecomeLike(nullptr, Ops()));
}

}  // namespace
}  // namespace hammock::cuda
