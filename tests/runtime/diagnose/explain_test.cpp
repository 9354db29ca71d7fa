#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "backends/reference/reference_backend.h"
#include "base/option_registry.h"
#include "hammock/hammock.h"
#include "ir/primitives.h"
#include "runtime/devices/code_settings.h"
#include "runtime/step/executor.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

// ---- A cache of made-up graphs

struct Explainer {
  Explainer() : device(MakeDevice(0)), other_device(MakeDevice(1)) {}

  static std::unique_ptr<DeviceEntry> MakeDevice(DeviceId id) {
    lazy::BackendImplInterface* backend = ReferenceBackend();
    return std::make_unique<DeviceEntry>(id, id == 0 ? "one" : "two", backend,
                                         backend->GetBackendDevice(-1));
  }

  CompiledStepPtr Add(const Graph& graph, DeviceEntry* on = nullptr) {
    auto step = std::make_shared<CompiledStep>();
    step->device = on ? on : device.get();
    step->traced = graph;
    step->hash = Combine(graph.hash(), step->device->id);
    step->key = {uint64_t{step->device->id} << 32 | CodeSettingsId(), ++added};
    return executor.cache.Add(step);
  }

  CompileMiss Explain(const Graph& graph) {
    return ExplainMiss(executor, *device, Combine(graph.hash(), 99), graph);
  }

  std::unique_ptr<DeviceEntry> device, other_device;
  StepExecutor executor;
  uint64_t added = 0;
};

// ---- Random graphs

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int operator()(int end) { return static_cast<int>(engine_() % static_cast<uint64_t>(end)); }

 private:
  std::mt19937_64 engine_;
};

const OpDef* const kUnary[] = {&ops::kExp, &ops::kNeg, &ops::kAbs, &ops::kTanh};
const OpDef* const kBinary[] = {&ops::kAdd, &ops::kSub, &ops::kMul, &ops::kMaximum};

LocationId Line(const char* file, NodeId id) {
  return InternLocationText(file + std::string(":") + std::to_string(100 + id.number()));
}

/// Chains of f32[4,5] with reductions that keep their dims, so that all values go together.
Graph RandomGraph(Random& random) {
  Graph graph;
  int inputs = 2 + random(3);
  for (int i = 0; i < inputs; ++i) graph.AddInput(Shape(DType::kF32, {4, 5}));
  int size = 6 + random(40);
  auto any = [&] { return GraphValue{NodeId(random(graph.size())), 0}; };
  for (int i = 0; i < size; ++i) {
    switch (random(4)) {
      case 0:
        graph.AddNode(*kUnary[random(4)], {any()});
        break;
      case 1:
        graph.AddNode(ops::kReduceSum, {any()}, {Attr(Dims{random(2)}), true});
        break;
      default:
        graph.AddNode(*kBinary[random(4)], {any(), any()});
    }
  }
  graph.AddOutput({NodeId(graph.size() - 1), 0});
  return graph;
}

void SetLines(Graph& graph, const char* file) {
  for (NodeId id : graph.ids()) graph.mutable_node(id).location = Line(file, id);
}

template <class Wanted>
NodeId Pick(const Graph& graph, Random& random, Wanted wanted) {
  std::vector<NodeId> nodes;
  for (NodeId id : graph.ids()) {
    if (wanted(graph[id])) nodes.push_back(id);
  }
  return nodes.empty() ? NodeId() : nodes[random(static_cast<int>(nodes.size()))];
}

bool IsInput(const GraphNode& node) { return node.op == &ops::kInput; }

/// Changes one thing; returns the node, or none where the graph has nothing of the kind.
NodeId Mutate(Graph& graph, const std::string& kind, Random& random) {
  if (kind == "op") {
    NodeId id = Pick(graph, random,
                     [](const GraphNode& node) { return node.attrs.empty() && !IsInput(node); });
    if (!id) return NodeId();
    GraphNode& node = graph.mutable_node(id);
    const OpDef* const* table = node.inputs.size() == 1 ? kUnary : kBinary;
    const OpDef* old = node.op;
    while (node.op == old) node.op = table[random(4)];
    return id;
  }
  if (kind == "attribute") {
    NodeId id = Pick(graph, random, [](const GraphNode& node) { return !node.attrs.empty(); });
    if (!id) return NodeId();
    GraphNode& node = graph.mutable_node(id);
    if (random(2)) {
      node.attrs.Set(0, Attr(Dims{1 - node.attrs[0].ints()[0]}));
    } else {
      node.attrs.Set(1, Attr(!node.attrs[1].boolean()));
    }
    return id;
  }
  if (kind == "shape" || kind == "dtype") {
    NodeId id = Pick(graph, random, [](const GraphNode&) { return true; });
    SharedList<Shape>& types = graph.mutable_node(id).types;
    if (kind == "dtype") {
      types.Set(0, types[0].With(random(2) ? DType::kF64 : DType::kI32));
    } else {
      Dims sizes = types[0].sizes();
      sizes[random(sizes.size())] += 1 + random(7);
      types.Set(0, types[0].With(sizes));
    }
    return id;
  }
  if (kind == "operand") {
    NodeId id = Pick(graph, random, [](const GraphNode& node) { return !node.inputs.empty(); });
    if (id < NodeId(2)) return NodeId();
    const int which = random(static_cast<int>(graph[id].inputs.size()));
    SharedList<GraphValue>& inputs = graph.mutable_node(id).inputs;
    const GraphValue old = inputs[which];
    while (inputs[which] == old) inputs.Set(which, {NodeId(random(id.number())), 0});
    return id;
  }
  // A live output.
  NodeId id = Pick(graph, random, [](const GraphNode& node) { return !IsInput(node); });
  std::vector<GraphValue> outputs = graph.outputs();
  if (id == outputs.back().node) return NodeId();
  outputs.insert(outputs.begin(), {id, 0});
  graph.SetOutputs(outputs);
  return id;
}

TEST(ExplainMiss, NamesTheMutatedFieldInEveryGeneratedGraph) {
  const std::string kinds[] = {"op",      "attribute",   "shape", "dtype",
                               "operand", "live output", "device"};
  int explained = 0;
  for (uint64_t seed = 0; explained < 210; ++seed) {
    Random random(seed);
    Explainer explainer;
    Graph cached = RandomGraph(random);
    SetLines(cached, "cached.cpp");
    Graph now = cached;
    SetLines(now, "now.cpp");
    const std::string& kind = kinds[explained % 7];
    NodeId node = kind == "device" ? NodeId(0) : Mutate(now, kind, random);
    if (!node) continue;
    bool swapped = kind == "live output" && random(2);
    if (swapped) std::swap(now, cached);
    for (int i = 0; i < 8; ++i) explainer.Add(RandomGraph(random));
    DeviceEntry* on = kind == "device" ? explainer.other_device.get() : nullptr;
    Hash128 nearest = explainer.Add(cached, on)->hash;
    for (int i = 0; i < 8; ++i) explainer.Add(RandomGraph(random));

    CompileMiss miss = explainer.Explain(now);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + kind + ": " + miss.detail + "\n" +
                 ToText(now) + "\n" + ToText(cached));
    ASSERT_EQ(miss.kind, kind);
    ASSERT_EQ(miss.nearest, ToString(nearest));
    ++explained;
    if (kind == "device") {
      ASSERT_NE(miss.detail.find("cached for two:0, not for one:0"), std::string::npos);
      continue;
    }
    std::string line = std::to_string(100 + node.number());
    ASSERT_NE(miss.detail.find("%" + std::to_string(node.number()) + " = "), std::string::npos);
    ASSERT_NE(miss.detail.find("now.cpp:" + line), std::string::npos);
    ASSERT_NE(miss.detail.find("cached.cpp:" + line), std::string::npos);
    if (kind == "attribute") {
      const GraphNode &a = now[node], &b = cached[node];
      size_t at = a.attrs[0] == b.attrs[0] ? 1 : 0;
      ASSERT_NE(miss.detail.find(at ? "`keepdim`" : "`dims`"), std::string::npos);
      ASSERT_NE(miss.detail.find("is " + a.attrs[at].to_string()), std::string::npos);
      ASSERT_NE(miss.detail.find("graph " + b.attrs[at].to_string()), std::string::npos);
    }
  }
}

Graph Small(const OpDef& op = ops::kExp) {
  Graph graph;
  GraphValue x = graph.AddInput(Shape(DType::kF32, {4}));
  graph.AddOutput({graph.AddNode(op, {x}), 0});
  return graph;
}

TEST(ExplainMiss, SaysThatNothingIsCached) {
  Explainer explainer;
  CompileMiss miss = explainer.Explain(Small());
  EXPECT_EQ(miss.kind, "first graph");
  EXPECT_EQ(miss.nearest, "");
  EXPECT_EQ(miss.nodes, 2);
  EXPECT_EQ(miss.outputs, 1);
}

TEST(ExplainMiss, SaysThatAnEntryWasEvicted) {
  config::Override one("compilation_cache_size", "1");
  Explainer explainer;
  Hash128 hash = explainer.Add(Small())->hash;
  explainer.Add(Small(ops::kNeg));
  CompileMiss miss = ExplainMiss(explainer.executor, *explainer.device, hash, Small());
  EXPECT_EQ(miss.kind, "evicted");
  EXPECT_NE(miss.detail.find("holds 1 entries"), std::string::npos) << miss.detail;
}

/// A valid value that an option does not have; a text without choices may be a number.
std::string OtherValue(const config::detail::AnyOption& option, const std::string& value) {
  if (option.type == config::Type::kBool) return value == "true" ? "false" : "true";
  if (option.type == config::Type::kInt) return std::to_string(std::stoll(value) + 1);
  if (option.choices.empty()) return value + "2";
  const std::string first(option.choices.substr(0, option.choices.find(", ")));
  return value != first ? first : std::string(option.choices.substr(option.choices.rfind(' ') + 1));
}

TEST(ExplainMiss, SaysThatAnyCodeOptionChanged) {
  Explainer explainer;
  explainer.Add(Small());
  const std::vector<config::CodeOption> options = config::CodeOptions();
  EXPECT_GE(options.size(), 10u);
  for (const config::CodeOption& option : options) {
    SCOPED_TRACE(option.name);
    const std::string other = OtherValue(config::GetOption(option.name), option.value);
    config::Override changed(option.name, other);
    CompileMiss miss = explainer.Explain(Small());
    EXPECT_EQ(miss.kind, "config");
    std::string expected =
        std::string(option.name) + " was `" + option.value + "` and is `" + other + "`";
    EXPECT_NE(miss.detail.find(expected), std::string::npos) << miss.detail;
  }
}

TEST(ExplainMiss, SaysThatNoDifferenceWasFound) {
  Explainer explainer;
  explainer.Add(Small());
  EXPECT_EQ(explainer.Explain(Small()).kind, "unknown");
}

TEST(ExplainMiss, PrefersTheSameGraphElsewhereToAnotherGraphHere) {
  Explainer explainer;
  explainer.Add(Small(), explainer.other_device.get());
  explainer.Add(Small(ops::kNeg));
  EXPECT_EQ(explainer.Explain(Small()).kind, "device");
}

TEST(ExplainMiss, StaysCheapForBigGraphs) {
  Explainer explainer;
  Graph big;
  GraphValue x = big.AddInput(Shape(DType::kF32, {4}));
  for (int i = 0; i < 30000; ++i) x = {big.AddNode(ops::kNeg, {x}), 0};
  big.AddOutput(x);
  auto step = explainer.Add(big);
  for (int i = 0; i < 63; ++i) {
    big.mutable_node(NodeId(1 + i)).op = &ops::kExp;
    if (i < 20) explainer.Add(big);
  }
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(explainer.Explain(big).kind, "op");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// ---- Through the runtime

CompileMiss LastMiss() { return LazyGraphExecutor::Get()->GetMisses().back(); }

class ExplainedProgram : public ::testing::Test {
 protected:
  void SetUp() override { LazyGraphExecutor::Get()->ClearComputationCache(); }
  Tensor x = tensor({1.0, 2.0, 3.0}, std::nullopt, "reference");
};

TEST_F(ExplainedProgram, NamesTheLiveHandle) {
  auto run = [&](bool keep) {
    Tensor kept;
    Tensor y;
    {
      Tensor squared = x * x;
      y = squared + x;
      if (keep) kept = squared;
    }
    mark_step();
    return kept;
  };
  run(false);
  size_t misses = LazyGraphExecutor::Get()->GetMisses().size();
  run(false);
  ASSERT_EQ(LazyGraphExecutor::Get()->GetMisses().size(), misses);
  run(true);
  CompileMiss miss = LastMiss();
  EXPECT_EQ(miss.kind, "live output") << miss.ToText();
  EXPECT_EQ(miss.trigger, "mark_step");
  EXPECT_NE(miss.where.find("explain_test.cpp:"), std::string::npos);
  EXPECT_NE(miss.detail.find("= mul (at explain_test.cpp:"), std::string::npos);
  EXPECT_NE(miss.detail.find("a live handle or a pending op keeps it now"), std::string::npos);
}

TEST_F(ExplainedProgram, NamesTheLineThatPrints) {
  Tensor y = tensor({1.0, 2.0, 3.0}, f32, "reference") * 1.25f;
  std::ostringstream text;
  text << y;
  std::string line = "explain_test.cpp:" + std::to_string(__LINE__ - 1);
  EXPECT_EQ(LastMiss().where, line);
  EXPECT_EQ(text.str(), "[1.2500, 2.5000, 3.7500] : f32[3]");
}

TEST_F(ExplainedProgram, NamesTheBatchSize) {
  for (int64_t size : {4, 8}) {
    Tensor y = zeros({size}, DType::kF32, "reference") + 1.0;
    y.host();
  }
  CompileMiss miss = LastMiss();
  EXPECT_EQ(miss.trigger, "read");
  EXPECT_TRUE(miss.kind == "attribute" || miss.kind == "shape") << miss.ToText();
  EXPECT_NE(miss.detail.find('8'), std::string::npos);
}

TEST_F(ExplainedProgram, TellsTheFirstStepFromTheOthers) {
  Tensor w = rand({4}, DType::kF32, "reference");
  for (int i = 0; i < 3; ++i) step([&] { w = (w * 0.5).exp() + 1.0; });
  CompileMiss miss = LastMiss();
  EXPECT_EQ(miss.kind, "first step") << miss.ToText();
  EXPECT_NE(miss.detail.find("compiled at explain_test.cpp:"), std::string::npos) << miss.detail;
}

TEST_F(ExplainedProgram, FindsNothingToMendInATrainingLoop) {
  const size_t before = LazyGraphExecutor::Get()->GetMisses().size();
  nn::Sequential net(nn::Linear(4, 3), nn::ReLU(), nn::Linear(3, 1));
  optim::AdamW optimizer(net->parameters(), {});
  for (int i = 0; i < 4; ++i) {
    step([&] {
      optimizer.zero_grad();
      net(ones({2, 4})).square().mean().backward();
      optimizer.step();
    });
  }
  std::vector<CompileMiss> misses = LazyGraphExecutor::Get()->GetMisses();
  ASSERT_GE(misses.size(), before + 2);
  for (size_t i = before; i < misses.size(); ++i) {
    bool is_needed = misses[i].kind == "first graph" || misses[i].kind == "first step";
    EXPECT_TRUE(is_needed) << misses[i].ToText();
  }
}

TEST_F(ExplainedProgram, TellsOtherOptionsFromAFirstStep) {
  Tensor w = rand({4}, DType::kF32, "reference");
  auto sum = [&] { return (w * 2.0 + 1.0).sum().item<float>(); };
  sum();  // makes w, too
  sum();
  config::Override changed("wide_sums", config::GetText("wide_sums") == "true" ? "false" : "true");
  sum();
  EXPECT_EQ(LastMiss().kind, "config") << LastMiss().ToText();
}

TEST_F(ExplainedProgram, ComparesNothingThatIsUnlike) {
  Tensor w = rand({4, 4}, DType::kF32, "reference");
  for (int i = 0; i < 20; ++i) w = matmul(w, w).tanh() + 1.0;
  w.host();
  arange(3, i64, "reference").host();
  EXPECT_EQ(LastMiss().kind, "first graph") << LastMiss().ToText();
}

TEST_F(ExplainedProgram, ForbiddenRecompilesCarryTheExplanation) {
  (x + x).host();
  ExpectNoRecompile guard("steady state");
  (x + x).host();
  EXPECT_THROW_MESSAGE((x * x).host(), CompileError, "why: op: %1 = mul");
  EXPECT_THROW_MESSAGE((x * x).host(), CompileError, "steady state");
}

TEST(CompileMiss, PrintsAllThatIsKnown) {
  CompileMiss miss;
  miss.number = 7;
  miss.hash = {1, 2};
  miss.device = "cpu:0";
  miss.trigger = "mark_step";
  miss.where = "train.cpp:41";
  miss.nodes = 12;
  miss.outputs = 1;
  miss.outputs_kept = 1;
  miss.kind = "op";
  miss.nearest = "abc";
  miss.detail = "this \"differs\"";
  EXPECT_EQ(miss.ToText(),
            "compile 7 on cpu:0: 12 nodes, 1 output (1 only because a live handle or a pending op "
            "keeps it), hash 00000000000000020000000000000001\n"
            "  triggered by mark_step at train.cpp:41\n"
            "  why: op: this \"differs\"\n"
            "  nearest cached graph: abc");
  auto json = nlohmann::json::parse(miss.ToJson());
  EXPECT_EQ(json["number"], 7);
  EXPECT_EQ(json["hash"], "00000000000000020000000000000001");
  EXPECT_EQ(json["device"], "cpu:0");
  EXPECT_EQ(json["trigger"], "mark_step");
  EXPECT_EQ(json["where"], "train.cpp:41");
  EXPECT_EQ(json["nodes"], 12);
  EXPECT_EQ(json["outputs"], 1);
  EXPECT_EQ(json["outputs_kept"], 1);
  EXPECT_EQ(json["kind"], "op");
  EXPECT_EQ(json["nearest"], "abc");
  EXPECT_EQ(json["detail"], "this \"differs\"");
}

}  // namespace
}  // namespace hammock
