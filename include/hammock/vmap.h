#pragma once
/// Functions of one sample as functions of many, and derivatives that are made of them.
///
///   auto distance = [](const Tensor& a, const Tensor& b) { return (a - b).norm(); };
///   vmap(distance)(x, y);                            // rows of x and y: f32[n]
///   vmap(vmap(distance, {std::nullopt, 0}), {0, std::nullopt})(x, y);   // all pairs: f32[n,m]
///
/// The function is called once, with tensors of one sample, and what it recorded is made anew for
/// all samples at once: a matmul becomes a batched matmul, a sum another sum. The number of ops
/// does not depend on the number of samples. Histories are those that a loop over the samples would
/// leave: a gradient inside of the function is one per sample, and one outside goes through it.

#include <concepts>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hammock/autograd.h"
#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock {

/// The random ops of a mapped function.
enum class Randomness : uint8_t {
  kError,      ///< are refused
  kDifferent,  ///< draw numbers for each sample
  kSame,       ///< draw the same numbers for all samples
};

/// For each argument or result, the dim along which its samples lie; none for an argument that all
/// samples share, or a result that does not depend on the sample.
using SampleDims = std::vector<std::optional<int64_t>>;

struct VmapOptions {
  SampleDims in_dims = {};   ///< one for each argument; empty: 0 for all
  SampleDims out_dims = {};  ///< one for each result, or one for all of them; empty: 0 for all
  Randomness randomness = Randomness::kError;
  std::optional<int64_t> chunk_size = {};  ///< samples that are computed at a time; none: all
};

/// `fn` for all samples of `inputs`. The results' dims are read after `fn` was called.
HAMMOCK_API std::vector<Tensor> MapOver(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                                        const VmapOptions& options,
                                        Location at = Location::current());

/// The result of `vmap`: called with tensors as the function is.
template <class Fn>
class Vmapped {
 public:
  Vmapped(Fn fn, VmapOptions options, Location at)
      : fn_(std::move(fn)), options_(std::move(options)), at_(at) {}

  std::vector<Tensor> operator()(
      const std::vector<Tensor>& inputs) const requires std::invocable < const Fn&,
      const std::vector<Tensor>
  & > {
    return MapOver([&](const std::vector<Tensor>& in) { return Listed(fn_(in)); }, inputs, options_,
                   at_);
  }

  template <std::derived_from<Tensor>... Args>
  requires(std::invocable<const Fn&, const Args&...> && sizeof...(Args) > 0) auto operator()(
      const Args&... inputs) const {
    using Result = std::remove_cvref_t<std::invoke_result_t<const Fn&, const Args&...>>;
    auto call = [&]<size_t... I>(const std::vector<Tensor>& in, std::index_sequence<I...>) {
      return Listed(fn_(in[I]...));
    };
    std::vector<Tensor> results = MapOver(
        [&](const std::vector<Tensor>& in) { return call(in, std::index_sequence_for<Args...>()); },
        {inputs...}, options_, at_);
    if constexpr (std::derived_from<Result, Tensor>) {
      return results[0];
    } else if constexpr (std::same_as<Result, std::vector<Tensor>>) {
      return results;
    } else {
      return Tuple<Result>(results, std::make_index_sequence<std::tuple_size_v<Result>>());
    }
  }

 private:
  static std::vector<Tensor> Listed(const Tensor& result) { return {result}; }
  static std::vector<Tensor> Listed(std::vector<Tensor> results) { return results; }
  template <class Results>
  static std::vector<Tensor> Listed(const Results& results) {
    return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; }, results);
  }
  template <class Results, size_t... I>
  static Results Tuple(const std::vector<Tensor>& results, std::index_sequence<I...>) {
    return Results{results[I]...};
  }

  Fn fn_;
  VmapOptions options_;
  Location at_;
};

/// A function of batches from `fn`, a function of one sample: of tensors or of a vector of tensors,
/// that returns a tensor, or a tuple or vector of them.
template <class Fn>
Vmapped<std::decay_t<Fn>> vmap(Fn&& fn, SampleDims in_dims = {}, SampleDims out_dims = {},
                               Randomness randomness = Randomness::kError,
                               Location at = Location::current()) {
  return {std::forward<Fn>(fn), VmapOptions{std::move(in_dims), std::move(out_dims), randomness},
          at};
}

using TensorFunction = std::function<Tensor(const Tensor&)>;

/// The derivative of every output by every input: [output][input], each of the output's sizes, then
/// the input's. In reverse mode, which costs a backward pass for each element of the outputs, all
/// at once. Of a complex input the function must be holomorphic (one that is not is differentiated
/// by the parts, view_as_real); complex results of real inputs have complex derivatives.
HAMMOCK_API std::vector<std::vector<Tensor>> jacrev(const TensorsFn& fn,
                                                    const std::vector<Tensor>& inputs,
                                                    Location at = Location::current());
HAMMOCK_API Tensor jacrev(const TensorFunction& fn, const Tensor& input,
                          Location at = Location::current());
/// The same in forward mode, which costs a pass for each element of the inputs.
HAMMOCK_API std::vector<std::vector<Tensor>> jacfwd(const TensorsFn& fn,
                                                    const std::vector<Tensor>& inputs,
                                                    Location at = Location::current());
HAMMOCK_API Tensor jacfwd(const TensorFunction& fn, const Tensor& input,
                          Location at = Location::current());
/// The second derivatives of a function whose result has one element: [input][input].
HAMMOCK_API std::vector<std::vector<Tensor>> hessian(const TensorsFn& fn,
                                                     const std::vector<Tensor>& inputs,
                                                     Location at = Location::current());
HAMMOCK_API Tensor hessian(const TensorFunction& fn, const Tensor& input,
                           Location at = Location::current());

}  // namespace hammock
