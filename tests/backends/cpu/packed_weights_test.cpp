#include "backends/cpu/packed_weights.h"

#include <gtest/gtest.h>

#include <random>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/matmul/matmul.h"
#include "hammock/hammock.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/metrics.h"

namespace hammock::cpu {
namespace {

const Device kCpu("cpu");

Tensor Values(const Dims& sizes, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = number(random);
  Tensor result = tensor(values, sizes).to(kCpu) + 0.0;  // memory of the backend's own
  result.host();
  return result;
}

int64_t Packed() { return metrics::CounterValue("cpu::WeightsPacked").value_or(0); }
int64_t Derived() { return GetMemoryInfo(kCpu).derived; }

/// Skipped where matmuls have no packed weights.
class PackedWeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ConvolutionSpec spec = ConvolutionSpec::Of(Shape(f32, {1, 16, 8, 8}), Shape(f32, {4, 16, 3, 3}),
                                               {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
    if (Convolution(spec).packed_bytes() == 0) GTEST_SKIP() << "no library that packs weights";
    before_ = Packed();
  }
  int64_t made() const { return Packed() - before_; }

  Tensor image_ = Values({2, 16, 8, 8}, 1);
  Tensor weight_ = Values({16, 16, 3, 3}, 2);

 private:
  int64_t before_ = 0;
};

TEST_F(PackedWeightsTest, AreMadeAtTheSecondRunAndKept) {
  int64_t derived = Derived();
  HostTensor first = relu(conv2d(image_, weight_)).host();
  EXPECT_EQ(made(), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(relu(conv2d(image_, weight_)).host().SameBits(first));
    EXPECT_EQ(made(), 1);
  }
  EXPECT_GE(Derived() - derived, weight_.shape().bytes());
  // Another batch, another program: the same packed weight.
  Tensor one = Values({1, 16, 8, 8}, 1);
  for (int i = 0; i < 3; ++i) conv2d(one, weight_).host();
  EXPECT_EQ(made(), 1);
  weight_ = Tensor();
  EXPECT_EQ(Derived(), derived);
}

TEST_F(PackedWeightsTest, OfMatmulsHaveTheBitsOfTheWeight) {
  // Rows that are a page apart are packed before the matmul.
  Tensor x = Values({256, 64}, 1), w = Values({64, 1024}, 2);
  HostTensor first = mm(x, w).host();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((mm(x, w)).host().SameBits(first));
  EXPECT_EQ(made(), 1);
}

// As autocast casts the weights of every step.
TEST_F(PackedWeightsTest, OfCastsAreMadeFromTheWeightItself) {
  auto image = [&] { return relu(conv2d(image_.to(bf16), weight_.to(bf16))).host(); };
  const HostTensor first_image = image();
  EXPECT_EQ(made(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(image().SameBits(first_image)) << i;
  EXPECT_EQ(made(), 1);
  // The cast itself is a result as well: it is computed although nobody reads it as a weight.
  for (int i = 0; i < 3; ++i) {
    Tensor cast = weight_.to(bf16);
    Tensor both[] = {conv2d(image_.to(bf16), cast), cast};
    LazyGraphExecutor::Get()->SyncTensorsGraph(both);
    EXPECT_TRUE(relu(both[0]).host().SameBits(first_image)) << i;
    EXPECT_TRUE(cast.host().SameBits(weight_.host().To(bf16))) << i;
  }
}

TEST_F(PackedWeightsTest, AWeightThatChangesIsReadAnew) {
  for (int i = 0; i < 3; ++i) conv2d(image_, weight_).host();
  HostTensor before = conv2d(image_, weight_).host();
  weight_.mul_(2.0);
  for (int i = 0; i < 3; ++i) {
    HostTensor doubled = (conv2d(image_, weight_) * 0.5).host();
    EXPECT_TRUE(doubled.SameBits(before)) << i;
  }
}

TEST_F(PackedWeightsTest, AStepThatWritesItsWeightsPacksNone) {
  for (int i = 0; i < 4; ++i) {
    Tensor y = conv2d(image_, weight_);
    weight_.sub_(mean(y) * 0.001);
    Tensor both[] = {y, weight_};
    LazyGraphExecutor::Get()->SyncTensorsGraph(both);
  }
  EXPECT_EQ(made(), 0);
}

TEST_F(PackedWeightsTest, AreDroppedAndMadeAgain) {
  HostTensor first = conv2d(image_, weight_).host();
  for (int i = 0; i < 2; ++i) conv2d(image_, weight_).host();
  EXPECT_EQ(made(), 1);
  EXPECT_GT(lazy::DropDerivedData(CpuBackend()->GetBackendDevices()[0]), 0);
  EXPECT_EQ(Derived(), 0);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(conv2d(image_, weight_).host().SameBits(first));
  EXPECT_EQ(made(), 2);
}

TEST_F(PackedWeightsTest, AreNotMadeWhereMemoryIsShort) {
  Tensor image = Values({1, 512, 6, 6}, 1), weight = Values({512, 512, 3, 3}, 2);
  HostTensor first = conv2d(image, weight).host();
  SetMemoryLimit(kCpu, GetMemoryInfo(kCpu).peak + 4096);  // as much as that run took
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(conv2d(image, weight).host().SameBits(first));
  SetMemoryLimit(kCpu, 0);
  EXPECT_EQ(made(), 0);
}

}  // namespace
}  // namespace hammock::cpu
