// The factors by LAPACK, which is column-major: a row-major matrix is the
// transposed matrix there. The only file that names its functions.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "backends/reference/linalg.h"

// The lengths of the strings come last, as Fortran compilers pass them.
extern "C" {
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, size_t);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* ipiv, int* info);
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work,
             const int* lwork, int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau,
             double* work, const int* lwork, int* info);
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info, size_t,
             size_t);
void dgesdd_(const char* jobz, const int* m, const int* n, double* a, const int* lda, double* s,
             double* u, const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork,
             int* iwork, int* info, size_t);
}

namespace hammock::reference::lapack {
namespace {

constexpr int kAsk = -1;  // asks how large the workspace should be

std::vector<double> Transposed(const double* a, int64_t m, int64_t n) {
  std::vector<double> result(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) result[j * m + i] = a[i * n + j];
  }
  return result;
}

/// Calls `f(work, size)` twice: to ask for the size, and with that much.
template <class F>
void WithWorkspace(F f) {
  double wanted = 0;
  f(&wanted, &kAsk);
  int size = std::max(1, static_cast<int>(wanted));
  std::vector<double> work(size);
  f(work.data(), &size);
}

}  // namespace

int64_t Cholesky(double* a, int64_t n) {
  int size = static_cast<int>(n), info = 0;
  dpotrf_("U", &size, a, &size, &info, 1);
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, 0.0);
  return info;
}

void Lu(double* a, int64_t m, int64_t n, int32_t* pivots) {
  int rows = static_cast<int>(m), columns = static_cast<int>(n), info = 0;
  std::vector<double> by_columns = Transposed(a, m, n);
  dgetrf_(&rows, &columns, by_columns.data(), &rows, pivots, &info);
  std::vector<double> result = Transposed(by_columns.data(), n, m);
  std::copy(result.begin(), result.end(), a);
}

void Qr(double* a, int64_t m, int64_t n, int64_t columns, double* q, double* r) {
  int rows = static_cast<int>(m), width = static_cast<int>(n), info = 0;
  int q_columns = static_cast<int>(columns), count = std::min(rows, width);
  std::vector<double> factors = Transposed(a, m, n), scales(count);
  WithWorkspace([&](double* work, const int* size) {
    dgeqrf_(&rows, &width, factors.data(), &rows, scales.data(), work, size, &info);
  });
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t j = 0; j < n; ++j) r[i * n + j] = j >= i ? factors[j * m + i] : 0;
  }
  factors.resize(m * std::max(n, columns));
  WithWorkspace([&](double* work, const int* size) {
    dorgqr_(&rows, &q_columns, &count, factors.data(), &rows, scales.data(), work, size, &info);
  });
  std::vector<double> result = Transposed(factors.data(), columns, m);
  std::copy(result.begin(), result.end(), q);
}

bool Eigh(double* a, int64_t n, double* values) {
  int size = static_cast<int>(n), info = 0, int_size = 3 + 5 * size;
  std::vector<int> int_work(int_size);
  WithWorkspace([&](double* work, const int* work_size) {
    // Both sizes must ask for the first call to only answer.
    const int* ints = *work_size == kAsk ? &kAsk : &int_size;
    dsyevd_("V", "U", &size, a, &size, values, work, work_size, int_work.data(), ints, &info, 1, 1);
  });
  std::vector<double> vectors = Transposed(a, n, n);
  std::copy(vectors.begin(), vectors.end(), a);
  return info == 0;
}

bool Svd(double* a, int64_t m, int64_t n, bool full, double* u, double* s, double* vh) {
  // a.T = v * s * u.T, so the two sides are exchanged.
  int rows = static_cast<int>(n), columns = static_cast<int>(m), info = 0;
  int left = rows, right = full ? columns : std::min(rows, columns);
  std::vector<int> int_work(8 * std::min(rows, columns));
  WithWorkspace([&](double* work, const int* size) {
    dgesdd_(full ? "A" : "S", &rows, &columns, a, &rows, s, vh, &left, u, &right, work, size,
            int_work.data(), &info, 1);
  });
  return info == 0;
}

}  // namespace hammock::reference::lapack
