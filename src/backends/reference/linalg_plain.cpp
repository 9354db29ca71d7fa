// Textbook algorithms: Cholesky-Banachiewicz, Gaussian elimination with partial pivoting,
// Householder's QR with LAPACK's signs, and Jacobi's rotations for eigenvalues and singular values.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/reference/linalg.h"

namespace hammock::reference::plain {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kMaxSweeps = 100;

std::vector<double> Transposed(const double* a, int64_t m, int64_t n) {
  std::vector<double> result(m * n);
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
void Rotate(double* x, double* y, int64_t count, int64_t stride, Rotation by) {
  for (int64_t i = 0; i < count * stride; i += stride) {
    double a = x[i], b = y[i];
    x[i] = by.cosine * a - by.sine * b;
    y[i] = by.sine * a + by.cosine * b;
  }
}

double Dot(const double* x, const double* y, int64_t count) {
  return std::inner_product(x, x + count, y, 0.0);
}

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
void CompleteBasis(double* basis, int64_t first, int64_t count, int64_t size) {
  if (first == count) return;
  std::vector<double> columns = Transposed(basis, first, size);
  std::vector<double> q(size * size), r(size * first);
  Qr(columns.data(), size, first, size, q.data(), r.data());
  for (int64_t i = first; i < count; ++i) {
    for (int64_t j = 0; j < size; ++j) basis[i * size + j] = q[j * size + i];
  }
}

/// Singular values of the n rows of w (of length m >= n), which become orthogonal; `v` takes part.
bool OrthogonalizeRows(double* w, double* v, int64_t n, int64_t m) {
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        double *x = w + p * m, *y = w + q * m;
        double xx = Dot(x, x, m), yy = Dot(y, y, m), xy = Dot(x, y, m);
        if (std::abs(xy) <= kEpsilon * static_cast<double>(m) * std::sqrt(xx * yy)) continue;
        rotated = true;
        Rotation rotation = Diagonalizing(xx, yy, xy);
        Rotate(x, y, m, 1, rotation);
        Rotate(v + p * n, v + q * n, n, 1, rotation);
      }
    }
    if (!rotated) return true;
  }
  return false;
}

/// For m >= n: ut[columns of u, m], s[n], vt[n, n].
bool TallSvd(const double* a, int64_t m, int64_t n, int64_t columns, double* ut, double* s,
             double* vt) {
  std::vector<double> w = Transposed(a, m, n), v(n * n);
  for (int64_t i = 0; i < n; ++i) v[i * n + i] = 1;
  if (!OrthogonalizeRows(w.data(), v.data(), n, m)) return false;
  std::vector<double> norms(n);
  for (int64_t i = 0; i < n; ++i) norms[i] = std::sqrt(Dot(&w[i * m], &w[i * m], m));
  std::vector<int64_t> order = Order(norms, true);
  int64_t rank = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t from = order[i];
    s[i] = norms[from];
    std::copy_n(&v[from * n], n, vt + i * n);
    // The direction of a vector of rounding errors means nothing.
    if (s[i] <= s[0] * kEpsilon * static_cast<double>(m)) continue;
    for (int64_t j = 0; j < m; ++j) ut[i * m + j] = w[from * m + j] / s[i];
    rank = i + 1;
  }
  CompleteBasis(ut, rank, columns, m);
  return true;
}

}  // namespace

int64_t Cholesky(double* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double rest = a[i * n + j] - Dot(a + i * n, a + j * n, j);
      if (i == j && !(rest > 0)) return i + 1;
      a[i * n + j] = i == j ? std::sqrt(rest) : rest / a[j * n + j];
    }
    std::fill(a + i * n + i + 1, a + (i + 1) * n, 0.0);
  }
  return 0;
}

void Lu(double* a, int64_t m, int64_t n, int32_t* pivots) {
  for (int64_t step = 0; step < std::min(m, n); ++step) {
    int64_t best = step;
    for (int64_t i = step + 1; i < m; ++i) {
      if (std::abs(a[i * n + step]) > std::abs(a[best * n + step])) best = i;
    }
    pivots[step] = static_cast<int32_t>(best + 1);
    if (best != step) std::swap_ranges(a + step * n, a + (step + 1) * n, a + best * n);
    double pivot = a[step * n + step];
    if (pivot == 0) continue;
    for (int64_t i = step + 1; i < m; ++i) {
      double factor = a[i * n + step] /= pivot;
      for (int64_t j = step + 1; j < n; ++j) a[i * n + j] -= factor * a[step * n + j];
    }
  }
}

void Qr(double* a, int64_t m, int64_t n, int64_t columns, double* q, double* r) {
  int64_t k = std::min(m, n);
  std::vector<double> scales(k);
  // H = I - scale * v * v.T with v[step] = 1; the rest of v is kept below the diagonal.
  auto reflect = [&](int64_t step, double* matrix, int64_t width, int64_t first) {
    for (int64_t j = first; j < width; ++j) {
      double sum = matrix[step * width + j];
      for (int64_t i = step + 1; i < m; ++i) sum += a[i * n + step] * matrix[i * width + j];
      sum *= scales[step];
      matrix[step * width + j] -= sum;
      for (int64_t i = step + 1; i < m; ++i) matrix[i * width + j] -= sum * a[i * n + step];
    }
  };
  for (int64_t step = 0; step < k; ++step) {
    double head = a[step * n + step], tail = 0;
    for (int64_t i = step + 1; i < m; ++i) tail = std::hypot(tail, a[i * n + step]);
    if (tail == 0) continue;
    double norm = -std::copysign(std::hypot(head, tail), head);
    scales[step] = (norm - head) / norm;
    for (int64_t i = step + 1; i < m; ++i) a[i * n + step] /= head - norm;
    reflect(step, a, n, step + 1);
    a[step * n + step] = norm;
  }
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t j = 0; j < n; ++j) r[i * n + j] = j >= i ? a[i * n + j] : 0;
  }
  std::fill(q, q + m * columns, 0.0);
  for (int64_t i = 0; i < columns; ++i) q[i * columns + i] = 1;
  for (int64_t step = k; step-- > 0;) reflect(step, q, columns, 0);
}

bool Eigh(double* a, int64_t n, double* values) {
  std::vector<double> vectors(n * n);  // as rows
  for (int64_t i = 0; i < n; ++i) vectors[i * n + i] = 1;
  double small = std::sqrt(Dot(a, a, n * n)) * kEpsilon / 64;
  bool converged = n < 2;
  for (int sweep = 0; sweep < kMaxSweeps && !converged; ++sweep) {
    converged = true;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        double off = a[p * n + q];
        if (std::abs(off) <= small) continue;
        converged = false;
        Rotation rotation = Diagonalizing(a[p * n + p], a[q * n + q], off);
        Rotate(a + p, a + q, n, n, rotation);          // columns
        Rotate(a + p * n, a + q * n, n, 1, rotation);  // rows
        a[p * n + q] = a[q * n + p] = 0;
        Rotate(&vectors[p * n], &vectors[q * n], n, 1, rotation);
      }
    }
  }
  std::vector<double> diagonal(n);
  for (int64_t i = 0; i < n; ++i) diagonal[i] = a[i * n + i];
  std::vector<int64_t> order = Order(diagonal, false);
  for (int64_t i = 0; i < n; ++i) {
    values[i] = diagonal[order[i]];
    for (int64_t j = 0; j < n; ++j) a[j * n + i] = vectors[order[i] * n + j];
  }
  return converged;
}

bool Svd(double* a, int64_t m, int64_t n, bool full, double* u, double* s, double* vh) {
  if (m < n) {
    // a.T = v * s * u.T
    int64_t columns = full ? n : m;
    std::vector<double> tall = Transposed(a, m, n), ut(m * m);
    if (!TallSvd(tall.data(), n, m, columns, vh, s, ut.data())) return false;
    std::vector<double> left = Transposed(ut.data(), m, m);
    std::copy(left.begin(), left.end(), u);
    return true;
  }
  int64_t columns = full ? m : n;
  std::vector<double> ut(columns * m);
  if (!TallSvd(a, m, n, columns, ut.data(), s, vh)) return false;
  std::vector<double> left = Transposed(ut.data(), columns, m);
  std::copy(left.begin(), left.end(), u);
  return true;
}

}  // namespace hammock::reference::plain
