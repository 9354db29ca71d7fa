#pragma once
/// What is measured on both sides, in words that neither library knows. Both sides get the same
/// numbers and do the same ops.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

enum class Work {
  kChain,  // dims: number of ops
  kRelu,
  kGeluErf,
  kGeluTanh,
  kSoftmax,
  kLayerNorm,
  kScaledSoftmax,
  kExp,
  kTanh,
  kErf,
  kSumRows,
  kSumColumns,
  kTranspose,
  kMatmul,      // dims: m, k, n
  kMatmulBf16,  // the same
  kLeNet,
  kResNetBlock,
  kMlpTrain,
  kEncoder,
  kEncoderTrain,
  // Of this library alone:
  kCompile,
  kCachedObject,
  kFirstResult,
  kFullSpeed,
};

/// What hardware allows, measured in the same run.
enum class Floor { kNone, kAdd, kCopy, kRead, kFma, kFmaBf16 };

enum class Goal {
  kTime,       // seconds, at most
  kOverFloor,  // time over the floor's, at most
  kOverEager,  // eager's time over ours, at least
  kOfPeak,     // the floor's time over ours, at least
  kOverF32,    // time of the f32 row of the same sizes over ours, at least
};

struct Row {
  const char* name;
  Work work;
  std::vector<int64_t> dims;
  Goal goal;
  double target;
  Floor floor = Floor::kNone;
  double flops = 0;     // what the floor of arithmetic is computed from
  double of_floor = 0;  // the floor's time over ours that meets the goal too
};

const std::vector<Row>& Rows();

struct Array {
  std::vector<int64_t> sizes;
  std::vector<float> values;
  bool integers = false;
};

/// The same numbers at every call.
std::vector<Array> InputsOf(const Row& row);

/// A workload set up on one side.
struct Side {
  std::function<void()> trace;  // null where ops run at once
  std::function<void()> run;
  std::function<std::vector<float>()> result;  // of the last step

  void Step() const {
    if (trace) trace();
    run();
  }
};

inline bool IsTraining(Work work) { return work == Work::kMlpTrain || work == Work::kEncoderTrain; }

constexpr int64_t kRows = 4096, kColumns = 1024;
/// The encoder block: batch, tokens, width, heads.
constexpr int64_t kBatch = 8, kTokens = 128, kWidth = 512, kHeads = 8;
constexpr double kLearningRate = 0.01;

}  // namespace bench
