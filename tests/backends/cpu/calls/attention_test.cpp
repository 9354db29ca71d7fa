// Attention by blocks, against the reference device and against itself.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/program.h"
#include "hammock/autograd.h"
#include "hammock/hammock.h"

namespace hammock::cpu {
namespace {

const Device kCpu("cpu");
const Device kReference("reference");

Tensor Values(const Dims& sizes, unsigned seed, const Device& device) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = number(random);
  return tensor(values, sizes).to(device);
}

void ExpectNear(const Tensor& actual, const Tensor& expected, double slack,
                const std::string& about) {
  HostTensor x = actual.host(), y = expected.host();
  ASSERT_EQ(x.shape(), y.shape()) << about;
  for (int64_t i = 0; i < x.numel(); ++i) {
    double a = x.at(i).ToDouble(), b = y.at(i).ToDouble();
    if (std::isnan(a) && std::isnan(b)) continue;
    ASSERT_NEAR(a, b, slack * (1 + std::abs(b))) << about << ", element " << i;
  }
}

struct AttentionCase {
  Dims batch;
  int64_t queries, keys, width, out_width;
  bool causal;
  enum { kNoMask, kBool, kAdded } mask;
};

Dims With(Dims batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

/// The result and, where wanted, the gradients of query, key and value.
std::vector<Tensor> Attend(const AttentionCase& c, DType dtype, const Device& device,
                           bool gradients) {
  Tensor q = Values(With(c.batch, c.queries, c.width), 1, device).to(dtype);
  Tensor k = Values(With(c.batch, c.keys, c.width), 2, device).to(dtype);
  Tensor v = Values(With(c.batch, c.keys, c.out_width), 3, device).to(dtype);
  std::optional<Tensor> mask;
  if (c.mask == AttentionCase::kBool) mask = gt(Values({c.queries, c.keys}, 4, device), -0.5);
  if (c.mask == AttentionCase::kAdded) mask = Values({c.queries, c.keys}, 4, device).to(dtype);
  if (!gradients) return {scaled_dot_product_attention(q, k, v, mask, 0.0, c.causal)};
  for (Tensor* x : {&q, &k, &v}) x->requires_grad_();
  Tensor out = scaled_dot_product_attention(q, k, v, mask, 0.0, c.causal);
  Tensor weights = Values(With(c.batch, c.queries, c.out_width), 5, device).to(dtype);
  sum(out * weights).backward();
  return {out, q.grad(), k.grad(), v.grad()};
}

const AttentionCase kCases[] = {
    {{2, 3}, 33, 70, 16, 24, false, AttentionCase::kNoMask},
    {{2}, 300, 300, 64, 64, true, AttentionCase::kNoMask},
    {{}, 97, 515, 40, 33, false, AttentionCase::kBool},
    {{3}, 130, 257, 8, 8, false, AttentionCase::kAdded},
    {{1, 2}, 200, 50, 5, 7, true, AttentionCase::kNoMask},
    {{2}, 1, 700, 64, 64, false, AttentionCase::kNoMask},
    {{2, 2}, 100, 600, 16, 40, false, AttentionCase::kAdded},
};

TEST(AttentionByBlocks, MatchesTheReference) {
  for (const AttentionCase& c : kCases) {
    for (DType dtype : {f32, bf16, f16, f64}) {
      // Sums of f32 in another order; results of 16 bits are rounded to them.
      double slack = dtype == f32 ? 2e-5 : dtype == f64 ? 1e-12 : 2 * InfoOf(dtype).epsilon;
      std::vector<Tensor> actual = Attend(c, dtype, kCpu, true);
      std::vector<Tensor> expected = Attend(c, dtype, kReference, true);
      for (size_t i = 0; i < actual.size(); ++i) {
        std::string about =
            fmt::format("{} queries, {} keys, {}, result {}", c.queries, c.keys, NameOf(dtype), i);
        ExpectNear(actual[i], expected[i], i == 0 ? slack : 4 * slack, about);
      }
    }
  }
}

TEST(AttentionByBlocks, HasTheSameBitsForAnyNumberOfThreadsAndUnderGrad) {
  const AttentionCase& c = kCases[1];
  std::vector<HostTensor> first;
  for (const char* threads : {"1", "2", "3"}) {
    config::Override some("cpu.threads", threads);
    LazyGraphExecutor::Get()->ClearComputationCache();
    std::vector<Tensor> results = Attend(c, f32, kCpu, true);
    for (size_t i = 0; i < results.size(); ++i) {
      if (first.size() < results.size()) first.push_back(results[i].host());
      EXPECT_TRUE(first[i].SameBits(results[i].host())) << threads << " threads, result " << i;
    }
    EXPECT_TRUE(first[0].SameBits(Attend(c, f32, kCpu, false)[0].host()));
  }
}

TEST(AttentionByBlocks, AGraphForAllSizesGivesTheBitsOfOneForEach) {
  auto run = [](int64_t length) {
    Tensor q = Values({2, length, 16}, 1, kCpu);
    return scaled_dot_product_attention(q, q, q).host();
  };
  for (int64_t first : {300, 700}) {  // expanded, and by blocks
    run(first);
    run(first + 10);
    for (int64_t length : {200, 512, 513, 900}) {
      HostTensor general = run(length);
      config::Override alone("generalise", "false");
      EXPECT_TRUE(general.SameBits(run(length))) << first << ", " << length;
    }
    LazyGraphExecutor::Get()->ClearComputationCache();
  }
}

TEST(AttentionByBlocks, QueriesThatSeeNothingGiveNan) {
  for (const Device& device : {kCpu, kReference}) {
    Tensor q = Values({3, 4}, 1, device), k = Values({700, 4}, 2, device);
    Tensor mask = gt(tensor({{1.0}, {0.0}, {1.0}}).to(device), 0.0);
    HostTensor out = scaled_dot_product_attention(q, k, k, mask).host();
    for (int64_t i = 0; i < out.numel(); ++i) {
      EXPECT_EQ(std::isnan(out.at(i).ToDouble()), i / 4 == 1) << device.to_string();
    }
  }
}

TEST(AttentionByBlocks, KeysThatAreHiddenAtFirstCountLater) {
  // The first block of keys is hidden, so that the running maximum starts late.
  for (const Device& device : {kCpu, kReference}) {
    Tensor q = Values({2, 4}, 1, device), k = Values({600, 4}, 2, device);
    Tensor mask = ge(arange(600).to(device).reshape({1, 600}), 590);
    Tensor all = scaled_dot_product_attention(q, k, k, mask);
    Tensor few = scaled_dot_product_attention(q, slice(k, 0, 590, 600), slice(k, 0, 590, 600));
    ExpectNear(all, few, 1e-6, device.to_string());
  }
}

TEST(AttentionByBlocks, TakesWhatBroadcastsAndWhatIsEmpty) {
  Tensor q = Values({2, 1, 5, 4}, 1, kCpu), k = Values({3, 6, 4}, 2, kCpu);
  Tensor out = scaled_dot_product_attention(q, k, k);
  EXPECT_EQ(out.shape(), Shape(f32, {2, 3, 5, 4}));
  Tensor expected =
      scaled_dot_product_attention(q.to(kReference), k.to(kReference), k.to(kReference));
  ExpectNear(out, expected, 1e-6, "broadcast");
  for (const Device& device : {kCpu, kReference}) {
    Tensor none = Values({2, 0, 4}, 1, device), some = Values({2, 3, 4}, 2, device);
    EXPECT_EQ(scaled_dot_product_attention(none, some, some).host().shape(), Shape(f32, {2, 0, 4}));
    ExpectNear(scaled_dot_product_attention(some, none, none), zeros({2, 3, 4}), 0, "no keys");
  }
}

TEST(AttentionByBlocks, AGradientOfTheMaskIsRight) {
  auto gradient = [&](const Device& device) {
    Tensor q = Values({2, 5, 4}, 1, device), k = Values({2, 6, 4}, 2, device);
    Tensor mask = Values({5, 6}, 3, device).requires_grad_();
    sum(scaled_dot_product_attention(q, k, k, mask) * q).backward();
    return mask.grad();
  };
  ExpectNear(gradient(kCpu), gradient(kReference), 1e-5, "mask");
}

int64_t PeakOf(int64_t length, bool backward) {
  std::string rows = fmt::format("f32[4,{},64]", length), sums = fmt::format("f32[4,{}]", length);
  std::string text;
  for (int i = 0; i < 3; ++i) text += fmt::format("%{} = input : {}\n", i, rows);
  if (backward) {
    text += fmt::format("%3 = input : {}\n%4 = input : {}\n%5 = input : {}\n", rows, sums, sums);
    text += fmt::format(
        "%6:3 = _attention_backward %3, %0, %1, %2, none, %4, %5 {{is_causal=false, scale=0.5}} : "
        "{}, {}, {}\nreturn %6.0, %6.1, %6.2",
        rows, rows, rows);
  } else {
    text += fmt::format(
        "%3:2 = _attention %0, %1, %2, none {{is_causal=false, scale=0.5}} : {}, {}\nreturn %3.0",
        rows, sums);
  }
  config::Override two("cpu.threads", "2");
  return Program(ParseGraph(text)).plan().peak_bytes();
}

TEST(AttentionByBlocks, MemoryGrowsWithTheLengthAndNotWithItsSquare) {
  for (bool backward : {false, true}) {
    int64_t small = PeakOf(1024, backward), large = PeakOf(16384, backward);
    EXPECT_LE(large, 16 * small) << backward;
    EXPECT_LT(large, int64_t{16384} * 16384 * 4 / 8) << "an eighth of one head's scores";
  }
}

}  // namespace
}  // namespace hammock::cpu
