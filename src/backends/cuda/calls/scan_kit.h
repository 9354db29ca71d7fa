#pragma once
/// Helpers of the scan calls: running sums, products and extremes along a dim.

#include <memory>
#include <string>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/scalar_text.h"

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

  /// An element, widened.
  std::string Value(ScalarText& scalars, const char* element) const {
    return scalars.Cast(scalars.FromMemory(element, from), from, wide);
  }
  /// A running value as it is stored.
  std::string Result(ScalarText& scalars, const char* value) const {
    return scalars.ToMemory(scalars.Cast(value, wide, dtype), dtype);
  }
  std::string Combined(ScalarText& scalars, const char* sum, const std::string& x) const {
    return scalars.Combine(fn, wide, sum, x);
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
