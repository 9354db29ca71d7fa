#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

using Tensors = std::vector<Tensor>;

TEST(ForwardHooks, SeeInputsAndOutputs) {
  nn::Linear layer(2, 3);
  Tensors seen;
  layer->register_forward_hook([&](Module& module, const Tensors& inputs, Tensors& outputs) {
    EXPECT_EQ(&module, layer.get());
    seen = {inputs[0], outputs[0]};
  });
  Tensor x = ones({1, 2}), y = layer(x);
  EXPECT_TRUE(seen[0].is_same(x));
  EXPECT_TRUE(seen[1].is_same(y));
}

TEST(ForwardHooks, ReplaceInputsAndOutputs) {
  nn::Function layer = nn::ReLU();
  layer->register_forward_pre_hook([](Module&, Tensors& inputs) { inputs[0] = inputs[0] + 1.0; });
  layer->register_forward_hook(
      [](Module&, const Tensors&, Tensors& outputs) { outputs[0] = outputs[0] * 10.0; });
  EXPECT_TENSOR_EQ(layer(tensor({1.0, -3.0})), tensor({20.0, 0.0}));
  EXPECT_TENSOR_EQ(layer->forward(tensor({1.0, -3.0})), tensor({1.0, 0.0}));
}

TEST(ForwardHooks, RunInOrderUntilTheyAreRemoved) {
  nn::Function layer = nn::ReLU();
  std::string order;
  HookHandle first, second;
  first = layer->register_forward_hook([&](Module&, const Tensors&, Tensors&) {
    order += "a";
    first.remove();
  });
  second = layer->register_forward_hook([&](Module&, const Tensors&, Tensors&) { order += "b"; });
  layer(ones({1}));
  layer(ones({1}));
  EXPECT_EQ(order, "abb");
  second.remove();
  second.remove();
  layer(ones({1}));
  EXPECT_EQ(order, "abb");
}

TEST(ForwardHooks, RunInContainersAndByName) {
  nn::Sequential net(nn::Linear(2, 2), nn::ReLU());
  std::vector<std::string> names;
  for (const auto& [name, module] : net->named_modules()) {
    module->register_forward_hook(
        [&names, name = name](Module&, const Tensors&, Tensors&) { names.push_back(name); });
  }
  net(ones({1, 2}));
  EXPECT_EQ(names, (std::vector<std::string>{"0", "1", ""}));
  names.clear();
  net->run_method("forward", {Any(ones({1, 2}))});
  EXPECT_EQ(names, (std::vector<std::string>{"0", "1", ""}));
}

TEST(ForwardHooks, SeeAllTensorsOfACall) {
  nn::LSTM layer({.input_size = 2, .hidden_size = 3});
  size_t inputs = 0, outputs = 0;
  layer->register_forward_hook([&](Module&, const Tensors& in, Tensors& out) {
    inputs = in.size();
    outputs = out.size();
  });
  Tensor h = zeros({1, 1, 3}), c = zeros({1, 1, 3});
  layer(ones({4, 1, 2}), nn::LSTMState(h, c));
  EXPECT_EQ(inputs, 3u);
  EXPECT_EQ(outputs, 3u);
}

TEST(ForwardHooks, LeaveAsManyTensorsAsTheyGot) {
  nn::Function layer = nn::ReLU();
  layer->register_forward_pre_hook([](Module&, Tensors& inputs) { inputs.clear(); });
  EXPECT_THROW_MESSAGE(layer(ones({1})), ValueError, "ReLU: a hook left 0 of 1 inputs");
}

TEST(BackwardHooks, SeeGradientsOfInputsAndOutputs) {
  nn::Linear layer(2, 3);
  Tensors grad_inputs, grad_outputs;
  layer->register_full_backward_hook([&](Module& module, Tensors& inputs, const Tensors& outputs) {
    EXPECT_EQ(&module, layer.get());
    grad_inputs = inputs;
    grad_outputs = outputs;
  });
  Tensor x = randn({4, 2}).requires_grad_();
  (layer(x) * 2.0).sum().backward();
  ASSERT_EQ(grad_inputs.size(), 1u);
  EXPECT_TENSOR_EQ(grad_outputs.at(0), full({4, 3}, 2.0f));
  EXPECT_TENSOR_EQ(grad_inputs[0], x.grad());
  EXPECT_TENSOR_NEAR(x.grad(), (layer->weight.detach().sum({0}) * 2.0).expand({4, 2}));
}

TEST(BackwardHooks, ReplaceGradients) {
  nn::Function layer = nn::ReLU();
  layer->register_full_backward_pre_hook(
      [](Module&, Tensors& grads) { grads[0] = grads[0] * 3.0; });
  layer->register_full_backward_hook(
      [](Module&, Tensors& inputs, const Tensors&) { inputs[0] = inputs[0] + 1.0; });
  Tensor x = tensor({1.0, -1.0}).requires_grad_();
  layer(x).sum().backward();
  EXPECT_TENSOR_EQ(x.grad(), tensor({4.0, 1.0}));
}

TEST(BackwardHooks, RunWithoutGradientsOfInputs) {
  nn::Linear layer(2, 3);
  int calls = 0;
  HookHandle handle =
      layer->register_full_backward_hook([&](Module&, Tensors& inputs, const Tensors& outputs) {
        ++calls;
        EXPECT_FALSE(inputs.at(0).defined());
        EXPECT_TRUE(outputs.at(0).defined());
      });
  layer(ones({1, 2})).sum().backward();
  EXPECT_EQ(calls, 1);
  Tensor later = layer(ones({1, 2})).sum();
  handle.remove();
  later.backward();
  EXPECT_EQ(calls, 1);
  NoGradGuard no_grad;
  layer(ones({1, 2}));
}

TEST(BackwardHooks, OfAModuleThatIsGoneDoNotRun) {
  Tensor x = ones({1, 2}).requires_grad_(), loss;
  int calls = 0;
  {
    nn::Linear layer(2, 3);
    layer->register_full_backward_hook([&](Module&, Tensors&, const Tensors&) { ++calls; });
    loss = layer(x).sum();
  }
  loss.backward();
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace hammock
