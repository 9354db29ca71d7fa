#include "ops/primitives/fused_forms.h"

#include "hammock/ops.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/attention_node.h"
#include "ops/primitives/collectives.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

Shape ops::WithByteSums(const Shape& operand) {
  return IsByte(operand.dtype()) ? operand.With(DType::kI32) : operand;
}

namespace {

// ---- dot_general

constexpr size_t kDotAttrs = 4;

void InferDotFused(const InferCall& call) {
  const Shape wide[] = {WithByteSums(*call.in[0]), WithByteSums(*call.in[1])};
  const Shape* in[] = {&wide[0], &wide[1]};
  Shape result = InferShapes(kDotGeneral, in, call.attrs.first(kDotAttrs))[0];
  result = result.With(call.attrs[kDotAttrs].dtype());
  const Shape* bias = call.in[2];
  bool fits = !bias || (result.rank() > 0 && bias->dtype() == result.dtype() &&
                        bias->numel() == result.size(result.rank() - 1));
  if (!fits) {
    Refuse(call, ErrorCode::kShapeMismatch, "bias {} has not one element for each column of {}",
           bias->to_string(), result.to_string());
  }
  call.out = {result};
}

Tensors ExpandDotFused(const ExpandCall& c) {
  const DType wide = IsByte(c.in[0].dtype()) ? DType::kI32 : WideFloat(c.in[0].dtype());
  const Tensor in[] = {Casted(c.in[0], wide), Casted(c.in[1], wide)};
  Tensor result =
      Apply(kDotGeneral, Location(), std::span<const Tensor>(in), c.attrs.first(kDotAttrs));
  if (c.in[2].defined()) result = result + Casted(Reshaped(c.in[2], {c.in[2].numel()}), wide);
  if (c.attrs[kDotAttrs + 1].boolean()) result = maximum(result, ConstantLike(0, result));
  return {Casted(result, c.out[0].dtype())};
}

// ---- scatter

void InferScatterRows(const InferCall& call) {
  const Shape &index = *call.in[1], &source = *call.in[2];
  const Shape result = source.With(Dims(call.attrs[2].ints()));
  const bool rows = index.rank() < source.rank();
  const int64_t dim = call.attrs[0].integer();
  if (dim < 0 || dim >= std::max(source.rank(), 1) || (rows && index.rank() != 1)) {
    Refuse(call, ErrorCode::kShapeMismatch, "index {} names no rows of {} along dim {}",
           index.to_string(), source.to_string(), dim);
  }
  const Shape whole = rows ? source.With(index.dtype()) : index;
  const Shape* in[] = {call.in[0] ? call.in[0] : &result, &whole, &source};
  call.out = InferShapes(kScatter, in, call.attrs.first(2));
  if (call.out[0] != result) {
    Refuse(call, ErrorCode::kShapeMismatch, "self {} has not the sizes {}", call.in[0]->to_string(),
           ToString(result.sizes()));
  }
}

Tensors ExpandScatterRows(const ExpandCall& c) {
  const Tensor& source = c.in[2];
  Tensor self = c.in[0].defined() ? c.in[0] : ZerosLike(c.out[0], source), index = c.in[1];
  if (index.dim() < source.dim()) {
    Dims along = Dims::Filled(source.dim(), 1);
    along[static_cast<int>(c.attrs[0].integer())] = index.numel();
    index = Broadcasted(Reshaped(index, along), source.sizes());
  }
  const Tensor in[] = {self, index, source};
  return {Apply(kScatter, Location(), std::span<const Tensor>(in), c.attrs.first(2))};
}

// ---- attention

/// The attributes; see Note [Strided attention].
struct StridedAttention {
  explicit StridedAttention(std::span<const Attr> attrs)
      : own(attrs.first(2)),
        sizes(attrs[2].ints()),
        strides(attrs[3].ints()),
        bshd(attrs[4].boolean()) {}

  void Check(const InferCall& call, size_t layouts) const {
    if (sizes.size() == 5 && strides.size() == 5 + 4 * layouts) return;
    Refuse(call, ErrorCode::kValue, "needs 5 sizes and {} strides, got {} and {}", 5 + 4 * layouts,
           sizes.size(), strides.size());
  }
  Shape Result(const Shape& like, int64_t rows) const {
    return like.With(bshd ? Dims{sizes[0], rows, sizes[1], sizes[4]}
                          : Dims{sizes[0], sizes[1], rows, sizes[4]});
  }
  /// The elements of `base` at an offset and four strides.
  Tensor Gathered(const Tensor& base, int64_t offset, std::span<const int64_t> steps,
                  const Dims& to) const {
    Tensor index = ConstantLike(offset, Counting(1, base));
    for (int d = 0; d < 4; ++d) {
      index = index + CountingAlong(d, 4, to[d], base) * ConstantLike(steps[d], Counting(1, base));
    }
    const Tensor in[] = {Reshaped(base, {base.numel()}), Reshaped(index, {index.numel()})};
    return Reshaped(Apply(kIndexSelect, Location(), std::span<const Tensor>(in), {{Attr(0)}}), to);
  }
  /// Operand `which`, as [outer, inner, rows, width].
  Tensor Operand(const Tensor& base, size_t which, int64_t rows) const {
    const size_t first = 5 + 4 * which;
    const int64_t steps[] = {strides[first + 1], strides[first + 2], strides[first + 3], 1};
    return Gathered(base, strides[first], steps, {sizes[0], sizes[1], rows, sizes[4]});
  }
  Tensor Mask(const Tensor& mask) const {
    if (!mask.defined()) return mask;
    const int64_t steps[] = {strides[1], strides[2], strides[3], strides[4]};
    return Gathered(mask, 0, steps, {sizes[0], sizes[1], sizes[2], sizes[3]});
  }
  Tensor Placed(const Tensor& result) const {
    return bshd ? Permuted(result, {0, 2, 1, 3}) : result;
  }

  std::span<const Attr> own;  // of the plain op
  const std::vector<int64_t>&sizes, &strides;
  bool bshd;
};

void InferStrided(const InferCall& call) {
  StridedAttention attention(call.attrs);
  attention.Check(call, 4);
  const std::vector<int64_t>& sizes = attention.sizes;
  call.out = {attention.Result(*call.in[0], sizes[2]),
              Shape(WideFloat(call.in[0]->dtype()), {sizes[0], sizes[1], sizes[2]})};
}

Tensors ExpandStrided(const ExpandCall& c) {
  StridedAttention attention(c.attrs);
  const int64_t queries = attention.sizes[2], keys = attention.sizes[3];
  const Tensor in[] = {attention.Operand(c.in[0], 0, queries), attention.Operand(c.in[1], 1, keys),
                       attention.Operand(c.in[2], 2, keys), attention.Mask(c.in[3])};
  Tensors results = ApplyMulti(kAttention, Location(), in, attention.own);
  return {attention.Placed(results[0]), results[1]};
}

void InferStridedBackward(const InferCall& call) {
  StridedAttention attention(call.attrs);
  attention.Check(call, 7);
  const std::vector<int64_t>& sizes = attention.sizes;
  for (int64_t rows : {sizes[2], sizes[3], sizes[3]}) {
    call.out.push_back(attention.Result(*call.in[1], rows));
  }
}

Tensors ExpandStridedBackward(const ExpandCall& c) {
  StridedAttention attention(c.attrs);
  const std::vector<int64_t>& sizes = attention.sizes;
  const Dims rows = {sizes[0], sizes[1], sizes[2]};
  const Tensor in[] = {attention.Operand(c.in[0], 0, sizes[2]),
                       attention.Operand(c.in[1], 1, sizes[2]),
                       attention.Operand(c.in[2], 2, sizes[3]),
                       attention.Operand(c.in[3], 3, sizes[3]),
                       attention.Mask(c.in[4]),
                       Reshaped(c.in[5], rows),
                       Reshaped(c.in[6], rows)};
  Tensors results = ApplyMulti(kAttentionBackward, Location(), in, attention.own);
  for (Tensor& result : results) result = attention.Placed(result);
  return results;
}

void InferPackedBackward(const InferCall& call) {
  StridedAttention attention(call.attrs);
  attention.Check(call, 7);
  const std::vector<int64_t>& sizes = attention.sizes;
  if (!attention.bshd || sizes[2] != sizes[3]) {
    Refuse(call, ErrorCode::kValue, "needs bshd, and as many keys as queries");
  }
  call.out = {call.in[1]->With({sizes[0], sizes[2], 3, sizes[1], sizes[4]})};
}

Tensors ExpandPackedBackward(const ExpandCall& c) {
  Tensors parts = ExpandStridedBackward(c);
  for (Tensor& part : parts) {
    Dims sizes = c.out[0].sizes();
    sizes[2] = 1;
    part = Reshaped(part, sizes);
    part = part + ZerosLike(part.shape(), part);
  }
  return {Apply(kConcat, Location(), std::span<const Tensor>(parts), {{Attr(2)}})};
}

}  // namespace

constinit const OpDef ops::kDotGeneralFused = {
    .schema =
        "_dot_general_fused(Tensor a, Tensor b, Tensor? bias, int[] a_contract, int[] b_contract, "
        "int[] a_batch, int[] b_batch, ScalarType dtype, bool relu) -> Tensor",
    .doc = "`dot_general` with wide sums, plus `bias`, perhaps rectified, rounded to `dtype` once.",
    .infer = InferDotFused,
    .expand = ExpandDotFused,
    .samples = {{"f64[3,4] f64[4,5] f64[5]",
                 "{a_contract=[1], b_contract=[0], a_batch=[], b_batch=[], dtype=f64, relu=true}"},
                {"f64[2,3,4] f64[2,5,4] none",
                 "{a_contract=[2], b_contract=[2], a_batch=[0], b_batch=[0], dtype=f64, "
                 "relu=false}"},
                {"u8[3,4] i8[4,5] none",
                 "{a_contract=[1], b_contract=[0], a_batch=[], b_batch=[], dtype=i32, "
                 "relu=false}"}},
};
constinit const OpDef ops::kScatterRows = {
    .schema =
        "_scatter_rows(Tensor? self, int dim, Tensor index, Tensor source, str reduce, SymInt[] "
        "sizes) -> Tensor",
    .doc = "`scatter` into zeros where `self` is absent, and of rows where `index` is a vector.",
    .infer = InferScatterRows,
    .expand = ExpandScatterRows,
    .can_fail = true,
    .samples = {{"none i64[2] f32[2,4]", "{dim=0, reduce=\"sum\", sizes=[3,4]}"},
                {"f32[3,4] i64[3,2] f32[3,2]", "{dim=1, reduce=\"sum\", sizes=[3,4]}"}},
};
constinit const OpDef ops::kAttentionStrided = {
    .schema =
        "_attention_strided(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool "
        "is_causal, float scale, SymInt[] sizes, SymInt[] strides, bool bshd) -> (Tensor, "
        "Tensor)",
    .doc = "`_attention` of operands that are views, given by their strides.",
    .infer = InferStrided,
    .expand = ExpandStrided,
    .num_outputs = 2,
    .samples = {{"f32[2,3,3,2,4] f32[2,3,3,2,4] f32[2,3,3,2,4] f32[3,3]",
                 "{is_causal=false, scale=0.5, sizes=[2,2,3,3,4], "
                 "strides=[3,0,0,3,1, 0,72,4,24, 8,72,4,24, 16,72,4,24, 0,24,4,8], "
                 "bshd=true}"}},
};
constinit const OpDef ops::kAttentionStridedBackward = {
    .schema =
        "_attention_strided_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? "
        "attn_mask, Tensor logsumexp, Tensor delta, bool is_causal, float scale, SymInt[] sizes, "
        "SymInt[] strides, bool bshd) -> (Tensor, Tensor, Tensor)",
    .doc = "`_attention_backward` of operands that are views, given by their strides.",
    .infer = InferStridedBackward,
    .expand = ExpandStridedBackward,
    .num_outputs = 3,
    .samples = {{"f32[2,3,4] f32[2,3,4] f32[2,5,4] f32[2,5,4] none f32[2,3] f32[2,3]",
                 "{is_causal=true, scale=0.5, sizes=[1,2,3,5,4], "
                 "strides=[0,0,0,0,0, 0,24,12,4, 0,24,12,4, 0,40,20,4, 0,40,20,4, 0,24,12,4, "
                 "0,40,20,4, 0,40,20,4], bshd=false}"}},
};

constinit const OpDef ops::kAttentionPackedBackward = {
    .schema =
        "_attention_packed_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? "
        "attn_mask, Tensor logsumexp, Tensor delta, bool is_causal, float scale, SymInt[] sizes, "
        "SymInt[] strides, bool bshd) -> Tensor",
    .doc = "`_attention_strided_backward` with its results in one value.",
    .infer = InferPackedBackward,
    .expand = ExpandPackedBackward,
    .samples = {{"f32[2,3,4] f32[2,3,4] f32[2,3,4] f32[2,3,4] none f32[2,3] f32[2,3]",
                 "{is_causal=true, scale=0.5, sizes=[1,2,3,3,4], "
                 "strides=[0,0,0,0,0, 0,24,12,4, 0,24,12,4, 0,24,12,4, 0,24,12,4, 0,72,4,24, "
                 "8,72,4,24, 16,72,4,24], bshd=true}"}},
};

std::span<const OpDef* const> ops::FusedForms() {
  static constexpr const OpDef* kOps[] = {&kDotGeneralFused,         &kScatterRows,
                                          &kAttentionStrided,        &kAttentionStridedBackward,
                                          &kAttentionPackedBackward, &kMergedCollective};
  return kOps;
}

}  // namespace hammock
