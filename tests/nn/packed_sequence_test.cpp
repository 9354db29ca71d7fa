#include "hammock/nn/packed_sequence.h"

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "support/tensor_matchers.h"

namespace hammock::nn {
namespace {

using Numbers = std::vector<int64_t>;

TEST(PackedSequence, HasAllStepsInTheOrderOfTime) {
  // Sequences 1 2 3, 4 5, 6
  Tensor padded = tensor({{1.0, 4.0, 6.0}, {2.0, 5.0, 0.0}, {3.0, 0.0, 0.0}});
  PackedSequence packed = pack_padded_sequence(padded, {3, 2, 1});
  EXPECT_TENSOR_EQ(packed.data, tensor({1.0, 4.0, 6.0, 2.0, 5.0, 3.0}));
  EXPECT_EQ(packed.batch_sizes, (Numbers{3, 2, 1}));
  auto [back, lengths] = pad_packed_sequence(packed);
  EXPECT_TENSOR_EQ(back, padded);
  EXPECT_EQ(lengths, (Numbers{3, 2, 1}));
}

TEST(PackedSequence, RemembersTheOrderOfTheBatch) {
  Tensor padded = tensor({{6.0, 0.0, 0.0}, {1.0, 2.0, 3.0}, {4.0, 5.0, 0.0}});
  PackedSequence packed = pack_padded_sequence(padded, {1, 3, 2}, true, false);
  EXPECT_TENSOR_EQ(packed.data, tensor({1.0, 4.0, 6.0, 2.0, 5.0, 3.0}));
  EXPECT_EQ(packed.sorted_indices, (Numbers{1, 2, 0}));
  EXPECT_EQ(packed.unsorted_indices, (Numbers{2, 0, 1}));
  auto [back, lengths] = pad_packed_sequence(packed, true, -1, 4);
  EXPECT_TENSOR_EQ(
      back, tensor({{6.0, -1.0, -1.0, -1.0}, {1.0, 2.0, 3.0, -1.0}, {4.0, 5.0, -1.0, -1.0}}));
  EXPECT_EQ(lengths, (Numbers{1, 3, 2}));
}

TEST(PackedSequence, IsMadeOfSequencesAndGivesThemBack) {
  std::vector<Tensor> sequences = {tensor({1.0, 2.0}), tensor({3.0, 4.0, 5.0}), tensor({6.0})};
  std::vector<Tensor> back = unpack_sequence(pack_sequence(sequences, false));
  ASSERT_EQ(back.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TENSOR_EQ(back[i], sequences[i]);
  EXPECT_TENSOR_EQ(pad_sequence(sequences, true, 9),
                   tensor({{1.0, 2.0, 9.0}, {3.0, 4.0, 5.0}, {6.0, 9.0, 9.0}}));
  EXPECT_TENSOR_EQ(pad_sequence(sequences, true, 0, "left"),
                   tensor({{0.0, 1.0, 2.0}, {3.0, 4.0, 5.0}, {0.0, 0.0, 6.0}}));
}

TEST(PackedSequence, RefusesWhatHasNoMeaning) {
  Tensor padded = ones({3, 2});
  EXPECT_THROW_MESSAGE(pack_padded_sequence(padded, {2, 3}), ValueError,
                       "the lengths [2,3] do not fall");
  EXPECT_THROW_MESSAGE(pack_padded_sequence(padded, {4, 3}), ValueError,
                       "needs 2 lengths from 1 to 3");
  EXPECT_THROW_MESSAGE(pack_padded_sequence(padded, {3, 0}), ValueError, "lengths from 1 to 3");
  EXPECT_THROW_MESSAGE(pad_sequence({}), ValueError, "no sequences");
  PackedSequence packed = pack_padded_sequence(padded, {3, 2});
  EXPECT_THROW_MESSAGE(pad_packed_sequence(packed, false, 0, 2), ValueError,
                       "total_length is 2, the longest sequence 3");
}

TEST(PackedSequence, AnLstmReturnsTheStateThatItTakes) {
  LSTM lstm({.input_size = 2, .hidden_size = 3});
  Tensor x = randn({4, 2, 2});
  PackedSequence packed = pack_padded_sequence(x, {4, 4});
  Tensor expected;
  LSTMState plain, state;
  std::tie(expected, plain) = lstm(x);
  std::tie(expected, plain) = lstm(x, plain);
  PackedSequence outputs;
  std::tie(outputs, state) = lstm(packed);
  std::tie(outputs, state) = lstm(packed, state);
  EXPECT_TENSOR_NEAR(pad_packed_sequence(outputs).first.detach(), expected.detach(), 1e-6);
  EXPECT_TENSOR_NEAR(std::get<0>(state).detach(), std::get<0>(plain).detach(), 1e-6);
  EXPECT_TENSOR_NEAR(std::get<1>(state).detach(), std::get<1>(plain).detach(), 1e-6);
  LSTMCell cell(3, 3);
  LSTMState next = cell(ones({2, 3}), LSTMState(std::get<0>(state)[0], std::get<1>(state)[0]));
  EXPECT_EQ(std::get<0>(next).sizes(), (Dims{2, 3}));
}

TEST(PackedSequence, HooksSeeItsData) {
  GRU layer({.input_size = 2, .hidden_size = 3});
  Dims seen;
  layer->register_forward_hook(
      [&](Module&, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
        seen = {inputs.at(0).size(0), outputs.at(0).size(0), outputs.at(1).size(1)};
      });
  layer(pack_padded_sequence(randn({3, 2, 2}), {3, 2}));
  EXPECT_EQ(seen, (Dims{5, 5, 2}));
}

}  // namespace
}  // namespace hammock::nn
