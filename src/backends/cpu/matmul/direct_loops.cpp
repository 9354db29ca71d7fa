#include "backends/cpu/matmul/direct_loops.h"

#include <algorithm>
#include <utility>

namespace hammock::cpu {

#if defined(__x86_64__)
namespace {

// One body for all processors: it is inlined into functions that are compiled for one of them,
// where products and sums are fused.
#define HAMMOCK_BODY [[gnu::always_inline]] inline

template <int kBytes>
struct VectorOf {
  typedef float Aligned __attribute__((vector_size(kBytes)));
  typedef float Type __attribute__((vector_size(kBytes), aligned(alignof(float)), may_alias));
  static constexpr int kLanes = kBytes / sizeof(float);
  static constexpr int kRegisters = kBytes == 64 ? 32 : 16;
};

constexpr int kMostPositions = 12;

/// So many that the sums, the weights and one operand are in registers.
template <int kBytes, int kVectors>
constexpr int kPositionsOf = std::min(kMostPositions,
                                      (VectorOf<kBytes>::kRegisters - kVectors - 2) / kVectors);

/// The addresses of positions: one pointer for three of them, since an address can be a pointer
/// with a step or two.
template <int kPositions>
class Positions {
 public:
  HAMMOCK_BODY Positions(const float* first, int64_t step) : step_(step) {
#pragma GCC unroll 16
    for (int i = 0; i < kPointers; ++i) at_[i] = first + 3 * i * step;
  }
  HAMMOCK_BODY void Advance(int64_t elements) {
#pragma GCC unroll 16
    for (const float*& at : at_) at += elements;
  }
  HAMMOCK_BODY const float* operator[](int i) const { return at_[i / 3] + i % 3 * step_; }

 private:
  static constexpr int kPointers = (kPositions + 2) / 3;
  const float* at_[kPointers];
  int64_t step_;
};

/// The sums of a block of channels at some positions.
template <int kBytes, int kVectors, int kPositions>
class Sums {
 public:
  using Vector = typename VectorOf<kBytes>::Aligned;
  using Loose = typename VectorOf<kBytes>::Type;
  static constexpr int kLanes = VectorOf<kBytes>::kLanes;

  /// Adds an element of each position times a vector of weights.
  HAMMOCK_BODY void AddDense(const Positions<kPositions>& input, const float* weight) {
    Vector right[kVectors];
    Load(weight, right);
#pragma GCC unroll 16
    for (int i = 0; i < kPositions; ++i) {
      const float left = *input[i];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums_[i][v] += left * right[v];
    }
  }

  /// Adds a vector of each position times a vector of weights.
  HAMMOCK_BODY void AddDepthwise(const Positions<kPositions>& input, const float* weight,
                                 int64_t last_vector) {
    Vector right[kVectors];
    Load(weight, right);
#pragma GCC unroll 16
    for (int i = 0; i < kPositions; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        sums_[i][v] += *reinterpret_cast<const Loose*>(input[i] + At(v, last_vector)) * right[v];
      }
    }
  }

  /// ChannelEpilogue: adds the bias and the other image, and applies the bounds.
  HAMMOCK_BODY void Finish(int64_t first, const DirectRun& run) {
    Vector bias[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      bias[v] = *reinterpret_cast<const Loose*>(run.bias + At(v, run.last_vector));
    }
    const Vector low = Vector{} + run.low, high = Vector{} + run.high;
#pragma GCC unroll 16
    for (int i = 0; i < kPositions; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        Vector sum = sums_[i][v] + bias[v];
        if (run.other) {
          sum += *reinterpret_cast<const Loose*>(run.other + (first + i) * run.out_step +
                                                 At(v, run.last_vector));
        }
        sum = low > sum ? low : sum;
        sums_[i][v] = high < sum ? high : sum;
      }
    }
  }

  HAMMOCK_BODY void Store(float* out, const DirectRun& run) const {
#pragma GCC unroll 16
    for (int i = 0; i < kPositions; ++i) {
      float* to = out + i * run.out_step;
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        *reinterpret_cast<Loose*>(to + At(v, run.last_vector)) = sums_[i][v];
      }
    }
  }

 private:
  /// Where a vector of the block begins.
  HAMMOCK_BODY static int64_t At(int vector, int64_t last_vector) {
    return vector == kVectors - 1 ? last_vector : vector * kLanes;
  }

  HAMMOCK_BODY static void Load(const float* from, Vector (&to)[kVectors]) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      to[v] = *reinterpret_cast<const Loose*>(from + v * kLanes);
    }
  }

  Vector sums_[kPositions][kVectors] = {};
};

template <bool kDense, int kBytes, int kVectors, int kPositions>
HAMMOCK_BODY void RunBlock(const DirectRun& run, int64_t first) {
  constexpr int64_t kWidth = kVectors * VectorOf<kBytes>::kLanes;
  Sums<kBytes, kVectors, kPositions> sums;
  const float* input = run.input + first * run.input_step;
  for (int64_t row = 0; row < run.rows; ++row) {
    for (int64_t column = 0; column < run.columns; ++column) {
      const float* weight = run.weight + row * run.weight_row + column * run.weight_column;
      Positions<kPositions> at(input + row * run.input_row + column * run.input_column,
                               run.input_step);
      if constexpr (kDense) {
        for (int64_t term = 0; term < run.terms; ++term, weight += kWidth) {
          sums.AddDense(at, weight);
          at.Advance(run.term_step);
        }
      } else {
        sums.AddDepthwise(at, weight, run.last_vector);
      }
    }
  }
  if (run.bias) sums.Finish(first, run);
  sums.Store(run.out + first * run.out_step, run);
}

/// A run by blocks of nearly the same number of positions: one of few positions would wait for each
/// of its sums.
template <class Kind, bool kDense, int kVectors, int... kLess>
void RunBlocks(const DirectRun& run, std::integer_sequence<int, kLess...>) {
  constexpr int64_t kMost = sizeof...(kLess);
  using Blocks = void (*)(const DirectRun& run, int64_t first);
  static constexpr Blocks kBlocks[] = {&Kind::template Run<kDense, kVectors, kLess + 1>...};
  if (run.positions == 0) return;
  const int64_t blocks = (run.positions + kMost - 1) / kMost;
  const int64_t size = (run.positions + blocks - 1) / blocks;
  for (int64_t first = 0; first < run.positions; first += size) {
    kBlocks[std::min(size, run.positions - first) - 1](run, first);
  }
}

template <class Kind, bool kDense, int kVectors>
void RunAll(const DirectRun& run) {
  constexpr int kPositions = kPositionsOf<Kind::kBytes, kVectors>;
  RunBlocks<Kind, kDense, kVectors>(run, std::make_integer_sequence<int, kPositions>());
}

struct Avx2 {
  static constexpr int kBytes = 32, kMostVectors = 2;
  template <bool kDense, int kVectors, int kPositions>
  HAMMOCK_AVX2 static void Run(const DirectRun& run, int64_t first) {
    RunBlock<kDense, kBytes, kVectors, kPositions>(run, first);
  }
};
struct Avx512 {
  static constexpr int kBytes = 64, kMostVectors = 4;
  template <bool kDense, int kVectors, int kPositions>
  HAMMOCK_AVX512 static void Run(const DirectRun& run, int64_t first) {
    RunBlock<kDense, kBytes, kVectors, kPositions>(run, first);
  }
};

template <class Kind, int... kLess>
constexpr DirectLoops LoopsOf(std::integer_sequence<int, kLess...>) {
  return {VectorOf<Kind::kBytes>::kLanes,
          Kind::kMostVectors,
          {&RunAll<Kind, true, kLess + 1>...},
          {&RunAll<Kind, false, kLess + 1>...}};
}

template <class Kind>
constexpr DirectLoops kLoops = LoopsOf<Kind>(std::make_integer_sequence<int, Kind::kMostVectors>());

}  // namespace

const DirectLoops* DirectLoops::Of(Processor processor) {
  switch (processor) {
    case Processor::kAvx512:
      return &kLoops<Avx512>;
    case Processor::kAvx2:
      return &kLoops<Avx2>;
    case Processor::kPlain:
      return nullptr;
  }
  return nullptr;
}
#else
const DirectLoops* DirectLoops::Of(Processor) { return nullptr; }
#endif

}  // namespace hammock::cpu
