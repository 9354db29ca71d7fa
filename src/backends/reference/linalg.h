#pragma once
/// Matrix factors of one matrix, row-major, in double. Two sets of the same functions: `plain` is
/// always there, `lapack` where the library was found when configuring (HAMMOCK_WITH_LAPACK).

#include <cstdint>

namespace hammock::reference {

#define HAMMOCK_FACTORS                                                                          \
  /** The lower factor of the lower triangle of a[n,n], in place, zeros above; 0, or the order   \
   * of the first leading minor that is not positive. */                                         \
  int64_t Cholesky(double* a, int64_t n);                                                        \
  /** L (ones on its diagonal are not stored) and U of a[m,n] with rows exchanged, in place.     \
   * Step i exchanged row i with row pivots[i], counted from 1. */                               \
  void Lu(double* a, int64_t m, int64_t n, int32_t* pivots);                                     \
  /** q[m,columns] and r[columns,n] of a[m,n]; columns is min(m, n) or m. `a` is overwritten. */ \
  void Qr(double* a, int64_t m, int64_t n, int64_t columns, double* q, double* r);               \
  /** Ascending values[n] of the symmetric a[n,n], which becomes their vectors, as columns.      \
   * False if that does not converge. */                                                         \
  bool Eigh(double* a, int64_t n, double* values);                                               \
  /** u[m,full ? m : k], descending s[k] and vh[full ? n : k, n] of a[m,n], k = min(m, n), which \
   * is overwritten. False if that does not converge. */                                         \
  bool Svd(double* a, int64_t m, int64_t n, bool full, double* u, double* s, double* vh);

namespace plain {
HAMMOCK_FACTORS
}
namespace lapack {
HAMMOCK_FACTORS
}
#undef HAMMOCK_FACTORS

}  // namespace hammock::reference
