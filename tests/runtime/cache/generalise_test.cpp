// Generalised entries: one compilation for all sizes, found by skeleton, checked size by size.

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "compiler/sizes/generalise.h"
#include "hammock/config.h"
#include "ir/graph_sizes.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

int64_t Entries() { return CounterOf("GeneralisedEntries"); }
int64_t GeneralHits() { return CounterOf("GeneralisedHits"); }

Tensor Random(const Dims& sizes, uint64_t seed, const Device& device = "reference") {
  std::mt19937_64 random(seed);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = static_cast<float>(random() % 64) / 16 - 2;
  return tensor(values, sizes, f32, device);
}

// ---- The rule

/// The rule that fits graphs of these texts, which serve as traced and as lowered ones.
FoundRule RuleOf(const std::vector<std::string>& texts) {
  std::vector<SizeSample> samples;
  std::vector<SizeSlot> slots;
  for (const std::string& text : texts) {
    Graph graph = ParseGraph(text);
    Skeleton skeleton = SkeletonOf(graph);
    samples.push_back({skeleton.sizes, skeleton.sizes});
    slots = SizeSlotsOf(graph);
  }
  return FindRule(samples, slots, slots);
}

std::string Generalised(const std::vector<std::string>& texts) {
  FoundRule found = RuleOf(texts);
  if (!found.rule) return "none";
  Graph graph = ParseGraph(texts.back());
  auto parameters = found.rule->ParametersOf(SkeletonOf(graph).sizes);
  if (!parameters) return "does not hold";
  graph = WithDimParams(graph, found.rule->lowered, *parameters);
  Verify(graph);
  EXPECT_EQ(ParseGraph(ToText(graph)), graph) << ToText(graph);
  EXPECT_EQ(DeserializeGraph(Serialize(graph)), graph);
  return ToText(graph);
}

std::string Reshape(int64_t n, int64_t m) {
  std::string rows = std::to_string(n), columns = std::to_string(m);
  std::string all = std::to_string(n * m);
  return "%0 = input : f32[" + rows + "," + columns + "]\n%1 = reshape %0 {sizes=[" + all +
         "]} : f32[" + all + "]\nreturn %1\n";
}

TEST(SizeRule, SizesThatDifferBecomeExpressions) {
  EXPECT_EQ(Generalised({Reshape(2, 8), Reshape(3, 8)}),
            "graph(n=3)\n%0 = input : f32[n,8]\n%1 = reshape %0 {sizes=[8*n]} : f32[8*n]\n"
            "return %1\n");
}

TEST(SizeRule, AProductIsASizeOfItsOwn) {
  EXPECT_EQ(Generalised({Reshape(2, 3), Reshape(4, 5), Reshape(7, 11)}),
            "graph(n=7, m=11, k=77)\n%0 = input : f32[n,m]\n"
            "%1 = reshape %0 {sizes=[k]} : f32[k]\nreturn %1\n");
}

TEST(SizeRule, CountsInFloatingPointFollow) {
  auto mean = [](const std::string& n) {
    return "%0 = input : f32[" + n + "]\n%1 = reduce_sum %0 {dims=[0], keepdim=false} : f32[]\n" +
           "%2 = constant {value=" + n + ".0:f32, dtype=f32} : f32[]\n" +
           "%3 = div %1, %2 : f32[]\nreturn %3\n";
  };
  std::string text = Generalised({mean("2"), mean("6")});
  EXPECT_NE(text.find("%2 = constant {value=n:f32, dtype=f32}"), std::string::npos) << text;
}

TEST(SizeRule, CountsMayBeProducts) {
  auto mean = [](int64_t n, int64_t m) {
    std::string type = "f32[" + std::to_string(n) + "," + std::to_string(m) + "]";
    return "%0 = input : " + type + "\n%1 = reduce_sum %0 {dims=[0,1], keepdim=false} : f32[]\n" +
           "%2 = constant {value=" + std::to_string(3 * n * m) + ".0:f32, dtype=f32} : f32[]\n" +
           "%3 = div %1, %2 : f32[]\nreturn %3\n";
  };
  EXPECT_EQ(Generalised({mean(2, 7), mean(5, 11)}),
            "graph(n=5, m=11, k=55)\n%0 = input : f32[n,m]\n"
            "%1 = reduce_sum %0 {dims=[0,1], keepdim=false} : f32[]\n"
            "%2 = constant {value=3*k:f32, dtype=f32} : f32[]\n%3 = div %1, %2 : f32[]\n"
            "return %3\n");
  SizeRule rule = *RuleOf({mean(2, 7), mean(5, 11)}).rule;
  EXPECT_EQ(rule.ParametersOf(SkeletonOf(ParseGraph(mean(4, 9))).sizes),
            (std::vector<int64_t>{4, 9, 36}));
}

TEST(SizeRule, CountsMayBeInverse) {
  auto scaled = [](int64_t n) {
    Graph graph = ParseGraph("%0 = input : f32[" + std::to_string(n) +
                             "]\n%1 = constant {value=0.5:f32, dtype=f32} : f32[]\n%2 = mul %0, "
                             "%1 : f32[" +
                             std::to_string(n) + "]\nreturn %2\n");
    graph.mutable_node(NodeId(1)).attrs.Set(0,
                                            Attr(Scalar(1.0 / static_cast<double>(6 * n)).To(f32)));
    return ToText(graph);
  };
  EXPECT_EQ(Generalised({scaled(10), scaled(1001)}),
            "graph(n=1001)\n%0 = input : f32[n]\n"
            "%1 = constant {value=inverse(6*n):f32, dtype=f32} : f32[]\n%2 = mul %0, %1 : f32[n]\n"
            "return %2\n");
}

/// Every second row.
std::string Halved(int64_t n) {
  std::string all = std::to_string(n), half = std::to_string((n + 1) / 2);
  return "%0 = input : f32[" + all + "]\n%1 = reduce_window %0 {kind=\"max\", window=[1], " +
         "stride=[2], low=[0], high=[0], dilation=[1]} : f32[" + half + "]\nreturn %1\n";
}

TEST(SizeRule, QuotientsFollowFromSizes) {
  SizeRule rule = *RuleOf({Halved(7), Halved(12), Halved(21)}).rule;
  ASSERT_EQ(rule.derived.size(), 2u);
  EXPECT_EQ(FreeSizes(rule.derived, std::vector<int64_t>{31, 16}), std::vector<int64_t>{31});
  EXPECT_EQ(FreeSizes(rule.derived, std::vector<int64_t>{31, 15}), std::nullopt);
  EXPECT_EQ(AllSizes(rule.derived, std::vector<int64_t>{40}), (std::vector<int64_t>{40, 20}));
}

TEST(SizeRule, SizesThatAreDividedWithoutRestAreMultiples) {
  SizeRule rule = *RuleOf({Halved(8), Halved(12)}).rule;
  EXPECT_EQ(FreeSizes(rule.derived, std::vector<int64_t>{30, 15}), std::vector<int64_t>{15});
  EXPECT_EQ(FreeSizes(rule.derived, std::vector<int64_t>{31, 16}), std::nullopt);
}

TEST(SizeRule, NoSizeFollowsFromItself) {
  auto square = [](int64_t n) {
    std::string all = std::to_string(n * n), rows = std::to_string(n);
    return "%0 = input : f32[" + all + "]\n%1 = reshape %0 {sizes=[" + rows + "," + rows +
           "]} : f32[" + rows + "," + rows + "]\nreturn %1\n";
  };
  SizeRule rule = *RuleOf({square(2), square(3)}).rule;
  EXPECT_EQ(AllSizes(rule.derived, std::vector<int64_t>{7}), (std::vector<int64_t>{49, 7}));
}

TEST(SizeRule, AttributesMayBeMultiplesOfLaterOnes) {
  auto filled = [](int64_t n) {
    std::string all = std::to_string(6 * n), rows = std::to_string(n);
    return "%0 = iota {size=" + all + ", dtype=i64} : i64[" + all + "]\n%1 = reshape %0 {sizes=[" +
           rows + ",6]} : i64[" + rows + ",6]\nreturn %1\n";
  };
  SizeRule rule = *RuleOf({filled(2), filled(5)}).rule;
  EXPECT_EQ(AllSizes(rule.derived, std::vector<int64_t>{7}), (std::vector<int64_t>{42, 7}));
}

TEST(SizeRule, InferenceTellsHowQuotientsRound) {
  // Both samples are odd; rounding down without an offset is guessed from neither.
  SizeRule rule = *RuleOf({Halved(7), Halved(13)}).rule;
  Graph at =
      InferredAt(ParseGraph(Halved(13)), rule, AllSizes(rule.derived, std::vector<int64_t>{18}));
  EXPECT_EQ(ToText(at), Halved(18));
}

TEST(SizeRule, BodiesOfLoopsFollow) {
  auto loop = [](const std::string& n, const std::string& count) {
    return "%0 = input : f32[" + n + "]\n%1 = input : f32[" + count + "," + n +
           "]\n%2 = loop %0, %1 {body=graph {\n  %0 = input : i64[]\n  %1 = input : f32[" + n +
           "]\n  %2 = input : f32[" + n + "]\n  %3 = add %1, %2 : f32[" + n +
           "]\n  return %3\n}, count=" + count + ", num_carried=1, num_stacked_in=1} : f32[" + n +
           "]\nreturn %2\n";
  };
  EXPECT_EQ(Generalised({loop("4", "9"), loop("6", "11"), loop("5", "30")}),
            "graph(n=5, m=30)\n%0 = input : f32[n]\n%1 = input : f32[m,n]\n"
            "%2 = loop %0, %1 {body=graph(n=5, m=30) {\n  %0 = input : i64[]\n"
            "  %1 = input : f32[n]\n  %2 = input : f32[n]\n  %3 = add %1, %2 : f32[n]\n"
            "  return %3\n}, count=m, num_carried=1, num_stacked_in=1} : f32[n]\nreturn %2\n");
  SizeRule rule = *RuleOf({loop("4", "9"), loop("6", "11")}).rule;
  Graph general = WithDimParams(ParseGraph(loop("6", "11")), rule.traced,
                                *rule.ParametersOf(SkeletonOf(ParseGraph(loop("6", "11"))).sizes));
  EXPECT_EQ(ToText(AtSizes(general, {8, 3})), loop("8", "3"));
}

TEST(SizeRule, NumbersAloneMakeNoParameter) {
  auto constant = [](const std::string& value) {
    return "%0 = input : f32[3]\n%1 = constant {value=" + value + ":f32, dtype=f32} : f32[]\n" +
           "%2 = mul %0, %1 : f32[3]\nreturn %2\n";
  };
  EXPECT_EQ(Generalised({constant("2.0"), constant("3.0")}), "none");
}

TEST(SizeRule, ComparesEverySize) {
  SizeRule rule = *RuleOf({Reshape(2, 8), Reshape(3, 8)}).rule;
  EXPECT_EQ(rule.ParametersOf(SkeletonOf(ParseGraph(Reshape(9, 8))).sizes),
            std::vector<int64_t>{9});
  EXPECT_EQ(rule.ParametersOf(SkeletonOf(ParseGraph(Reshape(9, 7))).sizes), std::nullopt);
  EXPECT_FALSE(rule.Gives(SkeletonOf(ParseGraph(Reshape(9, 8))).sizes, {8}));
}

TEST(SizeRule, OtherAttributesArePartOfTheSkeleton) {
  auto sum = [](const std::string& dim) {
    return "%0 = input : f32[4,4]\n%1 = reduce_sum %0 {dims=[" + dim +
           "], keepdim=false} : f32[4]\nreturn %1\n";
  };
  EXPECT_NE(SkeletonOf(ParseGraph(sum("0"))).words, SkeletonOf(ParseGraph(sum("1"))).words);
  EXPECT_EQ(SkeletonOf(ParseGraph(Reshape(2, 3))).hash(),
            SkeletonOf(ParseGraph(Reshape(5, 7))).hash());
}

TEST(SizeRule, NumbersThatDifferByMoreThanAnIntegerHoldsAreNoSizes) {
  auto text = [](int64_t rows, int64_t number) {
    std::string n = std::to_string(rows);
    return "%0 = constant {value=" + std::to_string(number) +
           ", dtype=i64} : i64[]\n%1 = input : i64[" + n + "]\n%2 = broadcast %0 {sizes=[" + n +
           "]} : i64[" + n + "]\n%3 = add %1, %2 : i64[" + n + "]\nreturn %3\n";
  };
  EXPECT_EQ(Generalised({text(3, std::numeric_limits<int64_t>::min()), text(5, 1), text(6, 7)}),
            "none");
}

// ---- In the runtime

class Generalise : public Runtime {
 protected:
  void SetUp() override {
    Runtime::SetUp();
    w_ = Random({4, 3}, 1);
    b_ = Random({3}, 2);
  }

  HostTensor Model(int64_t batch) {
    Tensor x = Random({batch, 4}, static_cast<uint64_t>(batch));
    return softmax(matmul(x, w_) + b_ - mean(x, {0}).sum(), 1).host();
  }

  Tensor w_, b_;
};

TEST_F(Generalise, TheThirdSizeNeedsNoCompilation) {
  int64_t compiles = Compiles(), entries = Entries(), hits = GeneralHits();
  for (int64_t batch : {2, 3, 5, 7, 12, 5}) Model(batch);
  EXPECT_EQ(Compiles() - compiles, 2);
  EXPECT_EQ(Entries() - entries, 1);
  EXPECT_EQ(GeneralHits() - hits, 3) << "the second 5 is a hit like others";
  ExpectNoRecompile none;
  Model(9);
  int generalised = 0, executions = 0;
  for (const GraphInfo& graph : Lazy().GetGraphs()) {
    generalised += graph.generalised;
    executions += static_cast<int>(graph.executions);
  }
  EXPECT_EQ(generalised, 1) << "sizes have no entries of their own";
  EXPECT_EQ(executions, 7) << "and are counted as runs of the one that serves them";
}

TEST_F(Generalise, NewSizesAreNotLowered) {
  Model(4);
  Model(6);
  auto lowered = [] {
    return metrics::GetMetric("LowerTime", metrics::Kind::kTime).Data().samples;
  };
  int64_t before = lowered();
  for (int64_t batch : {5, 9, 100, 31, 5, 9}) Model(batch);
  EXPECT_EQ(lowered(), before);
}

TEST_F(Generalise, EqualSizesInTheRangeAreLoweredOnce) {
  auto model = [](int64_t rows, int64_t columns) {
    Tensor x = Random({rows, columns}, static_cast<uint64_t>(rows + 100 * columns));
    return softmax(x * 2.0 + mean(x, {0}), 1).host();
  };
  auto lowered = [] {
    return metrics::GetMetric("LowerTime", metrics::Kind::kTime).Data().samples;
  };
  model(4, 7);
  model(6, 13);
  model(5, 11);
  int64_t compiles = Compiles(), before = lowered();
  model(9, 9);
  model(9, 9);
  EXPECT_EQ(Compiles(), compiles);
  EXPECT_EQ(lowered(), before + 1);
}

TEST_F(Generalise, OtherEqualSizesAreNotLowered) {
  auto model = [](int64_t rows, int64_t columns) {
    Tensor x = Random({rows, columns}, static_cast<uint64_t>(rows + 100 * columns));
    return softmax(x * 2.0 + mean(x, {0}), 1).host();
  };
  auto lowered = [] {
    return metrics::GetMetric("LowerTime", metrics::Kind::kTime).Data().samples;
  };
  for (auto [rows, columns] : {std::pair(4, 7), std::pair(6, 13), std::pair(5, 11)}) {
    model(rows, columns);
  }
  model(9, 9);
  int64_t before = lowered();
  for (int64_t size : {10, 12, 14}) model(size, size);
  EXPECT_EQ(lowered(), before);
}

TEST_F(Generalise, MissesAreCompilations) {
  CacheStats before = Lazy().GetCacheStats();
  int64_t compiles = Compiles();
  for (int64_t batch : {4, 6, 9, 11, 9}) Model(batch);
  CacheStats after = Lazy().GetCacheStats();
  EXPECT_EQ(after.misses - before.misses, 2);
  EXPECT_EQ(Compiles() - compiles, 2);
  EXPECT_EQ(after.entries, 2);
}

TEST_F(Generalise, SizesOutOfTheRangeWidenIt) {
  Model(4);
  Model(6);
  int64_t compiles = Compiles();
  auto lowered = [] {
    return metrics::GetMetric("LowerTime", metrics::Kind::kTime).Data().samples;
  };
  Model(5000);  // more than 64 times what was seen
  EXPECT_EQ(Compiles(), compiles);
  int64_t before = lowered();
  Model(7001);
  Model(90);
  EXPECT_EQ(lowered(), before);
}

TEST_F(Generalise, InstancesAreCountedAndGo) {
  Model(4);
  Model(6);
  CacheStats before = Lazy().GetCacheStats();
  Model(9);
  CacheStats after = Lazy().GetCacheStats();
  EXPECT_EQ(after.entries, before.entries);
  EXPECT_GT(after.bytes, before.bytes);
  config::Override small("compilation_cache_bytes",
                         std::to_string(8 * (after.bytes - before.bytes)));
  for (int64_t batch = 10; batch < 40; ++batch) Model(batch);
  EXPECT_LE(Lazy().GetCacheStats().bytes, after.bytes + 2 * (after.bytes - before.bytes));
  Lazy().ClearComputationCache();
  EXPECT_EQ(Lazy().GetCacheStats().bytes, 0);
}

TEST_F(Generalise, MoreSizesInTurnThanThereIsRoomForAreStillFound) {
  Model(4);
  Model(6);
  CacheStats before = Lazy().GetCacheStats();
  Model(9);
  const int64_t each = Lazy().GetCacheStats().bytes - before.bytes;
  config::Override room("compilation_cache_bytes", std::to_string(8 * 20 * each));
  auto made = [&](int64_t first, int64_t sizes) {
    int64_t hits = GeneralHits();
    for (int64_t batch = first; batch < first + sizes; ++batch) Model(batch);
    return GeneralHits() - hits;
  };
  made(10, 30);
  for (int round = 0; round < 4; ++round) EXPECT_LE(made(10, 30), 20) << round;
  // Sizes that are used from now on take the places of those.
  int64_t of_last = 0;
  for (int round = 0; round < 40; ++round) of_last = made(100, 3);
  EXPECT_EQ(of_last, 0);
}

TEST_F(Generalise, CanBeSwitchedOff) {
  config::Override off("generalise", "false");
  int64_t compiles = Compiles(), entries = Entries();
  for (int64_t batch : {2, 3, 5}) Model(batch);
  EXPECT_EQ(Compiles() - compiles, 3);
  EXPECT_EQ(Entries(), entries);
}

TEST_F(Generalise, TheExplainerSaysIt) {
  Model(2);
  Model(3);
  CompileMiss miss = Lazy().GetMisses().back();
  EXPECT_EQ(miss.kind, "shape") << miss.ToText();
  EXPECT_EQ(miss.generalised, "for all n");
  EXPECT_NE(miss.ToText().find("compiled for all n"), std::string::npos) << miss.ToText();
  EXPECT_NE(miss.ToJson().find("\"generalised\":\"for all n\""), std::string::npos);
  Model(1);  // a mean over one row, or a broadcast, may be lowered otherwise; it says so then
  CompileMiss one = Lazy().GetMisses().back();
  EXPECT_TRUE(one.number == miss.number || !one.generalised.empty());
}

// With two samples, one dim may look like a function of the other.
TEST_F(Generalise, AWrongGuessCostsACompilationNotAResult) {
  auto run = [](int64_t n, int64_t m) {
    Tensor x = Random({n, 3}, 5), y = Random({3, m}, 6);
    return matmul(x, y).sum({1}).host();
  };
  auto compiles_of = [&](int64_t n, int64_t m) {
    int64_t before = Compiles();
    HostTensor result = run(n, m);
    int64_t compiles = Compiles() - before;
    config::Override off("generalise", "false");
    Lazy().ClearComputationCache();
    EXPECT_TRUE(result.SameBits(run(n, m)));
    return compiles;
  };
  // The cache is cleared for the judgement, so each guess gets its samples again.
  auto prepared = [&](std::vector<std::pair<int64_t, int64_t>> samples, int64_t n, int64_t m) {
    Lazy().ClearComputationCache();
    for (auto [a, b] : samples) run(a, b);
    return compiles_of(n, m);
  };
  EXPECT_EQ(prepared({{2, 4}, {3, 6}}, 5, 10), 0) << "as guessed: m is 2*n";
  EXPECT_EQ(prepared({{2, 4}, {3, 6}}, 5, 7), 1);
  EXPECT_EQ(prepared({{2, 4}, {3, 6}, {5, 7}}, 9, 4), 0) << "three samples tell them apart";
  EXPECT_EQ(prepared({{2, 4}, {3, 4}}, 3, 5), 1) << "a size that has not varied before";
  EXPECT_EQ(prepared({{2, 4}, {3, 4}, {3, 5}}, 8, 9), 0);
}

TEST_F(Generalise, StaysWithinTheBoundsOfTheCache) {
  config::Override bound("compilation_cache_size", "3");
  for (int64_t batch = 2; batch < 12; ++batch) Model(batch);
  EXPECT_LE(Lazy().GetCacheStats().entries, 3);
  config::Override none("compilation_cache_size", "0");
  Lazy().ClearComputationCache();
  int64_t compiles = Compiles();
  for (int64_t batch : {2, 3, 4}) Model(batch);
  EXPECT_EQ(Compiles() - compiles, 3) << "without a cache there is nothing to derive from";
}

TEST_F(Generalise, KeepsOptionsAndDevicesApart) {
  Model(2);
  Model(3);
  config::Override other("fast_math", "true");
  int64_t compiles = Compiles();
  Model(5);
  EXPECT_EQ(Compiles() - compiles, 1);
}

// Outputs of one node are parameters as others are: both ways are one graph.
TEST_F(Generalise, TakesOutputsOfOneNodeAsOtherParameters) {
  auto difference = [](int64_t n, bool forth, int64_t compiles) {
    Tensor a = Random({n, n}, 8);
    auto [q, r] = linalg_qr(a, "complete");
    mark_step(true);
    int64_t before = Compiles();
    std::vector<float> values = (forth ? q - a : a - q).to_vector<float>();
    EXPECT_EQ(Compiles() - before, compiles) << n << (forth ? " forth" : " back");
    return values;
  };
  for (int64_t n : {2, 3}) difference(n, true, 1);
  for (int64_t n : {4, 5, 6}) {
    std::vector<float> forth = difference(n, true, 0), back = difference(n, false, 0);
    for (size_t i = 0; i < forth.size(); ++i) EXPECT_EQ(forth[i], -back[i]);
  }
}

TEST_F(Generalise, ServesCapturedGraphs) {
  auto fn = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{exp(in[0]) * in[0]}; };
  auto capture = [&](int64_t n) { return extract_compiled_graph(fn, {Random({n}, 3)}); };
  capture(2);
  capture(3);
  int64_t compiles = Compiles();
  CompiledGraph graph = capture(6);
  EXPECT_EQ(Compiles(), compiles);
  Tensor x = Random({6}, 4);
  EXPECT_TRUE(graph({x})[0].host().SameBits((exp(x) * x).host()));
}

// ---- The contract

/// Takes graphs with dim parameters and notes the sizes it is asked for. What it runs at other
/// sizes follows from the expressions of what it compiled, as in a backend that generates code.
class DimBackend : public HostBackend {
 public:
  using HostBackend::HostBackend;
  bool SupportsDimParams(const lazy::BackendDevice&) const override { return true; }
  lazy::ComputationPtr Instantiate(const lazy::ComputationPtr& general,
                                   std::span<const int64_t> sizes) const override {
    EXPECT_FALSE(general->graph().dim_params.empty());
    if (sizes[0] == refused) throw CompileError(ErrorCode::kCompile, "not that size");
    auto instance = HostBackend::Instantiate(general, sizes);
    EXPECT_EQ(instance->artifact, general->artifact) << "by default it is shared";
    EXPECT_EQ(&instance->graph(), &general->graph());
    instances.push_back(instance->sizes());
    graphs_.push_back(std::make_shared<Graph>(AtSizes(general->graph(), instance->sizes())));
    instance->artifact = std::make_shared<reference::Program>(*graphs_.back());
    for (int i = 0; i < instance->results_size(); ++i) {
      const Graph& graph = *graphs_.back();
      EXPECT_EQ(instance->result_shape(i), graph.TypeOf(graph.outputs()[i]));
    }
    return instance;
  }
  mutable std::vector<std::vector<int64_t>> instances;
  int64_t refused = -1;

 private:
  mutable std::vector<std::shared_ptr<Graph>> graphs_;  // which the programs borrow
};

TEST_F(Generalise, BackendsGetDimParameters) {
  DimBackend backend("sizes");
  Registered registered(backend);
  auto run = [](int64_t n) {
    Tensor x = Random({n, 2}, 7, "sizes");
    return cat({x, x}, 0).host();
  };
  for (int64_t n : {2, 3, 8}) EXPECT_EQ(run(n).shape(), Shape(f32, {2 * n, 2}));
  ASSERT_EQ(backend.compiled, 2);
  EXPECT_EQ(backend.graphs()[0].find("graph("), std::string::npos);
  EXPECT_EQ(backend.graphs()[1],
            "graph(n=3)\n%0 = input : f32[n,2]\n%1 = concat %0, %0 {dim=0} : f32[2*n,2]\n"
            "return %1\n");
  EXPECT_EQ(backend.instances, (std::vector<std::vector<int64_t>>{{8}}));
}

TEST_F(Generalise, OtherBackendsCompileEverySize) {
  HostBackend backend("fixed");
  Registered registered(backend);
  for (int64_t n : {2, 3, 5}) exp(Random({n}, 7, "fixed")).host();
  EXPECT_EQ(backend.compiled, 3);
}

TEST_F(Generalise, ABackendMayFailToCompileForAllSizes) {
  DimBackend backend("sizes");
  backend.before_compile = [](const lazy::Computation& computation) {
    if (!computation.graph().dim_params.empty()) {
      throw CompileError(ErrorCode::kCompile, "too general");
    }
  };
  Registered registered(backend);
  for (int64_t n : {2, 3, 5}) exp(Random({n}, 7, "sizes")).host();
  EXPECT_EQ(backend.compiled, 3) << "each by itself, none on the fallback device";
  EXPECT_NE(Lazy().GetMisses().back().generalised.find("too general"), std::string::npos);
}

TEST_F(Generalise, SizesThatABackendCannotServeAreCompiled) {
  DimBackend backend("sizes");
  backend.refused = 8;
  Registered registered(backend);
  auto run = [](int64_t n, const Device& device) { return exp(Random({n}, 7, device)).host(); };
  for (int64_t n : {2, 3}) run(n, "sizes");
  EXPECT_TRUE(run(8, "sizes").SameBits(run(8, "reference")));
  EXPECT_EQ(backend.compiled, 3);
  for (int64_t n : {5, 8}) run(n, "sizes");
  EXPECT_EQ(backend.compiled, 3) << "other sizes are served, and that one is cached";
}

// ---- Bit for bit

/// A random program over tensors of [batch, 4]: the same ops for a seed, whatever the batch.
HostTensor RunProgram(uint64_t seed, int64_t batch, const Device& device) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> pool = {Random({batch, 4}, seed, device),
                              Random({batch, 4}, seed + 1, device)};
  Tensor weight = Random({4, 4}, seed + 2, device);
  auto any = [&]() -> const Tensor& { return pool[random() % pool.size()]; };
  for (int i = 0; i < 10; ++i) {
    const Tensor &x = any(), &y = any();
    Tensor z;
    switch (random() % 18) {
      case 0:
        z = x + y;
        break;
      case 1:
        z = x * y - 0.5;
        break;
      case 2:
        z = matmul(x, weight);
        break;
      case 3:
        z = matmul(matmul(x, x.t()), y);
        break;
      case 4:
        z = softmax(x, static_cast<int64_t>(random() % 2));
        break;
      case 5:
        z = x - mean(x, {0}, true);
        break;
      case 6:
        z = x * sum(y, {1}, true);
        break;
      case 7:
        z = cat({x, y}, 0).narrow(0, batch / 2, batch);
        break;
      case 8:
        z = cumsum(x.reshape({4 * batch}), 0).reshape({batch, 4});
        break;
      case 9:
        z = std::get<0>(sort(x, 0));
        break;
      case 10:
        z = layer_norm(x, {4});
        break;
      case 11:
        z = where(x > y, x, y.flip({0}));
        break;
      case 12:
        z = x.t().reshape({batch, 4});
        break;
      case 13:
        z = stack({x, y}, 1).sum({1});
        break;
      case 14:
        z = x / (1.0 + var(y, {0}, true));
        break;
      case 15:
        z = gelu(x) + y.abs().amax({1}, true);
        break;
      case 16:
        z = pad(x, {0, 0, 1, 1}).narrow(0, 1, batch);
        break;
      default:
        z = x.unsqueeze(0).expand({3, batch, 4}).mean({0});
        break;
    }
    pool.push_back(z);
  }
  return pool.back().host();
}

TEST_F(Generalise, GivesTheBitsOfTheStaticCompilation) {
  DimBackend backend("sizes");
  Registered registered(backend);
  constexpr int64_t kBatches[] = {3, 5, 8, 1, 6, 2, 0, 11};
  for (const char* device : {"reference", "sizes", "cpu"}) {
    int64_t hits = GeneralHits();
    for (uint64_t seed = 0; seed < 150; ++seed) {
      Lazy().ClearComputationCache();
      std::vector<HostTensor> general;
      for (int64_t batch : kBatches) general.push_back(RunProgram(seed, batch, device));
      config::Override off("generalise", "false");
      Lazy().ClearComputationCache();
      for (size_t i = 0; i < general.size(); ++i) {
        HostTensor plain = RunProgram(seed, kBatches[i], device);
        ASSERT_TRUE(general[i].SameBits(plain))
            << device << ", seed " << seed << ", batch " << kBatches[i];
      }
    }
    EXPECT_GT(GeneralHits() - hits, 4 * 150) << "most sizes are served by the general entry";
  }
}

}  // namespace
}  // namespace hammock
