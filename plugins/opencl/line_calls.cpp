// Calls along a dim: scans, sorting; and windows over the last dims.
#include <fmt/format.h>

#include "calls.h"

namespace opencl {

using hammock::DType;
using hammock::compiler::ReduceFn;

namespace {

ReduceFn FnOf(const std::string& kind) {
  if (kind == "sum") return ReduceFn::kSum;
  if (kind == "prod") return ReduceFn::kProd;
  return kind == "max" ? ReduceFn::kMax : ReduceFn::kMin;
}

/// Text of an element of `from` as a running value, of two such values combined, and back.
struct WideText {
  WideText(CallBuilder& call, DType dtype, ReduceFn fn, const char* element)
      : wide(WideOf(dtype)),
        type(ValueType(wide)),
        identity(call.scalars().Identity(fn, wide)),
        value(call.scalars().Cast(call.scalars().FromMemory(element, dtype), dtype, wide)),
        combined(call.scalars().Combine(fn, wide, "sum", value)) {}
  std::string Result(CallBuilder& call, DType to) const {
    return call.scalars().ToMemory(call.scalars().Cast("sum", wide, to), to);
  }
  DType wide;
  std::string type, identity, value, combined;
};

void Scan(CallBuilder& call) {
  const Axis axis(call.in(0).sizes(), call.node().attr("dim").integer());
  const DType dtype = call.in(0).dtype();
  const WideText text(call, dtype, FnOf(call.node().attr("kind").str()), "from[at]");
  if (axis.extent == 0) return;
  call.RunEach(axis.outer * axis.inner,
               {{MemoryType(dtype), "from"}, {MemoryType(call.out().dtype()), "to"}},
               Fill(R"(
  const long extent = w[0], inner = w[1], first = i / inner * extent * inner + i % inner;
  $WIDE$ sum = $IDENTITY$;
  for (long k = 0; k < extent; ++k) {
    const long at = first + (w[2] ? extent - 1 - k : k) * inner;
    sum = $COMBINED$;
    to[at] = $RESULT$;
  }
)",
                    {{"WIDE", text.type},
                     {"IDENTITY", text.identity},
                     {"COMBINED", text.combined},
                     {"RESULT", text.Result(call, call.out().dtype())}}),
               {call.In(0), call.Out()},
               {axis.extent, axis.inner, call.node().attr("reverse").boolean()});
}

/// The first `kept` of each line in order, equal ones as they came: a merge sort of positions.
void SortLines(CallBuilder& call, int64_t dim, int64_t kept, bool descending) {
  const Axis axis(call.in(0).sizes(), dim);
  const DType dtype = call.in(0).dtype();
  if (kept < 0) kept = axis.extent;
  if (kept == 0 || axis.extent == 0) return;
  const int64_t items = axis.outer * axis.inner * axis.extent;
  const Argument order = call.Scratch(items * 8), other = call.Scratch(items * 8);
  auto& scalars = call.scalars();
  const char* first = descending ? "before[b]" : "before[a]";
  const char* second = descending ? "before[a]" : "before[b]";
  auto value = [&](const char* position) {
    return scalars.FromMemory(fmt::format("from[first + {} * inner]", position), dtype);
  };
  // NaN counts as the largest number. Whether b comes before a, which stood before it.
  const bool floats = hammock::IsFloat(dtype);
  const std::string type = MemoryType(dtype);
  call.RunEach(
      axis.outer * axis.inner,
      {{type, "from"}, {type, "to"}, {"long", "positions"}, {"long", "order"}, {"long", "other"}},
      Fill(R"(
  const long extent = w[0], inner = w[1], kept = w[2];
  const long first = i / inner * extent * inner + i % inner;
  __global long* before = order + i * extent;
  __global long* after = other + i * extent;
  for (long k = 0; k < extent; ++k) before[k] = k;
  for (long run = 1; run < extent; run *= 2) {
    for (long begin = 0; begin < extent; begin += 2 * run) {
      const long middle = min(begin + run, extent), end = min(begin + 2 * run, extent);
      long a = begin, b = middle;
      for (long k = begin; k < end; ++k) {
        bool takes_b = a == middle;
        if (!takes_b && b < end) {
          const $VALUE$ x = $LARGER$, y = $SMALLER$;
          takes_b = $LESS$;
        }
        after[k] = takes_b ? before[b++] : before[a++];
      }
    }
    __global long* swapped = before;
    before = after;
    after = swapped;
  }
  for (long k = 0; k < kept; ++k) {
    const long at = (i / inner * kept + k) * inner + i % inner;
    positions[at] = before[k];
    to[at] = from[first + before[k] * inner];
  }
)",
           {{"VALUE", ValueType(dtype)},
            {"LARGER", value(first)},
            {"SMALLER", value(second)},
            {"LESS", floats ? "y == y && (x != x || y < x)" : "y < x"}}),
      {call.In(0), call.Out(0), call.Out(1), order, other}, {axis.extent, axis.inner, kept});
}

void Sort(CallBuilder& call) {
  SortLines(call, call.node().attr("dim").integer(), -1, call.node().attr("descending").boolean());
}

void TopK(CallBuilder& call) {
  SortLines(call, call.node().attr("dim").integer(), call.node().attr("k").integer(),
            call.node().attr("largest").boolean());
}

/// Calls `body` for each element of a window in order; `at` is its index, and `plane` the first of
/// its plane.
void RunWindows(CallBuilder& call, const std::string& begin, const std::string& body,
                const std::string& end) {
  const auto& window = call.node().attr("window").ints();
  const auto& stride = call.node().attr("stride").ints();
  const auto& low = call.node().attr("low").ints();
  const auto& dilation = call.node().attr("dilation").ints();
  const int dims = static_cast<int>(window.size()), skipped = call.in(0).rank() - dims;
  std::vector<int64_t> numbers = {dims, 1, 1, 1};
  for (int d = 0; d < dims; ++d) {
    const int64_t in = call.in(0).size(skipped + d), out = call.out().size(skipped + d);
    numbers[1] *= in;
    numbers[2] *= out;
    numbers[3] *= window[d];
    numbers.insert(numbers.end(), {in, out, window[d], stride[d], low[d], dilation[d]});
  }
  call.RunEach(call.out().numel(),
               {{MemoryType(call.in(0).dtype()), "from"}, {MemoryType(call.out().dtype()), "to"}},
               Fill(R"(
  const long plane = i / w[2] * w[1];
  $BEGIN$
  for (long tap = 0; tap < w[3]; ++tap) {
    long rest = i % w[2], tap_rest = tap, at = 0, scale = 1;
    bool inside = true;
    for (int d = (int)w[0] - 1; d >= 0; --d) {
      __global const long* v = w + 4 + 6 * d;
      const long position = rest % v[1] * v[3] - v[4] + tap_rest % v[2] * v[5];
      inside = inside && position >= 0 && position < v[0];
      at += position * scale;
      scale *= v[0];
      rest /= v[1];
      tap_rest /= v[2];
    }
    if (!inside) continue;
    $BODY$
  }
  $END$
)",
                    {{"BEGIN", begin}, {"BODY", body}, {"END", end}}),
               {call.In(0), call.Out()}, numbers);
}

void ReduceWindow(CallBuilder& call) {
  const DType dtype = call.in(0).dtype();
  const WideText text(call, dtype, FnOf(call.node().attr("kind").str()), "from[plane + at]");
  RunWindows(call, fmt::format("{} sum = {};", text.type, text.identity),
             fmt::format("sum = {};", text.combined),
             fmt::format("to[i] = {};", text.Result(call, call.out().dtype())));
}

void ReduceWindowArg(CallBuilder& call) {
  const DType dtype = call.in(0).dtype();
  const std::string value = call.scalars().FromMemory("from[plane + at]", dtype);
  RunWindows(call, fmt::format("long best = -1;\n  {} most = 0;", ValueType(dtype)),
             fmt::format("const {} x = {};\n    if (best < 0 || x != x || x > most) {{\n      best "
                         "= at;\n      most = x;\n    }}",
                         ValueType(dtype), value),
             "to[i] = best;");
}

}  // namespace

std::vector<CallEntry> LineCalls() {
  return {{"scan", Scan},
          {"sort", Sort},
          {"topk", TopK},
          {"reduce_window", ReduceWindow},
          {"reduce_window_arg", ReduceWindowArg}};
}

}  // namespace opencl
