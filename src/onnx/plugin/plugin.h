#pragma once
/// The interface of `libhammock-onnx.so`: one function that returns one table. The structures are
/// C++ ones: the plug-in and the library are built together, which `abi` confirms. Exceptions do
/// not cross it.

#include <cstddef>
#include <cstdint>
#include <string>

#include "onnx/plugin/format.h"

#define HAMMOCK_ONNX_ABI 1
#define HAMMOCK_ONNX_ENTRY "HammockOnnxTable"

struct HammockOnnxTableV1 {
  uint32_t abi;
  /// Whether the bytes are a model; `error` says why not.
  bool (*parse_model)(const char* bytes, size_t size, hammock::onnx::format::Model& model,
                      std::string& error);
  /// A tensor, sequence or optional value in a file of its own, as `type` says.
  bool (*parse_value)(const char* bytes, size_t size, const hammock::onnx::format::Type& type,
                      hammock::onnx::format::Value& value, std::string& error);
  bool (*write_model)(const hammock::onnx::format::Model& model, std::string& bytes,
                      std::string& error);
};

/// The only exported function. May be called by several threads.
extern "C" const HammockOnnxTableV1* HammockOnnxTable();
