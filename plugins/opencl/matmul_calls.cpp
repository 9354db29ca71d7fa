// Matmuls and convolutions, by tiles in local memory. A convolution is the matmul of its weight
// with patches of its input, which are read where they lie.
#include <fmt/format.h>

#include <algorithm>

#include "calls.h"

namespace opencl {

using hammock::ContiguousStrides;
using hammock::Dims;
using hammock::DType;
using hammock::Shape;

namespace {

constexpr int kTile = 32;  // rows and columns of a work-group's part of the result
constexpr int kSide = 8;   // work-items along each

/// a[m, k] times b[k, n] for each batch, summed in the order of k. $A$ and $B$ are elements of
/// operands at (m, k) and (k, n), w the numbers: m, n, k, those of the operands. A work-item has
/// four rows of four columns, as vectors: drivers for CPUs keep values over barriers in memory,
/// arrays too.
constexpr char kMatMul[] = R"(
  __local $V$ left[16][36];
  __local $V$ right[16][36];
  const int x = (int)get_local_id(0), y = (int)get_local_id(1), item = y * 8 + x;
  const long first_n = get_group_id(0) * 32, first_m = get_group_id(1) * 32;
  const long batch = get_group_id(2), ms = w[0], ns = w[1], ks = w[2];
  const long w3 = w[3], w4 = w[4], w5 = w[5], w6 = w[6], w7 = w[7], w8 = w[8];
  $V$4 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (long first_k = 0; first_k < ks; first_k += 16) {
    for (int e = item; e < 512; e += 64) {
      const int row = e / 16, depth = e % 16;
      const long m = first_m + row, k = first_k + depth;
      $V$ value = 0;
      if (m < ms && k < ks) value = $A$;
      left[depth][row] = value;
    }
    for (int e = item; e < 512; e += 64) {
      const int column = e % 32, depth = e / 32;
      const long n = first_n + column, k = first_k + depth;
      $V$ value = 0;
      if (n < ns && k < ks) {
        $B$
      }
      right[depth][column] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int depth = 0; depth < 16; ++depth) {
      const $V$4 l = vload4(y, left[depth]), r = vload4(x, right[depth]);
      s0 = $SUM0$;
      s1 = $SUM1$;
      s2 = $SUM2$;
      s3 = $SUM3$;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  $V$ sums[4][4];
  vstore4(s0, 0, sums[0]);
  vstore4(s1, 0, sums[1]);
  vstore4(s2, 0, sums[2]);
  vstore4(s3, 0, sums[3]);
  for (int a = 0; a < 4; ++a) {
    for (int c = 0; c < 4; ++c) {
      const long m = first_m + 4 * y + a, n = first_n + 4 * x + c;
      if (m < ms && n < ns) to[(batch * ms + m) * ns + n] = $TO$;
    }
  }
)";

struct Problem {
  int64_t batches, m, n, k;
};

void RunMatMul(CallBuilder& call, const Problem& p, const std::string& a, const std::string& b,
               const Argument& left, const Argument& right, std::vector<int64_t> numbers) {
  if (p.batches * p.m * p.n == 0) return;
  const DType dtype = call.in(0).dtype(), result = call.out().dtype();
  auto& scalars = call.scalars();
  const bool floats = hammock::IsFloat(dtype);
  const std::string value = !floats ? "ulong" : dtype == DType::kF64 ? "double" : "float";
  const DType sum = !floats ? DType::kU64 : dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  auto load = [&](const std::string& element) {
    return scalars.Cast(scalars.FromMemory(element, dtype), dtype, sum);
  };
  // The sums of a row with one more product each.
  auto next = [&](int row) {
    return floats ? fmt::format("fma(({0}4)(l.s{1}), r, s{1})", value, row)
                  : fmt::format("s{0} + l.s{0} * r", row);
  };
  numbers.insert(numbers.begin(), {p.m, p.n, p.k});
  const std::string type = MemoryType(dtype);
  auto groups = [](int64_t extent) { return static_cast<size_t>((extent + kTile - 1) / kTile); };
  call.Run(
      {{type, "a"}, {type, "b"}, {MemoryType(result), "to"}},
      Fill(kMatMul, {{"V", value},
                     {"A", load(a)},
                     {"B", Fill(b, {{"VALUE", load("b[at]")}})},
                     {"SUM0", next(0)},
                     {"SUM1", next(1)},
                     {"SUM2", next(2)},
                     {"SUM3", next(3)},
                     {"TO", scalars.ToMemory(scalars.Cast("sums[a][c]", sum, result), result)}}),
      {left, right, call.Out()}, std::move(numbers),
      {{groups(p.n) * kSide, groups(p.m) * kSide, static_cast<size_t>(p.batches)},
       {kSide, kSide, 1}});
}

// ---- dot_general

/// Dims that lie one behind another, as one; nothing where they do not.
std::optional<int64_t> JointStride(const Shape& type, const Dims& dims) {
  const Dims strides = ContiguousStrides(type.sizes());
  int64_t stride = -1, expected = -1;
  for (int i = dims.size() - 1; i >= 0; --i) {
    const int d = static_cast<int>(dims[i]);
    if (type.size(d) == 1) continue;
    if (stride < 0) stride = strides[d];
    if (expected >= 0 && strides[d] != expected) return std::nullopt;
    expected = strides[d] * type.size(d);
  }
  return std::max<int64_t>(stride, 0);
}

int64_t Product(const Shape& type, const Dims& dims) {
  int64_t product = 1;
  for (int64_t d : dims) product *= type.size(static_cast<int>(d));
  return product;
}

struct Operand {
  Argument memory;
  int64_t strides[3];  // of batches, and of the two dims of each matrix
};

/// An operand as a batch of matrices: as it lies, or by a copy.
Operand MatricesOf(CallBuilder& call, int i, const std::vector<Dims>& groups) {
  const Shape& type = call.in(i);
  std::optional<int64_t> strides[3];
  for (int g = 0; g < 3; ++g) strides[g] = JointStride(type, groups[g]);
  if (strides[0] && strides[1] && strides[2]) {
    return {call.In(i), {*strides[0], *strides[1], *strides[2]}};
  }
  const Dims from = ContiguousStrides(type.sizes());
  Dims sizes;
  CallBuilder::Layout layout;
  for (const Dims& group : groups) {
    for (int64_t d : group) {
      sizes.push_back(type.size(static_cast<int>(d)));
      layout.strides.push_back(from[static_cast<int>(d)]);
    }
  }
  const Argument copy = call.Scratch(type.bytes());
  call.Copy(sizes, BytesOf(type.dtype()), call.In(i), layout, copy, {0, ContiguousStrides(sizes)});
  const int64_t columns = Product(type, groups[2]);
  return {copy, {Product(type, groups[1]) * columns, columns, 1}};
}

Dims FreeDims(const Shape& type, const Dims& first, const Dims& second) {
  Dims result;
  for (int64_t d = 0; d < type.rank(); ++d) {
    const bool named = std::find(first.begin(), first.end(), d) != first.end() ||
                       std::find(second.begin(), second.end(), d) != second.end();
    if (!named) result.push_back(d);
  }
  return result;
}

void DotGeneral(CallBuilder& call) {
  const auto& node = call.node();
  const Dims a_contract(node.attr("a_contract").ints()), b_contract(node.attr("b_contract").ints());
  const Dims a_batch(node.attr("a_batch").ints()), b_batch(node.attr("b_batch").ints());
  const Dims a_free = FreeDims(call.in(0), a_contract, a_batch);
  const Dims b_free = FreeDims(call.in(1), b_contract, b_batch);
  const Operand a = MatricesOf(call, 0, {a_batch, a_free, a_contract});
  const Operand b = MatricesOf(call, 1, {b_batch, b_contract, b_free});
  RunMatMul(call,
            {Product(call.in(0), a_batch), Product(call.in(0), a_free), Product(call.in(1), b_free),
             Product(call.in(0), a_contract)},
            "a[batch * w3 + m * w4 + k * w5]",
            "const long at = batch * w6 + k * w7 + n * w8;\n        value = $VALUE$;", a.memory,
            b.memory,
            {a.strides[0], a.strides[1], a.strides[2], b.strides[0], b.strides[1], b.strides[2]});
}

std::string NeedsNumbers(const hammock::Graph& graph, const hammock::GraphNode& node) {
  const DType dtype = graph.TypeOf(node.inputs[0]).dtype();
  if (hammock::IsComplex(dtype)) return "complex numbers are not multiplied";
  if (dtype == DType::kBool) return "bools are not multiplied";
  return "";
}

// ---- convolution

/// A batch of the matmul is an image and a group; m is a channel of the result, n its position, k a
/// channel and tap of the weight.
void Convolution(CallBuilder& call) {
  const auto& node = call.node();
  const bool transposed = node.attr("transposed").boolean();
  const int64_t groups = node.attr("groups").integer();
  const Shape &input = call.in(0), &weight = call.in(1), &output = call.out();
  const auto& stride = node.attr("stride").ints();
  const auto& padding = node.attr("padding").ints();
  const auto& dilation = node.attr("dilation").ints();
  int64_t taps = 1, positions = 1, inputs = 1;
  std::vector<int64_t> dims;
  for (int d = 2; d < input.rank(); ++d) {
    taps *= weight.size(d);
    positions *= output.size(d);
    inputs *= input.size(d);
    dims.insert(dims.end(), {input.size(d), output.size(d), weight.size(d), stride[d - 2],
                             padding[d - 2], dilation[d - 2]});
  }
  const int64_t in_channels = input.size(1) / groups, out_channels = output.size(1) / groups;
  // The weight is [out, in / groups, taps], or [in, out / groups, taps] of a transposed one.
  const int64_t of_group =
      transposed ? in_channels * out_channels * taps : out_channels * in_channels * taps;
  const int64_t of_out = transposed ? taps : in_channels * taps;
  const int64_t of_in = transposed ? out_channels * taps : taps;
  std::vector<int64_t> numbers = {groups, of_group,    of_out, of_in,
                                  taps,   in_channels, inputs, input.rank() - 2};
  numbers.insert(numbers.end(), dims.begin(), dims.end());
  const std::string position =
      transposed
          ? "const long shifted = rest % v[1] + v[4] - tap % v[2] * v[5];\n"
            "          const long position = shifted / v[3];\n"
            "          inside = inside && shifted >= 0 && shifted % v[3] == 0 && position < v[0];"
          : "const long position = rest % v[1] * v[3] - v[4] + tap % v[2] * v[5];\n"
            "          inside = inside && position >= 0 && position < v[0];";
  RunMatMul(call, {input.size(0) * groups, out_channels, positions, in_channels * taps},
            "a[batch % w3 * w4 + m * w5 + k / w7 * w6 + k % w7]",
            Fill(R"(long rest = n, tap = k % w7, inner = 0, scale = 1;
        bool inside = true;
        for (int d = (int)w[10] - 1; d >= 0; --d) {
          __global const long* v = w + 11 + 6 * d;
          $POSITION$
          inner += position * scale;
          scale *= v[0];
          rest /= v[1];
          tap /= v[2];
        }
        const long at = (batch * w8 + k / w7) * w[9] + inner;
        if (inside) value = $VALUE$;)",
                 {{"POSITION", position}}),
            call.In(1), call.In(0), numbers);
}

}  // namespace

std::vector<CallEntry> MatMulCalls() {
  return {{"dot_general", DotGeneral, NeedsNumbers}, {"convolution", Convolution, NeedsNumbers}};
}

}  // namespace opencl
