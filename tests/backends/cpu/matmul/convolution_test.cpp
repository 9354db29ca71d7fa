#include <algorithm>
#include <chrono>

#include "backends/cpu/host/cpu_features.h"
#include "backends/cpu/matmul/matmul_tests.h"
#include "ops/primitives/channels_last.h"

namespace hammock::cpu {
namespace {

/// Runs with so many threads; the result begins as garbage.
HostTensor RunConvolution(const Convolution& convolution, Convolution::Pointers pointers,
                          const char* threads) {
  config::Override some("cpu.threads", threads);
  HostTensor result(convolution.spec().out);
  std::memset(result.mutable_data(), 0xff, result.bytes());
  ScratchMemory scratch(convolution.scratch_bytes(ThreadPool::threads()));
  if (convolution.spec().epilogue.stores) pointers.out = result.mutable_data();
  convolution.Run(pointers, scratch.span(), ThreadPool::Get());
  return result;
}

struct ConvolutionCase {
  Shape input, weight;
  Dims stride, padding, dilation;
  bool transposed;
  Dims output_padding;
  int64_t groups;
};

/// The bits are those of `expected` wherever the channels are.
void CheckLayouts(ConvolutionSpec spec, const HostTensor& input, const HostTensor& weight,
                  const HostTensor& expected) {
  if (!Convolution::TakesLayouts(spec)) return;
  int rank = spec.input.rank();
  HostTensor input_last = Permuted(input, ops::ChannelsToLast(rank));
  HostTensor expected_last = Permuted(expected, ops::ChannelsToLast(rank));
  for (int which : {1, 2, 3}) {
    spec.input_last = which & 1;
    spec.out_last = which & 2;
    const HostTensor& wanted = spec.out_last ? expected_last : expected;
    Convolution::Pointers pointers = {.input = spec.input_last ? input_last.data() : input.data(),
                                      .weight = weight.data()};
    spec.epilogue = {};
    HostTensor plain = RunConvolution(Convolution(spec), pointers, "2");
    ASSERT_EQ(std::memcmp(plain.data(), wanted.data(), wanted.bytes()), 0) << which;
    for (const EpilogueSpec& epilogue : AllEpilogues()) {
      spec.epilogue = epilogue;
      int64_t columns = wanted.shape().size(rank - 1);
      for (int d = 2; d < rank - 1 && !spec.out_last; ++d) columns *= wanted.shape().size(d);
      CopyingEpilogue copy(wanted.shape(), columns, epilogue);
      pointers.epilogue = &copy;
      RunConvolution(Convolution(spec), pointers, "2");
      ASSERT_TRUE(copy.SawEverythingOnce()) << which;
      ASSERT_TRUE(copy.result().SameBits(wanted)) << which;
    }
  }
}

void CheckConvolution(const ConvolutionCase& c, std::mt19937& random) {
  ConvolutionSpec spec = ConvolutionSpec::Of(c.input, c.weight, c.stride, c.padding, c.dilation,
                                             c.transposed, c.output_padding, c.groups);
  HostTensor input = Random(c.input, random);
  HostTensor weight = Random(c.weight, random);
  HostTensor expected =
      Interpreted(ops::kConvolution, {input, weight},
                  {c.stride, c.padding, c.dilation, c.transposed, c.output_padding, c.groups});
  ASSERT_EQ(spec.out, expected.shape());
  Convolution convolution(spec);
  auto about = [&] {
    return fmt::format("{} {} stride {} padding {} dilation {} transposed {} {} groups {} by {}",
                       c.input.to_string(), c.weight.to_string(), ToString(c.stride),
                       ToString(c.padding), ToString(c.dilation), c.transposed,
                       ToString(c.output_padding), c.groups, convolution.kernel());
  };
  int64_t terms = c.weight.numel() / std::max<int64_t>(c.weight.size(0), 1) * c.groups + 1;
  Convolution::Pointers pointers = {.input = input.data(), .weight = weight.data()};
  HostTensor one = RunConvolution(convolution, pointers, "1");
  ASSERT_TRUE(Near(one, expected, terms)) << about();
  ASSERT_TRUE(one.SameBits(RunConvolution(convolution, pointers, "2"))) << about();
  ASSERT_TRUE(one.SameBits(RunConvolution(convolution, pointers, "5"))) << about();
  if (convolution.packed_bytes() > 0) {
    ScratchMemory packed(convolution.packed_bytes());
    convolution.Pack(weight.data(), packed.span().data(), ThreadPool::Get());
    Convolution::Pointers with_packed = {.input = input.data(), .packed = packed.span().data()};
    ASSERT_TRUE(one.SameBits(RunConvolution(convolution, with_packed, "2"))) << about();
  }
  for (const EpilogueSpec& epilogue : AllEpilogues()) {
    spec.epilogue = epilogue;
    int64_t rows = spec.out.size(0) * spec.out.size(1);
    CopyingEpilogue copy(spec.out, rows == 0 ? 0 : spec.out.numel() / rows, epilogue);
    pointers.epilogue = &copy;
    HostTensor stored = RunConvolution(Convolution(spec), pointers, "2");
    ASSERT_TRUE(copy.SawEverythingOnce()) << about();
    ASSERT_TRUE(copy.result().SameBits(one)) << about();
    if (epilogue.stores) {
      ASSERT_TRUE(stored.SameBits(one)) << about();
    }
  }
  spec.epilogue = {};
  CheckLayouts(spec, input, weight, one);
  ASSERT_FALSE(testing::Test::HasFatalFailure()) << about();
}

TEST(Convolution, MatchesTheInterpreterOnRandomCases) {
  std::mt19937 random(11);
  for (int turn = 0; turn < 250; ++turn) {
    DType dtype = turn % 2 ? f32 : kNumbers[random() % std::size(kNumbers)];
    int spatial = 1 + random() % 3;
    auto upto = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % (high - low + 1));
    };
    ConvolutionCase c;
    c.groups = random() % 3 == 0 ? upto(2, 4) : 1;
    c.transposed = random() % 3 == 0;
    int64_t in = c.groups * upto(1, random() % 4 == 0 ? 20 : 4);
    int64_t out = c.groups * upto(1, random() % 4 == 0 ? 20 : 4);
    Dims input = {upto(random() % 8 == 0 ? 0 : 1, 3), in};
    Dims weight = c.transposed ? Dims{in, out / c.groups} : Dims{out, in / c.groups};
    for (int i = 0; i < spatial; ++i) {
      int64_t kernel = upto(1, 4);
      c.stride.push_back(upto(1, 3));
      c.padding.push_back(upto(0, 3));
      c.dilation.push_back(upto(1, 2));
      int64_t reach = c.dilation[i] * (kernel - 1) + 1;
      int64_t least = std::max<int64_t>(1, reach - 2 * c.padding[i]);
      int64_t size = least + upto(0, spatial == 3 ? 4 : 12);
      if (c.transposed) size = std::max<int64_t>(size, c.padding[i] * 2 / c.stride[i] + 2);
      input.push_back(size);
      weight.push_back(kernel);
      int64_t most = std::max(c.stride[i], c.dilation[i]) - 1;
      c.output_padding.push_back(c.transposed ? upto(0, most) : 0);
    }
    c.input = Shape(dtype, input);
    c.weight = Shape(dtype, weight);
    CheckConvolution(c, random);
  }
}

TEST(Convolution, MatchesTheInterpreterOnLargerImages) {
  std::mt19937 random(12);
  for (DType dtype : {f32, bf16, f16}) {
    CheckConvolution({Shape(dtype, {2, 16, 40, 40}),
                      Shape(dtype, {32, 16, 3, 3}),
                      {1, 1},
                      {1, 1},
                      {1, 1},
                      false,
                      {0, 0},
                      1},
                     random);
    CheckConvolution({Shape(dtype, {1, 3, 64, 48}),
                      Shape(dtype, {24, 3, 7, 7}),
                      {2, 2},
                      {3, 3},
                      {1, 1},
                      false,
                      {0, 0},
                      1},
                     random);
    CheckConvolution({Shape(dtype, {1, 32, 30, 31}),
                      Shape(dtype, {32, 1, 3, 3}),
                      {1, 2},
                      {1, 1},
                      {1, 1},
                      false,
                      {0, 0},
                      32},
                     random);
    CheckConvolution({Shape(dtype, {2, 16, 15, 14}),
                      Shape(dtype, {16, 8, 4, 4}),
                      {2, 2},
                      {1, 1},
                      {1, 1},
                      true,
                      {0, 0},
                      2},
                     random);
    CheckConvolution(
        {Shape(dtype, {1, 16, 100}), Shape(dtype, {48, 16, 5}), {1}, {4}, {2}, false, {0}, 1},
        random);
  }
}

/// Images whose rows or columns are divided into tasks, channels that end within a vector, and taps
/// that reach over every edge.
TEST(Convolution, SmallOnesAreDirect) {
  std::mt19937 random(16);
  auto check = [&](Dims input, Dims weight, Dims stride, Dims padding, Dims dilation) {
    const int64_t groups = input[1] / weight[1];
    const Dims none = Dims::Filled(stride.size(), 0);
    ConvolutionCase c = {
        Shape(f32, input), Shape(f32, weight), stride, padding, dilation, false, none, groups};
    CheckConvolution(c, random);
    const ConvolutionSpec spec =
        ConvolutionSpec::Of(c.input, c.weight, stride, padding, dilation, false, none, groups);
    if (HostFeatures().processor != Processor::kPlain) {
      EXPECT_STREQ(Convolution(spec).kernel(), "direct");
    }
  };
  for (int64_t channels : {16, 24, 37, 80, 136}) {
    check({2, 3, 33, 70}, {channels, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1});
    check({1, 24, 14, 15}, {channels, 24, 1, 1}, {1, 1}, {0, 0}, {1, 1});
    check({1, 20, 9, 12}, {channels, 20, 3, 2}, {1, 1}, {5, 1}, {3, 2});
    check({3, 5, 400}, {channels, 5, 5}, {1}, {2}, {1});
  }
  for (int64_t channels : {16, 24, 37, 128}) {
    check({2, channels, 40, 31}, {channels, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1});
    check({1, channels, 8, 9}, {channels, 1, 5, 5}, {2, 1}, {2, 2}, {1, 2});
    check({1, channels, 4, 4}, {channels, 1, 4, 4}, {1, 1}, {0, 0}, {1, 1});
    check({1, channels, 1, 3}, {channels, 1, 3, 3}, {1, 1}, {2, 2}, {1, 1});
    check({1, channels, 2000}, {channels, 1, 3}, {1}, {1}, {1});
  }
}

TEST(Convolution, LargeWeightsArePackedInParts) {
  std::mt19937 random(15);
  for (DType dtype : {f32, bf16}) {
    for (bool transposed : {false, true}) {
      CheckConvolution({Shape(dtype, {2, 128, 6, 7}),
                        Shape(dtype, {128, 128, 3, 3}),
                        {1, 1},
                        {1, 1},
                        {1, 1},
                        transposed,
                        {0, 0},
                        1},
                       random);
    }
  }
}

TEST(Convolution, DimsOfOnePositionAreNoDims) {
  std::mt19937 random(14);
  for (DType dtype : {f32, bf16}) {
    for (bool transposed : {false, true}) {
      for (const auto& [sizes, taps] : {std::pair(Dims{300, 1}, Dims{5, 1}),
                                        {Dims{1, 300}, Dims{1, 5}},
                                        {Dims{1, 1}, Dims{1, 1}},
                                        {Dims{1, 40, 1}, Dims{1, 3, 1}}}) {
        Dims input = {2, 24}, weight = transposed ? Dims{24, 40} : Dims{40, 24};
        for (int64_t size : sizes) input.push_back(size);
        for (int64_t tap : taps) weight.push_back(tap);
        const int spatial = sizes.size();
        CheckConvolution({Shape(dtype, input), Shape(dtype, weight), Dims::Filled(spatial, 1),
                          Dims::Filled(spatial, 0), Dims::Filled(spatial, 1), transposed,
                          Dims::Filled(spatial, 0), 1},
                         random);
      }
    }
  }
}

/// The weights that bands of 10 rows chose had only a loop over single elements for the last 8
/// rows.
TEST(Convolution, ALastBandOfFewerRowsIsNoCliff) {
  std::mt19937 random(13);
  auto shortest = [&](int64_t out_channels) {
    ConvolutionCase c = {Shape(f32, {4, 64, 56, 56}),
                         Shape(f32, {out_channels, 64, 1, 1}),
                         {2, 2},
                         {0, 0},
                         {1, 1},
                         false,
                         {0, 0},
                         1};
    CheckConvolution(c, random);
    Convolution convolution(ConvolutionSpec::Of(c.input, c.weight, c.stride, c.padding, c.dilation,
                                                c.transposed, c.output_padding, c.groups));
    HostTensor input = Random(c.input, random), weight = Random(c.weight, random);
    auto best = std::chrono::nanoseconds::max();
    for (int turn = 0; turn < 5; ++turn) {
      auto start = std::chrono::steady_clock::now();
      RunConvolution(convolution, {.input = input.data(), .weight = weight.data()}, "1");
      best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
    }
    return best;
  };
  EXPECT_LT(shortest(128), 10 * shortest(256));  // 150 times as long before
}

TEST(Convolution, OfOnePositionIsAMatmul) {
  std::mt19937 random(15);
  for (DType dtype : {f32, bf16, f16, i32}) {
    for (int64_t channels : {3, 64}) {
      CheckConvolution({Shape(dtype, {3, channels, 9, 11}),
                        Shape(dtype, {70, channels, 1, 1}),
                        {1, 1},
                        {0, 0},
                        {1, 1},
                        false,
                        {0, 0},
                        1},
                       random);
    }
  }
  // Those that the library takes go the way of all others, so that bits do not depend on layouts.
  Shape input(f64, {1, 64, 8}), weight(f64, {64, 64, 1});
  EXPECT_STREQ(
      Convolution(ConvolutionSpec::Of(input, weight, {1}, {0}, {1}, false, {0}, 1)).kernel(),
      "matmul");
}

TEST(Convolution, PaddingWiderThanTheKernelGivesZeros) {
  std::mt19937 random(13);
  CheckConvolution({Shape(f32, {1, 2, 3, 3}),
                    Shape(f32, {4, 2, 1, 2}),
                    {1, 1},
                    {3, 4},
                    {1, 1},
                    false,
                    {0, 0},
                    1},
                   random);
}

TEST(Convolution, WithoutInputChannelsGivesZeros) {
  std::mt19937 random(14);
  CheckConvolution({Shape(f32, {2, 0, 5}), Shape(f32, {3, 0, 2}), {1}, {0}, {1}, false, {0}, 1},
                   random);
}

}  // namespace
}  // namespace hammock::cpu
