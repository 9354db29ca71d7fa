#include "hammock/compile.h"

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/optim.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

int64_t Traced() { return static_cast<int64_t>(metrics::GetCounter("TracedOps").Value()); }

TEST(Compile, TracesOncePerSignature) {
  int calls = 0;
  auto fn = compile([&](const Tensor& x, const Tensor& y) {
    ++calls;
    return x * 2.0 + y;
  });
  EXPECT_TENSOR_EQ(fn(ones({3}), ones({3})), full({3}, 3.0));
  EXPECT_TENSOR_EQ(fn(full({3}, 4.0), ones({3})), full({3}, 9.0));
  EXPECT_EQ(calls, 1);
  EXPECT_TENSOR_EQ(fn(ones({2}), ones({2})), full({2}, 3.0));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(fn.traces(), 2u);
}

TEST(Compile, ReturnsWhatTheFunctionReturns) {
  auto pair = compile([](const Tensor& x) { return std::tuple(x + 1.0, x + 2.0); });
  auto [one, two] = pair(zeros({2}));
  EXPECT_TENSOR_EQ(two, full({2}, 2.0));
  auto list = compile([](const Tensor& x) { return std::vector<Tensor>{x, x + 2.0}; });
  EXPECT_TENSOR_EQ(list(one)[1], full({2}, 3.0));
}

TEST(Compile, NumbersAreArguments) {
  auto scale = compile([](const Tensor& x, const Tensor& factor) { return x * factor; });
  Tensor x = ones({2});
  EXPECT_TENSOR_EQ(scale(x, 3.0), full({2}, 3.0));
  EXPECT_TENSOR_EQ(scale(x, 4.0), full({2}, 4.0));
  EXPECT_EQ(scale.traces(), 1u);
}

TEST(Compile, UploadsOfArgumentsAreMeasured) {
  auto bytes = [] {
    auto uploads = metrics::MetricValue("TransferToDeviceBytes");
    return uploads ? uploads->total : 0;
  };
  auto twice = compile([](const Tensor& x) { return x * 2.0; });
  twice(tensor({1.0f, 2.0f, 3.0f}));
  const double before = bytes();
  Tensor result = twice(tensor({4.0f, 5.0f, 6.0f}));
  EXPECT_EQ(bytes() - before, 3 * sizeof(float));
  EXPECT_TENSOR_EQ(result, tensor({8.0f, 10.0f, 12.0f}));
  EXPECT_EQ(twice.traces(), 1u);
}

TEST(Compile, StateIsReadAndWritten) {
  Tensor count = zeros({}), table = ones({3});
  auto tick = compile(
      [&](const Tensor& x) {
        count.add_(1.0);
        return x * table + count;
      },
      {count, table});
  Tensor x = ones({3});
  EXPECT_TENSOR_EQ(tick(x), full({3}, 2.0));
  EXPECT_TENSOR_EQ(tick(x), full({3}, 3.0));
  EXPECT_EQ(count.item<double>(), 2);
  table.fill_(10.0);
  EXPECT_TENSOR_EQ(tick(x), full({3}, 13.0));
  EXPECT_EQ(tick.traces(), 1u);
}

struct Problem {
  Tensor w = full({3, 2}, 0.5).requires_grad_();
  optim::Adam optimizer{{w}, {.lr = 0.1}};
  Tensor Loss(const Tensor& x, const Tensor& y) { return mse_loss(matmul(x, w), y); }
  Tensor Step(const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = Loss(x, y);
    loss.backward();
    optimizer.step();
    return loss;
  }
};

TEST(Compile, ATrainingStepIsTheSameAsTraced) {
  Problem traced, replayed;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return replayed.Step(x, y); },
                      {replayed.w, replayed.optimizer});
  for (int i = 0; i < 6; ++i) {
    Tensor x = randn({4, 3}), y = randn({4, 2});
    if (i == 3) {  // schedules reach replays
      traced.optimizer.set_lr(0.01);
      replayed.optimizer.set_lr(0.01);
    }
    Tensor expected = traced.Step(x, y), got = step(x, y);
    EXPECT_TENSOR_NEAR(got, expected.detach(), 1e-6);
    EXPECT_FALSE(replayed.w.grad().defined());
  }
  EXPECT_TENSOR_NEAR(replayed.w.detach(), traced.w.detach(), 1e-6);
  EXPECT_EQ(step.traces(), 1u);
  EXPECT_TRUE(replayed.w.requires_grad());
  // And the parameters go on as ordinary ones.
  Tensor x = randn({4, 3}), y = randn({4, 2});
  EXPECT_TENSOR_NEAR(replayed.Step(x, y).detach(), traced.Step(x, y).detach(), 1e-6);
}

TEST(Compile, ReplaysRecordLittle) {
  Problem problem;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return problem.Step(x, y); },
                      {problem.w, problem.optimizer});
  Tensor x = randn({4, 3}), y = randn({4, 2});
  step(x, y);
  mark_step(true);
  int64_t before = Traced();
  for (int i = 0; i < 10; ++i) step(x, y);
  mark_step(true);
  EXPECT_LT(Traced() - before, 200);
}

TEST(Compile, DrawsNewNumbersEachTime) {
  auto noise = compile([](const Tensor& x) { return x + rand({4}); });
  Tensor x = zeros({4});
  EXPECT_FALSE(noise(x).host().SameBits(noise(x).host()));
}

TEST(Compile, RefusesTensorsThatItWasNotToldOf) {
  Tensor other = rand({3});
  mark_step(true);
  auto fn = compile([&](const Tensor& x) { return x + other; });
  EXPECT_THROW_MESSAGE(fn(ones({3})), ValueError, "uses a tensor f32[3] [at compile_test.cpp:");
  auto writes = compile([&](const Tensor& x) {
    other.add_(x);
    return x;
  });
  HostTensor before = other.host();
  EXPECT_THROW_MESSAGE(writes(ones({3})), ValueError, "writes to a tensor that is no argument");
  EXPECT_TRUE(other.host().SameBits(before));
  // What the function makes itself is its own.
  auto own = compile([](const Tensor& x) { return x + tensor({1.0f, 2.0f, 3.0f}); });
  EXPECT_TENSOR_EQ(own(zeros({3})), tensor({1.0f, 2.0f, 3.0f}));
}

TEST(Compile, TracesOncePerSetOfTrainingFlags) {
  nn::Sequential net(nn::Dropout(0.5), nn::BatchNorm1d(6));
  auto fn = compile([&](const Tensor& x) { return net(x); }, {net});
  Tensor x = rand({4, 6});
  fn(x);
  EXPECT_FALSE(fn(x).host().SameBits(fn(x).host())) << "dropout is on";
  net->eval();
  Tensor mean = net->get_tensor("1.running_mean").clone();
  Tensor expected = net(x);
  EXPECT_TENSOR_EQ(fn(x), expected);
  EXPECT_TENSOR_EQ(fn(x), expected);
  EXPECT_TENSOR_EQ(net->get_tensor("1.running_mean"), mean);
  net->train();
  fn(x);
  EXPECT_EQ(fn.traces(), 2u);
  EXPECT_FALSE(allclose(net->get_tensor("1.running_mean"), mean));
  net->get_submodule("0")->eval();  // of one submodule
  fn(x);
  EXPECT_EQ(fn.traces(), 3u);
}

TEST(Compile, RefusesToRebindState) {
  Tensor sum = zeros({}), x = ones({3});
  auto fn = compile(
      [&](const Tensor& a) {
        sum = sum + a.sum();
        return a * 1.0;
      },
      {sum});
  EXPECT_THROW_MESSAGE(fn(x), ValueError, "write it to a tensor of the state in place");
  auto unused = compile([&](const Tensor& a) {
    sum = zeros({2});  // depends on nothing
    return a * 1.0;
  });
  EXPECT_TENSOR_EQ(unused(x), x);
}

TEST(Compile, RefusesReads) {
  auto fn = compile([](const Tensor& x) { return x * x.sum().item<double>(); });
  EXPECT_THROW(fn(ones({3})), Error);
}

TEST(Compile, TakesInferenceWithoutAGuard) {
  nn::Sequential two(nn::Linear(8, 8), nn::Linear(8, 2));
  nn::Sequential more(nn::LayerNorm(8), nn::Linear(8, 16), nn::GELU(), nn::Linear(16, 16),
                      nn::ReLU(), nn::Linear(16, 2));
  Tensor x = randn({4, 8});
  for (nn::Sequential net : {two, more}) {
    auto fn = compile([&](const Tensor& input) { return net(input); }, {net});
    Tensor result = fn(x);
    EXPECT_FALSE(result.requires_grad());
    EXPECT_TENSOR_NEAR(result, net(x).detach(), 1e-6);
    EXPECT_TENSOR_NEAR(fn(x * 2), net(x * 2).detach(), 1e-6);
    EXPECT_EQ(fn.traces(), 1u);
  }
}

TEST(Compile, ReturnsViewsAndCopiesOfThem) {
  Tensor x = rand({4, 6});
  std::vector<std::function<std::vector<Tensor>(const Tensor&)>> functions = {
      [](const Tensor& t) {
        return std::vector{(t * 2).permute({1, 0})};
      },
      [](const Tensor& t) {
        return std::vector{(t * 2).permute({1, 0}).clone()};
      },
      [](const Tensor& t) {
        return std::vector{(t * 2).permute({1, 0}).contiguous()};
      },
      [](const Tensor& t) { return std::vector{sum(t, {0}, true).reshape({6})}; },
      [](const Tensor& t) {
        return std::vector{(t + 1).reshape({2, 12}).t().narrow(0, 1, 3)};
      },
      [](const Tensor& t) { return std::vector{(t + 1).chunk(2, 1)}; },
      [](const Tensor& t) {
        return std::vector{t.t(), t[1], t.expand({2, 4, 6})};
      },
      [](const Tensor& t) {
        Tensor y = t * 2;
        return std::vector{y, y.permute({1, 0}), y[0], y.detach()};
      },
  };
  for (auto& function : functions) {
    auto fn = compile(function);
    for (double factor : {1.0, 3.0}) {
      std::vector<Tensor> got = fn(x * factor), expected = function(x * factor);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TENSOR_EQ(got[i], expected[i]);
      }
    }
  }
}

TEST(Compile, TakesGradientsOfArguments) {
  auto slope = compile([](const Tensor& x) {
    Tensor leaf = x.detach().requires_grad_();
    (leaf * leaf * leaf).sum().backward();
    return leaf.grad();
  });
  EXPECT_TENSOR_EQ(slope(full({2}, 2.0)), full({2}, 12.0));
  EXPECT_TENSOR_EQ(slope(full({2}, 3.0)), full({2}, 27.0));
}

TEST(Compile, CallsTheFunctionItselfInEagerMode) {
  Problem traced, eager;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return eager.Step(x, y); },
                      {eager.w, eager.optimizer});
  Tensor x = randn({4, 3}), y = randn({4, 2});
  Tensor expected = traced.Step(x, y);
  EagerMode mode;
  Tensor got = step(x, y);
  EXPECT_FALSE(got.requires_grad());
  EXPECT_TENSOR_NEAR(got, expected.detach(), 1e-6);
  EXPECT_FALSE(eager.w.grad().defined());
  EXPECT_TENSOR_NEAR(eager.w.detach(), traced.w.detach(), 1e-6);
  EXPECT_EQ(step.traces(), 0u);
}

TEST(Compile, SaysWhatItRefusesInWordsOfItsCaller) {
  Tensor x = ones({3}), kept;
  auto keeps = compile([&](const Tensor& t) {
    kept = t * 2.0;
    return kept + 1.0;
  });
  EXPECT_THROW_MESSAGE(keeps(x), ValueError, "compile: the result of mul [at compile_test.cpp:");
  EXPECT_THROW_MESSAGE(keeps(x), ValueError, "is kept in a tensor outside of the function");
  Tensor w = ones({3}).requires_grad_();
  auto history = compile(
      [&](const Tensor& t) {
        kept = ((t * w).exp() * 2.0).sum();
        return kept;
      },
      {w});
  EXPECT_THROW_MESSAGE(history(x), ValueError, "detach() what the function keeps");
  auto reads = compile([](const Tensor& t) { return t.sum().item<double>() > 0 ? t : -t; });
  EXPECT_THROW_MESSAGE(reads(x), ValueError,
                       "compile: a value that depends on input 0 (f32[3]) is read");
}

TEST(Compile, VerifiesReplaysIfAsked) {
  double factor = 2;
  bool longer = false;
  auto fn = compile([&](const Tensor& x) { return longer ? x * factor + 1.0 : x * factor; });
  Tensor x = ones({2});
  fn(x);
  factor = 3;
  EXPECT_TENSOR_EQ(fn(x), full({2}, 2.0));  // frozen
  config::Set("verify_replay", "2");
  EXPECT_THROW_MESSAGE((fn(x), fn(x)), ValueError,
                       "was 2.0:f32 when the function was compiled and is 3.0:f32 now");
  factor = 2;
  longer = true;
  EXPECT_THROW_MESSAGE((fn(x), fn(x)), ValueError, "records other ops");
  longer = false;
  fn(x);
  fn(x);
  config::Set("verify_replay", "0");
}

}  // namespace
}  // namespace hammock
