#include "hammock/ir/node.h"
#include "ops/expect.h"

namespace hammock {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Cells, OneStep) {
  Tensor x = tensor({{2.0}}), h = tensor({{1.0}}), w = tensor({{0.5}}), u = tensor({{-1.0}});
  EXPECT_TENSOR(rnn_tanh_cell(x, h, w, u, Vec({1}), Vec({0})), Type(f32, {1, 1}), {std::tanh(1.0)},
                1e-6);
  EXPECT_TENSOR(rnn_relu_cell(x, h, w, u), Type(f32, {1, 1}), {0});
  Tensor w3 = tensor({{0.5}, {1.0}, {-0.5}}), u3 = tensor({{1.0}, {0.0}, {2.0}});
  double reset = Sigmoid(1 + 1), update = Sigmoid(2), fresh = std::tanh(-1 + reset * 2);
  EXPECT_TENSOR(gru_cell(x, h, w3, u3), Type(f32, {1, 1}), {(1 - update) * fresh + update}, 1e-6);
  Tensor w4 = tensor({{0.5}, {1.0}, {-0.5}, {0.0}}), u4 = zeros({4, 1});
  auto [next, cell] = lstm_cell(x, {h, tensor({{3.0}})}, w4, u4, {}, {});
  double c = Sigmoid(2) * 3 + Sigmoid(1) * std::tanh(-1.0);
  EXPECT_TENSOR(cell, Type(f32, {1, 1}), {c}, 1e-6);
  EXPECT_TENSOR(next, Type(f32, {1, 1}), {0.5 * std::tanh(c)}, 1e-6);
  EXPECT_ERROR(gru_cell(x, h, w, u), ValueError, "gru_cell: w_ih must be of [3,1], got f32[1,1]");
  EXPECT_ERROR(lstm_cell(x, {h}, w4, u4), ValueError, "hx must hold h and c");
}

// With relu and weights of one a layer sums its inputs.
TEST(Recurrent, LayersDirectionsAndOrder) {
  Tensor x = tensor(std::vector<float>{1, 2, 4}, {3, 1, 1}), w = ones({1, 1});
  auto [sums, last] = rnn_relu(x, zeros({1, 1, 1}), {w, w}, false, 1, 0, false, false, false);
  EXPECT_TENSOR(sums, Type(f32, {3, 1, 1}), {1, 3, 7});
  EXPECT_TENSOR(last, Type(f32, {1, 1, 1}), {7});
  auto [twice, both] = rnn_relu(x, tensor(std::vector<float>{0, 10}, {2, 1, 1}), {w, w, w, w},
                                false, 2, 0, false, false, false);
  EXPECT_TENSOR(twice, Type(f32, {3, 1, 1}), {11, 14, 21});
  EXPECT_TENSOR(both, Type(f32, {2, 1, 1}), {7, 21});
  auto [ways, ends] = rnn_relu(x, zeros({2, 1, 1}), {w, w, w, w}, false, 1, 0, false, true, false);
  EXPECT_TENSOR(ways, Type(f32, {3, 1, 2}), {1, 7, 3, 6, 7, 4});
  EXPECT_TENSOR(ends, Type(f32, {2, 1, 1}), {7, 7});
  auto [first, end] = rnn_relu(reshape(x, {1, 3, 1}), zeros({1, 1, 1}), {w, w, Vec({1}), Vec({1})},
                               true, 1, 0, false, false, true);
  EXPECT_TENSOR(first, Type(f32, {1, 3, 1}), {3, 7, 13});
  EXPECT_TENSOR(end, Type(f32, {1, 1, 1}), {13});
}

TEST(Recurrent, LayersAreTheirCells) {
  Tensor x = randn({4, 2, 3}), w = randn({20, 3}), u = randn({20, 5}), b = randn({20});
  Tensor h = randn({1, 2, 5}), c = randn({1, 2, 5});
  auto [out, h_last, c_last] = lstm(x, {h, c}, {w, u, b, b}, true, 1, 0, false, false, false);
  std::vector<Tensor> state{select(h, 0, 0), select(c, 0, 0)};
  for (int i = 0; i < 4; ++i) {
    auto [next, cell] = lstm_cell(select(x, 0, i), state, w, u, b, b);
    state = {next, cell};
    EXPECT_TRUE(allclose(select(out, 0, i), next, 1e-5, 1e-6)) << i;
  }
  EXPECT_TRUE(allclose(select(c_last, 0, 0), state[1], 1e-5, 1e-6));
  auto [gru_out, gru_last] =
      gru(x, h, {narrow(w, 0, 0, 15), narrow(u, 0, 0, 15)}, false, 1, 0, false, false, false);
  Tensor g = select(h, 0, 0);
  for (int i = 0; i < 4; ++i) {
    g = gru_cell(select(x, 0, i), g, narrow(w, 0, 0, 15), narrow(u, 0, 0, 15));
    EXPECT_TRUE(allclose(select(gru_out, 0, i), g, 1e-5, 1e-6)) << i;
  }
  EXPECT_TRUE(allclose(select(gru_last, 0, 0), g, 1e-5, 1e-6));
}

TEST(Recurrent, ProjectsTheState) {
  Tensor x = ones({2, 1, 1}), w = ones({8, 1}), u = zeros({8, 1}), project = ones({1, 2});
  auto [out, h, c] = lstm(x, {zeros({1, 1, 1}), zeros({1, 1, 2})}, {w, u, project}, false, 1, 0,
                          false, false, false);
  double gate = Sigmoid(1), cell = gate * std::tanh(1.0);
  double first = 2 * gate * std::tanh(cell), second = gate * cell + cell;
  EXPECT_TENSOR(out, Type(f32, {2, 1, 1}), {first, 2 * gate * std::tanh(second)}, 1e-6);
  EXPECT_TENSOR(c, Type(f32, {1, 1, 2}), {second, second}, 1e-6);
}

TEST(Recurrent, ALongSequenceIsOneNode) {
  auto [out, h] = rnn_tanh(zeros({500, 1, 2}), zeros({1, 1, 3}), {zeros({3, 2}), zeros({3, 3})},
                           false, 1, 0, false, false, false);
  EXPECT_EQ(std::string(out.value().node->op().name()), "recurrent_layer");
  EXPECT_TENSOR(h, Type(f32, {1, 1, 3}), {0, 0, 0});
}

TEST(Recurrent, ChecksItsArguments) {
  Tensor x = zeros({2, 1, 2}), h = zeros({1, 1, 3}), w = zeros({3, 2}), u = zeros({3, 3});
  auto run = [&](const Tensor& input, const Tensor& state, std::vector<Tensor> params) {
    return rnn_tanh(input, state, params, false, 1, 0, false, false, false);
  };
  EXPECT_ERROR(run(zeros({2, 2}), h, {w, u}), ValueError, "needs input of 3 dims");
  EXPECT_ERROR(run(zeros({0, 1, 2}), h, {w, u}), ValueError, "at least one step");
  EXPECT_ERROR(run(x, zeros({2, 1, 3}), {w, u}), ValueError, "hx must be of [1,1,3]");
  EXPECT_ERROR(run(x, h, {w}), ValueError, "need 2 params each, got 1 in all");
  EXPECT_ERROR(run(x, h, {u, w}), ValueError, "w_ih must be of [3,2]");
}

}  // namespace
}  // namespace hammock
