// Textbook algorithms: Cholesky-Banachiewicz, Gaussian elimination with partial pivoting,
// Householder's QR with LAPACK's signs, Jacobi's rotations for singular values and for eigenvalues
// of symmetric matrices, and the shifted QR algorithm for eigenvalues of others.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "backends/reference/linalg.h"

namespace hammock::reference::plain {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kMaxSweeps = 100;

template <class T>
std::vector<T> Transposed(const T* a, int64_t m, int64_t n) {
  std::vector<T> result(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) result[j * m + i] = a[i * n + j];
  }
  return result;
}

struct Rotation {
  double cosine, sine;
};

/// The rotation that makes [[p, g], [g, q]] diagonal.
Rotation Diagonalizing(double p, double q, double g) {
  double slope = (q - p) / (2 * g);
  double tangent = std::copysign(1 / (std::abs(slope) + std::hypot(1, slope)), slope);
  double cosine = 1 / std::hypot(1, tangent);
  return {cosine, tangent * cosine};
}

/// Rotates `count` pairs of elements that lie `stride` apart.
template <class T>
void Rotate(T* x, T* y, int64_t count, int64_t stride, Rotation by) {
  for (int64_t i = 0; i < count * stride; i += stride) {
    T a = x[i], b = y[i];
    x[i] = by.cosine * a - by.sine * b;
    y[i] = by.sine * a + by.cosine * b;
  }
}

/// The second one is conjugated.
template <class T>
T Dot(const T* x, const T* y, int64_t count) {
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * Conjugate(y[i]);
  return sum;
}

template <class T>
double SquaredNorm(const T* x, int64_t count) {
  return std::real(Dot(x, x, count));
}

/// x / |x|, which makes a product with its conjugate real.
double PhaseOf(double) { return 1; }  // signs are the rotation's
Complex PhaseOf(const Complex& x) { return x / std::abs(x); }
double WithoutPhase(double x) { return x; }
double WithoutPhase(const Complex& x) { return std::abs(x); }

template <class T>
void Scale(T* x, int64_t count, int64_t stride, const T& by) {
  if constexpr (std::is_same_v<T, Complex>) {
    for (int64_t i = 0; i < count * stride; i += stride) x[i] *= by;
  }
}

/// The size by which LAPACK compares pivots.
double PivotSize(double x) { return std::abs(x); }
double PivotSize(const Complex& x) { return std::abs(x.real()) + std::abs(x.imag()); }

/// Positions of `values` in ascending or descending order.
std::vector<int64_t> Order(const std::vector<double>& values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return descending ? values[x] > values[y] : values[x] < values[y];
  });
  return order;
}

/// The orthonormal rows basis[first..count) that `first` orthonormal rows of length `size` lack.
template <class T>
void CompleteBasis(T* basis, int64_t first, int64_t count, int64_t size) {
  if (first == count) return;
  std::vector<T> columns = Transposed(basis, first, size);
  std::vector<T> q(size * size), r(size * first);
  Qr(columns.data(), size, first, size, q.data(), r.data());
  for (int64_t i = first; i < count; ++i) {
    for (int64_t j = 0; j < size; ++j) basis[i * size + j] = q[j * size + i];
  }
}

/// Singular values of the n rows of w (of length m >= n), which become orthogonal; `v` takes part.
template <class T>
bool OrthogonalizeRows(T* w, T* v, int64_t n, int64_t m) {
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        T *x = w + p * m, *y = w + q * m;
        double xx = SquaredNorm(x, m), yy = SquaredNorm(y, m);
        const T product = Dot(x, y, m);
        const double xy = WithoutPhase(product);
        if (std::abs(xy) <= kEpsilon * static_cast<double>(m) * std::sqrt(xx * yy)) continue;
        rotated = true;
        Rotation rotation = Diagonalizing(xx, yy, xy);
        Scale(y, m, 1, T(PhaseOf(product)));
        Scale(v + q * n, n, 1, T(PhaseOf(product)));
        Rotate(x, y, m, 1, rotation);
        Rotate(v + p * n, v + q * n, n, 1, rotation);
      }
    }
    if (!rotated) return true;
  }
  return false;
}

/// For m >= n: ut[columns of u, m], s[n], vt[n, n].
template <class T>
bool TallSvd(const T* a, int64_t m, int64_t n, int64_t columns, T* ut, double* s, T* vt) {
  std::vector<T> w = Transposed(a, m, n), v(n * n);
  for (int64_t i = 0; i < n; ++i) v[i * n + i] = 1;
  if (!OrthogonalizeRows(w.data(), v.data(), n, m)) return false;
  std::vector<double> norms(n);
  for (int64_t i = 0; i < n; ++i) norms[i] = std::sqrt(SquaredNorm(&w[i * m], m));
  std::vector<int64_t> order = Order(norms, true);
  int64_t rank = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t from = order[i];
    s[i] = norms[from];
    for (int64_t j = 0; j < n; ++j) vt[i * n + j] = Conjugate(v[from * n + j]);
    // The direction of a vector of rounding errors means nothing.
    if (s[i] <= s[0] * kEpsilon * static_cast<double>(m)) continue;
    for (int64_t j = 0; j < m; ++j) ut[i * m + j] = w[from * m + j] / s[i];
    rank = i + 1;
  }
  CompleteBasis(ut, rank, columns, m);
  return true;
}

/// The unitary [[cosine, sine], [-conj(sine), cosine]].
struct Turn {
  double cosine;
  Complex sine;
};

/// The one that takes (x, y) to (z, 0).
Turn Zeroing(const Complex& x, const Complex& y) {
  const double length = std::hypot(std::abs(x), std::abs(y));
  if (length == 0) return {1, 0};
  const Complex phase = x == 0.0 ? 1 : x / std::abs(x);
  return {std::abs(x) / length, phase * std::conj(y) / length};
}

/// Rows p and p + 1 of a[n,n], from the left.
void TurnRows(Complex* a, int64_t n, int64_t p, const Turn& by) {
  for (int64_t j = 0; j < n; ++j) {
    Complex &x = a[p * n + j], &y = a[(p + 1) * n + j];
    const Complex u = x, v = y;
    x = by.cosine * u + by.sine * v;
    y = by.cosine * v - std::conj(by.sine) * u;
  }
}

/// Columns p and p + 1, by the adjoint from the right.
void TurnColumns(Complex* a, int64_t n, int64_t p, const Turn& by) {
  for (int64_t i = 0; i < n; ++i) {
    Complex &x = a[i * n + p], &y = a[i * n + p + 1];
    const Complex u = x, v = y;
    x = by.cosine * u + std::conj(by.sine) * v;
    y = by.cosine * v - by.sine * u;
  }
}

/// Zeros below the first subdiagonal of a; the same turns on the columns of q keep q * a * q.H.
void MakeHessenberg(Complex* a, Complex* q, int64_t n) {
  for (int64_t column = 0; column + 2 < n; ++column) {
    for (int64_t row = n - 1; row > column + 1; --row) {
      const Turn turn = Zeroing(a[(row - 1) * n + column], a[row * n + column]);
      TurnRows(a, n, row - 1, turn);
      TurnColumns(a, n, row - 1, turn);
      TurnColumns(q, n, row - 1, turn);
    }
  }
}

/// The eigenvalue of the last two rows that is nearer to the last element.
Complex WilkinsonShift(const Complex* a, int64_t n, int64_t last) {
  const Complex p = a[(last - 1) * n + last - 1], q = a[last * n + last];
  const Complex product = a[(last - 1) * n + last] * a[last * n + last - 1];
  const Complex half = (p - q) / 2.0, root = std::sqrt(half * half + product);
  const Complex far = std::abs(half + root) > std::abs(half - root) ? half + root : half - root;
  return far == 0.0 ? q : q - product / far;
}

/// One QR step on rows and columns first .. last of the Hessenberg matrix a.
void QrStep(Complex* a, Complex* q, int64_t n, int64_t first, int64_t last, const Complex& shift) {
  std::vector<Turn> turns;
  for (int64_t i = first; i <= last; ++i) a[i * n + i] -= shift;
  for (int64_t i = first; i < last; ++i) {
    turns.push_back(Zeroing(a[i * n + i], a[(i + 1) * n + i]));
    TurnRows(a, n, i, turns.back());
  }
  for (int64_t i = first; i < last; ++i) {
    TurnColumns(a, n, i, turns[i - first]);
    TurnColumns(q, n, i, turns[i - first]);
  }
  for (int64_t i = first; i <= last; ++i) a[i * n + i] += shift;
}

/// a becomes upper triangular, q unitary, with q * a * q.H the matrix that `a` was.
bool Schur(Complex* a, Complex* q, int64_t n) {
  MakeHessenberg(a, q, n);
  int64_t last = n - 1;
  for (int step = 0; last > 0; ++step) {
    int64_t first = last;
    for (; first > 0; --first) {
      Complex& below = a[first * n + first - 1];
      const double size = std::abs(a[(first - 1) * n + first - 1]) + std::abs(a[first * n + first]);
      if (std::abs(below) > kEpsilon * size) continue;
      below = 0;
      break;
    }
    if (first == last) {
      --last;
      step = -1;
      continue;
    }
    if (step == kMaxSweeps) return false;
    // A shift of another kind now and then ends cycles.
    const bool odd = step % 10 == 9;
    QrStep(
        a, q, n, first, last,
        odd ? a[last * n + last] + std::abs(a[last * n + last - 1]) : WilkinsonShift(a, n, last));
  }
  return true;
}

/// The vector x of length 1 with t * x == t[k,k] * x for the upper triangular t[n,n]; equal values
/// are told apart by a distance of rounding errors, as LAPACK does.
std::vector<Complex> TriangularVector(const Complex* t, int64_t n, int64_t k, double smallest) {
  std::vector<Complex> x(n);
  x[k] = 1;
  for (int64_t i = k; i-- > 0;) {
    Complex sum = 0;
    for (int64_t j = i + 1; j <= k; ++j) sum += t[i * n + j] * x[j];
    Complex gap = t[k * n + k] - t[i * n + i];
    if (std::abs(gap) < smallest) gap = smallest;
    x[i] = sum / gap;
  }
  const double length = std::sqrt(SquaredNorm(x.data(), n));
  for (Complex& each : x) each /= length;
  return x;
}

}  // namespace

template <class T>
int64_t Cholesky(T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      T rest = a[i * n + j] - Dot(a + i * n, a + j * n, j);
      if (i == j && !(std::real(rest) > 0)) return i + 1;
      a[i * n + j] = i == j ? T(std::sqrt(std::real(rest))) : rest / a[j * n + j];
    }
    std::fill(a + i * n + i + 1, a + (i + 1) * n, T(0));
  }
  return 0;
}

template <class T>
void Lu(T* a, int64_t m, int64_t n, int32_t* pivots) {
  for (int64_t step = 0; step < std::min(m, n); ++step) {
    int64_t best = step;
    for (int64_t i = step + 1; i < m; ++i) {
      if (PivotSize(a[i * n + step]) > PivotSize(a[best * n + step])) best = i;
    }
    pivots[step] = static_cast<int32_t>(best + 1);
    if (best != step) std::swap_ranges(a + step * n, a + (step + 1) * n, a + best * n);
    T pivot = a[step * n + step];
    if (pivot == T(0)) continue;
    for (int64_t i = step + 1; i < m; ++i) {
      T factor = a[i * n + step] /= pivot;
      for (int64_t j = step + 1; j < n; ++j) a[i * n + j] -= factor * a[step * n + j];
    }
  }
}

template <class T>
void Qr(T* a, int64_t m, int64_t n, int64_t columns, T* q, T* r) {
  int64_t k = std::min(m, n);
  std::vector<T> scales(k);
  // H = I - scale * v * v.H with v[step] = 1; the rest of v is kept below the diagonal.
  auto reflect = [&](int64_t step, T scale, T* matrix, int64_t width, int64_t first) {
    for (int64_t j = first; j < width; ++j) {
      T sum = matrix[step * width + j];
      for (int64_t i = step + 1; i < m; ++i) {
        sum += Conjugate(a[i * n + step]) * matrix[i * width + j];
      }
      sum *= scale;
      matrix[step * width + j] -= sum;
      for (int64_t i = step + 1; i < m; ++i) matrix[i * width + j] -= sum * a[i * n + step];
    }
  };
  for (int64_t step = 0; step < k; ++step) {
    const T head = a[step * n + step];
    double tail = 0;
    for (int64_t i = step + 1; i < m; ++i) tail = std::hypot(tail, std::abs(a[i * n + step]));
    if (tail == 0 && std::imag(head) == 0) continue;
    double norm = -std::copysign(std::hypot(std::abs(head), tail), std::real(head));
    scales[step] = (norm - head) / norm;
    for (int64_t i = step + 1; i < m; ++i) a[i * n + step] /= head - norm;
    reflect(step, Conjugate(scales[step]), a, n, step + 1);
    a[step * n + step] = norm;
  }
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t j = 0; j < n; ++j) r[i * n + j] = j >= i ? a[i * n + j] : T(0);
  }
  std::fill(q, q + m * columns, T(0));
  for (int64_t i = 0; i < columns; ++i) q[i * columns + i] = 1;
  for (int64_t step = k; step-- > 0;) reflect(step, scales[step], q, columns, 0);
}

template <class T>
bool Eigh(T* a, int64_t n, double* values) {
  std::vector<T> vectors(n * n);  // as rows
  for (int64_t i = 0; i < n; ++i) vectors[i * n + i] = 1;
  double small = std::sqrt(SquaredNorm(a, n * n)) * kEpsilon / 64;
  bool converged = n < 2;
  for (int sweep = 0; sweep < kMaxSweeps && !converged; ++sweep) {
    converged = true;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const T off = a[p * n + q];
        if (std::abs(off) <= small) continue;
        converged = false;
        Rotation rotation =
            Diagonalizing(std::real(a[p * n + p]), std::real(a[q * n + q]), WithoutPhase(off));
        const T phase = PhaseOf(off);
        Scale(a + q, n, n, Conjugate(phase));
        Scale(a + q * n, n, 1, phase);
        Scale(&vectors[q * n], n, 1, Conjugate(phase));
        Rotate(a + p, a + q, n, n, rotation);          // columns
        Rotate(a + p * n, a + q * n, n, 1, rotation);  // rows
        a[p * n + q] = a[q * n + p] = 0;
        Rotate(&vectors[p * n], &vectors[q * n], n, 1, rotation);
      }
    }
  }
  std::vector<double> diagonal(n);
  for (int64_t i = 0; i < n; ++i) diagonal[i] = std::real(a[i * n + i]);
  std::vector<int64_t> order = Order(diagonal, false);
  for (int64_t i = 0; i < n; ++i) {
    values[i] = diagonal[order[i]];
    for (int64_t j = 0; j < n; ++j) a[j * n + i] = vectors[order[i] * n + j];
  }
  return converged;
}

template <class T>
bool Eig(T* a, int64_t n, Complex* values, Complex* vectors) {
  std::vector<Complex> t(a, a + n * n), q(n * n);
  double scale = 0;  // squares of large or small elements would leave the range of doubles
  for (const Complex& each : t) scale = std::max(scale, std::abs(each));
  for (Complex& each : t) each /= scale == 0 ? 1 : scale;
  for (int64_t i = 0; i < n; ++i) q[i * n + i] = 1;
  if (!Schur(t.data(), q.data(), n)) return false;
  const double norm = std::sqrt(SquaredNorm(t.data(), n * n));
  const double smallest = std::max(kEpsilon * norm, std::numeric_limits<double>::min());
  for (int64_t k = 0; k < n; ++k) {
    values[k] = t[k * n + k] * scale;
    std::vector<Complex> x = TriangularVector(t.data(), n, k, smallest);
    for (int64_t i = 0; i < n; ++i) {
      Complex& sum = vectors[i * n + k] = 0;
      for (int64_t j = 0; j <= k; ++j) sum += q[i * n + j] * x[j];
    }
  }
  return true;
}

template <class T>
bool Svd(T* a, int64_t m, int64_t n, bool full, T* u, double* s, T* vh) {
  if (m < n) {
    // a.T = v * s * u.T
    int64_t columns = full ? n : m;
    std::vector<T> tall = Transposed(a, m, n), ut(m * m);
    if (!TallSvd(tall.data(), n, m, columns, vh, s, ut.data())) return false;
    std::vector<T> left = Transposed(ut.data(), m, m);
    std::copy(left.begin(), left.end(), u);
    return true;
  }
  int64_t columns = full ? m : n;
  std::vector<T> ut(columns * m);
  if (!TallSvd(a, m, n, columns, ut.data(), s, vh)) return false;
  std::vector<T> left = Transposed(ut.data(), columns, m);
  std::copy(left.begin(), left.end(), u);
  return true;
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

}  // namespace hammock::reference::plain
