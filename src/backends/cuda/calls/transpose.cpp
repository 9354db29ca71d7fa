// Permutes that move another dim to the end, by tiles: read along one dim, written along another.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/copies.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/transpose_args.h"
#include "backends/cuda/emit/cuda_text.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kTile = kTransposeTile;
constexpr int64_t kLeast = 16;  // the least size of either dim that is worth a tile

class TransposeCall : public Call {
 public:
  TransposeCall(const Graph& graph, const GraphNode& node) : dtype_(node.type().dtype()) {
    const Dims& sizes = node.type().sizes();
    Dims of_operand = ContiguousStrides(graph.TypeOf(node.inputs[0]).sizes());
    Dims to = ContiguousStrides(sizes);
    for (int d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 1) continue;
      int64_t from = of_operand[static_cast<int>(node.attrs[0].ints()[d])];
      if (from == 1) {
        read_ = {sizes[d], from, to[d]};
      } else if (to[d] == 1) {
        written_ = {sizes[d], from, to[d]};
      } else {
        others_.push_back({sizes[d], from, to[d]});
      }
    }
    if (others_.empty()) others_.push_back({});
  }

  bool pays() const { return read_.size >= kLeast && written_.size >= kLeast; }

  std::vector<KernelSource> Sources() const override {
    size_t dims = others_.size();
    return {
        SourceOf({.file = "transpose.cuh",
                  .function = fmt::format("transpose<{}, {}>", MemoryType(dtype_), dims),
                  .argument_bytes = sizeof(TransposeArgs<void>) + 2 * dims * sizeof(Strided<1>)})};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    std::vector<uint64_t> arguments = WordsOf(TransposeArgs<void>{.from = At(operands.in[0]),
                                                                  .to = At(operands.out[0]),
                                                                  .read_size = read_.size,
                                                                  .written_size = written_.size,
                                                                  .written_stride = written_.from,
                                                                  .read_stride = read_.to});
    int64_t blocks = CeilDiv(read_.size, kTile) * CeilDiv(written_.size, kTile);
    for (int64_t Dim::*stride : {&Dim::from, &Dim::to}) {
      for (const Dim& dim : others_) arguments.push_back(Argument(dim.size));
      for (const Dim& dim : others_) arguments.push_back(Argument(dim.*stride));
    }
    for (const Dim& dim : others_) blocks *= dim.size;
    machine.Launch(function(0), BlockGrid(blocks), arguments);
  }

 private:
  struct Dim {
    int64_t size = 1, from = 0, to = 0;  // strides in source and destination
  };
  DType dtype_;
  Dim read_, written_;  // contiguous there
  std::vector<Dim> others_;
};

}  // namespace

std::unique_ptr<Call> MakeTranspose(const Graph& graph, const GraphNode& node) {
  if (node.type().numel() == 0) return nullptr;
  auto call = std::make_unique<TransposeCall>(graph, node);
  if (!call->pays()) return nullptr;
  return call;
}

}  // namespace hammock::cuda
