// Second names of shape functions, channels and positions in another order, and small layers of
// others.

#include "hammock/ops/rearrange.h"

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

Tensor moveaxis(const Tensor& self, const Dims& source, const Dims& destination, Location at) {
  return movedim(self, source, destination, at);
}
Tensor swapdims(const Tensor& self, int64_t dim0, int64_t dim1, Location at) {
  return transpose(self, dim0, dim1, at);
}
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim, Location at) {
  return cat(tensors, dim, at);
}
Tensor row_stack(const std::vector<Tensor>& tensors, Location at) { return vstack(tensors, at); }
std::vector<Tensor> unsafe_chunk(const Tensor& self, int64_t chunks, int64_t dim, Location at) {
  return chunk(self, chunks, dim, at);
}
std::vector<Tensor> unsafe_split(const Tensor& self, int64_t split_size, int64_t dim, Location at) {
  return split(self, split_size, dim, at);
}
std::vector<Tensor> unsafe_split_with_sizes(const Tensor& self,
                                            const std::vector<int64_t>& split_sizes, int64_t dim,
                                            Location at) {
  return split_with_sizes(self, split_sizes, dim, at);
}

Tensor channel_shuffle(const Tensor& self, int64_t groups, Location at) {
  LocationScope scope(at);
  NeedRank("channel_shuffle", self, 3);
  const int64_t channels = self.size(1);
  if (groups <= 0 || channels % groups != 0) {
    Throw(ErrorCode::kValue, "channel_shuffle: the {} channels of {} are not {} equal groups",
          channels, self.shape().to_string(), groups);
  }
  Tensor grouped = unflatten(self, 1, {groups, channels / groups});
  return flatten(transpose(grouped, 1, 2), 1, 2);
}

std::vector<Tensor> unravel_index(const Tensor& indices, const Dims& shape, Location at) {
  LocationScope scope(at);
  if (!IsIntegral(indices.dtype())) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "unravel_index: indices are integers, got {}",
                     indices.shape().to_string());
  }
  CheckSizes("unravel_index", shape);
  Tensor left = Casted(indices, DType::kI64);
  std::vector<Tensor> coordinates(static_cast<size_t>(shape.size()));
  for (int dim = shape.size() - 1; dim >= 0; --dim) {
    Tensor size = ConstantLike(shape[dim], left);
    coordinates[static_cast<size_t>(dim)] = remainder(left, size);
    left = floor_divide(left, size);
  }
  return coordinates;
}

bool is_same_size(const Tensor& self, const Tensor& other, Location at) {
  return self.sizes(at) == other.sizes(at);
}

bool is_nonzero(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (self.numel() != 1) {
    Throw(ErrorCode::kShapeMismatch, "is_nonzero: {} does not have one element",
          self.shape().to_string());
  }
  return ne(Reshaped(self, {}), 0).item<bool>(at);
}

Tensor conv_tbc(const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad,
                Location at) {
  LocationScope scope(at);
  if (self.dim() != 3 || weight.dim() != 3 || self.size(2) != weight.size(1)) {
    Throw(ErrorCode::kShapeMismatch,
          "conv_tbc: needs (time, batch, channels) and (kernel, channels, out), got {} and {}",
          self.shape().to_string(), weight.shape().to_string());
  }
  Tensor result = conv1d(permute(self, {1, 2, 0}), permute(weight, {2, 1, 0}), bias, {1}, {pad});
  return permute(result, {2, 0, 1});
}

Tensor norm_except_dim(const Tensor& v, int64_t pow, int64_t dim, Location at) {
  LocationScope scope(at);
  if (dim == -1) return norm(v, pow);
  Dims others;
  for (int d = 0; d < v.dim(); ++d) {
    if (d != WrapDim("norm_except_dim", dim, v.dim())) others.push_back(d);
  }
  return others.empty() ? abs(v) : norm(v, pow, others, true);
}

Tensor linear_cross_entropy(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                            const std::optional<Tensor>& linear_bias,
                            const std::optional<Tensor>& weight, int64_t ignore_index,
                            const std::string& reduction, double label_smoothing, Location at) {
  LocationScope scope(at);
  NeedRank("linear_cross_entropy", linear_weight, 2);
  const int64_t features = linear_weight.size(-1);
  std::optional<Tensor> bias = linear_bias;
  if (bias) bias = flatten(*bias);
  Tensor logits = linear(input, reshape(linear_weight, {-1, features}), bias);
  Dims sizes;
  for (int d = 0; d < input.dim() - 1; ++d) sizes.push_back(input.size(d));
  for (int d = 0; d < linear_weight.dim() - 1; ++d) sizes.push_back(linear_weight.size(d));
  return cross_entropy(reshape(logits, sizes), target, weight, ignore_index, reduction,
                       label_smoothing);
}

// ---- Records

namespace {

constinit const OpDef kFunctions[] = {
    {.schema = "moveaxis(Tensor(a) self, int[1] source, int[1] destination) -> Tensor(a)",
     .doc = "Same as movedim.",
     .call = Box<moveaxis>},
    {.schema = "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     .doc = "Same as transpose.",
     .call = Box<swapdims>},
    {.schema = "concatenate(Tensor[] tensors, int dim=0) -> Tensor",
     .doc = "Same as cat.",
     .call = Box<concatenate>},
    {.schema = "row_stack(Tensor[] tensors) -> Tensor",
     .doc = "Same as vstack.",
     .call = Box<row_stack>},
    {.schema = "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
     .doc = "Same as chunk.",
     .call = Box<unsafe_chunk>},
    {.schema = "unsafe_split(Tensor self, int split_size, int dim=0) -> Tensor[]",
     .doc = "Same as split.",
     .call = Box<unsafe_split>},
    {.schema = "unsafe_split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
     .doc = "Same as split_with_sizes.",
     .call = Box<unsafe_split_with_sizes>},
    {.schema = "channel_shuffle(Tensor self, int groups) -> Tensor",
     .doc = "Groups of channels, interleaved.",
     .call = Box<channel_shuffle>},
    {.schema = "native_channel_shuffle(Tensor self, int groups) -> Tensor",
     .doc = "Same as channel_shuffle.",
     .call = Box<channel_shuffle>},
    {.schema = "unravel_index(Tensor indices, int[] shape) -> Tensor[]",
     .doc = "Coordinates of positions in a flattened tensor.",
     .call = Box<unravel_index>},
    {.schema = "is_same_size(Tensor self, Tensor other) -> bool",
     .doc = "Whether both have the same sizes.",
     .call = Box<is_same_size>},
    {.schema = "is_nonzero(Tensor self) -> bool",
     .doc = "Whether the only element is not zero.",
     .call = Box<is_nonzero>},
    {.schema = "conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
     .doc = "Convolution of (time, batch, channels).",
     .call = Box<conv_tbc>},
    {.schema = "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
     .doc = "Norms of the slices along `dim`.",
     .call = Box<norm_except_dim>},
    {.schema = "linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, Tensor? "
               "linear_bias=None, Tensor? weight=None, int ignore_index=-100, str "
               "reduction='mean', float label_smoothing=0.0) -> Tensor",
     .doc = "cross_entropy of a linear layer's results.",
     .call = Box<linear_cross_entropy>},
};

}  // namespace

std::span<const OpDef* const> ops::RearrangeOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace hammock
