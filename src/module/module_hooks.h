#pragma once
/// Hooks that run around the calls of one module; see hammock/module_hooks.h.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "hammock/module_hooks.h"
#include "hammock/parameter.h"
#include "hammock/tensor.h"

namespace hammock {

/// A tensor of a module that is computed before each call of it, and undefined in between.
struct ComputedTensor {
  std::shared_ptr<RegisteredTensor> tensor;
  std::function<Tensor(Module& self)> compute;
};

/// Hooks in the order of their numbers.
struct ModuleHooks {
  Module* module = nullptr;  ///< null once the module is gone
  int64_t next = 0;
  std::map<int64_t, ForwardPreHook> forward_pre = {};
  std::map<int64_t, ForwardHook> forward = {};
  std::map<int64_t, BackwardPreHook> backward_pre = {};
  std::map<int64_t, BackwardHook> backward = {};
  std::vector<ComputedTensor> computed = {};
};

}  // namespace hammock
