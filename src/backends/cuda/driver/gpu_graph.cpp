#include "backends/cuda/driver/gpu_graph.h"

#include <algorithm>
#include <utility>

namespace hammock::cuda {

namespace {

constexpr int kRelaxed = 2;
constexpr unsigned kSetDependencies = 1;

void ComeAfter(const Driver& driver, CUstream stream, const std::vector<int>& pieces,
               const std::vector<std::vector<CUgraphNode>>& last) {
  std::vector<CUgraphNode> after;
  for (int piece : pieces) {
    const std::vector<CUgraphNode>& nodes = last[piece];
    after.insert(after.end(), nodes.begin(), nodes.end());
  }
  driver.Check(driver.capture_after(stream, after.data(), after.size(), kSetDependencies),
               "cuStreamUpdateCaptureDependencies");
}

/// Sets the dependencies of each piece, unless it depends on the piece before it alone.
void CapturePieces(const Driver& driver, CUstream stream, std::span<const Piece> pieces) {
  const bool branches = driver.capture_info && driver.capture_after;
  auto follows = [&](size_t i) {
    return pieces[i].after.size() == 1 && pieces[i].after[0] == static_cast<int>(i) - 1;
  };
  std::vector<bool> is_waited_for(pieces.size());
  for (size_t i = 1; i < pieces.size() && branches; ++i) {
    if (follows(i)) continue;
    for (int earlier : pieces[i].after) is_waited_for[earlier] = true;
  }
  std::vector<std::vector<CUgraphNode>> last(pieces.size());  // by piece
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (branches && i > 0 && !follows(i)) ComeAfter(driver, stream, pieces[i].after, last);
    pieces[i].work();
    if (is_waited_for[i]) last[i] = LastNodes(driver, stream);
  }
}

}  // namespace

GpuGraph::GpuGraph(const Driver& driver, CUgraph graph, std::vector<Op> ops,
                   std::span<const Piece> pieces)
    : driver_(driver), graph_(graph), ops_(std::move(ops)) {
  for (const Piece& piece : pieces) after_.push_back(piece.after);
  CUresult result = driver.graph_instantiate(&exec_, graph, 0);
  if (result != kCudaSuccess) driver.graph_destroy(graph);
  driver.Check(result, "cuGraphInstantiate");
}

GpuGraph::~GpuGraph() {
  driver_.graph_exec_destroy(exec_);
  driver_.graph_destroy(graph_);
}

bool GpuGraph::StartComparing(std::span<const Piece> pieces) {
  next_ = 0;
  differs_ = !std::equal(
      pieces.begin(), pieces.end(), after_.begin(), after_.end(),
      [](const Piece& piece, const std::vector<int>& after) { return piece.after == after; });
  return !differs_;
}

GpuGraph::Op* GpuGraph::NextOf(const void* what, size_t arguments) {
  differs_ = differs_ || next_ == ops_.size() || ops_[next_].what != what ||
             ops_[next_].arguments.size() != arguments;
  return differs_ ? nullptr : &ops_[next_++];
}

void GpuGraph::CompareLaunch(const Function& function, const Grid& grid,
                             std::span<const uint64_t> arguments) {
  Op* op = NextOf(&function, arguments.size());
  if (!op || std::equal(arguments.begin(), arguments.end(), op->arguments.begin())) return;
  if (!op->node || !driver_.graph_set_kernel) {
    differs_ = true;
    return;
  }
  std::copy(arguments.begin(), arguments.end(), op->arguments.begin());
  void* parameters[] = {op->arguments.data()};
  CUkernelNode node{op->function, grid.x, grid.y, 1,          grid.block_x,
                    grid.block_y, 1,      0,      parameters, nullptr};
  differs_ = driver_.graph_set_kernel(exec_, op->node, &node) != kCudaSuccess;
}

void GpuGraph::CompareCall(const void* what, std::span<const uint64_t> arguments) {
  Op* op = NextOf(what, arguments.size());
  differs_ = differs_ || !std::equal(arguments.begin(), arguments.end(), op->arguments.begin());
}

bool GpuGraph::BecomeLike(CUgraph graph, std::vector<Op> ops) {
  CUgraphUpdate update = {};
  if (!driver_.graph_update || ops.size() != ops_.size()) return false;
  if (driver_.graph_update(exec_, graph, &update) != kCudaSuccess) return false;
  ops_ = std::move(ops);
  for (Op& op : ops_) op.node = nullptr;
  return true;
}

CUgraph CaptureStream(const Driver& driver, CUstream stream, std::span<const Piece> pieces) {
  driver.Check(driver.capture_begin(stream, kRelaxed), "cuStreamBeginCapture");
  CUgraph graph = nullptr;
  try {
    CapturePieces(driver, stream, pieces);
  } catch (...) {
    driver.capture_end(stream, &graph);
    if (graph) driver.graph_destroy(graph);
    throw;
  }
  driver.Check(driver.capture_end(stream, &graph), "cuStreamEndCapture");
  return graph;
}

std::vector<CUgraphNode> LastNodes(const Driver& driver, CUstream stream) {
  int status = 0;
  const CUgraphNode* nodes = nullptr;
  size_t count = 0;
  driver.Check(driver.capture_info(stream, &status, nullptr, nullptr, &nodes, &count),
               "cuStreamGetCaptureInfo");
  return {nodes, nodes + count};
}

}  // namespace hammock::cuda
