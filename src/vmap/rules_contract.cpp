// Batching rules of contractions.

#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "vmap/rules.h"

namespace hammock::vmap_rules {

using namespace ops;  // NOLINT: primitives and the steps that expansions are made of

// A batch of both operands is a batch dim; of one of them, a dim that is not contracted.
Tensors BatchDotGeneral(const BatchCall& call) {
  std::vector<Attr> attrs(call.attrs.begin(), call.attrs.end());
  for (size_t operand : {0, 1}) {
    if (!call.batched(operand)) continue;
    attrs[operand] = BehindBatch(attrs[operand]);
    attrs[operand + 2] = BehindBatch(attrs[operand + 2]);
  }
  const int batch = static_cast<int>(attrs[2].ints().size());
  const int contracted = static_cast<int>(attrs[0].ints().size());
  int at = 0;  // of the samples, among the dims of the result
  if (call.batched(0) && call.batched(1)) {
    for (size_t operand : {2, 3}) {
      Dims dims = attrs[operand].ints();
      dims.insert(0, 0);
      attrs[operand] = dims;
    }
  } else {
    at = call.batched(0) ? batch : call.TypeOf(0).rank() - contracted;
  }
  return {
      Moved(Apply(kDotGeneral, Location(), std::vector<Tensor>{call[0], call[1]}, attrs), at, 0)};
}

namespace {

/// Dims `dim` and `dim + 1` as one.
Tensor Merged(const Tensor& x, int dim) {
  Dims sizes = x.sizes();
  sizes[dim] *= sizes[dim + 1];
  sizes.erase(dim + 1);
  return Reshaped(x, sizes);
}

/// Dim `dim` as one of size `count` and the rest behind it.
Tensor Divided(const Tensor& x, int dim, int64_t count) {
  Dims sizes = x.sizes();
  sizes[dim] /= count;
  sizes.insert(dim, count);
  return Reshaped(x, sizes);
}

Tensor Convolved(const BatchCall& call, const Tensor& input, const Tensor& weight, int64_t groups) {
  std::vector<Attr> attrs(call.attrs.begin(), call.attrs.end());
  attrs.back() = groups;
  return Apply(kConvolution, Location(), std::vector<Tensor>{input, weight}, attrs);
}

}  // namespace

// Samples of the input alone are more images; of weights alone, more filters; of both, groups of
// channels.
Tensors BatchConvolution(const BatchCall& call) {
  const bool transposed = call.attrs[3].boolean();
  const int64_t groups = call.attrs[5].integer();
  if (!call.batched(1)) {
    return {Divided(Convolved(call, Merged(call[0], 0), call[1], groups), 0, call.size)};
  }
  if (!call.batched(0) && groups == 1) {
    Tensor weight = transposed ? Merged(Moved(call[1], 0, 1), 1) : Merged(call[1], 0);
    return {Moved(Divided(Convolved(call, call[0], weight, 1), 1, call.size), 1, 0)};
  }
  Tensor input = Merged(Moved(call.All(0), 0, 1), 1), weight = Merged(call[1], 0);
  return {Moved(Divided(Convolved(call, input, weight, call.size * groups), 1, call.size), 1, 0)};
}

// Composites that backends run whole: the samples are one more of the leading dims.
Tensors BatchAttention(const BatchCall& call, size_t mask) {
  Tensors in;
  for (size_t i = 0; i < call.in.size(); ++i) in.push_back(i == mask ? call[i] : call.All(i));
  if (call.batched(mask)) {
    Dims sizes = call.TypeOf(mask).sizes();
    while (sizes.size() < call.TypeOf(0).rank()) sizes.insert(0, 1);
    in[mask] = Reshaped(call[mask], call.Sizes(sizes));
  }
  return ApplyMulti(call.op, Location(), in, call.attrs);
}

}  // namespace hammock::vmap_rules
