#pragma once
/// Which part of a larger tensor this rank's tensor is. Layers and optimisers that cut parameters
/// note it; checkpoints, limits on the norm of gradients and GradScaler read it.

#include <optional>
#include <string>
#include <vector>

#include "hammock/distributed.h"
#include "hammock/export.h"
#include "hammock/ir/shape.h"
#include "hammock/tensor.h"

namespace hammock::distributed {

struct HAMMOCK_API Shard {
  Dims whole;  ///< the sizes of the larger tensor
  Dims start;  ///< where this part begins: an index for each dim, or one of the flattened tensor
  bool flat = false;  ///< a range of the flattened tensor; behind its end is padding
  std::vector<std::string> groups = {};  ///< whose ranks have the other parts; of a part of a part,
                                         ///< the group of the smaller parts first

  /// Part `group.rank()` of equal parts along `dim`. ValueError where it cannot be cut so.
  static Shard Along(const Dims& whole, int64_t dim, const Group& group,
                     Location at = Location::current());
  /// Part `group.rank()` of the flattened tensor.
  static Shard Flat(const Dims& whole, const Group& group);

  /// The part of `tensor`, which has the sizes `whole`; a flat part has `count` elements.
  Tensor Of(const Tensor& tensor, int64_t count, const Dims& sizes) const;
};

/// Notes that a tensor (a parameter, by its handle) is a part.
HAMMOCK_API void set_shard(const Tensor& tensor, Shard shard);
/// None: the tensor is whole.
HAMMOCK_API std::optional<Shard> shard_of(const Tensor& tensor);

/// The groups whose other ranks have parts of any of these tensors, in the order of the tensors.
HAMMOCK_API std::vector<Group> groups_of(const std::vector<Tensor>& tensors);

/// As many elements as each rank has of a flattened tensor of `count`; the last ones are padding.
HAMMOCK_API int64_t FlatPart(int64_t count, const Group& group);

}  // namespace hammock::distributed
