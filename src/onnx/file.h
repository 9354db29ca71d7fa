#pragma once
/// Model files: the plug-in that reads and writes them, and their tensors.

#include <string>
#include <string_view>

#include "hammock/host_tensor.h"
#include "onnx/plugin/format.h"

namespace hammock::onnx {

/// Why there is no usable plug-in; empty if there is one.
std::string WhyAbsent();
/// ValueError (kParse) that begins with `name`; NotSupported without the plug-in.
format::Model ParseModel(std::string_view bytes, const std::string& name);
format::Value ParseValue(std::string_view bytes, const format::Type& type, const std::string& name);
std::string WriteModel(const format::Model& model);

/// The elements of a tensor of numbers, which it gives away. `folder` has the files that tensors
/// may name: they are mapped, and must lie below it. Empty: there are none.
HostTensor TakeElements(format::Tensor& tensor, const std::string& folder);

}  // namespace hammock::onnx
