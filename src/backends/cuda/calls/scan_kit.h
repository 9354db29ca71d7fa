#pragma once
/// Helpers of the scan calls: running sums, products and extremes along a dim.

#include <memory>
#include <string>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/scan_args.h"
#include "backends/cuda/emit/cuda_text.h"

namespace hammock::cuda {

/// The sizes of a scan: `lines` lines, each with the elements along the axis.
struct ScanPlan {
  ScanPlan(const Graph& graph, const GraphNode& node)
      : fn(FnOf(node.attrs[0].str())),
        dtype(node.type().dtype()),
        from(graph.TypeOf(node.inputs[0]).dtype()),
        wide(WideOf(dtype)),
        axis(node.type().sizes(), node.attrs[1].integer()),
        reverse(node.attrs[2].boolean()),
        lines(axis.outer * axis.inner) {}

  /// The text of `Fn`, which scan.cuh and long_scan.cuh describe.
  std::string Definitions() const {
    ScalarText scalars;
    bool real = wide == DType::kF64;
    TypeText text("Fn");
    text.Type("From", MemoryType(from)).Type("To", MemoryType(dtype)).Type("Wide", ValueType(wide));
    text.Function("Wide identity()", scalars.Identity(fn, wide))
        .Function("Wide value(From x)", scalars.Cast(scalars.FromMemory("x", from), from, wide))
        .Function("To result(Wide x)", scalars.ToMemory(scalars.Cast("x", wide, dtype), dtype))
        .Function("Wide combine(Wide sum, Wide x)", scalars.Combine(fn, wide, "sum", "x"))
        .Function("int64_t to_bits(Wide x)", real ? "__double_as_longlong(x)" : "(int64_t)x")
        .Function("Wide from_bits(int64_t x)", real ? "__longlong_as_double(x)" : "(Wide)x");
    return scalars.Functions() + text.Text();
  }

  compiler::ReduceFn fn;
  DType dtype, from;
  DType wide;  ///< of running values
  CallAxis axis;
  bool reverse;
  int64_t lines;

 private:
  static compiler::ReduceFn FnOf(const std::string& kind) {
    if (kind == "sum") return compiler::ReduceFn::kSum;
    if (kind == "prod") return compiler::ReduceFn::kProd;
    return kind == "max" ? compiler::ReduceFn::kMax : compiler::ReduceFn::kMin;
  }
  static DType WideOf(DType dtype) {
    if (IsFloat(dtype)) return DType::kF64;
    return InfoOf(dtype).kind == DTypeKind::kSigned ? DType::kI64 : DType::kU64;
  }
};

/// A scan with several blocks for each line; null if lines are short or many.
std::unique_ptr<Call> MakeLongScan(const ScanPlan& plan);

}  // namespace hammock::cuda
