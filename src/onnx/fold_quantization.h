#pragma once
/// Matmuls and convolutions of floats that were dequantised a node before become those of integers.

#include "onnx/plugin/format.h"

namespace hammock::onnx {

/// The domain of nodes that FoldQuantization makes: Conv, Gemm and MatMul whose first two inputs
/// are quantised, each with its scale and zero point behind it.
inline constexpr const char* kDequantizedDomain = "hammock.dequantized";

/// DequantizeLinear -> Conv, Gemm or MatMul, as quantizers write them for runtimes to recognise,
/// becomes one node that sums integers exactly and scales the sums. Scales and zero points, where
/// there are any, have to be constants: one for a tensor, or one for each channel of a result that
/// a weight makes.
/// That holds for the nodes of functions too. DequantizeLinear nodes stay, for others that read
/// them.
void FoldQuantization(format::Model& model);

}  // namespace hammock::onnx
