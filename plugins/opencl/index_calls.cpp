// Calls whose indices are values: gathers, scatters, slices with a start on the device; and others
// that may fail: quotients of integers, requirements. Random bits.
#include <fmt/format.h>

#include "calls.h"

namespace opencl {

using hammock::ContiguousStrides;
using hammock::Dims;
using hammock::DType;
using hammock::ErrorCode;
using hammock::compiler::ReduceFn;

namespace {

/// A tensor of rank 0 counts as a vector of one.
Dims AtLeastVector(const Dims& sizes) { return sizes.empty() ? Dims{1} : sizes; }

std::string IndexOf(CallBuilder& call, const char* element, DType dtype) {
  return call.scalars().Cast(call.scalars().FromMemory(element, dtype), dtype, DType::kI64);
}

Argument IndexFault(CallBuilder& call, int64_t dim, int64_t extent) {
  return call.Fault({ErrorCode::kIndexOutOfRange, [op = call.op(), dim, extent](int64_t index) {
                       return fmt::format(
                           "{}: index {} is out of bounds for dimension {} with size {}", op, index,
                           dim, extent);
                     }});
}

void Gather(CallBuilder& call) {
  const int64_t dim = call.node().attr("dim").integer();
  const Dims self = AtLeastVector(call.in(0).sizes()), index = AtLeastVector(call.in(1).sizes());
  const Dims strides = ContiguousStrides(self);
  const int64_t extent = self[static_cast<int>(dim)];
  const DType dtype = call.in(1).dtype();
  std::vector<int64_t> numbers = {index.size(), dim, extent};
  for (int d = 0; d < index.size(); ++d) numbers.insert(numbers.end(), {index[d], strides[d]});
  const std::string type = MovedType(BytesOf(call.out().dtype()));
  const Argument fault = IndexFault(call, dim, extent);
  call.RunEach(call.out().numel(),
               {{type, "from"}, {MemoryType(dtype), "index"}, {type, "to"}, {"int", "fault"}},
               Fill(R"(
  const long picked = $INDEX$;
  if (picked < 0 || picked >= w[2]) {
    note_fault(fault, i);
    return;
  }
  long rest = i, source = 0;
  for (int d = (int)w[0] - 1; d >= 0; --d) {
    const long size = w[3 + 2 * d], at = rest % size;
    rest /= size;
    source += (d == w[1] ? picked : at) * w[4 + 2 * d];
  }
  to[i] = from[source];
)",
                    {{"INDEX", IndexOf(call, "index[i]", dtype)}}),
               {call.In(0), call.In(1), call.Out(), fault}, numbers);
  call.FindFault(fault, call.In(1), dtype);
}

void IndexSelect(CallBuilder& call) {
  const int64_t dim = call.node().attr("dim").integer();
  const Axis axis(call.in(0).sizes(), dim);
  const int64_t count = call.in(1).numel();
  const DType dtype = call.in(1).dtype();
  const std::string type = MovedType(BytesOf(call.out().dtype()));
  const Argument fault = IndexFault(call, dim, axis.extent);
  // Indices are checked also where there is nothing to move.
  call.RunEach(count, {{MemoryType(dtype), "index"}, {"int", "fault"}},
               Fill("  const long picked = $INDEX$;\n"
                    "  if (picked < 0 || picked >= w[0]) note_fault(fault, i);\n",
                    {{"INDEX", IndexOf(call, "index[i]", dtype)}}),
               {call.In(1), fault}, {axis.extent});
  call.RunEach(call.out().numel(), {{type, "from"}, {MemoryType(dtype), "index"}, {type, "to"}},
               Fill(R"(
  const long inner = w[0], extent = w[1], count = w[2];
  const long at = i / inner % count;
  const long picked = $INDEX$;
  if (picked < 0 || picked >= extent) return;
  to[i] = from[(i / (inner * count) * extent + picked) * inner + i % inner];
)",
                    {{"INDEX", IndexOf(call, "index[at]", dtype)}}),
               {call.In(0), call.In(1), call.Out()}, {axis.inner, axis.extent, count});
  call.FindFault(fault, call.In(1), dtype);
}

/// Every element from one memory to another, as another dtype.
void Convert(CallBuilder& call, int64_t count, const Argument& from, DType from_type,
             const Argument& to, DType to_type) {
  auto& scalars = call.scalars();
  const std::string value = scalars.ToMemory(
      scalars.Cast(scalars.FromMemory("from[i]", from_type), from_type, to_type), to_type);
  call.RunEach(count, {{MemoryType(from_type), "from"}, {MemoryType(to_type), "to"}},
               fmt::format("  to[i] = {};\n", value), {from, to});
}

/// A work-item has the elements of a line of the index, one after another: no two write to one
/// element, and the order is always the same. Sums of floats are rounded once, at the end.
void Scatter(CallBuilder& call) {
  const int64_t dim = call.node().attr("dim").integer();
  const std::string& reduce = call.node().attr("reduce").str();
  const DType dtype = call.out().dtype(), index_type = call.in(1).dtype();
  const Dims self = AtLeastVector(call.in(0).sizes()), index = AtLeastVector(call.in(1).sizes());
  const Dims source = AtLeastVector(call.in(2).sizes());
  const Dims to = ContiguousStrides(self), of_index = ContiguousStrides(index),
             from = ContiguousStrides(source);
  const int64_t extent = self[static_cast<int>(dim)], length = index[static_cast<int>(dim)];
  const Argument fault = IndexFault(call, dim, extent);
  const bool moves = reduce == "none";
  const bool wide = hammock::IsFloat(dtype) && (reduce == "sum" || reduce == "prod");
  const DType type = wide ? DType::kF64 : dtype;
  Argument target = call.Out();
  if (wide) {
    target = call.Scratch(call.out().numel() * BytesOf(type));
    Convert(call, call.out().numel(), call.In(0), dtype, target, type);
  } else {
    call.CopyWhole(call.In(0), target, call.out().bytes());
  }
  auto& scalars = call.scalars();
  const ReduceFn fn = reduce == "sum"    ? ReduceFn::kSum
                      : reduce == "prod" ? ReduceFn::kProd
                      : reduce == "amax" ? ReduceFn::kMax
                                         : ReduceFn::kMin;
  std::string value = "from[source]";
  if (!moves) {
    const DType sum = dtype == DType::kBool ? DType::kU8 : type;
    value = scalars.ToMemory(
        scalars.Combine(fn, sum, scalars.FromMemory("to[target]", sum),
                        scalars.Cast(scalars.FromMemory("from[source]", dtype), dtype, sum)),
        sum);
  }
  std::vector<int64_t> numbers = {index.size(), dim, extent, length};
  for (int d = 0; d < index.size(); ++d) {
    numbers.insert(numbers.end(), {index[d], of_index[d], from[d], to[d]});
  }
  const std::string moved = MovedType(BytesOf(dtype));
  call.RunEach(length == 0 ? 0 : call.in(1).numel() / length,
               {{moves ? moved : MemoryType(dtype), "from"},
                {MemoryType(index_type), "index"},
                {moves ? moved : MemoryType(type), "to"},
                {"int", "fault"}},
               Fill(R"(
  const int dim = (int)w[1];
  long rest = i, first = 0, first_source = 0, first_target = 0;
  for (int d = (int)w[0] - 1; d >= 0; --d) {
    if (d == dim) continue;
    const long size = w[4 + 4 * d], at = rest % size;
    rest /= size;
    first += at * w[5 + 4 * d];
    first_source += at * w[6 + 4 * d];
    first_target += at * w[7 + 4 * d];
  }
  for (long k = 0; k < w[3]; ++k) {
    const long position = first + k * w[5 + 4 * dim];
    const long picked = $INDEX$;
    if (picked < 0 || picked >= w[2]) {
      note_fault(fault, position);
      continue;
    }
    const long source = first_source + k * w[6 + 4 * dim];
    const long target = first_target + picked * w[7 + 4 * dim];
    to[target] = $VALUE$;
  }
)",
                    {{"INDEX", IndexOf(call, "index[position]", index_type)}, {"VALUE", value}}),
               {call.In(2), call.In(1), target, fault}, numbers);
  call.FindFault(fault, call.In(1), index_type);
  if (wide) Convert(call, call.out().numel(), target, type, call.Out(), dtype);
}

/// A slice whose start is on the device is read, or written to.
void DynamicSlice(CallBuilder& call) {
  const bool updates = call.op() == "dynamic_update_slice";
  const auto& part = updates ? call.in(1) : call.out();
  const int start = updates ? 2 : 1;
  const int64_t dim = call.node().attr("dim").integer(), step = call.node().attr("step").integer();
  const int64_t size = part.size(static_cast<int>(dim));
  const int64_t span = size == 0 ? 0 : (size - 1) * step + 1;
  const Axis axis(call.in(0).sizes(), dim);
  const DType dtype = call.in(start).dtype();
  const std::string type = MovedType(BytesOf(call.out().dtype()));
  const Argument fault =
      call.Fault({ErrorCode::kIndexOutOfRange,
                  [op = call.op(), span, extent = axis.extent, dim](int64_t value) {
                    return fmt::format(
                        "{}: start ({}) + length ({}) exceeds dimension size ({}) of dimension {}",
                        op, value, span, extent, dim);
                  }});
  if (updates) call.CopyWhole(call.In(0), call.Out(), call.out().bytes());
  // The start is checked even if nothing is copied.
  call.RunEach(std::max<int64_t>(part.numel(), 1),
               {{type, "from"}, {MemoryType(dtype), "start"}, {type, "to"}, {"int", "fault"}},
               Fill(R"(
  const long count = w[0], extent = w[1], inner = w[2], size = w[3], step = w[4], span = w[5];
  const long begin = $START$;
  if (begin < 0 || begin > extent - span) {
    note_fault(fault, 0);
    return;
  }
  if (i >= count) return;
  const long whole = (i / (inner * size) * extent + begin + i / inner % size * step) * inner + i % inner;
  to[$TO$] = from[$FROM$];
)",
                    {{"START", IndexOf(call, "start[0]", dtype)},
                     {"TO", updates ? "whole" : "i"},
                     {"FROM", updates ? "i" : "whole"}}),
               {call.In(updates ? 1 : 0), call.In(start), call.Out(), fault},
               {part.numel(), axis.extent, axis.inner, size, step, span});
  call.FindFault(fault, call.In(start), dtype);
}

/// Where elements are not 0, in order: one work-item walks through all.
void Nonzero(CallBuilder& call) {
  const auto& in = call.in(0);
  std::vector<int64_t> numbers = {in.numel(), call.node().attr("size").integer(), in.rank()};
  for (int d = 0; d < in.rank(); ++d) numbers.push_back(in.size(d));
  const bool truth = in.dtype() == DType::kBool;
  const std::string value = call.scalars().FromMemory("from[k]", in.dtype());
  call.RunEach(1, {{MemoryType(in.dtype()), "from"}, {"long", "to"}},
               Fill(R"(
  const int rank = (int)w[2];
  long found = 0;
  for (long k = 0; k < w[0] && found < w[1]; ++k) {
    if (!($VALUE$)) continue;
    long rest = k;
    for (int d = rank - 1; d >= 0; --d) {
      to[found * rank + d] = rest % w[3 + d];
      rest /= w[3 + d];
    }
    ++found;
  }
  for (long k = found * rank; k < w[1] * rank; ++k) to[k] = -1;
)",
                    {{"VALUE", truth ? value : value + " != 0"}}),
               {call.In(0), call.Out()}, numbers);
}

/// Philox4x32-10, four words for each work-item; share/doc/hammock/philox.h.
void RngBits(CallBuilder& call) {
  const int64_t count = call.out().numel();
  call.RunEach((count + 3) / 4, {{"ulong", "state"}, {"uint", "to"}}, R"(
  const ulong position = state[1] + (ulong)i;
  uint c0 = (uint)position, c1 = (uint)(position >> 32), c2 = 0, c3 = 0;
  uint k0 = (uint)state[0], k1 = (uint)(state[0] >> 32);
  for (int round = 0; round < 10; ++round) {
    const ulong a = 0xD2511F53UL * c0, b = 0xCD9E8D57UL * c2;
    c0 = (uint)(b >> 32) ^ c1 ^ k0;
    c1 = (uint)b;
    c2 = (uint)(a >> 32) ^ c3 ^ k1;
    c3 = (uint)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const long first = 4 * i;
  to[first] = c0;
  if (first + 1 < w[0]) to[first + 1] = c1;
  if (first + 2 < w[0]) to[first + 2] = c2;
  if (first + 3 < w[0]) to[first + 3] = c3;
)",
               {call.In(0), call.Out()}, {count});
}

void Require(CallBuilder& call) {
  const Argument fault =
      call.Fault({ErrorCode::kValue,
                  [message = call.node().attr("message").str()](int64_t) { return message; }});
  call.RunEach(call.in(1).numel(), {{"uchar", "conditions"}, {"int", "fault"}},
               "  if (!conditions[i]) note_fault(fault, i);\n", {call.In(1), fault});
  call.CopyWhole(call.In(0), call.Out(), call.out().bytes());
}

std::string NeedsTruth(const hammock::Graph& graph, const hammock::GraphNode& node) {
  return graph.TypeOf(node.inputs[1]).dtype() == DType::kBool ? "" : "its condition is no bool";
}

/// Quotients of integers, which fail where a divisor is 0.
void Quotient(CallBuilder& call) {
  const DType dtype = call.out().dtype();
  auto& scalars = call.scalars();
  const Argument fault = call.Fault({ErrorCode::kValue, [op = call.op()](int64_t) {
                                       return op + ": ZeroDivisionError: integer division by zero";
                                     }});
  const std::string x = scalars.FromMemory("a[i]", dtype), y = scalars.FromMemory("b[i]", dtype);
  const std::string type = MemoryType(dtype);
  call.RunEach(
      call.out().numel(), {{type, "a"}, {type, "b"}, {type, "to"}, {"int", "fault"}},
      fmt::format("  if (!({})) note_fault(fault, i);\n  to[i] = {};\n", y,
                  scalars.ToMemory(scalars.Scalar(call.node().op->scalar, dtype, {x, y}), dtype)),
      {call.In(0), call.In(1), call.Out(), fault});
}

std::string NeedsText(const hammock::Graph& graph, const hammock::GraphNode& node) {
  const DType dtype = graph.TypeOf(node.inputs[0]).dtype();
  return hammock::compiler::HasText(node.op->scalar, dtype) ? "" : "there is no function for it";
}

}  // namespace

std::vector<CallEntry> IndexCalls() {
  return {{"gather", Gather},
          {"index_select", IndexSelect},
          {"scatter", Scatter},
          {"dynamic_slice", DynamicSlice},
          {"dynamic_update_slice", DynamicSlice},
          {"nonzero_bounded", Nonzero},
          {"rng_bits", RngBits},
          {"require", Require, NeedsTruth},
          {"floor_divide", Quotient, NeedsText},
          {"trunc_divide", Quotient, NeedsText},
          {"remainder", Quotient, NeedsText},
          {"fmod", Quotient, NeedsText}};
}

}  // namespace opencl
