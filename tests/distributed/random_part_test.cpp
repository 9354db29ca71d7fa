// Parts of a tensor have the random numbers of the whole.

#include "hammock/distributed/random_part.h"

#include <gtest/gtest.h>

#include "hammock/hammock.h"

namespace hammock::distributed {
namespace {

using Draws = std::vector<std::pair<const char*, std::function<Tensor(const Dims&)>>>;

const Draws& AllDraws() {
  static const Draws draws = {
      {"rand", [](const Dims& sizes) { return rand(sizes); }},
      {"rand f64", [](const Dims& sizes) { return rand(sizes, DType::kF64); }},
      {"rand f16", [](const Dims& sizes) { return rand(sizes, DType::kF16); }},
      {"rand c64", [](const Dims& sizes) { return real(rand(sizes, DType::kC64)); }},
      {"randint", [](const Dims& sizes) { return randint(1000, sizes); }},
      {"randint of 64 bits", [](const Dims& sizes) { return randint(int64_t{1} << 40, sizes); }},
      {"randn", [](const Dims& sizes) { return randn(sizes); }},
      {"randn f64", [](const Dims& sizes) { return randn(sizes, DType::kF64); }},
      {"bernoulli", [](const Dims& sizes) { return bernoulli(full(sizes, Scalar(0.3))); }},
      {"dropout", [](const Dims& sizes) { return dropout(ones(sizes), 0.4, true); }},
      {"small poisson", [](const Dims& sizes) { return poisson(full(sizes, Scalar(3.0))); }},
      {"large poisson", [](const Dims& sizes) { return poisson(full(sizes, Scalar(30.0))); }},
  };
  return draws;
}

bool Same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && all(eq(a, b)).item().ToBool();
}

TEST(RandomPart, DrawsWhatTheWholeHasThere) {
  for (const Dims& whole : {Dims{6, 4, 2}, Dims{12, 8}, Dims{36}, Dims{4, 6, 5}}) {
    for (int dim = 0; dim < std::min(whole.size(), 2); ++dim) {
      for (const auto& [name, draw] : AllDraws()) {
        manual_seed(3);
        Tensor expected = draw(whole);
        const uint64_t offset = Generator::Default().offset();
        const int64_t parts = whole[dim] % 3 == 0 ? 3 : 2, size = whole[dim] / parts;
        for (int64_t index = 0; index < parts; ++index) {
          manual_seed(3);
          Dims sizes = whole;
          sizes[dim] = size;
          RandomPart part(index, parts, dim);
          EXPECT_TRUE(Same(draw(sizes), expected.narrow(dim, index * size, size)))
              << name << " " << ToString(whole) << " dim " << dim << " part " << index;
          EXPECT_EQ(Generator::Default().offset(), offset) << name;
        }
      }
    }
  }
}

TEST(RandomPart, OfSeveralDimsAddUp) {
  manual_seed(1);
  Tensor whole = rand({4, 6});
  manual_seed(1);
  RandomPart rows(1, 2, 0), columns(2, 3, 1);
  EXPECT_TRUE(Same(rand({2, 2}), whole.narrow(0, 2, 2).narrow(1, 4, 2)));
  manual_seed(1);
  RandomPart inner(0, 1, 0), half(1, 2, 0);  // of the second half
  Tensor one = rand({1, 2});
  manual_seed(1);
  RandomPart none({});
  EXPECT_TRUE(Same(one, rand({4, 6}).narrow(0, 3, 1).narrow(1, 4, 2)));
}

TEST(RandomPart, LeavesTensorsWithoutTheDimAndPermutationsWhole) {
  manual_seed(1);
  Tensor number = rand({}), order = randperm(8);
  manual_seed(1);
  RandomPart part(1, 2, 0);
  EXPECT_TRUE(Same(rand({}), number));
  EXPECT_TRUE(Same(randperm(8), order));
}

TEST(RandomPart, HoldsWhenACheckpointRunsAgain) {
  auto gradient = [](int64_t begin, int64_t size, bool parts) {
    manual_seed(5);
    Tensor x = arange(Scalar(12)).to(DType::kF32).narrow(0, begin, size).clone().requires_grad_();
    auto drop = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return {exp(dropout(in[0], 0.5, true) * 0.1)};
    };
    Tensor y;
    if (parts) {
      RandomPart part(begin / size, 12 / size, 0);
      y = checkpoint(drop, {x})[0];
    } else {
      y = checkpoint(drop, {x})[0];
    }
    sum(y).backward();  // outside of the part
    return x.grad();
  };
  Tensor whole = gradient(0, 12, false);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(Same(gradient(i * 4, 4, true), whole.narrow(0, i * 4, 4)));
  }
}

TEST(RandomPart, RefusesPartsThatDoNotExist) {
  EXPECT_THROW(RandomPart(2, 2, 0), ValueError);
  EXPECT_THROW(RandomPart(0, 2, -1), ValueError);
  EXPECT_TRUE(RandomPart::Current().empty());
}

}  // namespace
}  // namespace hammock::distributed
