// Fourier transforms against their definition, and what must hold of them.

#include <complex>
#include <numbers>

#include "hammock/autocast.h"
#include "hammock/autograd.h"
#include "hammock/error.h"
#include "hammock/testing.h"
#include "ops/expect.h"

namespace hammock {
namespace {

using C128 = std::complex<double>;
using testing::Gradcheck;
using testing::Gradgradcheck;

/// The same numbers in every run.
Tensor Numbers(const Dims& sizes, DType dtype) {
  const int64_t count = Shape(f64, sizes).numel() * (IsComplex(dtype) ? 2 : 1);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>((i + 1) * 2654435761u % 4096) / 2048.0 - 1.0);
  }
  if (!IsComplex(dtype)) return tensor(values, sizes, dtype);
  Dims pairs = sizes;
  pairs.push_back(2);
  return view_as_complex(tensor(values, pairs, RealOf(dtype)));
}

/// By the definition, in f64.
std::vector<C128> Definition(const std::vector<C128>& signal, bool forward = true) {
  const auto size = static_cast<int64_t>(signal.size());
  std::vector<C128> result;
  for (int64_t k = 0; k < size; ++k) {
    C128 sum = 0;
    for (int64_t j = 0; j < size; ++j) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % size) /
                           static_cast<double>(size) * (forward ? -1 : 1);
      sum += signal[j] * C128(std::cos(angle), std::sin(angle));
    }
    result.push_back(sum);
  }
  return result;
}

double Distance(const std::vector<C128>& a, const std::vector<C128>& b) {
  double most = a.size() == b.size() ? 0 : kInf;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

double Distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return a.numel() == 0 ? 0 : abs(a - b).max().item<double>();
}

/// Single factors, their powers, mixed ones, primes, twice a prime, sizes on both sides of a bound.
const int64_t kSizes[] = {1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,
                          15,  16,  17,  19,  23,  25,  27,  29,  31,  32,  37,  41,  48,
                          49,  60,  63,  64,  65,  74,  81,  96,  97,  99,  100, 121, 127,
                          128, 131, 144, 210, 243, 256, 257, 384, 509, 512, 625, 1000};

TEST(Fft, IsTheDefinition) {
  for (int64_t size : kSizes) {
    Tensor x = Numbers({size}, c128);
    const std::vector<C128> values = x.to_vector<C128>();
    const double bound = 1e-14 * static_cast<double>(size);
    EXPECT_LT(Distance(fft_fft(x).to_vector<C128>(), Definition(values)), bound) << size;
    Tensor back = fft_ifft(x, std::nullopt, -1, "forward");
    EXPECT_LT(Distance(back.to_vector<C128>(), Definition(values, false)), bound) << size;
    // Of a few rows at once, in either order of memory.
    Tensor rows = fft_fft(Numbers({19, size}, c64)),
           columns = fft_fft(Numbers({19, size}, c64).t(), {}, 0);
    EXPECT_EQ(Distance(rows, columns.t().contiguous()), Distance(rows, rows)) << size;
    EXPECT_LT(Distance(fft_fft(Numbers({19, size}, c128)), rows.to(c128)),
              2e-6 * static_cast<double>(size))
        << size;
  }
}

TEST(Fft, RealNumbersHaveTheSpectrumOfComplexOnes) {
  for (DType dtype : {f32, f64}) {
    const double unit = dtype == f32 ? 2e-6 : 1e-14;
    for (int64_t size : kSizes) {
      for (int64_t rows : {1, 3, 20}) {
        const double bound = unit * static_cast<double>(size);
        Tensor x = Numbers({rows, size}, dtype), z = x.to(ComplexOf(dtype));
        Tensor whole = fft_fft(z);
        Tensor half = fft_rfft(x);
        EXPECT_LT(Distance(half, whole.narrow(1, 0, size / 2 + 1)), bound) << size;
        EXPECT_LT(Distance(fft_fft(x), whole), bound) << size;
        EXPECT_LT(Distance(fft_ifft(x), fft_ifft(z)), bound) << size;
        EXPECT_LT(Distance(fft_irfft(half, size), x), bound) << size;
        EXPECT_LT(Distance(fft_rfft(x.t(), {}, 0), half.t()), bound) << size;
        EXPECT_LT(Distance(fft_irfft(half.t(), size, 0), x.t()), bound) << size;
      }
    }
  }
}

TEST(Fft, LongSignalsComeBack) {
  // Rows in parts, a prime, a row that no cache holds, several of them.
  for (int64_t size : {1 << 14, 2003, 30030, 1 << 17}) {
    for (int64_t rows : {1, 3}) {
      Tensor x = Numbers({rows, size}, c64), r = Numbers({rows, size}, f32);
      EXPECT_LT(Distance(fft_ifft(fft_fft(x)), x), 2e-5) << size;
      EXPECT_LT(Distance(fft_irfft(fft_rfft(r), size), r), 2e-5) << size;
      Tensor one = fft_fft(x).select(0, rows - 1).narrow(0, 1, 1);
      Tensor k = arange(size, f64) * (-2 * std::numbers::pi / static_cast<double>(size));
      Tensor sum = (x.select(0, rows - 1).to(c128) * complex(cos(k), sin(k))).sum();
      EXPECT_LT(Distance(one.squeeze(), sum.to(c64)), 2e-3) << size;
    }
  }
}

TEST(Fft, EnergyIsKept) {
  for (int64_t size : {12, 97, 128}) {
    Tensor x = Numbers({5, size}, c128);
    Tensor energy = (abs(x) * abs(x)).sum();
    Tensor spectrum = fft_fft(x, std::nullopt, -1, "ortho");
    EXPECT_LT(Distance((abs(spectrum) * abs(spectrum)).sum(), energy), 1e-10);
  }
}

TEST(Fft, SeveralDimsAreOneAfterTheOther) {
  Tensor x = Numbers({6, 4, 5}, c128);
  Tensor each = fft_fft(fft_fft(fft_fft(x, {}, 0), {}, 1), {}, 2);
  EXPECT_LT(Distance(fft_fftn(x), each), 1e-12);
  EXPECT_LT(Distance(fft_fft2(x), fft_fft(fft_fft(x, {}, 1), {}, 2)), 1e-12);
  EXPECT_LT(Distance(fft_ifftn(fft_fftn(x)), x), 1e-14);
  Tensor r = Numbers({6, 4, 5}, f64);
  EXPECT_LT(Distance(fft_rfftn(r), fft_fftn(r).narrow(2, 0, 3)), 1e-12);
  EXPECT_LT(Distance(fft_irfftn(fft_rfftn(r), Dims{6, 4, 5}), r), 1e-14);
  EXPECT_LT(Distance(fft_rfftn(r, {}, Dims{2, 0}), fft_fftn(r, {}, Dims{0, 2}).narrow(0, 0, 4)),
            1e-12);
  EXPECT_LT(Distance(fft_hfftn(fft_ihfftn(r), Dims{6, 4, 5}), r), 1e-13);
  EXPECT_LT(Distance(fft_ihfft2(r), conj(fft_rfft2(r)) / 20.0), 1e-14);
}

TEST(Fft, SignalsAreCutOrFollowedByZeros) {
  Tensor x = Numbers({2, 6}, c128);
  EXPECT_LT(Distance(fft_fft(x, 4), fft_fft(x.narrow(1, 0, 4))), 1e-14);
  EXPECT_LT(Distance(fft_fft(x, 9), fft_fft(constant_pad_nd(x, {0, 3}))), 1e-14);
  EXPECT_EQ(fft_irfft(x).sizes(), (Dims{2, 10}));
  EXPECT_EQ(fft_irfft(x, 7).sizes(), (Dims{2, 7}));
  EXPECT_EQ(fft_fftn(x, Dims{-1, 3}).sizes(), (Dims{2, 3}));
}

TEST(Fft, TypesFollowPyTorch) {
  EXPECT_EQ(fft_fft(ones({4}, i64)).dtype(), c64);
  EXPECT_EQ(fft_fft(ones({4}, boolean)).dtype(), c64);
  EXPECT_EQ(fft_fft(ones({4}, f64)).dtype(), c128);
  EXPECT_EQ(fft_rfft(ones({4}, u8)).dtype(), c64);
  EXPECT_EQ(fft_irfft(ones({4}, f64)).dtype(), f64);
  EXPECT_EQ(fft_hfft(ones({4}, c64)).dtype(), f32);
  EXPECT_ERROR(fft_fft(ones({4}, f16)), TypeError, "fft_fft: f16[4] is not supported");
  EXPECT_ERROR(fft_rfft(ones({4}, c64)), TypeError, "fft_rfft: needs real numbers, got c64[4]");
  AutocastGuard guard(bf16);
  EXPECT_EQ(fft_fft(ones({4}, bf16)).dtype(), c64);
}

TEST(Fft, FrequenciesAndShifts) {
  EXPECT_TENSOR(fft_fftfreq(5, 0.5), Type(f32, {5}), {0, 0.4f, 0.8f, -0.8f, -0.4f}, 1e-7);
  EXPECT_TENSOR(fft_fftfreq(4), Type(f32, {4}), {0, 0.25, -0.5, -0.25}, 1e-7);
  EXPECT_TENSOR(fft_rfftfreq(5, 1.0, f64), Type(f64, {3}), {0, 0.2, 0.4}, 1e-15);
  Tensor x = arange(5);
  EXPECT_TENSOR(fft_fftshift(x), Type(i64, {5}), {3, 4, 0, 1, 2});
  EXPECT_TENSOR(fft_ifftshift(fft_fftshift(x)), Type(i64, {5}), {0, 1, 2, 3, 4});
}

TEST(Fft, GradientsToSecondOrder) {
  Tensor z = Numbers({3, 5}, c128), r = Numbers({3, 6}, f64);
  auto check = [](const char* name, const Tensor& x, auto f) {
    TensorsFn fn = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in[0])}; };
    EXPECT_EQ(Gradcheck(fn, {x}), "") << name;
    EXPECT_EQ(Gradgradcheck(fn, {x}), "") << name;
  };
  check("fft", z, [](const Tensor& x) { return fft_fft(x, 7, 0, "ortho"); });
  check("fft of reals", r, [](const Tensor& x) { return fft_fft(x, 5); });
  check("ifftn", z, [](const Tensor& x) { return fft_ifftn(x); });
  check("rfft", r, [](const Tensor& x) { return fft_rfft(x); });
  check("rfft, odd", r, [](const Tensor& x) { return fft_rfft(x, 5); });
  check("irfft", z, [](const Tensor& x) { return fft_irfft(x); });
  check("irfft, odd", z, [](const Tensor& x) { return fft_irfft(x, 7); });
  check("irfft, square", z, [](const Tensor& x) {
    Tensor y = fft_irfft(x, 6);
    return y * y;
  });
  check("rfft2", r, [](const Tensor& x) { return fft_rfft2(x, Dims{4, 5}); });
  check("hfft", z, [](const Tensor& x) { return fft_hfft(x); });
  check("ihfft", r, [](const Tensor& x) { return fft_ihfft(x); });
  check("power", r, [](const Tensor& x) {
    Tensor y = abs(fft_rfft(x));
    return y * y;
  });
}

TEST(Fft, ConvolutionsAreProductsOfSpectra) {
  Tensor x = Numbers({2, 1, 50}, f64), kernel = Numbers({1, 1, 9}, f64);
  Tensor direct = conv1d(constant_pad_nd(x, {8, 8}), flip(kernel, {2}));
  Tensor product = fft_irfft(fft_rfft(x, 64) * fft_rfft(kernel, 64), 64).narrow(2, 0, 58);
  EXPECT_LT(Distance(product, direct), 1e-12);
}

/// The line of the call is in the error.
#define EXPECT_ERROR_HERE(statement, text)                               \
  do {                                                                   \
    const std::string here = "fft_test.cpp:" + std::to_string(__LINE__); \
    EXPECT_ERROR(statement, Error, text);                                \
    EXPECT_ERROR(statement, Error, here);                                \
  } while (false)

TEST(Fft, MistakesNameTheLineAndWhatIsWrong) {
  Tensor x = ones({3, 4}, c64);
  EXPECT_ERROR_HERE(fft_fft(x, {}, 2), "fft_fft");
  EXPECT_ERROR_HERE(fft_fft(x, 0), "a signal of 0 elements along dim 1 of c64[3,4]");
  EXPECT_ERROR_HERE(fft_fft(tensor(1.0)), "f32[] has no dimension to transform");
  EXPECT_ERROR_HERE(fft_fft(x, {}, -1, "half"), "norm must be backward, forward or ortho");
  EXPECT_ERROR_HERE(fft_fft2(x, Dims{1, 2, 3}), "s has 3 sizes and dim 2 dims");
  EXPECT_ERROR_HERE(fft_fftn(x, Dims{1, 2, 3}), "s has 3 sizes, but c64[3,4] only 2 dims");
  EXPECT_ERROR_HERE(fft_fftn(x, {}, Dims{1, 1}), "fft_fftn");
  EXPECT_ERROR_HERE(fft_rfftn(ones({3}), {}, Dims{}), "needs at least one dim");
  EXPECT_ERROR_HERE(fft_irfft(ones({3, 1}, c64)), "a signal of 0 elements");
  EXPECT_ERROR_HERE(fft_fftfreq(-1), "fft_fftfreq");
}

}  // namespace
}  // namespace hammock
