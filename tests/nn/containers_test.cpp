#include "hammock/nn/containers.h"

#include <gtest/gtest.h>

#include <sstream>

#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "support/tensor_matchers.h"

namespace hammock::nn {
namespace {

struct Net : Module {
  Net() : Module("Net") {}
  Linear hidden = register_module("hidden", Linear(4, 3));
  Sequential head = register_module("head", Sequential(ReLU(), Linear(3, 2, false)));
  Tensor forward(const Tensor& x) { return head(hidden(x)); }
};

TEST(Modules, ParametersHaveDottedNames) {
  Net net;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : net.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"hidden.weight", "hidden.bias", "head.1.weight"}));
  EXPECT_EQ(net.forward(ones({5, 4})).sizes(), (Dims{5, 2}));
}

TEST(Modules, PrintAsATreeWithTheirParameters) {
  Net net;
  std::ostringstream text;
  text << net;
  EXPECT_EQ(text.str(), R"(Net(  # 21 parameters
  (hidden): Linear(in_features=4, out_features=3, bias=true)  # 15
  (head): Sequential(  # 6
    (0): ReLU()
    (1): Linear(in_features=3, out_features=2, bias=false)  # 6
  )
)
)");
}

TEST(Modules, TrainingReachesAllLayers) {
  Net net;
  net.eval();
  EXPECT_FALSE(net.head->is_training());
  net.train();
  EXPECT_TRUE(net.head->is_training());
}

TEST(Modules, LearnTogetherWithAnyOptimizer) {
  Net net;
  Tensor x = randn({8, 4}), y = randn({8, 2});
  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    net.zero_grad();
    Tensor loss = mse_loss(net.forward(x), y);
    loss.backward();
    {
      NoGradGuard no_grad;
      for (auto& [name, parameter] : net.named_parameters()) {
        Tensor p = parameter;
        p.sub_(p.grad() * 0.1);
      }
    }
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first);
}

TEST(Sequential, IsBuiltAndIndexed) {
  Sequential net;
  net->push_back("first", Linear(2, 2));
  net->push_back(ReLU());
  EXPECT_EQ(net->size(), 2u);
  EXPECT_EQ(net->named_children()[1].first, "1");
  EXPECT_EQ((*net)[0]->class_name(), "Linear");
  EXPECT_THROW_MESSAGE(net->push_back(Linear(nullptr)), ValueError, "module '2' is null");
}

TEST(ModuleList, GivesLayersAsWhatTheyAre) {
  ModuleList list(Linear(2, 3), ReLU());
  EXPECT_EQ(list->at<LinearImpl>(0)->weight.sizes(), (Dims{3, 2}));
  EXPECT_THROW_MESSAGE(list->at<LinearImpl>(1), TypeError, "number 1 is a ReLU");
}

TEST(ModuleDict, GivesLayersByName) {
  ModuleDict dict(
      std::vector<std::pair<std::string, ModulePtr>>{{"a", Linear(2, 3)}, {"b", ReLU()}});
  EXPECT_TRUE(dict->contains("b"));
  EXPECT_FALSE(dict->contains("c"));
  EXPECT_EQ((*dict)["a"]->class_name(), "Linear");
}

}  // namespace
}  // namespace hammock::nn
