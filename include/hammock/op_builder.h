#pragma once
/// The header for writers of ops: recording nodes, boxing a typed function, wrapping scalars.
///
///   Tensor log1p(const Tensor& x, Location at) { return Apply(kLog1p, at, {x}); }
///   Tensor softmax(const Tensor& x, int64_t dim, Location at) {
///     return Apply(kSoftmax, at, {x}, {WrapDim("softmax", dim, x.dim())});
///   }
///   constinit const OpDef kLog1p = {.schema = "log1p(Tensor self) -> Tensor", .call = Box<log1p>,
///   ...};

#include <array>
#include <concepts>
#include <initializer_list>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "hammock/boxing.h"
#include "hammock/ir/any.h"
#include "hammock/ir/op_def.h"
#include "hammock/tensor.h"

namespace hammock {

/// Records one node and returns its first output. Operands follow the record's schema (undefined
/// tensors for absent optional ones, lifted scalars as 0-d tensors), attributes its attribute list.
HAMMOCK_API Tensor Apply(const OpDef& op, const Location& at, std::span<const Tensor> operands,
                         std::span<const Attr> attrs = {});
HAMMOCK_API Tensor Apply(const OpDef& op, const Location& at,
                         std::initializer_list<Tensor> operands,
                         std::initializer_list<Attr> attrs = {});
/// As Apply, for ops with several outputs.
HAMMOCK_API std::vector<Tensor> ApplyMulti(const OpDef& op, const Location& at,
                                           std::span<const Tensor> operands,
                                           std::span<const Attr> attrs = {});
/// A node without operands, on `device`.
HAMMOCK_API Tensor ApplyOn(const OpDef& op, const Location& at, const Device& device,
                           std::initializer_list<Attr> attrs);
/// Elementwise with scalars: a number becomes a lifted 0-d operand of the op's compute dtype.
HAMMOCK_API Tensor ApplyElementwise(const OpDef& op, const TensorArg& a, const TensorArg& b);

/// A number as a 0-d operand of `dtype` on no particular device: lifted while tracing (its value is
/// not part of the key), baked as a constant inside expansions.
HAMMOCK_API Tensor Lift(const Scalar& value, DType dtype);
/// A number as a constant that is part of the key.
HAMMOCK_API Tensor Constant(const Scalar& value, DType dtype);
/// The dtype of `tensor op scalar` by PyTorch's rules.
/// The dtype of a number by itself: bool, an integer, the default float or the default complex one.
HAMMOCK_API DType DTypeOfNumber(const Scalar& scalar);
HAMMOCK_API DType ResultType(const Tensor& tensor, const Scalar& scalar);
/// A TensorArg as a tensor: a number is lifted with the dtype it has beside `other`.
HAMMOCK_API Tensor AsTensor(const TensorArg& arg, const Tensor& other);

/// In-place write: `self` receives `value`, cast to its dtype. Errors as in PyTorch where `value`
/// does not broadcast to `self` or the cast would lose the category (float into int).
HAMMOCK_API Tensor& WriteInPlace(const char* op, Tensor& self, const Tensor& value);

// ---- Boxing: Box<f> is a BoxedFn that converts each Any to f's parameter type. A trailing
// Location is not part of the schema.

namespace boxing {

template <auto F, class Signature>
struct Boxer;

template <auto F, class R, class... P>
struct Boxer<F, R (*)(P...)> {
  static constexpr size_t kArity = sizeof...(P);
  template <size_t I>
  using Param = std::remove_cvref_t<std::tuple_element_t<I, std::tuple<P...>>>;

  template <size_t... I>
  static Any CallWith(std::span<const Any> args, std::index_sequence<I...>) {
    // Converted values live here, so that `Tensor&` parameters (in-place ops) bind to them.
    std::tuple<Param<I>...> values{At<I>(args)...};
    if constexpr (std::is_void_v<R>) {
      F(static_cast<P>(std::get<I>(values))...);
      return Any();
    } else {
      return ToAny(F(static_cast<P>(std::get<I>(values))...));
    }
  }
  template <size_t I>
  static Param<I> At(std::span<const Any> args) {
    if constexpr (std::same_as<Param<I>, Location>) {
      return Location::current();
    } else {
      return FromAny<Param<I>>(args[I]);
    }
  }
  static Any Call(std::span<const Any> args) {
    return CallWith(args, std::make_index_sequence<kArity>());
  }
};

}  // namespace boxing

/// For overloaded functions name the type: Box<static_cast<Tensor (*)(const Tensor&,
/// Location)>(max)>.
template <auto F>
inline constexpr BoxedFn Box = boxing::Boxer<F, decltype(F)>::Call;

}  // namespace hammock
