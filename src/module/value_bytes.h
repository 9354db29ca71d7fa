#pragma once
/// Boxed values as bytes; tensors stand beside them, by number.

#include <functional>

#include "base/bytes.h"
#include "hammock/ir/any.h"
#include "hammock/tensor.h"

namespace hammock {

/// Objects are written by what their method `__getstate__` returns. ValueError for values that
/// cannot be written: objects without that method, values that contain themselves.
void WriteAny(ByteWriter& out, const Any& value,
              const std::function<uint64_t(const Tensor&)>& number_of);
/// Objects are made anew and given their state by `__setstate__`.
Any ReadAny(ByteReader& in, const std::function<Tensor(uint64_t)>& tensor_of);

}  // namespace hammock
