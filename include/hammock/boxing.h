#pragma once
/// Boxing: between typed values of C++ and Any, for functions that are called by name.

#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/ir/any.h"
#include "hammock/ir/shape.h"
#include "hammock/random.h"
#include "hammock/tensor.h"

namespace hammock::boxing {

template <class T>
struct Arg {
  using Type = std::remove_cvref_t<T>;
};
template <>
struct Arg<const TensorAt&> {
  using Type = Tensor;
};

HAMMOCK_API Tensor ToTensorOrNumber(const Any& value);
HAMMOCK_API TensorArg ToTensorArg(const Any& value);
HAMMOCK_API std::vector<Tensor> ToTensors(const Any& value);
HAMMOCK_API std::vector<std::optional<Tensor>> ToOptionalTensors(const Any& value);
HAMMOCK_API Device ToDevice(const Any& value);
HAMMOCK_API std::optional<Generator> ToGenerator(const Any& value);
HAMMOCK_API Any FromGenerator(const Generator& generator);
HAMMOCK_API Any FromTensors(const std::vector<Tensor>& tensors);

template <class T>
T FromAny(const Any& value) {
  if constexpr (std::same_as<T, Tensor>) {
    return ToTensorOrNumber(value);
  } else if constexpr (std::same_as<T, TensorArg>) {
    return ToTensorArg(value);
  } else if constexpr (std::same_as<T, std::vector<Tensor>>) {
    return ToTensors(value);
  } else if constexpr (std::same_as<T, std::vector<std::optional<Tensor>>>) {
    return ToOptionalTensors(value);
  } else if constexpr (std::same_as<T, bool>) {
    return value.ToBool();
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(value.ToInt());
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(value.ToDouble());
  } else if constexpr (std::same_as<T, Scalar>) {
    return value.ToScalar();
  } else if constexpr (std::same_as<T, std::string>) {
    return value.ToStringRef();
  } else if constexpr (std::same_as<T, DType>) {
    return value.ToDType();
  } else if constexpr (std::same_as<T, Device>) {
    return ToDevice(value);
  } else if constexpr (std::same_as<T, std::optional<Generator>>) {
    return ToGenerator(value);
  } else if constexpr (std::same_as<T, Dims>) {
    return Dims(value.ToInts());
  } else if constexpr (std::same_as<T, std::vector<int64_t>>) {
    return value.ToInts();
  } else if constexpr (std::same_as<T, std::vector<double>>) {
    return value.ToDoubles();
  } else {  // std::optional<U>
    using U = typename T::value_type;
    return value.IsNone() ? T() : T(FromAny<U>(value));
  }
}

template <class R>
Any ToAny(R&& result) {
  using T = std::remove_cvref_t<R>;
  if constexpr (std::same_as<T, std::vector<Tensor>>) {
    return FromTensors(result);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply([](auto&&... items) { return Any::Tuple({ToAny(items)...}); }, result);
  } else if constexpr (std::same_as<T, Dims>) {
    return Any::Ints(result.vec());
  } else {
    return Any(result);
  }
}

}  // namespace hammock::boxing
