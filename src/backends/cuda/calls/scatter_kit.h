#pragma once
/// Helpers of the calls that scatter: elements of a source are combined with the elements of the
/// destination that their indices name.

#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/calls/index_kit.h"
#include "backends/cuda/device/scatter_args.h"
#include "backends/cuda/emit/cuda_text.h"
#include "ir/primitives.h"

namespace hammock::cuda {

/// The offsets of the elements of an index in an operand, or of its lines along the dim that is
/// left out; at least one dim. Sizes are arguments of the kernel, so that one kernel serves many.
class Offsets {
 public:
  Offsets(const Dims& sizes, const Dims& strides, int left_out = -1) {
    for (int d = 0; d < sizes.size(); ++d) {
      if (d == left_out || sizes[d] == 1) continue;
      sizes_.push_back(Argument(sizes[d]));
      strides_.push_back(Argument(strides[d]));
      count_ *= sizes[d];
    }
    if (sizes_.empty()) {
      sizes_.push_back(1);
      strides_.push_back(0);
    }
  }
  size_t dims() const { return sizes_.size(); }
  bool few() const { return count_ < (int64_t{1} << 32); }  ///< elements, for 32 bits
  size_t argument_bytes() const { return dims() * sizeof(Strided<1>); }
  void AppendTo(std::vector<uint64_t>& arguments) const {
    arguments.insert(arguments.end(), sizes_.begin(), sizes_.end());
    arguments.insert(arguments.end(), strides_.begin(), strides_.end());
  }

 private:
  std::vector<uint64_t> sizes_, strides_;
  int64_t count_ = 1;
};

/// The sizes and strides of a scatter: `lines` lines with `indices` indices each. A scatter of rows
/// has one list of indices for all lines, and no operand of zeros, see ScatterRows.
struct ScatterPlan {
  ScatterPlan(const Graph& graph, const GraphNode& node)
      : dim(static_cast<int>(node.attrs[0].integer())),
        reduce(node.attrs[1].str()),
        dtype(node.type().dtype()),
        index_dtype(graph.TypeOf(node.inputs[1]).dtype()),
        self(AtLeastVector(node.type().sizes())),
        index(AtLeastVector(graph.TypeOf(node.inputs[1]).sizes())),
        source(AtLeastVector(graph.TypeOf(node.inputs[2]).sizes())) {
    rows = index.size() < source.size();
    if (rows) index = source;
    indices = index[dim];
    for (int d = 0; d < index.size(); ++d) {
      if (d != dim) lines *= index[d];
    }
    self_strides = ContiguousStrides(self);
    source_strides = ContiguousStrides(source);
    index_strides = rows ? Dims::Filled(index.size(), 0) : ContiguousStrides(index);
    if (rows) index_strides[dim] = 1;
    inner = self_strides[dim];
  }

  /// The offsets in `self`, with index 0.
  Offsets SelfOffsets() const {
    Dims strides = self_strides;
    strides[dim] = 0;
    return Offsets(index, strides);
  }

  int dim;
  std::string reduce;
  DType dtype, index_dtype;
  Dims self, index, source;
  Dims self_strides, index_strides, source_strides;
  bool rows = false;
  int64_t indices = 0, lines = 1;
  int64_t inner = 1;  ///< elements of a row
};

/// The dtype in which elements are combined.
inline DType WideOf(DType dtype) {
  if (IsFloat(dtype)) return DType::kF64;
  return InfoOf(dtype).kind == DTypeKind::kSigned ? DType::kI64 : DType::kU64;
}

inline std::string Combined(ScalarText& scalars, const ScatterPlan& plan, DType wide,
                            const char* old, const std::string& value) {
  if (plan.reduce == "none") return value;
  ScalarFn fn = plan.reduce == "sum"    ? ScalarFn::kAdd
                : plan.reduce == "prod" ? ScalarFn::kMul
                : plan.reduce == "amax" ? ScalarFn::kMaximum
                                        : ScalarFn::kMinimum;
  return scalars.Scalar(fn, wide, {old, value});
}

class ScatterCall : public IndexedCall {
 public:
  ScatterCall(const Graph& graph, const GraphNode& node)
      : IndexedCall(node, node.type(), node.attrs[0].integer()),
        plan_(graph, node),
        bytes_(node.type().bytes()) {}
  void Run(Machine& machine, const Operands& operands) const override {
    bool runs = plan_.lines > 0 && plan_.indices > 0;
    if (operands.in[0] == 0 && bytes_ > 0 && !(runs && writes_all())) {
      machine.Clear(operands.out[0], bytes_);
    } else if (operands.in[0] != 0 && operands.in[0] != operands.out[0] && bytes_ > 0) {
      machine.Copy(operands.out[0], operands.in[0], bytes_);
    }
    if (runs) RunAll(machine, operands);
  }

 protected:
  /// Whether RunAll writes the elements that no index names too.
  virtual bool writes_all() const { return false; }
  virtual void RunAll(Machine& machine, const Operands& operands) const = 0;
  /// An index counts `stride` elements.
  TargetArgs<void> TargetsOf(const Operands& operands, int64_t stride) const {
    return {
        .index = At(operands.in[1]), .fault = operands.fault, .extent = extent_, .inner = stride};
  }
  std::string_view IndexType() const { return MemoryType(plan_.index_dtype); }

  ScatterPlan plan_;
  int64_t bytes_;
};

/// Sorts the indices first, so that floats are combined in the order of their positions.
std::unique_ptr<Call> MakeSortedScatter(const Graph& graph, const GraphNode& node);

}  // namespace hammock::cuda
