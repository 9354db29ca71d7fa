// Programs whose course depends on values: early stopping, while loops, non-maximum suppression,
// masks, unique, beam search.
#include <algorithm>
#include <set>

#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

/// Boxes as x0, y0, x1, y1; kept indices, best first.
Tensor Suppress(const Tensor& boxes, const Tensor& scores, double threshold) {
  Tensor order = argsort(scores, -1, true);
  std::vector<Tensor> kept;
  while (order.numel() > 0) {
    Tensor best = order[0];
    kept.push_back(best);
    if (order.numel() == 1) break;
    Tensor rest = order.slice(0, 1, None);
    Tensor a = boxes.index({best}), b = boxes.index({rest});
    Tensor low = maximum(a.slice(0, 0, 2), b.slice(1, 0, 2));
    Tensor high = minimum(a.slice(0, 2, 4), b.slice(1, 2, 4));
    Tensor shared = clamp_min(high - low, 0).prod({1});
    Tensor area_b = (b.slice(1, 2, 4) - b.slice(1, 0, 2)).prod({1});
    Tensor area_a = (a.slice(0, 2, 4) - a.slice(0, 0, 2)).prod();
    order = rest.index({shared / (area_a + area_b - shared) <= threshold});
  }
  return stack(kept);
}

/// The same with plain numbers.
std::vector<int64_t> SuppressPlainly(const std::vector<float>& b, const std::vector<float>& scores,
                                     double threshold) {
  std::vector<int64_t> order(scores.size()), kept;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return scores[i] > scores[j]; });
  auto at = [&](int64_t box, int k) { return b[box * 4 + k]; };
  while (!order.empty()) {
    int64_t best = order[0];
    kept.push_back(best);
    std::vector<int64_t> rest;
    for (size_t i = 1; i < order.size(); ++i) {
      int64_t other = order[i];
      float w =
          std::max(0.0f, std::min(at(best, 2), at(other, 2)) - std::max(at(best, 0), at(other, 0)));
      float h =
          std::max(0.0f, std::min(at(best, 3), at(other, 3)) - std::max(at(best, 1), at(other, 1)));
      float area_a = (at(best, 2) - at(best, 0)) * (at(best, 3) - at(best, 1));
      float area_b = (at(other, 2) - at(other, 0)) * (at(other, 3) - at(other, 1));
      if (w * h / (area_a + area_b - w * h) <= threshold) rest.push_back(other);
    }
    order = rest;
  }
  return kept;
}

void StopEarly() {
  nn::Linear net(10, 1);
  optim::SGD optimizer(net->parameters(), {.lr = 0.05});
  Tensor x = randn({128, 10}), y = x.sum({1}, true);
  int64_t before = Compiles();
  double loss = 1e9;
  int steps = 0;
  for (; loss > 1e-4 && steps < 1000; ++steps) {
    optimizer.zero_grad();
    Tensor value = mse_loss(net(x), y);
    value.backward();
    optimizer.step();
    loss = value.item<double>();
  }
  Check(steps > 5 && steps < 1000, "training stops when the loss is small");
  CheckAtMost(static_cast<double>(Compiles() - before), 6, "compiles until it stops");
}

void BeamSearch() {
  constexpr int64_t kBeams = 4, kCodes = 50;
  Tensor log_p = log_softmax(randn({kCodes, kCodes}), 1);
  Tensor sequences = zeros({kBeams, 1}, i64), score = tensor({0.0, -1e9, -1e9, -1e9});
  int64_t before = Compiles();
  for (int i = 0; i < 30; ++i) {
    Tensor candidates = score.unsqueeze(1) + log_p.index({sequences.select(1, -1)});
    auto [values, indices] = topk(candidates.flatten(), kBeams);
    sequences =
        cat({sequences.index({floor_divide(indices, kCodes)}), (indices % kCodes).unsqueeze(1)}, 1);
    score = values;
    if (score[0].item<double>() < -1e6) break;
  }
  Tensor best = sequences[0];
  Tensor total = log_p.index({best.slice(0, 0, 30), best.slice(0, 1, 31)}).sum();
  CheckNear(score[0].item<double>(), total.item<double>(), 1e-4, "the score of the best sequence");
  CheckAtMost(static_cast<double>(Compiles() - before), 8, "compiles of a beam search");
}

}  // namespace

int main() {
  manual_seed(0);
  StopEarly();
  Tensor n = tensor(27);
  int count = 0;
  for (; n.item<int64_t>() != 1; ++count) n = where(n % 2 == 0, floor_divide(n, 2), n * 3 + 1);
  Check(count == 111, "27 reaches 1 after 111 steps");
  for (int round = 0; round < 2; ++round) {
    Tensor corner = rand({120, 2}), boxes = cat({corner, corner + rand({120, 2}) * 0.3}, 1);
    Tensor scores = rand({120});
    Check(Suppress(boxes, scores, 0.5).to_vector<int64_t>() ==
              SuppressPlainly(boxes.to_vector<float>(), scores.to_vector<float>(), 0.5),
          "kept boxes");
  }
  Tensor v = randint(0, 100, {1000});
  auto [distinct, inverse, counts] = unique(v);
  std::vector<int64_t> plain = v.to_vector<int64_t>();
  Check(distinct.numel() ==
            static_cast<int64_t>(std::set<int64_t>(plain.begin(), plain.end()).size()),
        "distinct values");
  Check(equal(distinct.index({inverse}), v), "values from their indices");
  Check(counts.sum().item<int64_t>() == 1000, "counts");
  Tensor m = arange(6).to(f32).reshape({2, 3});
  m.index_put_({m > 2}, -1.0);
  Check(m.to_vector<float>() == std::vector<float>({0, 1, 2, -1, -1, -1}), "assignment by a mask");
  BeamSearch();
  return Result();
}
