// Lowering parts: submodules by path, and regions op by op.

#include <gtest/gtest.h>
#include <unistd.h>

#include "hammock/jit/to_backend.h"
#include "ir/expect_error.h"
#include "jit/toy_delegate.h"

namespace hammock::jit {
namespace {

using Floats = std::vector<float>;

std::string TempFile(const std::string& name) {
  return ::testing::TempDir() + std::to_string(getpid()) + "_" + name;
}

ModulePtr Scale(double by) {
  auto module = std::make_shared<Module>("Scale");
  module->register_parameter("by", full({2}, by));
  module->define("forward(Tensor x) -> Tensor", [](Module& self, const std::vector<Any>& args) {
    return Any(args[0].ToTensor() * self.get_tensor("by"));
  });
  module->trace("forward", {ones({2})});
  return module;
}

/// (x * 2) * 3, by two submodules of one class; `pair.second` is one level deeper.
ModulePtr Chain() {
  auto pair = std::make_shared<Module>("Pair");
  pair->register_module("second", Scale(3));
  auto chain = std::make_shared<Module>("Chain");
  chain->register_module("first", Scale(2));
  chain->register_module("pair", pair);
  chain->define("forward(Tensor x) -> Tensor", [](Module& self, const std::vector<Any>& args) {
    Tensor y = (*self.get_submodule("first"))(args[0].ToTensor());
    return Any((*self.get_submodule("pair.second"))(y));
  });
  return chain;
}

ModulePtr LowerToToy(Module& module) { return to_backend("toy", module, {{"forward", AnyDict()}}); }

class Selective : public ::testing::Test {
 protected:
  void SetUp() override {
    toy_available = true;
    call_log.Take();
  }
  Tensor x_ = tensor({1.0, 2.0});
};

TEST_F(Selective, LowersSubmodulesByPath) {
  ModulePtr chain = Chain();
  ModulePtr lowered = to_backend_selective(*chain, LowerToToy, {"first", "pair.second"});
  call_log.Take();
  EXPECT_EQ((*lowered)(x_).to_vector<float>(), (Floats{6, 12}));
  EXPECT_EQ(call_log.Take(), (std::vector<std::string>{"execute", "execute"}));
  EXPECT_EQ((*chain)(x_).to_vector<float>(), (Floats{6, 12}));
  EXPECT_EQ(call_log.Take(), std::vector<std::string>()) << "the original is left alone";
}

TEST_F(Selective, ModulesOfOneClassDoNotShareATypeSoEachIsLoweredByItself) {
  ModulePtr lowered = to_backend_selective(*Chain(), LowerToToy, {"first"});
  call_log.Take();
  EXPECT_EQ((*lowered)(x_).to_vector<float>(), (Floats{6, 12}));
  EXPECT_EQ(call_log.Take(), std::vector<std::string>{"execute"});
}

TEST_F(Selective, RefusesPathsThatAreNoModules) {
  EXPECT_ERROR(to_backend_selective(*Chain(), LowerToToy, {"first", "third"}), ValueError,
               "Attribute named third is not a Module");
  EXPECT_ERROR(to_backend_selective(*Chain(), LowerToToy, {"first.by"}), ValueError,
               "Attribute named first.by is not a Module");
  EXPECT_EQ(call_log.Take(), std::vector<std::string>()) << "before anything is lowered";
}

TEST_F(Selective, RefusesGraphsThatHaveTheSubmoduleInThem) {
  ModulePtr chain = Chain();
  chain->trace("forward", {x_});
  EXPECT_ERROR(to_backend_selective(*chain, LowerToToy, {"pair.second"}), ValueError,
               "method 'forward' of Chain is a graph that has the ops of 'pair.second' in it");
}

TEST_F(Selective, TracesKeepCallsOfLoweredModulesAndSaveThem) {
  ModulePtr lowered = to_backend_selective(*Chain(), LowerToToy, {"pair.second"});
  lowered->trace("forward", {x_});
  EXPECT_TRUE(Contains(ToText(*lowered->graph_body("forward").graph), "module_call"));
  std::string path = TempFile("selective.hmk");
  save_module(*lowered, path);
  ModulePtr again = load_module(path);
  call_log.Take();
  EXPECT_EQ((*again)(x_).to_vector<float>(), (Floats{6, 12}));
  EXPECT_EQ(call_log.Take(), std::vector<std::string>{"execute"});
}

TEST_F(Selective, AModuleWithALoweredOneInsideCanBeLoweredItself) {
  ModulePtr inner = to_backend_selective(*Chain(), LowerToToy, {"pair.second"});
  inner->trace("forward", {x_});
  ModulePtr outer = to_backend("hammock", *inner, {{"forward", AnyDict()}});
  EXPECT_EQ((*outer)(x_).to_vector<float>(), (Floats{6, 12}));
  call_log.Take();
  EXPECT_EQ((*inner)(x_).to_vector<float>(), (Floats{6, 12}));
  EXPECT_EQ(call_log.Take(), std::vector<std::string>{"execute"});
}

/// Layers that C++ code calls through handles.
struct Net : nn::UnaryModule {
  Net() : UnaryModule("Net") {}
  nn::Linear hidden = register_module("hidden", nn::Linear(2, 3));
  nn::Sequential rest = register_module("rest", nn::Sequential(nn::ReLU(), nn::Linear(3, 2)));
  Tensor forward(const Tensor& x) override { return rest(hidden(x)); }
};

std::atomic<int> recorded_calls{0};

/// Counts calls and passes them on.
struct Counting : BackendInterface {
  bool is_available() override { return true; }
  AnyDict compile(Any, AnyDict spec) override { return spec; }
  AnyList execute(Any, AnyList inputs) override {
    ++recorded_calls;
    return {inputs[0].ToTensor().matmul(ones({2, 3}))};
  }
};
const backend<Counting> counting_class("tally");
const bool counting_preprocess = backend_preprocess_register(
    "tally",
    [](const Module&, const AnyDict& spec, const DebugHandleGenerator&) { return Any(spec); });

ModulePtr LowerToCounting(Module& module) {
  return to_backend("tally", module, {{"forward", AnyDict()}},
                    {.examples = {{"forward", {.args = {ones({1, 2})}}}}});
}

TEST_F(Selective, LowersLayersOfModulesWhoseMethodsAreMemberFunctions) {
  Net net;
  Tensor x = ones({1, 2});
  ModulePtr lowered = to_backend_selective(net, LowerToCounting, {"hidden"},
                                           {.examples = {{"forward", {.args = {x}}}}});
  recorded_calls = 0;
  Tensor expected = net.rest(full({1, 3}, 2.0));
  EXPECT_EQ((*lowered)(x).to_vector<float>(), expected.to_vector<float>());
  EXPECT_EQ(recorded_calls, 1);
  net(x).to_vector<float>();
  EXPECT_EQ(recorded_calls, 1) << "the original is left alone";
}

TEST_F(Selective, LowersPartsOfSequential) {
  nn::Sequential net(nn::Linear(2, 3), nn::ReLU());
  Tensor x = ones({1, 2});
  ModulePtr lowered =
      to_backend_selective(*net, LowerToCounting, {"0"}, {.examples = {{"forward", {{x}}}}});
  EXPECT_EQ((*lowered)(x).to_vector<float>(), (Floats{2, 2, 2}));
}

TEST_F(Selective, HandlesCallTheModuleThatReplacedTheirs) {
  Net net;
  Tensor x = ones({1, 2});
  recorded_calls = 0;
  net.replace_submodule("hidden", LowerToCounting(*net.hidden));
  Tensor expected = net.rest(full({1, 3}, 2.0));
  EXPECT_EQ(net.forward(x).to_vector<float>(), expected.to_vector<float>());
  EXPECT_EQ(recorded_calls, 1);
}

/// Calls the layer that it took the place of.
struct Doubled : nn::UnaryModule {
  explicit Doubled(nn::Linear inner) : UnaryModule("Doubled"), inner(std::move(inner)) {}
  nn::Linear inner;
  Tensor forward(const Tensor& x) override { return inner(x) * 2.0; }
};

TEST_F(Selective, AReplacementMayCallWhatItReplaced) {
  Tensor x = ones({1, 2});
  std::weak_ptr<Module> replacement;
  {
    Net net;
    Tensor expected = net.rest(net.hidden(x) * 2.0);
    auto doubled = std::make_shared<Doubled>(net.hidden);
    replacement = doubled;
    net.replace_submodule("hidden", doubled);
    EXPECT_EQ(net.forward(x).to_vector<float>(), expected.to_vector<float>());
  }
  EXPECT_TRUE(replacement.expired()) << "the two hold each other";
}

/// exp cuts the graph: toy runs what is before and behind it.
ModulePtr Mixed() {
  auto module = std::make_shared<Module>("Mixed");
  module->register_parameter("w", tensor({2.0, 4.0}));
  module->define("forward(Tensor x) -> Tensor", [](Module& self, const std::vector<Any>& args) {
    Tensor w = self.get_tensor("w");
    Tensor y = args[0].ToTensor() * w;
    return Any(y.log() * w + y);
  });
  module->trace("forward", {ones({2})});
  return module;
}

TEST_F(Selective, PartitionsOpByOpWithReasonsAndBytes) {
  ModulePtr module = Mixed();
  Floats expected = (*module)(x_).to_vector<float>();
  Partitioned result = partition_to_backend("toy", *module, {{"forward", AnyDict()}});
  call_log.Take();
  EXPECT_EQ((*result.module)(x_).to_vector<float>(), expected);
  EXPECT_EQ(call_log.Take(), (std::vector<std::string>{"execute", "execute"}));
  const PlacementReport& report = result.placements.at(0);
  EXPECT_EQ(report.regions, 2);
  std::string placed;
  for (const NodePlacement& node : report.nodes) {
    placed += node.op + " on " + node.placed_on +
              (node.reason.empty() ? "" : " (" + node.reason + ")") + "; ";
  }
  EXPECT_EQ(placed, "mul on toy; log on hammock (toy has no log); mul on toy; add on toy; ");
  int64_t bytes = 0;
  for (const BoundaryCopy& copy : report.copies) bytes += copy.bytes;
  EXPECT_GT(bytes, 0);
  EXPECT_TRUE(Contains(report.ToText(), "forward: 2 regions lowered\n  mul on toy at "));
  EXPECT_TRUE(Contains(report.ToText(), "f32[2] from toy to hammock: 8 bytes"));
}

TEST_F(Selective, PartitionsAreSaved) {
  Partitioned result = partition_to_backend("toy", *Mixed(), {{"forward", AnyDict()}});
  std::string path = TempFile("partitioned.hmk");
  save_module(*result.module, path);
  ModulePtr again = load_module(path);
  call_log.Take();
  EXPECT_EQ((*again)(x_).to_vector<float>(), (*Mixed())(x_).to_vector<float>());
  EXPECT_EQ(call_log.Take(), (std::vector<std::string>{"execute", "execute"}));
}

TEST_F(Selective, PartitionsKeepFreeDims) {
  auto make = [] {
    auto module = std::make_shared<Module>("Rows");
    module->register_parameter("w", tensor({2.0, 4.0}));
    module->define("forward(Tensor x, Tensor y) -> Tensor",
                   [](Module& self, const std::vector<Any>& args) {
                     Tensor z = cat({args[0].ToTensor(), args[1].ToTensor()}, 0);
                     return Any((z * self.get_tensor("w")).log() * z);
                   });
    TraceOptions options;
    options.free_dims = {{"x", 0, "n"}, {"y", 0, "m"}};
    module->trace("forward", {ones({3, 2}), ones({2, 2})}, options);
    return module;
  };
  Partitioned result = partition_to_backend("toy", *make(), {{"forward", AnyDict()}});
  EXPECT_EQ(result.placements[0].regions, 2);
  std::string path = TempFile("partitioned_rows.hmk");
  save_module(*result.module, path);
  for (const ModulePtr& partitioned : {result.module, load_module(path)}) {
    for (auto [n, m] : {std::pair(3, 2), std::pair(1, 1), std::pair(7, 20)}) {
      Tensor x = rand({n, 2}) + 1, y = rand({m, 2}) + 1;
      call_log.Take();
      Floats got = partitioned->run_method("forward", {x, y}).ToTensor().to_vector<float>();
      EXPECT_EQ(call_log.Take(), (std::vector<std::string>{"execute", "execute"}));
      EXPECT_EQ(got, make()->run_method("forward", {x, y}).ToTensor().to_vector<float>());
    }
    EXPECT_ERROR(partitioned->run_method("forward", {ones({3, 3}), ones({2, 3})}), ValueError,
                 "is f32[n,2], the one given is f32[3,3]");
  }
}

TEST_F(Selective, PartitionsOfWhatRunsWholeOrNotAtAll) {
  Partitioned whole = partition_to_backend("toy", *Scale(5), {{"forward", AnyDict()}});
  EXPECT_EQ(whole.placements[0].regions, 1);
  EXPECT_EQ((*whole.module)(x_).to_vector<float>(), (Floats{5, 10}));
  Module none("None");
  none.define("forward(Tensor x) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(args[0].ToTensor().exp().log());
  });
  none.trace("forward", {ones({2})});
  Partitioned nothing = partition_to_backend("toy", none, {{"forward", AnyDict()}});
  EXPECT_EQ(nothing.placements[0].regions, 0);
  EXPECT_NEAR((*nothing.module)(x_).to_vector<float>()[1], 2, 1e-6);
  EXPECT_ERROR(partition_to_backend("toy_twin", none, {{"forward", AnyDict()}}), ValueError,
               "Capability function for backend toy_twin is not registered.");
}

}  // namespace
}  // namespace hammock::jit
