#include "backends/reference/linalg.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/reference/elements.h"
#include "backends/reference/kernel.h"
#include "hammock/option.h"
#include "ir/primitives.h"

namespace hammock::reference {
namespace {

constinit config::Option<bool> kLapackOption({
    .name = "reference.lapack",
    .default_value = true,
    .doc = "Factor matrices by LAPACK, where the library was built with it; off: by own loops.",
});

/// One of the two sets of functions.
template <class T>
struct Factors {
  decltype(&plain::Cholesky<T>) Cholesky;
  decltype(&plain::Lu<T>) Lu;
  decltype(&plain::Qr<T>) Qr;
  decltype(&plain::Eigh<T>) Eigh;
  decltype(&plain::Eig<T>) Eig;
  decltype(&plain::Svd<T>) Svd;
};
template <class T>
constexpr Factors<T> kPlain = {plain::Cholesky<T>, plain::Lu<T>,  plain::Qr<T>,
                               plain::Eigh<T>,     plain::Eig<T>, plain::Svd<T>};

/// LAPACK's, where it is there and wanted. It takes no empty matrices.
template <class T>
const Factors<T>& FactorsFor(int64_t elements) {
#ifdef HAMMOCK_WITH_LAPACK
  static constexpr Factors<T> kLapack = {lapack::Cholesky<T>, lapack::Lu<T>,  lapack::Qr<T>,
                                         lapack::Eigh<T>,     lapack::Eig<T>, lapack::Svd<T>};
#else
  static constexpr Factors<T> kLapack = kPlain<T>;
#endif
  return elements > 0 && config::Get<kLapackOption>() ? kLapack : kPlain<T>;
}

/// A kernel of real or complex matrices, by the dtype of the first operand.
template <auto kReal, auto kComplex>
void RunOn(KernelCall& call) {
  (IsComplex(call.in[0]->dtype()) ? kComplex : kReal)(call);
}

/// The last two sizes, and how many such matrices there are.
struct Matrices {
  explicit Matrices(const Shape& type)
      : rows(type.size(type.rank() - 2)), columns(type.size(type.rank() - 1)) {
    for (int i = 0; i < type.rank() - 2; ++i) count *= type.size(i);
  }
  int64_t size() const { return rows * columns; }
  int64_t count = 1, rows, columns;
};

template <class T>
std::vector<T> Matrix(const HostTensor& tensor, int64_t index, const Matrices& matrices) {
  std::vector<T> values(matrices.size());
  Load(tensor, index * matrices.size(), matrices.size(), values.data());
  return values;
}

template <class T>
void StorePart(const std::vector<T>& values, HostTensor& out, int64_t index) {
  int64_t size = static_cast<int64_t>(values.size());
  Store(values.data(), size, out, index * size);
}

template <class T>
void Transpose(std::vector<T>& a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) std::swap(a[i * n + j], a[j * n + i]);
  }
}

template <class T>
void Adjoin(std::vector<T>& a, int64_t n) {
  Transpose(a, n);
  for (T& x : a) x = Conjugate(x);
}

/// "(batch element 2) ", or nothing for a single matrix.
std::string Which(const HostTensor& tensor, int64_t index) {
  return tensor.shape().rank() > 2 ? fmt::format("(batch element {}) ", index) : "";
}

bool AllFinite(const std::vector<double>& a) {
  return std::all_of(a.begin(), a.end(), [](double x) { return std::isfinite(x); });
}
bool AllFinite(const std::vector<Complex>& a) {
  return std::all_of(a.begin(), a.end(), [](const Complex& x) {
    return std::isfinite(x.real()) && std::isfinite(x.imag());
  });
}

template <class T>
void CheckFinite(const KernelCall& call, const std::vector<T>& a, int64_t index) {
  if (AllFinite(a)) return;
  Fail(call, ErrorCode::kValue,
       "{}the algorithm failed to converge because the input matrix has values that are not finite",
       Which(*call.in[0], index));
}

void CheckConverged(const KernelCall& call, bool converged, int64_t index) {
  if (converged) return;
  Fail(call, ErrorCode::kValue,
       "{}the algorithm failed to converge because the input matrix is ill-conditioned or has too "
       "many repeated values",
       Which(*call.in[0], index));
}

template <class T>
void RunCholesky(KernelCall& call) {
  Matrices in(call.in[0]->shape());
  bool upper = call.node.attrs[0].boolean();
  HostTensor& out = call.NewResult();
  for (int64_t i = 0; i < in.count && in.size() > 0; ++i) {
    std::vector<T> a = Matrix<T>(*call.in[0], i, in);
    if (upper) Adjoin(a, in.rows);
    if (int64_t order = FactorsFor<T>(in.size()).Cholesky(a.data(), in.rows)) {
      Fail(call, ErrorCode::kValue,
           "{}the factorization could not be completed because the input is not "
           "positive-definite (the leading minor of order {} is not positive-definite)",
           Which(*call.in[0], i), order);
    }
    if (upper) Adjoin(a, in.rows);
    StorePart(a, out, i);
  }
}

/// `op` is whose matrix may not be singular; where it is empty, any may be.
template <class T>
void CheckPivots(const KernelCall& call, const std::vector<T>& lu, int64_t n, int64_t index) {
  const std::string& op = call.node.attrs[0].str();
  if (op.empty()) return;
  for (int64_t i = 0; i < n; ++i) {
    if (lu[i * n + i] != T(0)) continue;
    throw ValueError(ErrorCode::kValue,
                     fmt::format("{}: {}the input matrix is singular (the diagonal element {} of "
                                 "its factor U is zero)",
                                 op, Which(*call.in[0], index), i + 1));
  }
}

template <class T>
void RunLu(KernelCall& call) {
  Matrices in(call.in[0]->shape());
  HostTensor& out = call.NewResult(0);
  std::span<int32_t> pivots = call.NewResult(1).mutable_values<int32_t>();
  std::span<int64_t> permutation = call.NewResult(2).mutable_values<int64_t>();
  int64_t steps = std::min(in.rows, in.columns);
  for (int64_t i = 0; i < in.count; ++i) {
    std::span<int32_t> exchanges = pivots.subspan(i * steps, steps);
    std::span<int64_t> rows = permutation.subspan(i * in.rows, in.rows);
    std::iota(rows.begin(), rows.end(), 0);
    if (in.size() == 0) continue;
    std::vector<T> a = Matrix<T>(*call.in[0], i, in);
    FactorsFor<T>(in.size()).Lu(a.data(), in.rows, in.columns, exchanges.data());
    CheckPivots(call, a, in.columns, i);
    for (int64_t step = 0; step < steps; ++step) std::swap(rows[step], rows[exchanges[step] - 1]);
    StorePart(a, out, i);
  }
}

template <class T>
void RunQr(KernelCall& call) {
  Matrices in(call.in[0]->shape());
  HostTensor &q_out = call.NewResult(0), &r_out = call.NewResult(1);
  int64_t columns = Matrices(q_out.shape()).columns;
  for (int64_t i = 0; i < in.count; ++i) {
    std::vector<T> a = Matrix<T>(*call.in[0], i, in);
    std::vector<T> q(in.rows * columns), r(columns * in.columns);
    FactorsFor<T>(in.size()).Qr(a.data(), in.rows, in.columns, columns, q.data(), r.data());
    StorePart(q, q_out, i);
    StorePart(r, r_out, i);
  }
}

template <class T>
void RunEigh(KernelCall& call) {
  Matrices in(call.in[0]->shape());
  bool upper = call.node.attrs[0].str() == "U";
  HostTensor &values_out = call.NewResult(0), &vectors_out = call.NewResult(1);
  int64_t n = in.rows;
  for (int64_t i = 0; i < in.count && n > 0; ++i) {
    std::vector<T> a = Matrix<T>(*call.in[0], i, in);
    std::vector<double> values(n);
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t column = 0; column < row; ++column) {
        T &low = a[row * n + column], &high = a[column * n + row];
        (upper ? low : high) = Conjugate(upper ? high : low);
      }
    }
    if (AllFinite(a)) {
      CheckConverged(call, FactorsFor<T>(n * n).Eigh(a.data(), n, values.data()), i);
    } else {  // no error, as in PyTorch
      std::fill(values.begin(), values.end(), std::nan(""));
      std::fill(a.begin(), a.end(), T(std::nan("")));
    }
    StorePart(values, values_out, i);
    StorePart(a, vectors_out, i);
  }
}

template <class T>
void RunEig(KernelCall& call) {
  Matrices in(call.in[0]->shape());
  HostTensor &values_out = call.NewResult(0), &vectors_out = call.NewResult(1);
  int64_t n = in.rows;
  for (int64_t i = 0; i < in.count && n > 0; ++i) {
    std::vector<T> a = Matrix<T>(*call.in[0], i, in);
    CheckFinite(call, a, i);
    std::vector<Complex> values(n), vectors(n * n);
    auto run = FactorsFor<T>(n * n).Eig;
    CheckConverged(call, run(a.data(), n, values.data(), vectors.data()), i);
    StorePart(values, values_out, i);
    StorePart(vectors, vectors_out, i);
  }
}

template <class T>
void RunSvd(KernelCall& call) {
  Matrices in(call.in[0]->shape());
  bool full = call.node.attrs[0].boolean();
  HostTensor &u_out = call.NewResult(0), &s_out = call.NewResult(1), &v_out = call.NewResult(2);
  int64_t k = std::min(in.rows, in.columns);
  for (int64_t i = 0; i < in.count; ++i) {
    std::vector<T> a = Matrix<T>(*call.in[0], i, in);
    std::vector<double> s(k);
    CheckFinite(call, a, i);
    std::vector<T> u(in.rows * (full ? in.rows : k)), vh((full ? in.columns : k) * in.columns);
    auto run = FactorsFor<T>(in.size()).Svd;
    CheckConverged(call, run(a.data(), in.rows, in.columns, full, u.data(), s.data(), vh.data()),
                   i);
    StorePart(u, u_out, i);
    StorePart(s, s_out, i);
    StorePart(vh, v_out, i);
  }
}

/// b[n,columns] becomes the solution x of a[n,n] * x = b; only one triangle of `a` is read.
template <class T>
void Substitute(const T* a, int64_t n, bool upper, bool unit, T* b, int64_t columns) {
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = upper ? n - 1 - step : step;
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) {
      T factor = a[i * n + j];
      for (int64_t c = 0; c < columns; ++c) b[i * columns + c] -= factor * b[j * columns + c];
    }
    if (unit) continue;
    for (int64_t c = 0; c < columns; ++c) b[i * columns + c] /= a[i * n + i];
  }
}

template <class T>
void RunSolveTriangular(KernelCall& call) {
  Matrices factor(call.in[0]->shape()), right(call.in[1]->shape());
  const SharedList<Attr>& attrs = call.node.attrs;
  bool upper = attrs[0].boolean(), transpose = attrs[1].boolean();
  HostTensor& out = call.NewResult();
  for (int64_t i = 0; i < factor.count && right.size() > 0; ++i) {
    std::vector<T> a = Matrix<T>(*call.in[0], i, factor), b = Matrix<T>(*call.in[1], i, right);
    if (transpose) Transpose(a, factor.rows);
    Substitute(a.data(), factor.rows, upper != transpose, attrs[2].boolean(), b.data(),
               right.columns);
    StorePart(b, out, i);
  }
}

constexpr KernelEntry kKernels[] = {
    {&ops::kCholesky, RunOn<RunCholesky<double>, RunCholesky<Complex>>},
    {&ops::kLu, RunOn<RunLu<double>, RunLu<Complex>>},
    {&ops::kQr, RunOn<RunQr<double>, RunQr<Complex>>},
    {&ops::kEigh, RunOn<RunEigh<double>, RunEigh<Complex>>},
    {&ops::kEig, RunOn<RunEig<double>, RunEig<Complex>>},
    {&ops::kSvd, RunOn<RunSvd<double>, RunSvd<Complex>>},
    {&ops::kSolveTriangular, RunOn<RunSolveTriangular<double>, RunSolveTriangular<Complex>>},
};

}  // namespace

std::span<const KernelEntry> LinalgKernels() { return kKernels; }

}  // namespace hammock::reference
