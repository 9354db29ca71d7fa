#pragma once
/// Matrix factors of one matrix, row-major, in double or std::complex<double>. Two sets of the same
/// functions: `plain` is always there, `lapack` where the library was found when configuring
/// (HAMMOCK_WITH_LAPACK). A transposed matrix of complex numbers is conjugated.

#include <complex>
#include <cstdint>

namespace hammock::reference {

using Complex = std::complex<double>;

inline double Conjugate(double x) { return x; }
inline Complex Conjugate(const Complex& x) { return std::conj(x); }

#define HAMMOCK_FACTORS                                                                          \
  /** The lower factor of the lower triangle of a[n,n], in place, zeros above; 0, or the order   \
   * of the first leading minor that is not positive. */                                         \
  template <class T>                                                                             \
  int64_t Cholesky(T* a, int64_t n);                                                             \
  /** L (ones on its diagonal are not stored) and U of a[m,n] with rows exchanged, in place.     \
   * Step i exchanged row i with row pivots[i], counted from 1. */                               \
  template <class T>                                                                             \
  void Lu(T* a, int64_t m, int64_t n, int32_t* pivots);                                          \
  /** q[m,columns] and r[columns,n] of a[m,n]; columns is min(m, n) or m. `a` is overwritten. */ \
  template <class T>                                                                             \
  void Qr(T* a, int64_t m, int64_t n, int64_t columns, T* q, T* r);                              \
  /** Ascending values[n] of the symmetric a[n,n], which becomes their vectors, as columns.      \
   * False if that does not converge. */                                                         \
  template <class T>                                                                             \
  bool Eigh(T* a, int64_t n, double* values);                                                    \
  /** values[n] of a[n,n], in no order, and their vectors[n,n] of length 1, as columns. False if \
   * that does not converge. */                                                                  \
  template <class T>                                                                             \
  bool Eig(T* a, int64_t n, Complex* values, Complex* vectors);                                  \
  /** u[m,full ? m : k], descending s[k] and vh[full ? n : k, n] of a[m,n], k = min(m, n), which \
   * is overwritten. False if that does not converge. */                                         \
  template <class T>                                                                             \
  bool Svd(T* a, int64_t m, int64_t n, bool full, T* u, double* s, T* vh);

namespace plain {
HAMMOCK_FACTORS
}
namespace lapack {
HAMMOCK_FACTORS
}
#undef HAMMOCK_FACTORS

}  // namespace hammock::reference
