// What bodies compute: against double, long double and the reference interpreter.
#include "backends/cpu/interpret/lane_functions.h"
#include "backends/cpu/interpret/scalar_loops.h"
#include "backends/run_graph.h"
#include "compiler/scalar/scalar_kernels.h"

namespace hammock::cpu {
namespace {

/// How far `got` is from `want`, in units of the last place of T at `want`. A wrong kind of result
/// (NaN, infinity, the sign of 0) is far away; the largest number instead of infinity is one unit.
template <class T, class Wide>
double UlpsOff(T got, Wide want) {
  constexpr double kFar = 1e9;
  using Limits = std::numeric_limits<T>;
  T nearest = static_cast<T>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kFar;
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : kFar;
  if (std::isinf(got) || std::isinf(nearest)) {
    if (got == nearest) return 0;
    T finite = std::isinf(got) ? nearest : got;
    return std::abs(finite) == Limits::max() ? 1 : kFar;
  }
  int exponent;
  std::frexp(want, &exponent);
  int last = std::max(exponent - Limits::digits, Limits::min_exponent - Limits::digits);
  return static_cast<double>(std::abs(static_cast<Wide>(got) - want) / std::ldexp(Wide(1), last));
}

/// Whether there is one right answer.
bool IsExact(ScalarFn fn) { return InfoOf(fn).f32_ulps == 0; }

/// The bound of scalar_fn.inc; what is correctly rounded may differ from a double by half a unit.
double FloatBound(ScalarFn fn) { return std::max(0.51, InfoOf(fn).f32_ulps); }

/// All functions of this form with a body for f32. gelu has a bound of its own.
std::vector<ScalarFn> FloatFunctions(ScalarForm form) {
  std::vector<ScalarFn> functions = FunctionsOf(DType::kF32);
  std::erase_if(functions,
                [&](ScalarFn fn) { return FormOf(fn) != form || fn == ScalarFn::kGelu; });
  return functions;
}

void CheckFloat(ScalarFn fn, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  UnaryLoopFor(fn, DType::kF32)(x.size(), x.data(), y.data());
  LaneUnary expected = LaneUnaryFor(fn, DType::kF64);
  size_t worst = 0;
  double ulps = -1;
  for (size_t i = 0; i < x.size(); ++i) {
    double off = UlpsOff(y[i], expected(x[i]));
    if (off > ulps) {
      ulps = off;
      worst = i;
    }
  }
  EXPECT_LE(ulps, FloatBound(fn)) << fmt::format("{}({}) is {}, expected {}", NameOf(fn), x[worst],
                                                 y[worst], expected(x[worst]));
}

TEST(ScalarMath, OfFloatsIsWithinItsBounds) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 20011) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (ScalarFn fn : FloatFunctions(ScalarForm::kUnary)) CheckFloat(fn, x);
}

TEST(ScalarMath, OfSpecialFloatsIsWithinItsBounds) {
  for (ScalarFn fn : FloatFunctions(ScalarForm::kUnary)) CheckFloat(fn, SpecialFloats<float>());
}

/// Floats that lie nearest to multiples of pi/2, where all but a few bits of them cancel.
TEST(ScalarMath, OfFloatsNearMultiplesOfPiKeepsAllBits) {
  std::vector<float> x = {0x1.f9cbe2p+7f,  0x1.921fb6p+0f,  0x1.921fb6p+1f,   0x1.2d97c8p+2f,
                          0x1.f37f8cp+95f, 0x1.f3df0cp+80f, 0x1.6cbe46p+127f, 0x1.f9cbe2p+87f};
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    double turns = static_cast<double>(random());
    x.push_back(static_cast<float>(turns * 1.5707963267948966));
  }
  for (size_t i = x.size(); i-- > 0;) x.push_back(-x[i]);
  for (ScalarFn fn : {ScalarFn::kSin, ScalarFn::kCos, ScalarFn::kTan}) CheckFloat(fn, x);
}

/// Below -1 a result is about as good as its argument, of which a unit in the last place is worth
/// x^2 of the result's; far below, where results are close to 0, `floor` is not noticed beside
/// them.
template <class T, class Wide>
void CheckGelu(const std::vector<T>& x, double floor) {
  std::vector<T> y(x.size());
  UnaryLoopFor(ScalarFn::kGelu, sizeof(T) == 4 ? DType::kF32 : DType::kF64)(x.size(), x.data(),
                                                                            y.data());
  constexpr Wide kSqrtHalf = 0.70710678118654752440084436210485L;
  for (size_t i = 0; i < x.size(); ++i) {
    Wide wide = x[i], want = wide * std::erfc(-wide * kSqrtHalf) / 2;
    if (x[i] < -40) want = -0.0;
    double ulps =
        sizeof(T) == 4 ? InfoOf(ScalarFn::kGelu).f32_ulps : InfoOf(ScalarFn::kGelu).f64_ulps;
    if (x[i] < -1) ulps += 2 * static_cast<double>(wide * wide);
    bool agrees = UlpsOff(y[i], want) <= ulps || std::abs(y[i] - want) <= floor;
    ASSERT_TRUE(agrees) << fmt::format("gelu({}) is {}, expected {}", x[i], y[i],
                                       static_cast<double>(want));
  }
}

TEST(ScalarMath, OfGeluIsAsGoodAsItsArgument) {
  std::vector<float> floats = SpecialFloats<float>();
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 3001) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  CheckGelu<float, double>(floats, 0x1p-35);
  std::vector<double> doubles = SampleOf<double>(100000, 1);
  for (double x = -38; x < 9; x += 0.00037) doubles.push_back(x);
  CheckGelu<double, long double>(doubles, 0x1p-1030);
}

TEST(ScalarMath, OfTwoFloatsIsWithinItsBounds) {
  std::vector<float> x, y;
  SamplePairs<float>(DType::kF32, 300000, x, y);
  for (ScalarFn fn : FloatFunctions(ScalarForm::kBinary)) {
    if (IsExact(fn)) continue;
    std::vector<float> z(x.size());
    BinaryLoopFor(fn, DType::kF32)(x.size(), x.data(), y.data(), z.data());
    LaneBinary expected = LaneBinaryFor(fn, DType::kF64);
    for (size_t i = 0; i < x.size(); ++i) {
      double want = expected(x[i], y[i]);
      // Far below all floats: 0 of that sign.
      if (std::abs(want) < 0x1p-200) want = std::copysign(0.0, want);
      ASSERT_LE(UlpsOff(z[i], want), FloatBound(fn))
          << fmt::format("{}({}, {}) is {}, expected {}", NameOf(fn), x[i], y[i], z[i], want);
    }
  }
}

/// What a function of doubles is held against.
struct Expected {
  ScalarFn fn;
  long double (*unary)(long double) = nullptr;
  long double (*binary)(long double, long double) = nullptr;
};

const Expected kExpected[] = {
    {ScalarFn::kRsqrt, [](long double x) { return 1 / std::sqrt(x); }},
    {ScalarFn::kExp, [](long double x) { return std::exp(x); }},
    {ScalarFn::kExp2, [](long double x) { return std::exp2(x); }},
    {ScalarFn::kExpm1, [](long double x) { return std::expm1(x); }},
    {ScalarFn::kLog, [](long double x) { return std::log(x); }},
    {ScalarFn::kLog2, [](long double x) { return std::log2(x); }},
    {ScalarFn::kLog10, [](long double x) { return std::log10(x); }},
    {ScalarFn::kLog1p, [](long double x) { return std::log1p(x); }},
    {ScalarFn::kSin, [](long double x) { return std::sin(x); }},
    {ScalarFn::kCos, [](long double x) { return std::cos(x); }},
    {ScalarFn::kTan, [](long double x) { return std::tan(x); }},
    {ScalarFn::kAsin, [](long double x) { return std::asin(x); }},
    {ScalarFn::kAcos, [](long double x) { return std::acos(x); }},
    {ScalarFn::kAtan, [](long double x) { return std::atan(x); }},
    {ScalarFn::kSinh, [](long double x) { return std::sinh(x); }},
    {ScalarFn::kCosh, [](long double x) { return std::cosh(x); }},
    {ScalarFn::kTanh, [](long double x) { return std::tanh(x); }},
    {ScalarFn::kAsinh, [](long double x) { return std::asinh(x); }},
    {ScalarFn::kAcosh, [](long double x) { return std::acosh(x); }},
    {ScalarFn::kAtanh, [](long double x) { return std::atanh(x); }},
    {ScalarFn::kErf, [](long double x) { return std::erf(x); }},
    {ScalarFn::kErfc, [](long double x) { return std::erfc(x); }},
    {ScalarFn::kSigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }},
    {ScalarFn::kPow, nullptr, [](long double x, long double y) { return std::pow(x, y); }},
    {ScalarFn::kAtan2, nullptr, [](long double y, long double x) { return std::atan2(y, x); }},
    {ScalarFn::kHypot, nullptr, [](long double x, long double y) { return std::hypot(x, y); }},
};

TEST(ScalarMath, OfDoublesIsHeldAgainstSomething) {
  for (ScalarFn fn : FunctionsOf(DType::kF64)) {
    if (IsExact(fn) || fn == ScalarFn::kGelu) continue;
    bool found = std::ranges::any_of(kExpected, [&](const Expected& e) { return e.fn == fn; });
    EXPECT_TRUE(found) << NameOf(fn) << " needs a line in kExpected";
  }
}

TEST(ScalarMath, OfDoublesIsWithinItsBounds) {
  std::vector<double> x = SampleOf<double>(100000, 1);
  for (const auto& [fn, expected, binary] : kExpected) {
    if (!expected) continue;
    std::vector<double> y(x.size());
    UnaryLoopFor(fn, DType::kF64)(x.size(), x.data(), y.data());
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double off = UlpsOff(y[i], expected(x[i]));
      worst = std::max(worst, off);
      ASSERT_LE(off, InfoOf(fn).f64_ulps) << fmt::format("{}({}) is {}", NameOf(fn), x[i], y[i]);
    }
    RecordProperty(std::string(NameOf(fn)), fmt::format("{:.3f}", worst));
  }
}

/// Doubles near multiples of pi/2, and the one that is nearest of all.
TEST(ScalarMath, OfDoublesNearMultiplesOfPiKeepsAllBits) {
  std::vector<double> x = {0x1.6ac5b262ca1ffp+849,
                           0x1.921fb54442d18p+0,
                           0x1.921fb54442d18p+1,
                           0x1.2d97c7f3321d2p+2,
                           0x1p25,
                           0x1.fffffffffffffp+24,
                           0x1p1023};
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    auto turns = static_cast<long double>(random() >> (random() % 60));
    x.push_back(static_cast<double>(turns * 1.57079632679489661923L));
  }
  for (size_t i = x.size(); i-- > 0;) x.push_back(-x[i]);
  for (const auto& [fn, expected, binary] : kExpected) {
    if (fn != ScalarFn::kSin && fn != ScalarFn::kCos && fn != ScalarFn::kTan) continue;
    std::vector<double> y(x.size());
    UnaryLoopFor(fn, DType::kF64)(x.size(), x.data(), y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(UlpsOff(y[i], expected(x[i])), InfoOf(fn).f64_ulps)
          << fmt::format("{}({:a}) is {}", NameOf(fn), x[i], y[i]);
    }
  }
}

TEST(ScalarMath, OfTwoDoublesIsWithinItsBounds) {
  std::vector<double> x, y;
  SamplePairs<double>(DType::kF64, 100000, x, y);
  for (size_t i = 0; i < x.size(); i += 3) {  // powers that are neither 0 nor infinite
    if (std::isfinite(y[i])) y[i] = std::fmod(y[i], 300);
    if (i % 2 && std::isfinite(x[i])) x[i] = std::fabs(std::fmod(x[i], 3));
  }
  for (const auto& [fn, unary, expected] : kExpected) {
    if (!expected) continue;
    std::vector<double> z(x.size());
    BinaryLoopFor(fn, DType::kF64)(x.size(), x.data(), y.data(), z.data());
    for (size_t i = 0; i < x.size(); ++i) {
      long double want = expected(x[i], y[i]);
      // Far below all doubles: 0 of that sign.
      if (std::abs(want) < 0x1p-1080L) want = std::copysign(0.0L, want);
      ASSERT_LE(UlpsOff(z[i], want), InfoOf(fn).f64_ulps)
          << fmt::format("{}({}, {}) is {}", NameOf(fn), x[i], y[i], z[i]);
    }
  }
}

/// Counts it in `compared`, unless the reference has no such function of this dtype.
template <class T>
void CompareWithReference(ScalarFn fn, DType dtype, std::vector<T> x, std::vector<T> y,
                          int& compared) {
  std::string_view op = NameOf(fn);
  if (DividesIntegers(fn, dtype)) {
    for (T& value : y) value = value == 0 ? T(1) : value;
  }
  Shape shape(dtype, {static_cast<int64_t>(x.size())});
  HostTensor a(shape), b(shape);
  std::memcpy(a.mutable_data(), x.data(), x.size() * sizeof(T));
  std::memcpy(b.mutable_data(), y.data(), y.size() * sizeof(T));
  HostTensor expected;
  try {
    expected = IsBinary(fn) ? Eval(op, {a, b}) : Eval(op, {a});
  } catch (const Error&) {
    return;
  }
  HostTensor result(expected.shape());
  if (IsBinary(fn)) {
    BinaryLoopFor(fn, dtype)(x.size(), x.data(), y.data(), result.mutable_data());
  } else {
    UnaryLoopFor(fn, dtype)(x.size(), x.data(), result.mutable_data());
  }
  EXPECT_TENSOR(result, expected) << op;
  ++compared;
}

TEST(ScalarBodies, AreThoseOfTheReference) {
  int compared = 0;
  for (DType dtype : kBodyTypes) {
    VisitBodyType(dtype, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> x, y;
      SamplePairs<T>(dtype, 3000, x, y);
      for (ScalarFn fn : FunctionsOf(dtype)) {
        if (IsExact(fn) || !std::floating_point<T>) CompareWithReference(fn, dtype, x, y, compared);
      }
    });
  }
  EXPECT_GT(compared, 100);
}

TEST(ScalarBodies, OfAllPairsOfBytesAreThoseOfTheReference) {
  std::vector<int8_t> x, y;
  for (int i = 0; i < 0x10000; ++i) {
    x.push_back(static_cast<int8_t>(i));
    y.push_back(static_cast<int8_t>(i >> 8));
  }
  int compared = 0;
  for (ScalarFn fn : FunctionsOf(DType::kI8)) CompareWithReference(fn, DType::kI8, x, y, compared);
  EXPECT_GT(compared, 10);
}

TEST(ScalarBodies, NeverTrap) {
  std::vector<int32_t> x = {5, std::numeric_limits<int32_t>::min(), 0, -7}, y = {0, -1, 0, 0};
  std::vector<int32_t> z(4);
  for (ScalarFn fn : FunctionsOf(DType::kI32)) {
    if (DividesIntegers(fn, DType::kI32))
      BinaryLoopFor(fn, DType::kI32)(4, x.data(), y.data(), z.data());
  }
  BinaryLoopFor(ScalarFn::kTruncDivide, DType::kI32)(4, x.data(), y.data(), z.data());
  EXPECT_EQ(z[1], std::numeric_limits<int32_t>::min());
}

}  // namespace
}  // namespace hammock::cpu
