// The tape as a user meets it.

#include "hammock/autograd.h"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/runtime.h"

namespace hammock {
namespace {

using autograd::AutogradContext;
using testing::Compiles;
using testing::Lazy;
using testing::Line;
using testing::NodesRun;

Tensor Leaf(std::initializer_list<float> values) {
  return tensor(std::vector<float>(values)).requires_grad_();
}

int64_t LiveBytes() {
  Lazy().WaitDeviceOps();
  return GetMemoryInfo(Device()).in_use;
}

// ---- Leaves and gradients

TEST(Backward, GivesGradientsToLeaves) {
  Tensor x = Leaf({1, 2, 3});
  Tensor w = Leaf({4, 5, 6});
  Tensor constant = tensor({1.0f, 1.0f, 1.0f});
  sum(x * w + constant).backward();
  EXPECT_TENSOR_EQ(x.grad(), {4, 5, 6}, {3});
  EXPECT_TENSOR_EQ(w.grad(), {1, 2, 3}, {3});
  EXPECT_FALSE(constant.grad().defined());
}

TEST(Backward, AddsToWhatIsThere) {
  Tensor x = Leaf({1, 2});
  sum(x * x).backward();
  Tensor held = x.grad();
  sum(x * 3.0).backward();
  EXPECT_TENSOR_EQ(x.grad(), {5, 7}, {2});
  EXPECT_TENSOR_EQ(held, {5, 7}, {2});  // the same tensor, as in PyTorch
  x.set_grad(Tensor());
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, TakesTheGradientThatArrives) {
  Tensor x = Leaf({1, 2});
  (x * x).backward(tensor({10.0f, 100.0f}));
  EXPECT_TENSOR_EQ(x.grad(), {20, 400}, {2});
}

TEST(Backward, RefusesWhatItCannotDo) {
  Tensor x = Leaf({1, 2});
  EXPECT_THROW_MESSAGE((x * x).backward(), ValueError, "only for real tensors of one element");
  EXPECT_THROW_MESSAGE(sum(x.detach()).backward(), ValueError, "does not require grad");
  EXPECT_THROW_MESSAGE((x * x).backward(ones({3})), ValueError, "has another shape");
  EXPECT_THROW_MESSAGE(Tensor().backward(), ValueError, "undefined");
  EXPECT_THROW_MESSAGE(tensor({1, 2}).requires_grad_(), TypeError,
                       "only floating and complex tensors");
  EXPECT_THROW_MESSAGE((x * 2).requires_grad_(false), ValueError, "only a leaf");
}

TEST(Backward, ASecondTimeNeedsRetainGraph) {
  Tensor x = Leaf({1, 2});
  Tensor loss = sum(exp(x));
  loss.backward({}, true);
  loss.backward();
  EXPECT_THROW_MESSAGE(loss.backward(), ValueError, "retain_graph=true");
}

TEST(Backward, ReachesOnlyTheInputsAskedFor) {
  Tensor x = Leaf({1, 2}), y = Leaf({3, 4});
  Tensor loss = sum(x * y);
  backward(std::span(&loss, 1), {}, std::nullopt, false, std::span(&x, 1));
  EXPECT_TENSOR_EQ(x.grad(), {3, 4}, {2});
  EXPECT_FALSE(y.grad().defined());
}

TEST(Grad, OfLeavesAndResults) {
  Tensor x = Leaf({1, 2});
  Tensor y = x * x;
  Tensor z = sum(y * y);
  auto grads = grad({z}, {x, y});
  EXPECT_TENSOR_EQ(grads[0], {4, 32}, {2});
  EXPECT_TENSOR_EQ(grads[1], {2, 8}, {2});
  EXPECT_FALSE(x.grad().defined());
}

TEST(Grad, OfAnUnusedInput) {
  Tensor x = Leaf({1, 2}), other = Leaf({1});
  EXPECT_THROW_MESSAGE(grad({sum(x)}, {x, other}), ValueError, "do not depend on input 1");
  auto grads = grad({sum(x)}, {x, other}, {}, std::nullopt, false, true);
  EXPECT_FALSE(grads[1].defined());
  EXPECT_THROW_MESSAGE(grad({sum(x)}, {ones({2})}), ValueError, "does not require grad");
}

TEST(Grad, OfHigherOrder) {
  Tensor x = Leaf({2, 3});
  Tensor y = sum(x * x * x * x);
  Tensor first = grad({y}, {x}, {}, std::nullopt, true)[0];
  EXPECT_TENSOR_EQ(first, {32, 108}, {2});
  Tensor second = grad({sum(first)}, {x}, {}, std::nullopt, true)[0];
  EXPECT_TENSOR_EQ(second, {48, 108}, {2});
  Tensor third = grad({sum(second)}, {x})[0];
  EXPECT_TENSOR_EQ(third, {48, 72}, {2});
}

TEST(Grad, SumsOverWhatWasBroadcastAndCastsBack) {
  Tensor x = Leaf({1, 2, 3});
  Tensor column = tensor(std::vector<double>{1, 2}).reshape({2, 1}).requires_grad_();
  sum(x * column).backward();
  EXPECT_TENSOR_EQ(x.grad(), {3, 3, 3}, {3});
  EXPECT_EQ(x.grad().dtype(), DType::kF32);
  EXPECT_TENSOR_EQ(column.grad(), {6, 6}, {2, 1});
  EXPECT_EQ(column.grad().dtype(), column.dtype());
}

// ---- Modes, detaching, hooks

TEST(GradMode, DecidesWhatIsRecorded) {
  Tensor x = Leaf({1, 2});
  {
    NoGradGuard no_grad;
    EXPECT_FALSE((x * 2).requires_grad());
    EXPECT_TRUE(x.requires_grad());
    EnableGradGuard enable;
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
  EXPECT_FALSE((x > 1).requires_grad());
  std::thread([&] { EXPECT_TRUE(AutoGradMode::is_enabled()); }).join();
}

TEST(Detach, SharesMemoryButNotHistory) {
  Tensor x = Leaf({1, 2});
  Tensor y = x * 2;
  Tensor cut = y.detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_TRUE(cut.is_alias_of(y));
  sum(y * cut).backward();
  EXPECT_TENSOR_EQ(x.grad(), {4, 8}, {2});
  Tensor z = x * 3;
  z.detach_();
  EXPECT_FALSE(z.requires_grad());
}

TEST(Hooks, SeeAndChangeGradients) {
  Tensor x = Leaf({1, 2});
  Tensor y = x * 2;
  int calls = 0;
  y.register_hook([&](const Tensor& grad) {
    ++calls;
    return grad * 10.0;
  });
  int64_t second = x.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  sum(y).backward({}, true);
  EXPECT_EQ(calls, 2);
  EXPECT_TENSOR_EQ(x.grad(), {20, 20}, {2});
  x.remove_hook(second);
  sum(y).backward();
  EXPECT_EQ(calls, 3);
  EXPECT_THROW_MESSAGE(ones({2}).register_hook([](const Tensor& g) { return g; }), ValueError,
                       "does not require grad");
}

TEST(RetainGrad, KeepsTheGradientOfAResult) {
  Tensor x = Leaf({1, 2});
  Tensor y = x * x;
  y.retain_grad();
  sum(y * 3.0).backward();
  EXPECT_TENSOR_EQ(y.grad(), {3, 3}, {2});
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(y.is_leaf());
}

// ---- Views and writes

TEST(Views, PassGradientsToTheirBase) {
  Tensor x = arange(6).to(DType::kF32).reshape({2, 3}).clone().requires_grad_();
  Tensor row = x[1];
  sum(row * row + x.t()[2][1]).backward();
  EXPECT_TENSOR_EQ(x.grad(), {0, 0, 0, 6, 8, 13}, {2, 3});
}

TEST(Writes, AreSeenByEarlierViewsAndNotByEarlierValues) {
  Tensor x = Leaf({1, 2, 3});
  Tensor y = x * 2;
  Tensor squares = y * y;  // of the values before the write
  Tensor view = y.slice(0, 0, 2);
  y.mul_(10.0);  // y = 20 x
  sum(squares).backward({}, true);
  EXPECT_TENSOR_EQ(x.grad(), {8, 16, 24}, {3});
  x.set_grad(Tensor());
  sum(view * view).backward();  // 400 x^2 over two elements
  EXPECT_TENSOR_EQ(x.grad(), {800, 1600, 0}, {3});
}

TEST(Writes, ThroughAViewCutTheWrittenPart) {
  Tensor x = Leaf({1, 2, 3}), w = Leaf({5});
  Tensor y = x * 1.0;
  y.slice(0, 1, 2).copy_(w * 2.0);
  sum(y * y).backward();
  EXPECT_TENSOR_EQ(x.grad(), {2, 0, 6}, {3});
  EXPECT_TENSOR_EQ(w.grad(), {40}, {1});
}

TEST(Writes, ToAResultThatIsNotRowMajor) {
  Tensor x = arange(6).to(DType::kF32).reshape({2, 3}).clone().requires_grad_();
  Tensor y = x.t() * 2.0;
  EXPECT_FALSE(y.is_contiguous());
  y.mul_(y);
  sum(y).backward();
  EXPECT_TENSOR_EQ(x.grad(), {0, 8, 16, 24, 32, 40}, {2, 3});
}

TEST(Writes, OfConstantsKeepTheTensorDifferentiable) {
  Tensor x = Leaf({1, 2});
  Tensor y = x * 2;
  y.zero_();
  EXPECT_TRUE(y.requires_grad());
  sum(y).backward();  // nothing arrives
  EXPECT_FALSE(x.grad().defined());
  Tensor z = zeros({2});
  z.add_(x);
  EXPECT_TRUE(z.requires_grad());
}

TEST(Writes, ToALeafNeedNoGrad) {
  Tensor x = Leaf({1, 2});
  EXPECT_THROW_MESSAGE(x.add_(1.0), ValueError, "a leaf that requires grad");
  EXPECT_THROW_MESSAGE(x[0].add_(1.0), ValueError, "a leaf that requires grad");
  EXPECT_TENSOR_EQ(x, {1, 2}, {2});
  {
    NoGradGuard no_grad;
    x.sub_(1.0);
    x.slice(0, 0, 1).add_(5.0);
  }
  EXPECT_TRUE(x.is_leaf());
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TENSOR_EQ(x, {5, 1}, {2});
  sum(x * x).backward();
  EXPECT_TENSOR_EQ(x.grad(), {10, 2}, {2});
}

TEST(Writes, WithoutGradKeepHistory) {
  Tensor x = Leaf({1, 2});
  Tensor y = x * 3;
  {
    NoGradGuard no_grad;
    y.mul_(100.0);
  }
  sum(y).backward();
  EXPECT_TENSOR_EQ(x.grad(), {3, 3}, {2});
}

// ---- With the lazy runtime

TEST(Lazily, AReadBetweenForwardAndBackwardComputesNothingTwice) {
  Tensor x = randn({4, 8}), w = randn({8, 3}).requires_grad_();
  sync_multi({x, w});
  auto step = [&](bool read) {
    w.set_grad(Tensor());
    int64_t before = NodesRun();
    Tensor loss = sum(tanh(matmul(x, w)));
    if (read) loss.item<float>();
    loss.backward();
    w.grad().to_vector<float>();
    if (!read) loss.item<float>();
    return NodesRun() - before;
  };
  EXPECT_EQ(step(true), step(false));
}

TEST(Lazily, AStepIsOneGraph) {
  Tensor x = randn({4, 8}), w = randn({8, 3}).requires_grad_();
  mark_step();
  for (int i = 0; i < 3; ++i) {
    int64_t before = Compiles();
    step([&] {
      sum(square(matmul(x, w))).backward();
      NoGradGuard no_grad;
      w.sub_(w.grad() * 0.1);
      w.set_grad(Tensor());
    });
    EXPECT_EQ(Compiles() - before, i == 0 ? 1 : 0);
  }
}

TEST(Lazily, GradientsCarryTheLineOfTheirOp) {
  Tensor x = Leaf({1, 2});
  Tensor y = exp(x);
  int line = __LINE__ - 1;
  Tensor g = grad({sum(y)}, {x})[0];
  EXPECT_NE(g.summary().find(Line(line)), std::string::npos) << g.summary();
}

TEST(Lazily, OnlyWhatTheGradientReadsIsKept) {
  int64_t live = LiveBytes();
  Tensor x = ones({1000}).requires_grad_();
  Tensor y = (x * 2.0 + 1.0) - 3.0;  // linear: needs no values
  Tensor loss = sum(y);
  y = Tensor();
  sync_multi({loss, x});
  Lazy().WaitDeviceOps();
  EXPECT_LT(LiveBytes() - live, 2 * 4000);
  loss.backward();
  EXPECT_TENSOR_EQ(x.grad().slice(0, 0, 2), {2, 2}, {2});
}

TEST(Lazily, ALongTapeNeedsNoDeepStack) {
  Tensor x = Leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = y * 1.0;
  y.backward(ones({1}));
  EXPECT_TENSOR_EQ(x.grad(), {1}, {1});
}

TEST(Lazily, ThreadsDifferentiateTheirOwn) {
  Tensor w = Leaf({1, 2, 3});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        Tensor mine = ones({3}).requires_grad_();
        sum(mine * w.detach() * mine).backward();
        mine.grad().to_vector<float>();
        sum(w * 2.0).backward();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TENSOR_EQ(w.grad(), {160, 160, 160}, {3});
}

// ---- Custom functions, checkpoints, forward mode

struct Cube : autograd::Function<Cube> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double scale) {
    Tensor result = x * x * x * scale;
    context->save_for_backward({x, result});
    context->saved_data["scale"] = scale;
    return result;
  }
  static std::vector<Tensor> backward(AutogradContext* context, std::vector<Tensor> grads) {
    auto saved = context->get_saved_variables();
    double scale = context->saved_data["scale"].ToDouble();
    return {grads[0] * saved[0] * saved[0] * (3.0 * scale)};
  }
};

TEST(Function, HasAGradientOfItsOwn) {
  Tensor x = Leaf({1, 2});
  Tensor y = Cube::apply(x, 2.0);
  EXPECT_TENSOR_EQ(y, {2, 16}, {2});
  Tensor first = grad({sum(y)}, {x}, {}, std::nullopt, true)[0];
  EXPECT_TENSOR_EQ(first, {6, 24}, {2});
  EXPECT_TENSOR_EQ(grad({sum(first)}, {x})[0], {12, 24}, {2});
  EXPECT_FALSE(Cube::apply(ones({2}), 1.0).requires_grad());
}

struct Split : autograd::Function<Split> {
  static std::vector<Tensor> forward(AutogradContext*, const Tensor& x) {
    return {x * 2.0, x * 3.0};
  }
  static std::vector<Tensor> backward(AutogradContext*, std::vector<Tensor> grads) {
    return {grads[0] * 2.0 + grads[1] * 3.0};
  }
};

TEST(Function, MayHaveSeveralResults) {
  Tensor x = Leaf({1, 2});
  auto parts = Split::apply(x);
  sum(parts[1]).backward({}, true);
  EXPECT_TENSOR_EQ(x.grad(), {3, 3}, {2});
  sum(parts[0] + parts[1]).backward();
  EXPECT_TENSOR_EQ(x.grad(), {8, 8}, {2});
}

struct Refuses : autograd::Function<Refuses> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return x * 2.0;
  }
  static std::vector<Tensor> backward(AutogradContext*, std::vector<Tensor>) {
    throw std::runtime_error("refused");
  }
};

TEST(Function, ThatThrowsKeepsNothing) {
  Lazy().WaitDeviceOps();
  int64_t live = LiveBytes();
  {
    Tensor x = randn({1000}).requires_grad_();
    sync_multi({x});
    Tensor y = Refuses::apply(x);
    EXPECT_ANY_THROW(sum(y).backward());
    EXPECT_GE(LiveBytes() - live, 4000);
  }
  Lazy().WaitDeviceOps();
  EXPECT_EQ(LiveBytes(), live);
}

TEST(Checkpoint, GivesTheSameGradients) {
  manual_seed(7);
  Tensor x = randn({4, 4}).requires_grad_(), w = randn({4, 4}).requires_grad_();
  int runs = 0;
  TensorsFn layer = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    ++runs;
    return {tanh(matmul(dropout(in[0], 0.5, true), w))};
  };
  Generator::Default().manual_seed(3);
  auto plain = grad({sum(layer({x})[0])}, {x, w});
  Generator::Default().manual_seed(3);
  auto again = grad({sum(checkpoint(layer, {x})[0])}, {x, w});
  EXPECT_EQ(runs, 3);
  EXPECT_TENSOR_EQ(again[0], plain[0]);
  EXPECT_TENSOR_EQ(again[1], plain[1]);
}

TEST(Checkpoint, KeepsNothingBetween) {
  Tensor x = ones({1000}).requires_grad_();
  TensorsFn layer = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {exp(exp(exp(in[0] * 0.1)))};
  };
  sync_multi({x});
  Lazy().WaitDeviceOps();
  int64_t live = LiveBytes();
  Tensor loss = sum(checkpoint(layer, {x})[0]);
  sync_multi({loss});
  Lazy().WaitDeviceOps();
  EXPECT_LT(LiveBytes() - live, 1000);
  loss.backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(Checkpoint, RefusesAFunctionThatChanges) {
  Tensor x = Leaf({1, 2});
  int runs = 0;
  TensorsFn fickle = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    Tensor y = exp(in[0]);
    return {++runs == 1 ? y : exp(y)};
  };
  Tensor loss = sum(checkpoint(fickle, {x})[0]);
  EXPECT_THROW_MESSAGE(loss.backward(), ValueError, "must do the same when called again");
}

TEST(Jvp, IsTheDerivativeAlongTangents) {
  Tensor x = tensor({1.0f, 2.0f}), y = tensor({3.0f, 4.0f});
  TensorsFn fn = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {in[0] * in[0] * in[1], sum(in[1]), ones({1})};
  };
  auto [values, derivatives] = jvp(fn, {x, y}, {tensor({1.0f, 0.0f}), tensor({0.0f, 2.0f})});
  EXPECT_TENSOR_EQ(values[0], {3, 16}, {2});
  EXPECT_TENSOR_EQ(derivatives[0], {6, 8}, {2});
  EXPECT_TENSOR_EQ(derivatives[1], {2}, {});
  EXPECT_TENSOR_EQ(derivatives[2], {0}, {1});
  EXPECT_THROW_MESSAGE(jvp(fn, {x, y}, {x}), ValueError, "1 tangents given for 2 inputs");
}

}  // namespace
}  // namespace hammock
