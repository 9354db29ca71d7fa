#include "backends/cpu/matmul/direct_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace hammock::cpu {
namespace {

constexpr int64_t kRows = 2, kColumns = 3;

/// Made-up elements of a run with one block of channels.
struct Example {
  Example(const DirectLoops& loops, bool is_dense, int vectors, int64_t positions)
      : dense(is_dense),
        width(int64_t{vectors} * loops.lanes),
        step(dense ? terms : width),
        input((positions + kColumns) * step * kRows),
        weight(kRows * kColumns * terms * width),
        out(positions * width) {
    for (size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = std::cos(static_cast<float>(i));
    run.input = input.data();
    run.weight = weight.data();
    run.out = out.data();
    run.positions = positions;
    run.input_step = run.input_column = step;
    run.input_row = (positions + kColumns) * step;
    run.out_step = width;
    run.rows = kRows;
    run.columns = kColumns;
    run.weight_column = terms * width;
    run.weight_row = kColumns * run.weight_column;
    run.terms = terms;
    run.term_step = 1;
    run.last_vector = width - loops.lanes;
    (dense ? loops.dense : loops.depthwise)[vectors - 1](run);
  }

  float Expected(int64_t position, int64_t channel) const {
    float sum = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        for (int64_t term = 0; term < terms; ++term) {
          const int64_t at = row * run.input_row + (position + column) * step;
          sum = std::fma(input[at + (dense ? term : channel)],
                         weight[((row * kColumns + column) * terms + term) * width + channel], sum);
        }
      }
    }
    return sum;
  }

  const bool dense;
  const int64_t terms = dense ? 5 : 1;
  const int64_t width, step;
  std::vector<float> input, weight, out;
  DirectRun run = {};
};

TEST(DirectLoops, AddInOneOrderWhateverTheVectors) {
  for (Processor processor : {Processor::kAvx2, Processor::kAvx512}) {
    if (HostFeatures().processor < processor) continue;
    const DirectLoops& loops = *DirectLoops::Of(processor);
    for (bool dense : {false, true}) {
      for (int vectors = 1; vectors <= loops.most_vectors; ++vectors) {
        for (int64_t positions : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 29}) {
          const Example example(loops, dense, vectors, positions);
          for (size_t i = 0; i < example.out.size(); ++i) {
            const int64_t at = static_cast<int64_t>(i);
            ASSERT_EQ(example.out[i], example.Expected(at / example.width, at % example.width))
                << loops.lanes << " " << dense << " " << vectors << " " << positions;
          }
        }
      }
    }
  }
}

TEST(DirectLoops, FinishWithABiasAnotherImageAndBounds) {
  const DirectLoops* loops = DirectLoops::Of(HostFeatures().processor);
  if (!loops) GTEST_SKIP() << "no loops for this processor";
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Example example(*loops, /*is_dense=*/true, 1, 5);
  const std::vector<float> sums = example.out;
  const std::vector<float> image(sums.size(), 0.125F);
  std::vector<float> bias(example.width);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 3) - 1;
  bias[0] = kNan;
  example.run.bias = bias.data();
  for (bool has_other : {false, true}) {
    const float* other = example.run.other = has_other ? image.data() : nullptr;
    example.run.low = -0.5F;
    example.run.high = 0.75F;
    loops->dense[0](example.run);
    for (size_t i = 0; i < sums.size(); ++i) {
      float expected = sums[i] + bias[i % bias.size()];
      if (other) expected += other[i];
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(example.out[i])) << i;
      } else {
        EXPECT_EQ(example.out[i], std::min(std::max(expected, -0.5F), 0.75F)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace hammock::cpu
