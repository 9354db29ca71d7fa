#include "hammock/parameter.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

std::vector<std::string> Names(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

/// A language model whose head has the weights of its embedding.
struct Tied : nn::UnaryModule {
  Tied() : UnaryModule("Tied") { head->weight = embedding->weight; }
  nn::Embedding embedding = register_module("embedding", nn::Embedding(5, 3));
  nn::Linear head = register_module("head", nn::Linear(3, 5, false));
  Tensor forward(const Tensor& tokens) override { return head(embedding(tokens)); }
};

TEST(TiedWeights, AreOneParameterUnderTwoNames) {
  Tied net;
  EXPECT_TRUE(net.head->weight.is_same(net.embedding->weight));
  EXPECT_EQ(Names(net.named_parameters()), std::vector<std::string>{"embedding.weight"});
  EXPECT_EQ(Names(net.named_parameters(true, false)),
            (std::vector<std::string>{"embedding.weight", "head.weight"}));
  EXPECT_EQ(Names(net.state_dict()), (std::vector<std::string>{"embedding.weight", "head.weight"}));
  EXPECT_EQ(net.parameters().size(), 1u);
}

TEST(TiedWeights, GetTheGradientsOfBothUses) {
  Tied net;
  Tensor tokens = tensor({1, 4});
  net.forward(tokens).sum().backward();
  Tensor tied = net.embedding->weight.grad().clone();

  Tensor rows = net.embedding->weight.detach().clone().requires_grad_();
  Tensor columns = net.embedding->weight.detach().clone().requires_grad_();
  linear(embedding(tokens, rows), columns).sum().backward();
  EXPECT_TENSOR_NEAR(tied, rows.grad() + columns.grad());
}

TEST(TiedWeights, AreUpdatedOnceByAnOptimizer) {
  Tied net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.5});
  Tensor before = net.head->weight.detach().clone();
  net.forward(tensor({1, 4})).sum().backward();
  Tensor grad = net.head->weight.grad().clone();
  optimizer.step();
  EXPECT_TENSOR_NEAR(net.head->weight.detach(), before - grad * 0.5);
  EXPECT_TRUE(net.head->weight.is_same(net.embedding->weight));
}

TEST(TiedWeights, StayTiedThroughStatesCheckpointsAndArchives) {
  Tied net, other;
  other.load_state_dict(net.state_dict());
  EXPECT_TENSOR_EQ(other.head->weight.detach(), net.head->weight.detach());
  EXPECT_TRUE(other.head->weight.is_same(other.embedding->weight));

  std::string path = ::testing::TempDir() + "tied";
  Checkpoint run({{"model", net}});
  run.save(path + ".safetensors");
  Tied third;
  Checkpoint({{"model", third}}).load(path + ".safetensors");
  EXPECT_TENSOR_EQ(third.head->weight.detach(), net.head->weight.detach());
  EXPECT_TRUE(third.head->weight.is_same(third.embedding->weight));

  Tensor tokens = tensor({0, 2});
  Tensor expected = net.forward(tokens).detach();
  net.trace("forward", {tokens});
  save_module(net, path + ".hmk");
  ModulePtr saved = load_module(path + ".hmk");
  EXPECT_TENSOR_EQ((*saved)(tokens), expected);
  EXPECT_TRUE(saved->get_tensor("head.weight").is_same(saved->get_tensor("embedding.weight")));
  EXPECT_EQ(saved->parameters().size(), 1u);
  std::filesystem::remove(path + ".safetensors");
  std::filesystem::remove(path + ".hmk");
}

TEST(TiedWeights, MoveAndCastOnce) {
  Tied net;
  net.to(DType::kF64);
  EXPECT_EQ(net.head->weight.dtype(), DType::kF64);
  EXPECT_TRUE(net.head->weight.is_same(net.embedding->weight));
}

TEST(Parameter, IsWhatTheModuleHas) {
  nn::Linear layer(2, 2);
  layer->weight = ones({2, 2});
  EXPECT_TRUE(layer->weight.requires_grad());
  EXPECT_TRUE(layer->get_tensor("weight").is_same(layer->weight));
  EXPECT_TENSOR_EQ(layer(zeros({1, 2}) + 1.0).detach(),
                   (layer->bias + 2.0).detach().reshape({1, 2}));
  Tensor& reference = layer->weight;
  reference = zeros({2, 2});
  EXPECT_TRUE(layer->parameters()[0].is_same(reference));
}

TEST(Parameter, MayHaveNoValue) {
  nn::Linear layer(2, 3, false);
  EXPECT_EQ(Names(layer->state_dict()), std::vector<std::string>{"weight"});
  layer->bias = zeros({3});
  EXPECT_EQ(Names(layer->state_dict()), (std::vector<std::string>{"weight", "bias"}));
  layer->bias = Tensor();
  EXPECT_EQ(layer->parameters().size(), 1u);
}

TEST(Parameter, IsALeaf) {
  nn::Linear layer(2, 2), other(2, 2);
  EXPECT_THROW_MESSAGE(layer->weight = other->weight * 2.0, ValueError,
                       "parameter 'weight': the value assigned has a history");
  layer->weight = (other->weight * 2.0).detach();
  EXPECT_TRUE(layer->weight.requires_grad());
}

TEST(Parameter, FrozenOnesStayFrozen) {
  nn::Linear layer(2, 2);
  layer->weight.requires_grad_(false);
  layer->weight = ones({2, 2});
  EXPECT_FALSE(layer->weight.requires_grad());
}

TEST(Parameter, CopiesArePlainHandles) {
  nn::Linear layer(2, 2);
  Parameter copy = layer->weight;
  copy = zeros({2, 2});
  EXPECT_FALSE(layer->weight.is_same(copy));
  EXPECT_TRUE(layer->parameters()[0].is_same(layer->weight));
}

TEST(Parameter, OfAModuleThatKeepsItAsATensorIsListedToo) {
  struct Old : Module {
    Old() : Module("Old") { weight = register_parameter("weight", ones({2})); }
    Tensor weight;
  };
  Old old;
  EXPECT_TRUE(old.parameters()[0].is_same(old.weight));
}

TEST(Parameter, OutlivesItsModule) {
  Parameter kept;
  {
    nn::Linear layer(2, 2);
    kept = std::move(layer->weight);
    EXPECT_TRUE(layer->get_tensor("weight").is_same(kept));
  }
  EXPECT_EQ(kept.sizes(), (Dims{2, 2}));
}

TEST(Buffer, ThatIsNotPersistentIsNoState) {
  struct Rotary : nn::UnaryModule {
    Rotary() : UnaryModule("Rotary") {}
    Buffer angles = register_buffer("angles", ones({2}), false);
    Tensor forward(const Tensor& x) override { return x * angles; }
  };
  Rotary module;
  EXPECT_TRUE(module.state_dict().empty());
  EXPECT_EQ(Names(module.named_buffers()), std::vector<std::string>{"angles"});
  module.to(DType::kF64);
  EXPECT_EQ(module.angles.dtype(), DType::kF64);

  module.trace("forward", {ones({2}, DType::kF64)});
  std::string path = ::testing::TempDir() + "rotary.hmk";
  save_module(module, path);
  ModulePtr saved = load_module(path);
  EXPECT_TRUE(saved->state_dict().empty());
  EXPECT_TENSOR_EQ((*saved)(ones({2}, DType::kF64)), ones({2}, DType::kF64));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace hammock
