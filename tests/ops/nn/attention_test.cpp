#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Attention, WeighsValues) {
  Tensor query = tensor({{1.0}, {0.0}}), key = tensor({{0.0}, {std::log(3.0)}});
  Tensor value = tensor({{0.0}, {4.0}});
  EXPECT_TENSOR(scaled_dot_product_attention(query, key, value), Type(f32, {2, 1}), {3, 2}, 1e-6);
  EXPECT_TENSOR(scaled_dot_product_attention(query, key, value, {}, 0, true), Type(f32, {2, 1}),
                {0, 2}, 1e-6);
  EXPECT_TENSOR(scaled_dot_product_attention(query, key, value, {}, 0, false, 0.0),
                Type(f32, {2, 1}), {2, 2}, 1e-6);
  Tensor mask = logical_not(tensor({{1, 0}, {0, 1}}, boolean));
  auto [out, weights] = _scaled_dot_product_attention(query, key, value, mask);
  EXPECT_TENSOR(out, Type(f32, {2, 1}), {4, 0});
  EXPECT_TENSOR(weights, Type(f32, {2, 2}), {0, 1, 1, 0});
  EXPECT_ERROR(scaled_dot_product_attention(query, key, value, mask, 0, true), ValueError,
               "attn_mask must not be given");
  EXPECT_ERROR(scaled_dot_product_attention(query, zeros({2, 2}), value), ValueError,
               "needs query (..., L, E)");
}

TEST(Attention, SeveralHeads) {
  // Two heads of one number each; all projections are the identity.
  Tensor eye2 = eye(2), x = tensor(std::vector<float>{1, 0, 0, 1}, {2, 1, 2});
  Tensor in = tensor({{1, 0}, {0, 1}, {1, 0}, {0, 1}, {1, 0}, {0, 1}}, f32);
  double near = std::exp(1.0) / (std::exp(1.0) + 1);
  auto [out, weights] = multi_head_attention_forward(x, x, x, 2, 2, in, {}, eye2, {});
  EXPECT_TENSOR(out, Type(f32, {2, 1, 2}), {near, 0.5, 0.5, near}, 1e-6);
  EXPECT_TENSOR(weights, Type(f32, {1, 2, 2}),
                {(near + 0.5) / 2, (1.5 - near) / 2, (1.5 - near) / 2, (near + 0.5) / 2}, 1e-6);
  AttentionOptions options;
  options.key_padding_mask = tensor({{0, 1}}, boolean);
  options.need_weights = false;
  auto [first, none] = multi_head_attention_forward(x, x, x, 2, 2, in, {}, eye2, {}, options);
  EXPECT_TENSOR(first, Type(f32, {2, 1, 2}), {1, 0, 1, 0}, 1e-6);
  EXPECT_FALSE(none.defined());
  auto [joined, same] = multi_head_attention_forward(x, x, x, 2, 2, in, {}, Tensor(), {});
  EXPECT_EQ(joined.to_vector<float>(), out.to_vector<float>());
  EXPECT_ERROR(multi_head_attention_forward(x, x, x, 2, 3, in, {}, eye2, {}), ValueError,
               "divides into 3 heads");
  EXPECT_ERROR(multi_head_attention_forward(x, x, x, 2, 2, eye2, {}, eye2, {}), ValueError,
               "in_proj_weight must be of [6,2]");
}

TEST(Attention, HeadsWithoutBatchAndWithMoreKeys) {
  Tensor x = tensor({{1.0, 0.0}, {0.0, 1.0}});
  Tensor in = tensor({{0, 0}, {0, 0}, {1, 0}, {0, 1}, {1, 0}, {0, 1}}, f32);  // queries are zero
  AttentionOptions options;
  options.add_zero_attn = true;
  options.bias_k = options.bias_v = ones({1, 1, 2});
  options.average_attn_weights = false;
  auto [out, weights] = multi_head_attention_forward(x, x, x, 2, 1, in, {}, eye(2), {}, options);
  // The mean of (1, 0), (0, 1), (1, 1) and (0, 0).
  EXPECT_TENSOR(out, Type(f32, {2, 2}), {0.5, 0.5, 0.5, 0.5}, 1e-6);
  EXPECT_TENSOR(weights, Type(f32, {1, 2, 4}), std::vector<double>(8, 0.25), 1e-6);
}

TEST(EmbeddingBag, BagsOfAVector) {
  Tensor weight = tensor({{1.0, 10.0}, {2.0, 20.0}, {3.0, 0.0}});
  Tensor index = Vec({0, 1, 2, 2}, i64), offsets = Vec({0, 3, 3}, i64);
  EXPECT_TENSOR(embedding_bag(index, weight, offsets, {}, 2, false, "sum"), Type(f32, {3, 2}),
                {6, 30, 0, 0, 3, 0});
  EXPECT_TENSOR(embedding_bag(index, weight, offsets), Type(f32, {3, 2}), {2, 10, 0, 0, 3, 0});
  EXPECT_TENSOR(embedding_bag(index, weight, offsets, {}, 2, false, "max"), Type(f32, {3, 2}),
                {3, 20, 0, 0, 3, 0});
  EXPECT_TENSOR(
      embedding_bag(index, weight, Vec({0, 3, 4}, i64), {}, 2, false, "sum", false, {}, true),
      Type(f32, {2, 2}), {6, 30, 3, 0});
  EXPECT_TENSOR(embedding_bag(index, weight, offsets, {}, 2, false, "mean", false, {}, false, -1),
                Type(f32, {3, 2}), {1.5, 15, 0, 0, 0, 0});
  EXPECT_ERROR(embedding_bag(index, weight), ValueError, "no offsets");
  EXPECT_ERROR(embedding_bag(index, weight, offsets, {}, 2, true), NotSupported,
               "scale_grad_by_freq is not there");
  EXPECT_ERROR(embedding_bag(index, weight, offsets, {}, 2, false, "sum", true), NotSupported,
               "sparse is not there");
  EXPECT_ERROR(scaled_dot_product_attention(Vec({1}), Vec({1}), Vec({1}), std::nullopt, 0.5),
               ValueError, "_attention: needs query");
  EXPECT_ERROR(embedding_bag(Vec({3}, i64), weight, Vec({0}, i64)).host(), Error, "out of bounds");
  EXPECT_ERROR(embedding_bag(index, weight, offsets, {}, 2, false, "min"), ValueError, "mode must");
}

TEST(EmbeddingBag, BagsOfAMatrix) {
  Tensor weight = tensor({{1.0, 10.0}, {2.0, 20.0}, {3.0, 0.0}}), index = tensor({{0, 2}, {1, 1}});
  EXPECT_TENSOR(embedding_bag(index, weight, {}, {}, 2, false, "max"), Type(f32, {2, 2}),
                {3, 10, 2, 20});
  EXPECT_TENSOR(embedding_bag(index, weight, {}, {}, 2, false, "sum", false,
                              tensor({{2.0, 1.0}, {0.0, 1.0}})),
                Type(f32, {2, 2}), {5, 20, 2, 20});
  EXPECT_ERROR(embedding_bag(index, weight, Vec({0}, i64)), ValueError,
               "offsets must not be given");
  EXPECT_ERROR(embedding_bag(index, weight, {}, {}, 2, false, "mean", false, ones({2, 2})),
               NotSupported, "go with mode sum");
}

TEST(EmbeddingBag, RenormsTheRowsInUse) {
  Tensor weight = tensor({{3.0, 4.0}, {6.0, 8.0}});
  EXPECT_TENSOR(embedding_bag(tensor({{0}}), weight, {}, 1.0), Type(f32, {1, 2}), {0.6, 0.8}, 1e-6);
  EXPECT_TENSOR(weight, Type(f32, {2, 2}), {0.6, 0.8, 6, 8}, 1e-6);
  weight.requires_grad_();
  embedding_bag(tensor({{1}}), weight, {}, 1.0).sum().backward();
  EXPECT_TENSOR(weight.grad(), Type(f32, {2, 2}), {0, 0, 1, 1});
}

}  // namespace
}  // namespace hammock
