// Parts of models: matmuls with epilogues, and attention.
#include "fuzz/generator.h"
#include "ops/primitives/attention_node.h"

namespace hammock::fuzz {

void Generator::Layer() {
  DType dtype = random_.OneIn(3) ? random_.Pick(kFloats) : DType::kF32;
  bool convolves = random_.OneIn(3);
  GraphValue y = convolves ? ConvolvedImage(dtype) : LayerMatMul(dtype);
  int channel = convolves ? 1 : RankOf(y) - 1;
  for (int64_t i = random_.Between(1, 5); i > 0; --i) y = Follow(y, channel);
  if (!convolves || RankOf(y) != 4 || !random_.OneIn(2)) return;
  y = ConvolvedAgain(y);
  for (int64_t i = random_.Between(0, 2); i > 0; --i) y = Follow(y, channel);
}

GraphValue Generator::LayerMatMul(DType dtype) {
  int64_t batch = random_.OneIn(3) ? random_.Between(1, 4) : 0;
  int64_t m = random_.Pick({1, 4, 20, 48, 64, 96, 130, 300});
  int64_t n = random_.Pick({1, 8, 48, 64, 130, 520, 1100});
  int64_t k = random_.Pick({1, 3, 16, 40});
  if (std::max<int64_t>(batch, 1) * m * n * k > 400000) m = 20, k = 3;
  bool transposed = random_.OneIn(3);
  Dims a = {m, k}, b = transposed ? Dims{n, k} : Dims{k, n};
  if (batch == 0) {
    return Add(ops::kDotGeneral, {Like(dtype, a), Like(dtype, b)},
               {Attr(Dims{1}), Attr(Dims{transposed ? 1 : 0}), Attr(Dims{}), Attr(Dims{})});
  }
  a.insert(0, batch);
  b.insert(0, batch);
  return Add(ops::kDotGeneral, {Like(dtype, a), Like(dtype, b)},
             {Attr(Dims{2}), Attr(Dims{transposed ? 2 : 1}), Attr(Dims{0}), Attr(Dims{0})});
}

GraphValue Generator::ConvolvedImage(DType dtype) {
  int64_t in = random_.Between(1, 5), out = random_.Pick({1, 3, 8, 17});
  int64_t taps = random_.Pick({1, 1, 3});
  Dims image = {random_.Between(1, 3), in, random_.Pick({4, 9, 30}), random_.Pick({4, 11, 32})};
  GraphValue x = Like(dtype, image);
  GraphValue w = Like(dtype, Dims{out, in, taps, taps});
  Dims ones = {1, 1}, padding = {taps / 2, taps / 2};
  return Add(
      ops::kConvolution, {x, w},
      {Attr(ones), Attr(padding), Attr(ones), Attr(false), Attr(Dims{0, 0}), Attr(int64_t{1})});
}

/// The image, or windows of it, through another convolution.
GraphValue Generator::ConvolvedAgain(GraphValue y) {
  y = Add(ops::kTanh, {y});
  if (const Shape type = TypeOf(y); random_.OneIn(2) && type.size(2) > 1 && type.size(3) > 1) {
    int64_t wide = random_.Between(1, 2), low = random_.OneIn(3) ? 1 : 0;
    y = Add(ops::kReduceWindow, {y},
            {Attr(random_.OneIn(2) ? "max" : "sum"), Attr(Dims{2, wide}), Attr(Dims{2, 1}),
             Attr(Dims{low, 0}), Attr(Dims{0, 0}), Attr(Dims{1, 1})});
  }
  const Shape type = TypeOf(y);
  int64_t taps = random_.Pick({1, 3});
  GraphValue w = Small(type.dtype(), Dims{random_.Pick({2, 16}), type.size(1), taps, taps});
  Dims ones = {1, 1}, padding = {taps / 2, taps / 2};
  return Add(
      ops::kConvolution, {y, w},
      {Attr(ones), Attr(padding), Attr(ones), Attr(false), Attr(Dims{0, 0}), Attr(int64_t{1})});
}

GraphValue Generator::Follow(GraphValue y, int channel) {
  const Shape type = TypeOf(y);
  static const OpDef* const kTwo[] = {&ops::kAdd, &ops::kSub, &ops::kMul, &ops::kMaximum};
  static const OpDef* const kOne[] = {&ops::kTanh, &ops::kSigmoid, &ops::kErf, &ops::kNeg};
  int64_t kind = random_.Below(9);
  if (kind < 3 && channel < type.rank()) {
    Dims sizes = Dims::Filled(type.rank(), 1);
    sizes[channel] = type.size(channel);
    GraphValue vector = Input(Shape(type.dtype(), sizes));
    return Add(*random_.Pick(kTwo), {y, Broadcast(vector, type.sizes())});
  }
  if (kind < 5) return Add(*random_.Pick(kTwo), {y, Like(type.dtype(), type.sizes())});
  if (kind < 7) return Add(*random_.Pick(kOne), {y});
  if (kind == 7 && type.rank() > 1) {
    GraphValue row = Add(ops::kReduceSum, {y}, {Attr(Dims{type.rank() - 1}), Attr(true)});
    return Add(*random_.Pick(kTwo), {y, Broadcast(row, type.sizes())});
  }
  int64_t last = type.size(type.rank() - 1);
  int64_t heads = last % 4 == 0 ? 4 : 1;
  Dims split = type.sizes(), order;
  split[type.rank() - 1] = heads;
  split.push_back(last / heads);
  for (int d = 0; d < split.size(); ++d) order.push_back(d);
  if (type.rank() > 1) std::swap(order[type.rank() - 1], order[type.rank() - 2]);
  return Add(ops::kPermute, {Reshape(y, split)}, {Attr(order)});
}

GraphValue Generator::Small(DType dtype, const Dims& sizes) {
  return Add(ops::kTanh, {WithoutNan(Like(dtype, sizes))});
}

void Generator::Attention() {
  static constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kBF16, DType::kF16};
  DType dtype = random_.Pick(kTypes);
  Dims batch;
  for (int64_t i = random_.Between(0, 2); i > 0; --i) batch.push_back(random_.Between(1, 2));
  int64_t queries = random_.Pick({1, 3, 33, 96, 97, 130});
  int64_t keys = random_.Pick({1, 5, 64, 257, 257, 600});
  int64_t width = random_.Pick({1, 4, 33}), out_width = random_.Pick({1, 16, 40});
  auto with = [&](int64_t rows, int64_t columns) {
    Dims sizes = batch;
    sizes.push_back(rows);
    sizes.push_back(columns);
    return sizes;
  };
  GraphValue q = Small(dtype, with(queries, width)), k = Small(dtype, with(keys, width));
  GraphValue v = Small(dtype, with(keys, out_width)), mask;
  bool causal = random_.OneIn(3);
  if (!causal && random_.OneIn(2)) {
    Dims sizes =
        random_.OneIn(2) ? Dims{queries, keys} : with(random_.OneIn(2) ? 1 : queries, keys);
    mask = random_.OneIn(2) ? Like(DType::kBool, sizes) : Small(random_.Pick(kTypes), sizes);
  }
  std::vector<Attr> attrs = {Attr(causal), Attr(random_.OneIn(2) ? 0.5 : 1.0)};
  GraphValue out = Add(ops::kAttention, {q, k, v, mask}, attrs);
  if (random_.OneIn(2)) return;
  Dims rows = batch;
  rows.push_back(queries);
  GraphValue grad = Small(dtype, with(queries, out_width)), delta = Small(DType::kF32, rows);
  Add(ops::kAttentionBackward, {grad, q, k, v, mask, {out.node, 1}, delta}, attrs);
}

}  // namespace hammock::fuzz
