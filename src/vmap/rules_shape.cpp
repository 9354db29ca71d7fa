// Batching rules of ops that move elements.

#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "vmap/rules.h"

namespace hammock::vmap_rules {

using namespace ops;  // NOLINT: primitives and the steps that expansions are made of

namespace {

/// The sizes with ones before them, up to `rank`.
Dims Aligned(Dims sizes, int rank) {
  while (sizes.size() < rank) sizes.insert(0, 1);
  return sizes;
}

/// [batch, count] as [batch, 1.., count, 1..] repeated to `sizes`, whose dim `dim` it lies along.
Tensor IndexAlong(const Tensor& index, int dim, const Dims& sizes) {
  Dims along = Dims::Filled(sizes.size(), 1);
  along[0] = sizes[0];
  along[dim] = index.size(1);
  return Broadcasted(Reshaped(index, along), sizes);
}

/// start, start + step, ... of each sample: [batch, count].
Tensor Positions(const Tensor& starts, int64_t count, int64_t step) {
  Tensor start = Reshaped(Casted(starts, DType::kI64), {starts.size(0), 1});
  Tensor moves = Apply(kMul, Location(), {Counting(count, starts), Constant(step, DType::kI64)});
  return Apply(kAdd, Location(), {start, Reshaped(moves, {1, count})});
}

}  // namespace

Tensors BatchReshape(const BatchCall& call) {
  return {Reshaped(call[0], call.Sizes(call.out[0].sizes()))};
}

Tensors BatchBroadcast(const BatchCall& call) {
  Dims aligned = Aligned(call.TypeOf(0).sizes(), call.out[0].rank());
  Tensor x = Reshaped(call[0], call.Sizes(aligned));
  return {Broadcasted(x, call.Sizes(call.out[0].sizes()))};
}

Tensors BatchPermute(const BatchCall& call) {
  Dims dims = BehindBatch(call.attrs[0]).ints();
  dims.insert(0, 0);
  return {Permuted(call[0], dims)};
}

Tensors BatchDynamicSlice(const BatchCall& call) {
  Attr dim = BehindBatch(call.attrs[0]);
  if (!call.batched(1)) {
    return {
        Apply(kDynamicSlice, Location(), {call[0], call[1]}, {dim, call.attrs[1], call.attrs[2]})};
  }
  Tensor index = Positions(call[1], call.attrs[1].integer(), call.attrs[2].integer());
  Tensor indices =
      IndexAlong(index, static_cast<int>(dim.integer()), call.Sizes(call.out[0].sizes()));
  return {Apply(kGather, Location(), {call.All(0), indices}, {dim})};
}

Tensors BatchDynamicUpdateSlice(const BatchCall& call) {
  Attr dim = BehindBatch(call.attrs[0]);
  Tensor self = call.All(0), source = call.All(1);
  if (!call.batched(2)) {
    return {Apply(kDynamicUpdateSlice, Location(), {self, source, call[2]}, {dim, call.attrs[1]})};
  }
  const int along = static_cast<int>(dim.integer());
  Tensor index = Positions(call[2], source.size(along), call.attrs[1].integer());
  Tensor indices = IndexAlong(index, along, source.sizes());
  return {Apply(kScatter, Location(), {self, indices, source}, {dim, "none"})};
}

Tensors BatchPad(const BatchCall& call) {
  Dims low = call.attrs[0].ints(), high = call.attrs[1].ints();
  low.insert(0, 0);
  high.insert(0, 0);
  Tensor self = call.All(0);
  if (!call.batched(1)) return {Apply(kPad, Location(), {self, call[1]}, {low, high})};
  Tensor padded = Apply(kPad, Location(), {self, ConstantLike(0, self)}, {low, high});
  Tensor inside = Apply(
      kPad, Location(),
      {Filled(self.sizes(), true, DType::kBool, self), Constant(false, DType::kBool)}, {low, high});
  Tensor value =
      Reshaped(Casted(call[1], self.dtype()), call.Sizes(Dims::Filled(call.out[0].rank(), 1)));
  return {Apply(kWhere, Location(), {inside, padded, value})};
}

Tensors BatchAsStrided(const BatchCall& call) {
  Dims strides = call.attrs[1].ints();
  strides.insert(0, call.TypeOf(0).numel());
  return {Apply(kAsStrided, Location(), {call[0]},
                {call.Sizes(call.out[0].sizes()), strides, call.attrs[2]})};
}

Tensors BatchAsStridedScatter(const BatchCall& call) {
  Dims strides = call.attrs[0].ints();
  strides.insert(0, call.TypeOf(0).numel());
  return {
      Apply(kAsStridedScatter, Location(), {call.All(0), call.All(1)}, {strides, call.attrs[1]})};
}

// Rows of a table that all samples share (an embedding) are read at once. Where each sample has a
// table of its own a gather reads them, which checks each index against its own table.
Tensors BatchIndexSelect(const BatchCall& call) {
  const int dim = static_cast<int>(call.attrs[0].integer());
  const Dims sizes = call.Sizes(call.out[0].sizes());
  const bool is_number = call.TypeOf(0).rank() == 0;
  if (!call.batched(1)) {
    Tensor self = is_number ? Reshaped(call[0], {call.size, 1}) : call[0];
    return {Reshaped(Apply(kIndexSelect, Location(), {self, call[1]}, {dim + 1}), sizes)};
  }
  const int64_t count = call.TypeOf(1).numel();
  if (!call.batched(0) && !is_number) {
    Tensor index = Reshaped(call[1], {call.size * count});
    Tensor rows = Apply(kIndexSelect, Location(), {call[0], index}, {dim});
    Dims split = call.out[0].sizes();
    split[dim] = count;
    split.insert(dim, call.size);
    return {Reshaped(Moved(Reshaped(rows, split), dim, 0), sizes)};
  }
  Tensor self = call.All(0);
  if (is_number) self = Reshaped(self, {call.size, 1});
  Dims index_sizes = self.sizes();
  index_sizes[dim + 1] = count;
  Tensor index = IndexAlong(Reshaped(call[1], {call.size, count}), dim + 1, index_sizes);
  return {Reshaped(Apply(kGather, Location(), {self, index}, {dim + 1}), sizes)};
}

}  // namespace hammock::vmap_rules
