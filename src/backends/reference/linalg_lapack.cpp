// The factors by LAPACK, which is column-major: a row-major matrix is the
// transposed matrix there. The only file that names its functions.

#include <algorithm>
#include <complex>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "backends/reference/linalg.h"

// The lengths of the strings come last, as Fortran compilers pass them.
extern "C" {
using Complex = std::complex<double>;
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, size_t);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* ipiv, int* info);
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work,
             const int* lwork, int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau,
             double* work, const int* lwork, int* info);
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info, size_t,
             size_t);
void dgeev_(const char* jobvl, const char* jobvr, const int* n, double* a, const int* lda,
            double* wr, double* wi, double* vl, const int* ldvl, double* vr, const int* ldvr,
            double* work, const int* lwork, int* info, size_t, size_t);
void dgesdd_(const char* jobz, const int* m, const int* n, double* a, const int* lda, double* s,
             double* u, const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork,
             int* iwork, int* info, size_t);
void zpotrf_(const char* uplo, const int* n, Complex* a, const int* lda, int* info, size_t);
void zgetrf_(const int* m, const int* n, Complex* a, const int* lda, int* ipiv, int* info);
void zgeqrf_(const int* m, const int* n, Complex* a, const int* lda, Complex* tau, Complex* work,
             const int* lwork, int* info);
void zungqr_(const int* m, const int* n, const int* k, Complex* a, const int* lda,
             const Complex* tau, Complex* work, const int* lwork, int* info);
void zheevd_(const char* jobz, const char* uplo, const int* n, Complex* a, const int* lda,
             double* w, Complex* work, const int* lwork, double* rwork, const int* lrwork,
             int* iwork, const int* liwork, int* info, size_t, size_t);
void zgeev_(const char* jobvl, const char* jobvr, const int* n, Complex* a, const int* lda,
            Complex* w, Complex* vl, const int* ldvl, Complex* vr, const int* ldvr, Complex* work,
            const int* lwork, double* rwork, int* info, size_t, size_t);
void zgesdd_(const char* jobz, const int* m, const int* n, Complex* a, const int* lda, double* s,
             Complex* u, const int* ldu, Complex* vt, const int* ldvt, Complex* work,
             const int* lwork, double* rwork, int* iwork, int* info, size_t);
}

namespace hammock::reference::lapack {
namespace {

constexpr int kAsk = -1;  // asks how large the workspace should be

// Functions by their element type, without workspaces that one of the two has not.
constexpr auto& potrf(double*) { return dpotrf_; }
constexpr auto& potrf(Complex*) { return zpotrf_; }
constexpr auto& getrf(double*) { return dgetrf_; }
constexpr auto& getrf(Complex*) { return zgetrf_; }
constexpr auto& geqrf(double*) { return dgeqrf_; }
constexpr auto& geqrf(Complex*) { return zgeqrf_; }
constexpr auto& orgqr(double*) { return dorgqr_; }
constexpr auto& orgqr(Complex*) { return zungqr_; }

template <class T>
std::vector<T> Transposed(const T* a, int64_t m, int64_t n) {
  std::vector<T> result(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) result[j * m + i] = a[i * n + j];
  }
  return result;
}

/// Calls `f(work, size)` twice: to ask for the size, and with that much.
template <class T, class F>
void WithWorkspace(F f) {
  T wanted = 0;
  f(&wanted, &kAsk);
  int size = std::max(1, static_cast<int>(std::real(wanted)));
  std::vector<T> work(size);
  f(work.data(), &size);
}

/// Values and vectors of a real matrix: of a conjugate pair LAPACK has the real part of the first
/// vector in one column and its imaginary part in the next.
void ExpandPairs(const double* parts, const double* columns, int64_t n, Complex* values,
                 Complex* vectors) {
  for (int64_t k = 0; k < n; ++k) {
    const double imaginary = parts[n + k];
    values[k] = {parts[k], imaginary};
    const int64_t first = imaginary < 0 ? k - 1 : k;  // the positive one of a pair is first
    for (int64_t i = 0; i < n; ++i) {
      const double re = columns[first * n + i];
      const double im = imaginary == 0 ? 0 : columns[(first + 1) * n + i];
      vectors[i * n + k] = {re, imaginary < 0 ? -im : im};
    }
  }
}

}  // namespace

template <class T>
int64_t Cholesky(T* a, int64_t n) {
  int size = static_cast<int>(n), info = 0;
  potrf(a)("U", &size, a, &size, &info, 1);
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, T(0));
  return info;
}

template <class T>
void Lu(T* a, int64_t m, int64_t n, int32_t* pivots) {
  int rows = static_cast<int>(m), columns = static_cast<int>(n), info = 0;
  std::vector<T> by_columns = Transposed(a, m, n);
  getrf(a)(&rows, &columns, by_columns.data(), &rows, pivots, &info);
  std::vector<T> result = Transposed(by_columns.data(), n, m);
  std::copy(result.begin(), result.end(), a);
}

template <class T>
void Qr(T* a, int64_t m, int64_t n, int64_t columns, T* q, T* r) {
  int rows = static_cast<int>(m), width = static_cast<int>(n), info = 0;
  int q_columns = static_cast<int>(columns), count = std::min(rows, width);
  std::vector<T> factors = Transposed(a, m, n), scales(count);
  WithWorkspace<T>([&](T* work, const int* size) {
    geqrf(a)(&rows, &width, factors.data(), &rows, scales.data(), work, size, &info);
  });
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t j = 0; j < n; ++j) r[i * n + j] = j >= i ? factors[j * m + i] : T(0);
  }
  factors.resize(m * std::max(n, columns));
  WithWorkspace<T>([&](T* work, const int* size) {
    orgqr(a)(&rows, &q_columns, &count, factors.data(), &rows, scales.data(), work, size, &info);
  });
  std::vector<T> result = Transposed(factors.data(), columns, m);
  std::copy(result.begin(), result.end(), q);
}

template <class T>
bool Eigh(T* a, int64_t n, double* values) {
  int size = static_cast<int>(n), info = 0, int_size = 3 + 5 * size;
  std::vector<int> int_work(int_size);
  [[maybe_unused]] int real_size = 1 + 5 * size + 2 * size * size;
  WithWorkspace<T>([&](T* work, const int* work_size) {
    // All sizes must ask for the first call to only answer.
    const int* ints = *work_size == kAsk ? &kAsk : &int_size;
    if constexpr (std::is_same_v<T, double>) {
      dsyevd_("V", "U", &size, a, &size, values, work, work_size, int_work.data(), ints, &info, 1,
              1);
    } else {
      const int* reals = *work_size == kAsk ? &kAsk : &real_size;
      std::vector<double> real_work(real_size);
      zheevd_("V", "U", &size, a, &size, values, work, work_size, real_work.data(), reals,
              int_work.data(), ints, &info, 1, 1);
    }
  });
  // The transposed matrix of a Hermitian one is its conjugate, and so are the vectors.
  std::vector<T> vectors = Transposed(a, n, n);
  std::transform(vectors.begin(), vectors.end(), a, [](const T& x) { return Conjugate(x); });
  return info == 0;
}

template <class T>
bool Eig(T* a, int64_t n, Complex* values, Complex* vectors) {
  int size = static_cast<int>(n), info = 0;
  std::vector<T> by_columns = Transposed(a, n, n), right(n * n);
  std::vector<double> reals(2 * n);
  WithWorkspace<T>([&](T* work, const int* work_size) {
    if constexpr (std::is_same_v<T, double>) {
      dgeev_("N", "V", &size, by_columns.data(), &size, reals.data(), reals.data() + n, nullptr,
             &size, right.data(), &size, work, work_size, &info, 1, 1);
    } else {
      zgeev_("N", "V", &size, by_columns.data(), &size, values, nullptr, &size, right.data(), &size,
             work, work_size, reals.data(), &info, 1, 1);
    }
  });
  if (info != 0) return false;  // then pairs may lack one of the two
  if constexpr (std::is_same_v<T, double>) {
    ExpandPairs(reals.data(), right.data(), n, values, vectors);
  } else {
    std::vector<Complex> by_rows = Transposed(right.data(), n, n);
    std::copy(by_rows.begin(), by_rows.end(), vectors);
  }
  return true;
}

template <class T>
bool Svd(T* a, int64_t m, int64_t n, bool full, T* u, double* s, T* vh) {
  // a.T = v * s * u.T, so the two sides are exchanged.
  int rows = static_cast<int>(n), columns = static_cast<int>(m), info = 0;
  int less = std::min(rows, columns), more = std::max(rows, columns);
  int left = rows, right = full ? columns : less;
  const char* job = full ? "A" : "S";
  std::vector<int> int_work(8 * less);
  WithWorkspace<T>([&](T* work, const int* size) {
    if constexpr (std::is_same_v<T, double>) {
      dgesdd_(job, &rows, &columns, a, &rows, s, vh, &left, u, &right, work, size, int_work.data(),
              &info, 1);
    } else {
      const int64_t reals = int64_t{less} * std::max(5 * less + 7, 2 * more + 2 * less + 1);
      std::vector<double> real_work(std::max<int64_t>(reals, 1));
      zgesdd_(job, &rows, &columns, a, &rows, s, vh, &left, u, &right, work, size, real_work.data(),
              int_work.data(), &info, 1);
    }
  });
  return info == 0;
}

#define HAMMOCK_FACTORS_OF(T)                              \
  template int64_t Cholesky(T*, int64_t);                  \
  template void Lu(T*, int64_t, int64_t, int32_t*);        \
  template void Qr(T*, int64_t, int64_t, int64_t, T*, T*); \
  template bool Eigh(T*, int64_t, double*);                \
  template bool Eig(T*, int64_t, Complex*, Complex*);      \
  template bool Svd(T*, int64_t, int64_t, bool, T*, double*, T*);
HAMMOCK_FACTORS_OF(double)
HAMMOCK_FACTORS_OF(Complex)
#undef HAMMOCK_FACTORS_OF

}  // namespace hammock::reference::lapack
