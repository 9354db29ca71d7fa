#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "backends/common/fault.h"
#include "hammock/hammock.h"
#include "support/host_backend.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

using Tensors = std::vector<Tensor>;

LazyGraphExecutor* executor() { return LazyGraphExecutor::Get(); }

Tensor On(std::initializer_list<double> values, const Device& device = "reference") {
  return tensor(std::vector<float>(values.begin(), values.end()), std::nullopt, device);
}

int64_t Compiles() { return static_cast<int64_t>(metrics::GetCounter("UncachedCompile").Value()); }

TEST(Capture, RunsTheGraphWithoutTracing) {
  int traced = 0;
  CompiledGraph graph = extract_compiled_graph(
      [&](const Tensors& in) {
        ++traced;
        return Tensors{in[0] * in[1] + 1.0};
      },
      {On({1, 2}), On({3, 4})});
  int64_t compiles = Compiles();
  EXPECT_TENSOR_EQ(graph({On({5, 6}), On({7, 8})})[0], {36.0f, 49.0f}, {2});
  EXPECT_TENSOR_EQ(graph({On({1, 1}), On({2, 3})})[0], {3.0f, 4.0f}, {2});
  EXPECT_EQ(traced, 1);
  EXPECT_EQ(Compiles(), compiles);
}

TEST(Capture, LeavesTheExamplesAlone) {
  Tensor x = On({1, 2});
  Tensor pending = On({1, 2}) * 3.0;
  extract_compiled_graph(
      [](const Tensors& in) {
        Tensor a = in[0];
        a += in[1];
        return Tensors{a};
      },
      {x, pending});
  EXPECT_TRUE(pending.is_pending());
  EXPECT_TENSOR_EQ(x, {1.0f, 2.0f}, {2});
  EXPECT_TENSOR_EQ(pending, {3.0f, 6.0f}, {2});
}

TEST(Capture, TakesPendingArguments) {
  CompiledGraph graph =
      extract_compiled_graph([](const Tensors& in) { return Tensors{in[0] * 2.0}; }, {On({1, 2})});
  Tensor pending = On({1, 2}) + 1.0;
  EXPECT_TENSOR_EQ(graph({pending})[0], {4.0f, 6.0f}, {2});
  Tensor first = graph({On({1, 2})})[0];
  EXPECT_TENSOR_EQ(graph({first})[0] + 1.0, {5.0f, 9.0f}, {2});
}

TEST(Capture, WritesUpdatedInputsBack) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor weight = in[0];
        weight -= in[1] * 0.5;
        return Tensors{weight * 10.0};
      },
      {On({0, 0}), On({0, 0})});
  Tensor weight = On({1, 2}), gradient = On({2, 4});
  Tensor alias = weight.view({2, 1});
  EXPECT_TENSOR_EQ(graph({weight, gradient})[0], {0.0f, 0.0f}, {2});
  EXPECT_TENSOR_EQ(weight, {0.0f, 0.0f}, {2});
  graph({weight, gradient});
  EXPECT_TENSOR_EQ(weight, {-1.0f, -2.0f}, {2});
  EXPECT_TENSOR_EQ(alias, {-1.0f, -2.0f}, {2, 1});
  EXPECT_TENSOR_EQ(gradient, {2.0f, 4.0f}, {2});
}

TEST(Capture, WritesBackThroughAViewOfTheInput) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor row = in[0][1];
        row += 1.0;
        return Tensors{};
      },
      {zeros({2, 2}, DType::kF32, "reference")});
  Tensor x = zeros({2, 2}, DType::kF32, "reference");
  graph({x});
  graph({x});
  EXPECT_TENSOR_EQ(x, {0.0f, 0.0f, 2.0f, 2.0f}, {2, 2});
}

TEST(Capture, SwapsInputs) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor a = in[0], b = in[1];
        Tensor old = a.clone();
        copy_(a, b);
        copy_(b, old);
        return Tensors{};
      },
      {On({0}), On({0})});
  Tensor a = On({1}), b = On({2});
  graph({a, b});
  EXPECT_TENSOR_EQ(a, {2.0f}, {1});
  EXPECT_TENSOR_EQ(b, {1.0f}, {1});
}

TEST(Capture, ReturnsInputsAndDuplicatesAsSuch) {
  Tensor constant = On({7});
  CompiledGraph graph = extract_compiled_graph(
      [&](const Tensors& in) {
        Tensor sum = in[0] + in[1];
        return Tensors{sum, in[1], sum, constant, in[0]};
      },
      {On({1}), On({2})});
  Tensor a = On({3}), b = On({4});
  Tensors out = graph({a, b});
  ASSERT_EQ(out.size(), 5u);
  EXPECT_TENSOR_EQ(out[0], {7.0f}, {1});
  EXPECT_TRUE(out[1].is_same(b));
  EXPECT_TRUE(out[2].is_same(out[0]));
  EXPECT_TENSOR_EQ(out[3], {7.0f}, {1});
  EXPECT_TRUE(out[4].is_same(a));
}

TEST(Capture, ReturnsUpdatedInputsAsSuch) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor x = in[0];
        x *= 2.0;
        return Tensors{x};
      },
      {On({1})});
  Tensor x = On({3});
  Tensors out = graph({x});
  EXPECT_TRUE(out[0].is_same(x));
  EXPECT_TENSOR_EQ(x, {6.0f}, {1});
}

TEST(Capture, NeedsNoGraphToReturnItsInputs) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        return Tensors{in[1], in[0]};
      },
      {On({1}), On({2})});
  Tensor a = On({3}), b = On({4});
  EXPECT_TRUE(graph({a, b})[0].is_same(b));
}

TEST(Capture, KeepsCapturedTensorsAsConstants) {
  Tensor weight = On({1, 2});
  Tensor pending = weight * 10.0;
  CompiledGraph graph = extract_compiled_graph(
      [&](const Tensors& in) { return Tensors{in[0] * weight + pending}; }, {On({0, 0})});
  EXPECT_FALSE(pending.is_pending()) << "a captured tensor is computed once";
  int64_t compiles = Compiles();
  EXPECT_TENSOR_EQ(graph({On({1, 1})})[0], {11.0f, 22.0f}, {2});
  weight += 100.0;
  EXPECT_TENSOR_EQ(graph({On({1, 1})})[0], {11.0f, 22.0f}, {2});
  weight = Tensor();
  mark_step();
  EXPECT_TENSOR_EQ(graph({On({2, 2})})[0], {12.0f, 24.0f}, {2});
  EXPECT_LE(Compiles(), compiles + 1) << "only the write of `weight`";
}

TEST(Capture, FreezesScalars) {
  double factor = 3;
  CompiledGraph graph =
      extract_compiled_graph([&](const Tensors& in) { return Tensors{in[0] * factor}; }, {On({1})});
  factor = 5;
  EXPECT_TENSOR_EQ(graph({On({2})})[0], {6.0f}, {1});
}

TEST(Capture, DrawsFreshRandomNumbers) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) { return Tensors{in[0] + rand({64}, DType::kF32, "reference")}; },
      {zeros({64}, DType::kF32, "reference")});
  Tensor zero = zeros({64}, DType::kF32, "reference");
  manual_seed(5);
  auto first = graph({zero})[0].to_vector<float>();
  auto second = graph({zero})[0].to_vector<float>();
  EXPECT_NE(first, second);
  manual_seed(5);
  EXPECT_EQ(graph({zero})[0].to_vector<float>(), first);
  manual_seed(5);
  EXPECT_EQ((zero + rand({64}, DType::kF32, "reference")).to_vector<float>(), first);
}

TEST(Capture, RefusesReadsInsideTheFunction) {
  EXPECT_THROW_MESSAGE(extract_compiled_graph(
                           [](const Tensors& in) {
                             return Tensors{in[0].to_vector<float>()[0] > 0 ? in[0] : -in[0]};
                           },
                           {On({1})}),
                       ValueError, "depends on input 0 (f32[1]) is read");
  EXPECT_THROW_MESSAGE(extract_compiled_graph(
                           [](const Tensors& in) {
                             (in[0] + 1.0).host();
                             return in;
                           },
                           {On({1})}),
                       ValueError, "depends on input 0");
  EXPECT_THROW_MESSAGE(extract_compiled_graph(
                           [](const Tensors& in) {
                             (On({1}) + 1.0).host();
                             return in;
                           },
                           {On({1})}),
                       ValueError, "a function is being captured");
  mark_step();
}

TEST(Capture, RefusesValuesThatEscape) {
  Tensor state;
  Tensor other = On({1}) * 3.0;
  EXPECT_THROW_MESSAGE(extract_compiled_graph(
                           [&](const Tensors& in) {
                             state = in[0] * 2.0;
                             return Tensors{state + 1.0};
                           },
                           {On({1})}),
                       ValueError, "mul [at capture_test.cpp:");
  // What escaped has no value; it does not get in the way of others.
  mark_step();
  EXPECT_FALSE(other.is_pending());
  EXPECT_THROW_MESSAGE(state.host(), ValueError, "capture");
}

TEST(Capture, RefusesFallback) {
  config::Override forced("force_fallback", "exp");
  EXPECT_THROW_MESSAGE(
      extract_compiled_graph([](const Tensors& in) { return Tensors{exp(in[0]) + 1.0}; },
                             {On({1}, "null")}),
      NotSupported, "because of fallback: null:0 cannot run exp [at");
}

TEST(Capture, RefusesSeveralDevices) {
  Tensor other = On({1}, "null");
  EXPECT_THROW_MESSAGE(extract_compiled_graph(
                           [&](const Tensors& in) {
                             return Tensors{in[0] + 1.0, other};
                           },
                           {On({1})}),
                       ValueError, "reference:0 and null:0");
  EXPECT_THROW_MESSAGE(
      extract_compiled_graph([](const Tensors& in) { return in; }, {On({1}), other}), ValueError,
      "reference:0 and null:0");
}

TEST(Capture, RefusesUndefinedTensorsAndEagerMode) {
  auto identity = [](const Tensors& in) { return in; };
  EXPECT_THROW_MESSAGE(extract_compiled_graph(identity, {Tensor()}), ValueError, "undefined");
  EXPECT_THROW_MESSAGE(
      extract_compiled_graph([](const Tensors&) { return Tensors{Tensor()}; }, {On({1})}),
      ValueError, "output 0 is undefined");
  EXPECT_THROW_MESSAGE(CompiledGraph()({}), ValueError, "it is empty");
  EagerMode eager;
  EXPECT_THROW_MESSAGE(extract_compiled_graph(identity, {On({1})}), NotSupported, "eager mode");
}

TEST(Capture, ChecksArguments) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) { return Tensors{in[0] + in[1]}; }, {On({1, 2}), On({1, 2})});
  Tensor good = On({1, 2});
  EXPECT_THROW_MESSAGE(graph({good}), ValueError, "1 argument(s) given, needs 2");
  EXPECT_THROW_MESSAGE(graph({good, On({1})}), ValueError, "argument 1 is f32[1], needs f32[2]");
  EXPECT_THROW_MESSAGE(graph({good, good.to(DType::kF64)}), TypeError,
                       "argument 1 is f64[2], needs f32[2]");
  EXPECT_THROW_MESSAGE(graph({good, On({1, 2}, "null")}), ValueError,
                       "argument 1 is on null:0, needs reference:0");
  EXPECT_THROW_MESSAGE(graph({good, Tensor()}), ValueError, "argument 1 is undefined");
}

TEST(Capture, RefusesAliasesOfAnUpdatedArgument) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor x = in[0];
        x += in[1];
        return Tensors{};
      },
      {On({1, 2}), On({1, 2})});
  Tensor x = On({1, 2});
  EXPECT_THROW_MESSAGE(graph({x, x}), ValueError, "shares its memory with argument 1");
  EXPECT_THROW_MESSAGE(graph({x, x.view({2})}), ValueError, "shares its memory with argument 1");
  EXPECT_TENSOR_EQ(x, {1.0f, 2.0f}, {2});
}

TEST(Capture, RespectsForbiddenExecution) {
  CompiledGraph graph =
      extract_compiled_graph([](const Tensors& in) { return Tensors{in[0] + 1.0}; }, {On({1})});
  NoExecution guard("only tracing");
  EXPECT_THROW_MESSAGE(graph({On({1})}), ValueError, "only tracing");
}

TEST(Capture, AFailedReplayLeavesArgumentsAndCanBeTriedAgain) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor weight = in[0];
        weight -= exp(in[1]);
        return Tensors{in[1] * 3.0, weight * 1.0};
      },
      {On({0}), On({0})});
  Tensor weight = On({5}), x = On({0});
  Tensors out;
  {
    ScopedFault fault([](FaultPoint point, std::string_view detail) {
      if (point == FaultPoint::kExecute && detail == "exp") {
        throw OutOfMemory(ErrorCode::kOutOfMemory, "no memory for exp");
      }
    });
    out = graph({weight, x});
    EXPECT_THROW_MESSAGE(weight.host(), OutOfMemory, "no memory for exp");
  }
  EXPECT_TENSOR_EQ(weight, {5.0f}, {1}) << "the update is undone";
  EXPECT_THROW_MESSAGE(out[1].host(), OutOfMemory, "no memory for exp") << "errors stay";
  EXPECT_TENSOR_EQ(x, {0.0f}, {1});
  executor()->ClearErrors(out[1]);
  EXPECT_TENSOR_EQ(out[0], {0.0f}, {1});
  EXPECT_TENSOR_EQ(out[1], {4.0f}, {1});
}

TEST(Capture, ResultsThatDoNotNeedTheFailedOpAreObtainable) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        return Tensors{exp(in[0]), in[0] * 3.0};
      },
      {On({0})});
  ScopedFault fault([](FaultPoint point, std::string_view detail) {
    if (point == FaultPoint::kExecute && detail == "exp") {
      throw OutOfMemory(ErrorCode::kOutOfMemory, "no memory for exp");
    }
  });
  Tensors out = graph({On({2})});
  EXPECT_THROW(out[0].host(), OutOfMemory);
  executor()->ClearErrors(out[1]);
  EXPECT_TENSOR_EQ(out[1], {6.0f}, {1});
}

TEST(Capture, PinsItsEntry) {
  executor()->ClearComputationCache();
  config::Override one("compilation_cache_size", "1");
  auto graph = std::make_unique<CompiledGraph>(
      extract_compiled_graph([](const Tensors& in) { return Tensors{in[0] - 1.0}; }, {On({1})}));
  Hash128 hash = graph->hash();
  Tensor x = On({1});
  (x * x).host();
  (x + x).host();
  EXPECT_TRUE(executor()->IsCached(hash));
  graph = nullptr;
  (x / x).host();
  EXPECT_FALSE(executor()->IsCached(hash));
}

TEST(Capture, MayBeCalledFromSeveralThreads) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor sum = in[0];
        sum += in[1];
        return Tensors{sum * 2.0};
      },
      {On({0, 0}), On({0, 0})});
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&graph, t] {
      Tensor sum = On({0, 0}), one = On({1.0 * t, 1.0 * t}), doubled;
      for (int i = 0; i < 50; ++i) doubled = graph({sum, one})[0];
      EXPECT_TENSOR_EQ(sum, {50.0 * t, 50.0 * t}, {2});
      EXPECT_TENSOR_EQ(doubled, {100.0 * t, 100.0 * t}, {2});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Capture, ThreadsMayShareAnInputThatIsNotUploadedYet) {
  CompiledGraph graph =
      extract_compiled_graph([](const Tensors& in) { return Tensors{in[0] + 1.0}; }, {On({0, 0})});
  Tensors shared;
  for (int i = 0; i < 300; ++i) shared.push_back(On({1, 2}));
  std::barrier start(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (const Tensor& input : shared) {
        Tensor own = Tensor::FromValue(input.value());
        Tensor sum = own + 1.0;
        start.arrive_and_wait();
        EXPECT_TENSOR_EQ(t == 0 ? graph({own})[0] : sum, {2.0, 3.0}, {2});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Capture, KnowsItsText) {
  CompiledGraph graph =
      extract_compiled_graph([](const Tensors& in) { return Tensors{exp(in[0])}; }, {On({1})});
  EXPECT_NE(graph.text().find("%1 = exp %0 : f32[1]"), std::string::npos) << graph.text();
  EXPECT_NE(graph.text().find("@ capture_test.cpp:"), std::string::npos) << graph.text();
}

TEST(Capture, SharesTheCacheWithTracedSteps) {
  Tensor x = On({1, 2, 3, 4, 5});
  Tensor y = exp(x) * x;
  Hash128 hash = executor()->GetGraphHash(std::span(&y, 1));
  y.host();
  int64_t compiles = Compiles();
  CompiledGraph graph =
      extract_compiled_graph([](const Tensors& in) { return Tensors{exp(in[0]) * in[0]}; }, {x});
  EXPECT_EQ(graph.hash(), hash);
  EXPECT_EQ(Compiles(), compiles);
}

// ---- RunCachedGraph

TEST(RunCachedGraph, RunsByHash) {
  Tensor x = On({1, 2}), y = On({3, 4});
  Tensor z = x - y;
  Hash128 hash = executor()->GetGraphHash(std::span(&z, 1));
  z.host();
  Tensors out = executor()->RunCachedGraph(hash, {On({9, 9}), On({1, 2})});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TENSOR_EQ(out[0], {8.0f, 7.0f}, {2});
  EXPECT_THROW_MESSAGE(executor()->RunCachedGraph(hash, {x}), ValueError, "1 argument(s) given");
  EXPECT_THROW_MESSAGE(executor()->RunCachedGraph(hash, {x, On({1})}), ValueError,
                       "argument 1 is f32[1], needs f32[2]");
}

TEST(RunCachedGraph, NamesAHashThatIsNotThere) {
  Hash128 hash{1, 2};
  EXPECT_THROW_MESSAGE(executor()->RunCachedGraph(hash, {}), ValueError, ToString(hash));
  config::Override one("compilation_cache_size", "1");
  Tensor x = On({1, 2});
  Tensor y = x - x;
  hash = executor()->GetGraphHash(std::span(&y, 1));
  y.host();
  (x * x * x).host();
  EXPECT_THROW_MESSAGE(executor()->RunCachedGraph(hash, {x}), ValueError, "has been evicted since");
}

// ---- Donation

class CaptureDonation : public ::testing::Test {
 protected:
  using Mask = std::vector<bool>;
  testing::HostBackend& backend = *new testing::HostBackend("donor");
  testing::Registered registered{backend};

  Tensor OnDonor(std::initializer_list<double> values) {
    Tensor result = On(values, "donor") + 0.0;
    sync_multi({result});
    return result;
  }
  /// Arguments: what is updated in place, by how much.
  CompiledGraph Update() {
    return extract_compiled_graph(
        [](const Tensors& in) {
          Tensor w = in[0];
          w -= in[1];
          return Tensors{w * 2.0};
        },
        {OnDonor({0, 0}), OnDonor({0, 0})});
  }
};

TEST_F(CaptureDonation, UpdatedArgumentsGiveTheirMemory) {
  CompiledGraph graph = Update();
  Tensor w = OnDonor({5, 6}), by = OnDonor({1, 2});
  for (int i = 1; i <= 3; ++i) {
    Tensor doubled = graph({w, by})[0];
    Mask mask = backend.donations().back();
    EXPECT_EQ(std::count(mask.begin(), mask.end(), true), 1);
    EXPECT_TENSOR_EQ(doubled, {2 * (5.0f - i), 2 * (6.0f - 2 * i)}, {2});
    EXPECT_TENSOR_EQ(w, {5.0f - i, 6.0f - 2 * i}, {2});
  }
  EXPECT_TENSOR_EQ(by, {1.0f, 2.0f}, {2});
}

TEST_F(CaptureDonation, WhatIsStillNeededIsKept) {
  CompiledGraph graph = Update();
  Tensor by = OnDonor({1, 2});
  auto donates = [&](Tensor& w) {
    graph({w, by});
    const Mask mask = backend.donations().back();
    return std::find(mask.begin(), mask.end(), true) != mask.end();
  };
  Tensor read_later = OnDonor({5, 6});
  Tensor pending = read_later * 10.0;
  EXPECT_FALSE(donates(read_later));
  EXPECT_TENSOR_EQ(pending, {50.0f, 60.0f}, {2});
  Tensor viewed = OnDonor({5, 6});
  Tensor view = viewed.slice(0, 0, 1);
  EXPECT_FALSE(donates(viewed));
  EXPECT_TENSOR_EQ(view, {4.0f}, {1});
  Tensor kept = OnDonor({5, 6});
  {
    config::Override off("param_aliasing", "false");
    EXPECT_FALSE(donates(kept));
  }
  EXPECT_TRUE(donates(kept));
  EXPECT_TENSOR_EQ(kept, {3.0f, 2.0f}, {2});
}

TEST_F(CaptureDonation, AReturnedOldValueIsKept) {
  CompiledGraph graph = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor w = in[0];
        Tensor old = w.clone();
        w += 1.0;
        return Tensors{old};
      },
      {OnDonor({0, 0})});
  Tensor w = OnDonor({5, 6});
  Tensor old = graph({w})[0];
  EXPECT_TENSOR_EQ(old, {5.0f, 6.0f}, {2});
  EXPECT_TENSOR_EQ(w, {6.0f, 7.0f}, {2});
}

TEST_F(CaptureDonation, AFailureLeavesWhatWasToBeGivenAway) {
  CompiledGraph graph = Update();
  Tensor w = OnDonor({5, 6}), by = OnDonor({1, 2});
  backend.before_execute = [](const lazy::Computation&) { throw std::runtime_error("not now"); };
  Tensor doubled = graph({w, by})[0];
  EXPECT_THROW(w.host(), Error);
  backend.before_execute = nullptr;
  executor()->ClearErrors(doubled);
  EXPECT_TENSOR_EQ(doubled, {8.0f, 8.0f}, {2});
  EXPECT_TENSOR_EQ(w, {5.0f, 6.0f}, {2});
  graph({w, by});
  EXPECT_TENSOR_EQ(w, {4.0f, 4.0f}, {2});
}

TEST(Capture, SaysThatItsBackendIsGone) {
  testing::HostBackend& backend = *new testing::HostBackend("leaving");
  CompiledGraph graph;
  Tensor x;
  {
    testing::Registered registered(backend);
    x = On({1, 2}, "leaving");
    graph = extract_compiled_graph([](const Tensors& in) { return Tensors{in[0] * 2.0}; }, {x});
  }
  try {
    graph({x});
    ADD_FAILURE() << "nothing was raised";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotRegistered);
    EXPECT_NE(std::string(error.what())
                  .find("compiled graph: the backend of device leaving:0 is no "
                        "longer registered"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace hammock
