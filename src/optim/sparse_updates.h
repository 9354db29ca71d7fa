#pragma once
/// Updates by sparse gradients: only the rows that these have are read and written.

#include <span>

#include "hammock/ir/attr.h"
#include "hammock/sparse.h"

namespace hammock {
struct OpDef;
}

namespace hammock::optim {

/// One update by SGD, Adagrad or Adam (the bias corrections of which count all steps), as `op` is
/// their dense one: `operands` are those behind the gradient, `updated` the parameter and its
/// state, which are written in place.
void UpdateRows(const OpDef& op, const SparseTensor& grad, std::span<const Tensor* const> operands,
                bool maximize, std::span<Tensor> updated);

}  // namespace hammock::optim
