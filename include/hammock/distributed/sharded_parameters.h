#pragma once
/// Training whose state is shared out among the ranks (ZeRO; FSDP). Every rank has a part of each
/// batch, as in data parallel training, and gets the same results.
///
/// Parameters, gradients and optimiser state in parts (stage 3):
///
///   distributed::fully_shard(*model);                          // all ranks have rank 0's values
///   optim::AdamW optimizer(model->parameters(), {.lr = 1e-3}); // of this rank's parts
///   step([&] {
///     optimizer.zero_grad();
///     loss(model, part of the batch).backward();               // gathers and reduces on its way
///     optimizer.step();
///   });
///
/// Optimiser state (stage 1), or that and gradients (stage 2), in parts:
///
///   distributed::ShardedOptimizer shards(model->parameters(), /*stage=*/2);
///   optim::AdamW optimizer(shards.parameters(), {.lr = 1e-3});
///   step([&] {
///     shards.zero_grad();
///     loss(model, part of the batch).backward();
///     shards.reduce_gradients();
///     optimizer.step();
///     shards.gather_parameters();
///   });

#include <vector>

#include "hammock/distributed.h"
#include "hammock/module.h"

namespace hammock::distributed {

/// Replaces every parameter of the module by this rank's part of it, flattened: `shards.weight` of
/// the layer that had `weight`. Before each call of the layer the parts of all ranks are gathered;
/// the gradient of that is the part of the mean over all ranks. Optimisers are made afterwards. A
/// region in `checkpoint` gathers once more in the backward pass instead of keeping the whole.
HAMMOCK_API void fully_shard(Module& module, const Group& group = world(),
                             Location at = Location::current());

/// Whole parameters, of which each rank updates a part. For optimisers that update each element by
/// itself, as all but LBFGS do.
class HAMMOCK_API ShardedOptimizer {
 public:
  /// Gives the parameters the values that they have on rank 0. Those of one dtype are put together,
  /// up to `distributed.bucket_bytes`, and cut into as many parts as there are ranks.
  ShardedOptimizer(std::vector<Tensor> parameters, int stage, const Group& group = world(),
                   Location at = Location::current());

  /// This rank's parts, for an optimiser.
  std::vector<Tensor> parameters() const;
  /// Forgets the gradients of parameters and parts.
  void zero_grad();
  /// Gives the parts the mean of the gradients over all ranks, and the values of the parameters,
  /// which may have been loaded since they were gathered. Parameters keep the mean in stage 1 and
  /// have no gradient in stage 2. Every parameter must have a gradient. To limit gradients comes
  /// afterwards, and is done to the parts.
  void reduce_gradients(Location at = Location::current());
  /// Gives the parameters the values of all ranks' parts.
  void gather_parameters(Location at = Location::current());

 private:
  struct Bucket {
    std::vector<Tensor> parameters;
    Tensor part;
    int64_t count;  // elements without padding
  };
  std::vector<Bucket> buckets_;
  int stage_;
  Group group_;
};

}  // namespace hammock::distributed
