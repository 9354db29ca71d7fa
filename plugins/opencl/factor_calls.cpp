// Factors of matrices: a work-item for each matrix, by textbook algorithms in doubles.
#include <fmt/format.h>

#include <algorithm>

#include "calls.h"

namespace opencl {

using hammock::DType;
using hammock::ErrorCode;
using hammock::Shape;

namespace {

/// The last two sizes, and how many such matrices there are.
struct Matrices {
  explicit Matrices(const Shape& type)
      : rows(type.size(type.rank() - 2)), columns(type.size(type.rank() - 1)) {
    for (int i = 0; i < type.rank() - 2; ++i) count *= type.size(i);
  }
  int64_t size() const { return rows * columns; }
  int64_t least() const { return std::min(rows, columns); }
  int64_t count = 1, rows, columns;
};

Argument Doubles(CallBuilder& call, int64_t count) { return call.Scratch(count * 8); }

/// The faults that a matrix may have: numbers from 1, below `kinds`. The kernel sets `wrong` of
/// each matrix to i * kinds + number, and notes the fault.
struct MatrixFault {
  Argument place, wrong;

  /// `$WHICH$` in the message is the matrix. Without one nothing can fail.
  static MatrixFault Of(CallBuilder& call, int64_t kinds,
                        std::function<std::string(int64_t number)> message) {
    MatrixFault fault;
    fault.wrong = call.Scratch(Matrices(call.in(0)).count * 8);
    if (!message) {
      fault.place = call.Scratch(16);
      return fault;
    }
    const bool batched = call.in(0).rank() > 2;
    fault.place = call.Fault({ErrorCode::kValue, [=, message = std::move(message)](int64_t number) {
                                const std::string which =
                                    batched ? fmt::format("(batch element {}) ", number / kinds)
                                            : std::string();
                                return Fill(message(number % kinds), {{"WHICH", which}});
                              }});
    return fault;
  }
  void Find(CallBuilder& call) const { call.FindFault(place, wrong, DType::kI64); }
};

std::string NotConverged(const std::string& op, int64_t kind) {
  return fmt::format("{}: $WHICH$the algorithm failed to converge because the input matrix {}", op,
                     kind == 1 ? "has values that are not finite"
                               : "is ill-conditioned or has too many repeated values");
}

std::string NeedsReal(const hammock::Graph& graph, const hammock::GraphNode& node) {
  const bool complex = hammock::IsComplex(graph.TypeOf(node.inputs[0]).dtype());
  return complex ? "complex matrices are not factored" : "";
}

constexpr char kEpsilon[] = "const double eps = sizeof(double) == 4 ? 0x1p-23 : 0x1p-52;\n";

// ---- Cholesky

void Cholesky(CallBuilder& call) {
  const Matrices in(call.in(0));
  if (in.size() == 0) return;
  const int64_t kinds = in.rows + 1;
  const auto fault = MatrixFault::Of(call, kinds, [op = call.op()](int64_t order) {
    return fmt::format(
        "{}: $WHICH$the factorization could not be completed because the input is not "
        "positive-definite (the leading minor of order {} is not positive-definite)",
        op, order);
  });
  const std::string type = MemoryType(call.out().dtype());
  call.RunEach(
      in.count,
      {{type, "from"}, {type, "to"}, {"double", "work"}, {"long", "wrong"}, {"int", "fault"}},
      Fill(R"(
  const long n = w[0], upper = w[1];
  __global double* a = work + i * n * n;
  from += i * n * n;
  to += i * n * n;
  wrong[i] = 0;
  for (long r = 0; r < n; ++r) {
    for (long c = 0; c <= r; ++c) {
      double rest = upper ? from[c * n + r] : from[r * n + c];
      for (long k = 0; k < c; ++k) rest -= a[r * n + k] * a[c * n + k];
      if (r == c && !(rest > 0)) {
        wrong[i] = i * (n + 1) + r + 1;
        note_fault(fault, i);
        return;
      }
      a[r * n + c] = r == c ? sqrt(rest) : rest / a[c * n + c];
    }
  }
  for (long r = 0; r < n; ++r) {
    for (long c = 0; c < n; ++c) {
      const double x = c <= r ? a[r * n + c] : 0;
      to[upper ? c * n + r : r * n + c] = ($T$)x;
    }
  }
)",
           {{"T", type}}),
      {call.In(0), call.Out(), Doubles(call, in.count * in.size()), fault.wrong, fault.place},
      {in.rows, call.node().attr("upper").boolean()});
  fault.Find(call);
}

// ---- LU

void Lu(CallBuilder& call) {
  const Matrices in(call.in(0));
  const std::string& user = call.node().attr("op").str();
  std::function<std::string(int64_t)> singular;
  if (!user.empty()) {
    singular = [user](int64_t position) {
      return fmt::format(
          "{}: $WHICH$the input matrix is singular (the diagonal element {} of its factor U is "
          "zero)",
          user, position);
    };
  }
  const auto fault = MatrixFault::Of(call, in.least() + 1, singular);
  const std::string type = MemoryType(call.out().dtype());
  call.RunEach(in.count,
               {{type, "from"},
                {type, "to"},
                {"int", "pivots"},
                {"long", "rows"},
                {"double", "work"},
                {"long", "wrong"},
                {"int", "fault"}},
               Fill(R"(
  const long m = w[0], n = w[1], k = min(m, n);
  __global double* a = work + i * m * n;
  from += i * m * n;
  to += i * m * n;
  rows += i * m;
  wrong[i] = 0;
  for (long e = 0; e < m * n; ++e) a[e] = from[e];
  for (long r = 0; r < m; ++r) rows[r] = r;
  for (long step = 0; step < k; ++step) {
    long best = step;
    for (long r = step + 1; r < m; ++r) {
      if (fabs(a[r * n + step]) > fabs(a[best * n + step])) best = r;
    }
    pivots[i * k + step] = (int)(best + 1);
    const long moved = rows[step];
    rows[step] = rows[best];
    rows[best] = moved;
    for (long c = 0; c < n && best != step; ++c) {
      const double x = a[step * n + c];
      a[step * n + c] = a[best * n + c];
      a[best * n + c] = x;
    }
    const double pivot = a[step * n + step];
    if (pivot == 0) {
      if (w[2] && wrong[i] == 0) {
        wrong[i] = i * (k + 1) + step + 1;
        note_fault(fault, i);
      }
      continue;
    }
    for (long r = step + 1; r < m; ++r) {
      const double factor = a[r * n + step] / pivot;
      a[r * n + step] = factor;
      for (long c = step + 1; c < n; ++c) a[r * n + c] -= factor * a[step * n + c];
    }
  }
  for (long e = 0; e < m * n; ++e) to[e] = ($T$)a[e];
)",
                    {{"T", type}}),
               {call.In(0), call.Out(0), call.Out(1), call.Out(2),
                Doubles(call, in.count * in.size()), fault.wrong, fault.place},
               {in.rows, in.columns, !user.empty()});
  if (singular) fault.Find(call);
}

// ---- QR

/// Householder's reflections I - scale * v * v.T with v[step] = 1; the rest of v is kept below the
/// diagonal of `a`. $REFLECT$ applies one to columns from `first` of a matrix of `width` columns.
constexpr char kReflect[] = R"(
    for (long c = $FIRST$; c < $WIDTH$; ++c) {
      double sum = $MATRIX$[step * $WIDTH$ + c];
      for (long r = step + 1; r < m; ++r) sum += a[r * n + step] * $MATRIX$[r * $WIDTH$ + c];
      sum *= scales[step];
      $MATRIX$[step * $WIDTH$ + c] -= sum;
      for (long r = step + 1; r < m; ++r) $MATRIX$[r * $WIDTH$ + c] -= sum * a[r * n + step];
    }
)";

void Qr(CallBuilder& call) {
  const Matrices in(call.in(0)), q(call.out(0));
  const std::string type = MemoryType(call.out().dtype());
  auto reflect = [](const char* matrix, const char* width, const char* first) {
    return Fill(kReflect, {{"MATRIX", matrix}, {"WIDTH", width}, {"FIRST", first}});
  };
  call.RunEach(in.count,
               {{type, "from"},
                {type, "q_to"},
                {type, "r_to"},
                {"double", "a"},
                {"double", "q"},
                {"double", "scales"}},
               Fill(R"(
  const long m = w[0], n = w[1], columns = w[2], k = min(m, n);
  from += i * m * n;
  q_to += i * m * columns;
  r_to += i * columns * n;
  a += i * m * n;
  q += i * m * columns;
  scales += i * k;
  for (long e = 0; e < m * n; ++e) a[e] = from[e];
  for (long step = 0; step < k; ++step) {
    const double head = a[step * n + step];
    double tail = 0;
    for (long r = step + 1; r < m; ++r) tail = hypot(tail, a[r * n + step]);
    scales[step] = 0;
    if (tail == 0) continue;
    const double norm = -copysign(hypot(head, tail), head);
    scales[step] = (norm - head) / norm;
    for (long r = step + 1; r < m; ++r) a[r * n + step] /= head - norm;
    $REFLECT_A$
    a[step * n + step] = norm;
  }
  for (long r = 0; r < columns; ++r) {
    for (long c = 0; c < n; ++c) r_to[r * n + c] = c >= r ? ($T$)a[r * n + c] : 0;
  }
  for (long e = 0; e < m * columns; ++e) q[e] = e / columns == e % columns;
  for (long step = k - 1; step >= 0; --step) {
    $REFLECT_Q$
  }
  for (long e = 0; e < m * columns; ++e) q_to[e] = ($T$)q[e];
)",
                    {{"T", type},
                     {"REFLECT_A", reflect("a", "n", "step + 1")},
                     {"REFLECT_Q", reflect("q", "columns", "0")}}),
               {call.In(0), call.Out(0), call.Out(1), Doubles(call, in.count * in.size()),
                Doubles(call, q.count * q.size()), Doubles(call, in.count * in.least())},
               {in.rows, in.columns, q.columns});
}

// ---- Jacobi's rotations

/// The rotation that makes [[p, g], [g, q]] diagonal.
constexpr char kRotation[] = R"(
        const double slope = ($Q$ - $P$) / (2 * $G$);
        const double tangent = copysign(1 / (fabs(slope) + hypot(1, slope)), slope);
        const double cosine = 1 / hypot(1, tangent), sine = tangent * cosine;
)";
/// Rotates pairs of elements that lie `stride` apart.
constexpr char kRotate[] = R"(
        for (long e = 0; e < $COUNT$; ++e) {
          const double first = $X$[e * $STRIDE$], second = $Y$[e * $STRIDE$];
          $X$[e * $STRIDE$] = cosine * first - sine * second;
          $Y$[e * $STRIDE$] = sine * first + cosine * second;
        }
)";

std::string Rotation(const char* p, const char* q, const char* g) {
  return Fill(kRotation, {{"P", p}, {"Q", q}, {"G", g}});
}
std::string Rotate(const char* x, const char* y, const char* count, const char* stride) {
  return Fill(kRotate, {{"X", x}, {"Y", y}, {"COUNT", count}, {"STRIDE", stride}});
}

/// order[0..n): positions of `values`, by insertion; equal ones as they came.
constexpr char kOrder[] = R"(
  for (long e = 0; e < n; ++e) {
    long at = e;
    for (; at > 0 && values[order[at - 1]] $AFTER$ values[e]; --at) order[at] = order[at - 1];
    order[at] = e;
  }
)";

void Eigh(CallBuilder& call) {
  const Matrices in(call.in(0));
  if (in.size() == 0) return;
  const auto fault =
      MatrixFault::Of(call, 3, [op = call.op()](int64_t kind) { return NotConverged(op, kind); });
  const std::string type = MemoryType(call.in(0).dtype());
  call.RunEach(
      in.count,
      {{type, "from"},
       {type, "values_to"},
       {type, "vectors_to"},
       {"double", "a"},
       {"double", "vectors"},
       {"double", "values"},
       {"long", "order"},
       {"long", "wrong"},
       {"int", "fault"}},
      kEpsilon + Fill(R"(
  const long n = w[0], upper = w[1];
  from += i * n * n;
  values_to += i * n;
  vectors_to += i * n * n;
  a += i * n * n;
  vectors += i * n * n;
  values += i * n;
  order += i * n;
  wrong[i] = 0;
  double norm = 0;
  for (long e = 0; e < n * n; ++e) {
    const long r = e / n, c = e % n;
    a[e] = (c > r) == (upper != 0) || r == c ? from[e] : from[c * n + r];
    vectors[e] = r == c;
    norm = hypot(norm, a[e]);
  }
  const bool finite = norm - norm == 0;
  const double small = norm * eps / 64;
  bool converged = n < 2 || !finite;
  for (int sweep = 0; sweep < 100 && !converged; ++sweep) {
    converged = true;
    for (long p = 0; p < n; ++p) {
      for (long q = p + 1; q < n; ++q) {
        const double off = a[p * n + q];
        if (fabs(off) <= small) continue;
        converged = false;
        $ROTATION$
        $COLUMNS$
        $ROWS$
        a[p * n + q] = a[q * n + p] = 0;
        $VECTORS$
      }
    }
  }
  if (!converged) {
    wrong[i] = i * 3 + 2;
    note_fault(fault, i);
  }
  for (long e = 0; e < n; ++e) values[e] = a[e * n + e];
  $ORDER$
  const double nan = norm - norm;  // 0, or NaN where an element is not finite
  for (long e = 0; e < n; ++e) {
    values_to[e] = ($T$)(values[order[e]] + nan);
    for (long k = 0; k < n; ++k) vectors_to[k * n + e] = ($T$)(vectors[order[e] * n + k] + nan);
  }
)",
                      {{"T", type},
                       {"ROTATION", Rotation("a[p * n + p]", "a[q * n + q]", "off")},
                       {"COLUMNS", Rotate("(a + p)", "(a + q)", "n", "n")},
                       {"ROWS", Rotate("(a + p * n)", "(a + q * n)", "n", "1")},
                       {"VECTORS", Rotate("(vectors + p * n)", "(vectors + q * n)", "n", "1")},
                       {"ORDER", Fill(kOrder, {{"AFTER", ">"}})}}),
      {call.In(0), call.Out(0), call.Out(1), Doubles(call, in.count * in.size()),
       Doubles(call, in.count * in.size()), Doubles(call, in.count * in.rows),
       Doubles(call, in.count * in.rows), fault.wrong, fault.place},
      {in.rows, call.node().attr("UPLO").str() == "U"});
  fault.Find(call);
}

/// Rotations make the columns of the matrix, or its rows if these are fewer, orthogonal; their
/// norms are the singular values. `full` matrices have a basis that is completed by unit vectors.
void Svd(CallBuilder& call) {
  const Matrices in(call.in(0));
  const int64_t n = in.least(), m = std::max(in.rows, in.columns);
  const bool full = call.node().attr("full_matrices").boolean();
  const auto fault =
      MatrixFault::Of(call, 3, [op = call.op()](int64_t kind) { return NotConverged(op, kind); });
  const std::string type = MemoryType(call.in(0).dtype());
  call.RunEach(
      in.count,
      {{type, "from"},
       {type, "u_to"},
       {type, "s_to"},
       {type, "v_to"},
       {"double", "x"},
       {"double", "v"},
       {"double", "basis"},
       {"double", "values"},
       {"long", "order"},
       {"long", "wrong"},
       {"int", "fault"}},
      kEpsilon + Fill(R"(
  const long m = w[0], n = w[1], tall = w[2], columns = w[3];
  from += i * m * n;
  x += i * m * n;
  v += i * n * n;
  basis += i * m * columns;
  values += i * n;
  order += i * n;
  wrong[i] = 0;
  double norm = 0;
  for (long e = 0; e < m * n; ++e) {
    x[e] = tall ? from[e % m * n + e / m] : from[e];
    norm = hypot(norm, x[e]);
  }
  for (long e = 0; e < n * n; ++e) v[e] = e / n == e % n;
  const bool finite = norm - norm == 0;
  // Squares of elements neither overflow nor vanish.
  for (long e = 0; e < m * n && finite && norm > 0; ++e) x[e] /= norm;
  bool converged = n < 2;
  for (int sweep = 0; sweep < 100 && !converged && finite; ++sweep) {
    converged = true;
    for (long p = 0; p < n; ++p) {
      for (long q = p + 1; q < n; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (long e = 0; e < m; ++e) {
          pp += x[p * m + e] * x[p * m + e];
          qq += x[q * m + e] * x[q * m + e];
          pq += x[p * m + e] * x[q * m + e];
        }
        if (fabs(pq) <= eps * m * sqrt(pp * qq)) continue;
        converged = false;
        $ROTATION$
        $X$
        $V$
      }
    }
  }
  if (!finite || !converged) {
    wrong[i] = i * 3 + (finite ? 2 : 1);
    note_fault(fault, i);
    return;
  }
  for (long k = 0; k < n; ++k) {
    double sum = 0;
    for (long e = 0; e < m; ++e) sum += x[k * m + e] * x[k * m + e];
    values[k] = sqrt(sum);
  }
  $ORDER$
  long rank = 0;
  for (long k = 0; k < n; ++k) {
    const double value = values[order[k]];
    s_to[i * n + k] = ($T$)(value * norm);
    // The direction of a vector of rounding errors means nothing.
    if (value <= values[order[0]] * eps * m) continue;
    for (long e = 0; e < m; ++e) basis[k * m + e] = x[order[k] * m + e] / value;
    rank = k + 1;
  }
  long unit = 0;
  while (rank < columns) {
    // A unit vector without its parts along the others; there is one that leaves enough.
    for (long e = 0; e < m; ++e) basis[rank * m + e] = e == unit;
    double rest = 0;
    for (int twice = 0; twice < 2; ++twice) {
      for (long k = 0; k < rank; ++k) {
        double along = 0;
        for (long e = 0; e < m; ++e) along += basis[k * m + e] * basis[rank * m + e];
        for (long e = 0; e < m; ++e) basis[rank * m + e] -= along * basis[k * m + e];
      }
      rest = 0;
      for (long e = 0; e < m; ++e) rest += basis[rank * m + e] * basis[rank * m + e];
      if (rest < 0.25 / m) break;
    }
    ++unit;
    if (rest < 0.25 / m) continue;
    for (long e = 0; e < m; ++e) basis[rank * m + e] /= sqrt(rest);
    ++rank;
  }
  __global $T$* wide = (tall ? u_to : v_to) + i * m * columns;
  __global $T$* square = (tall ? v_to : u_to) + i * n * n;
  for (long e = 0; e < m * columns; ++e) {
    wide[tall ? e % m * columns + e / m : e] = ($T$)basis[e];
  }
  for (long e = 0; e < n * n; ++e) {
    const long k = e / n, c = e % n;
    square[tall ? e : c * n + k] = ($T$)v[order[k] * n + c];
  }
)",
                      {{"T", type},
                       {"ROTATION", Rotation("pp", "qq", "pq")},
                       {"X", Rotate("(x + p * m)", "(x + q * m)", "m", "1")},
                       {"V", Rotate("(v + p * n)", "(v + q * n)", "n", "1")},
                       {"ORDER", Fill(kOrder, {{"AFTER", "<"}})}}),
      {call.In(0), call.Out(0), call.Out(1), call.Out(2), Doubles(call, in.count * in.size()),
       Doubles(call, in.count * n * n), Doubles(call, in.count * m * (full ? m : n)),
       Doubles(call, in.count * n), Doubles(call, in.count * n), fault.wrong, fault.place},
      {m, n, in.rows >= in.columns, full ? m : n});
  fault.Find(call);
}

// ---- Triangular systems: a work-item for each column of the right side

void SolveTriangular(CallBuilder& call) {
  const auto& node = call.node();
  const Matrices factor(call.in(0)), right(call.in(1));
  const std::string type = MemoryType(call.out().dtype());
  call.RunEach(right.size() == 0 ? 0 : right.count * right.columns,
               {{type, "from"}, {type, "right"}, {type, "to"}, {"double", "work"}},
               Fill(R"(
  const long n = w[0], columns = w[1], upper = w[2], transposed = w[3], unit = w[4];
  const long matrix = i / columns, column = i % columns;
  __global const $T$* a = from + matrix * n * n;
  __global double* x = work + i * n;
  const long of_row = transposed ? 1 : n, of_column = transposed ? n : 1;
  const bool backwards = upper != transposed;
  for (long step = 0; step < n; ++step) {
    const long r = backwards ? n - 1 - step : step;
    double rest = right[(matrix * n + r) * columns + column];
    for (long c = backwards ? r + 1 : 0; c < (backwards ? n : r); ++c) {
      rest -= (double)a[r * of_row + c * of_column] * x[c];
    }
    x[r] = unit ? rest : rest / a[r * (n + 1)];
    to[(matrix * n + r) * columns + column] = ($T$)x[r];
  }
)",
                    {{"T", type}}),
               {call.In(0), call.In(1), call.Out(),
                Doubles(call, right.count * right.columns * factor.rows)},
               {factor.rows, right.columns, node.attr("upper").boolean(),
                node.attr("transpose").boolean(), node.attr("unitriangular").boolean()});
}

}  // namespace

std::vector<CallEntry> FactorCalls() {
  return {{"linalg_cholesky", Cholesky, NeedsReal},
          {"lu_decompose", Lu, NeedsReal},
          {"linalg_qr", Qr, NeedsReal},
          {"linalg_eigh", Eigh, NeedsReal},
          {"linalg_svd", Svd, NeedsReal},
          {"solve_triangular", SolveTriangular, NeedsReal}};
}

}  // namespace opencl
