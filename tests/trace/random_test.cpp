// Random numbers are fixed when traced: reading order, step placement and replays do not change
// what a seed gives, and no seed compiles anything.

#include <gtest/gtest.h>

#include <algorithm>

#include "hammock/config.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Random : public Runtime {};

Tensor Coins() { return bernoulli(full({32}, 0.5, f32, "reference")); }

// Upstream: z != 2 * y, since each read draws anew.
TEST_F(Random, ReadsAgreeInEitherOrder) {
  for (bool z_first : {true, false}) {
    manual_seed(11);
    Tensor y = Coins();
    Tensor z = 2.0f * y;
    auto first = (z_first ? z : y).to_vector<float>();
    auto second = (z_first ? y : z).to_vector<float>();
    const auto& ys = z_first ? second : first;
    const auto& zs = z_first ? first : second;
    for (size_t i = 0; i < ys.size(); ++i) EXPECT_EQ(zs[i], 2 * ys[i]) << i;
    EXPECT_EQ(y.to_vector<float>(), ys) << "and again";
  }
}

TEST_F(Random, TheSeedDecidesNotTheReads) {
  auto draw = [](int order) {
    manual_seed(42);
    Tensor a = rand({5}, f32, "reference");
    if (order == 1) a.host();
    Tensor b = randn({5}, f32, "reference");
    if (order == 2) mark_step();
    Tensor c = randint(100, {5}, i64, "reference");
    if (order == 3) {
      c.host();
      b.host();
    }
    return std::vector<HostTensor>{a.host(), b.host(), c.host()};
  };
  auto expected = draw(0);
  for (int order = 1; order <= 3; ++order) {
    auto values = draw(order);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(values[i].SameBits(expected[i])) << "order " << order << ", value " << i;
    }
  }
}

TEST_F(Random, EagerModeGivesTheSame) {
  auto program = [] {
    manual_seed(7);
    Tensor x = rand({6}, f32, "reference");
    normal_(x, 1.0, 2.0);
    Tensor y = x + bernoulli(full({6}, 0.3, f32, "reference"));
    Tensor p = randperm(6, i64, "reference");
    return std::vector<HostTensor>{y.host(), x.host(), p.host()};
  };
  auto lazily = program();
  EagerMode eager;
  auto eagerly = program();
  for (size_t i = 0; i < lazily.size(); ++i) EXPECT_TRUE(lazily[i].SameBits(eagerly[i])) << i;
}

TEST_F(Random, SeedsDifferAndRepeat) {
  manual_seed(1);
  auto a = rand({8}, f32, "reference").to_vector<float>();
  auto next = rand({8}, f32, "reference").to_vector<float>();
  manual_seed(2);
  auto b = rand({8}, f32, "reference").to_vector<float>();
  manual_seed(1);
  auto again = rand({8}, f32, "reference").to_vector<float>();
  EXPECT_EQ(a, again);
  EXPECT_NE(a, next);
  EXPECT_NE(a, b);
}

TEST_F(Random, LargeSeedsAreTakenWhole) {
  std::vector<std::vector<float>> all;
  for (uint64_t seed : {uint64_t{5}, uint64_t{5} + (uint64_t{1} << 32), ~uint64_t{0}}) {
    manual_seed(seed);
    all.push_back(rand({8}, f32, "reference").to_vector<float>());
  }
  EXPECT_NE(all[0], all[1]);
  EXPECT_NE(all[1], all[2]);
}

TEST_F(Random, ManualSeedBeforeEachOpTakesEffect) {
  manual_seed(3);
  Tensor a = rand({4}, f32, "reference");
  manual_seed(3);
  Tensor b = rand({4}, f32, "reference");
  manual_seed(4);
  Tensor c = rand({4}, f32, "reference");
  mark_step();
  EXPECT_TENSOR_EQ(a, b);
  EXPECT_NE(a.to_vector<float>(), c.to_vector<float>());
}

TEST_F(Random, GeneratorsAreStreamsOfTheirOwn) {
  Generator own(9);
  manual_seed(9);
  Tensor a = rand({4}, f32, "reference", own);
  Tensor b = rand({4}, f32, "reference");
  EXPECT_TENSOR_EQ(a, b);
  EXPECT_GT(own.offset(), 0u);
  EXPECT_EQ(own.seed(), 9u);
  uint64_t offset = own.offset();
  Tensor c = rand({4}, f32, "reference", own);
  own.set_offset(offset);
  Tensor d = rand({4}, f32, "reference", own);
  EXPECT_TENSOR_EQ(c, d);
  EXPECT_NE(a.to_vector<float>(), c.to_vector<float>());
  Generator copy = own;  // shares the stream
  copy.manual_seed(9);
  EXPECT_EQ(own.offset(), 0u);
  EXPECT_TENSOR_EQ(rand({4}, f32, "reference", own), a);
}

TEST_F(Random, DrawsDoNotOverlap) {
  manual_seed(0);
  std::vector<float> all;
  for (int64_t size : {1, 3, 4, 5, 7, 64}) {
    auto values = rand({size}, f32, "reference").to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST_F(Random, ValuesLieWhereTheyShould) {
  manual_seed(123);
  for (float v : rand({1000}, f32, "reference").to_vector<float>()) {
    EXPECT_GE(v, 0);
    EXPECT_LT(v, 1);
  }
  for (int64_t v : randint(-3, 4, {1000}, i64, "reference").to_vector<int64_t>()) {
    EXPECT_GE(v, -3);
    EXPECT_LT(v, 4);
  }
  auto order = randperm(100, i64, "reference").to_vector<int64_t>();
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  auto normals = randn({4000}, f64, "reference").to_vector<double>();
  double mean = 0, square = 0;
  for (double v : normals) {
    mean += v / 4000;
    square += v * v / 4000;
  }
  EXPECT_NEAR(mean, 0, 0.08);
  EXPECT_NEAR(square, 1, 0.1);
}

TEST_F(Random, ReplaysDrawFreshNumbers) {
  CompiledGraph graph = extract_compiled_graph(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0] + rand({4}, f32, "reference")};
      },
      {OnDevice({0, 0, 0, 0})});
  Tensor zero = OnDevice({0, 0, 0, 0});
  manual_seed(77);
  auto first = graph({zero})[0].to_vector<float>();
  auto second = graph({zero})[0].to_vector<float>();
  EXPECT_NE(first, second);
  manual_seed(77);
  EXPECT_EQ(graph({zero})[0].to_vector<float>(), first);
  EXPECT_EQ(graph({zero})[0].to_vector<float>(), second);
  manual_seed(77);
  EXPECT_EQ(rand({4}, f32, "reference").to_vector<float>(), first) << "as without a capture";
}

TEST_F(Random, InPlaceDrawsWriteThroughViews) {
  Tensor base = OnDevice({5, 5, 5, 5, 5, 5});
  Tensor part = base.slice(0, 2, 4);
  manual_seed(8);
  uniform_(part, 0, 1);
  auto values = base.to_vector<float>();
  EXPECT_EQ(values[0], 5);
  EXPECT_EQ(values[5], 5);
  EXPECT_LT(values[2], 1);
  EXPECT_LT(values[3], 1);
  EXPECT_TENSOR_EQ(part, std::vector<float>{values[2], values[3]}, {2});
}

TEST_F(Random, AFailedStepDrawsTheSameAgain) {
  manual_seed(21);
  Tensor r = rand({4}, f32, "reference");
  Tensor y = r.exp();
  {
    FailAt fault(FaultPoint::kExecute, "exp");
    mark_step();
    EXPECT_THROW(mark_step(), Error);
  }
  auto values = r.to_vector<float>();
  manual_seed(21);
  EXPECT_EQ(rand({4}, f32, "reference").to_vector<float>(), values);
}

}  // namespace
}  // namespace hammock
