#include "hammock/distributed/tensor_parallel.h"

#include <cmath>

#include "base/location_scope.h"
#include "base/throw.h"
#include "distributed/group.h"
#include "hammock/autograd.h"
#include "hammock/distributed/random_part.h"
#include "hammock/distributed/shard.h"
#include "hammock/nn/init.h"
#include "hammock/ops.h"

namespace hammock::distributed {
namespace {

using autograd::AutogradContext;

Group GroupOf(AutogradContext* context) {
  return Group(FindGroup(context->saved_data.at("group").ToStringRef()));
}

Tensor PartOf(const Tensor& self, int64_t dim, const Group& group) {
  const int64_t size = self.size(dim);
  if (size % group.size() != 0) {
    Throw(ErrorCode::kShapeMismatch, "{} cannot be cut into {} equal parts along dim {}",
          self.shape().to_string(), group.size(), dim);
  }
  const int64_t part = size / group.size();
  return self.narrow(dim, group.rank() * part, part);
}

struct Replicated : autograd::Function<Replicated> {
  static Tensor forward(AutogradContext* context, const Tensor& self, const std::string& group) {
    context->saved_data["group"] = Any(group);
    return self;
  }
  static std::vector<Tensor> backward(AutogradContext* context, std::vector<Tensor> grads) {
    return {all_reduce(grads[0], Reduction::kSum, GroupOf(context))};
  }
};

struct Reduced : autograd::Function<Reduced> {
  static Tensor forward(AutogradContext*, const Tensor& self, const std::string& group) {
    return all_reduce(self, Reduction::kSum, Group(FindGroup(group)));
  }
  static std::vector<Tensor> backward(AutogradContext*, std::vector<Tensor> grads) { return grads; }
};

struct Scattered : autograd::Function<Scattered> {
  static Tensor forward(AutogradContext* context, const Tensor& self, int64_t dim,
                        const std::string& group) {
    context->saved_data["group"] = Any(group);
    context->saved_data["dim"] = Any(dim);
    return PartOf(self, dim, Group(FindGroup(group)));
  }
  static std::vector<Tensor> backward(AutogradContext* context, std::vector<Tensor> grads) {
    return {all_gather(grads[0], context->saved_data.at("dim").ToInt(), GroupOf(context))};
  }
};

struct GatheredParts : autograd::Function<GatheredParts> {
  static Tensor forward(AutogradContext* context, const Tensor& self, int64_t dim,
                        const std::string& group) {
    context->saved_data["group"] = Any(group);
    context->saved_data["dim"] = Any(dim);
    return all_gather(self, dim, Group(FindGroup(group)));
  }
  static std::vector<Tensor> backward(AutogradContext* context, std::vector<Tensor> grads) {
    return {PartOf(grads[0], context->saved_data.at("dim").ToInt(), GroupOf(context))};
  }
};

/// A parameter that is part `group.rank()` along `dim` of one of these sizes.
Tensor Part(const Dims& whole, int dim, const Group& group) {
  Shard::Along(whole, dim, group);  // refuses what cannot be cut
  Dims sizes = whole;
  sizes[dim] /= group.size();
  return empty(sizes);
}

/// As nn::Linear draws its own: uniform within one over the root of the inputs.
void Reset(Tensor weight, int weight_dim, Tensor bias, bool bias_in_parts, int64_t in,
           const Group& group) {
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  {
    RandomPart part(group, weight_dim);
    nn::init::uniform_(weight, -bound, bound);
  }
  if (!bias.defined()) return;
  if (!bias_in_parts) {
    nn::init::uniform_(bias, -bound, bound);
    return;
  }
  RandomPart part(group, 0);
  nn::init::uniform_(bias, -bound, bound);
}

std::string Repr(int64_t in, int64_t out, bool bias, const Group& group) {
  return fmt::format("in_features={}, out_features={}, bias={}, ranks={}", in, out, bias,
                     group.size());
}

std::optional<Tensor> Given(const Tensor& bias) {
  return bias.defined() ? std::optional(bias) : std::nullopt;
}

}  // namespace

Tensor replicated(const Tensor& self, const Group& group, Location at) {
  LocationScope scope(at);
  return Replicated::apply(self, group.name());
}

Tensor reduced(const Tensor& self, const Group& group, Location at) {
  LocationScope scope(at);
  return Reduced::apply(self, group.name());
}

Tensor scattered(const Tensor& self, int64_t dim, const Group& group, Location at) {
  LocationScope scope(at);
  return Scattered::apply(self, dim, group.name());
}

Tensor gathered(const Tensor& self, int64_t dim, const Group& group, Location at) {
  LocationScope scope(at);
  return GatheredParts::apply(self, dim, group.name());
}

ColumnParallelLinearImpl::ColumnParallelLinearImpl(int64_t in, int64_t out, bool with_bias,
                                                   const Group& group)
    : UnaryLayer("ColumnParallelLinear"), in_features(in), out_features(out), group_(group) {
  weight = register_parameter("weight", Part({out, in}, 0, group));
  bias = with_bias ? register_parameter("bias", Part({out}, 0, group))
                   : register_parameter("bias", std::nullopt);
  set_shard(weight, Shard::Along({out, in}, 0, group));
  if (with_bias) set_shard(bias, Shard::Along({out}, 0, group));
  Reset(weight, 0, bias, true, in, group);
}

Tensor ColumnParallelLinearImpl::Run(const Tensor& input) {
  return linear(replicated(input, group_), weight, Given(bias));
}

std::string ColumnParallelLinearImpl::extra_repr() const {
  return Repr(in_features, out_features, bias.defined(), group_);
}

RowParallelLinearImpl::RowParallelLinearImpl(int64_t in, int64_t out, bool with_bias,
                                             const Group& group)
    : UnaryLayer("RowParallelLinear"), in_features(in), out_features(out), group_(group) {
  weight = register_parameter("weight", Part({out, in}, 1, group));
  bias = with_bias ? register_parameter("bias", empty({out}))
                   : register_parameter("bias", std::nullopt);
  set_shard(weight, Shard::Along({out, in}, 1, group));
  Reset(weight, 1, bias, false, in, group);
}

Tensor RowParallelLinearImpl::Run(const Tensor& input) {
  Tensor sum = reduced(linear(input, weight), group_);
  return bias.defined() ? sum + bias : sum;
}

std::string RowParallelLinearImpl::extra_repr() const {
  return Repr(in_features, out_features, bias.defined(), group_);
}

ParallelEmbeddingImpl::ParallelEmbeddingImpl(int64_t num, int64_t dim, const Group& group)
    : UnaryLayer("ParallelEmbedding"), num_embeddings(num), embedding_dim(dim), group_(group) {
  weight = register_parameter("weight", Part({num, dim}, 0, group));
  set_shard(weight, Shard::Along({num, dim}, 0, group));
  RandomPart part(group, 0);
  nn::init::normal_(weight);
}

// Indices of other ranks' rows look up row 0 and count as zeros. One beyond the table would do so
// on every rank, so it is refused here.
Tensor ParallelEmbeddingImpl::Run(const Tensor& input) {
  const int64_t rows = num_embeddings / group_.size(), begin = group_.rank() * rows;
  Tensor own = logical_and(ge(input, begin), lt(input, begin + rows));
  Tensor wrong = logical_or(lt(input, int64_t{0}), ge(input, num_embeddings));
  // -1 fails as the index of a table without parts would.
  Tensor index = where(own, input - begin, zeros_like(input));
  index = where(wrong, full_like(input, num_embeddings), index);
  Tensor found = embedding(index, weight);
  Tensor mask = unsqueeze(own, -1).to(found.dtype());
  return reduced(found * mask, group_);
}

std::string ParallelEmbeddingImpl::extra_repr() const {
  return fmt::format("{}, {}, ranks={}", num_embeddings, embedding_dim, group_.size());
}

}  // namespace hammock::distributed
