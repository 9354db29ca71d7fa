#pragma once
/// A place on the tape where a function sees the gradients of several tensors at once.

#include <functional>
#include <vector>

#include "hammock/tensor.h"

namespace hammock {

/// Gradients of the tensors, undefined where none arrived; returns those that go on.
using GradientsFn = std::function<std::vector<Tensor>(std::vector<Tensor> grads)>;

/// The same values; their gradients pass through `hook`, together. Tensors without history, and
/// all of them where no history is recorded, are returned as they are.
std::vector<Tensor> HookGradients(std::vector<Tensor> tensors, GradientsFn hook);

}  // namespace hammock
