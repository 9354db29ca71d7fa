// Optimisers by sparse gradients of embeddings, against PyTorch's arithmetic on dense rows.

#include <gtest/gtest.h>

#include <cmath>

#include "hammock/hammock.h"

namespace hammock {
namespace {

Tensor Start() { return sin(to(arange(15), f64) * 1.7).reshape({5, 3}); }

/// Loss of two batches, in which row 1 occurs twice and row 2 never.
Tensor Loss(const Tensor& weight, bool sparse, int i) {
  Tensor input = i % 2 == 0 ? tensor({1, 4, 1}) : tensor({0, 1, 3});
  Tensor rows = sparse ? sparse::embedding(input, weight) : embedding(input, weight);
  return (rows * (rows - 0.5 * (i + 1))).sum();
}

template <class Rule, class Options>
Tensor Trained(const Options& options, bool sparse, int steps = 5) {
  Tensor weight = Start().requires_grad_();
  Rule optimizer({weight}, options);
  for (int i = 0; i < steps; ++i) {
    step([&] {
      optimizer.zero_grad();
      Loss(weight, sparse, i).backward();
      optimizer.step();
    });
  }
  return weight.detach();
}

double Distance(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(SparseRules, SgdAndAdagradAreAsWithDenseGradients) {
  optim::SGDOptions sgd{.lr = 0.05};
  EXPECT_LT(Distance(Trained<optim::SGD>(sgd, true), Trained<optim::SGD>(sgd, false)), 1e-12);
  EXPECT_GT(Distance(Trained<optim::SGD>(sgd, true), Start()), 0.01);
  // A row without a gradient has the same sum of squares, and no update, in both.
  optim::AdagradOptions adagrad{.lr = 0.1, .lr_decay = 0.01};
  EXPECT_LT(
      Distance(Trained<optim::Adagrad>(adagrad, true), Trained<optim::Adagrad>(adagrad, false)),
      1e-12);
  optim::AdagradOptions up{.lr = 0.1, .maximize = true};
  EXPECT_LT(Distance(Trained<optim::Adagrad>(up, true), Trained<optim::Adagrad>(up, false)), 1e-12);
}

/// PyTorch's SparseAdam, row by row.
TEST(SparseRules, SparseAdamMovesTheRowsThatWereUsed) {
  const double lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  std::vector<double> w = Start().to_vector<double>(), m(15), v(15);
  for (int i = 0; i < 5; ++i) {
    std::vector<double> grad(15);
    std::vector<int> used(5);
    for (int row : i % 2 == 0 ? std::vector<int>{1, 4, 1} : std::vector<int>{0, 1, 3}) {
      used[row] = 1;
      for (int k = 0; k < 3; ++k) grad[row * 3 + k] += 2 * w[row * 3 + k] - 0.5 * (i + 1);
    }
    double rate = lr * std::sqrt(1 - std::pow(beta2, i + 1)) / (1 - std::pow(beta1, i + 1));
    for (int j = 0; j < 15; ++j) {
      if (!used[j / 3]) continue;
      m[j] += (grad[j] - m[j]) * (1 - beta1);
      v[j] += (grad[j] * grad[j] - v[j]) * (1 - beta2);
      w[j] -= rate * m[j] / (std::sqrt(v[j]) + eps);
    }
  }
  Tensor trained = Trained<optim::SparseAdam>(optim::SparseAdamOptions{.lr = lr}, true);
  EXPECT_LT(Distance(trained, tensor(w, f64).reshape({5, 3})), 1e-12);
}

TEST(SparseRules, BatchesOfOneSizeCompileOnce) {
  Tensor weight = Start().requires_grad_();
  optim::SparseAdam optimizer({weight});
  auto train = [&](int i) {
    step([&] {
      optimizer.zero_grad();
      Loss(weight, true, i).backward();
      optimizer.step();
    });
    weight.host();
  };
  train(0);
  train(1);
  int64_t before = metrics::CounterValue("UncachedCompile").value_or(0);
  for (int i = 2; i < 6; ++i) train(i);
  EXPECT_EQ(metrics::CounterValue("UncachedCompile").value_or(0), before);
}

TEST(SparseRules, OthersRefuseThem) {
  Tensor weight = Start().requires_grad_();
  Loss(weight, true, 0).backward();
  EXPECT_THROW(optim::Adam({weight}).step(), NotSupported);
  EXPECT_THROW(optim::SGD({weight}, {.lr = 0.1, .momentum = 0.9}).step(), NotSupported);
  optim::SparseAdam sparse({weight});
  sparse.zero_grad();
  Loss(weight, false, 0).backward();
  EXPECT_THROW(sparse.step(), ValueError);
}

TEST(SparseRules, EmbeddingLayersHaveThem) {
  nn::Embedding table({.num_embeddings = 6, .embedding_dim = 2, .padding_idx = 0, .sparse = true});
  table(tensor({{0, 3}, {3, 5}})).sum().backward();
  Tensor weight = table->weight;
  ASSERT_TRUE(sparse::grad(weight));
  EXPECT_EQ(sparse::grad(weight)->to_dense().to_vector<float>(),
            (std::vector<float>{0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 1, 1}));
  table->zero_grad();
  EXPECT_FALSE(sparse::grad(weight));
}

}  // namespace
}  // namespace hammock
