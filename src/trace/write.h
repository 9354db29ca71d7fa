#pragma once
/// Writes to tensors: another value, through views, with its history.

#include "hammock/ir/node.h"
#include "hammock/tensor.h"

namespace hammock {

struct TensorImpl;

/// Gives `self` another value and its history, through views. In eager mode it is computed at once;
/// if that fails, `self` keeps the value it had. `is_shared`: the value is another tensor's too.
void Write(const char* op, const Tensor& self, Value value, bool is_shared = false);
/// The value that a write to the tensor replaces: the base of its group, or its own value.
Value WrittenValue(const TensorImpl& impl);
/// Undoes a write, unless another one followed.
void Unwrite(TensorImpl& impl, const Value& written, const Value& old);

}  // namespace hammock
