#pragma once
/// The batching rules, by family; rules.cpp says which op has which.

#include "vmap/batching.h"

namespace hammock::vmap_rules {

using Tensors = std::vector<Tensor>;

/// A dim, or a list of dims, of one sample as those of a batch.
Attr BehindBatch(const Attr& dims);
/// All operands batched, those of 0-d samples with a dim of size one: PyTorch lets them have a dim.
Tensors WithLines(const BatchCall& call);

// rules_shape.cpp
Tensors BatchReshape(const BatchCall& call);
Tensors BatchBroadcast(const BatchCall& call);
Tensors BatchPermute(const BatchCall& call);
Tensors BatchDynamicSlice(const BatchCall& call);
Tensors BatchDynamicUpdateSlice(const BatchCall& call);
Tensors BatchPad(const BatchCall& call);
Tensors BatchAsStrided(const BatchCall& call);
Tensors BatchAsStridedScatter(const BatchCall& call);
Tensors BatchIndexSelect(const BatchCall& call);

// rules_contract.cpp
Tensors BatchDotGeneral(const BatchCall& call);
Tensors BatchConvolution(const BatchCall& call);

/// `mask` is the operand that broadcasts to the scores.
Tensors BatchAttention(const BatchCall& call, size_t mask);

// rules_control.cpp
Tensors BatchCond(const BatchCall& call);
Tensors BatchWhile(const BatchCall& call);
Tensors BatchLoop(const BatchCall& call);

}  // namespace hammock::vmap_rules
