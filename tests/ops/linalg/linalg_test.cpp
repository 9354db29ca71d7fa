#include <cmath>
#include <complex>

#include "backends/reference/linalg.h"
#include "hammock/config.h"
#include "hammock/error.h"
#include "hammock/testing.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Tensor Transposed(const Tensor& x) { return transpose(x, -1, -2); }

/// Elements without a pattern, so that the rank is full.
Tensor Sample(const Dims& sizes, DType dtype = f64) {
  Tensor x = to(arange(Shape(f64, sizes).numel()), f64);
  return to(reshape(sin(x * x * 0.7 + 0.3) * 2, sizes), dtype);
}

bool Close(const Tensor& a, const Tensor& b, double tolerance = 1e-10) {
  if (a.shape() != b.shape()) return false;
  return a.numel() == 0 || max(abs(a - b)).item<double>() <= tolerance;
}

Tensor Positive(const Dims& sizes) {
  Tensor x = Sample(sizes);
  return matmul(x, Transposed(x)) + eye(sizes.back(), f64);
}

const Dims kSquares[] = {{1, 1}, {3, 3}, {2, 4, 4}, {0, 0}, {0, 3, 3}, {2, 0, 0}, {12, 12}};
const Dims kMatrices[] = {{3, 5}, {5, 3}, {4, 4}, {2, 3, 5}, {0, 3}, {3, 0}, {1, 6}, {9, 9}};

TEST(Linalg, CholeskyGivesTheTriangleAskedFor) {
  Tensor a = tensor({{4.0, 2.0}, {2.0, 10.0}});
  EXPECT_TENSOR(cholesky(a), Type(f32, {2, 2}), {2, 0, 1, 3});
  EXPECT_TENSOR(cholesky(a, true), Type(f32, {2, 2}), {2, 1, 0, 3});
  // Only one triangle is read.
  EXPECT_TENSOR(cholesky(tensor({{4.0, 99.0}, {2.0, 10.0}})), Type(f32, {2, 2}), {2, 0, 1, 3});
  for (const Dims& sizes : kSquares) {
    Tensor x = Positive(sizes), l = linalg_cholesky(x);
    EXPECT_TRUE(Close(matmul(l, Transposed(l)), x));
    EXPECT_TRUE(Close(linalg_cholesky(x, true), Transposed(l)));
    Tensor b = Sample(sizes);
    EXPECT_TRUE(Close(matmul(x, cholesky_solve(b, l)), b, 1e-8));
    EXPECT_TRUE(Close(cholesky_solve(b, Transposed(l), true), cholesky_solve(b, l), 1e-8));
    EXPECT_TRUE(Close(cholesky_inverse(l), linalg_inv(x), 1e-8));
  }
}

TEST(Linalg, SingularMatricesRaiseWhenRead) {
  Tensor a = tensor({{1.0, 2.0}, {2.0, 4.0}});
  Tensor inverted = inverse(a);
  EXPECT_EQ(inverted.shape(), Type(f32, {2, 2}));  // nothing has run
  EXPECT_ERROR(inverted.host(), Error, "linalg_inv: the input matrix is singular");
  EXPECT_ERROR(inverse(a).host(), Error, "linalg_test.cpp");
  EXPECT_ERROR(linalg_solve(a, a).host(), Error, "linalg_solve: the input matrix is singular");
  EXPECT_ERROR(linalg_solve(stack({eye(2), a}), eye(2)).host(), Error, "(batch element 1)");
  EXPECT_ERROR(linalg_cholesky(-a).host(), Error, "the leading minor of order 1");
  EXPECT_ERROR(linalg_cholesky(tensor({{1.0, 2.0}, {2.0, 1.0}})).host(), Error, "order 2");
  EXPECT_ERROR(linalg_svdvals(a * kNan).host(), Error, "not finite");
  EXPECT_TENSOR(linalg_eigvalsh(a * kNan), Type(f32, {2}), {kNan, kNan});
  EXPECT_TENSOR(det(a), Type(f32, {}), {0}, 1e-12);
  // Others go on.
  EXPECT_TENSOR(a + a, Type(f32, {2, 2}), {2, 4, 4, 8});
}

TEST(Linalg, SingularMatricesAreNumbersWhereAsked) {
  // The second has a zero as its second pivot.
  Tensor a = tensor({{{2.0, 1.0}, {1.0, 3.0}}, {{1.0, 2.0}, {2.0, 4.0}}}, f64);
  Tensor b = tensor({{{1.0}, {2.0}}, {{1.0}, {2.0}}}, f64);
  auto [x, info] = linalg_solve_ex(a, b);
  EXPECT_EQ(info.dtype(), i32);
  EXPECT_EQ(info.to_vector<int32_t>(), (std::vector<int32_t>{0, 2}));
  EXPECT_TRUE(Close(x[0], linalg_solve(a[0], b[0])));
  EXPECT_TRUE(isnan(x[1]).all().item<bool>());
  auto [vector, of_vector] = linalg_solve_ex(a[0], b[0].squeeze(-1));
  EXPECT_TRUE(Close(vector, x[0].squeeze(-1)));
  EXPECT_EQ(of_vector.item<int32_t>(), 0);
  EXPECT_TRUE(isnan(std::get<0>(linalg_solve_ex(a[1], b[1].squeeze(-1)))).all().item<bool>());
  auto [inverses, of_inverses] = linalg_inv_ex(a);
  EXPECT_TRUE(Close(inverses[0], linalg_inv(a[0])));
  EXPECT_TRUE(isnan(inverses[1]).all().item<bool>());
  EXPECT_EQ(of_inverses.to_vector<int32_t>(), (std::vector<int32_t>{0, 2}));
  auto [lu, pivots, of_lu] = linalg_lu_factor_ex(a);
  EXPECT_TRUE(Close(lu, std::get<0>(linalg_lu_factor(a))));
  EXPECT_EQ(of_lu.to_vector<int32_t>(), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(std::get<1>(linalg_inv_ex(zeros({3, 3}))).item<int32_t>(), 1);
  EXPECT_EQ(std::get<1>(linalg_inv_ex(zeros({2, 0, 0}))).numel(), 2);
  EXPECT_ERROR(std::get<1>(linalg_inv_ex(a, true)).host(), Error, "linalg_inv_ex: a matrix is");
  // Gradients of those that are not singular are as ever.
  Tensor leaf = a.clone().requires_grad_();
  std::get<0>(linalg_inv_ex(leaf))[0].sum().backward();
  Tensor alone = a[0].clone().requires_grad_();
  linalg_inv(alone).sum().backward();
  EXPECT_TRUE(Close(leaf.grad()[0], alone.grad()));
  EXPECT_TRUE(Close(leaf.grad()[1], zeros({2, 2}, f64)));
}

TEST(Linalg, WrongShapesAndDTypesAreRefused) {
  EXPECT_ERROR(inverse(ones({2, 3})), ValueError, "square");
  EXPECT_ERROR(det(ones({3})), ValueError, "at least 2 dims");
  EXPECT_ERROR(inverse(ones({2, 2}, i64)), TypeError, "needs f32, f64, c64 or c128");
  EXPECT_ERROR(linalg_svd(ones({2, 2}, bf16)), TypeError, "needs f32, f64, c64 or c128");
  EXPECT_ERROR(linalg_qr(ones({2, 2}), "half"), ValueError, "mode");
  EXPECT_ERROR(linalg_eigh(ones({2, 2}), "X"), ValueError, "UPLO");
  EXPECT_ERROR(linalg_solve(ones({2, 2}), ones({3, 2})), ValueError, "rows");
  EXPECT_ERROR(linalg_solve(ones({2, 2}), ones({2, 2}, f64)), TypeError, "dtypes differ");
  EXPECT_ERROR(linalg_matrix_norm(ones({2, 2}), 3), ValueError, "ord");
  EXPECT_ERROR(nuclear_norm(ones({2})), ValueError, "two dims");
}

TEST(Linalg, LuAndWhatIsMadeOfIt) {
  for (const Dims& sizes : kMatrices) {
    Tensor x = Sample(sizes);
    auto [p, l, u] = linalg_lu(x);
    EXPECT_TRUE(Close(matmul(matmul(p, l), u), x));
    auto [packed, pivots] = linalg_lu_factor(x);
    EXPECT_EQ(pivots.dtype(), i32);
    auto [p2, l2, u2] = lu_unpack(packed, pivots);
    EXPECT_TRUE(Close(p2, p));
    EXPECT_TRUE(Close(l2, l));
    EXPECT_TRUE(Close(u2, u));
  }
  for (const Dims& sizes : kSquares) {
    Tensor x = Positive(sizes), b = Sample(sizes);
    EXPECT_TRUE(Close(matmul(x, linalg_solve(x, b)), b, 1e-8));
    EXPECT_TRUE(Close(matmul(linalg_solve(x, b, false), x), b, 1e-8));
    EXPECT_TRUE(Close(matmul(linalg_inv(x), x), expand(eye(sizes.back(), f64), sizes), 1e-8));
    if (sizes.back() == 0) continue;
    Tensor vectors = select(b, -1, 0);
    EXPECT_TRUE(Close(linalg_solve(x, vectors), select(linalg_solve(x, b), -1, 0)));
  }
}

TEST(Linalg, DeterminantsHaveTheirSign) {
  Tensor a = tensor({{0.0, 2.0}, {3.0, 4.0}});
  EXPECT_TENSOR(det(a), Type(f32, {}), {-6});
  auto [sign, logarithm] = slogdet(a);
  EXPECT_TENSOR(sign, Type(f32, {}), {-1});
  EXPECT_TENSOR(logarithm, Type(f32, {}), {std::log(6.0)}, 1e-6);
  EXPECT_TENSOR(logdet(a), Type(f32, {}), {kNan});
  EXPECT_TENSOR(det(zeros({2, 0, 0})), Type(f32, {2}), {1, 1});
  EXPECT_TENSOR(logdet(zeros({0, 0})), Type(f32, {}), {0});
  EXPECT_TENSOR(logdet(zeros({2, 2})), Type(f32, {}), {-kInf});
}

TEST(Linalg, QrIsOrthogonalTimesTriangular) {
  for (const Dims& sizes : kMatrices) {
    Tensor x = Sample(sizes);
    for (const char* mode : {"reduced", "complete"}) {
      auto [q, r] = linalg_qr(x, mode);
      EXPECT_TRUE(Close(matmul(q, r), x));
      EXPECT_TRUE(Close(matmul(Transposed(q), q),
                        expand(eye(q.size(-1), f64), matmul(Transposed(q), q).sizes())));
      EXPECT_TRUE(Close(triu(r), r));
    }
    auto [none, r] = linalg_qr(x, "r");
    EXPECT_EQ(none.shape(), Type(f64, {0}));
    EXPECT_TRUE(Close(r, std::get<1>(qr(x))));
  }
  auto [q, r] = qr(tensor({{3.0}, {4.0}}));  // LAPACK's signs
  EXPECT_TENSOR(r, Type(f32, {1, 1}), {-5}, 1e-6);
  EXPECT_TENSOR(q, Type(f32, {2, 1}), {-0.6, -0.8}, 1e-6);
}

TEST(Linalg, EighAndSvdRebuildTheMatrix) {
  for (const Dims& sizes : kSquares) {
    Tensor x = Positive(sizes);
    auto [values, vectors] = linalg_eigh(x);
    EXPECT_TRUE(Close(matmul(vectors * unsqueeze(values, -2), Transposed(vectors)), x, 1e-9));
    EXPECT_TRUE(Close(std::get<0>(sort(values)), values));
    EXPECT_TRUE(Close(linalg_eigvalsh(triu(x), "U"), values, 1e-9));
  }
  for (const Dims& sizes : kMatrices) {
    Tensor x = Sample(sizes);
    for (bool full : {false, true}) {
      auto [u, s, vh] = linalg_svd(x, full);
      int64_t k = s.size(-1);
      EXPECT_TRUE(
          Close(matmul(narrow(u, -1, 0, k) * unsqueeze(s, -2), narrow(vh, -2, 0, k)), x, 1e-9));
      Tensor uu = matmul(Transposed(u), u), vv = matmul(vh, Transposed(vh));
      EXPECT_TRUE(Close(uu, expand(eye(u.size(-1), f64), uu.sizes())));
      EXPECT_TRUE(Close(vv, expand(eye(vh.size(-2), f64), vv.sizes())));
      auto [u2, s2, v] = svd(x, !full);
      EXPECT_TRUE(Close(Transposed(v), vh));
    }
  }
  EXPECT_TENSOR(std::get<1>(svd(tensor({{3.0, 0.0}, {0.0, -4.0}}), true, false)), Type(f32, {2}),
                {4, 3}, 1e-6);
  auto [values, none] = symeig(tensor({{2.0, 1.0}, {1.0, 2.0}}));
  EXPECT_TENSOR(values, Type(f32, {2}), {1, 3}, 1e-6);
  EXPECT_EQ(none.shape(), Type(f32, {0}));
}

/// Whether the columns of `vectors` have length 1, and `x` multiplies them by `values`.
bool AreEigenvectors(const Tensor& x, const Tensor& values, const Tensor& vectors) {
  Tensor lengths = norm(vectors, 2, -2);
  return Close(matmul(to(x, c128), vectors), vectors * unsqueeze(values, -2), 1e-9) &&
         Close(lengths, ones_like(lengths), 1e-12);
}

TEST(Linalg, EigTakesAnySquareMatrix) {
  for (const char* lapack : {"true", "false"}) {
    config::Set("reference.lapack", lapack);
    for (const Dims& sizes : kSquares) {
      Tensor x = Sample(sizes);
      for (const Tensor& a : {x, x + to(Transposed(x), c128) * Scalar(std::complex(0.0, 0.5))}) {
        auto [values, vectors] = linalg_eig(a);
        EXPECT_EQ(vectors.shape(), Type(c128, sizes));
        EXPECT_TRUE(AreEigenvectors(a, values, vectors)) << lapack << " " << a.shape().to_string();
        EXPECT_TRUE(Close(linalg_eigvals(a), values));
      }
    }
    Tensor turn = tensor({{0.0, -1.0, 0.0}, {1.0, 0.0, 0.0}, {0.0, 0.0, 2.0}});  // i, -i and 2
    Tensor values = linalg_eigvals(turn);
    EXPECT_EQ(values.dtype(), c64);
    EXPECT_TENSOR(std::get<0>(sort(imag(values))), Type(f32, {3}), {-1, 0, 1}, 1e-6);
    Tensor defective = tensor({{1.0, 1.0}, {0.0, 1.0}}, f64);  // one vector, twice
    auto [twice, same] = linalg_eig(defective);
    EXPECT_TRUE(AreEigenvectors(defective, twice, same));
    EXPECT_TENSOR(real(linalg_eigvals(zeros({2, 2}))), Type(f32, {2}), {0, 0});
    for (double scale : {1e-200, 1e200}) {  // whose squares are no doubles
      Tensor a = tensor({{1.0, 2.0, 0.5}, {0.0, 3.0, 1.0}, {1.0, 0.0, -2.0}}, f64);
      auto [large, columns] = linalg_eig(a * scale);
      EXPECT_TRUE(AreEigenvectors(a, large / scale, columns)) << lapack << " " << scale;
    }
    EXPECT_ERROR(linalg_eigvals(turn * kNan).host(), Error, "linalg_eigvals: the algorithm failed");
  }
  config::Set("reference.lapack", "true");
  EXPECT_ERROR(linalg_eig(ones({2, 3})), ValueError, "needs square matrices");
  EXPECT_ERROR(linalg_eigvals(ones({2, 2}, i64)), TypeError, "needs f32, f64, c64 or c128");
}

TEST(Linalg, GradientsOfEig) {
  TensorsFn parts = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    auto [values, vectors] = linalg_eig(in[0]);
    return {real(values), imag(values), abs(vectors)};  // whatever the phases of the vectors are
  };
  Tensor x = Sample({2, 3, 3});
  EXPECT_EQ(testing::Gradcheck(parts, {x}), "");
  EXPECT_EQ(testing::Gradgradcheck(parts, {Sample({3, 3})}), "");
  EXPECT_EQ(testing::Gradcheck(parts, {x + to(x * x, c128) * Scalar(std::complex(0.0, 0.3))}), "");
}

TEST(Linalg, VandermondeMatricesHaveALimit) {
  EXPECT_ERROR(linalg_vander(ones({2}), int64_t{1} << 40), ValueError,
               "linalg_vander: N must be at most 32768");
  EXPECT_ERROR(vander(ones({2}), int64_t{1} << 40), ValueError, "vander: N must be at most 32768");
}

TEST(Linalg, PseudoinverseRankAndLeastSquares) {
  Tensor a = tensor({{1.0, 2.0}, {2.0, 4.0}, {3.0, 6.0}}, f64);  // of rank 1
  Tensor inverse = linalg_pinv(a);
  EXPECT_TRUE(Close(matmul(matmul(a, inverse), a), a));
  EXPECT_TENSOR(linalg_matrix_rank(stack({a, a + eye(3, 2, f64)})), Type(i64, {2}), {1, 2});
  EXPECT_TENSOR(linalg_matrix_rank(tensor({{5.0, 0.0}, {0.0, 1.0}}), 2.0), Type(i64, {}), {1});
  Tensor line = tensor({{1.0, 0.0}, {1.0, 1.0}, {1.0, 2.0}}, f64);
  Tensor heights = tensor({{1.0}, {3.0}, {5.5}}, f64);
  auto [x, residuals, rank, s] = linalg_lstsq(line, heights, std::nullopt, "gelsd");
  EXPECT_TENSOR(x, Type(f64, {2, 1}), {11.0 / 12, 2.25}, 1e-12);
  EXPECT_TENSOR(residuals, Type(f64, {1}), {1.0 / 24}, 1e-12);
  EXPECT_TENSOR(rank, Type(i64, {}), {2});
  EXPECT_EQ(s.shape(), Type(f64, {2}));
  EXPECT_EQ(std::get<1>(linalg_lstsq(line, heights)).shape(), Type(f64, {0}));
}

TEST(Linalg, TriangularSolvesReadOneTriangle) {
  Tensor a = tensor({{2.0, 9.0}, {1.0, 4.0}}), b = tensor({{2.0}, {9.0}});
  EXPECT_TENSOR(linalg_solve_triangular(a, b, false), Type(f32, {2, 1}), {1, 2});
  EXPECT_TENSOR(linalg_solve_triangular(a, b, false, true, true), Type(f32, {2, 1}), {2, 7});
  auto [x, copy] = triangular_solve(b, a, false, true);
  EXPECT_TENSOR(x, Type(f32, {2, 1}), {-0.125, 2.25});
  EXPECT_TENSOR(copy, Type(f32, {2, 2}), {2, 9, 1, 4});
  EXPECT_TENSOR(linalg_solve_triangular(a, b.t(), false, false), Type(f32, {1, 2}), {-0.125, 2.25});
  // Zero on the diagonal is no error.
  EXPECT_TENSOR(linalg_solve_triangular(zeros({1, 1}), ones({1, 1}), true), Type(f32, {1, 1}),
                {kInf});
}

TEST(Linalg, NormsOfMatrices) {
  Tensor a = tensor({{1.0, -2.0}, {3.0, 4.0}});
  EXPECT_TENSOR(linalg_matrix_norm(a, 1), Type(f32, {}), {6});
  EXPECT_TENSOR(linalg_matrix_norm(a, -1), Type(f32, {}), {4});
  EXPECT_TENSOR(linalg_matrix_norm(a, kInf), Type(f32, {}), {7});
  EXPECT_TENSOR(linalg_matrix_norm(a, -kInf, {0, 1}, true), Type(f32, {1, 1}), {3});
  EXPECT_TENSOR(linalg_matrix_norm(a, 2), Type(f32, {}), {5.1166727}, 1e-5);
  EXPECT_TENSOR(linalg_matrix_norm(a, -2), Type(f32, {}), {1.9543949}, 1e-5);
  EXPECT_TENSOR(linalg_matrix_norm(a), Type(f32, {}), {std::sqrt(30.0)}, 1e-5);
  EXPECT_TENSOR(nuclear_norm(a), Type(f32, {}), {7.0710678}, 1e-5);
  EXPECT_TENSOR(nuclear_norm(stack({a, a}), {1, 2}), Type(f32, {2}), {7.0710678, 7.0710678}, 1e-5);
  EXPECT_TENSOR(frobenius_norm(a, {1}), Type(f32, {2}), {std::sqrt(5.0), 5}, 1e-6);
  EXPECT_TENSOR(CallOp("linalg_norm", {Any(a), Any("nuc")}).ToTensor(), Type(f32, {}), {7.0710678},
                1e-5);
  EXPECT_TENSOR(CallOp("norm", {Any(a), Any("nuc")}).ToTensor(), Type(f32, {}), {7.0710678}, 1e-5);
}

TEST(Linalg, PowersAndTheExponential) {
  Tensor a = tensor({{1.0, 1.0}, {0.0, 2.0}});
  EXPECT_TENSOR(matrix_power(a, 0), Type(f32, {2, 2}), {1, 0, 0, 1});
  EXPECT_TENSOR(matrix_power(a, 5), Type(f32, {2, 2}), {1, 31, 0, 32});
  EXPECT_TENSOR(matrix_power(a, -2), Type(f32, {2, 2}), {1, -0.75, 0, 0.25});
  EXPECT_TENSOR(matrix_power(tensor({{1, 1}, {1, 0}}), 10), Type(i64, {2, 2}), {89, 55, 55, 34});
  double e = std::exp(1.0);
  EXPECT_TENSOR(matrix_exp(a), Type(f32, {2, 2}), {e, e * e - e, 0, e * e}, 1e-5);
  Tensor turn = tensor({{0.0, -1000.0}, {1000.0, 0.0}}, f64);  // many squarings
  double c = std::cos(1000.0), s = std::sin(1000.0);
  EXPECT_TENSOR(matrix_exp(turn), Type(f64, {2, 2}), {c, -s, s, c}, 1e-10);
  EXPECT_TENSOR(matrix_exp(zeros({2, 2})), Type(f32, {2, 2}), {1, 0, 0, 1});
  EXPECT_EQ(matrix_exp(zeros({0, 0})).shape(), Type(f32, {0, 0}));
}

TEST(Linalg, GradientsOfSymmetricMatrices) {
  auto check = [](auto fn, const Dims& sizes) {
    TensorsFn all = [&](const std::vector<Tensor>& in) {
      Tensor square = matmul(in[0], Transposed(in[0])) + eye(sizes.back(), f64);
      return fn(square);
    };
    Tensor x = Sample(sizes);
    EXPECT_EQ(testing::Gradcheck(all, {x}), "");
    EXPECT_EQ(testing::Gradgradcheck(all, {x}), "");
  };
  using Tensors = std::vector<Tensor>;
  check([](const Tensor& a) { return Tensors{linalg_cholesky(a)}; }, {3, 3});
  check([](const Tensor& a) { return Tensors{linalg_cholesky(a, true)}; }, {2, 2, 2});
  check(
      [](const Tensor& a) {
        auto [values, vectors] = linalg_eigh(a);
        return Tensors{values, vectors * vectors};
      },
      {3, 3});
  check([](const Tensor& a) { return Tensors{logdet(a), det(a), linalg_inv(a)}; }, {3, 3});
  check([](const Tensor& a) { return Tensors{linalg_pinv(a), matrix_exp(a * 0.1)}; }, {2, 2});
}

// The functions that run where LAPACK is missing, whatever this build uses.
TEST(PlainFactors, FactorWhatTheyAreGiven) {
  namespace plain = reference::plain;
  for (const Dims& sizes : kMatrices) {
    if (sizes.size() > 2) continue;
    int64_t m = sizes[0], n = sizes[1], k = std::min(m, n);
    Tensor x = Sample(sizes);
    auto back = [](const std::vector<double>& values, const Dims& of) {
      return tensor(values, of);
    };
    std::vector<double> a = x.to_vector<double>(), q(m * k), r(k * n);
    plain::Qr(a.data(), m, n, k, q.data(), r.data());
    EXPECT_TRUE(Close(back(q, {m, k}), std::get<0>(linalg_qr(x))));
    EXPECT_TRUE(Close(back(r, {k, n}), std::get<1>(linalg_qr(x))));
    a = x.to_vector<double>();
    std::vector<int32_t> pivots(k);
    plain::Lu(a.data(), m, n, pivots.data());
    EXPECT_TRUE(Close(back(a, sizes), std::get<0>(linalg_lu_factor(x))));
    for (bool full : {false, true}) {
      int64_t left = full ? m : k, right = full ? n : k;
      a = x.to_vector<double>();
      std::vector<double> u(m * left), s(k), vh(right * n);
      ASSERT_TRUE(plain::Svd(a.data(), m, n, full, u.data(), s.data(), vh.data()));
      EXPECT_TRUE(Close(back(s, {k}), linalg_svdvals(x)));
      Tensor ut = back(u, {m, left}), vt = back(vh, {right, n});
      EXPECT_TRUE(Close(matmul(ut.t(), ut), eye(left, f64)));
      EXPECT_TRUE(Close(matmul(vt, vt.t()), eye(right, f64)));
      EXPECT_TRUE(Close(matmul(narrow(ut, 1, 0, k) * back(s, {k}), narrow(vt, 0, 0, k)), x));
    }
  }
}

TEST(PlainFactors, HandleRepeatedAndZeroValues) {
  namespace plain = reference::plain;
  std::vector<double> ones(16, 1.0), u(16), s(4), vh(16), values(4);
  ASSERT_TRUE(plain::Svd(ones.data(), 4, 4, true, u.data(), s.data(), vh.data()));
  Tensor left = tensor(u, Dims{4, 4});
  EXPECT_TRUE(Close(matmul(left.t(), left), eye(4, f64)));
  EXPECT_NEAR(s[0], 4, 1e-12);
  EXPECT_NEAR(s[1], 0, 1e-12);
  std::fill(ones.begin(), ones.end(), 1.0);
  ASSERT_TRUE(plain::Eigh(ones.data(), 4, values.data()));
  Tensor vectors = tensor(ones, Dims{4, 4});
  EXPECT_TRUE(Close(matmul(vectors.t(), vectors), eye(4, f64)));
  EXPECT_NEAR(values[3], 4, 1e-12);
  EXPECT_NEAR(values[0], 0, 1e-12);
  std::vector<double> indefinite{1, 0, 2, 1};
  EXPECT_EQ(plain::Cholesky(indefinite.data(), 2), 2);
  std::vector<double> zeros(9);
  ASSERT_TRUE(plain::Svd(zeros.data(), 3, 3, true, u.data(), s.data(), vh.data()));
  EXPECT_EQ(s[0], 0);
}

}  // namespace
}  // namespace hammock
