#pragma once
/// A call of a function with a gradient of its own, as a mapped function sees it.

#include <functional>
#include <vector>

#include "hammock/ir/node.h"
#include "hammock/tensor.h"

namespace hammock {

struct CustomCall {
  std::vector<Value> inputs;   // with their histories
  std::vector<Value> outputs;  // without
  std::vector<Value> saved;    // of outputs without history
  /// One gradient per input, undefined for none, from what was saved and the outputs' gradients.
  std::function<std::vector<Tensor>(std::vector<Tensor> saved, std::vector<Tensor> grads)> backward;
};

}  // namespace hammock
