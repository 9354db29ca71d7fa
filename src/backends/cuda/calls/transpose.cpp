// Permutes that move another dim to the end, by tiles: read along one dim, written along another.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/driver/copies.h"
#include "backends/cuda/emit/cuda_text.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kTile = 64;
constexpr int64_t kLeast = 16;  // the least size of either dim that is worth a tile

/// w1 source, w2 destination, w3 and w4 the sizes of the dims that are contiguous in the source and
/// in the destination, w5 and w6 the strides of the other one; then the other dims.
constexpr const char* kBody = R"(
  const long long size = (long long)w3, others = (long long)w4;
  const long long column = rest % ((size + 63) / 64) * 64;
  const long long row = rest / ((size + 63) / 64) % ((others + 63) / 64) * 64;
  const Element* from = (const Element*)w1 + from_place;
  Element* to = (Element*)w2 + to_place;
  const int x = threadIdx.x % 64, y = threadIdx.x / 64;
  __shared__ Element tile[64][65];
  Element held[16];
#pragma unroll
  for (int k = 0; k < 16; ++k) {
    const long long at = row + y + 4 * k;
    if (column + x < size && at < others) held[k] = from[at * (long long)w5 + column + x];
  }
#pragma unroll
  for (int k = 0; k < 16; ++k) tile[y + 4 * k][x] = held[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 16; ++k) {
    const long long at = column + y + 4 * k;
    if (row + x < others && at < size) to[at * (long long)w6 + row + x] = tile[x][y + 4 * k];
  }
)";

class TransposeCall : public Call {
 public:
  TransposeCall(const Graph& graph, const GraphNode& node) : dtype_(node.type().dtype()) {
    const Dims& sizes = node.type().sizes();
    Dims of_operand = ContiguousStrides(graph.TypeOf(node.inputs[0]).sizes());
    Dims to = ContiguousStrides(sizes);
    for (int d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 1) continue;
      int64_t from = of_operand[static_cast<int>(node.attrs[0].ints()[static_cast<size_t>(d)])];
      if (from == 1) {
        read_ = {sizes[d], from, to[d]};
      } else if (to[d] == 1) {
        written_ = {sizes[d], from, to[d]};
      } else {
        others_.push_back({sizes[d], from, to[d]});
      }
    }
  }

  bool pays() const { return read_.size >= kLeast && written_.size >= kLeast; }

  std::vector<KernelSource> Sources() const override {
    int dims = static_cast<int>(others_.size());
    std::string body = fmt::format("  typedef {} Element;\n", MemoryType(dtype_)) +
                       "  const long long rest = block;\n"
                       "  const long long other = block / (((long long)w3 + 63) / 64) / "
                       "(((long long)w4 + 63) / 64);\n" +
                       OffsetLines(dims, 7, "other", "from_place") +
                       OffsetLines(dims, 7 + 2 * dims, "other", "to_place") + kBody;
    return {BlockKernel(7 + 4 * dims, "", body)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    std::vector<uint64_t> arguments = {0,
                                       operands.in[0],
                                       operands.out[0],
                                       Argument(read_.size),
                                       Argument(written_.size),
                                       Argument(written_.from),
                                       Argument(read_.to)};
    int64_t blocks = (read_.size + kTile - 1) / kTile * ((written_.size + kTile - 1) / kTile);
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
