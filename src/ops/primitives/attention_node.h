#pragma once
/// The nodes that attention is recorded as. Backends may run them whole, without ever holding all
/// scores; their expansions hold them.

#include "hammock/ir/op_def.h"
#include "hammock/tensor.h"

namespace hammock::ops {

/// softmax(query @ key.t() * scale + mask) @ value, and the logarithm of the softmax's
/// denominators. Batch dims are equal; the mask broadcasts to [..., L, S].
extern const OpDef kAttention;
/// The same with the softmax.
extern const OpDef kAttentionWeights;
/// The gradients of query, key and value.
extern const OpDef kAttentionBackward;

/// query @ key.t() * scale, masked; `mask` may be undefined.
Tensor AttentionScores(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal,
                       double scale);

}  // namespace hammock::ops
