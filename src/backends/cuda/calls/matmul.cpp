// Matmuls by the machine's library.
#include <fmt/format.h>

#include <tuple>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/copies.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/matmul_args.h"
#include "backends/cuda/emit/cuda_text.h"
#include "base/never_destroyed.h"
#include "ir/primitives.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

/// Multiplications that are not worth the library.
constexpr int64_t kTinyMatMul = 1 << 15;
/// Results that are so few that the library would leave most of the GPU idle, and sums that are so
/// long that a warp for each of them has something to do.
constexpr int64_t kFewResults = 4096;
constexpr int64_t kLongSum = 64;

/// Dims of a row-major operand that are one dim of a matrix.
struct Merged {
  bool even = true;  ///< they step as one dim would
  int64_t size = 1;
  int64_t stride = 0;
};

Merged Merge(const Shape& shape, const Dims& dims) {
  Dims strides = ContiguousStrides(shape.sizes());
  Merged merged;
  for (int i = dims.size(); i-- > 0;) {
    int d = static_cast<int>(dims[i]);
    int64_t size = shape.size(d);
    if (size == 1) continue;
    if (merged.size == 1) {
      merged.stride = strides[d];
    } else if (strides[d] != merged.stride * merged.size) {
      merged.even = false;
    }
    merged.size *= size;
  }
  return merged;
}

Dims FreeDims(int rank, const Dims& contract, const Dims& batch) {
  Dims free;
  auto has = [](const Dims& list, int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  for (int d = 0; d < rank; ++d) {
    if (!has(contract, d) && !has(batch, d)) free.push_back(d);
  }
  return free;
}

/// An operand as a stack of matrices [batch, rows, columns]: in its own layout, or as a copy.
struct OperandPlan {
  bool transposed = false;
  int64_t row = 1;  ///< stride of stored rows
  int64_t batch = 0;
  std::unique_ptr<PreparedLaunch> copy;
  int64_t copy_bytes = 0;
};

void PlanCopy(OperandPlan& plan, const Shape& shape, std::initializer_list<const Dims*> order) {
  Dims strides = ContiguousStrides(shape.sizes()), sizes;
  Layout from;
  for (const Dims* dims : order) {
    for (int i = 0; i < dims->size(); ++i) {
      int d = static_cast<int>((*dims)[i]);
      sizes.push_back(shape.size(d));
      from.strides.push_back(strides[d]);
    }
  }
  plan.copy = std::make_unique<PreparedLaunch>(
      CopyLaunch(shape.dtype(), sizes, from, ContiguousLayout(sizes)));
  plan.copy_bytes = (shape.bytes() + 255) / 256 * 256;
}

/// `rows_only`: not transposed.
OperandPlan PlanOperand(const Shape& shape, const Dims& batch_dims, const Dims& row_dims,
                        const Dims& column_dims, bool rows_only = false) {
  Merged batch = Merge(shape, batch_dims), rows = Merge(shape, row_dims),
         columns = Merge(shape, column_dims);
  OperandPlan plan;
  bool even = batch.even && rows.even && columns.even;
  plan.batch = batch.size == 1 ? 0 : batch.stride;
  if (even && (columns.size == 1 || columns.stride == 1) &&
      (rows.size == 1 || rows.stride >= columns.size)) {
    plan.row = rows.size == 1 ? std::max<int64_t>(columns.size, 1) : rows.stride;
    return plan;
  }
  if (even && !rows_only && (rows.size == 1 || rows.stride == 1) &&
      (columns.size == 1 || columns.stride >= rows.size)) {
    plan.transposed = true;
    plan.row = columns.size == 1 ? std::max<int64_t>(rows.size, 1) : columns.stride;
    return plan;
  }
  PlanCopy(plan, shape, {&batch_dims, &row_dims, &column_dims});
  plan.row = columns.size;
  plan.batch = rows.size * columns.size;
  return plan;
}

class DotCall : public Call {
 public:
  DotCall(const Graph& graph, const GraphNode& node, Machine& machine) {
    const Shape& a = graph.TypeOf(node.inputs[0]);
    const Shape& b = graph.TypeOf(node.inputs[1]);
    Dims a_contract = node.attrs[0].ints(), b_contract = node.attrs[1].ints(),
         a_batch = node.attrs[2].ints(), b_batch = node.attrs[3].ints();
    Dims a_free = FreeDims(a.rank(), a_contract, a_batch);
    Dims b_free = FreeDims(b.rank(), b_contract, b_batch);
    // Of bytes, both operands lie along the sum: so the matrix units read them.
    const bool bytes = a.dtype() == DType::kI8;
    a_ = PlanOperand(a, a_batch, a_free, a_contract, bytes);
    b_ = bytes ? PlanOperand(b, b_batch, b_free, b_contract, bytes)
               : PlanOperand(b, b_batch, b_contract, b_free);
    b_.transposed = b_.transposed || bytes;
    MatMul& p = matmul_;
    p.dtype = a.dtype();
    p.out_dtype = node.type().dtype();
    if (node.op == &ops::kDotGeneralFused) {
      p.bias = static_cast<bool>(node.inputs[2].node);
      p.relu = node.attr("relu").boolean();
    }
    p.batch = Merge(a, a_batch).size;
    p.m = Merge(a, a_free).size;
    p.n = Merge(b, b_free).size;
    p.k = Merge(a, a_contract).size;
    p.a_transposed = a_.transposed;
    p.b_transposed = b_.transposed;
    p.a_row = a_.row;
    p.b_row = b_.row;
    p.out_row = p.n;
    p.a_batch = a_.batch;
    p.b_batch = b_.batch;
    p.out_batch = p.m * p.n;
    out_bytes_ = node.type().bytes();
    empty_ = a.numel() == 0 || b.numel() == 0;
    bool tiny = p.batch * p.m * p.n * p.k <= kTinyMatMul;
    // Both operands lie along the sum.
    long_ = p.dtype == DType::kF32 && p.batch * p.m * p.n <= kFewResults && p.k >= kLongSum &&
            !p.a_transposed && p.b_transposed;
    if (!empty_ && !tiny && !long_) prepared_ = machine.Prepare(p);
    own_ = !empty_ && !prepared_;
  }

  std::vector<KernelSource> Sources() const override {
    std::vector<KernelSource> sources;
    if (a_.copy) sources.push_back(a_.copy->Source());
    if (b_.copy) sources.push_back(b_.copy->Source());
    if (own_) sources.push_back(OwnSource());
    return sources;
  }
  int64_t scratch_bytes() const override {
    int64_t library = prepared_ && !own_ ? prepared_->scratch_bytes() : 0;
    return a_.copy_bytes + b_.copy_bytes + library;
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (out_bytes_ == 0) return;
    if (empty_) return machine.Clear(operands.out[0], out_bytes_);
    Address a = operands.in[0], b = operands.in[1], scratch = operands.scratch;
    Address bias = matmul_.bias ? operands.in[2] : 0;
    size_t next = 0;
    if (a_.copy) {
      a_.copy->Run(machine, function(next++), a, scratch);
      a = scratch;
      scratch += static_cast<Address>(a_.copy_bytes);
    }
    if (b_.copy) {
      b_.copy->Run(machine, function(next++), b, scratch);
      b = scratch;
      scratch += static_cast<Address>(b_.copy_bytes);
    }
    if (own_) {
      RunOwn(machine, function(next), a, b, bias, operands.out[0]);
    } else {
      machine.Multiply(*prepared_, a, b, bias, operands.out[0], scratch);
    }
  }

 private:
  // ---- where no library has the dtype, or it would take longer to start than to run: one thread,
  // or one warp, for each element of the result

  KernelSource OwnSource() const {
    static auto& known = NeverDestroyed<SourceTable<std::tuple<DType, DType, bool, bool, bool>>>();
    const MatMul& p = matmul_;
    return known.Find({p.dtype, p.out_dtype, p.bias, p.relu, long_},
                      [&] { return WrittenSource(); });
  }
  KernelSource WrittenSource() const {
    ScalarText scalars;
    const DType dtype = matmul_.dtype, out = matmul_.out_dtype;
    const bool narrow = dtype == DType::kF16 || dtype == DType::kBF16;
    // Of the sum, which is rounded once.
    const DType wide = narrow ? DType::kF32 : dtype == DType::kI8 ? DType::kI32 : dtype;
    std::string sum = "sum";
    if (matmul_.bias) {
      sum = scalars.Scalar(ScalarFn::kAdd, wide, {sum, scalars.FromMemory("bias[column]", out)});
    }
    if (matmul_.relu) {
      sum = scalars.Scalar(ScalarFn::kMaximum, wide, {sum, fmt::format("({})0", ValueType(wide))});
    }
    TypeText kind("Kind");
    kind.Type("Element", MemoryType(dtype))
        .Type("Out", MemoryType(out))
        .Type("Value", ValueType(wide))
        .Function("Value value(Element x)", scalars.FromMemory("x", dtype))
        .Function("Value add_product(Value sum, Value x, Value y)",
                  scalars.Scalar(ScalarFn::kAdd, wide,
                                 {"sum", scalars.Scalar(ScalarFn::kMul, wide, {"x", "y"})}))
        .Function("Out result(Value sum, const Out* bias, int64_t column)",
                  scalars.ToMemory(sum, out));
    return SourceOf({.file = "matmul.cuh",
                     .function = long_ ? "multiply_by_warps<Kind>" : "multiply_by_threads<Kind>",
                     .argument_bytes = sizeof(MatMulArgs<void, void>),
                     .definitions = scalars.Functions() + kind.Text()});
  }
  void RunOwn(Machine& machine, const Function& function, Address a, Address b, Address bias,
              Address out) const {
    const MatMul& p = matmul_;
    int64_t count = p.batch * p.m * p.n;
    auto first = [](bool transposed, int64_t row) { return transposed ? 1 : row; };
    auto second = [](bool transposed, int64_t row) { return transposed ? row : 1; };
    machine.Launch(function, long_ ? BlockGrid(CeilDiv(count, 8)) : ElementGrid(count),
                   WordsOf(MatMulArgs<void, void>{.count = count,
                                                  .a = At(a),
                                                  .b = At(b),
                                                  .out = At(out),
                                                  .bias = At(bias),
                                                  .m = p.m,
                                                  .n = p.n,
                                                  .k = p.k,
                                                  .a_row = first(p.a_transposed, p.a_row),
                                                  .a_column = second(p.a_transposed, p.a_row),
                                                  .a_batch = p.a_batch,
                                                  .b_row = first(p.b_transposed, p.b_row),
                                                  .b_column = second(p.b_transposed, p.b_row),
                                                  .b_batch = p.b_batch}));
  }

  MatMul matmul_;
  OperandPlan a_, b_;
  std::shared_ptr<PreparedOp> prepared_;
  bool own_ = false;
  bool long_ = false;  // a warp for each element of the result
  bool empty_ = false;
  int64_t out_bytes_ = 0;
};

std::unique_ptr<Call> MakeDot(const Graph& graph, const GraphNode& node,
                              const CallContext& context) {
  return std::make_unique<DotCall>(graph, node, context.machine);
}

constexpr CallEntry kCalls[] = {{&ops::kDotGeneral, MakeDot}, {&ops::kDotGeneralFused, MakeDot}};

}  // namespace

std::span<const CallEntry> MatMulCalls() { return kCalls; }

}  // namespace hammock::cuda
