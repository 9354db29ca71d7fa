// Interpreted and compiled bodies give the same bits.
#include "backends/cpu/compiled.h"
#include "backends/cpu/emit/llvm_number.h"
#include "backends/cpu/host/cpu_features.h"
#include "backends/cpu/interpret/scalar_loops.h"
#include "compiler/scalar/scalar_kernels.h"
#include "hammock/ir/half.h"

namespace hammock::cpu {
namespace {

class ScalarBits : public Compiled {};

/// The first element where the bits differ and not both are NaN; -1 if there is none.
template <class T>
int64_t FirstDifference(const std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0 && !(a[i] != a[i] && b[i] != b[i])) return i;
  }
  return -1;
}

template <class T, class Out>
void ExpectSameBits(ScalarFn fn, DType dtype, CompiledLoop* code, const std::vector<T>& x,
                    const std::vector<T>& y) {
  std::vector<Out> interpreted(x.size()), compiled(x.size());
  int64_t count = static_cast<int64_t>(x.size());
  if (IsBinary(fn)) {
    BinaryLoopFor(fn, dtype)(count, x.data(), y.data(), interpreted.data());
  } else {
    UnaryLoopFor(fn, dtype)(count, x.data(), interpreted.data());
  }
  code(count, x.data(), y.data(), compiled.data());
  int64_t i = FirstDifference(interpreted, compiled);
  if (i < 0) return;
  ADD_FAILURE() << fmt::format("{} {} of {} and {}: {} interpreted, {} compiled", NameOf(dtype),
                               NameOf(fn), x[i], y[i], interpreted[i], compiled[i]);
}

void CompareAll(DType dtype, int lanes, size_t count, const CompileOptions& options = {}) {
  std::unique_ptr<LoadedCode> code = CompileBodies(dtype, lanes, options);
  VisitBodyType(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> x, y;
    SamplePairs<T>(dtype, count, x, y);
    for (ScalarFn fn : FunctionsOf(dtype)) {
      auto* loop = code->Function<CompiledLoop>(LoopName(fn));
      if (IsTruth(fn)) {
        ExpectSameBits<T, uint8_t>(fn, dtype, loop, x, y);
      } else {
        ExpectSameBits<T, T>(fn, dtype, loop, x, y);
      }
    }
  });
}

TEST_F(ScalarBits, AreTheSameInVectors) {
  for (DType dtype : kBodyTypes) {
    CompareAll(dtype, dtype == DType::kF64 ? 8 : 16, IsFloat(dtype) ? 100000 : 20000);
  }
}

/// Longer than those of the processor, as loops with short bodies have them.
TEST_F(ScalarBits, AreTheSameInLongVectors) {
  for (DType dtype : {DType::kI32, DType::kF32, DType::kF64}) {
    CompareAll(dtype, dtype == DType::kF64 ? 16 : 32, 10000);
  }
  CompareAll(DType::kF32, 64, 10000);
}

TEST_F(ScalarBits, AreTheSameInScalars) {
  for (DType dtype : {DType::kI8, DType::kF32, DType::kF64}) CompareAll(dtype, 1, 5000);
}

#if defined(__x86_64__)
TEST_F(ScalarBits, AreTheSameOnProcessorsWithShorterVectors) {
  if (HostFeatures().processor == Processor::kPlain) GTEST_SKIP() << "no AVX2 here";
  for (DType dtype : {DType::kI16, DType::kI64, DType::kF32, DType::kF64}) {
    CompareAll(dtype, 8, 10000, {.cpu = "x86-64-v3"});
  }
}
#endif

/// All of LLVM's passes know the same rules.
TEST_F(ScalarBits, AreTheSameWithAllPasses) {
  for (DType dtype : {DType::kI32, DType::kF32, DType::kF64}) {
    CompareAll(dtype, 16, 10000, {.effort = Effort::kFull});
  }
}

/// Floats around every 16-bit float: itself, the ties to its neighbours, and their neighbours.
template <class Float16>
std::vector<float> AroundAll() {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float x = Float16::FromBits(static_cast<uint16_t>(bits));
    float next = Float16::FromBits(static_cast<uint16_t>(bits + 1));
    float tie = x + (next - x) / 2;
    if (!std::isfinite(next))
      tie = x + (x - Float16::FromBits(static_cast<uint16_t>(bits - 1))) / 2;
    for (float y : {x, tie}) {
      values.insert(values.end(), {y, std::nextafterf(y, -INFINITY), std::nextafterf(y, INFINITY)});
    }
  }
  while (values.size() % 16) values.push_back(0);
  return values;
}

template <class Float16>
std::vector<uint16_t> AllBits() {
  std::vector<uint16_t> bits(0x10000);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  return bits;
}

template <class Float16>
void CheckRounding(DType dtype) {
  std::vector<float> x = AroundAll<Float16>();
  std::vector<uint16_t> rounded(x.size());
  RoundLoopFor(dtype)(x.size(), x.data(), rounded.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(rounded[i], Float16(x[i]).bits) << NameOf(dtype) << " of " << x[i];
  }
  std::vector<uint16_t> bits = AllBits<Float16>();
  std::vector<float> wide(bits.size());
  WidenLoopFor(dtype)(bits.size(), bits.data(), wide.data());
  for (size_t i = 0; i < bits.size(); ++i) {
    float expected = Float16::FromBits(bits[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide[i])) << bits[i];
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(expected)) << bits[i];
    }
  }
}

TEST(ScalarRounding, To16BitsIsThatOfHalfAndBFloat16) {
  CheckRounding<Half>(DType::kF16);
  CheckRounding<BFloat16>(DType::kBF16);
}

TEST_F(ScalarBits, AreTheSameInRoundingTo16Bits) {
  compiler::IrText ir;
  constexpr int kLanes = 16;
  auto real = [&](const std::string& x) { return compiler::IrNumber<float>{&ir, kLanes, x}; };
  auto bits = [&](const std::string& x) { return compiler::IrNumber<uint16_t>{&ir, kLanes, x}; };
  auto print = [&](const char* name, std::string_view in, std::string_view out, auto body) {
    PrintLoop(ir, name, kLanes, in, out,
              [&](const std::string& x, const std::string&) { return body(x).name; });
  };
  print("round_f16", "float", "i16", [&](auto& x) { return compiler::ToHalfBits(real(x)); });
  print("round_bf16", "float", "i16", [&](auto& x) { return compiler::ToBFloat16Bits(real(x)); });
  print("widen_f16", "i16", "float", [&](auto& x) { return compiler::FromHalfBits(bits(x)); });
  print("widen_bf16", "i16", "float", [&](auto& x) { return compiler::FromBFloat16Bits(bits(x)); });
  LoadedCode code(LinkObject(LlvmCompiler::Get().Compile(ir.Module())));
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<float> x = dtype == DType::kF16 ? AroundAll<Half>() : AroundAll<BFloat16>();
    std::vector<uint16_t> interpreted(x.size()), compiled(x.size());
    RoundLoopFor(dtype)(x.size(), x.data(), interpreted.data());
    code.Function<CompiledLoop>(fmt::format("round_{}", NameOf(dtype)))(x.size(), x.data(),
                                                                        x.data(), compiled.data());
    EXPECT_EQ(interpreted, compiled) << NameOf(dtype);

    std::vector<uint16_t> all = AllBits<Half>();
    std::vector<uint32_t> wide(all.size()), compiled_wide(all.size());
    WidenLoopFor(dtype)(all.size(), all.data(), wide.data());
    code.Function<CompiledLoop>(fmt::format("widen_{}", NameOf(dtype)))(
        all.size(), all.data(), all.data(), compiled_wide.data());
    EXPECT_EQ(wide, compiled_wide) << NameOf(dtype);
  }
}

}  // namespace
}  // namespace hammock::cpu
