#include "hammock/ops/matmul.h"

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/linalg/contraction.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

Tensor ops::Contract(const Tensor& a, const Tensor& b, const Dims& a_contract,
                     const Dims& b_contract, const Dims& a_batch, const Dims& b_batch) {
  return Apply(kDotGeneral, Location(), {a, b}, {a_contract, b_contract, a_batch, b_batch});
}

namespace {

extern const OpDef kAddbmm, kAddmv, kAddr, kBilinear, kBmm, kChainMatmul, kDot, kInner, kMatmul,
    kMm, kMv, kVdot;

extern const OpDef kAddmm, kBaddbmm, kLinear;

void CheckTypes(const char* op, const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && a.dtype() != DType::kBool) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch,
                   "{}: needs operands of one number dtype, got {} and {}; cast one of them", op,
                   a.shape().to_string(), b.shape().to_string());
}

void CheckInner(const char* op, const Tensor& a, const Tensor& b, int64_t inner_a,
                int64_t inner_b) {
  if (inner_a == inner_b) return;
  Throw(ErrorCode::kShapeMismatch, "{}: inner sizes differ: {} @ {} needs {} == {}", op,
        a.shape().to_string(), b.shape().to_string(), inner_a, inner_b);
}

void CheckRanks(const char* op, const Tensor& a, int rank_a, const Tensor& b, int rank_b) {
  if (a.dim() == rank_a && b.dim() == rank_b) return;
  Throw(ErrorCode::kShapeMismatch, "{}: needs {}-d and {}-d operands, got {} and {}", op, rank_a,
        rank_b, a.shape().to_string(), b.shape().to_string());
}

Dims Counted(int count) {
  Dims dims;
  for (int i = 0; i < count; ++i) dims.push_back(i);
  return dims;
}

/// Both have batch dims: [..., n, k] @ [..., k, m].
Tensor BatchedProduct(const char* op, const Tensor& a, const Tensor& b) {
  auto batch_of = [](const Tensor& x) {
    Dims sizes = x.sizes();
    sizes.resize(x.dim() - 2);
    return sizes;
  };
  Dims batch = BroadcastSizes(op, batch_of(a), batch_of(b));
  auto stretched = [&](const Tensor& x) {
    Dims sizes = batch;
    sizes.push_back(x.size(-2));
    sizes.push_back(x.size(-1));
    return Broadcasted(x, sizes);
  };
  int rank = batch.size();
  return Contract(stretched(a), stretched(b), {rank + 1}, {rank}, Counted(rank), Counted(rank));
}

Tensor Product(const char* op, const Tensor& a, const Tensor& b) {
  CheckTypes(op, a, b);
  if (a.dim() == 0 || b.dim() == 0) {
    Throw(ErrorCode::kShapeMismatch, "{}: both operands need at least one dim, got {} and {}", op,
          a.shape().to_string(), b.shape().to_string());
  }
  int b_inner = b.dim() == 1 ? 0 : b.dim() - 2;
  CheckInner(op, a, b, a.size(-1), b.size(b_inner));
  if (a.dim() > 2 && b.dim() > 2) return BatchedProduct(op, a, b);
  Tensor result = Contract(a, b, {a.dim() - 1}, {b_inner}, {}, {});
  // A matrix times a batch comes out as [n, ..., m].
  if (a.dim() == 2 && b.dim() > 2) return Moved(result, 0, result.dim() - 2);
  return result;
}

/// `beta * self + alpha * product` in the dtype of `product`, cast to `dtype`.
Tensor Blend(const Tensor& self, const Tensor& product, const Tensor& beta, const Tensor& alpha,
             DType dtype) {
  Tensor zero = ConstantLike(0, product);
  Tensor own = Casted(self, product.dtype()) * beta;
  // NaN in `self` must not pass where beta is zero.
  Tensor kept = where(eq(beta, zero), zero, own);
  return Casted(kept + product * alpha, dtype);
}

void CheckAddend(const char* op, const Tensor& self, const Tensor& a, const Dims& sizes) {
  if (self.dtype() != a.dtype()) CheckTypes(op, self, a);
  if (BroadcastSizes(op, self.sizes(), sizes) == sizes) return;
  Throw(ErrorCode::kShapeMismatch, "{}: {} does not broadcast to the product's sizes {}", op,
        self.shape().to_string(), ToString(sizes));
}

// ---- Composites

void InferAddmm(const InferCall& c) {
  const Shape& a = *c.in[1];
  Dims sizes = a.sizes();
  sizes[a.rank() - 1] = c.in[2]->sizes().back();
  c.out.push_back(a.With(sizes));
}

std::vector<Tensor> ExpandAddmm(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  DType wide = WideFloat(dtype);
  Tensor product = Product(c.op.name(), Casted(c.in[1], wide), Casted(c.in[2], wide));
  return {Blend(c.in[0], product, Casted(c.in[3], wide), Casted(c.in[4], wide), dtype)};
}

Tensor AddmmNode(const OpDef& op, const Tensor& self, const Tensor& a, const Tensor& b,
                 const Scalar& beta, const Scalar& alpha, const Location& at) {
  const char* name = op.name();
  CheckTypes(name, a, b);
  CheckInner(name, a, b, a.size(-1), b.size(-2));
  Dims sizes = a.sizes();
  sizes[a.dim() - 1] = b.size(-1);
  CheckAddend(name, self, a, sizes);
  // As in PyTorch, integers truncate the factors.
  return Apply(op, at, {self, a, b, Lift(beta, a.dtype()), Lift(alpha, a.dtype())});
}

void InferLinear(const InferCall& c) {
  const Shape& input = *c.in[0];
  const Shape& weight = *c.in[1];
  Dims sizes = input.sizes();
  if (weight.rank() == 1) {
    sizes.resize(input.rank() - 1);
  } else {
    sizes[input.rank() - 1] = weight.size(0);
  }
  if (c.in[2]) sizes = BroadcastSizes("linear", sizes, c.in[2]->sizes());
  c.out.push_back(input.With(sizes));
}

std::vector<Tensor> ExpandLinear(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  // Without a bias there is one rounding either way; with one, the sum is rounded once.
  DType wide = c.in[2].defined() ? WideFloat(dtype) : dtype;
  Tensor input = Casted(c.in[0], wide), weight = Casted(c.in[1], wide);
  Tensor product = Contract(input, weight, {input.dim() - 1}, {weight.dim() - 1}, {}, {});
  if (c.in[2].defined()) product = product + Casted(c.in[2], wide);
  return {Casted(product, dtype)};
}

}  // namespace

Tensor matmul(const Tensor& self, const Tensor& other, Location at) {
  if (Autocasted cast(kMatmul, at); cast) return matmul(cast(self), cast(other), at);
  LocationScope scope(at);
  return Product("matmul", self, other);
}

Tensor mm(const Tensor& self, const Tensor& mat2, Location at) {
  if (Autocasted cast(kMm, at); cast) return mm(cast(self), cast(mat2), at);
  LocationScope scope(at);
  CheckRanks("mm", self, 2, mat2, 2);
  return Product("mm", self, mat2);
}

Tensor bmm(const Tensor& self, const Tensor& mat2, Location at) {
  if (Autocasted cast(kBmm, at); cast) return bmm(cast(self), cast(mat2), at);
  LocationScope scope(at);
  CheckRanks("bmm", self, 3, mat2, 3);
  if (self.size(0) != mat2.size(0)) {
    Throw(ErrorCode::kShapeMismatch, "bmm: batch sizes differ: {} @ {} needs {} == {}",
          self.shape().to_string(), mat2.shape().to_string(), self.size(0), mat2.size(0));
  }
  return Product("bmm", self, mat2);
}

Tensor mv(const Tensor& self, const Tensor& vec, Location at) {
  if (Autocasted cast(kMv, at); cast) return mv(cast(self), cast(vec), at);
  LocationScope scope(at);
  CheckRanks("mv", self, 2, vec, 1);
  return Product("mv", self, vec);
}

Tensor dot(const Tensor& self, const Tensor& tensor, Location at) {
  if (Autocasted cast(kDot, at, self, tensor); cast) return dot(cast(self), cast(tensor), at);
  LocationScope scope(at);
  CheckRanks("dot", self, 1, tensor, 1);
  return Product("dot", self, tensor);
}

Tensor vdot(const Tensor& self, const Tensor& other, Location at) {
  if (Autocasted cast(kVdot, at, self, other); cast) return vdot(cast(self), cast(other), at);
  LocationScope scope(at);
  CheckRanks("vdot", self, 1, other, 1);
  return Product("vdot", conj(self), other);
}

Tensor outer(const Tensor& self, const Tensor& vec2, Location at) {
  LocationScope scope(at);
  CheckRanks("outer", self, 1, vec2, 1);
  return Reshaped(self, {self.size(0), 1}) * Reshaped(vec2, {1, vec2.size(0)});
}

Tensor inner(const Tensor& self, const Tensor& other, Location at) {
  if (Autocasted cast(kInner, at); cast) return inner(cast(self), cast(other), at);
  LocationScope scope(at);
  if (self.dim() == 0 || other.dim() == 0) return self * other;
  CheckTypes("inner", self, other);
  CheckInner("inner", self, other, self.size(-1), other.size(-1));
  return Contract(self, other, {self.dim() - 1}, {other.dim() - 1}, {}, {});
}

Tensor kron(const Tensor& self, const Tensor& other, Location at) {
  LocationScope scope(at);
  // [a1, a2] x [b1, b2] is [a1, 1, a2, 1] * [1, b1, 1, b2], reshaped.
  int rank = std::max(self.dim(), other.dim());
  if (rank > kMaxRank / 2) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "kron: needs at most {} dims, got {} and {}",
                        kMaxRank / 2, self.shape().to_string(), other.shape().to_string());
  }
  Dims a_sizes, b_sizes, sizes;
  for (int i = 0; i < rank; ++i) {
    int a_dim = i - (rank - self.dim()), b_dim = i - (rank - other.dim());
    int64_t a = a_dim < 0 ? 1 : self.size(a_dim), b = b_dim < 0 ? 1 : other.size(b_dim);
    a_sizes.push_back(a);
    a_sizes.push_back(1);
    b_sizes.push_back(1);
    b_sizes.push_back(b);
    sizes.push_back(a * b);
  }
  return Reshaped(Reshaped(self, a_sizes) * Reshaped(other, b_sizes), sizes);
}

Tensor chain_matmul(const std::vector<Tensor>& matrices, Location at) {
  if (Autocasted cast(kChainMatmul, at); cast) return chain_matmul(cast(matrices), at);
  LocationScope scope(at);
  if (matrices.empty()) Throw(ErrorCode::kValue, "chain_matmul: needs at least one matrix");
  Tensor result = matrices[0];
  for (size_t i = 1; i < matrices.size(); ++i) {
    CheckRanks("chain_matmul", result, 2, matrices[i], 2);
    result = Product("chain_matmul", result, matrices[i]);
  }
  return result;
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
             const Scalar& alpha, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kAddmm, at); cast)
    return addmm(cast(self), cast(mat1), cast(mat2), beta, alpha, at);
  CheckRanks("addmm", mat1, 2, mat2, 2);
  return AddmmNode(kAddmm, self, mat1, mat2, beta, alpha, at);
}

Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
               const Scalar& alpha, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kBaddbmm, at); cast)
    return baddbmm(cast(self), cast(batch1), cast(batch2), beta, alpha, at);
  CheckRanks("baddbmm", batch1, 3, batch2, 3);
  if (batch1.size(0) != batch2.size(0)) {
    Throw(ErrorCode::kShapeMismatch, "baddbmm: batch sizes differ: {} @ {} needs {} == {}",
          batch1.shape().to_string(), batch2.shape().to_string(), batch1.size(0), batch2.size(0));
  }
  return AddmmNode(kBaddbmm, self, batch1, batch2, beta, alpha, at);
}

namespace {

/// The same as a composite, for products that backends have no call for.
Tensor AddProduct(const char* op, const Tensor& self, const Tensor& product, DType dtype,
                  const Scalar& beta, const Scalar& alpha) {
  CheckAddend(op, self, product, product.sizes());
  DType wide = product.dtype();
  return Blend(self, product, Placed(Lift(beta, wide), product), Lift(alpha, wide), dtype);
}

}  // namespace

Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta,
             const Scalar& alpha, Location at) {
  if (Autocasted cast(kAddmv, at); cast)
    return addmv(cast(self), cast(mat), cast(vec), beta, alpha, at);
  LocationScope scope(at);
  CheckRanks("addmv", mat, 2, vec, 1);
  CheckTypes("addmv", mat, vec);
  CheckTypes("addmv", self, mat);
  DType wide = WideFloat(mat.dtype());
  return AddProduct("addmv", Casted(self, wide),
                    Product("addmv", Casted(mat, wide), Casted(vec, wide)), mat.dtype(), beta,
                    alpha);
}

Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
              const Scalar& alpha, Location at) {
  if (Autocasted cast(kAddbmm, at); cast)
    return addbmm(cast(self), cast(batch1), cast(batch2), beta, alpha, at);
  LocationScope scope(at);
  CheckRanks("addbmm", batch1, 3, batch2, 3);
  CheckTypes("addbmm", batch1, batch2);
  CheckTypes("addbmm", self, batch1);
  CheckInner("addbmm", batch1, batch2, batch1.size(2), batch2.size(1));
  DType wide = WideFloat(batch1.dtype());
  Tensor product = Contract(Casted(batch1, wide), Casted(batch2, wide), {0, 2}, {0, 1}, {}, {});
  return AddProduct("addbmm", Casted(self, wide), product, batch1.dtype(), beta, alpha);
}

Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
            const Scalar& alpha, Location at) {
  if (Autocasted cast(kAddr, at); cast)
    return addr(cast(self), cast(vec1), cast(vec2), beta, alpha, at);
  LocationScope scope(at);
  CheckRanks("addr", vec1, 1, vec2, 1);
  DType dtype = PromoteTypes(self.dtype(), PromoteTypes(vec1.dtype(), vec2.dtype()));
  DType wide = dtype == DType::kBool ? DType::kI64 : WideFloat(dtype);
  return AddProduct("addr", Casted(self, wide), outer(Casted(vec1, wide), Casted(vec2, wide)),
                    dtype, beta, alpha);
}

Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
              Location at) {
  if (Autocasted cast(kLinear, at); cast) return linear(cast(input), cast(weight), cast(bias), at);
  LocationScope scope(at);
  CheckTypes("linear", input, weight);
  if (input.dim() == 0 || weight.dim() == 0 || weight.dim() > 2) {
    Throw(ErrorCode::kShapeMismatch,
          "linear: needs input [..., in] and weight [out, in], got {} and {}",
          input.shape().to_string(), weight.shape().to_string());
  }
  CheckInner("linear", input, weight, input.size(-1), weight.size(-1));
  if (bias) {
    CheckTypes("linear", input, *bias);
    Dims out = weight.dim() == 1 ? Dims() : Dims{weight.size(0)};
    if (bias->sizes() != out && bias->numel() != 1) {
      Throw(ErrorCode::kShapeMismatch, "linear: bias {} must have the sizes {}",
            bias->shape().to_string(), ToString(out));
    }
  }
  return Apply(kLinear, at, {input, weight, bias ? *bias : Tensor()});
}

Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                const std::optional<Tensor>& bias, Location at) {
  if (Autocasted cast(kBilinear, at, input1, input2, weight, bias); cast)
    return bilinear(cast(input1), cast(input2), cast(weight), cast(bias), at);
  LocationScope scope(at);
  if (weight.dim() != 3 || input1.dim() == 0 || input2.dim() == 0) {
    Throw(ErrorCode::kShapeMismatch,
          "bilinear: needs inputs [..., n] and [..., m] and weight [out, n, m], got {}, {}, {}",
          input1.shape().to_string(), input2.shape().to_string(), weight.shape().to_string());
  }
  CheckTypes("bilinear", input1, weight);
  CheckTypes("bilinear", input2, weight);
  CheckInner("bilinear", input1, weight, input1.size(-1), weight.size(1));
  CheckInner("bilinear", input2, weight, input2.size(-1), weight.size(2));
  DType wide = WideFloat(weight.dtype());
  int rank = input1.dim();
  Dims sizes = input1.sizes();
  sizes[rank - 1] = weight.size(0);
  int64_t rows = 1;
  for (int i = 0; i < rank - 1; ++i) rows *= sizes[i];
  Tensor x1 = Reshaped(Casted(input1, wide), {rows, input1.size(-1)});
  Tensor x2 = Reshaped(Casted(input2, wide), {rows, input2.size(-1)});
  Tensor half = Contract(x1, Casted(weight, wide), {1}, {1}, {}, {});  // [rows, out, m]
  Tensor result = Reshaped(Contract(half, x2, {2}, {1}, {0}, {0}), sizes);
  if (bias) result = result + Casted(*bias, wide);
  return Casted(result, weight.dtype());
}

namespace {

HAMMOCK_FUNCTION(kMatmul, "matmul(Tensor self, Tensor other) -> Tensor",
                 "Product of vectors, matrices or batches of them.", matmul, AutocastRule::kLow)
HAMMOCK_FUNCTION(kMm, "mm(Tensor self, Tensor mat2) -> Tensor", "Product of two matrices.", mm,
                 AutocastRule::kLow)
HAMMOCK_FUNCTION(kBmm, "bmm(Tensor self, Tensor mat2) -> Tensor",
                 "Products of two batches of matrices.", bmm, AutocastRule::kLow)
HAMMOCK_FUNCTION(kMv, "mv(Tensor self, Tensor vec) -> Tensor", "A matrix times a vector.", mv,
                 AutocastRule::kLow)
HAMMOCK_FUNCTION(kDot, "dot(Tensor self, Tensor tensor) -> Tensor", "Dot product of two vectors.",
                 dot, AutocastRule::kWidest)
HAMMOCK_FUNCTION(kVdot, "vdot(Tensor self, Tensor other) -> Tensor", "Dot product of two vectors.",
                 vdot, AutocastRule::kWidest)
HAMMOCK_FUNCTION(kOuter, "outer(Tensor self, Tensor vec2) -> Tensor",
                 "Every product of two vectors' elements.", outer)
HAMMOCK_FUNCTION(kGer, "ger(Tensor self, Tensor vec2) -> Tensor", "As outer.", outer)
HAMMOCK_FUNCTION(kInner, "inner(Tensor self, Tensor other) -> Tensor",
                 "Sums products over the last dims.", inner, AutocastRule::kLow)
HAMMOCK_FUNCTION(kKron, "kron(Tensor self, Tensor other) -> Tensor", "Kronecker product.", kron)
HAMMOCK_FUNCTION(kChainMatmul, "chain_matmul(Tensor[] matrices) -> Tensor",
                 "Product of several matrices.", chain_matmul, AutocastRule::kLow)
HAMMOCK_FUNCTION(kAddmv,
                 "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> "
                 "Tensor",
                 "beta * self + alpha * (mat @ vec).", addmv, AutocastRule::kLow)
HAMMOCK_FUNCTION(kAddbmm,
                 "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar "
                 "alpha=1) -> Tensor",
                 "beta * self + alpha * the sum of a batch of products.", addbmm,
                 AutocastRule::kLow)
HAMMOCK_FUNCTION(kAddr,
                 "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> "
                 "Tensor",
                 "beta * self + alpha * outer(vec1, vec2).", addr, AutocastRule::kLow)
HAMMOCK_FUNCTION(kBilinear,
                 "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> "
                 "Tensor",
                 "input1 @ weight[k] @ input2 for every k.", bilinear, AutocastRule::kWidest)

constinit const OpDef kAddmm = {
    .schema =
        "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> "
        "Tensor",
    .doc = "beta * self + alpha * (mat1 @ mat2).",
    .call = Box<addmm>,
    .autocast = AutocastRule::kLow,
    .infer = InferAddmm,
    .expand = ExpandAddmm,
    .samples = {{"f32[2,4] f32[2,3] f32[3,4] f32[] f32[]"}},
};
constinit const OpDef kBaddbmm = {
    .schema =
        "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar "
        "alpha=1) -> Tensor",
    .doc = "beta * self + alpha * (batch1 @ batch2).",
    .call = Box<baddbmm>,
    .autocast = AutocastRule::kLow,
    .infer = InferAddmm,
    .expand = ExpandAddmm,
    .samples = {{"f32[2,2,4] f32[2,2,3] f32[2,3,4] f32[] f32[]"}},
};
constinit const OpDef kLinear = {
    .schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    .doc = "input @ weight.t() + bias.",
    .call = Box<linear>,
    .autocast = AutocastRule::kLow,
    .infer = InferLinear,
    .expand = ExpandLinear,
    .samples = {{"f32[2,3] f32[4,3] f32[4]"}},
};

}  // namespace

std::span<const OpDef* const> ops::MatmulOps() {
  static constexpr const OpDef* kOps[] = {
      &kMatmul, &kMm,          &kBmm,   &kMv,      &kDot,   &kVdot,   &kOuter, &kGer,    &kInner,
      &kKron,   &kChainMatmul, &kAddmm, &kBaddbmm, &kAddmv, &kAddbmm, &kAddr,  &kLinear, &kBilinear,
  };
  return kOps;
}

}  // namespace hammock
