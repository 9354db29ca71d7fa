#pragma once
/// The delegate of Hammock's devices takes the place of a module.

#include "nn/named_cases.h"

namespace hammock::nn {

/// A method that calls the module by name, in a module whose part it is, gives what it gave before.
/// Refills the module.
void ExpectSameByNameWhenLowered(const Case& test, const Tensors& inputs);
/// So do handles of the module.
void ExpectSameByHandleWhenLowered(const Case& test, const Tensors& inputs);

}  // namespace hammock::nn
