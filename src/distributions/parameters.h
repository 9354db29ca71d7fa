#pragma once
/// Parameters of distributions, and the random numbers of their draws.

#include <initializer_list>
#include <vector>

#include "hammock/ops.h"
#include "hammock/tensor.h"

namespace hammock::distributions {

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kLogTwoPi = 1.8378770664093454836;
inline constexpr double kEulerGamma = 0.57721566490153286061;

/// Tensors and numbers as floating tensors of one dtype, device and size.
std::vector<Tensor> Broadcast(std::initializer_list<TensorArg> args);
/// Refuses a number that was given for a parameter; tensors pass.
void NeedNumber(const char* name, const char* message, const TensorArg& given,
                bool (*holds)(double));
/// `value`, whose use raises an error where it is not in [low, high].
Tensor Supported(const char* name, const char* message, const Tensor& value, double low,
                 double high);
/// The parameter, whose last dim are the classes.
const Tensor& WithClasses(const char* name, const Tensor& parameter, const Location& at);
/// Sizes one after the other.
Dims Joined(const Dims& first, const Dims& second);
/// Without the last `count` of them.
Dims WithoutLast(const Dims& sizes, int count);

inline double Epsilon(const Tensor& like) { return InfoOf(like.dtype()).epsilon; }
/// In [0, 1), of the dtype and on the device of `like`.
inline Tensor UniformLike(const Tensor& like, const Dims& sizes) {
  return rand(sizes, like.dtype(), like.device());
}
inline Tensor NormalLike(const Tensor& like, const Dims& sizes) {
  return randn(sizes, like.dtype(), like.device());
}
/// Of the sum over the last `dims` dims.
Tensor SumLast(const Tensor& values, int dims);

/// Gamma draws of rate one, with gradients; see Gamma.
Tensor StandardGamma(const Tensor& concentration);
/// The derivative of a draw with respect to its concentration.
Tensor StandardGammaGrad(const Tensor& concentration, const Tensor& draw);

}  // namespace hammock::distributions
