// What compiles and what does not, what is computed once, and what the explainer says of a miss.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "hammock/config.h"
#include "hammock/op_builder.h"
#include "runtime/runtime.h"
#include "runtime/step/executor.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

/// How many graphs `fn` compiles.
template <class F>
int64_t CompilesOf(F fn) {
  int64_t before = Compiles();
  fn();
  return Compiles() - before;
}

CompileMiss LastMiss() {
  auto misses = Lazy().GetMisses();
  return misses.empty() ? CompileMiss() : misses.back();
}

class Compile : public Runtime {};

// Upstream: two compiles, since the first step makes outputs of its leaves.
TEST_F(Compile, ConstantWeightsOnce) {
  Tensor w = tensor(std::vector<float>(12, 0.5f), {4, 3}, std::nullopt, "reference");
  Tensor b = tensor(std::vector<float>(3, 0.1f), {3}, std::nullopt, "reference");
  int64_t compiles = CompilesOf([&] {
    for (int i = 0; i < 5; ++i) {
      Tensor x =
          tensor(std::vector<float>(8, static_cast<float>(i)), {2, 4}, std::nullopt, "reference");
      Tensor y = matmul(x, w) + b;
      mark_step();
      EXPECT_TENSOR_NEAR(y, std::vector<float>(6, 2.0f * static_cast<float>(i) + 0.1f), {2, 3});
    }
  });
  EXPECT_EQ(compiles, 1);
  EXPECT_EQ(Lazy().GetCacheStats().entries, 1);
}

TEST_F(Compile, NothingForALeafThatIsOnlyData) {
  int64_t compiles = CompilesOf([] {
    Tensor host = OnHost({1, 2, 3});
    mark_step();
    sync_multi({host});
    EXPECT_TENSOR_EQ(host, {1, 2, 3}, {3});
    Tensor again = host;
    mark_step(true);
  });
  EXPECT_EQ(compiles, 0);
}

// Upstream: the third pair compiles, since equal values share a parameter.
TEST_F(Compile, EqualScalarsOnce) {
  Tensor a = OnDevice({1, 2, 3});
  int64_t compiles = CompilesOf([&] {
    for (auto [p, q] : {std::pair(.1f, .2f), std::pair(.3f, .4f), std::pair(.5f, .5f)}) {
      Tensor r = a * p;
      Tensor s = r * q;
      mark_step();
      EXPECT_TENSOR_NEAR(s, {p * q, 2.0 * p * q, 3.0 * p * q}, {3});
    }
  });
  EXPECT_EQ(compiles, 1);
}

TEST_F(Compile, LearningRatesOnce) {
  Tensor gradient = OnDevice({1, 2, 3});
  int64_t compiles = CompilesOf([&] {
    for (double rate : {0.1, 0.0, 1.0, -1.0, 1e-30, 2.0}) {
      Tensor w = OnHost({1, 1, 1});
      w.sub_(gradient, rate);
      mark_step();
      EXPECT_TENSOR_NEAR(w, {1 - rate, 1 - 2 * rate, 1 - 3 * rate}, {3});
    }
  });
  EXPECT_EQ(compiles, 1);
}

TEST_F(Compile, SpecialScalarsOnceAndRight) {
  Tensor x = OnDevice({1, -1});
  config::Override one_scalar("device_data_cache_size", "1");
  int64_t compiles = CompilesOf([&] {
    for (float k : {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -0.0f, 0.0f}) {
      Tensor y = 1.0f / (x * k);
      mark_step();
      std::vector<float> expected{1.0f / k, 1.0f / -k};
      EXPECT_EQ(y.to_vector<float>(), expected) << k;
    }
  });
  EXPECT_EQ(compiles, 1);
}

/// Note [Baked starts] in walk.cpp.
TEST_F(Compile, PartsOfComputedValuesAreSlicedWhereTheyAre) {
  Tensor x = arange(0, 24, 1, f32, "reference").reshape({4, 6});
  sync_multi({x});
  auto text = [](const Tensor& y) { return Lazy().DumpTensors(std::span(&y, 1), "backend"); };
  auto is_lifted = [&](const Tensor& y) { return text(y).find("= constant") == std::string::npos; };
  Tensor computed = x * 2.0f;
  EXPECT_FALSE(is_lifted(computed.view({4, 3, 2}).select(1, 2) + 1.0f));
  EXPECT_FALSE(is_lifted(computed.narrow(1, 4, 2) + 1.0f));
  EXPECT_TRUE(is_lifted(x.view({4, 3, 2}).select(1, 2) + 1.0f)) << "data, of any part in turn";
  EXPECT_TRUE(is_lifted(computed.narrow(1, 3, 2) + 1.0f)) << "no part among equal ones";
  EXPECT_TRUE(is_lifted((x.repeat({3, 1}) * 2.0f).select(0, 11) + 1.0f)) << "one of many";
}

/// Each is a graph of its own, up to the number of parts; one more serves all of them.
TEST_F(Compile, PartsOfComputedValuesAreRight) {
  Tensor x = arange(0, 6, 1, f32, "reference");
  sync_multi({x});
  x.requires_grad_(true);
  int64_t compiles = CompilesOf([&] {
    for (int round = 0; round < 3; ++round) {
      for (int64_t part : {0, 1, 2}) {
        x.set_grad({});
        Tensor y = (x * 2.0f).view({3, 2}).select(0, part);
        y.sum().backward();
        mark_step();
        auto k = static_cast<double>(part);
        EXPECT_TENSOR_EQ(y, {4 * k, 4 * k + 2}, {2});
        std::vector<double> grad(6);
        grad[static_cast<size_t>(2 * part)] = grad[static_cast<size_t>(2 * part + 1)] = 2;
        EXPECT_TENSOR_EQ(x.grad(), grad, {6});
      }
    }
  });
  EXPECT_LE(compiles, 4);
}

TEST_F(Compile, NewStartsOnce) {
  Tensor x = arange(0, 20, 1, f32, "reference");
  sync_multi({x});
  int64_t compiles = CompilesOf([&] {
    for (int64_t start = 0; start < 6; ++start) {
      Tensor part = x.slice(0, start, start + 4) + 1.0f;
      Tensor one = x.select(0, start) * 2.0f;
      Tensor narrow = x.narrow(0, start * 2, 3) - 1.0f;
      mark_step();
      auto k = static_cast<double>(start);
      EXPECT_TENSOR_EQ(part, {k + 1, k + 2, k + 3, k + 4}, {4});
      EXPECT_TENSOR_EQ(one, {2 * k}, {});
      EXPECT_TENSOR_EQ(narrow, {2 * k - 1, 2 * k, 2 * k + 1}, {3});
    }
  });
  EXPECT_EQ(compiles, 1);
}

TEST_F(Compile, NewStartsOfWritesOnce) {
  int64_t compiles = CompilesOf([&] {
    for (int64_t start = 0; start < 4; ++start) {
      Tensor x = OnHost({0, 0, 0, 0, 0, 0});
      x.slice(0, start, start + 2).add_(5.0f);
      mark_step();
      std::vector<float> expected(6, 0);
      expected[start] = expected[static_cast<size_t>(start) + 1] = 5;
      EXPECT_TENSOR_EQ(x, expected, {6});
    }
  });
  EXPECT_EQ(compiles, 1);
}

TEST_F(Compile, NewSeedsOnce) {
  int64_t compiles = CompilesOf([] {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      manual_seed(seed);
      Tensor r = rand({3}, f32, "reference") + randn({3}, f32, "reference");
      Generator own(seed * 7);
      Tensor b = bernoulli(full({3}, 0.5, f32, "reference"), own);
      mark_step();
    }
  });
  EXPECT_EQ(compiles, 1);
}

TEST_F(Compile, NewFillValuesOnce) {
  int64_t compiles = CompilesOf([] {
    for (double value : {0.0, 1.0, 7.5}) {
      Tensor x = full({3}, value, f32, "reference");
      x.fill_(value + 1);
      mark_step();
      EXPECT_TENSOR_EQ(x, {value + 1, value + 1, value + 1}, {3});
    }
  });
  EXPECT_EQ(compiles, 1);
}

TEST_F(Compile, TheSameGraphForAnotherDeviceSeparately) {
  HostBackend& backend = *new HostBackend("twins", 2);
  Registered registered(backend);
  auto program = [](const std::string& device) {
    Tensor x = ones({3}, f32, device) + 1.0f;
    mark_step();
    EXPECT_TENSOR_EQ(x, {2, 2, 2}, {3});
  };
  EXPECT_EQ(CompilesOf([&] { program("twins:0"); }), 1);
  EXPECT_EQ(CompilesOf([&] { program("twins:1"); }), 1);
  EXPECT_EQ(LastMiss().kind, "device") << LastMiss().ToText();
  EXPECT_NE(LastMiss().detail.find("twins:0"), std::string::npos) << LastMiss().detail;
  EXPECT_EQ(CompilesOf([&] {
              program("twins:0");
              program("twins:1");
            }),
            0);
}

// ---- The live set

// Parameters are those outputs of computed nodes that are used, in the order of use.
TEST_F(Compile, NoMoreForOutputsOfOneNodeThanForLeaves) {
  Tensor a = tensor(std::vector<float>{3, 1, 4, 2}, {2, 2}, std::nullopt, "reference");
  auto [q, r] = linalg_qr(a, "complete");
  mark_step(true);
  Tensor leaf = a + 0.0f;
  mark_step(true);
  auto minus = [](const Tensor& x, const Tensor& y) { return (x - y).to_vector<float>(); };
  std::vector<float> forth, back;
  EXPECT_EQ(CompilesOf([&] { forth = minus(q, a); }), 1);
  EXPECT_EQ(CompilesOf([&] {
              back = minus(a, q);
              minus(r, q);
              minus(q, r);
              minus(leaf, a);
            }),
            0);
  for (size_t i = 0; i < forth.size(); ++i) EXPECT_EQ(forth[i], -back[i]);
  std::vector<float> other = minus(r, q);
  for (size_t i = 0; i < other.size(); ++i) {
    EXPECT_EQ(other[i], r.to_vector<float>()[i] - q.to_vector<float>()[i]);
  }
}

TEST_F(Compile, AKeptIntermediateOnceMore) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor kept;
  auto iteration = [&](bool keep) {
    Tensor result;
    {
      Tensor middle = x * 2.0f;
      result = middle + 1.0f;
      if (keep) kept = middle;
    }
    mark_step();
    return result;
  };
  EXPECT_EQ(CompilesOf([&] { iteration(false); }), 1);
  EXPECT_EQ(CompilesOf([&] { iteration(false); }), 0);
  EXPECT_EQ(CompilesOf([&] { iteration(true); }), 1);
  CompileMiss miss = LastMiss();
  EXPECT_EQ(miss.kind, "live output") << miss.ToText();
  EXPECT_NE(miss.detail.find("mul"), std::string::npos) << miss.detail;
  EXPECT_EQ(miss.trigger, "mark_step");
  EXPECT_NE(miss.where.find("compiles_test.cpp"), std::string::npos) << miss.where;
  EXPECT_EQ(CompilesOf([&] { iteration(true); }), 0);
  EXPECT_EQ(CompilesOf([&] { iteration(false); }), 0) << "both are cached now";
}

TEST_F(Compile, StepLetsLocalsDie) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor w = OnDevice({1, 1, 1});
  for (int i = 0; i < 3; ++i) {
    step([&] {
      Tensor hidden = x * 2.0f;
      Tensor error = hidden - w;
      w = w + error * 0.5f;
    });
  }
  auto misses = Lazy().GetMisses();
  EXPECT_EQ(misses.back().outputs, 1) << misses.back().ToText();
  EXPECT_TENSOR_NEAR(w, {1.875, 3.625, 5.375}, {3});
}

TEST_F(Compile, TheExplainerNamesWhatDiffers) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor y = OnDevice({1, 2, 3, 4});
  Tensor z = OnDevice({1, 2, 3}).to(f64);
  sync_multi({z});
  auto run = [](const Tensor& t) { (t.exp() + 1.0f).host(); };
  run(x);
  EXPECT_EQ(CompilesOf([&] { run(y); }), 1);
  EXPECT_EQ(LastMiss().kind, "shape") << LastMiss().ToText();
  EXPECT_EQ(CompilesOf([&] { run(z); }), 1);
  EXPECT_EQ(LastMiss().kind, "dtype") << LastMiss().ToText();
  EXPECT_EQ(CompilesOf([&] { (x.sin() + 1.0f).host(); }), 1);
  EXPECT_EQ(LastMiss().kind, "op") << LastMiss().ToText();
  auto json = nlohmann::json::parse(LastMiss().ToJson());
  EXPECT_EQ(json["kind"], "op");
  EXPECT_EQ(json["trigger"], "read");
  EXPECT_EQ(json["device"], "reference:0");
}

// ---- Options

TEST_F(Compile, AChangedOptionTakesEffectAtOnce) {
  HostBackend& backend = *new HostBackend("optional");
  Registered registered(backend);
  Tensor a = ones({2, 2}, f32, "optional");
  sync_multi({a});
  auto fallbacks = [](const char* op) { return CounterOf(std::string("fallback::") + op); };
  auto run = [&] { (a.exp().sin()).host(); };
  run();
  int64_t exps = fallbacks("exp"), sins = fallbacks("sin");
  {
    config::Override forced("force_fallback", "exp");
    EXPECT_EQ(CompilesOf(run), 1);
    EXPECT_EQ(LastMiss().kind, "config") << LastMiss().ToText();
    EXPECT_EQ(fallbacks("exp"), exps + 1);
    EXPECT_EQ(fallbacks("sin"), sins);
    config::Set("force_fallback", "sin");  // upstream ignores the second one
    EXPECT_EQ(CompilesOf(run), 1);
    EXPECT_EQ(fallbacks("exp"), exps + 1);
    EXPECT_EQ(fallbacks("sin"), sins + 1);
  }
  EXPECT_EQ(CompilesOf(run), 0) << "as before";
  EXPECT_EQ(fallbacks("sin"), sins + 1);
}

// ---- Guards

TEST_F(Compile, ExpectNoRecompileSaysWhy) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor warm = x + 1.0f;
  warm.host();
  ExpectNoRecompile guard("the loop is warm");
  Tensor hit = x + 2.0f;
  EXPECT_TENSOR_EQ(hit, {3, 4, 5}, {3});
  Tensor other = OnHost({1, 2}) + 1.0f;
  Raised raised = ErrorOf([&] { other.host(); });
  EXPECT_EQ(raised.code, ErrorCode::kRecompileForbidden);
  for (const char* part : {"the loop is warm", "shape", "f32[2]", "f32[3]", "compiles_test.cpp"}) {
    EXPECT_NE(raised.what.find(part), std::string::npos) << part << " is not in " << raised.what;
  }
}

TEST_F(Compile, ExpectNoRecompileLeavesTheValue) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor y = x.exp();
  Tensor z = x.sin();
  {
    ExpectNoRecompile guard;
    EXPECT_CODE(y.host(), ErrorCode::kRecompileForbidden);
    EXPECT_CODE(mark_step(), ErrorCode::kRecompileForbidden);
  }
  EXPECT_TENSOR_NEAR(y, {std::exp(1.0), std::exp(2.0), std::exp(3.0)}, {3});
  EXPECT_TENSOR_NEAR(z, {std::sin(1.0), std::sin(2.0), std::sin(3.0)}, {3});
}

TEST_F(Compile, NoExecutionSaysWhy) {
  Tensor x = OnHost({1, 2, 3});
  Tensor ready = OnDevice({7});
  Tensor y = x + 1.0f;
  {
    NoExecution guard("this is the hot path");
    Raised raised = ErrorOf([&] { y.host(); });
    EXPECT_EQ(raised.code, ErrorCode::kExecutionForbidden);
    for (const char* part : {"this is the hot path", "read"}) {
      EXPECT_NE(raised.what.find(part), std::string::npos) << part << " is not in " << raised.what;
    }
    EXPECT_CODE(mark_step(), ErrorCode::kExecutionForbidden, "mark_step");
    EXPECT_TENSOR_EQ(x, {1, 2, 3}, {3});
    EXPECT_TENSOR_EQ(ready, {7}, {1});
    Tensor recorded = y * 2.0f;
    EXPECT_EQ(recorded.sizes(), Dims({3}));
    EXPECT_NE(recorded.summary().find("pending"), std::string::npos);
    {
      NoExecution inner("and this the innermost");
      EXPECT_CODE(y.item(), ErrorCode::kValue);
      EXPECT_CODE(y.host(), ErrorCode::kExecutionForbidden, "innermost");
    }
    config::Override budget("trim_graph_size", "2");
    for (int i = 0; i < 10; ++i) recorded = recorded + 1.0f;  // the budget waits
    EXPECT_CODE(nonzero(x > 1.0f), ErrorCode::kExecutionForbidden, "hot path");
    std::thread([] { EXPECT_TENSOR_EQ(OnHost({1}) + 1.0f, {2}, {1}); }).join();
  }
  EXPECT_TENSOR_EQ(y, {2, 3, 4}, {3});
}

// ---- Nothing is computed twice

TEST_F(Compile, ReadsShareWhatTheyComputed) {
  Tensor a = OnDevice({1, 2, 3, 4}).view({2, 2});
  int64_t nodes = NodesRun();
  Tensor y = matmul(a, a);
  Tensor z = 2.0f * y;
  EXPECT_TENSOR_EQ(z, {14, 20, 30, 44}, {2, 2});
  int64_t after_z = NodesRun();
  EXPECT_TENSOR_EQ(y, {7, 10, 15, 22}, {2, 2});
  EXPECT_EQ(NodesRun(), after_z) << "y was computed with z";
  EXPECT_GT(after_z, nodes);
  Tensor w = y + z;
  EXPECT_TENSOR_EQ(w, {21, 30, 45, 66}, {2, 2});
  EXPECT_EQ(NodesRun(), after_z + 1);
}

TEST_F(Compile, AStepDoesNotRepeatWhatAReadComputed) {
  Tensor x = OnDevice({1, 2});
  Tensor y = x.exp();
  Tensor z = y + y;
  y.host();
  int64_t nodes = NodesRun();
  mark_step(true);
  EXPECT_EQ(NodesRun(), nodes + 1);
  z.host();
  mark_step(true);
  EXPECT_EQ(NodesRun(), nodes + 1);
}

TEST_F(Compile, AStepComputesWhatIsBehindViews) {
  Tensor x = OnDevice({1, 2, 3, 4});
  Tensor v = (x.exp() + 1.0f).view({2, 2}).t();  // only the view is held
  EXPECT_TRUE(v.is_pending());
  mark_step(true);
  EXPECT_FALSE(v.is_pending());
  EXPECT_NE(v.summary().find("ready"), std::string::npos) << v.summary();
  int64_t nodes = NodesRun();
  v.host();
  EXPECT_LE(NodesRun(), nodes + 2) << "the reshape and the transpose at most";
}

TEST_F(Compile, AStepComputesAViewOfAnotherThreadsValue) {
  Tensor x = OnDevice({1, 2, 3, 4});
  Tensor y = x.exp();
  int64_t nodes = 0;
  std::thread([&] {
    Tensor v = y.view({2, 2});
    nodes = NodesRun();
    mark_step(true);
    EXPECT_EQ(NodesRun(), nodes + 1);
  }).join();
  y.host();
  EXPECT_EQ(NodesRun(), nodes + 1);
}

TEST_F(Compile, StepsForgetSettledViews) {
  Tensor x = OnDevice({1, 2, 3, 4});
  std::vector<Tensor> views;
  for (int64_t i = 0; i < 4; ++i) views.push_back(x.slice(0, i, i + 1));
  mark_step();
  int64_t runs = ComputationsRun();
  mark_step(true);
  EXPECT_EQ(ComputationsRun(), runs);
  views[1].add_(10.0f);
  x = Tensor();
  mark_step(true);
  EXPECT_GT(ComputationsRun(), runs) << "what was written through a view, its base gone";
  runs = ComputationsRun();
  mark_step(true);
  EXPECT_EQ(ComputationsRun(), runs);
  EXPECT_TENSOR_EQ(views[1], {12}, {1});
}

TEST_F(Compile, ALoopThroughViewsDoesNotGrow) {
  Tensor x = OnDevice({1, 2, 3, 4});
  int64_t compiles = CompilesOf([&] {
    for (int i = 0; i < 10; ++i) {
      x = (x + 1.0f).view({2, 2}).view({4});
      mark_step();
    }
  });
  EXPECT_LE(compiles, 2);
  EXPECT_TENSOR_EQ(x, {11, 12, 13, 14}, {4});
}

TEST_F(Compile, LookingComputesNothing) {
  Tensor x = OnHost({1, 2, 3});
  Tensor y = (x + 1.0f).view({3, 1});
  int64_t runs = ComputationsRun();
  EXPECT_NE(y.summary().find("f32[3,1]"), std::string::npos);
  EXPECT_NE(y.summary().find("pending"), std::string::npos);
  EXPECT_TRUE(y.is_pending());
  EXPECT_GT(y.id(), 0);
  EXPECT_EQ(y.strides(), Dims({1, 1}));
  Lazy().GetGraphHash(std::vector<Tensor>{y});
  Lazy().DumpTensors(std::vector<Tensor>{y});
  Lazy().DumpTensors(std::vector<Tensor>{y}, "dot");
  Lazy().DumpTensors(std::vector<Tensor>{y}, "backend");
  EXPECT_FALSE(Lazy().GetLiveTensors().empty());
  EXPECT_EQ(ComputationsRun(), runs);
  EXPECT_TRUE(y.is_pending());
}

// ---- The cache

TEST_F(Compile, CollisionsAreVerified) {
  SetHashMaskForTesting(0);  // every graph has the same hash
  Tensor x = OnDevice({1, 2, 3});
  int64_t collisions = Lazy().GetCacheStats().collisions;
  for (int round = 0; round < 3; ++round) {
    EXPECT_TENSOR_EQ(x + 1.0f, {2, 3, 4}, {3});
    EXPECT_TENSOR_EQ(x * 3.0f, {3, 6, 9}, {3});
    EXPECT_TENSOR_EQ(x.slice(0, 0, 2) - 1.0f, {0, 1}, {2});
    EXPECT_TENSOR_EQ(x + x, {2, 4, 6}, {3});
  }
  EXPECT_GT(Lazy().GetCacheStats().collisions, collisions);
  EXPECT_GE(Lazy().GetCacheStats().entries, 4);
  SetHashMaskForTesting(~uint64_t{0});
  Lazy().ClearComputationCache();
}

TEST_F(Compile, TheCacheIsBoundedByEntries) {
  config::Override every_size("generalise", "false");
  config::Override bound("compilation_cache_size", "4");
  Tensor x = OnDevice({1, 2, 3});
  std::vector<Hash128> hashes;
  int64_t evictions = Lazy().GetCacheStats().evictions;
  for (int64_t i = 1; i <= 10; ++i) {
    full({i}, 1, f32, "reference").sum().host();
    hashes.push_back(*Lazy().GetLatestHash());
    EXPECT_LE(Lazy().GetCacheStats().entries, 4);
  }
  EXPECT_GE(Lazy().GetCacheStats().evictions, evictions + 6);
  EXPECT_TRUE(Lazy().IsCached(hashes.back()));
  EXPECT_FALSE(Lazy().IsCached(hashes.front()));
  EXPECT_CODE(Lazy().GetCachedText(hashes.front()), ErrorCode::kUnknownName, "evicted");
  EXPECT_EQ(CompilesOf([] { full({1}, 1, f32, "reference").sum().host(); }), 1);
  EXPECT_EQ(LastMiss().kind, "evicted") << LastMiss().ToText();
}

TEST_F(Compile, TheCacheIsBoundedByBytes) {
  config::Override every_size("generalise", "false");
  auto run = [](int64_t size) {
    Tensor x = full({size}, 1, f32, "reference");
    for (int j = 0; j < 8; ++j) x = x + 1.0f;
    x.host();
  };
  run(1);
  const int64_t bound = 5 * Lazy().GetCacheStats().bytes;
  config::Override bytes("compilation_cache_bytes", std::to_string(bound));
  for (int64_t i = 2; i <= 20; ++i) {
    run(i);
    CacheStats stats = Lazy().GetCacheStats();
    EXPECT_LE(stats.bytes, bound);
    EXPECT_GT(stats.bytes, 0);
  }
  EXPECT_GE(Lazy().GetCacheStats().evictions, 10);
  EXPECT_GE(Lazy().GetCacheStats().entries, 3);
}

TEST_F(Compile, TheLeastRecentlyUsedGoesFirst) {
  config::Override every_size("generalise", "false");
  config::Override bound("compilation_cache_size", "2");
  auto run = [](int64_t size) { full({size}, 1, f32, "reference").sum().host(); };
  run(1);
  run(2);
  run(1);
  run(3);  // 2 goes
  EXPECT_EQ(CompilesOf([&] { run(1); }), 0);
  EXPECT_EQ(CompilesOf([&] { run(2); }), 1);
}

TEST_F(Compile, CacheCalls) {
  Tensor x = OnDevice({1, 2});
  Lazy().ClearComputationCache();
  EXPECT_EQ(Lazy().GetLatestHash(), std::nullopt);
  Tensor y = x * 2.0f;
  Hash128 hash = Lazy().GetGraphHash(std::vector<Tensor>{y});
  EXPECT_FALSE(Lazy().IsCached(hash));
  y.host();
  EXPECT_TRUE(Lazy().IsCached(hash));
  EXPECT_EQ(Lazy().GetLatestHash(), hash);
  EXPECT_NE(Lazy().GetCachedText(hash).find("mul"), std::string::npos);
  auto results = Lazy().RunCachedGraph(hash, {OnDevice({5, 6}), tensor(3.0, f32, "reference")});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TENSOR_EQ(results[0], {15, 18}, {2});
  EXPECT_TRUE(Lazy().RemoveFromComputationCache(hash));
  EXPECT_FALSE(Lazy().RemoveFromComputationCache(hash));
  EXPECT_FALSE(Lazy().IsCached(hash));
  EXPECT_CODE(Lazy().RunCachedGraph(hash, {}), ErrorCode::kUnknownName);
}

TEST_F(Compile, NothingForWhatIsStillRunning) {
  Tensor big = ones({64, 1024}, f32, "reference");
  Tensor x = OnDevice({1, 2});
  sync_multi({big});
  auto run = [&](bool finished) {
    Gate gate;
    if (finished) gate.Open();
    Tensor first = big + 1.0f;
    mark_step(finished);
    Tensor second = x + 1.0f;
    mark_step(finished);
    gate.Open();
    return second.to_vector<float>()[1];
  };
  EXPECT_EQ(run(true), 3.0f);
  int64_t compiles = Compiles();
  EXPECT_EQ(run(false), 3.0f);
  EXPECT_EQ(Compiles(), compiles) << "a key depends on what was ready";
}

TEST_F(Compile, BudgetsRunPendingWork) {
  config::Override budget("trim_graph_size", "10");
  Tensor x = OnDevice({0});
  int64_t trims = CounterOf("TrimIrGraph");
  for (int i = 0; i < 100; ++i) x = x + 1.0f;
  EXPECT_GE(CounterOf("TrimIrGraph"), trims + 9);
  EXPECT_EQ(x.item<float>(), 100.0f);
  config::Override no_nodes("trim_graph_size", "0");
  config::Override bytes("trim_graph_bytes", "100000");
  trims = CounterOf("TrimIrGraph");
  Tensor y = zeros({1000}, f32, "reference");
  std::vector<Tensor> kept;
  for (int i = 0; i < 100; ++i) kept.push_back(y + static_cast<float>(i));  // 4 kB each
  EXPECT_GE(CounterOf("TrimIrGraph"), trims + 3);
  EXPECT_EQ(kept[99][999].item<float>(), 99.0f);
}

// What nobody holds any more takes no memory, and running it early would keep it from being fused.
TEST_F(Compile, BudgetsCountWhatIsPending) {
  config::Override nodes("trim_graph_size", "50");
  config::Override bytes("trim_graph_bytes", "100000");
  int64_t trims = CounterOf("TrimIrGraph");
  Tensor x = zeros({1000}, f32, "reference");
  for (int i = 0; i < 45; ++i) x = x + 1.0f;  // 4 kB each
  EXPECT_EQ(x[999].item<float>(), 45.0f);
  for (int step = 0; step < 40; ++step) {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = y * 2.0f + 1.0f;
    EXPECT_EQ(y[0].item<float>(), std::ldexp(46.0f, 10) - 1);
  }
  EXPECT_EQ(CounterOf("TrimIrGraph"), trims);
}

}  // namespace
}  // namespace hammock
