#pragma once

#include <functional>

#include "hammock/ir/node.h"
#include "vmap/batching.h"

namespace hammock::vmap_rules {

/// The results of `compute(call)`, whose history is the gradient in the record of the op, batched,
/// rather than those of its parts.
std::vector<Mapped> WithOwnGradient(const BatchCall& call,
                                    std::vector<Mapped> (*compute)(const BatchCall&));

/// A call of a function with a gradient of its own, which is that of one sample.
struct MappedCustomCall {
  std::function<std::vector<Tensor>(std::vector<Tensor> saved, std::vector<Tensor> grads)> backward;
  std::vector<Mapped> inputs, outputs, saved;
  std::vector<int> saved_outputs;  // of each saved value, which output it is; -1: none
  int64_t size;
};

/// The history of its outputs; null where no input has one.
TapePtr HistoryOfCustomCall(MappedCustomCall call);

}  // namespace hammock::vmap_rules
