// Numerical programs: an option's price by simulation, k-means, the game of life in two ways,
// PageRank over a dense matrix and over edges, linear algebra. Loops compile once.
#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

int64_t Compiles() { return LazyGraphExecutor::Get()->GetCacheStats().misses; }

void PriceAnOption() {
  const double spot = 100, strike = 105, rate = 0.03, sigma = 0.2;
  Tensor ends = spot * exp(rate - 0.5 * sigma * sigma + sigma * randn({1000000}));
  const double price = std::exp(-rate) * clamp_min(ends - strike, 0).mean().item<double>();
  CheckNear(price, 7.13, 0.01, "the price by Black and Scholes");
}

void FindClusters() {
  Tensor points = cat({randn({2000, 16}), randn({2000, 16}) + 8, randn({2000, 16}) - 8});
  Tensor centres = points.index({tensor(std::vector<int64_t>{0, 2000, 4000})}).clone();
  mark_step(true);
  const int64_t before = Compiles();
  for (int i = 0; i < 10; ++i) {
    step([&] {
      Tensor member = one_hot(argmin(cdist(points, centres), 1), 3).to(f32);
      centres = matmul(member.t(), points) / clamp_min(member.sum({0}).unsqueeze(1), 1);
    });
  }
  for (int k = 0; k < 3; ++k) {
    CheckNear(centres[k].mean().item<double>(), std::array{0, 8, -8}[k], 0.05,
              "the centre of cluster " + std::to_string(k));
  }
  CheckAtMost(static_cast<double>(Compiles() - before), 4, "compiles of k-means and its results");
}

/// Cells that live after `steps` by shifting the board, and by a convolution.
void PlayLife(int64_t size, int steps) {
  Tensor start = (rand({size, size}) < 0.3).to(f32);
  Tensor shifted = start, convolved = start.view({1, 1, size, size});
  Tensor kernel = ones({1, 1, 3, 3});
  auto next = [](const Tensor& cells, const Tensor& around) {
    return ((around == 3) | ((cells == 1) & (around == 2))).to(f32);
  };
  for (int i = 0; i < steps; ++i) {
    step([&] {
      Tensor around = zeros_like(shifted);
      for (int at = 0; at < 9; ++at) {
        if (at != 4) around = around + roll(shifted, {at / 3 - 1, at % 3 - 1}, {0, 1});
      }
      shifted = next(shifted, around);
      Tensor padded = pad(convolved, {1, 1, 1, 1}, "circular");
      convolved = next(convolved, conv2d(padded, kernel) - convolved);
    });
  }
  Check((shifted - convolved.view({size, size})).abs().sum().item<double>() == 0,
        "life is the same by shifts and by a convolution");
}

void RankPages(int64_t n) {
  Tensor links = (rand({n, n}) < 0.05).to(f32);
  Tensor degree = clamp_min(links.sum({0}, true), 1);
  Tensor edges = nonzero(links);
  Tensor to = edges.select(1, 0).contiguous(), from = edges.select(1, 1).contiguous();
  Tensor weight = 1 / degree.view({n}).index({from});
  Tensor dense = full({n}, 1.0 / n), sparse = dense;
  for (int i = 0; i < 30; ++i) {
    step([&] {
      dense = 0.85 * mv(links / degree, dense) + 0.15 / n;
      sparse = 0.85 * zeros({n}).index_add(0, to, sparse.index({from}) * weight) + 0.15 / n;
    });
  }
  CheckNear(dense.sum().item<double>(), 1, 1e-3, "ranks sum to one");
  CheckNear((dense - sparse).abs().max().item<double>(), 0, 1e-6, "ranks over edges");
}

void Factor(int64_t n) {
  Tensor a = randn({n, n}, f64), b = randn({n}, f64);
  Tensor s = matmul(a, a.t()) + n * eye(n, f64);
  auto error = [](const Tensor& got, const Tensor& expected) {
    return (got - expected).abs().max().item<double>();
  };
  auto [values, vectors] = linalg_eigh(s);
  auto [u, d, vh] = linalg_svd(a);
  Tensor l = linalg_cholesky(s);
  CheckNear(error(matmul(s, linalg_solve(s, b)), b), 0, 1e-9, "solve");
  CheckNear(error(matmul(vectors * values, vectors.t()), s), 0, 1e-9, "eigh");
  CheckNear(error(matmul(u * d, vh), a), 0, 1e-9, "svd");
  CheckNear(error(matmul(l, l.t()), s), 0, 1e-9, "cholesky");
  CheckNear(error(matmul(matrix_exp(a * 0.01), matrix_exp(a * -0.01)), eye(n, f64)), 0, 1e-9,
            "matrix_exp");
}

}  // namespace

int main() {
  manual_seed(1);
  PriceAnOption();
  FindClusters();
  PlayLife(128, 20);
  RankPages(300);
  Factor(60);
  return Result();
}
