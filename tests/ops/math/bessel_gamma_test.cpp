#include "hammock/error.h"

#include <cmath>
#include <limits>
#include <string>

#include "hammock/ir/graph.h"
#include "hammock/testing.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(BesselGamma, BesselFunctionsAtKnownPoints) {
  EXPECT_TENSOR(i0(Vec({0, 1, -1}, f64)), Type(f64, {3}),
                {1, 1.2660658777520082, 1.2660658777520082}, 1e-14);
  EXPECT_TENSOR(i1(Vec({0, 1, -1}, f64)), Type(f64, {3}),
                {0, 0.5651591039924851, -0.5651591039924851}, 1e-14);
  // Both series meet at 30.
  for (Tensor (*f)(const Tensor&, Location) : {i0e, i1e}) {
    Tensor ends = f(Vec({29.999999, 30.000001}, f64), Location::current());
    auto values = ends.to_vector<double>();
    EXPECT_NEAR(values[0] / values[1], 1, 1e-7);
  }
  EXPECT_TENSOR(i0e(Vec({30}, f64)), Type(f64, {1}), {0.0731459464822373}, 1e-15);
  EXPECT_TENSOR(i0e(Vec({kInf, kNan})), Type(f32, {2}), {0, kNan});
  EXPECT_TENSOR(i0(Vec({3}, i64)), Type(f32, {1}), {4.880792585865024}, 1e-5);
  EXPECT_TENSOR(CallOp("special_i1e", {Any(Vec({0}))}).ToTensor(), Type(f32, {1}), {0});
}

/// Numbers of mpmath with 30 digits, on both sides of where the approximations meet.
TEST(BesselGamma, BesselFunctionsOfBothKinds) {
  const std::vector<double> points = {0.001, 0.5, 1.9, 2.1, 4.9, 5.1, 11.5, 123.25};
  struct Expected {
    const char* op;
    std::vector<double> values;
  };
  const Expected all[] = {
      {"bessel_j0",
       {0.99999975000001562, 0.9384698072408129, 0.28181855937438552, 0.16660698033199028,
        -0.2097383275853262, -0.14433474706050064, -0.067653948111665228, -0.071746479818009126}},
      {"bessel_j1",
       {0.00049999993750000261, 0.24226845767487389, 0.58115707271343407, 0.56829213575703866,
        -0.31469467101519065, -0.33709720201823181, -0.22837862066532347, 0.0039128008262521357}},
      {"bessel_y0",
       {-4.4714166113759233, -0.44451873350670656, 0.49681997128382019, 0.51829373751376073,
        -0.29205459424401422, -0.32160244912485942, -0.22523211169118787, 0.0042038222183438658}},
      {"bessel_y1",
       {-636.62216723113941, -1.4714723926702431, -0.16440577233159531, -0.051678612130423534,
        0.18124669204504856, 0.11373644197749973, 0.057942547143000822, 0.071764123909163022}},
      {"modified_bessel_k0",
       {7.0236888005623813, 0.92441907122766586, 0.12884597927604749, 0.10078374088996693,
        0.0041189362355158872, 0.0033083102180174656, 3.7050381659564215e-6,
        3.3529948854883194e-55}},
      {"modified_bessel_k1",
       {999.99623815608555, 1.6564411200033009, 0.15966015303266763, 0.1227464115335079,
        0.0045211691772998367, 0.0036191814623177998, 3.862894146160998e-6, 3.366569928786582e-55}},
      {"scaled_modified_bessel_k0",
       {7.0307160023782515, 1.5241093857739095, 0.86145061675175579, 0.82301715253166206,
        0.55313103960372622, 0.54263535189897828, 0.36574569917668216, 0.11277888213690184}},
      {"scaled_modified_bessel_k1",
       {1000.9967345590684, 2.7310097082117857, 1.06747092981457, 1.0023680527405791,
        0.60714681273791631, 0.59362504631381278, 0.38132857397123627, 0.11323548235862127}},
  };
  for (const auto& [op, values] : all) {
    for (DType dtype : {f64, f32}) {
      Tensor y = CallOp(std::string("special_") + op, {Any(Vec(points, dtype))}).ToTensor();
      EXPECT_EQ(y.dtype(), dtype);
      const std::vector<double> got = y.to(f64).to_vector<double>();
      for (size_t i = 0; i < values.size(); ++i) {
        // Near a zero the error is one of the whole wave.
        const double size = std::max(std::abs(values[i]), std::string(op)[0] == 'b' ? 0.1 : 0.0);
        EXPECT_NEAR(got[i], values[i],
                    size * (dtype == f64 ? 4e-15 : 2e-6) + (dtype == f32) * 1e-38)
            << op << ' ' << points[i] << ' ' << dtype;
      }
    }
  }
}

TEST(BesselGamma, BesselFunctionsAtTheEnds) {
  Tensor ends = Vec({0, kInf, -1, kNan}, f64);
  EXPECT_TENSOR(special_bessel_j0(ends), Type(f64, {4}), {1, 0, 0.7651976865579666, kNan}, 1e-14);
  EXPECT_TENSOR(special_bessel_j1(ends), Type(f64, {4}), {0, 0, -0.44005058574493355, kNan}, 1e-14);
  EXPECT_TENSOR(special_bessel_j1(Vec({-6, 6}, f64)), Type(f64, {2}),
                {0.27668385812756562, -0.27668385812756562}, 1e-14);
  for (auto second : {special_bessel_y0, special_bessel_y1}) {
    EXPECT_TENSOR(second(ends, Location::current()), Type(f64, {4}), {-kInf, 0, kNan, kNan});
  }
  for (auto modified : {special_modified_bessel_k0, special_modified_bessel_k1,
                        special_scaled_modified_bessel_k0, special_scaled_modified_bessel_k1}) {
    EXPECT_TENSOR(modified(ends, Location::current()), Type(f64, {4}), {kInf, 0, kNan, kNan});
  }
  Tensor zero = Vec({0}, f64).requires_grad_();
  special_bessel_j1(zero).sum().backward();
  EXPECT_TENSOR(zero.grad(), Type(f64, {1}), {0.5});
  EXPECT_TENSOR(special_bessel_j0(Vec({3}, i64)), Type(f32, {1}), {-0.26005195490193344}, 1e-6);
}

TEST(BesselGamma, IncompleteGammaFunctions) {
  // igamma(1, x) is 1 - exp(-x); igammac(25, 21) is a sum of 25 terms.
  Tensor x = Vec({0.1, 1, 5}, f64);
  EXPECT_TENSOR(igamma(Vec({1, 1, 1}, f64), x), Type(f64, {3}),
                {0.09516258196404043, 0.6321205588285577, 0.9932620530009145}, 1e-14);
  EXPECT_TENSOR(igammac(Vec({25, 25, 20}, f64), Vec({21, 30, 21}, f64)), Type(f64, {3}),
                {0.7821550188138856, 0.15724202723839162, 0.3842627722643422}, 1e-13);
  EXPECT_TENSOR(
      igammac(Vec({0.001}, f64), Vec({0.5}, f64)) + igamma(Vec({0.001}, f64), Vec({0.5}, f64)),
      Type(f64, {1}), {1}, 1e-14);
  // Both algorithms meet where `self` is large.
  Tensor large = Vec({99999, 100001, 1e30}, f64);
  auto near = igamma(large, large * Vec({1.002, 1.002, 1}, f64)).to_vector<double>();
  EXPECT_NEAR(near[0], near[1], 1e-5);
  EXPECT_NEAR(near[2], 0.5, 1e-12);
  EXPECT_TENSOR(igammac(large, large) + igamma(large, large), Type(f64, {3}), {1, 1, 1}, 1e-9);
  Tensor a = Vec({0, 0, 1, kInf, kInf, 1, -1}), b = Vec({0, 1, 0, 1, kInf, kInf, 1});
  EXPECT_TENSOR(igamma(a, b), Type(f32, {7}), {kNan, 1, 0, 0, kNan, 1, kNan});
  EXPECT_TENSOR(igammac(a, b), Type(f32, {7}), {kNan, 0, 1, 1, kNan, 0, kNan});
}

TEST(BesselGamma, ZetaOfVeryNegativeNumbersIsNoLongSum) {
  auto value = [](double s, double q) {
    return zeta(Vec({s}, f64), Vec({q}, f64)).to_vector<double>()[0];
  };
  for (double s : {2.0, 3.0}) {
    EXPECT_NEAR(value(s, -1000.25), value(s, -999.25) + std::pow(-1000.25, -s), 1e-12);
    EXPECT_NEAR(value(s, -1e14 + 0.25), 2 * std::pow(M_PI, s), 1e-9);
  }
}

TEST(BesselGamma, ZetaAndPolygamma) {
  double square = M_PI * M_PI;
  EXPECT_TENSOR(zeta(Vec({2, 4, 2, 1, 0.5, 2}, f64), Vec({1, 1, 2, 1, 1, -2}, f64)), Type(f64, {6}),
                {square / 6, square * square / 90, square / 6 - 1, kInf, kNan, kInf}, 1e-13);
  EXPECT_TENSOR(polygamma(1, Vec({1, 0.5}, f64)), Type(f64, {2}), {square / 6, square / 2}, 1e-12);
  EXPECT_TENSOR(polygamma(2, Vec({1}, f64)), Type(f64, {1}), {-2 * 1.2020569031595942}, 1e-12);
  EXPECT_TENSOR(polygamma(0, Vec({1}, f64)), Type(f64, {1}), {-0.5772156649015329}, 1e-13);
  EXPECT_ERROR(polygamma(-1, Vec({1})), ValueError, "negative");
}

TEST(BesselGamma, MvlgammaIsASumOfLgammas) {
  Tensor x = Vec({3, 4.5}, f64);
  Tensor expected = lgamma(x) + lgamma(x - 0.5) + lgamma(x - 1) + 1.5 * std::log(M_PI);
  EXPECT_TENSOR(mvlgamma(x, 3), Type(f64, {2}), expected.to_vector<double>(), 1e-12);
  EXPECT_TENSOR(mvlgamma(Vec({2}, i64), 1), Type(f32, {1}), {0}, 1e-6);
  EXPECT_ERROR(mvlgamma(x, 0), ValueError, "p must be from 1 to 4096, is 0");
  EXPECT_ERROR(mvlgamma(x, int64_t{1} << 31), ValueError, "p must be from 1 to 4096");
  EXPECT_ERROR(special_chebyshev_polynomial_t(x, int64_t{1} << 31), ValueError,
               "special_chebyshev_polynomial_t: the degree must be at most 4096, is 2147483648");
  // Of a graph that comes from a file, before it is expanded.
  EXPECT_ERROR(ParseGraph(R"(
    %0 = input : f32[2]
    %1 = mvlgamma %0 {p=2147483648} : f32[2]
    return %1)"),
               Error, "mvlgamma: p must be from 1 to 4096");
}

TEST(BesselGamma, GradientsForTheSecondOperand) {
  Tensor a = Vec({1.5, 2, 4}, f64);
  for (const char* name : {"igamma", "igammac", "zeta"}) {
    TensorsFn fn = [&](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{CallOp(name, {Any(a), Any(x[0])}).ToTensor()};
    };
    EXPECT_EQ(testing::Gradcheck(fn, {Vec({0.5, 2, 3}, f64)}), "") << name;
  }
  Tensor first = Vec({2}, f64).requires_grad_();
  EXPECT_ERROR(igamma(first, Vec({1}, f64)).backward(), NotSupported, "first operand");
}

TEST(BesselGamma, NormalDistribution) {
  EXPECT_TENSOR(ndtr(Vec({0, kInf, -kInf})), Type(f32, {3}), {0.5, 1, 0});
  EXPECT_TENSOR(log_ndtr(Vec({0, -40, -1, 40}, f64)), Type(f64, {4}),
                {std::log(0.5), -804.6084420137538, -1.8410216450092636, 0}, 1e-12);
  EXPECT_TENSOR(erfcx(Vec({0, 100, -1}, f64)), Type(f64, {3}),
                {1, 0.005641613782989433, 5.008980080762284}, 1e-13);
  Tensor exact = Vec({0.022823009453264757, 0.03255790299363966, 5.758954262649785e+175}, f64);
  EXPECT_TENSOR(erfcx(Vec({24.7, 17.3, -20.1}, f64)) / exact, Type(f64, {3}), {1, 1, 1}, 1e-15);
  EXPECT_TENSOR(erfcx(Vec({-kInf, kInf, kNan}, f64)), Type(f64, {3}), {kInf, 0, kNan});
  EXPECT_TENSOR(entr(Vec({0, 1, -1, kNan})), Type(f32, {4}), {0, -0.0, -kInf, kNan}, 1e-7);
  EXPECT_TENSOR(xlog1py(Vec({0, 0, 2}), Vec({-1, kNan, 0})), Type(f32, {3}), {0, kNan, 0});
}

TEST(BesselGamma, FrexpTakesNumbersApart) {
  double tiny = std::numeric_limits<double>::denorm_min(),
         most = std::numeric_limits<double>::max();
  Tensor x = Vec({0, -0.75, 8, tiny, most, kInf, kNan}, f64);
  auto [mantissa, exponent] = frexp(x);
  int highest = 0;
  double top = std::frexp(most, &highest);
  EXPECT_TENSOR(mantissa, Type(f64, {7}), {0, -0.75, 0.5, 0.5, top, kInf, kNan});
  EXPECT_TENSOR(exponent, Type(i32, {7}), {0, 0, 4, -1073, 1024, 0, 0});
  auto [m, e] = frexp(Vec({1e-40, 3}, f32));
  int low = 0;
  float small = std::frexp(1e-40f, &low);
  EXPECT_TENSOR(m, Type(f32, {2}), {small, 0.75});
  EXPECT_TENSOR(e, Type(i32, {2}), {static_cast<double>(low), 2});
  EXPECT_ERROR(frexp(Vec({1}, i64)), TypeError, "floating");
}

}  // namespace
}  // namespace hammock
