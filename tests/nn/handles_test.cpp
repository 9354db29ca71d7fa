// Handles of layers: how they are made, called with their own results, and printed.

#include <gtest/gtest.h>

#include <sstream>

#include "hammock/nn.h"
#include "hammock/ops.h"

namespace hammock::nn {
namespace {

TEST(Handles, TakePyTorchsFirstArguments) {
  Tensor image = rand({2, 3, 8, 8});
  EXPECT_EQ(Conv2d(3, 4, 3)(image).sizes(), (Dims{2, 4, 6, 6}));
  EXPECT_EQ(Conv2d(3, 4, 3, 2, 1)(image).sizes(), (Dims{2, 4, 4, 4}));
  EXPECT_EQ(Conv2d(3, 4, Sizes{3, 5})(image).sizes(), (Dims{2, 4, 6, 4}));
  EXPECT_EQ(ConvTranspose2d(3, 4, 2, 2)(image).sizes(), (Dims{2, 4, 16, 16}));
  EXPECT_EQ(MaxPool2d(3, 2, 1)(image).sizes(), (Dims{2, 3, 4, 4}));
  EXPECT_EQ(MaxPool2d({2, 4})(image).sizes(), (Dims{2, 3, 4, 2}));
  EXPECT_EQ(MaxPool2d({.kernel_size = 2})(image).sizes(), (Dims{2, 3, 4, 4}));
  EXPECT_EQ(AvgPool2d(2)(image).sizes(), (Dims{2, 3, 4, 4}));
}

TEST(Handles, TakeAListOfSizes) {
  EXPECT_EQ(LayerNorm({8})->weight.sizes(), Dims{8});
  EXPECT_EQ(LayerNorm(8)->weight.sizes(), Dims{8});
  EXPECT_EQ(LayerNorm({4, 8})->weight.sizes(), (Dims{4, 8}));
  EXPECT_EQ(LayerNorm({.normalized_shape = 8, .eps = 1e-3})->weight.sizes(), Dims{8});
  EXPECT_EQ(RMSNorm({4, 8})->weight.sizes(), (Dims{4, 8}));
}

TEST(Handles, CellsTakeWhatTheyReturn) {
  Tensor x = rand({5, 3});
  LSTMCell cell(3, 4);
  LSTMState state = cell(x);
  state = cell(x, state);
  auto [h, c] = state;
  EXPECT_EQ(h.sizes(), (Dims{5, 4}));
  EXPECT_EQ(c.sizes(), (Dims{5, 4}));
  GRUCell gru(3, 4);
  Tensor hidden = gru(x);
  hidden = gru(x, hidden);
  RNNCell rnn(3, 4);
  hidden = rnn(x, hidden);
  EXPECT_EQ(hidden.sizes(), (Dims{5, 4}));
}

TEST(Handles, LayersTakeTheStateTheyReturn) {
  Tensor x = rand({6, 5, 3});
  LSTM lstm(3, 4);
  auto [whole, last] = lstm(x);
  auto [first, state] = lstm(x.narrow(0, 0, 3));
  Tensor second;
  std::tie(second, state) = lstm(x.narrow(0, 3, 3), state);
  EXPECT_TRUE(allclose(cat({first, second}), whole));
  EXPECT_TRUE(allclose(std::get<1>(state), std::get<1>(last)));
  GRU gru(3, 4);
  auto [y, hidden] = gru(x);
  std::tie(y, hidden) = gru(x, hidden);
  EXPECT_EQ(hidden.sizes(), (Dims{1, 5, 4}));
}

TEST(Handles, CellsAreCallableByName) {
  LSTMCell cell(3, 4);
  Tensor x = rand({2, 3});
  Any boxed = cell->run_method("forward", {Any(x)});
  EXPECT_TRUE(allclose(boxed.ToList().at(0).ToTensor(), std::get<0>(cell(x))));
}

TEST(Handles, PrintTheirModule) {
  std::ostringstream text;
  text << Linear(2, 3) << Sequential(ReLU());
  EXPECT_EQ(text.str(),
            "Linear(in_features=2, out_features=3, bias=true)  # 9 parameters\n"
            "Sequential(\n  (0): ReLU()\n)\n");
  text.str("");
  text << Linear(nullptr);
  EXPECT_EQ(text.str(), "null");
}

}  // namespace
}  // namespace hammock::nn
