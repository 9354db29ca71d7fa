#pragma once
/// The function that boxed values call on Tensor, which is defined above this folder.

#include <string>

namespace hammock {

class Tensor;

/// "f32[2,3] pending add": never runs anything. Defined beside Tensor.
std::string TensorSummary(const Tensor& tensor);

}  // namespace hammock
