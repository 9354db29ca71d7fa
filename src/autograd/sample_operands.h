#pragma once
/// Operands for the sample calls of records, and a number to differentiate: what the checks of
/// records share.

#include <vector>

#include "hammock/ir/op_def.h"
#include "hammock/tensor.h"
#include "ir/sample.h"

namespace hammock::testing {

/// Floats in the record's domain as f64, the parts of complex numbers too; integers 0 and 1, which
/// are indices that exist, by rows. Operands of other samples differ.
Tensor OperandOf(const OpDef& op, size_t position, const Shape& type, int64_t sample = 0);

/// Whether an operand is a number: 0.5, 1, 1.5, ... in these checks, and never differentiated.
bool IsNumber(const OpDef& op, size_t position);

/// All operands of a sample call; undefined where one is absent.
std::vector<Tensor> OperandsOf(const OpDef& op, const SampleCall& call);

/// One number that depends on all floating and complex results: their sum, each element weighted,
/// both parts of a complex one. Undefined if there are none.
Tensor Weighed(const std::vector<Tensor>& outputs);

}  // namespace hammock::testing
