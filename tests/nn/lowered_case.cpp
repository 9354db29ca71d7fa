#include "nn/lowered_case.h"

#include "hammock/jit/to_backend.h"
#include "support/tensor_matchers.h"

namespace hammock::nn {
namespace {

void ExpectNear(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TENSOR_NEAR(got[i].detach(), expected[i].detach());
}

void AddTensors(const Any& value, Tensors& tensors) {
  if (value.IsTensor()) return tensors.push_back(value.ToTensor());
  for (const Any& element : value.ToList()) AddTensors(element, tensors);
}

/// Calls its submodule "layer" by name.
struct Caller : Module {
  explicit Caller(const ModulePtr& layer) : Module("Caller") {
    register_module("layer", layer);
    define({.schema = layer->method("forward").schema,
            .code = [](Module& self, const std::vector<Any>& args) {
              return self.get_submodule("layer")->run_method("forward", args);
            }});
  }
};

/// A module's inputs and outputs, and how it is lowered for them.
struct Lowering {
  Lowering(const Case& test, const Tensors& inputs) {
    HookHandle hook = test.module->register_forward_pre_hook(
        [&](Module&, const Tensors& given) { args.assign(given.begin(), given.end()); });
    expected = test.run(inputs);
    hook.remove();
    Fill(*test.module);  // some write their buffers
  }
  ModulePtr operator()(Module& module) const {
    return jit::to_backend("hammock", module, {{"forward", AnyDict()}},
                           {.examples = {{"forward", {.args = args}}}});
  }
  std::vector<Any> args;
  Tensors expected;
};

}  // namespace

void ExpectSameByNameWhenLowered(const Case& test, const Tensors& inputs) {
  Lowering lower(test, inputs);
  Caller caller(test.module);
  ModulePtr lowered = jit::to_backend_selective(caller, lower, {"layer"});
  Tensors outputs;
  AddTensors(lowered->run_method("forward", lower.args), outputs);
  ExpectNear(outputs, lower.expected);
}

void ExpectSameByHandleWhenLowered(const Case& test, const Tensors& inputs) {
  Lowering lower(test, inputs);
  Caller caller(test.module);
  ModulePtr lowered = lower(*test.module);
  int calls = 0;
  lowered->register_forward_hook([&](Module&, const Tensors&, Tensors&) { ++calls; });
  caller.replace_submodule("layer", lowered);
  ExpectNear(test.run(inputs), lower.expected);
  EXPECT_EQ(calls, 1);
}

}  // namespace hammock::nn
