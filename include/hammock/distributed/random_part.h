#pragma once
/// Random numbers of ranks that hold parts of one tensor.
///
///   distributed::RandomPart part(world);     // dim 0, the batch, is shared out among the ranks
///   Tensor y = dropout(model(x), 0.1);       // rank r's rows of the mask that one rank would draw
///
/// The random state moves as far as for the whole tensor, so ranks that had equal states keep them.

#include <cstdint>
#include <vector>

#include "hammock/distributed.h"
#include "hammock/export.h"
#include "hammock/location.h"

namespace hammock::distributed {

/// While one lives, a tensor that a random op of this thread draws is part `index` of `parts` equal
/// ones along `dim` of a larger tensor, if it has that dim. Those of several dims add up.
/// Permutations (`randperm`) are drawn whole.
class HAMMOCK_API RandomPart {
 public:
  struct Part {
    int64_t index, parts, dim;
  };

  explicit RandomPart(const Group& group, int64_t dim = 0, Location at = Location::current());
  RandomPart(int64_t index, int64_t parts, int64_t dim, Location at = Location::current());
  /// These instead of those that live; none of them: tensors are drawn whole.
  explicit RandomPart(std::vector<Part> parts);
  ~RandomPart();
  RandomPart(const RandomPart&) = delete;
  RandomPart& operator=(const RandomPart&) = delete;

  /// The parts that this thread draws now.
  static const std::vector<Part>& Current();

 private:
  std::vector<Part> parts_;
  const RandomPart* outer_;
};

}  // namespace hammock::distributed
