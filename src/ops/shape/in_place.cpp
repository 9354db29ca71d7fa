// In-place forms. Each is its functional form and one write, which checks that the result fits.

#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/nn.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

namespace {

template <class F>
Tensor& Write(const char* name, Tensor& self, const Location& at, F&& compute) {
  LocationScope scope(at);
  return WriteInPlace(name, self, compute());
}

}  // namespace

#define UNARY(name)                                                    \
  Tensor& name##_(Tensor& self, Location at) {                         \
    return Write(#name "_", self, at, [&] { return name(self, at); }); \
  }
HAMMOCK_UNARY_OPS(UNARY)
UNARY(relu)
UNARY(relu6)
UNARY(silu)
UNARY(mish)
UNARY(selu)
UNARY(hardswish)
UNARY(hardsigmoid)
#undef UNARY

#define BINARY(name)                                                          \
  Tensor& name##_(Tensor& self, const TensorArg& other, Location at) {        \
    return Write(#name "_", self, at, [&] { return name(self, other, at); }); \
  }
HAMMOCK_BINARY_OPS(BINARY)
BINARY(heaviside)
BINARY(clamp_min)
BINARY(clamp_max)
#undef BINARY

// IN_PLACE(name, parameters, arguments): what comes after `self`.
#define UNWRAP(...) __VA_ARGS__
#define IN_PLACE(name, parameters, arguments)                                            \
  Tensor& name##_(Tensor& self, UNWRAP parameters, Location at) {                        \
    return Write(#name "_", self, at, [&] { return name(self, UNWRAP arguments, at); }); \
  }
IN_PLACE(add, (const TensorArg& other, const Scalar& alpha), (other, alpha))
IN_PLACE(sub, (const TensorArg& other, const Scalar& alpha), (other, alpha))
IN_PLACE(div, (const TensorArg& other, const std::optional<std::string>& rounding_mode),
         (other, rounding_mode))
IN_PLACE(round, (int64_t decimals), (decimals))
IN_PLACE(clamp, (const std::optional<TensorArg>& min, const std::optional<TensorArg>& max),
         (min, max))
IN_PLACE(lerp, (const Tensor& end, const TensorArg& weight), (end, weight))
IN_PLACE(addcmul, (const Tensor& tensor1, const Tensor& tensor2, const Scalar& value),
         (tensor1, tensor2, value))
IN_PLACE(addcdiv, (const Tensor& tensor1, const Tensor& tensor2, const Scalar& value),
         (tensor1, tensor2, value))
IN_PLACE(nan_to_num,
         (const std::optional<Scalar>& nan, const std::optional<Scalar>& posinf,
          const std::optional<Scalar>& neginf),
         (nan, posinf, neginf))
IN_PLACE(logit, (const std::optional<Scalar>& eps), (eps))
IN_PLACE(elu, (const Scalar& alpha, const Scalar& scale, const Scalar& input_scale),
         (alpha, scale, input_scale))
IN_PLACE(celu, (const Scalar& alpha), (alpha))
IN_PLACE(leaky_relu, (const Scalar& negative_slope), (negative_slope))
IN_PLACE(hardtanh, (const Scalar& min_val, const Scalar& max_val), (min_val, max_val))
IN_PLACE(threshold, (const Scalar& threshold_value, const Scalar& value), (threshold_value, value))
IN_PLACE(dropout, (double p, bool training), (p, training))
#undef IN_PLACE

Tensor& zero_(Tensor& self, Location at) {
  LocationScope scope(at);
  return Write("zero_", self, at, [&] { return Filled(self.sizes(), 0, self.dtype(), self); });
}

// ---- records

namespace ops {
namespace {

#define UNARY(name)                                    \
  {.schema = #name "_(Tensor(a!) self) -> Tensor(a!)", \
   .doc = #name " in place.",                          \
   .call = Box<UnaryInPlaceFn(name##_)>},
#define BINARY(name)                                                 \
  {.schema = #name "_(Tensor(a!) self, Tensor other) -> Tensor(a!)", \
   .doc = #name " in place.",                                        \
   .call = Box<BinaryInPlaceFn(name##_)>},
#define UNARY_ALIAS(alias, name)                        \
  {.schema = #alias "_(Tensor(a!) self) -> Tensor(a!)", \
   .doc = "Same as " #name "_.",                        \
   .call = Box<UnaryInPlaceFn(name##_)>},
#define BINARY_ALIAS(alias, name)                                     \
  {.schema = #alias "_(Tensor(a!) self, Tensor other) -> Tensor(a!)", \
   .doc = "Same as " #name "_.",                                      \
   .call = Box<BinaryInPlaceFn(name##_)>},
/// Python's name of an operator has no underscore behind it.
#define PYTHON(alias, name)                                          \
  {.schema = #alias "(Tensor(a!) self, Tensor other) -> Tensor(a!)", \
   .doc = "Same as " #name "_.",                                     \
   .call = Box<BinaryInPlaceFn(name##_)>},
/// `text` is the schema after "name_" up to the result.
#define OTHER(name, text, type) \
  {.schema = #name "_" text " -> Tensor(a!)", .doc = #name " in place.", .call = Box<type>},

using AlphaFn = Tensor& (*)(Tensor&, const TensorArg&, const Scalar&, Location);
using ModeFn = Tensor& (*)(Tensor&, const TensorArg&, const std::optional<std::string>&, Location);
using DecimalsFn = Tensor& (*)(Tensor&, int64_t, Location);

// clang-format off
constinit const OpDef kFunctions[] = {
    HAMMOCK_UNARY_OPS(UNARY)
    HAMMOCK_UNARY_ALIASES(UNARY_ALIAS)
    UNARY(relu) UNARY(relu6) UNARY(silu) UNARY(mish) UNARY(selu) UNARY(hardswish)
    UNARY(hardsigmoid) UNARY(zero)
    HAMMOCK_BINARY_OPS(BINARY)
    HAMMOCK_BINARY_ALIASES(BINARY_ALIAS)
    PYTHON(__iand__, bitwise_and) PYTHON(__ior__, bitwise_or)
    PYTHON(__ixor__, bitwise_xor) PYTHON(__ilshift__, bitwise_left_shift)
    PYTHON(__irshift__, bitwise_right_shift)
    OTHER(heaviside, "(Tensor(a!) self, Tensor values)", heaviside_)
    OTHER(clamp_min, "(Tensor(a!) self, Tensor min)", clamp_min_)
    OTHER(clamp_max, "(Tensor(a!) self, Tensor max)", clamp_max_)
    OTHER(fill, "(Tensor(a!) self, Tensor value)", fill_)
    OTHER(add, ".alpha(Tensor(a!) self, Tensor other, *, Scalar alpha)", AlphaFn(add_))
    OTHER(sub, ".alpha(Tensor(a!) self, Tensor other, *, Scalar alpha)", AlphaFn(sub_))
    OTHER(div, ".mode(Tensor(a!) self, Tensor other, *, str? rounding_mode)", ModeFn(div_))
    OTHER(round, ".decimals(Tensor(a!) self, *, int decimals)", DecimalsFn(round_))
    OTHER(clamp, "(Tensor(a!) self, Tensor? min=None, Tensor? max=None)", clamp_)
    OTHER(lerp, "(Tensor(a!) self, Tensor end, Tensor weight)", lerp_)
    OTHER(addcmul, "(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", addcmul_)
    OTHER(addcdiv, "(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", addcdiv_)
    OTHER(nan_to_num, "(Tensor(a!) self, Scalar? nan=None, Scalar? posinf=None, Scalar? neginf=None)", nan_to_num_)
    OTHER(logit, "(Tensor(a!) self, Scalar? eps=None)", logit_)
    OTHER(elu, "(Tensor(a!) self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)", elu_)
    OTHER(celu, "(Tensor(a!) self, Scalar alpha=1.0)", celu_)
    OTHER(leaky_relu, "(Tensor(a!) self, Scalar negative_slope=0.01)", leaky_relu_)
    OTHER(hardtanh, "(Tensor(a!) self, Scalar min_val=-1, Scalar max_val=1)", hardtanh_)
    OTHER(threshold, "(Tensor(a!) self, Scalar threshold, Scalar value)", threshold_)
    OTHER(dropout, "(Tensor(a!) self, float p=0.5, bool training=True)", dropout_)
};
// clang-format on

}  // namespace

std::span<const OpDef* const> InPlaceOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace ops
}  // namespace hammock
