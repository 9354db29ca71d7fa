// Which kernels of a CUDA graph are given other words, with a driver that only counts.
#include "backends/cuda/driver/gpu_recording.h"

#include <gtest/gtest.h>

namespace hammock::cuda {
namespace {

struct Asked {
  int changes = 0;
  uint64_t last_word = 0;
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
    asked.last_word = static_cast<const uint64_t*>(kernel->parameters[0])[1];
    return 0;
  };
  return driver;
}

class GpuRecordings : public testing::Test {
 protected:
  /// Two kernels, and a product between them.
  std::vector<GpuRecording::Op> Ops() {
    return {{&functions_[0], {}, {1, 2}, Node(1), nullptr},
            {&product_, {}, {5, 6}, nullptr, nullptr},
            {&functions_[1], {}, {3, 4}, Node(2), nullptr}};
  }
  CUgraphNode Node(int i) { return reinterpret_cast<CUgraphNode>(&nodes_[i]); }
  /// The same with other words; whether the recording has them then.
  bool Change(GpuRecording& recording, uint64_t of_kernel, uint64_t of_product) {
    if (!recording.StartComparing(pieces_)) return false;
    recording.CompareLaunch(functions_[0], {}, std::vector<uint64_t>{1, 2});
    recording.CompareCall(&product_, std::vector<uint64_t>{5, of_product});
    recording.CompareLaunch(functions_[1], {}, std::vector<uint64_t>{3, of_kernel});
    return recording.EndComparing();
  }

  Driver driver_ = CountingDriver();
  Function functions_[2];
  char nodes_[3];
  int product_ = 0;
  std::vector<Piece> pieces_ = {{nullptr, {}}, {nullptr, {0}}};
};

TEST_F(GpuRecordings, OnlyKernelsWithOtherWordsAreChanged) {
  GpuRecording recording(driver_, nullptr, Ops(), pieces_);
  EXPECT_TRUE(Change(recording, 4, 6));
  EXPECT_EQ(asked.changes, 0);
  EXPECT_TRUE(Change(recording, 9, 6));
  EXPECT_EQ(asked.changes, 1);
  EXPECT_EQ(asked.node, Node(2));
  EXPECT_EQ(asked.last_word, 9u);
  EXPECT_TRUE(Change(recording, 9, 6));
  EXPECT_EQ(asked.changes, 1);
}

TEST_F(GpuRecordings, ProductsCannotBeChangedAlone) {
  GpuRecording recording(driver_, nullptr, Ops(), pieces_);
  EXPECT_FALSE(Change(recording, 4, 7));
  EXPECT_TRUE(recording.BecomeLike(nullptr, Ops()));
  EXPECT_TRUE(Change(recording, 4, 6));
  // Nobody knows now which node is which.
  EXPECT_FALSE(Change(recording, 8, 6));
  EXPECT_EQ(asked.changes, 0);
}

TEST_F(GpuRecordings, OtherPartsOrAnotherOrderAreAnotherRecording) {
  GpuRecording recording(driver_, nullptr, Ops(), pieces_);
  recording.StartComparing(pieces_);
  recording.CompareLaunch(functions_[0], {}, std::vector<uint64_t>{1, 2});
  EXPECT_FALSE(recording.EndComparing());  // something is missing
  recording.StartComparing(pieces_);
  recording.CompareLaunch(functions_[1], {}, std::vector<uint64_t>{1, 2});
  EXPECT_FALSE(recording.EndComparing());
  pieces_[1].after.clear();
  EXPECT_FALSE(Change(recording, 4, 6));
  asked.update = 910;
  EXPECT_FALSE(recording.BecomeLike(nullptr, Ops()));
}

}  // namespace
}  // namespace hammock::cuda
