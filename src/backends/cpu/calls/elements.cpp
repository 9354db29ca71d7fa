// Random words, and quotients of integers, which fail for a divisor of 0.

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/host/cpu_features.h"
#include "ir/primitives.h"
#include "ops/random/philox.h"

namespace hammock::cpu {
namespace {

using Operands = std::span<const char* const>;
using Results = std::span<char* const>;

constexpr int kTogether = 16;  // blocks of the stream that are computed at the same time

/// Groups of kTogether blocks of the stream, from block `first` on.
void DrawPlain(uint64_t seed, uint64_t first, int64_t groups, uint32_t* out) {
  for (int64_t i = 0; i < groups * kTogether; ++i) {
    philox::Block block = philox::StreamBlock(seed, first, static_cast<uint64_t>(i));
    std::copy(block.begin(), block.end(), out + 4 * i);
  }
}

#if defined(__x86_64__)

/// Four blocks: lane i of counters[w] has word w of block i in its lower half; the upper half
/// is never used.
struct FourBlocks {
  __m256i counters[4];
};

[[gnu::target("avx2")]] inline void StoreBlocks(const FourBlocks& blocks, uint32_t* out) {
  const __m256i* c = blocks.counters;
  __m256i front = _mm256_blend_epi32(c[0], _mm256_slli_epi64(c[1], 32), 0xaa);
  __m256i back = _mm256_blend_epi32(c[2], _mm256_slli_epi64(c[3], 32), 0xaa);
  __m256i even = _mm256_unpacklo_epi64(front, back);  // blocks 0 and 2
  __m256i odd = _mm256_unpackhi_epi64(front, back);   // blocks 1 and 3
  __m256i* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

[[gnu::target("avx2")]] void DrawAvx2(uint64_t seed, uint64_t first, int64_t groups,
                                      uint32_t* out) {
  constexpr int kParts = kTogether / 4;
  const __m256i factor_a = _mm256_set1_epi64x(0xD2511F53);
  const __m256i factor_b = _mm256_set1_epi64x(0xCD9E8D57);
  for (int64_t group = 0; group < groups; ++group, first += kTogether, out += 4 * kTogether) {
    FourBlocks parts[kParts];
#pragma GCC unroll 4
    for (uint64_t part = 0; part < kParts; ++part) {
      int64_t at = static_cast<int64_t>(first + 4 * part);
      __m256i position = _mm256_add_epi64(_mm256_set1_epi64x(at), _mm256_set_epi64x(3, 2, 1, 0));
      parts[part] = {{position, _mm256_srli_epi64(position, 32), _mm256_setzero_si256(),
                      _mm256_setzero_si256()}};
    }
    uint32_t k0 = static_cast<uint32_t>(seed);
    uint32_t k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
      __m256i key_a = _mm256_set1_epi64x(k0);
      __m256i key_b = _mm256_set1_epi64x(k1);
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
        __m256i* c = parts[part].counters;
        __m256i a = _mm256_mul_epu32(factor_a, c[0]);
        __m256i b = _mm256_mul_epu32(factor_b, c[2]);
        c[0] = _mm256_xor_si256(_mm256_srli_epi64(b, 32), _mm256_xor_si256(c[1], key_a));
        c[2] = _mm256_xor_si256(_mm256_srli_epi64(a, 32), _mm256_xor_si256(c[3], key_b));
        c[1] = b;
        c[3] = a;
      }
    }
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) StoreBlocks(parts[part], out + 16 * part);
  }
}

#endif

/// Words [4 * block, 4 * block + count) of the stream.
void Draw(uint64_t seed, uint64_t offset, int64_t block, int64_t count, uint32_t* out) {
  int64_t groups = count / (4 * kTogether);
  uint64_t first = offset + static_cast<uint64_t>(block);
#if defined(__x86_64__)
  if (HostFeatures().avx2) {
    DrawAvx2(seed, first, groups, out);
  } else {
    DrawPlain(seed, first, groups, out);
  }
#else
  DrawPlain(seed, first, groups, out);
#endif
  for (int64_t i = groups * 4 * kTogether; i < count; ++i) {
    out[i] = philox::StreamWord(seed, first, static_cast<uint64_t>(i));
  }
}

class RngBitsCall : public Call {
 public:
  RngBitsCall(const Graph&, const GraphNode& node) : count_(node.type().numel()) {}

  void Run(Operands in, Results out, char*) const override {
    const uint64_t* state = reinterpret_cast<const uint64_t*>(in[0]);
    uint32_t* words = reinterpret_cast<uint32_t*>(out[0]);
    constexpr int64_t kGroup = 4 * kTogether;
    int64_t groups = (count_ + kGroup - 1) / kGroup;
    Spread(groups, kGroup * 8, [&](int64_t begin, int64_t end) {
      int64_t first = begin * kGroup;
      Draw(state[0], state[1], begin * kTogether, std::min(end * kGroup, count_) - first,
           words + first);
    });
  }
  const char* kernel() const override { return "philox"; }

 private:
  int64_t count_;
};

// ---- quotients: values that are too large wrap

template <class T>
T Negate(T x) {
  return static_cast<T>(-static_cast<uint64_t>(x));
}

template <class T>
bool IsMinusOne(T x) {
  if constexpr (std::signed_integral<T>) return x == T(-1);
  return false;
}

struct TruncQuotient {
  template <class T>
  static T Apply(T x, T y) {
    return IsMinusOne(y) ? Negate(x) : static_cast<T>(x / y);
  }
};
struct TruncModulus {
  template <class T>
  static T Apply(T x, T y) {
    return IsMinusOne(y) ? T{0} : static_cast<T>(x % y);
  }
};
struct FloorQuotient {
  template <class T>
  static T Apply(T x, T y) {
    if (IsMinusOne(y)) return Negate(x);
    return static_cast<T>(x / y - (x % y != 0 && (x < 0) != (y < 0)));
  }
};
struct FloorModulus {
  template <class T>
  static T Apply(T x, T y) {
    T mod = TruncModulus::Apply(x, y);
    return mod != 0 && (x < 0) != (y < 0) ? static_cast<T>(mod + y) : mod;
  }
};

class DivideCall : public Call {
 public:
  DivideCall(const Graph& graph, const GraphNode& node)
      : node_(node), type_(node.type()), count_(type_.numel()) {
    HAMMOCK_CHECK(graph.TypeOf(node.inputs[1]) == type_, "{}: operands are not explicit",
                  node.op->name());
  }

  void Run(Operands in, Results out, char*) const override {
    switch (node_.op->scalar) {
      case ScalarFn::kFloorDivide:
        return Divide<FloorQuotient>(in, out[0]);
      case ScalarFn::kTruncDivide:
        return Divide<TruncQuotient>(in, out[0]);
      case ScalarFn::kRemainder:
        return Divide<FloorModulus>(in, out[0]);
      case ScalarFn::kFmod:
        return Divide<TruncModulus>(in, out[0]);
      default:
        HAMMOCK_CHECK(false, "{} is no division of integers", node_.op->name());
    }
  }
  const char* kernel() const override { return "quotients"; }

 private:
  template <class Op>
  void Divide(Operands in, char* out) const {
    VisitDType(type_.dtype(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::integral<T> && !std::same_as<T, bool>) {
        const T* x = reinterpret_cast<const T*>(in[0]);
        const T* y = reinterpret_cast<const T*>(in[1]);
        T* z = reinterpret_cast<T*>(out);
        Spread(count_, 32, [&](int64_t begin, int64_t end) {
          bool zeros = false;
          for (int64_t i = begin; i < end; ++i) zeros |= y[i] == 0;
          if (zeros) {
            FailNode(node_, ErrorCode::kValue, "ZeroDivisionError: integer division by zero");
          }
          for (int64_t i = begin; i < end; ++i) z[i] = Op::Apply(x[i], y[i]);
        });
      }
    });
  }

  const GraphNode& node_;
  Shape type_;
  int64_t count_;
};

std::unique_ptr<Call> MakeDivide(const Graph& graph, const GraphNode& node) {
  DType dtype = node.type().dtype();
  if (!IsIntegral(dtype) || dtype == DType::kBool) return nullptr;
  for (GraphValue input : node.inputs) {
    if (graph.TypeOf(input) != node.type()) return nullptr;
  }
  return std::make_unique<DivideCall>(graph, node);
}

constexpr CallEntry kCalls[] = {
    {&ops::kRngBits, MakeNode<RngBitsCall>},
    {&ops::kFloorDivide, MakeDivide},
    {&ops::kTruncDivide, MakeDivide},
    {&ops::kRemainder, MakeDivide},
    {&ops::kFmod, MakeDivide},
};

}  // namespace

std::span<const CallEntry> ElementCalls() { return kCalls; }

}  // namespace hammock::cpu
