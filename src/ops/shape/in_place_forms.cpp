// In-place forms of functions that are not elementwise, and in-place random numbers of more
// distributions. Each is its functional form and one write.

#include "hammock/ops/in_place.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/norms.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "hammock/ops/special.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

// IN_PLACE(name, parameters, call): the functional form's call, which may name `at`.
#define UNWRAP(...) __VA_ARGS__
#define IN_PLACE(name, parameters, call)            \
  Tensor& name##_(UNWRAP parameters, Location at) { \
    LocationScope scope(at);                        \
    return WriteInPlace(#name "_", self, call);     \
  }
#define PRODUCT(name, a, b)                                                                       \
  IN_PLACE(                                                                                       \
      name,                                                                                       \
      (Tensor & self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha), \
      name(self, a, b, beta, alpha))
IN_PLACE(clip,
         (Tensor & self, const std::optional<TensorArg>& min, const std::optional<TensorArg>& max),
         clamp(self, min, max))
IN_PLACE(cumsum, (Tensor & self, int64_t dim), cumsum(self, dim, self.dtype()))
IN_PLACE(cumprod, (Tensor & self, int64_t dim), cumprod(self, dim, self.dtype()))
IN_PLACE(tril, (Tensor & self, int64_t diagonal), tril(self, diagonal))
IN_PLACE(triu, (Tensor & self, int64_t diagonal), triu(self, diagonal))
IN_PLACE(i0, (Tensor & self), i0(self))
IN_PLACE(conj_physical, (Tensor & self), conj(self))
IN_PLACE(igamma, (Tensor & self, const Tensor& other), igamma(self, other))
IN_PLACE(igammac, (Tensor & self, const Tensor& other), igammac(self, other))
IN_PLACE(mvlgamma, (Tensor & self, int64_t p), mvlgamma(self, p))
IN_PLACE(polygamma, (Tensor & self, int64_t n), polygamma(n, self))
IN_PLACE(renorm, (Tensor & self, const Scalar& p, int64_t dim, const Scalar& maxnorm),
         renorm(self, p, dim, maxnorm))
IN_PLACE(rrelu, (Tensor & self, const Scalar& lower, const Scalar& upper, bool training),
         rrelu(self, lower, upper, training))
PRODUCT(addmm, mat1, mat2)
PRODUCT(addmv, mat, vec)
PRODUCT(addr, vec1, vec2)
PRODUCT(addbmm, batch1, batch2)
PRODUCT(baddbmm, batch1, batch2)
#undef PRODUCT
#undef IN_PLACE

Tensor& fill_diagonal_(Tensor& self, const Scalar& value, bool wrap, Location at) {
  LocationScope scope(at);
  NeedRank("fill_diagonal_", self, 2);
  Dims sizes = self.sizes();
  for (int dim = 1; self.dim() > 2 && dim < self.dim(); ++dim) {
    if (sizes[dim] == sizes[0]) continue;
    Throw(ErrorCode::kShapeMismatch, "fill_diagonal_: dims of {} must be equal",
          self.shape().to_string());
  }
  const int64_t columns = sizes[1];
  Tensor on;
  Tensor first = CountingAlong(0, self.dim(), sizes[0], self);
  if (wrap && self.dim() == 2) first = remainder(first, ConstantLike(columns + 1, first));
  for (int dim = 1; dim < self.dim(); ++dim) {
    Tensor same = eq(first, CountingAlong(dim, self.dim(), sizes[dim], self));
    on = on.defined() ? logical_and(on, same) : same;
  }
  return WriteInPlace("fill_diagonal_", self, where(on, value, self));
}

// ---- Random numbers

namespace {

Tensor UniformLike(const char* op, const Tensor& self, const OptionalGenerator& generator) {
  if (!IsFloat(self.dtype())) NeedFloat(op, self);
  return rand(self.sizes(), DType::kF64, self.device(), generator);
}

}  // namespace

Tensor& cauchy_(Tensor& self, double median, double sigma, const OptionalGenerator& generator,
                Location at) {
  LocationScope scope(at);
  if (sigma <= 0) Throw(ErrorCode::kValue, "cauchy_: sigma {} must be above 0", sigma);
  Tensor u = UniformLike("cauchy_", self, generator);
  Tensor drawn = add(mul(tan(mul(sub(u, 0.5), std::numbers::pi)), sigma), median);
  return WriteInPlace("cauchy_", self, Casted(drawn, self.dtype()));
}

Tensor& log_normal_(Tensor& self, double mean, double std, const OptionalGenerator& generator,
                    Location at) {
  LocationScope scope(at);
  if (std <= 0) Throw(ErrorCode::kValue, "log_normal_: std {} must be above 0", std);
  if (!IsFloat(self.dtype())) NeedFloat("log_normal_", self);
  Tensor drawn = normal(mean, std, self.sizes(), DType::kF64, self.device(), generator);
  return WriteInPlace("log_normal_", self, Casted(exp(drawn), self.dtype()));
}

Tensor& geometric_(Tensor& self, double p, const OptionalGenerator& generator, Location at) {
  LocationScope scope(at);
  if (!(p > 0 && p < 1)) Throw(ErrorCode::kValue, "geometric_: p {} must be in (0, 1)", p);
  Tensor u = rand(self.sizes(), DType::kF64, self.device(), generator);
  // 1 - u is in (0, 1], so the first success comes at 1 at least.
  Tensor drawn = add(floor(div(log1p(neg(u)), std::log1p(-p))), 1.0);
  return WriteInPlace("geometric_", self, Casted(drawn, self.dtype()));
}

// ---- Records

namespace {

#define RECORD(name, arguments)                                     \
  {.schema = #name "_(Tensor(a!) self" arguments ") -> Tensor(a!)", \
   .doc = #name " in place.",                                       \
   .call = Box<name##_>},
#define PRODUCT(name, a, b) \
  RECORD(name, ", Tensor " #a ", Tensor " #b ", *, Scalar beta=1, Scalar alpha=1")
#define DRAW(name, arguments, about)                                                          \
  {.schema =                                                                                  \
       #name "_(Tensor(a!) self, " arguments ", *, Generator? generator=None) -> Tensor(a!)", \
   .doc = about,                                                                              \
   .call = Box<name##_>},

constinit const OpDef kFunctions[] = {
    RECORD(clip, ", Tensor? min=None, Tensor? max=None") RECORD(cumsum, ", int dim") RECORD(
        cumprod, ", int dim") RECORD(tril, ", int diagonal=0") RECORD(triu, ", int diagonal=0")
        RECORD(i0, "") RECORD(conj_physical, "") RECORD(igamma, ", Tensor other") RECORD(
            igammac, ", Tensor other") RECORD(mvlgamma, ", int p") RECORD(polygamma, ", int n")
            RECORD(renorm, ", Scalar p, int dim, Scalar maxnorm") RECORD(
                rrelu, ", Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False")
                PRODUCT(addmm, mat1, mat2) PRODUCT(addmv, mat, vec) PRODUCT(addr, vec1, vec2)
                    PRODUCT(addbmm, batch1, batch2) PRODUCT(baddbmm, batch1, batch2){
                        .schema = "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool "
                                  "wrap=False) -> Tensor(a!)",
                        .doc = "Writes the diagonal.",
                        .call = Box<fill_diagonal_>},
    DRAW(cauchy, "float median=0, float sigma=1", "Draws from a Cauchy distribution.")
        DRAW(log_normal, "float mean=1, float std=2", "Draws numbers whose logarithms are normal.")
            DRAW(geometric, "float p", "Draws numbers of trials until the first success.")};

}  // namespace

std::span<const OpDef* const> ops::InPlaceFormOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace hammock
