#include "ops/sparse/sparse_matmul.h"

#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/index_steps.h"
#include "ops/kit/reduce_steps.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/apply.h"

namespace hammock::ops {
namespace {

// ---- Inference

int64_t LastSize(const Shape& type) { return type.size(type.rank() - 1); }

/// Refuses operands whose ranks are not `ranks` plus a common number of batch dims, or whose batch
/// sizes differ; gives the batch sizes.
Dims BatchOf(const InferCall& call, std::initializer_list<int> ranks) {
  int batch = call.in[0]->rank() - *ranks.begin(), i = 0;
  for (int rank : ranks) {
    const Shape& type = *call.in[i++];
    if (batch < 0 || batch > 1 || type.rank() != rank + batch ||
        (batch == 1 && type.size(0) != call.in[0]->size(0))) {
      Refuse(call, ErrorCode::kShapeMismatch, "operand {} is {}, beside {}", i - 1,
             type.to_string(), call.in[0]->to_string());
    }
  }
  return batch == 1 ? Dims{call.in[0]->size(0)} : Dims();
}

void CheckCount(const InferCall& call, const Shape& a, const Shape& b) {
  if (LastSize(a) == LastSize(b)) return;
  Refuse(call, ErrorCode::kShapeMismatch, "{} and {} must be of as many elements", a.to_string(),
         b.to_string());
}

void InferMatmul(const InferCall& call, int64_t rows) {
  Dims sizes = BatchOf(call, {1, 1, 1, 2});
  RequireIndex(call, *call.in[0]);
  RequireIndex(call, *call.in[1]);
  RequireSameDType(call, *call.in[2], *call.in[3]);
  CheckCount(call, *call.in[1], *call.in[2]);
  sizes.push_back(rows);
  sizes.push_back(LastSize(*call.in[3]));
  call.out = {call.in[3]->With(sizes)};
}

void InferCsr(const InferCall& call) {
  if (call.in[0]->rank() < 1 || LastSize(*call.in[0]) < 1) {
    Refuse(call, ErrorCode::kShapeMismatch, "crow needs an entry more than there are rows, got {}",
           call.in[0]->to_string());
  }
  InferMatmul(call, LastSize(*call.in[0]) - 1);
}

void InferCoo(const InferCall& call) {
  InferMatmul(call, call.attrs[0].integer());
  CheckCount(call, *call.in[0], *call.in[1]);
}

void InferSampled(const InferCall& call) {
  Dims sizes = BatchOf(call, {1, 1, 2, 2});
  RequireIndex(call, *call.in[0]);
  RequireIndex(call, *call.in[1]);
  RequireSameDType(call, *call.in[2], *call.in[3]);
  CheckCount(call, *call.in[0], *call.in[1]);
  CheckCount(call, *call.in[2], *call.in[3]);
  sizes.push_back(LastSize(*call.in[0]));
  call.out = {call.in[2]->With(sizes)};
}

// ---- Expansions: gathers and a scatter

/// Rows of `x` at the positions of an index vector, or of one for each matrix of a batch.
Tensor RowsAt(const Tensor& x, const Tensor& index) {
  if (x.dim() == 2) return Rows(x, index, 0);
  Dims sizes = {x.size(0), index.size(1), x.size(2)};
  Tensor wide = Broadcasted(Reshaped(index, {x.size(0), index.size(1), 1}), sizes);
  return Apply(kGather, Location(), {x, wide}, {1});
}

/// values as a column beside rows.
Tensor AsColumn(const Tensor& values) {
  Dims sizes = values.sizes();
  sizes.push_back(1);
  return Reshaped(values, sizes);
}

Tensors ExpandCoo(const ExpandCall& call) {
  Tensor row = Casted(call.in[0], DType::kI64), col = Casted(call.in[1], DType::kI64);
  Tensor values = Wide(call, 2), other = Wide(call, 3);
  Tensor zeros = Filled(call.out[0].sizes(), 0, values.dtype(), values);
  if (row.numel() == 0 || zeros.numel() == 0) return Narrow(call, zeros);
  Tensor added = mul(AsColumn(values), RowsAt(other, col));
  if (zeros.dim() == 2) return Narrow(call, AddedAlong(zeros, 0, row, added));
  Tensor wide = Broadcasted(AsColumn(row), added.sizes());
  return Narrow(call, Scattered(zeros, wide, added, 1, "sum"));
}

Tensors ExpandCsr(const ExpandCall& call) {
  Tensor row = RowsOfElements(call.in[0], call.in[1].size(-1));
  return {CooMatmul(row, call.in[1], call.in[2], call.in[3],
                    call.out[0].sizes()[call.out[0].rank() - 2])};
}

Tensors ExpandSampled(const ExpandCall& call) {
  Tensor row = Casted(call.in[0], DType::kI64), col = Casted(call.in[1], DType::kI64);
  Tensor a = Wide(call, 2), b = Wide(call, 3);
  if (row.numel() == 0) return Narrow(call, Filled(call.out[0].sizes(), 0, a.dtype(), a));
  Tensor products = mul(RowsAt(a, row), RowsAt(b, col));
  return Narrow(call, Reduce(kReduceSum, products, {products.dim() - 1}, false));
}

// ---- Gradients

Tensor Conjugated(const Tensor& x) { return x.is_complex() ? conj(x) : x; }

/// Of a matmul whose elements are at `row` and `col`.
Tensors MatmulGrads(const VjpCall& call, const Tensor& row) {
  const Tensor &col = call.in[1], &values = call.in[2], &other = call.in[3];
  return {Tensor(), Tensor(), SampledMatmul(row, col, call.grad(), Conjugated(other)),
          CooMatmul(col, row, Conjugated(values), call.grad(), other.size(-2))};
}

Tensors CsrVjp(const VjpCall& call) {
  return MatmulGrads(call, RowsOfElements(call.in[0], call.in[1].size(-1)));
}

Tensors CooVjp(const VjpCall& call) { return MatmulGrads(call, call.in[0]); }

Tensors SampledVjp(const VjpCall& call) {
  const Tensor &row = call.in[0], &col = call.in[1], &a = call.in[2], &b = call.in[3];
  return {Tensor(), Tensor(), CooMatmul(row, col, call.grad(), Conjugated(b), a.size(-2)),
          CooMatmul(col, row, call.grad(), Conjugated(a), b.size(-2))};
}

// ---- Costs

int64_t MatmulFlops(const CostCall& call) {
  return 2 * call.in[1]->numel() * LastSize(*call.in[3]);
}

}  // namespace

constinit const OpDef kCsrMatmul = {
    .schema = "_csr_matmul(Tensor crow, Tensor col, Tensor values, Tensor other) -> Tensor",
    .doc = "A sparse matrix, given by where its rows begin, times a dense one.",
    .infer = InferCsr,
    .expand = ExpandCsr,
    .vjp = CsrVjp,
    .can_fail = true,
    .flops = MatmulFlops,
};
constinit const OpDef kCooMatmul = {
    .schema =
        "_coo_matmul(Tensor row, Tensor col, Tensor values, Tensor other, SymInt rows) -> Tensor",
    .doc = "A sparse matrix, given by its elements' rows and columns, times a dense one.",
    .infer = InferCoo,
    .expand = ExpandCoo,
    .vjp = CooVjp,
    .can_fail = true,
    .flops = MatmulFlops,
    .samples = {{"i64[5] i64[5] f32[5] f32[3,4]", "{rows=3}"},
                {"i64[2,5] i64[2,5] f32[2,5] f32[2,3,4]", "{rows=3}"}},
};
constinit const OpDef kSampledMatmul = {
    .schema = "_sampled_matmul(Tensor row, Tensor col, Tensor a, Tensor b) -> Tensor",
    .doc = "Elements of a @ b.mT, at the given rows and columns.",
    .infer = InferSampled,
    .expand = ExpandSampled,
    .vjp = SampledVjp,
    .can_fail = true,
    .flops = [](const CostCall& call) { return 2 * call.in[0]->numel() * LastSize(*call.in[2]); },
    .samples = {{"i64[5] i64[5] f32[3,4] f32[3,4]"}, {"i64[2,5] i64[2,5] f32[2,3,4] f32[2,3,4]"}},
};

Tensor CsrMatmul(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& other) {
  return Apply(kCsrMatmul, Location(), {crow, col, values, other});
}

Tensor CooMatmul(const Tensor& row, const Tensor& col, const Tensor& values, const Tensor& other,
                 int64_t rows) {
  return Apply(kCooMatmul, Location(), {row, col, values, other}, {rows});
}

Tensor SampledMatmul(const Tensor& row, const Tensor& col, const Tensor& a, const Tensor& b) {
  return Apply(kSampledMatmul, Location(), {row, col, a, b});
}

Tensor RowsOfElements(const Tensor& crow, int64_t count) {
  // How many rows end at or before an element: the ends are counted where they are, and summed up.
  const int last = crow.dim() - 1;
  Tensor starts = Casted(crow, DType::kI64);
  Tensor ends = Sliced(starts, last, 1, crow.size(-1) - 1);
  Dims sizes = crow.sizes();
  sizes[last] = count + 1;
  Tensor ended = Filled(sizes, 0, DType::kI64, crow);
  if (ends.numel() > 0) {
    ended = Scattered(ended, ends, Filled(ends.sizes(), 1, DType::kI64, crow), last, "sum");
  }
  return Sliced(cumsum(ended, last), last, 0, count);
}

std::span<const OpDef* const> SparseMatmulOps() {
  static constexpr const OpDef* kOps[] = {&kCsrMatmul, &kCooMatmul, &kSampledMatmul};
  return kOps;
}

}  // namespace hammock::ops
