#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

struct Block : nn::UnaryModule {
  Block() : UnaryModule("Block") {}
  nn::Linear inner = register_module("inner", nn::Linear(3, 3));
  Parameter scale = register_parameter("scale", ones({3}));
  Buffer calls = register_buffer("calls", zeros({}));
  double slope = 0.5;
  Tensor forward(const Tensor& x) override {
    NoGradGuard no_grad;
    calls += 1.0;
    return leaky_relu(inner(x), slope) * scale;
  }
};

struct Net : Module {
  Net() : Module("Net") { last->weight = first->inner->weight; }
  nn::Layer<Block> first = register_module("first", nn::Layer<Block>());
  std::vector<nn::Linear> more = {register_module("more", nn::Linear(3, 3))};
  nn::Sequential last_part =
      register_module("last_part", nn::Sequential(nn::ReLU(), nn::Dropout(0.5), nn::Linear(3, 3)));
  nn::Linear last = std::dynamic_pointer_cast<nn::LinearImpl>((*last_part)[2]);
  Tensor forward(const Tensor& x) { return last_part(more[0](first(x))); }
};

TEST(Clone, ComputesTheSameWithValuesOfItsOwn) {
  Net net;
  net.eval();
  net.first->slope = 0.25;
  Tensor x = randn({2, 3});
  std::shared_ptr<Net> twin = clone(net);
  EXPECT_TENSOR_EQ(twin->forward(x).detach(), net.forward(x).detach());
  EXPECT_FALSE(twin->last_part->is_training());
  {
    NoGradGuard no_grad;
    for (Tensor parameter : net.parameters()) parameter.fill_(0.0);
  }
  EXPECT_NE(abs(twin->forward(x)).sum().item<double>(), 0);
  EXPECT_EQ(twin->first->slope, 0.25);
  EXPECT_EQ(twin->first->calls.item<double>(), 2);
  EXPECT_EQ(net.first->calls.item<double>(), 1);
}

TEST(Clone, MembersAreWhatItsNamesSay) {
  Net net;
  std::shared_ptr<Net> twin = clone(net);
  EXPECT_TRUE(twin->get_tensor("first.scale").is_same(twin->first->scale));
  EXPECT_TRUE(twin->get_tensor("more.weight").is_same(twin->more[0]->weight));
  EXPECT_FALSE(twin->first->scale.is_same(net.first->scale));
  EXPECT_EQ(twin->get_submodule("more").get(), twin->more[0].get());
  EXPECT_NE(twin->more[0].get(), net.more[0].get());
  for (const auto& [name, tensor] : net.state_dict()) {
    EXPECT_FALSE(tensor.is_same(twin->get_tensor(name))) << name;
    EXPECT_EQ(tensor.requires_grad(), twin->get_tensor(name).requires_grad()) << name;
  }
}

TEST(Clone, KeepsTiesAndSharedModules) {
  Net net;
  std::shared_ptr<Net> twin = clone(net);
  EXPECT_TRUE(twin->last->weight.is_same(twin->first->inner->weight));
  EXPECT_EQ(twin->last.get(), (*twin->last_part)[2].get());
  EXPECT_EQ(twin->parameters().size(), net.parameters().size());

  nn::Linear shared(2, 2);
  nn::Sequential twice(shared, nn::ReLU(), shared);
  nn::Sequential copy = clone(twice);
  EXPECT_EQ((*copy)[0].get(), (*copy)[2].get());
  EXPECT_NE((*copy)[0].get(), shared.get());
}

TEST(Clone, HasNoGradientsAndNoHooks) {
  nn::Linear layer(2, 2);
  int calls = 0;
  layer->register_forward_hook([&](Module&, const auto&, auto&) { ++calls; });
  layer(ones({1, 2})).sum().backward();
  nn::Linear twin = clone(layer);
  EXPECT_FALSE(twin->weight.grad().defined());
  twin(ones({1, 2}));
  EXPECT_EQ(calls, 1);
}

TEST(Clone, OfLayersWithLayersAndStatesOfTheirOwn) {
  nn::LSTM lstm({.input_size = 2, .hidden_size = 3, .bidirectional = true});
  nn::LSTM lstm2 = clone(lstm);
  Tensor x = randn({4, 1, 2});
  EXPECT_TENSOR_EQ(std::get<0>(lstm2(x)).detach(), std::get<0>(lstm(x)).detach());

  nn::Loss loss = nn::CrossEntropyLoss({.weight = tensor({1.0, 3.0})});
  nn::Loss twin = clone(loss);
  Tensor scores = randn({2, 2}), labels = tensor({0, 1});
  EXPECT_TENSOR_EQ(twin(scores, labels), loss(scores, labels));
  {
    NoGradGuard no_grad;
    loss->get_tensor("weight").fill_(1.0);
  }
  EXPECT_NE(twin(scores, labels).item<float>(), loss(scores, labels).item<float>());

  nn::Transformer transformer(nn::TransformerOptions{.d_model = 4,
                                                     .nhead = 2,
                                                     .num_encoder_layers = 2,
                                                     .num_decoder_layers = 1,
                                                     .dim_feedforward = 6,
                                                     .dropout = 0});
  nn::Transformer other = clone(transformer);
  Tensor source = randn({3, 1, 4}), target = randn({2, 1, 4});
  EXPECT_TENSOR_EQ(other(source, target).detach(), transformer(source, target).detach());
}

TEST(Clone, FollowsItsTargetAsInReinforcementLearning) {
  nn::Sequential online(nn::Linear(2, 4), nn::Tanh(), nn::Linear(4, 1));
  nn::Sequential target = clone(online);
  optim::SGD optimizer(online->parameters(), {.lr = 0.1});
  Tensor x = randn({8, 2});
  Tensor before = target(x).detach().clone();
  square(online(x)).mean().backward();
  optimizer.step();
  EXPECT_TENSOR_EQ(target(x).detach(), before);
  target->load_state_dict(online->state_dict());
  EXPECT_TENSOR_EQ(target(x).detach(), online(x).detach());
}

TEST(Clone, RefusesMembersThatACopyWouldShare) {
  struct WithTensor : Module {
    WithTensor() : Module("WithTensor") { weight = register_parameter("weight", ones({2})); }
    Tensor weight;
  };
  WithTensor with_tensor;
  EXPECT_THROW_MESSAGE(clone(with_tensor), NotSupported,
                       "a member of WithTensor refers to its tensor 'weight', and a copy of it to "
                       "the same one; make that member a Parameter");
  struct WithPointer : Module {
    WithPointer() : Module("WithPointer") {}
    std::shared_ptr<Block> block = register_module("block", std::make_shared<Block>());
  };
  WithPointer with_pointer;
  EXPECT_THROW_MESSAGE(clone(with_pointer), NotSupported,
                       "refers to its submodule 'block', and a copy of it to the same one; make "
                       "that member a nn::Layer");
}

TEST(Clone, IsTheOnlyWayToCopy) {
  Net net;
  EXPECT_THROW_MESSAGE(Net other(net), ValueError, "Net: a module is copied by clone()");
}

struct Scales : nn::UnaryModule {
  explicit Scales(double by) : UnaryModule("Scales"), by(by) {}
  double by;
  Tensor forward(const Tensor& x) override { return x * by; }
};

struct Calls : nn::UnaryModule {
  Calls() : UnaryModule("Calls") {}
  nn::Layer<Scales> inner = register_module("inner", nn::Layer<Scales>(2.0));
  Tensor forward(const Tensor& x) override { return inner(x); }
};

TEST(Clone, CallsTheCopyOfWhatReplacedASubmodule) {
  Calls net;
  net.replace_submodule("inner", std::make_shared<Scales>(5.0));
  net.replace_submodule("inner", nn::Layer<Scales>(3.0));
  std::shared_ptr<Calls> twin = clone(net);
  EXPECT_EQ(twin->forward(ones({1})).item<double>(), 3);
  dynamic_cast<Scales&>(*twin->get_submodule("inner")).by = 7;
  EXPECT_EQ(twin->forward(ones({1})).item<double>(), 7);
  EXPECT_EQ(net.forward(ones({1})).item<double>(), 3);
}

TEST(Clone, OfAReplacedModuleIsNotReplaced) {
  Calls net;
  net.replace_submodule("inner", nn::Layer<Scales>(3.0));
  EXPECT_EQ(net.inner(ones({1})).item<double>(), 3);
  EXPECT_EQ(clone(net.inner)(ones({1})).item<double>(), 2);
}

TEST(Clone, NamesItsModulesByTheirPathInIt) {
  struct Outer : Module {
    Outer() : Module("Outer") {}
    nn::Layer<Block> block = register_module("block", nn::Layer<Block>());
  };
  Outer outer;
  Tensor wrong = ones({1, 5});
  std::shared_ptr<Outer> twin = clone(outer);
  EXPECT_THROW_MESSAGE(twin->block(wrong), ValueError, " in block.inner]");
  nn::Layer<Block> part = clone(outer.block);
  EXPECT_EQ(part->name(), "top");
  EXPECT_THROW_MESSAGE(part(wrong), ValueError, " in inner]");
}

TEST(Clone, ThroughAPointerToTheBase) {
  ModulePtr module = nn::Sequential(nn::Linear(2, 2), std::make_shared<Block>());
  ModulePtr twin = module->clone();
  EXPECT_NE(dynamic_cast<nn::SequentialImpl*>(twin.get()), nullptr);
  EXPECT_NE(std::dynamic_pointer_cast<Block>(twin->get_submodule("1")), nullptr);
}

}  // namespace
}  // namespace hammock
