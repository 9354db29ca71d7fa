#pragma once
/// `layer->forward(x)` of Hammock's own layers is a call of a module, as `layer(x)` is: it has the
/// user's line and the module's path, and computes parametrised parameters. Hooks run for
/// `layer(x)` alone.

#include "base/location_scope.h"
#include "hammock/caller_scope.h"
#include "hammock/module.h"
#include "module/module_access.h"

namespace hammock::nn {

/// Runs a layer's code. In a call of the layer that is in progress, which `layer(x)` has opened, it
/// opens no other; `at` is a line of the user's where a class that derives from the layer calls it.
template <class Fn>
auto CallForward(const Module& layer, const Location& at, Fn run) -> decltype(run()) {
  if (IsInnermost(layer)) {
    CallerScope derived(at);
    return run();
  }
  Module::BeginOfCall();
  auto result = [&] {
    ModuleFrameScope frame(Module::FrameLabel, layer, "forward", at);
    ComputedScope computed(layer.hooks());
    return run();
  }();
  Module::EndOfCall(at);
  return result;
}

}  // namespace hammock::nn
