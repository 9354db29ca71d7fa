#pragma once
/// Tensor parallel layers: each rank of a group has a part of the weights and computes its part of
/// every example. Values between a pair of layers are in parts, those around it are whole and equal
/// on all ranks, and so is the loss.
///
///   struct Mlp : nn::Module {
///     distributed::ColumnParallelLinear up = register_module("up", {256, 1024});
///     distributed::RowParallelLinear down = register_module("down", {1024, 256});
///     Tensor forward(const Tensor& x) { return down(gelu(up(x))); }   // one all-reduce each way
///   };
///
/// With the same seed the layers of all ranks together have the weights of nn::Linear and
/// nn::Embedding. Between the layers of a pair, random ops (dropout) are drawn in parts:
/// `RandomPart part(group, /*dim=*/1)`.

#include "hammock/distributed.h"
#include "hammock/nn/layer.h"

namespace hammock::distributed {

// ---- Values that are equal on all ranks, and their parts. Gradients are those of one loss, which
// all ranks compute alike (those of hammock/distributed.h are of the sum of all ranks' losses).

/// The tensor itself, for use by computations that differ between ranks; gradients are summed.
HAMMOCK_API Tensor replicated(const Tensor& self, const Group& group = world(),
                              Location at = Location::current());
/// The sum of all ranks' tensors; the gradient is passed on.
HAMMOCK_API Tensor reduced(const Tensor& self, const Group& group = world(),
                           Location at = Location::current());
/// This rank's part along `dim`; gradients are gathered.
HAMMOCK_API Tensor scattered(const Tensor& self, int64_t dim, const Group& group = world(),
                             Location at = Location::current());
/// The parts of all ranks along `dim`; the gradient is this rank's part.
HAMMOCK_API Tensor gathered(const Tensor& self, int64_t dim, const Group& group = world(),
                            Location at = Location::current());

/// y = x @ weight.t() + bias, whose columns are shared out: whole input, output in parts.
class HAMMOCK_API ColumnParallelLinearImpl : public nn::UnaryLayer {
 public:
  ColumnParallelLinearImpl(int64_t in_features, int64_t out_features, bool bias = true,
                           const Group& group = world());
  std::string extra_repr() const override;

  int64_t in_features, out_features;
  Parameter weight, bias;  ///< [out / n, in], [out / n] or undefined

 protected:
  Tensor Run(const Tensor& input) override;

 private:
  Group group_;
};

/// y = x @ weight.t() + bias, whose rows are shared out: input in parts, whole output.
class HAMMOCK_API RowParallelLinearImpl : public nn::UnaryLayer {
 public:
  RowParallelLinearImpl(int64_t in_features, int64_t out_features, bool bias = true,
                        const Group& group = world());
  std::string extra_repr() const override;

  int64_t in_features, out_features;
  Parameter weight, bias;  ///< [out, in / n], [out] or undefined

 protected:
  Tensor Run(const Tensor& input) override;

 private:
  Group group_;
};

/// Rows of a table that is shared out by rows; whole output.
class HAMMOCK_API ParallelEmbeddingImpl : public nn::UnaryLayer {
 public:
  ParallelEmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim,
                        const Group& group = world());
  std::string extra_repr() const override;

  int64_t num_embeddings, embedding_dim;
  Parameter weight;  ///< [num / n, dim]

 protected:
  Tensor Run(const Tensor& input) override;

 private:
  Group group_;
};

using ColumnParallelLinear = nn::Layer<ColumnParallelLinearImpl>;
using RowParallelLinear = nn::Layer<RowParallelLinearImpl>;
using ParallelEmbedding = nn::Layer<ParallelEmbeddingImpl>;

}  // namespace hammock::distributed
