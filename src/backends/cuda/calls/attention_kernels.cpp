#include "backends/cuda/calls/attention_kernels.h"

#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"

namespace hammock::cuda {

AttentionKernels::AttentionKernels(const GraphNode& node, const Machine& machine)
    : sizes_(SizesOf(node)),
      dtype_(node.type().dtype()),
      is_causal_(node.attrs[0].boolean()),
      scale_(node.attrs[1].real()),
      mask_(cuda::MaskOf(node)),
      is_async_(machine.has_async_matmuls() && sizes_.width % 64 == 0) {}

KernelSource AttentionKernels::Kernel(const char* file, const char* function, size_t argument_bytes,
                                      const AttentionTiling& tiling) const {
  TypeText kind("Kind");
  kind.Type("Narrow", dtype_ == DType::kF16 ? "F16" : "Bf16")
      .Constant("kThreads", int64_t{tiling.threads})
      .Constant("kWidth", sizes_.width)
      .Constant("kTiles", int64_t{tiling.tiles})
      .Constant("kOthers", int64_t{tiling.others})
      .Constant("kPart", int64_t{tiling.part})
      .Constant("kMask", mask_.kind)
      .Constant("kCausal", is_causal_)
      .Constant("kAsync", tiling.is_async)
      .Constant("kPacked", tiling.packed);
  return SourceOf({.file = file,
                   .function = fmt::format("{}<Kind>", function),
                   .argument_bytes = argument_bytes,
                   .definitions = kind.Text(),
                   .threads = tiling.threads,
                   .resident = tiling.blocks});
}

Grid AttentionKernels::GridFor(int64_t rows, const AttentionTiling& tiling) const {
  return {.x = static_cast<unsigned>((rows + tiling.rows() - 1) / tiling.rows()),
          .y = static_cast<unsigned>(sizes_.batch()),
          .block_x = static_cast<unsigned>(tiling.threads)};
}

MaskArgs AttentionKernels::MaskOf(Address at) const {
  return {.at = At(at),
          .outer = mask_.outer,
          .inner = mask_.inner,
          .row = mask_.row,
          .column = mask_.column,
          .inverse = static_cast<float>(1 / scale_)};
}

RowArgs AttentionKernels::RowsOf(Address base, const RowLayout& rows) {
  return {.at = At(base + static_cast<Address>(rows.offset * 2)),
          .outer = rows.outer,
          .inner = rows.inner,
          .row = rows.row};
}

}  // namespace hammock::cuda
