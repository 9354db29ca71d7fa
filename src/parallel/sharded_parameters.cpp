#include "hammock/distributed/sharded_parameters.h"

#include "base/location_scope.h"
#include "base/throw.h"
#include "distributed/group.h"
#include "hammock/autograd.h"
#include "hammock/distributed/shard.h"
#include "hammock/ops.h"
#include "ops/primitives/collectives.h"

namespace hammock::distributed {
namespace {

/// The whole of equal flat parts; its gradient is this rank's part of the mean over all ranks.
struct Gathered : autograd::Function<Gathered> {
  static Tensor forward(autograd::AutogradContext* context, const Tensor& part,
                        const std::string& group) {
    context->saved_data["group"] = Any(group);
    return all_gather(part, 0, Group(FindGroup(group)));
  }
  static std::vector<Tensor> backward(autograd::AutogradContext* context,
                                      std::vector<Tensor> grads) {
    const Group group(FindGroup(context->saved_data.at("group").ToStringRef()));
    return {reduce_scatter(grads[0], Reduction::kMean, 0, group)};
  }
};

Tensor WithoutPadding(const Tensor& flat, const Dims& sizes) {
  return flat.narrow(0, 0, Shape(DType::kU8, sizes).numel()).reshape(sizes);
}

Tensor PartOf(const Tensor& whole, const Group& group) {
  const int64_t count = FlatPart(whole.numel(), group);
  return Shard::Flat(whole.sizes(), group).Of(whole, count, {count}).clone();
}

/// The names of the groups that have the other parts of a part.
std::vector<std::string> GroupsOf(const Tensor& tensor) {
  const std::optional<Shard> shard = shard_of(tensor);
  return shard ? shard->groups : std::vector<std::string>();
}

/// A shard of a tensor that may be a part itself.
Shard PartOfPart(const Tensor& tensor, Shard shard) {
  const std::vector<std::string> outer = GroupsOf(tensor);
  shard.groups.insert(shard.groups.end(), outer.begin(), outer.end());
  return shard;
}

/// Registers `shards.name` in place of the parameter.
void Replace(Module& module, const std::string& name, const Tensor& part, const Dims& sizes,
             bool trained, const std::string& group) {
  ModulePtr shards;
  for (const auto& [child, owner] : module.named_children()) {
    if (child == "shards") shards = owner;
  }
  if (!shards) shards = module.register_module("shards", std::make_shared<Module>("Shards"));
  shards->register_parameter(name, part, trained);
  module.compute_parameter(name, [name, sizes, group](Module& self) {
    return WithoutPadding(Gathered::apply(self.get_tensor("shards." + name), group), sizes);
  });
}

}  // namespace

void fully_shard(Module& module, const Group& group, Location at) {
  LocationScope scope(at);
  struct Done {
    Tensor whole, part;
  };
  std::vector<Done> done;  // one parameter may have several names
  for (const auto& [path, owner] : module.named_modules()) {
    if (owner->class_name() == "Shards") continue;
    for (const auto& [name, whole] : owner->named_parameters(false, false)) {
      Tensor part;
      for (const Done& other : done) {
        if (other.whole.is_same(whole)) part = other.part;
      }
      if (!part.defined()) {
        NoGradGuard no_grad;
        part = PartOf(broadcast(whole, 0, group), group);
        if (whole.requires_grad()) part.requires_grad_();
        set_shard(part, PartOfPart(whole, Shard::Flat(whole.sizes(), group)));
        done.push_back({whole, part});
      }
      Replace(*owner, name, part, whole.sizes(), whole.requires_grad(), group.name());
    }
  }
  NoGradGuard no_grad;
  for (auto& [name, buffer] : module.named_buffers()) {
    Tensor(buffer).copy_(broadcast(buffer, 0, group));
  }
}

// ---- stages 1 and 2

namespace {

Tensor Flattened(const std::vector<Tensor>& tensors, const Group& group) {
  std::vector<Tensor> flat;
  int64_t count = 0;
  for (const Tensor& tensor : tensors) {
    flat.push_back(tensor.reshape({tensor.numel()}));
    count += tensor.numel();
  }
  const int64_t padding = FlatPart(count, group) * group.size() - count;
  if (padding > 0) flat.push_back(zeros({padding}, tensors[0].dtype(), tensors[0].device()));
  return flat.size() == 1 ? flat[0] : cat(flat);
}

Tensor OwnPart(const std::vector<Tensor>& tensors, const Group& group) {
  Tensor flat = Flattened(tensors, group);
  const int64_t part = flat.numel() / group.size();
  return flat.narrow(0, group.rank() * part, part);
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(std::vector<Tensor> parameters, int stage, const Group& group,
                                   Location at)
    : stage_(stage), group_(group) {
  LocationScope scope(at);
  if (stage != 1 && stage != 2) {
    Throw(ErrorCode::kValue, "ShardedOptimizer: stage {} is not 1 or 2; fully_shard is stage 3",
          stage);
  }
  const int64_t most = BucketBytes();
  int64_t bytes = 0;
  for (const Tensor& parameter : parameters) {
    const int64_t size = parameter.shape().bytes();
    const bool joins = !buckets_.empty() && bytes + size <= most &&
                       buckets_.back().parameters[0].dtype() == parameter.dtype() &&
                       buckets_.back().parameters[0].device() == parameter.device() &&
                       GroupsOf(buckets_.back().parameters[0]) == GroupsOf(parameter);
    if (!joins) {
      buckets_.push_back({});
      bytes = 0;
    }
    buckets_.back().parameters.push_back(parameter);
    buckets_.back().count += parameter.numel();
    bytes += size;
  }
  NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) {
    for (Tensor& parameter : bucket.parameters) parameter.copy_(broadcast(parameter, 0, group_));
    bucket.part = OwnPart(bucket.parameters, group_).clone().requires_grad_();
    set_shard(bucket.part, PartOfPart(bucket.parameters[0], Shard::Flat({bucket.count}, group_)));
  }
}

std::vector<Tensor> ShardedOptimizer::parameters() const {
  std::vector<Tensor> parts;
  for (const Bucket& bucket : buckets_) parts.push_back(bucket.part);
  return parts;
}

void ShardedOptimizer::zero_grad() {
  for (Bucket& bucket : buckets_) {
    bucket.part.set_grad(Tensor());
    for (Tensor& parameter : bucket.parameters) parameter.set_grad(Tensor());
  }
}

void ShardedOptimizer::reduce_gradients(Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  // The last parameters have their gradients first.
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : bucket->parameters) {
      gradients.push_back(parameter.grad());
      if (gradients.back().defined()) continue;
      Throw(ErrorCode::kValue, "ShardedOptimizer: a parameter {} has no gradient",
            parameter.shape().to_string());
    }
    bucket->part.copy_(OwnPart(bucket->parameters, group_));  // they may have been loaded
    Tensor flat = Flattened(gradients, group_);
    if (stage_ == 2) {
      bucket->part.set_grad(reduce_scatter(flat, Reduction::kMean, 0, group_));
      for (Tensor& parameter : bucket->parameters) parameter.set_grad(Tensor());
      continue;
    }
    Tensor mean = all_reduce(flat, Reduction::kMean, group_);
    const int64_t part = bucket->part.numel();
    bucket->part.set_grad(mean.narrow(0, group_.rank() * part, part).clone());
    int64_t begin = 0;
    for (Tensor& parameter : bucket->parameters) {
      parameter.set_grad(
          mean.narrow(0, begin, parameter.numel()).reshape(parameter.sizes()).clone());
      begin += parameter.numel();
    }
  }
}

void ShardedOptimizer::gather_parameters(Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) {
    Tensor flat = all_gather(bucket.part.detach(), 0, group_);
    int64_t begin = 0;
    for (Tensor& parameter : bucket.parameters) {
      parameter.copy_(flat.narrow(0, begin, parameter.numel()).reshape(parameter.sizes()));
      begin += parameter.numel();
    }
  }
}

}  // namespace hammock::distributed
