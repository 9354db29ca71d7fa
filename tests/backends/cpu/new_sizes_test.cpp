// New sizes of known graphs on the CPU: no compilation, no lowering, little memory, the same bits.

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "hammock/config.h"
#include "hammock/hammock.h"
#include "hammock/metrics.h"
#include "support/has_onednn.h"
#include "support/tensor_matchers.h"

namespace hammock::cpu {
namespace {

LazyGraphExecutor& Lazy() { return *LazyGraphExecutor::Get(); }
int64_t Compiles() { return metrics::CounterValue("UncachedCompile").value_or(0); }
int64_t Lowerings() { return metrics::GetMetric("LowerTime", metrics::Kind::kTime).Data().samples; }
/// Sizes whose steps were scheduled by themselves.
int64_t Scheduled() { return metrics::CounterValue("cpu::SizesScheduled").value_or(0); }
int64_t Instances() { return metrics::CounterValue("GeneralisedHits").value_or(0); }

Tensor Values(const Dims& sizes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = static_cast<float>(random() % 1024) / 256 - 2;
  return tensor(values, sizes, f32, "cpu");
}

Tensor Labels(int64_t count, int64_t classes) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(i * 7 % classes);
  return tensor(values, Dims{count}, i64, "cpu");
}

using Sizes = std::vector<int64_t>;
/// The results of a model at sizes, which the seed of its weights and inputs follows from.
using Model = std::function<std::vector<HostTensor>(const Sizes& sizes)>;

std::vector<HostTensor> HostOf(const std::vector<Tensor>& tensors) {
  sync_multi(tensors);
  std::vector<HostTensor> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.host());
  return result;
}

/// Gradients of a loss with respect to parameters, and the parameters after a step.
std::vector<HostTensor> Trained(const std::vector<Tensor>& parameters,
                                const std::function<Tensor()>& loss_of) {
  std::vector<Tensor> with_grad = parameters;
  for (Tensor& parameter : with_grad) parameter.requires_grad_();
  Tensor loss = loss_of();
  loss.backward();
  std::vector<Tensor> results = {loss.detach()};
  NoGradGuard no_grad;
  for (Tensor& parameter : with_grad) results.push_back(parameter - parameter.grad() * 0.1);
  return HostOf(results);
}

std::vector<HostTensor> TrainMlp(const Sizes& sizes) {
  Tensor x = Values({sizes[0], 20}, 1);
  std::vector<Tensor> p = {Values({32, 20}, 2), Values({32}, 3), Values({10, 32}, 4),
                           Values({10}, 5)};
  return Trained(p, [&] {
    Tensor hidden = relu(linear(x, p[0], p[1]));
    return cross_entropy(linear(hidden, p[2], p[3]), Labels(sizes[0], 10));
  });
}

/// Of batch and length.
std::vector<HostTensor> TrainTransformer(const Sizes& sizes) {
  int64_t b = sizes[0], t = sizes[1], d = 16, heads = 2;
  Tensor x = Values({b, t, d}, 1);
  std::vector<Tensor> p = {Values({3 * d, d}, 2), Values({d, d}, 3), Values({4 * d, d}, 4),
                           Values({d, 4 * d}, 5), Values({12, d}, 6)};
  return Trained(p, [&] {
    Tensor qkv = linear(layer_norm(x, {d}), p[0]).view({b, t, 3, heads, d / heads});
    auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
    Tensor a = scaled_dot_product_attention(part(0), part(1), part(2), {}, 0.0, true);
    Tensor h = x + linear(a.transpose(1, 2).reshape({b, t, d}), p[1]);
    h = h + linear(gelu(linear(layer_norm(h, {d}), p[2])), p[3]);
    return cross_entropy(linear(h, p[4]).flatten(0, 1), Labels(b * t, 12));
  });
}

/// One token against a cache of `sizes[0]` earlier ones.
std::vector<HostTensor> Decode(const Sizes& sizes) {
  int64_t d = 32, heads = 4;
  NoGradGuard no_grad;
  static const Tensor cache = Values({2, 1, heads, 1500, d / heads}, 2);
  auto past = [&](int64_t i) { return cache.select(0, i).narrow(2, 0, sizes[0]); };
  Tensor x = Values({1, 1, d}, 1), keys = past(0), values = past(1);
  Tensor w = Values({3 * d, d}, 4), out = Values({50, d}, 5);
  Tensor qkv = linear(rms_norm(x, {d}), w).view({1, 1, 3, heads, d / heads});
  auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
  Tensor all_keys = cat({keys, part(1)}, 2), all_values = cat({values, part(2)}, 2);
  Tensor a = scaled_dot_product_attention(part(0), all_keys, all_values);
  Tensor logits = linear(silu(a.transpose(1, 2).reshape({1, d})), out);
  return HostOf({logits, all_keys, all_values});
}

std::vector<HostTensor> TrainConvolutions(const Sizes& sizes) {
  Tensor x = Values({sizes[0], 3, 12, 12}, 1);
  std::vector<Tensor> p = {Values({16, 3, 3, 3}, 2), Values({16}, 3), Values({24, 16, 3, 3}, 4),
                           Values({10, 24}, 5)};
  return Trained(p, [&] {
    Tensor h = relu(conv2d(x, p[0], p[1], {1, 1}, {1, 1}));
    h = max_pool2d(h, {2, 2});
    h = relu(conv2d(h, p[2], {}, {1, 1}, {1, 1}));
    return cross_entropy(linear(h.mean({2, 3}), p[3]), Labels(sizes[0], 10));
  });
}

std::vector<HostTensor> Shapes(const Sizes& sizes) {
  int64_t n = sizes[0];
  NoGradGuard no_grad;
  Tensor x = Values({n, 6}, 1), y = Values({2 * n, 6}, 2);
  Tensor all = cat({x, y, x * 2.0}, 0);
  Tensor padded = pad(all.narrow(0, 1, n + 1), {0, 0, 2, 1});
  Tensor centred = all - all.mean({0}, true);
  Tensor wide = x.t().reshape({6 * n}).cumsum(0);
  return HostOf({padded, centred / (1.0 + all.var({0}, true)), wide, softmax(x.t(), 1), y.amax({0}),
                 std::get<0>(sort(x, 0)), x.unsqueeze(1).expand({n, 3, 6}).sum({0}),
                 matmul(x, x.t()).exp()});
}

/// Of height and width: the mean of the loss is over both.
std::vector<HostTensor> TrainFullyConvolutional(const Sizes& sizes) {
  Tensor x = Values({2, 3, sizes[0], sizes[1]}, 1);
  std::vector<Tensor> p = {Values({4, 3, 3, 3}, 2), Values({4}, 3), Values({3, 4, 3, 3}, 4)};
  return Trained(p, [&] {
    Tensor h = relu(conv2d(x, p[0], p[1], {1, 1}, {1, 1}));
    return mse_loss(conv2d(h, p[2], {}, {1, 1}, {1, 1}), x);
  });
}

/// Sizes are halved three times, rounded up or down.
std::vector<HostTensor> TrainStrided(const Sizes& sizes) {
  Tensor x = Values({2, 3, sizes[0], sizes[1]}, 1);
  std::vector<Tensor> p = {Values({4, 3, 3, 3}, 2), Values({8, 4, 3, 3}, 3), Values({5, 8}, 4)};
  return Trained(p, [&] {
    Tensor h = relu(conv2d(x, p[0], {}, {2, 2}, {1, 1}));
    h = relu(conv2d(max_pool2d(h, {2, 2}), p[1], {}, {2, 2}, {1, 1}));
    return cross_entropy(linear(h.mean({2, 3}), p[2]), Labels(2, 5));
  });
}

/// Of multiples of 4.
std::vector<HostTensor> TrainUNet(const Sizes& sizes) {
  Tensor x = Values({1, 2, 4 * sizes[0], 4 * sizes[1]}, 1);
  std::vector<Tensor> p = {Values({4, 2, 3, 3}, 2), Values({8, 4, 3, 3}, 3),
                           Values({4, 12, 3, 3}, 4), Values({1, 8, 1, 1}, 5)};
  auto twice = [](const Tensor& t, const char* mode) {
    return interpolate(t, std::nullopt, std::vector<double>{2, 2}, mode);
  };
  return Trained(p, [&] {
    Tensor a = relu(conv2d(x, p[0], {}, {1, 1}, {1, 1}));
    Tensor b = relu(conv2d(max_pool2d(a, {2, 2}), p[1], {}, {1, 1}, {1, 1}));
    Tensor middle = twice(max_pool2d(b, {2, 2}), "nearest");
    Tensor up = twice(middle + b, "bilinear");
    up = relu(conv2d(cat({up, a}, 1), p[2], {}, {1, 1}, {1, 1}));
    return conv2d(cat({up, a}, 1), p[3]).mean();
  });
}

std::vector<HostTensor> Resized(const Sizes& sizes) {
  NoGradGuard no_grad;
  Tensor x = Values({1, 2, sizes[0], sizes[1]}, 1);
  auto to = [&](const char* mode, std::optional<bool> corners) {
    return interpolate(x, Dims{17, 23}, std::nullopt, mode, corners);
  };
  return HostOf({to("bilinear", false), to("bilinear", true), to("nearest", std::nullopt),
                 to("bicubic", false), adaptive_avg_pool2d(x, {1, 1})});
}

/// Of two lengths.
std::vector<HostTensor> TrainRecurrent(const Sizes& sizes) {
  Tensor x = Values({sizes[0], 3, 8}, 1), y = Values({sizes[1], 3, 8}, 2);
  std::vector<Tensor> p = {Values({32, 8}, 3), Values({32, 8}, 4), Values({24, 8}, 5),
                           Values({24, 8}, 6)};
  return Trained(p, [&] {
    Tensor zero = zeros({1, 3, 8}, f32, "cpu");
    auto [all, h, c] = lstm(x, {zero, zero}, {p[0], p[1]}, false, 1, 0.0, true, false, false);
    auto [out, last] = gru(y, h, {p[2], p[3]}, false, 1, 0.0, true, false, false);
    return mse_loss(out, y) + all.mean();
  });
}

/// Of batch and length: the body of the loop has the batch.
std::vector<HostTensor> TrainRecurrentBatch(const Sizes& sizes) {
  Tensor x = Values({sizes[1], sizes[0], 8}, 1);
  std::vector<Tensor> p = {Values({32, 8}, 3), Values({32, 8}, 4)};
  return Trained(p, [&] {
    Tensor zero = zeros({1, sizes[0], 8}, f32, "cpu");
    auto [all, h, c] = lstm(x, {zero, zero}, {p[0], p[1]}, false, 1, 0.0, true, false, false);
    return mse_loss(all, x) + c.mean();
  });
}

/// Runs a model at all sizes, generally and each compiled by itself. At most so many of the sizes
/// may need schedules of their own.
void ExpectTheBitsOfEachSize(const Model& model, const std::vector<Sizes>& all,
                             int64_t most_scheduled = 0) {
  Lazy().ClearComputationCache();
  std::vector<std::vector<HostTensor>> general;
  int64_t instances = Instances(), scheduled = Scheduled();
  for (const Sizes& sizes : all) general.push_back(model(sizes));
  EXPECT_LE(Scheduled() - scheduled, most_scheduled);
  EXPECT_GE(Instances() - instances, static_cast<int64_t>(all.size()) - 4);
  Lazy().ClearComputationCache();
  config::Override off("generalise", "false");
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<HostTensor> alone = model(all[i]);
    ASSERT_EQ(alone.size(), general[i].size());
    for (size_t r = 0; r < alone.size(); ++r) {
      EXPECT_TRUE(alone[r].SameBits(general[i][r])) << "size " << all[i][0] << ", result " << r;
    }
  }
}

std::vector<Sizes> OneSize(std::initializer_list<int64_t> list) {
  std::vector<Sizes> all;
  for (int64_t size : list) all.push_back({size});
  return all;
}

TEST(NewSizes, OfATrainingStep) {
  ExpectTheBitsOfEachSize(TrainMlp,
                          OneSize({16, 24, 2, 3, 7, 10, 20, 31, 32, 33, 64, 65, 100, 150, 777}));
}

TEST(NewSizes, OfATransformer) {
  std::vector<Sizes> all = {{4, 12}, {6, 17}, {3, 9}, {8, 8}, {2, 30}, {16, 5}, {7, 33}, {5, 12}};
  std::mt19937 random(1);
  while (all.size() < 24) all.push_back({2 + int64_t(random() % 14), 2 + int64_t(random() % 60)});
  ExpectTheBitsOfEachSize(TrainTransformer, all);
}

TEST(NewSizes, OfAGrowingCache) {
  std::vector<Sizes> all;
  for (int64_t length = 3; length < 24; ++length) all.push_back({length});
  for (int64_t length : {60, 255, 256, 257, 300, 511, 512, 513, 514, 600, 900}) {
    all.push_back({length});
  }
  ExpectTheBitsOfEachSize(Decode, all, 1);
}

TEST(NewSizes, OfConvolutions) {
  ExpectTheBitsOfEachSize(TrainConvolutions, OneSize({4, 6, 2, 3, 5, 9, 16, 24, 10}));
}

TEST(NewSizes, OfShapesAndReductions) {
  // Which of these share a kernel depends on what the size is a multiple of.
  ExpectTheBitsOfEachSize(Shapes, OneSize({12, 15, 2, 3, 5, 6, 7, 18, 36, 100, 1000}), 10);
}

std::vector<Sizes> Pairs(int64_t least, int64_t most, size_t count) {
  std::vector<Sizes> all;
  std::mt19937 random(3);
  auto size = [&] { return least + int64_t(random()) % (most - least + 1); };
  while (all.size() < count) all.push_back({size(), size()});
  return all;
}

TEST(NewSizes, OfImagesInAMean) {
  ExpectTheBitsOfEachSize(TrainFullyConvolutional, Pairs(5, 40, 16));
}

/// Without oneDNN the gradient of a strided convolution has other ops at each remainder.
bool AreStridesGeneral() { return testing::HasOneDnn(); }

TEST(NewSizes, OfImagesThatAreHalved) {  // Close to the smallest images some kernels are others.
  if (!AreStridesGeneral()) GTEST_SKIP() << "needs oneDNN";
  ExpectTheBitsOfEachSize(TrainStrided, Pairs(20, 60, 20), 4);
}

TEST(NewSizes, OfImagesThatAreHalvedAndDoubled) {
  ExpectTheBitsOfEachSize(TrainUNet, Pairs(6, 40, 16), 2);
}

TEST(NewSizes, OfImagesThatAreResized) { ExpectTheBitsOfEachSize(Resized, Pairs(30, 80, 16)); }

TEST(NewSizes, OfSequencesInLoops) { ExpectTheBitsOfEachSize(TrainRecurrent, Pairs(3, 40, 16)); }

TEST(NewSizes, InBodiesOfLoops) { ExpectTheBitsOfEachSize(TrainRecurrentBatch, Pairs(3, 40, 16)); }

TEST(NewSizes, OfAMeanOverTheBatch) {
  auto regression = [](const Sizes& sizes) {
    Tensor x = Values({sizes[0], 12}, 1), y = Values({sizes[0], 3}, 2);
    std::vector<Tensor> p = {Values({3, 12}, 3)};
    return Trained(p, [&] { return mse_loss(linear(x, p[0]), y); });
  };
  ExpectTheBitsOfEachSize(regression, OneSize({16, 24, 5, 7, 9, 11, 30, 33, 64, 100}));
}

TEST(NewSizes, NeedFewCompilations) {
  struct Case {
    const char* name;
    Model model;
    int64_t least, most;
    int64_t most_compiles = 4;
  };
  // Of a u-net the positions in images of equal heights and widths are shared: another graph.
  const Case cases[] = {{"fully convolutional", TrainFullyConvolutional, 5, 40},
                        {"strided", TrainStrided, 20, 60},
                        {"u-net", TrainUNet, 6, 40, 8},
                        {"resized", Resized, 30, 80},
                        {"recurrent", TrainRecurrent, 3, 40},
                        {"recurrent, batch", TrainRecurrentBatch, 3, 40},
                        {"transformer", TrainTransformer, 2, 30}};
  for (const Case& c : cases) {
    if (c.name == std::string("strided") && !AreStridesGeneral()) continue;
    Lazy().ClearComputationCache();
    int64_t compiles = Compiles();
    for (const Sizes& sizes : Pairs(c.least, c.most, 50)) c.model(sizes);
    EXPECT_LE(Compiles() - compiles, c.most_compiles) << c.name;
  }
}

TEST(NewSizes, AreNeitherLoweredNorCompiled) {
  Lazy().ClearComputationCache();
  for (int64_t batch : {16, 24}) TrainMlp({batch});
  int64_t compiles = Compiles(), lowerings = Lowerings();
  for (int64_t batch = 2; batch < 200; ++batch) TrainMlp({batch});
  for (int64_t batch = 2; batch < 200; ++batch) TrainMlp({batch});
  EXPECT_EQ(Compiles(), compiles);
  EXPECT_EQ(Lowerings(), lowerings);
}

TEST(NewSizes, TakeLittleMemoryAndPushNothingOut) {
  Lazy().ClearComputationCache();
  for (int64_t length : {4, 5, 6}) Decode({length});
  int64_t evictions = Lazy().GetCacheStats().evictions, compiles = Compiles();
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t length = 4; length < 1500; ++length) Decode({length});
  }
  EXPECT_LE(Compiles() - compiles, 2);
  EXPECT_EQ(Lazy().GetCacheStats().evictions, evictions);
  EXPECT_LT(Lazy().GetCacheStats().bytes, 64 << 20);
}

TEST(NewSizes, OnSeveralThreads) {
  Lazy().ClearComputationCache();
  for (int64_t batch : {16, 24}) TrainMlp({batch});
  std::vector<std::thread> threads;
  std::vector<std::vector<std::vector<HostTensor>>> results(4);
  for (auto& mine : results) {
    threads.emplace_back([&mine] {
      for (int64_t batch = 3; batch < 40; ++batch) mine.push_back(TrainMlp({batch}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results[0].size(); ++i) {
    for (const auto& other : results) {
      for (size_t r = 0; r < other[i].size(); ++r) {
        EXPECT_TRUE(other[i][r].SameBits(results[0][i][r]));
      }
    }
  }
}

/// Errors of an instance name the line of the op, and leave the others alone.
TEST(NewSizes, RaiseErrorsOfTheirOwn) {
  Lazy().ClearComputationCache();
  auto run = [](int64_t n, int64_t index) {
    Tensor table = Values({10, 4}, 1);
    std::vector<int64_t> indices(static_cast<size_t>(n), 3);
    indices.back() = index;
    return embedding(tensor(indices, Dims{n}, i64, "cpu"), table).sum({0}).host();
  };
  for (int64_t n : {5, 7, 9}) run(n, 1);
  for (int64_t n : {11, 13}) EXPECT_THROW_MESSAGE(run(n, 99), Error, "new_sizes_test.cpp");
  EXPECT_NO_THROW(run(13, 9));
}

}  // namespace
}  // namespace hammock::cpu
