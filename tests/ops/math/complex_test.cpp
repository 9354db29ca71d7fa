#include <complex>
#include <sstream>

#include "hammock/autograd.h"
#include "hammock/config.h"
#include "hammock/error.h"
#include "hammock/io/npz.h"
#include "hammock/testing.h"
#include "ops/expect.h"

namespace hammock {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;
constexpr C128 kI(0, 1);

Tensor Complex(const std::vector<C128>& values, DType dtype = c128) {
  return tensor(values, dtype);
}

::testing::AssertionResult IsComplexTensor(const Tensor& x, const Shape& type,
                                           const std::vector<C128>& expected, double tolerance) {
  std::vector<double> parts;
  for (C128 value : expected) parts.insert(parts.end(), {value.real(), value.imag()});
  if (x.shape() != type) {
    return ::testing::AssertionFailure()
           << "is " << x.shape().to_string() << ", expected " << type.to_string();
  }
  Dims sizes = type.sizes();
  sizes.push_back(2);
  return IsTensor(view_as_real(x.contiguous()), Shape(RealOf(type.dtype()), sizes), parts,
                  tolerance);
}
#define EXPECT_COMPLEX(x, ...) EXPECT_TRUE(IsComplexTensor(x, __VA_ARGS__)) << #x

TEST(Complex, DataGoesInAndOut) {
  std::vector<C64> values = {{1, 2}, {-3, 0.5}};
  Tensor x = tensor(values);
  EXPECT_EQ(x.dtype(), c64);
  EXPECT_TRUE(x.is_complex());
  EXPECT_EQ(x.to_vector<C64>(), values);
  EXPECT_EQ(x[1].item<C128>(), C128(-3, 0.5));
  EXPECT_EQ(tensor(kI).dtype(), c64);
  EXPECT_EQ(tensor({C128(1, 2), C128(3, 0)}).dtype(), c64);
  EXPECT_EQ(full({2}, kI).dtype(), c64);
  EXPECT_ERROR(x[0].item<double>(), ValueError, "imaginary part");
  EXPECT_EQ(tensor(C128(4, 0), c128).item<double>(), 4);
}

TEST(Complex, PrintsAsPyTorchDoes) {
  std::ostringstream out;
  out << tensor(std::vector<C64>{{1, 2}, {-3, -0.5}});
  EXPECT_EQ(out.str(), "[ 1.+2.0000j, -3.-0.5000j] : c64[2]");
}

TEST(Complex, ScalarsPromoteByCategory) {
  EXPECT_EQ((ones({2}, f32) * kI).dtype(), c64);
  EXPECT_EQ((ones({2}, f64) * kI).dtype(), c128);
  EXPECT_EQ((ones({2}, i64) * kI).dtype(), c64);
  EXPECT_EQ((ones({2}, c64) * 2.0).dtype(), c64);
  EXPECT_EQ((ones({2}, c64) * ones({2}, f64)).dtype(), c128);
  EXPECT_EQ((ones({2}, c64) * ones({}, f64)).dtype(), c64);
  EXPECT_EQ((ones({2}, f64) * ones({}, c64)).dtype(), c128);
  EXPECT_EQ((ones({2}, f32) * ones({}, c128)).dtype(), c64);
  EXPECT_EQ((kI * ones({2})).dtype(), c64);
}

TEST(Complex, Arithmetic) {
  Tensor a = Complex({{1, 2}, {3, -1}}), b = Complex({{0, 1}, {2, 2}});
  EXPECT_COMPLEX(a + b, Type(c128, {2}), {{1, 3}, {5, 1}}, 0);
  EXPECT_COMPLEX(a * b, Type(c128, {2}), {{-2, 1}, {8, 4}}, 0);
  EXPECT_COMPLEX(a / b, Type(c128, {2}), {{2, -1}, {0.5, -1}}, 1e-15);
  EXPECT_COMPLEX(conj(a), Type(c128, {2}), {{1, -2}, {3, 1}}, 0);
  EXPECT_TENSOR(abs(Complex({{3, 4}})), Type(f64, {1}), {5});
  EXPECT_TENSOR(a == Complex({{1, 2}, {3, 1}}), Type(boolean, {2}), {1, 0});
  EXPECT_COMPLEX(-a, Type(c128, {2}), {{-1, -2}, {-3, 1}}, 0);
}

TEST(Complex, NonzeroElementsHaveSomePart) {
  Tensor x = Complex({0, kI, 1, 0.0 * kI}, c64);
  EXPECT_TRUE(IsTensor(x.nonzero(), Shape(i64, {2, 1}), {1, 2}, 0));
  Tensor bounded = CallOp("nonzero_bounded", {x, 3}).ToTensor();
  EXPECT_TRUE(IsTensor(bounded, Shape(i64, {3, 1}), {1, 2, -1}, 0));
}

TEST(Complex, WhatHasNoMeaningIsRefusedByName) {
  Tensor z = Complex({{1, 2}});
  EXPECT_ERROR(lt(z, z), TypeError, "lt: complex numbers are not supported");
  EXPECT_ERROR(floor(z), TypeError, "floor: complex numbers are not supported");
  EXPECT_ERROR(relu(z), TypeError, "relu");
  EXPECT_ERROR(sort(z), TypeError, "sort");
  EXPECT_ERROR(imag(ones({2})), TypeError, "needs a complex dtype");
  Tensor real = ones({2});
  EXPECT_ERROR(real.mul_(kI), TypeError, "cannot be stored in f32");
}

TEST(Complex, PartsAreViews) {
  Tensor z = Complex({{1, 2}, {3, 4}});
  z.real().fill_(7);
  z.imag()[1].fill_(-1);
  EXPECT_COMPLEX(z, Type(c128, {2}), {{7, 2}, {7, -1}}, 0);
  EXPECT_EQ(z.imag().strides(), Dims({2}));
  EXPECT_EQ(z.imag().storage_offset(), 1);
  Tensor pairs = view_as_real(z);
  EXPECT_EQ(pairs.sizes(), Dims({2, 2}));
  pairs.select(1, 0).fill_(0);
  EXPECT_COMPLEX(z, Type(c128, {2}), {{0, 2}, {0, -1}}, 0);
  Tensor flat = arange(8, f64).view({2, 2, 2});
  view_as_complex(flat).mul_(kI);
  EXPECT_TENSOR(flat, Type(f64, {2, 2, 2}), {-1, 0, -3, 2, -5, 4, -7, 6});
  EXPECT_ERROR(view_as_complex(arange(6, f32).view({2, 3})), ValueError, "last dim of size 2");
}

TEST(Complex, ExtremesOfTheDoubleRange) {
  Tensor big = Complex({{1e200, 1e200}});
  EXPECT_COMPLEX(big / big, Type(c128, {1}), {{1, 0}}, 1e-15);
  EXPECT_COMPLEX(sqrt(Complex({{-4, 0.0}, {-4, -0.0}})), Type(c128, {2}), {{0, 2}, {0, -2}}, 1e-15);
  EXPECT_COMPLEX(log(Complex({{1, 1e-9}})), Type(c128, {1}), {{5e-19, 1e-9}}, 1e-24);
  EXPECT_COMPLEX(exp(Complex({{1000, 0.0}})), Type(c128, {1}), {{kInf, 0}}, 0);
}

TEST(Complex, GradientsAreConjugate) {
  Tensor z = Complex({{1, 2}}).requires_grad_();
  sum(abs(z * z)).backward();  // |z|^2: 2 z
  EXPECT_COMPLEX(z.grad(), Type(c128, {1}), {{2 * 1.0, 2 * 2.0}}, 1e-12);
  Tensor x = Vec({0.5}, f64).requires_grad_();
  real(exp(x * kI)).sum().backward();  // cos: the gradient of a real number is real
  EXPECT_TENSOR(x.grad(), Type(f64, {1}), {-std::sin(0.5)}, 1e-12);
  EXPECT_ERROR(sum(z * z).backward(), ValueError, "real tensors of one element");
}

std::vector<Tensor> Points() { return {Complex({{0.3, 0.4}, {-0.6, 0.2}, {0.5, -0.7}}).view({3})}; }

TEST(Complex, GradcheckOfFunctionsToSecondOrder) {
  using Fn = Tensor (*)(const Tensor&, Location);
  const std::pair<const char*, Fn> functions[] = {
      {"exp", exp},     {"log", log},     {"sqrt", sqrt},       {"sin", sin},
      {"cos", cos},     {"tan", tan},     {"tanh", tanh},       {"asin", asin},
      {"acos", acos},   {"atan", atan},   {"asinh", asinh},     {"acosh", acosh},
      {"atanh", atanh}, {"abs", abs},     {"sgn", sgn},         {"angle", angle},
      {"conj", conj},   {"rsqrt", rsqrt}, {"sigmoid", sigmoid}, {"sinh", sinh},
      {"cosh", cosh},   {"log1p", log1p}, {"expm1", expm1},     {"reciprocal", reciprocal}};
  for (auto [name, fn] : functions) {
    auto call = [fn = fn](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{fn(in[0], Location::current())};
    };
    EXPECT_EQ(testing::Gradcheck(call, Points()), "") << name;
    EXPECT_EQ(testing::Gradgradcheck(call, Points(), {1e-5, 1e-4, 1e-3}), "") << name;
  }
}

TEST(Complex, GradcheckOfReductionsProductsAndParts) {
  const std::pair<const char*, TensorsFn> cases[] = {
      {"prod", [](auto& in) { return std::vector<Tensor>{prod(in[0])}; }},
      {"cumprod", [](auto& in) { return std::vector<Tensor>{cumprod(in[0], 0)}; }},
      {"var", [](auto& in) { return std::vector<Tensor>{var(in[0])}; }},
      {"norm3", [](auto& in) { return std::vector<Tensor>{norm(in[0], 3)}; }},
      {"pow", [](auto& in) { return std::vector<Tensor>{pow(in[0], conj(in[0]))}; }},
      {"polar",
       [](auto& in) { return std::vector<Tensor>{polar(abs(in[0]), angle(in[0]) * 2.0)}; }},
      {"views",
       [](auto& in) {
         Tensor pairs = view_as_real(in[0]);
         return std::vector<Tensor>{view_as_complex(pairs * pairs), real(in[0]) * imag(in[0])};
       }},
      {"matmul",
       [](auto& in) {
         Tensor m = outer(in[0], in[0]);
         return std::vector<Tensor>{matmul(m, conj(in[0])), vdot(in[0], exp(in[0]))};
       }},
      {"mixed",
       [](auto& in) {
         Tensor x = real(in[0]);
         return std::vector<Tensor>{where(gt(x, 0), in[0], in[0] * x)};
       }},
  };
  for (const auto& [name, call] : cases) {
    EXPECT_EQ(testing::Gradcheck(call, Points()), "") << name;
    EXPECT_EQ(testing::Gradgradcheck(call, Points(), {1e-5, 1e-4, 1e-3}), "") << name;
  }
}

Tensor Matrix(int64_t rows, int64_t columns, int64_t seed) {
  Tensor angle = arange(rows * columns, f64) * (1.7 + static_cast<double>(seed));
  return complex(sin(angle * 3.1 + 1.0), cos(angle * angle)).view({rows, columns});
}

double Largest(const Tensor& x) { return amax(abs(x)).item<double>(); }

TEST(Complex, FactorsMultiplyToTheMatrix) {
  for (bool lapack : {true, false}) {
    config::Set("reference.lapack", lapack ? "true" : "false");
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{4, 4}, {5, 3}, {3, 5}}) {
      Tensor a = Matrix(rows, columns, rows);
      auto [u, s, vh] = linalg_svd(a, false);
      EXPECT_EQ(s.dtype(), f64);
      EXPECT_LT(Largest(matmul(u * s, vh) - a), 1e-13);
      EXPECT_LT(Largest(matmul(u.mH(), u) - eye(s.size(0), c128)), 1e-13);
      auto [q, r] = linalg_qr(a);
      EXPECT_LT(Largest(matmul(q, r) - a), 1e-13);
      auto [full_u, full_s, full_vh] = linalg_svd(a, true);
      EXPECT_LT(Largest(matmul(full_u.mH(), full_u) - eye(rows, c128)), 1e-13);
      EXPECT_LT(Largest(matmul(full_vh, full_vh.mH()) - eye(columns, c128)), 1e-13);
    }
    Tensor a = Matrix(4, 4, 9);
    Tensor hermitian = a + a.mH();
    auto [values, vectors] = linalg_eigh(hermitian);
    EXPECT_EQ(values.dtype(), f64);
    EXPECT_LT(Largest(matmul(vectors * values, vectors.mH()) - hermitian), 1e-13);
    Tensor positive = matmul(a, a.mH()) + eye(4, c128);
    Tensor l = linalg_cholesky(positive);
    EXPECT_LT(Largest(matmul(l, l.mH()) - positive), 1e-13);
    Tensor up = linalg_cholesky(positive, true);
    EXPECT_LT(Largest(matmul(up.mH(), up) - positive), 1e-13);
    EXPECT_LT(Largest(matmul(a, linalg_inv(a)) - eye(4, c128)), 1e-12);
  }
  config::Set("reference.lapack", "true");
}

TEST(Complex, GradcheckOfFactors) {
  Tensor a = Matrix(3, 3, 4);
  const std::pair<const char*, TensorsFn> cases[] = {
      {"solve", [](auto& in) { return std::vector<Tensor>{linalg_solve(in[0], in[0] * 2.0)}; }},
      {"inv", [](auto& in) { return std::vector<Tensor>{linalg_inv(in[0])}; }},
      {"det", [](auto& in) { return std::vector<Tensor>{linalg_det(in[0])}; }},
      {"cholesky",
       [](auto& in) {
         return std::vector<Tensor>{linalg_cholesky(matmul(in[0], in[0].mH()) + eye(3, c128))};
       }},
      {"qr",
       [](auto& in) {
         auto [q, r] = linalg_qr(in[0]);
         return std::vector<Tensor>{q, r};
       }},
      {"eigh",
       [](auto& in) {  // what does not depend on the phases of vectors
         auto [values, vectors] = linalg_eigh(in[0] + in[0].mH());
         return std::vector<Tensor>{values, abs(vectors)};
       }},
      {"svd",
       [](auto& in) {
         auto [u, s, vh] = linalg_svd(in[0], false);
         return std::vector<Tensor>{s, abs(u), abs(vh), matmul(u, vh)};
       }},
  };
  for (const auto& [name, call] : cases) {
    EXPECT_EQ(testing::Gradcheck(call, {a}, {1e-6, 1e-5, 1e-4}), "") << name;
  }
}

TEST(Complex, RandomNumbersHaveAVarianceOfOne) {
  manual_seed(3);
  Tensor z = randn({20000}, c64);
  EXPECT_EQ(z.dtype(), c64);
  EXPECT_NEAR(var(z).item<double>(), 1, 0.03);
  EXPECT_NEAR(var(real(z)).item<double>(), 0.5, 0.02);
  Tensor u = rand({1000}, c128);
  EXPECT_GE(amin(view_as_real(u)).item<double>(), 0);
  EXPECT_LT(amax(view_as_real(u)).item<double>(), 1);
  EXPECT_EQ(randn_like(z).dtype(), c64);
}

TEST(Complex, GraphsKeepComplexConstants) {
  Tensor x = ones({3}, c64);
  EXPECT_COMPLEX(pow(x * kI, C128(2, 0)), Type(c64, {3}), {{-1, 0}, {-1, 0}, {-1, 0}}, 1e-6);
  int64_t before = Compiles();
  Tensor a = x * C128(1, 2);
  a.host();
  int64_t after_one = Compiles();
  Tensor b = x * C128(3, -1);  // a number is a parameter
  b.host();
  EXPECT_EQ(Compiles(), after_one);
  EXPECT_COMPLEX(b, Type(c64, {3}), {{3, -1}, {3, -1}, {3, -1}}, 0);
  EXPECT_LE(after_one, before + 1);
}

}  // namespace
}  // namespace hammock
