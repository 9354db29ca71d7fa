#pragma once
/// GpuGraph: an executable CUDA graph together with the operations that it was captured from, so
/// that its kernels can be given other addresses one by one.

#include <span>
#include <vector>

#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/machine.h"
#include "backends/cuda/emit/launch_config.h"

namespace hammock::cuda {

/// Used by one thread at a time.
class GpuGraph : public CudaGraph {
 public:
  /// An operation of the graph: a kernel of ours, or a call of a library or the driver.
  struct Op {
    const void* what = nullptr;
    Grid grid;
    std::vector<uint64_t> arguments;
    CUgraphNode node = nullptr;  ///< of a kernel
    CUfunction function = nullptr;
  };

  /// Owns the graph from now on.
  GpuGraph(const Driver& driver, CUgraph graph, std::vector<Op> ops, std::span<const Piece> pieces);
  ~GpuGraph() override;

  CUgraphExec exec() const { return exec_; }

  // ---- New addresses: the same operations are compared with the graph's, in the same order.
  /// False if the pieces depend on each other in another way.
  bool StartComparing(std::span<const Piece> pieces);
  /// Gives the next kernel these arguments. Another operation there makes EndComparing false.
  void CompareLaunch(const Function& function, const Grid& grid,
                     std::span<const uint64_t> arguments);
  /// Compares the next call of a library or the driver, which cannot be changed alone.
  void CompareCall(const void* what, std::span<const uint64_t> arguments);
  /// Whether the graph now does what was compared with it.
  bool EndComparing() const { return !differs_ && next_ == ops_.size(); }

  /// Updates it to another graph of the same structure; false if the driver refuses. Kernels cannot
  /// be changed alone from then on, because the nodes are not known any more.
  bool BecomeLike(CUgraph graph, std::vector<Op> ops);

 private:
  Op* NextOf(const void* what, size_t arguments);

  const Driver& driver_;
  const CUgraph graph_;
  CUgraphExec exec_ = nullptr;
  std::vector<Op> ops_;
  std::vector<std::vector<int>> after_;  // by piece
  size_t next_ = 0;
  bool differs_ = false;
};

/// A graph of the work of `pieces`, owned by the caller.
CUgraph CaptureStream(const Driver& driver, CUstream stream, std::span<const Piece> pieces);
/// The nodes that the next captured operation would depend on.
std::vector<CUgraphNode> LastNodes(const Driver& driver, CUstream stream);

}  // namespace hammock::cuda
