// In-place writes of one step happen together or not at all: a step that fails leaves weights,
// optimiser state, buffers and views as they were before it, and so do the steps behind it.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "hammock/checkpoint.h"
#include "hammock/compile.h"
#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "hammock/optim.h"
#include "ir/expect_error.h"
#include "runtime/runtime.h"
#include "runtime/step/closures.h"

namespace hammock {
namespace {

using namespace hammock::testing;

using Floats = std::vector<float>;
Floats FloatsOf(const Tensor& tensor) {
  HostTensor host = tensor.host();
  auto values = host.values<float>();
  return {values.begin(), values.end()};
}

/// What `fn` raises, as text; empty if nothing.
template <class Fn>
std::string TextOf(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// What the next mark raises once it is known how earlier steps ended; empty if nothing.
std::string Raised() {
  const Device device;
  device.backend().Hurry(device.backend_device());
  return TextOf([] { mark_step(); });
}

class WriteUnits : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    device_ = GetParam();
    SetDefaultDevice(device_);
  }
  void TearDown() override {
    TextOf([] { wait_device_ops(); });
    SetDefaultDevice("cpu");
  }
  /// An index that is out of range if `bad`; large, so that steps are queued.
  Tensor Picked(const Tensor& x, bool bad) {
    return index_select(x, 0, tensor(std::vector<int64_t>{bad ? 1000000 : 0}));
  }
  /// Whether the device keeps a limit of memory.
  bool LimitsMemory() const {
    return TextOf([&] { SetMemoryLimit(Device(device_), 0); }).empty();
  }
  std::string device_;
};

#ifndef HAMMOCK_WRITE_UNITS_ON
#define HAMMOCK_WRITE_UNITS_ON "reference", "cpu"
#endif
INSTANTIATE_TEST_SUITE_P(On, WriteUnits, ::testing::Values(HAMMOCK_WRITE_UNITS_ON));

TEST_P(WriteUnits, AFailedStepLeavesItsTensorsAsTheyWere) {
  Tensor w = ones({4}), m = zeros({4});
  mark_step(true);
  step([&] {
    m.add_(1.0f);  // does not depend on what fails
    w.sub_(Picked(w, true));
  });
  EXPECT_NE(Raised().find("index_select"), std::string::npos);
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
  EXPECT_EQ(FloatsOf(m), Floats(4, 0)) << "none of a step's writes happens";
  step([&] {
    m.add_(1.0f);
    w.sub_(Picked(w, false) * 0.5f);
  });
  EXPECT_EQ(FloatsOf(w), Floats(4, 0.5));
  EXPECT_EQ(FloatsOf(m), Floats(4, 1));
}

TEST_P(WriteUnits, AStepThatAnExceptionLeavesLeavesItsTensorsAsTheyWere) {
  Tensor w = ones({4}), m = zeros({2, 2});
  mark_step(true);
  Tensor seen;
  auto body = [&] {
    m[0].add_(1.0f);  // through a view
    w.mul_(10.0f);
    seen = w * 2.0f;
    EXPECT_EQ(w[0].item<float>(), 10) << "inside of the step it has happened";
    matmul(ones({2, 3}), ones({2, 3}));  // raises when it is recorded
  };
  EXPECT_ERROR(step(body), ValueError, "matmul");
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
  EXPECT_EQ(FloatsOf(m), Floats(4, 0));
  EXPECT_NE(TextOf([&] { seen.host(); }).find("an exception has left"), std::string::npos);
  // What was marked stands; an inner step belongs to the outer one.
  EXPECT_THROW(
      {
        StepScope scope;
        w.add_(1.0f);
        scope.Mark();
        step([&] { w.add_(1.0f); });
        w.add_(1.0f);
        throw std::runtime_error("a user's");
      },
      std::runtime_error);
  EXPECT_EQ(FloatsOf(w), Floats(4, 3));
  step([&] { w.add_(1.0f); });
  EXPECT_EQ(FloatsOf(w), Floats(4, 4));
}

TEST_P(WriteUnits, TheErrorIsRaisedBeforeTheNextStepRunsWhateverTheSize) {
  for (int64_t size : {4, 100000}) {
    Tensor w = ones({size});
    mark_step(true);
    int64_t failed = CounterOf("FailedSteps");
    step([&] { w.sub_(Picked(w, true)); });  // raises nothing, also where it runs at once
    while (CounterOf("FailedSteps") == failed) std::this_thread::yield();
    bool ran = false;
    std::string text = TextOf([&] { step([&] { ran = true; }); });
    EXPECT_FALSE(ran);
    EXPECT_NE(text.find("index_select"), std::string::npos) << text;
    EXPECT_NE(text.find("undone"), std::string::npos) << text;
    EXPECT_EQ(w[size - 1].item<float>(), 1);
  }
}

TEST_P(WriteUnits, AReadOfAWrittenTensorRaisesOnceAndHasTheOldValueThen) {
  Tensor w = ones({4});
  mark_step(true);
  step([&] { w.sub_(Picked(w, true)); });
  EXPECT_NE(TextOf([&] { w.host(); }), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
  mark_step();  // it has been raised
}

TEST_P(WriteUnits, NewValuesOfAFailedStepKeepTheError) {
  Tensor w = ones({4}), copy, doubled;
  mark_step(true);
  step([&] {
    w.sub_(Picked(w, true));
    copy = w.clone();
    doubled = w * 2.0f;
  });
  EXPECT_NE(Raised(), "");
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(TextOf([&] { copy.host(); }), "");
    EXPECT_NE(TextOf([&] { doubled.host(); }), "");
  }
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
}

TEST_P(WriteUnits, StepsBehindAFailedOneAreUndoneToo) {
  Tensor w = ones({100000}), m = zeros({8});
  mark_step(true);
  std::string text;
  try {
    for (int i = 0; i < 6; ++i) {
      step([&] {
        w.sub_(Picked(w, i == 2) * 0.0f);
        w.add_(1.0f);
        m.add_(w[0]);
      });
    }
    wait_device_ops();
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("index_select"), std::string::npos) << text;
  EXPECT_EQ(w[7].item<float>(), 3) << "two steps before it";
  EXPECT_EQ(m[0].item<float>(), 5);
}

TEST_P(WriteUnits, ClosuresOfDroppedStepsGetTheError) {
  for (bool async : {false, true}) {
    Tensor w = ones({100000});
    mark_step(true);
    std::vector<std::string> heard(3, "nothing");
    std::optional<Gate> gate;
    if (async && device_ == "reference") gate.emplace();  // all three are queued
    std::string raised = TextOf([&] {
      for (size_t i = 0; i < heard.size(); ++i) {
        step([&] {
          w.add_(Picked(w, i == 1));
          Tensor total = w.sum();
          add_step_closure([&heard, i, total] { heard[i] = TextOf([&] { total.item(); }); }, async);
        });
      }
    });
    gate.reset();
    DrainStepClosures();
    Raised();
    EXPECT_EQ(heard[0], "");
    EXPECT_NE(heard[1].find("index_select"), std::string::npos) << heard[1];
    // The third was dropped with the second, or began after the error was raised, or never did.
    const float then = w[7].item<float>();
    if (heard[2] == "") {
      EXPECT_EQ(then, 4);
    } else {
      EXPECT_EQ(then, 2);
      EXPECT_NE(heard[2].find(raised.empty() ? "index_select" : "nothing"), std::string::npos)
          << heard[2];
    }
    if (!async) {
      EXPECT_EQ(heard[2], "") << "the closure of the second has heard it";
    } else if (device_ == "reference") {
      EXPECT_NE(heard[2].find("index_select"), std::string::npos) << heard[2];
    }
  }
}

TEST_P(WriteUnits, AWriteThatDoesNotDependOnTheFailureStands) {
  Tensor w = ones({4}), m = zeros({4}), saved = full({4}, 7.0f);
  mark_step(true);
  step([&] {
    w.sub_(Picked(w, true));
    m.add_(1.0f);
  });
  w.copy_(saved);
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 7));
  EXPECT_EQ(FloatsOf(m), Floats(4, 0));
  EXPECT_EQ(FloatsOf(saved), Floats(4, 7));
  step([&] { w.add_(1.0f); });
  EXPECT_EQ(FloatsOf(w), Floats(4, 8));
}

TEST_P(WriteUnits, AnUnrelatedMetricFailsAlone) {
  Tensor w = ones({4}), metric;
  mark_step(true);
  step([&] {
    metric = Picked(w, true);
    w.mul_(3.0f);
  });
  EXPECT_EQ(FloatsOf(w), Floats(4, 3));
  EXPECT_NE(TextOf([&] { metric.host(); }), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 3));
  step([&] { w.mul_(3.0f); });
  EXPECT_EQ(FloatsOf(w), Floats(4, 9));
}

TEST_P(WriteUnits, ViewsSeeTheOldValue) {
  Tensor base = arange(6, f32).reshape({2, 3});
  Tensor row = base[1], flat = base.view({6});
  mark_step(true);
  step([&] {
    row.add_(10.0f);
    flat.slice(0, 0, 2).copy_(Picked(base, true)[0].slice(0, 0, 2));
  });
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(base), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(FloatsOf(row), (Floats{3, 4, 5}));
  EXPECT_EQ(FloatsOf(flat), (Floats{0, 1, 2, 3, 4, 5}));
  step([&] { row.add_(1.0f); });
  EXPECT_EQ(FloatsOf(flat), (Floats{0, 1, 2, 4, 5, 6}));
}

TEST_P(WriteUnits, ATensorThatGetsViewsInAFailedStepIsUndone) {
  Tensor w = ones({4});
  mark_step(true);
  step([&] {
    w.add_(1.0f);
    w[0].add_(Picked(w, true)[0]);
  });
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
}

TEST_P(WriteUnits, ReadsInsideOfAStepDoNotCutItsUnit) {
  Tensor w = ones({4}), m = zeros({4});
  mark_step(true);
  step([&] {
    m.add_(1.0f);
    EXPECT_EQ(FloatsOf(m), Floats(4, 1));
    w.sub_(Picked(w, true));
  });
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(m), Floats(4, 0));
}

TEST_P(WriteUnits, OutsideOfStepsAUnitGoesFromOneMarkToTheNext) {
  Tensor w = ones({4}), m = zeros({4});
  mark_step(true);
  m.add_(1.0f);
  w.sub_(Picked(w, true));
  mark_step();
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(m), Floats(4, 0));
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
}

TEST_P(WriteUnits, OutsideOfStepsWhatWasReadStands) {
  Tensor w = zeros({4}), other = zeros({4});
  w.fill_(7.0);
  other.fill_(3.0);
  EXPECT_EQ(FloatsOf(w), Floats(4, 7));
  w.add_(Picked(ones({3}), true).sum());
  EXPECT_NE(TextOf([&] { w.host(); }), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 7));
  EXPECT_EQ(FloatsOf(other), Floats(4, 3));

  // A loop without `step` whose losses are read: a bad batch costs one update.
  manual_seed(1);
  nn::Linear net(4, 3);
  optim::SGD optimizer(net->parameters(), {.lr = 0.1});
  Tensor x = rand({6, 4});
  auto train = [&](int64_t label) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(net(x), full({6}, label));
    loss.backward();
    optimizer.step();
    return loss.item<double>();
  };
  train(0);
  train(1);
  Floats before = FloatsOf(net->weight);
  EXPECT_NE(TextOf([&] { train(5); }), "");
  EXPECT_EQ(FloatsOf(net->weight), before);
  EXPECT_EQ(TextOf([&] { train(2); }), "");
  EXPECT_NE(FloatsOf(net->weight), before);
}

TEST_P(WriteUnits, OneBadBatchIsOneError) {
  manual_seed(1);
  nn::Linear net(4, 3);
  optim::SGD optimizer(net->parameters(), {.lr = 0.1});
  Tensor x = rand({6, 4});
  auto train = [&](int64_t label) {
    Tensor loss;
    step([&] {
      optimizer.zero_grad();
      loss = cross_entropy(net(x), full({6}, label));
      loss.backward();
      optimizer.step();
    });
    loss.item<double>();
  };
  for (int i = 0; i < 4; ++i) {
    Floats before = FloatsOf(net->weight);
    // The loss and its gradient fail in ops of their own, at one line.
    std::string text = TextOf([&] { train(3); });
    EXPECT_NE(text.find("the step is undone"), std::string::npos) << text;
    EXPECT_EQ(text.find("also:"), std::string::npos) << text;
    EXPECT_EQ(FloatsOf(net->weight), before);
    EXPECT_EQ(TextOf([&] { train(i % 3); }), "");
    EXPECT_NE(FloatsOf(net->weight), before);
  }
}

TEST_P(WriteUnits, WhatWasWrittenBeforeAStepIsNoPartOfIt) {
  Tensor w = ones({4});
  w.add_(1.0f);  // as an initialiser does; not computed yet
  step([&] { w.sub_(Picked(w, true)); });
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 2));
}

TEST_P(WriteUnits, CompiledFunctionsAreUndone) {
  Tensor w = ones({4}), m = zeros({4});
  mark_step(true);
  auto train = compile(
      [&](const Tensor& index) {
        m.add_(1.0f);
        w.sub_(index_select(w, 0, index) * 0.5f);
        return w.sum();
      },
      {w, m});
  Tensor good = zeros({1}, i64), bad = full({1}, 9, i64);
  EXPECT_EQ(train(good).item<float>(), 2);
  Tensor failed = train(bad);
  EXPECT_NE(TextOf([&] { failed.item(); }), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 0.5));
  EXPECT_EQ(FloatsOf(m), Floats(4, 1));
  EXPECT_EQ(train(good).item<float>(), 1);
  train(bad);
  EXPECT_NE(TextOf([&] {
              while (true) train(good);
            }),
            "")
      << "before the next call";
  EXPECT_EQ(FloatsOf(m)[0], FloatsOf(m)[3]);
  // In a step, with another write that fails.
  Floats before = FloatsOf(w);
  step([&] {
    train(good);
    m.add_(Picked(w, true)[0]);
  });
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(w), before);
}

/// Whether the call has failed when the rest of the step is recorded or not.
TEST_P(WriteUnits, ACompiledCallThatFailsTakesItsStepWithIt) {
  for (int64_t size : {4, 200000}) {
    Tensor w = ones({size}), m = zeros({size}), other = zeros({4});
    mark_step(true);
    auto train = compile(
        [&](const Tensor& index) {
          m.add_(1.0f);  // does not depend on what fails
          w.sub_(index_select(w, 0, index) * 0.5f);
        },
        {w, m});
    Tensor good = zeros({1}, i64), bad = full({1}, 1000000, i64);
    auto body = [&](const Tensor& index, bool first) {
      if (!first) other.add_(1.0f);
      train(index);
      if (first) other.add_(1.0f);
    };
    float w_now = 1, steps = 0;
    for (bool first : {true, false, true}) {
      step([&] { body(bad, first); });
      EXPECT_NE(TextOf([] { wait_device_ops(); }), "");
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(w[3].item<float>(), w_now) << size;
        EXPECT_EQ(m[3].item<float>(), steps) << size;
        EXPECT_EQ(FloatsOf(other), Floats(4, steps)) << size;
        step([&] { body(good, first); });
        w_now /= 2;
        ++steps;
      }
    }
    EXPECT_EQ(w[3].item<float>(), w_now);
    EXPECT_EQ(m[3].item<float>(), steps);
  }
}

TEST_P(WriteUnits, QueuedCompiledCallsAreUndoneTogether) {
  Tensor w = ones({4}), big = ones({200000});
  mark_step(true);
  auto train = compile(
      [&](const Tensor& index) {
        big.add_(1.0f);
        w.add_(index_select(w, 0, index));
        return w.sum();
      },
      {w, big});
  Tensor good = zeros({1}, i64), bad = full({1}, 9, i64);
  EXPECT_EQ(train(good).item<float>(), 8);
  EXPECT_NE(TextOf([&] {
              train(bad);
              for (int i = 0; i < 3; ++i) train(good);
              wait_device_ops();
            }),
            "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 2));
  EXPECT_EQ(big[9].item<float>(), 2);
}

TEST_P(WriteUnits, GradientsOfAFailedStepAreAsBefore) {
  Tensor w = ones({4}).requires_grad_();
  mark_step(true);
  step([&] { w.sum().backward(); });
  EXPECT_EQ(FloatsOf(w.grad()), Floats(4, 1));
  step([&] { (w * Picked(w.detach(), true)).sum().backward(); });
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(w.grad()), Floats(4, 1)) << "accumulated in place";
  w.set_grad(Tensor());
  step([&] { (w * Picked(w.detach(), true)).sum().backward(); });
  EXPECT_NE(Raised(), "");
  EXPECT_FALSE(w.grad().defined());
  step([&] { w.sum().backward(); });
  EXPECT_EQ(FloatsOf(w.grad()), Floats(4, 1));
}

TEST_P(WriteUnits, TheLearningRateIsThatOfTheSchedule) {
  Tensor w = ones({4}).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 1});
  optim::StepLR schedule(optimizer, 1, 0.5);
  mark_step(true);
  auto train = [&](bool bad) {
    step([&] {
      optimizer.zero_grad();
      (w + w * Picked(w.detach(), bad) * 0.0f).sum().backward();
      optimizer.step();
    });
    schedule.step();
  };
  train(false);
  train(true);
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 0));
  EXPECT_EQ(optimizer.lr(), 0.25) << "what the host does is not undone";
  train(false);
  EXPECT_EQ(FloatsOf(w), Floats(4, -0.25));
}

TEST_P(WriteUnits, OutOfMemoryLosesNothing) {
  if (!LimitsMemory()) GTEST_SKIP() << "it keeps no limit";
  Tensor w = ones({4}), m = zeros({4});
  mark_step(true);
  int64_t in_use = GetMemoryInfo(Device(device_)).in_use;
  SetMemoryLimit(Device(device_), in_use + (1 << 20));
  step([&] {
    m.add_(1.0f);
    Tensor huge = zeros({1 << 20}) + w[0];
    w.sub_(std::get<0>(sort(huge)).slice(0, 0, 4));
  });
  std::string text = Raised();
  SetMemoryLimit(Device(device_), 0);
  EXPECT_NE(text.find("exceed the limit"), std::string::npos) << text;
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
  EXPECT_EQ(FloatsOf(m), Floats(4, 0));
  step([&] { w.add_(1.0f); });
  EXPECT_EQ(FloatsOf(w), Floats(4, 2));
}

/// What a unit wrote is gone then, so the unit may not look at it any more.
TEST_P(WriteUnits, ValuesThatAreReplacedBelongToNoUnit) {
  auto written = [&] {
    Tensor x = ones({2, 2});
    return x.add_(1.0);  // in a unit that is open
  };
  Tensor resized = written(), donated = written(), eager = written();
  resize_(resized, {4});
  donate(donated);
  {
    EagerMode mode;
    eager.mul_(3.0);
  }
  nn::Linear layer(2, 2);
  layer->to(Device("reference"));
  layer->to(Device(device_));
  mark_step();
  EXPECT_EQ(FloatsOf(resized), (Floats{2, 2, 2, 2}));
  EXPECT_EQ(FloatsOf(eager), (Floats{6, 6, 6, 6}));
  EXPECT_EQ(FloatsOf(layer->weight).size(), 4u);
  wait_device_ops();
}

TEST_P(WriteUnits, AnotherThreadHearsItForAll) {
  Tensor w = ones({4}), m = zeros({4});
  mark_step(true);
  step([&] {
    m.add_(1.0f);
    w.sub_(Picked(w, true));
  });
  std::thread([&] { EXPECT_NE(TextOf([&] { w.host(); }), ""); }).join();
  EXPECT_EQ(FloatsOf(m), Floats(4, 0));
  mark_step();
}

TEST_P(WriteUnits, ABarrierOfAnotherThreadChangesNoTensors) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back(zeros({4}));
  mark_step(true);
  std::atomic<int> heard{0};
  std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) heard += !TextOf([] { wait_device_ops(); }).empty();
  });
  for (int i = 0; i < 100; ++i) {
    step([&] {
      Tensor bad = Picked(tensors[0], true);
      for (Tensor& tensor : tensors) tensor.add_(bad);
    });
    std::this_thread::yield();
    EXPECT_NE(TextOf([&] { tensors[0].host(); }), "");
    step([&] {
      for (Tensor& tensor : tensors) tensor.add_(1.0);
    });
  }
  other.request_stop();
  other.join();
  EXPECT_EQ(heard, 0);
  for (const Tensor& tensor : tensors) EXPECT_EQ(FloatsOf(tensor), Floats(4, 100));
}

TEST_P(WriteUnits, ABarrierRaisesTheErrorsOfThreadsThatHaveEnded) {
  Tensor w = ones({4});
  mark_step(true);
  std::thread([&] { step([&] { w.sub_(Picked(w, true)); }); }).join();
  EXPECT_NE(TextOf([] { wait_device_ops(); }), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
}

TEST_P(WriteUnits, AnotherThreadsStepsDoNotRaiseIt) {
  Tensor w = ones({4});
  mark_step(true);
  step([&] { w.sub_(Picked(w, true)); });
  std::thread([&] {
    Tensor other = ones({4});
    step([&] { other.add_(1.0f); });
    mark_step();
    EXPECT_EQ(FloatsOf(other), Floats(4, 2));
  }).join();
  EXPECT_NE(Raised(), "");
}

TEST_P(WriteUnits, WritesAreInPlaceAlsoInQueuedSteps) {
  if (!LimitsMemory()) GTEST_SKIP() << "it keeps no limit";
  if (device_ == "reference") GTEST_SKIP() << "it computes every value in memory of its own";
  constexpr int64_t kSize = 1 << 20;
  Tensor w = ones({kSize}), m = zeros({kSize});
  auto train = [&] {
    step([&] {
      m.add_(w);
      w.sub_(m * 0.001f);
    });
  };
  for (int i = 0; i < 3; ++i) train();
  wait_device_ops();
  auto peak = [&](int steps, bool wait) {
    int64_t most = 0;
    for (int i = 0; i < steps; ++i) {
      train();
      if (wait) wait_device_ops();
      most = std::max(most, GetMemoryInfo(Device(device_)).in_use);
    }
    wait_device_ops();
    return std::max(most, GetMemoryInfo(Device(device_)).in_use);
  };
  int64_t awaited = peak(20, true);
  EXPECT_EQ(peak(20, false), awaited);
  EXPECT_LT(awaited, 3 * kSize * 4) << "no second copy of the state";
}

/// A cache of a text: each step looks a row up, writes it at a position of its own and reads all.
TEST_P(WriteUnits, ASliceIsWrittenInPlaceBehindALookup) {
  if (!LimitsMemory()) GTEST_SKIP() << "it keeps no limit";
  if (device_ == "reference") GTEST_SKIP() << "it computes every value in memory of its own";
  constexpr int64_t kRows = 64, kWidth = 1 << 14;
  Tensor table = ones({4, kWidth}), cache = zeros({kRows, kWidth});
  auto write = [&](int64_t position, int64_t row) {
    Tensor sum;
    step([&] {
      Tensor index = full({1}, row, i64);
      cache.narrow(0, position, 1).copy_(index_select(table, 0, index));
      sum = cache.sum(Dims{1});
    });
    return sum;
  };
  for (int i = 0; i < 3; ++i) write(i, 1);
  wait_device_ops();
  // No room for a second cache.
  SetMemoryLimit(Device(device_),
                 GetMemoryInfo(Device(device_)).in_use + kRows * kWidth * int64_t{4} / 2);
  for (int i = 3; i < 20; ++i) {
    write(i, i % 4);
    // In a queue of the CPU the sum of the step before still refers to the cache.
    if (device_.starts_with("cpu")) wait_device_ops();
  }
  wait_device_ops();
  Floats expected(kRows);
  std::fill_n(expected.begin(), 20, static_cast<float>(kWidth));
  EXPECT_EQ(FloatsOf(cache.sum(Dims{1})), expected);
  Tensor lost = write(20, 9);  // there is no such row
  EXPECT_THROW(FloatsOf(lost), Error);
  EXPECT_EQ(FloatsOf(cache.sum(Dims{1})), expected) << "what was there before";
  SetMemoryLimit(Device(device_), 0);
}

// ---- Optimisers

struct Learner {
  Learner() : net(4, 4), x(randn({8, 4})), good(zeros({8}, i64)), bad(full({8}, 7, i64)) {}
  nn::Linear net;
  Tensor x, good, bad;

  template <class Optimizer>
  void Step(Optimizer& optimizer, const Tensor& labels) {
    step([&] {
      optimizer.zero_grad();
      cross_entropy(net(x), labels).backward();
      optimizer.step();
    });
  }
};

std::vector<Floats> StateOf(const Learner& learner, const optim::Optimizer& optimizer) {
  std::vector<Floats> state;
  for (const Tensor& param : learner.net->parameters()) state.push_back(FloatsOf(param));
  for (const auto& [name, tensor] : optimizer.state_dict()) {
    state.push_back(FloatsOf(tensor.to(f32)));
  }
  return state;
}

/// A failed first step and a failed third one change nothing.
template <class Optimizer, class Options>
void LosesNothing(const Options& options, const char* name) {
  SCOPED_TRACE(name);
  manual_seed(1);
  Learner learner, twin;
  twin.net->load_state_dict(learner.net->state_dict());
  twin.x = learner.x;
  mark_step(true);
  Optimizer optimizer(learner.net->parameters(), options);
  Optimizer undisturbed(twin.net->parameters(), options);
  for (int i = 0; i < 4; ++i) {
    if (i % 2 == 0) {
      learner.Step(optimizer, learner.bad);
      EXPECT_NE(Raised(), "");
    }
    learner.Step(optimizer, learner.good);
    twin.Step(undisturbed, twin.good);
    EXPECT_EQ(StateOf(learner, optimizer), StateOf(twin, undisturbed)) << "step " << i;
  }
}

TEST_P(WriteUnits, EveryOptimiserLosesNothing) {
  LosesNothing<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}, "SGD");
  LosesNothing<optim::Adam>(optim::AdamOptions{.lr = 0.01}, "Adam");
  LosesNothing<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .amsgrad = true}, "AdamW");
  LosesNothing<optim::Adamax>(optim::AdamaxOptions{}, "Adamax");
  LosesNothing<optim::NAdam>(optim::NAdamOptions{}, "NAdam");
  LosesNothing<optim::RAdam>(optim::RAdamOptions{}, "RAdam");
  LosesNothing<optim::RMSprop>(optim::RMSpropOptions{.momentum = 0.9, .centered = true}, "RMSprop");
  LosesNothing<optim::Adagrad>(optim::AdagradOptions{}, "Adagrad");
  LosesNothing<optim::Adadelta>(optim::AdadeltaOptions{}, "Adadelta");
  LosesNothing<optim::Lion>(optim::LionOptions{}, "Lion");
}

/// Rows of an embedding, whose gradients are sparse; a label that does not exist is bad.
TEST_P(WriteUnits, SparseAdamLosesNothing) {
  manual_seed(1);
  Tensor words = randint(0, 16, {8}), start = randn({16, 4});
  Tensor good = zeros({8}, i64), bad = full({8}, 7, i64);
  auto make = [&] { return start.clone().detach().requires_grad_(); };
  Tensor weight = make(), twin = make();
  mark_step(true);
  optim::SparseAdam optimizer({weight}, {.lr = 0.01}), undisturbed({twin}, {.lr = 0.01});
  auto train = [&](Tensor& table, optim::SparseAdam& rule, const Tensor& labels) {
    step([&] {
      rule.zero_grad();
      cross_entropy(sparse::embedding(words, table), labels).backward();
      rule.step();
    });
  };
  for (int i = 0; i < 4; ++i) {
    if (i % 2 == 0) {
      train(weight, optimizer, bad);
      EXPECT_NE(Raised(), "");
    }
    train(weight, optimizer, good);
    train(twin, undisturbed, good);
    EXPECT_EQ(FloatsOf(weight), FloatsOf(twin)) << i;
    for (const auto& [name, tensor] : optimizer.state_dict()) {
      EXPECT_EQ(FloatsOf(tensor.to(f32)), FloatsOf(undisturbed.state_dict().at(name).to(f32)))
          << name;
    }
  }
  EXPECT_NE(FloatsOf(weight), FloatsOf(start));
}

/// It reads the loss, so the error is raised out of its step, in any of its iterations.
TEST_P(WriteUnits, LbfgsLosesNothing) {
  for (bool in_step : {false, true}) {
    manual_seed(1);
    Learner learner, twin;
    twin.net->load_state_dict(learner.net->state_dict());
    twin.x = learner.x;
    mark_step(true);
    const optim::LBFGSOptions options{.max_iter = 4, .line_search = true};
    optim::LBFGS optimizer(learner.net->parameters(), options);
    optim::LBFGS undisturbed(twin.net->parameters(), options);
    auto train = [&](Learner& who, optim::LBFGS& rule, int bad_call) {
      int calls = 0;
      auto closure = [&] {
        rule.zero_grad();
        Tensor loss = cross_entropy(who.net(who.x), calls++ == bad_call ? who.bad : who.good);
        loss.backward();
        return loss;
      };
      std::string text = TextOf([&] {
        if (!in_step) return void(rule.step(closure));
        step([&] { rule.step(closure); });
      });
      return text + Raised();
    };
    for (int i = 0; i < 3; ++i) {
      EXPECT_NE(train(learner, optimizer, i), "");
      EXPECT_EQ(train(learner, optimizer, -1), "");
      EXPECT_EQ(train(twin, undisturbed, -1), "");
      EXPECT_EQ(StateOf(learner, optimizer), StateOf(twin, undisturbed)) << i << in_step;
    }
  }
}

/// What a scaler and an average know of the last update is undone with the weights.
struct Scaled {
  Scaled() { mark_step(true); }
  Learner learner;
  optim::SGD optimizer{learner.net->parameters(), {.lr = 0.1, .momentum = 0.9}};
  optim::GradScaler scaler{{.init_scale = 8, .growth_interval = 2}};
  optim::EMA average{learner.net->parameters(), 0.9};

  enum class Throw { kNowhere, kAfterBackward, kAfterUnscale, kAfterStep, kAfterUpdate };
  void Train(const Tensor& labels, Throw where = Throw::kNowhere) {
    auto leave = [&](Throw here) {
      if (where == here) throw std::runtime_error("a user's");
    };
    step([&] {
      optimizer.zero_grad();
      scaler.scale(cross_entropy(learner.net(learner.x), labels)).backward();
      leave(Throw::kAfterBackward);
      scaler.unscale_(optimizer);
      leave(Throw::kAfterUnscale);
      optim::clip_grad_norm_(learner.net->parameters(), 1.0);
      scaler.step(optimizer);
      leave(Throw::kAfterStep);
      scaler.update();
      average.update();
      leave(Throw::kAfterUpdate);
    });
  }
  std::vector<Floats> State() const {
    std::vector<Floats> state = StateOf(learner, optimizer);
    for (const StateDict& more : {scaler.state_dict(), average.state_dict()}) {
      for (const auto& [name, tensor] : more) state.push_back(FloatsOf(tensor.to(f32)));
    }
    return state;
  }
};

TEST_P(WriteUnits, AScalerAndAnAverageLoseNothing) {
  using enum Scaled::Throw;
  manual_seed(1);
  Scaled disturbed, twin;
  twin.learner.net->load_state_dict(disturbed.learner.net->state_dict());
  twin.average.load_state_dict(disturbed.average.state_dict());
  twin.learner.x = disturbed.learner.x;
  for (auto where : {kNowhere, kAfterBackward, kAfterUnscale, kAfterStep, kAfterUpdate}) {
    if (where == kNowhere) {
      disturbed.Train(disturbed.learner.bad);
      EXPECT_NE(Raised(), "");
    } else {
      EXPECT_THROW(disturbed.Train(disturbed.learner.good, where), std::runtime_error);
    }
    disturbed.Train(disturbed.learner.good);
    twin.Train(twin.learner.good);
    EXPECT_EQ(disturbed.State(), twin.State()) << static_cast<int>(where);
  }
}

TEST_P(WriteUnits, AScalerForgetsWhatAFailedStepUnscaled) {
  Tensor w = ones({4}).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 1});
  optim::GradScaler scaler({.init_scale = 8});
  auto backward = [&](bool bad) {
    step([&] {
      w.set_grad(Tensor());
      Tensor factor = bad ? Picked(w.detach(), true) : ones({4});
      scaler.scale((w * factor).sum()).backward();
      scaler.unscale_(optimizer);
    });
  };
  backward(true);
  EXPECT_NE(Raised(), "");
  backward(false);
  EXPECT_ERROR(scaler.unscale_(optimizer), ValueError, "since the last update");
  step([&] {
    scaler.step(optimizer);
    scaler.update();
  });
  EXPECT_EQ(FloatsOf(w), Floats(4, 0));
}

// ---- What the error says, and who has it

TEST_P(WriteUnits, TheErrorCountsTheStepsThatAreUndone) {
  Tensor w = ones({100000});
  mark_step(true);
  std::optional<Gate> gate;
  if (device_ == "reference") gate.emplace();  // all are queued
  std::string text = TextOf([&] {
    for (int i = 0; i < 4; ++i) {
      step([&] { w.add_(i == 1 ? Picked(w, true) : ones({1})); });
    }
    if (gate) gate->Open();
    wait_device_ops();
  });
  const bool one = text.find("the step is undone") != std::string::npos;
  const bool some = text.find("2 steps are undone") != std::string::npos ||
                    text.find("3 steps are undone") != std::string::npos;
  EXPECT_TRUE(one || some) << text;
  if (device_ == "reference") {
    EXPECT_NE(text.find("3 steps are undone"), std::string::npos) << text;
  }
  EXPECT_EQ(w[7].item<float>(), 2);
}

TEST_P(WriteUnits, ThePositionOfRandomNumbersIsNotUsedAgain) {
  manual_seed(7);
  std::vector<Floats> undisturbed;
  for (int i = 0; i < 3; ++i) undisturbed.push_back(FloatsOf(rand({8})));
  manual_seed(7);
  Tensor w = zeros({8});
  mark_step(true);
  EXPECT_EQ(FloatsOf(rand({8})), undisturbed[0]);
  step([&] { w.add_(rand({8}) + Picked(w, true)); });
  EXPECT_NE(Raised(), "");
  step([&] { w.add_(rand({8})); });
  EXPECT_EQ(FloatsOf(w), undisturbed[2]) << "as after a step that has succeeded";
}

/// A handle is the program's own: what it was assigned is not undone, and has the error.
TEST_P(WriteUnits, AnAssignedHandleHasTheErrorOfAFailedStep) {
  Tensor w = ones({4}), m = zeros({4});
  mark_step(true);
  step([&] {
    m.add_(1.0f);
    w = w - Picked(w, true);
    m.add_(w);
  });
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(m), Floats(4, 0));
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(TextOf([&] { w.host(); }).find("index_select"), std::string::npos);
  }
  w = full({4}, 3.0f);
  step([&] { m.add_(w); });
  EXPECT_EQ(FloatsOf(m), Floats(4, 3));
}

TEST_P(WriteUnits, AStepOnTwoDevicesIsUndoneOnBoth) {
  const std::string second = device_ == "reference" ? "cpu" : "reference";
  for (bool second_fails : {false, true}) {
    Tensor here = ones({4}), there = full({4}, 5.0f, f32, second);
    mark_step(true);
    wait_device_ops();
    step([&] {
      Tensor bad_here = Picked(here, !second_fails);
      Tensor index = full({1}, second_fails ? 1000000 : 0, i64, second);
      Tensor bad_there = index_select(there, 0, index);
      here.add_(bad_here);
      there.add_(bad_there);
    });
    EXPECT_NE(TextOf([&] { wait_device_ops(); }), "");
    EXPECT_EQ(FloatsOf(here), Floats(4, 1)) << second_fails;
    EXPECT_EQ(FloatsOf(there), Floats(4, 5)) << second_fails;
    step([&] {
      here.add_(1.0f);
      there.add_(1.0f);
    });
    EXPECT_EQ(FloatsOf(here), Floats(4, 2));
    EXPECT_EQ(FloatsOf(there), Floats(4, 6));
  }
}

TEST_P(WriteUnits, AStepWithASegmentOfTheFallbackDeviceIsUndone) {
  config::Override forced("force_fallback", "tanh");
  Tensor w = ones({4}), m = zeros({4});
  mark_step(true);
  step([&] {
    m.add_(tanh(w));
    w.sub_(Picked(tanh(m), true));
  });
  EXPECT_NE(Raised(), "");
  EXPECT_EQ(FloatsOf(w), Floats(4, 1));
  EXPECT_EQ(FloatsOf(m), Floats(4, 0));
  step([&] { m.add_(tanh(w)); });
  EXPECT_FLOAT_EQ(FloatsOf(m)[3], 0.76159416f);
}

}  // namespace
}  // namespace hammock
