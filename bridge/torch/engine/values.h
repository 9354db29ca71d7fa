#pragma once
/// Values of PyTorch as values of Hammock and back: dtypes, tensors, boxed arguments.

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <hammock/device.h>
#include <hammock/host_tensor.h>
#include <hammock/ir/any.h>
#include <hammock/tensor.h>

#include "engine/unsupported.h"

namespace hammock_torch {

/// Throws Unsupported for a dtype without a counterpart.
hammock::DType ToDType(c10::ScalarType type);
c10::ScalarType FromDType(hammock::DType dtype);

/// Reads the elements where they are if the tensor is row-major, else copies them. The memory is
/// kept alive; the caller sees to it that nobody writes to it before the values have been used.
hammock::Tensor ImportTensor(const at::Tensor& tensor, const hammock::Device& device);
/// The type that the tensor has in Hammock. Throws Unsupported where there is none.
hammock::Shape ShapeOf(const at::Tensor& tensor);
/// The tensor itself where it is row-major on the CPU, else a copy that is.
at::Tensor Dense(const at::Tensor& tensor);
/// The elements of a dense tensor where they are, which `holder` keeps alive.
hammock::HostTensor Borrowed(const at::Tensor& dense, const hammock::Shape& shape,
                             c10::Storage holder);
/// A row-major tensor over memory of its device, which owns it.
at::Tensor OverMemory(c10::DataPtr memory, const hammock::Shape& shape);
/// A tensor over the memory, which the result keeps alive.
at::Tensor OverHost(hammock::HostTensor host);
/// Computes the value; the result is the only user of its memory where `value` was the last handle.
at::Tensor ExportTensor(hammock::Tensor value);
/// Computes the value; the result shares its memory and must not be written.
at::Tensor ShareTensor(const hammock::Tensor& value);

/// Tensors are imported to `device`; devices, layouts and generators become none. A tensor of a
/// kind without a counterpart (float8, sparse) is an object, which only PyTorch's ops take.
hammock::Any FromIValue(const c10::IValue& value, const hammock::Device& device);
/// `type` is that of the schema's argument: numbers, lists and devices are made to fit it.
/// Tensors share Hammock's memory.
c10::IValue ToIValue(const hammock::Any& value, const c10::TypePtr& type);

/// Whether a tensor is in `value`, or in a list in it.
bool HoldsTensor(const hammock::Any& value);
/// Whether one is that Hammock has no kind for.
bool HoldsForeign(const hammock::Any& value);

}  // namespace hammock_torch
