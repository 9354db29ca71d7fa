#include "hammock/distributed/shard.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/location_scope.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "distributed/group.h"
#include "hammock/ops.h"

namespace hammock::distributed {
namespace {

/// By the number of the tensor. Numbers are never used again.
struct Shards {
  std::mutex mutex;
  std::map<int64_t, Shard> by_tensor;
};

Shards& All() {
  static auto& shards = NeverDestroyed<Shards>();
  return shards;
}

}  // namespace

Shard Shard::Along(const Dims& whole, int64_t dim, const Group& group, Location at) {
  LocationScope scope(at);
  const int d = static_cast<int>(dim);
  if (dim < 0 || dim >= whole.size() || whole[d] % group.size() != 0) {
    Throw(ErrorCode::kShapeMismatch, "{} cannot be cut into {} equal parts along dim {}",
          ToString(whole), group.size(), dim);
  }
  Shard shard{whole, Dims::Filled(whole.size(), 0), false, {group.name()}};
  shard.start[d] = group.rank() * (whole[d] / group.size());
  return shard;
}

Shard Shard::Flat(const Dims& whole, const Group& group) {
  const int64_t count = Shape(DType::kU8, whole).numel();
  return {whole, Dims{group.rank() * FlatPart(count, group)}, true, {group.name()}};
}

Tensor Shard::Of(const Tensor& tensor, int64_t count, const Dims& sizes) const {
  if (!flat) {
    Tensor part = tensor;
    for (int d = 0; d < sizes.size(); ++d) part = part.narrow(d, start[d], sizes[d]);
    return part;
  }
  // Parts that are padding alone are made of the tensor too, so that all ranks need it.
  Tensor elements = tensor.reshape({tensor.numel()});
  const int64_t padding = start[0] + count - tensor.numel();
  if (padding > 0) elements = cat({elements, zeros({padding}, tensor.dtype(), tensor.device())});
  return elements.narrow(0, start[0], count);
}

void set_shard(const Tensor& tensor, Shard shard) {
  Shards& shards = All();
  std::lock_guard lock(shards.mutex);
  shards.by_tensor.insert_or_assign(tensor.id(), std::move(shard));
}

std::optional<Shard> shard_of(const Tensor& tensor) {
  Shards& shards = All();
  std::lock_guard lock(shards.mutex);
  auto found = shards.by_tensor.find(tensor.id());
  return found == shards.by_tensor.end() ? std::nullopt : std::optional(found->second);
}

std::vector<Group> groups_of(const std::vector<Tensor>& tensors) {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors) {
    const std::optional<Shard> shard = shard_of(tensor);
    if (!shard) continue;
    for (const std::string& name : shard->groups) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  std::vector<Group> groups;
  for (const std::string& name : names) {
    if (const auto group = FindGroup(name); group->size() > 1) groups.emplace_back(group);
  }
  return groups;
}

int64_t FlatPart(int64_t count, const Group& group) {
  return (count + group.size() - 1) / group.size();
}

}  // namespace hammock::distributed
