#include "workload.h"

#include <cmath>
#include <numeric>
#include <random>

namespace bench {

namespace {

constexpr double kEncoderFlops =
    2.0 * kBatch * kTokens *
        (kWidth * 3.0 * kWidth + kWidth * kWidth + 2.0 * kWidth * 4.0 * kWidth) +
    4.0 * kBatch * kTokens * kTokens * kWidth;
constexpr double kMlpFlops =
    3 * 2.0 * 128 * (784.0 * 512 + 512 * 512 + 5120) - 2.0 * 128 * 784 * 512;
constexpr double kLeNetFlops =
    2.0 * 8 * (24.0 * 24 * 32 * 25 + 8.0 * 8 * 64 * 32 * 25 + 1024 * 128 + 1280);
constexpr double kResNetFlops = 2.0 * 8 * 56 * 56 * 64 * 64 * 9 * 2;

double MatmulFlops(const std::vector<int64_t>& dims) {
  return 2.0 * static_cast<double>(dims[0] * dims[1] * dims[2]);
}

std::vector<Row> MakeRows() {
  std::vector<Row> rows = {
      {"step of 10 ops", Work::kChain, {10}, Goal::kTime, 1.5e-6},
      {"step of 100 ops", Work::kChain, {100}, Goal::kTime, 8e-6},
      {"relu(x*w+b)+r", Work::kRelu, {}, Goal::kOverFloor, 1.05, Floor::kAdd},
      {"gelu_erf(x*w+b)+r", Work::kGeluErf, {}, Goal::kOverEager, 4.5, Floor::kAdd},
      {"gelu_tanh(x*w+b)+r", Work::kGeluTanh, {}, Goal::kOverEager, 9, Floor::kAdd},
      {"softmax", Work::kSoftmax, {}, Goal::kOverEager, 3.5, Floor::kCopy, 0, 0.85},
      {"layer_norm", Work::kLayerNorm, {}, Goal::kOverEager, 3.5, Floor::kCopy, 0, 0.85},
      {"softmax(x/8)*r", Work::kScaledSoftmax, {}, Goal::kOverEager, 5, Floor::kAdd},
      {"exp", Work::kExp, {}, Goal::kOverEager, 3, Floor::kCopy},
      {"tanh", Work::kTanh, {}, Goal::kOverEager, 8, Floor::kCopy},
      {"erf", Work::kErf, {}, Goal::kOverEager, 8, Floor::kCopy},
      {"sum over rows", Work::kSumRows, {}, Goal::kOverEager, 1.0, Floor::kRead},
      {"sum over columns", Work::kSumColumns, {}, Goal::kOverEager, 1.5, Floor::kRead},
      {"transposing copy", Work::kTranspose, {}, Goal::kOverEager, 5, Floor::kCopy},
      {"matmul 256^3", Work::kMatmul, {256, 256, 256}, Goal::kOfPeak, 0.97, Floor::kFma},
      {"matmul 1024^3", Work::kMatmul, {1024, 1024, 1024}, Goal::kOfPeak, 0.97, Floor::kFma},
      {"matmul 128x784x512", Work::kMatmul, {128, 784, 512}, Goal::kOfPeak, 0.97, Floor::kFma},
      {"matmul 1024x512x2048", Work::kMatmul, {1024, 512, 2048}, Goal::kOfPeak, 0.97, Floor::kFma},
      {"bf16 256^3", Work::kMatmulBf16, {256, 256, 256}, Goal::kOverF32, 1.95},
      {"bf16 1024^3", Work::kMatmulBf16, {1024, 1024, 1024}, Goal::kOverF32, 1.95},
      {"bf16 128x784x512", Work::kMatmulBf16, {128, 784, 512}, Goal::kOverF32, 1.95},
      {"bf16 1024x512x2048", Work::kMatmulBf16, {1024, 512, 2048}, Goal::kOverF32, 1.95},
      {"matmul 1x4096x4096", Work::kMatmul, {1, 4096, 4096}, Goal::kOverEager, 2.8},
      {"LeNet", Work::kLeNet, {}, Goal::kOfPeak, 0.9, Floor::kFma, kLeNetFlops},
      {"ResNet block", Work::kResNetBlock, {}, Goal::kOverEager, 1.07, Floor::kFma, kResNetFlops},
      {"MLP training", Work::kMlpTrain, {}, Goal::kOfPeak, 0.92, Floor::kFma, kMlpFlops},
      {"encoder", Work::kEncoder, {}, Goal::kOfPeak, 0.97, Floor::kFma, kEncoderFlops},
      {"encoder training",
       Work::kEncoderTrain,
       {},
       Goal::kOfPeak,
       0.93,
       Floor::kFma,
       3 * kEncoderFlops},
      {"new kernel", Work::kCompile, {}, Goal::kTime, 1.5e-3},
      {"cached object", Work::kCachedObject, {}, Goal::kTime, 0.2e-3},
      {"first result", Work::kFirstResult, {}, Goal::kTime, 1e-3},
      {"full speed after", Work::kFullSpeed, {}, Goal::kTime, 50e-3},
  };
  for (Row& row : rows) {
    if (row.work == Work::kMatmulBf16) row.floor = Floor::kFmaBf16;
    if (row.floor == Floor::kFma || row.floor == Floor::kFmaBf16) {
      if (row.flops == 0) row.flops = MatmulFlops(row.dims);
    }
  }
  return rows;
}

/// Normal numbers times `scale`, the same in every process.
class Numbers {
 public:
  Array operator()(std::vector<int64_t> sizes, double scale = 1, double mean = 0) {
    int64_t count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    Array array{std::move(sizes), std::vector<float>(static_cast<size_t>(count))};
    for (float& value : array.values) value = static_cast<float>(mean + scale * normal_(engine_));
    return array;
  }
  Array Labels(int64_t count, int64_t classes) {
    Array array{{count}, {}, true};
    for (int64_t i = 0; i < count; ++i) array.values.push_back(static_cast<float>(i % classes));
    return array;
  }

 private:
  std::mt19937 engine_{7};
  std::normal_distribution<double> normal_;
};

std::vector<Array> EncoderInputs(Numbers& normal) {
  constexpr int64_t d = kWidth;
  double scale = 0.02;
  return {normal({kBatch * kTokens, d}), normal({kBatch * kTokens, d}),
          normal({d, 3 * d}, scale),     normal({3 * d}, scale),
          normal({d, d}, scale),         normal({d}, scale),
          normal({d, 4 * d}, scale),     normal({4 * d}, scale),
          normal({4 * d, d}, scale),     normal({d}, scale),
          normal({d}, scale, 1),         normal({d}, scale),
          normal({d}, scale, 1),         normal({d}, scale)};
}

}  // namespace

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = MakeRows();
  return rows;
}

std::vector<Array> InputsOf(const Row& row) {
  Numbers normal;
  switch (row.work) {
    case Work::kChain:
      return {normal({16}), normal({16}, 0.01, 1)};
    case Work::kMatmul:
    case Work::kMatmulBf16:
      return {normal({row.dims[0], row.dims[1]}), normal({row.dims[1], row.dims[2]})};
    case Work::kLeNet:
      return {normal({8, 1, 28, 28}),       normal({32, 1, 5, 5}, 0.1), normal({32}, 0.1),
              normal({64, 32, 5, 5}, 0.03), normal({64}, 0.1),          normal({128, 1024}, 0.03),
              normal({128}, 0.1),           normal({10, 128}, 0.1),     normal({10}, 0.1)};
    case Work::kResNetBlock: {
      std::vector<Array> inputs = {normal({8, 64, 56, 56}), normal({64, 64, 3, 3}, 0.04),
                                   normal({64, 64, 3, 3}, 0.04)};
      for (int i = 0; i < 2; ++i) {  // mean, variance, weight, bias
        inputs.push_back(normal({64}, 0.1));
        inputs.push_back(normal({64}, 0.05, 1));
        inputs.push_back(normal({64}, 0.1, 1));
        inputs.push_back(normal({64}, 0.1));
      }
      return inputs;
    }
    case Work::kMlpTrain:
      return {normal({128, 784}),      normal.Labels(128, 10),   normal({512, 784}, 0.03),
              normal({512}, 0.01),     normal({512, 512}, 0.04), normal({512}, 0.01),
              normal({10, 512}, 0.04), normal({10}, 0.01)};
    case Work::kEncoder:
    case Work::kEncoderTrain:
      return EncoderInputs(normal);
    default:
      return {normal({kRows, kColumns}), normal({kRows, kColumns}), normal({kColumns}),
              normal({kColumns})};
  }
}

}  // namespace bench
