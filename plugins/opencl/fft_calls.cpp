// Fourier transforms, over the prime factors of the size, in doubles (Stockham). After factors with
// the product l, x[k, j] is the transform of elements j, j + m, j + 2m, ... of a line, m = n / l;
// the next factor p gives
//   y[k, j] = sum over r < p of x[k % l, j + r * m / p] * exp(-+2 pi i r k / (l p))
// A work-item has one such sum.
#include <fmt/format.h>

#include <utility>

#include "calls.h"

namespace opencl {

using hammock::DType;
using hammock::Shape;

namespace {

std::vector<int64_t> PrimeFactors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

/// Elements in memory: real, or complex as vectors of two.
std::string ElementType(DType dtype) {
  const std::string real = MemoryType(hammock::RealOf(dtype));
  return hammock::IsComplex(dtype) ? real + "2" : real;
}

/// A transform of `size` along a dim, whose extent in memory may be another one.
struct Transform {
  int64_t size;
  Axis from, to;
  int64_t direction;  // -1: forward
  const char* element;
  int64_t lines() const { return from.outer * from.inner; }
};

/// Memory for the values between factors.
struct Work {
  Work(CallBuilder& call, int64_t count)
      : now(call.Scratch(count * 16)), next(call.Scratch(count * 16)) {}
  Argument now, next;
};

/// The element at position k of a line that begins at `first`. Of the frequencies of real numbers
/// half are in memory; parts that must be real are not read.
constexpr char kComplexElement[] =
    "const double2 value = convert_double2(from[first + k * inner]);";
constexpr char kRealElement[] = "const double2 value = (double2)(from[first + k * inner], 0);";
constexpr char kMirroredElement[] = R"(const long mirrored = (n - k) % n;
  const double2 there = convert_double2(from[first + min(k, mirrored) * inner]);
  const double2 value = (double2)(there.x, k == mirrored ? 0 : k < mirrored ? there.y : -there.y);)";

void RunTransform(CallBuilder& call, const Transform& transform, const Argument& from, Work work) {
  const DType from_type = call.in(0).dtype();
  const int64_t n = transform.size, count = transform.lines();
  if (n == 0 || count == 0) return;
  call.RunEach(count * n, {{ElementType(from_type), "from"}, {"double2", "to"}},
               Fill(R"(
  const long n = w[0], inner = w[1], line = i / n, k = i % n;
  const long first = line / inner * w[2] * inner + line % inner;
  $ELEMENT$
  to[i] = value;
)",
                    {{"ELEMENT", transform.element}}),
               {from, work.now}, {n, transform.from.inner, transform.from.extent});
  int64_t done = 1;
  for (int64_t p : PrimeFactors(n)) {
    call.RunEach(count * n, {{"double2", "from"}, {"double2", "to"}}, R"(
  const long n = w[0], l = w[1], p = w[2], m = n / l, part = m / p;
  const long k = i % n / part, j = i % part;
  __global const double2* x = from + i / n * n + k % l * m + j;
  double2 sum = 0;
  long turn = 0;
  for (long r = 0; r < p; ++r) {
    // Angles of at most half a turn are the most exact.
    const double at = (double)(2 * turn > l * p ? turn - l * p : turn) / (double)(l * p);
    const double angle = w[3] * 6.28318530717958647692 * at, c = cos(angle), s = sin(angle);
    const double2 value = x[r * part];
    sum += (double2)(value.x * c - value.y * s, value.x * s + value.y * c);
    turn = (turn + k) % (l * p);
  }
  to[i] = sum;
)",
                 {work.now, work.next}, {n, done, p, transform.direction});
    done *= p;
    std::swap(work.now, work.next);
  }
  const DType to_type = call.out().dtype();
  const std::string real = MemoryType(hammock::RealOf(to_type));
  call.RunEach(
      count * transform.to.extent, {{"double2", "from"}, {ElementType(to_type), "to"}},
      Fill(R"(
  const long n = w[0], inner = w[1], extent = w[2], line = i / extent, k = i % extent;
  const double scale = w[3] == 0 ? 1 : w[3] == 1 ? 1 / sqrt((double)n) : 1 / (double)n;
  const double2 value = from[line * n + k] * scale;
  to[line / inner * extent * inner + line % inner + k * inner] = $VALUE$;
)",
           {{"VALUE", hammock::IsComplex(to_type) ? fmt::format("convert_{}2(value)", real)
                                                  : fmt::format("({})value.x", real)}}),
      {work.now, call.Out()},
      {n, transform.to.inner, transform.to.extent, call.node().attr("normalization").integer()});
}

void C2C(CallBuilder& call) {
  const auto& dims = call.node().attr("dim").ints();
  if (dims.empty()) return call.CopyWhole(call.In(0), call.Out(), call.out().bytes());
  const int64_t direction = call.node().attr("forward").boolean() ? -1 : 1;
  const Work work(call, call.out().numel());
  Argument from = call.In(0);
  for (int64_t dim : dims) {
    const Axis axis(call.out().sizes(), dim);
    RunTransform(call, {axis.extent, axis, axis, direction, kComplexElement}, from, work);
    from = call.Out();
  }
}

/// From or to real numbers; `size` is the number of these.
void OfReals(CallBuilder& call, int64_t size, int64_t direction, const char* element) {
  const int64_t dim = call.node().attr("dim").integer();
  const Axis from(call.in(0).sizes(), dim), to(call.out().sizes(), dim);
  RunTransform(call, {size, from, to, direction, element}, call.In(0),
               Work(call, from.outer * from.inner * size));
}

void R2C(CallBuilder& call) {
  const auto dim = static_cast<int>(call.node().attr("dim").integer());
  OfReals(call, call.in(0).size(dim), -1, kRealElement);
}

void C2R(CallBuilder& call) {
  OfReals(call, call.node().attr("size").integer(), 1, kMirroredElement);
}

}  // namespace

std::vector<CallEntry> FftCalls() { return {{"fft_c2c", C2C}, {"fft_r2c", R2C}, {"fft_c2r", C2R}}; }

}  // namespace opencl
