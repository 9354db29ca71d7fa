#include "hammock/module.h"

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/ir/graph.h"
#include "ir/expect_error.h"

namespace hammock {
namespace {

using Floats = std::vector<float>;

struct Linear : Module {
  Linear(int64_t in, int64_t out) : Module("Linear") {
    weight = register_parameter("weight", ones({in, out}));
    bias = register_parameter("bias", zeros({out}));
    define("forward(Tensor x) -> Tensor", &Linear::forward);
  }
  Tensor forward(const Tensor& x) { return matmul(x, weight) + bias; }
  Tensor weight, bias;
};

struct Net : Module {
  Net() : Module("Net") {
    first = register_module("first", std::make_shared<Linear>(3, 2));
    second = register_module("second", std::make_shared<Linear>(2, 1));
    calls = register_buffer("calls", zeros({1}));
    define("forward(Tensor x) -> Tensor", &Net::forward);
    define("scaled(Tensor x, float by=2.0, *, bool negate=False) -> Tensor", &Net::scaled);
    define("both(Tensor x) -> Tuple(Tensor, Tensor[])", &Net::both);
  }
  Tensor forward(const Tensor& x) {
    calls += 1.0;
    return (*second)(relu((*first)(x)));
  }
  Tensor scaled(const Tensor& x, double by, bool negate) const { return x * (negate ? -by : by); }
  std::tuple<Tensor, std::vector<Tensor>> both(const Tensor& x) { return {x + 1.0, {x, x * 2.0}}; }
  std::shared_ptr<Linear> first, second;
  Tensor calls;
};

std::vector<std::string> Names(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST(Module, NamesItsStateAsPyTorchDoes) {
  Net net;
  EXPECT_EQ(
      Names(net.named_parameters()),
      (std::vector<std::string>{"first.weight", "first.bias", "second.weight", "second.bias"}));
  EXPECT_EQ(Names(net.named_buffers()), std::vector<std::string>{"calls"});
  EXPECT_EQ(Names(net.state_dict()),
            (std::vector<std::string>{"calls", "first.weight", "first.bias", "second.weight",
                                      "second.bias"}));
  EXPECT_TRUE(net.first->weight.requires_grad());
  EXPECT_FALSE(net.calls.requires_grad());
}

TEST(Module, RefusesNamesThatAreTakenOrHaveDots) {
  Net net;
  EXPECT_ERROR(net.register_buffer("first", zeros({1})), ValueError,
               "'first' is already registered");
  EXPECT_ERROR(net.register_parameter("a.b", zeros({1})), ValueError, "'a.b' is no name");
  EXPECT_ERROR(net.register_buffer("x", Tensor()), ValueError, "'x' is undefined");
}

TEST(Module, FindsSubmodulesAndTensorsByPath) {
  Net net;
  EXPECT_EQ(net.get_submodule("first").get(), net.first.get());
  EXPECT_TRUE(net.get_tensor("second.bias").is_same(net.second->bias));
  EXPECT_ERROR(net.get_submodule("first.x"), ValueError, "Attribute named first.x is not a Module");
  EXPECT_ERROR(net.get_tensor("first.x"), ValueError, "Net has no parameter or buffer 'first.x'");
}

TEST(Module, CallsMethodsByNameWithDefaultsAndKeywords) {
  Net net;
  Tensor x = tensor({1.0, 2.0});
  EXPECT_EQ(net.run_method("scaled", {x}).ToTensor().to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(net.run_method("scaled", {x, 3}, {{"negate", true}}).ToTensor().to_vector<float>(),
            (Floats{-3, -6}));
  EXPECT_ERROR(net.run_method("scale", {x}), ValueError,
               "Method 'scale' is not defined. Did you mean 'scaled'?");
  EXPECT_ERROR(net.run_method("scaled", {x, "much"}), TypeError,
               "argument 'by' must be float, got str");
  net.define("wrong() -> int", [](Module&, const std::vector<Any>&) { return Any("text"); });
  EXPECT_ERROR(net.run_method("wrong"), TypeError, "wrong: must return int, returned str");
}

TEST(Module, SaysHowToCallAForwardThatIsNoMethod) {
  struct Own : Module {
    Own() : Module("Own") {}
    Tensor forward(const Tensor& x) { return x; }
  };
  Own net;
  EXPECT_ERROR(net(tensor({1.0})), ValueError,
               "Own: Method 'forward' is not defined. A forward of a class that derives from "
               "Module is called by net.forward(x); for net(x) derive from nn::UnaryModule");
}

TEST(Module, TraceMakesCodeAGraphThatGivesTheSame) {
  Net net;
  Tensor x = tensor({{1.0, 2.0, 3.0}});
  float expected = net(x).item<float>();
  EXPECT_EQ(net.calls.item<float>(), 1);
  net.trace("forward", {x});
  EXPECT_EQ(net.calls.item<float>(), 1) << "tracing leaves buffers alone";
  EXPECT_EQ(net.method("forward").code, nullptr);
  EXPECT_EQ(net(x).item<float>(), expected);
  EXPECT_EQ(net.calls.item<float>(), 2) << "a graph writes the buffers that the code wrote";
  {
    NoGradGuard no_grad;
    net.first->bias += 1.0;
  }
  EXPECT_EQ(net(x).item<float>(), expected + 2) << "parameters are captured, not frozen";
}

TEST(Module, GraphsHaveGradients) {
  Net net;
  Tensor x = tensor({{1.0, 2.0, 3.0}});
  net.trace("forward", {x});
  net(x).sum().backward();
  EXPECT_EQ(net.second->bias.grad().to_vector<float>(), Floats{1});
  EXPECT_EQ(net.first->weight.grad().to_vector<float>(), (Floats{1, 1, 2, 2, 3, 3}));
}

TEST(Module, TraceKeepsNestedResultsAndFixesOtherValues) {
  Net net;
  Tensor x = tensor({1.0, 2.0});
  net.trace("both", {x});
  Any result = net.run_method("both", {x});
  EXPECT_EQ(result.ToList()[0].ToTensor().to_vector<float>(), (Floats{2, 3}));
  EXPECT_EQ(result.ToList()[1].ToList()[1].ToTensor().to_vector<float>(), (Floats{2, 4}));
  net.trace("scaled", {x, 5.0});
  EXPECT_EQ(net.run_method("scaled", {x, 5}).ToTensor().to_vector<float>(), (Floats{5, 10}));
  EXPECT_ERROR(net.run_method("scaled", {x}), ValueError,
               "scaled: its graph was made for other values than these");
}

TEST(Module, FreeDimsServeEverySize) {
  Net net;
  net.trace("forward", {ones({2, 3})}, {.free_dims = {{"x", 0}}});
  EXPECT_EQ(ToText(*net.graph_body("forward").graph).substr(0, 10), "graph(n=2)");
  for (int64_t n : {1, 2, 5, 7}) {
    EXPECT_EQ(net(ones({n, 3})).to_vector<float>(), Floats(static_cast<size_t>(n), 6.0f)) << n;
  }
  EXPECT_ERROR(net(ones({2, 4})), ValueError,
               "forward: input 0 of its graph is f32[n,3], the one given is f32[2,4]");
}

TEST(Module, FreeDimsOfTwoNamesAndRefusals) {
  Module module("Pair");
  module.define("outer(Tensor a, Tensor b) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(args[0].ToTensor().unsqueeze(1) * args[1].ToTensor().unsqueeze(0));
  });
  module.define("by_size(Tensor a) -> Tensor", [](Module&, const std::vector<Any>& args) {
    Tensor a = args[0].ToTensor();
    return Any(a.size(0) > 3 ? a + 1.0 : a * 2.0);
  });
  EXPECT_ERROR(module.trace("by_size", {ones({2})}, {.free_dims = {{"a", 0}}}), ValueError,
               "by_size records other ops at other sizes");
  EXPECT_ERROR(module.trace("by_size", {ones({1})}, {.free_dims = {{"a", 0}}}), ValueError,
               "dim 0 of 'a' has size 1");
  EXPECT_ERROR(module.trace("by_size", {ones({2})}, {.free_dims = {{"z", 0}}}), ValueError,
               "by_size has no tensor argument 'z'");
  module.trace("outer", {ones({2}), ones({3})},
               {.free_dims = {{"a", 0, "rows"}, {"b", 0, "columns"}}});
  EXPECT_EQ(module.run_method("outer", {ones({4}), ones({5})}).ToTensor().sizes(), (Dims{4, 5}));
  EXPECT_EQ(module.graph_body("outer").graph->dim_params[0].name, "rows");
  EXPECT_EQ(module.graph_body("outer").graph->dim_params[1].name, "columns");
}

TEST(Module, RandomMethodsDrawAnewAtEachCall) {
  Module module("Noise");
  module.define("forward(Tensor x) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(args[0].ToTensor() + rand({3}));
  });
  module.trace("forward", {zeros({3})});
  manual_seed(1);
  Floats first = module(zeros({3})).to_vector<float>();
  EXPECT_NE(module(zeros({3})).to_vector<float>(), first);
  manual_seed(1);
  EXPECT_EQ(module(zeros({3})).to_vector<float>(), first);
}

TEST(Module, IsMadeFromGraphText) {
  Module module("Text");
  module.register_parameter("w", tensor({10.0, 20.0}));
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = mul %0, %1 : f32[2]
    return %2, %0)");
  module.define("forward(Tensor x) -> (Tensor, Tensor)", graph, {"w"});
  Any result = module.run_method("forward", {tensor({1.0, 2.0})});
  EXPECT_EQ(result.ToList()[0].ToTensor().to_vector<float>(), (Floats{10, 40}));
  EXPECT_ERROR(module.define("f(Tensor x) -> Tensor", graph, {"w"}), ValueError,
               "f: its schema has 1 tensors, its graph 2");
  EXPECT_ERROR(module.define("f(int x) -> Tensor", graph, {"w"}), ValueError,
               "a method that is given as a graph has tensors only, not int");
  EXPECT_ERROR(module.define("f(Tensor x) -> Tensor[]", graph, {"nothing"}), ValueError,
               "no parameter or buffer 'nothing'");
}

TEST(Module, RunsOnEveryDevice) {
  for (const char* device : {"cpu", "reference"}) {
    Net net;
    Tensor weight = net.first->weight;
    net.to(Device(device));
    EXPECT_EQ(weight.device(), Device(device)) << "handles stay valid";
    Tensor x = ones({2, 3}).to(Device(device));
    EXPECT_EQ(net(x).to_vector<float>(), (Floats{6, 6})) << device;
    net.trace("forward", {x});
    EXPECT_EQ(net(x).to_vector<float>(), (Floats{6, 6})) << device;
  }
}

TEST(Module, CastsFloatsOnly) {
  Module module("Mixed");
  module.register_parameter("f", ones({2}));
  module.register_buffer("i", tensor({1, 2}));
  module.to(DType::kF64);
  EXPECT_EQ(module.get_tensor("f").dtype(), DType::kF64);
  EXPECT_TRUE(module.get_tensor("f").requires_grad());
  EXPECT_EQ(module.get_tensor("i").dtype(), DType::kI64);
}

TEST(Module, LoadsStateByName) {
  Net net, other;
  {
    NoGradGuard no_grad;
    other.first->weight *= 3.0;
  }
  net.load_state_dict(other.state_dict());
  EXPECT_EQ(net.first->weight.to_vector<float>(), Floats(6, 3.0f));
  EXPECT_ERROR(net.load_state_dict({{"first.wieght", ones({1})}}), ValueError,
               "Net: the state does not fit:\n"
               "  missing: calls f32[1]\n  missing: first.bias f32[2]\n"
               "  missing: first.weight f32[3,2]");
  EXPECT_ERROR(net.load_state_dict({{"first.wieght", ones({1})}}), ValueError,
               "unexpected: first.wieght f32[1]");
  EXPECT_ERROR(net.load_state_dict({{"calls", ones({2})}}, false), ValueError,
               "calls is f32[2], expected f32[1]");
}

TEST(Module, ClonesStandAlone) {
  Net net;
  Tensor x = ones({1, 3});
  net.trace("forward", {x});
  ModulePtr copy = net.clone();
  {
    NoGradGuard no_grad;
    net.second->bias += 100.0;
  }
  EXPECT_EQ((*copy)(x).item<float>(), 6);
  EXPECT_EQ(net(x).item<float>(), 106);
  EXPECT_ERROR(copy->run_method("scaled", {x}), ValueError,
               "is a member function of a C++ class of which this module is no object; copy a "
               "module by the function clone(module)");
}

TEST(Module, TrainsEvaluatesAndVisits) {
  Net net;
  net.eval();
  EXPECT_FALSE(net.second->is_training());
  net.train();
  EXPECT_TRUE(net.second->is_training());
  std::string seen;
  net.apply([&](Module& module) { seen += module.name() + " "; });
  EXPECT_EQ(seen, "first second top ");
}

TEST(Trace, RefusesReadsAndLeaks) {
  Module module("Bad");
  Tensor kept;
  module.define("read(Tensor x) -> float", [](Module&, const std::vector<Any>& args) {
    return Any(args[0].ToTensor().sum().item<double>());
  });
  module.define("leak(Tensor x) -> Tensor", [&](Module&, const std::vector<Any>& args) {
    kept = args[0].ToTensor() + 1.0;
    return Any(kept * 2.0);
  });
  EXPECT_ERROR(module.trace("read", {ones({2})}), ValueError, "is read");
  EXPECT_ERROR(module.trace("leak", {ones({2})}), ValueError,
               "is kept in a tensor outside of the function");
}

}  // namespace
}  // namespace hammock
