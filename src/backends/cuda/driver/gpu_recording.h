#pragma once
/// GpuRecording: a CUDA graph that can be launched, and what it was made of, so that it can be
/// given other addresses kernel by kernel.

#include <span>
#include <vector>

#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/machine.h"
#include "backends/cuda/emit/kernel_cut.h"

namespace hammock::cuda {

/// Used by one thread at a time.
class GpuRecording : public Recording {
 public:
  /// Something that was asked for: a kernel of ours, or what a library or the driver does.
  struct Op {
    const void* what = nullptr;
    Grid grid;
    std::vector<uint64_t> words;
    CUgraphNode node = nullptr;  ///< of a kernel
    CUfunction function = nullptr;
  };

  /// Takes the graph.
  GpuRecording(const Driver& driver, CUgraph graph, std::vector<Op> ops,
               std::span<const Piece> pieces);
  ~GpuRecording() override;

  CUgraphExec exec() const { return exec_; }

  // ---- Other addresses: what it consists of is asked for again, in the same order.
  /// False where pieces wait for others than they did.
  bool StartComparing(std::span<const Piece> pieces);
  /// Gives the next kernel these words; where something else comes next, it cannot be helped.
  void CompareLaunch(const Function& function, const Grid& grid, std::span<const uint64_t> words);
  /// Of what cannot be changed alone.
  void CompareCall(const void* what, std::span<const uint64_t> words);
  /// Whether it is now a recording of what was asked for.
  bool EndComparing() const { return !differs_ && next_ == ops_.size(); }

  /// Makes it one of another graph with the same parts; false where that cannot be. From then on no
  /// kernel is changed alone: nobody says which node became which.
  bool BecomeLike(CUgraph graph, std::vector<Op> ops);

 private:
  Op* NextOf(const void* what, size_t words);

  const Driver& driver_;
  const CUgraph graph_;
  CUgraphExec exec_ = nullptr;
  std::vector<Op> ops_;
  std::vector<std::vector<int>> after_;  // by piece
  size_t next_ = 0;
  bool differs_ = false;
};

/// What `pieces` ask of a stream, as a graph; its owner is the caller.
CUgraph CaptureGraph(const Driver& driver, CUstream stream, std::span<const Piece> pieces);
/// The nodes that whatever is captured next would come after.
std::vector<CUgraphNode> LastNodes(const Driver& driver, CUstream stream);

}  // namespace hammock::cuda
