#include "compiler/loops/attach_epilogues.h"

#include <algorithm>
#include <optional>

#include "ir/primitives.h"
#include "ops/primitives/channels_last.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::compiler {

namespace {

void AddOnce(std::vector<BufferId>& list, BufferId buffer) {
  if (std::find(list.begin(), list.end(), buffer) == list.end()) list.push_back(buffer);
}

/// One loop of a launch, with the stride of each access.
struct Loop {
  int64_t extent;
  std::vector<int64_t> strides;
  bool is_column;
};

std::vector<Loop> LoopsOf(const Launch& launch) {
  std::vector<Loop> loops;
  auto add = [&](int64_t extent, bool is_column, auto stride_of) {
    Loop loop = {extent, {}, is_column};
    for (const AccessMap& map : launch.maps) loop.strides.push_back(stride_of(map));
    if (extent != 1) loops.push_back(std::move(loop));
  };
  for (size_t d = 0; d < launch.outer.size(); ++d) {
    add(launch.outer[d], false, [&](const AccessMap& map) { return map.outer[d]; });
  }
  add(launch.rows, false, [](const AccessMap& map) { return map.row; });
  add(launch.columns, true, [](const AccessMap& map) { return map.column; });
  return loops;
}

/// The one access by which a kernel reads a buffer; -1: none, or several that differ.
int AccessOf(const Launch& launch, BufferId buffer) {
  int found = -1;
  for (size_t i = 0; i < launch.maps.size(); ++i) {
    if (launch.maps[i].buffer != buffer) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

/// Whether the loops, in this order, visit `count` elements one after another.
bool VisitInOrder(const std::vector<Loop>& loops, size_t access, int64_t count) {
  int64_t next = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    if (loops[i].strides[access] != next) return false;
    next *= loops[i].extent;
  }
  return next == count;
}

/// How many of the loops are over rows of `columns` elements; one of them is split if need be.
/// Nothing if no split does it.
std::optional<size_t> SplitRows(std::vector<Loop>& loops, size_t access, int64_t columns,
                                bool reduces) {
  for (size_t i = 0; i < loops.size(); ++i) {
    Loop& loop = loops[i];
    int64_t stride = loop.strides[access];
    if (stride % columns == 0) continue;  // moves from row to row
    if (stride * loop.extent <= columns) return i;
    if (columns % stride != 0 || loop.extent % (columns / stride) != 0) return std::nullopt;
    if (reduces && loop.is_column) return std::nullopt;
    Loop inner = loop;
    inner.extent = columns / stride;
    loop.extent /= inner.extent;
    loop.is_column = false;
    for (int64_t& s : loop.strides) s *= inner.extent;
    loops.insert(loops.begin() + static_cast<int64_t>(i) + 1, std::move(inner));
    return i + 1;
  }
  return loops.size();
}

Stride RowKindOf(int64_t stride) { return stride == 0 ? Stride::kZero : Stride::kAny; }

/// The same launch with these loops: the last over rows and the last over columns are the kernel's.
Launch WithLoops(const Launch& launch, const std::vector<Loop>& loops, size_t row_loops) {
  Launch result;
  const Loop* row = row_loops > 0 ? &loops[row_loops - 1] : nullptr;
  const Loop& column = loops.back();
  result.rows = row ? row->extent : 1;
  result.columns = column.extent;
  std::vector<const Loop*> outer;
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    if (&loops[i] != row) outer.push_back(&loops[i]);
  }
  for (const Loop* loop : outer) result.outer.push_back(loop->extent);
  auto kernel = std::make_shared<Kernel>(*launch.kernel);
  for (size_t a = 0; a < launch.maps.size(); ++a) {
    AccessMap map = {launch.maps[a].buffer, launch.maps[a].offset, {}, 0, column.strides[a]};
    if (row) map.row = row->strides[a];
    for (const Loop* loop : outer) map.outer.push_back(loop->strides[a]);
    if (kernel->accesses[a].kind != Access::Kind::kScratch) {
      kernel->accesses[a].row = RowKindOf(map.row);
    }
    kernel->accesses[a].streams = false;  // parts may begin anywhere
    result.maps.push_back(std::move(map));
  }
  result.kernel = std::move(kernel);
  return result;
}

/// The command of a contraction and of the kernel after it; nothing where that is not possible.
std::optional<Command> Join(const Graph& graph, const Command& contraction, const Command& command,
                            BufferId buffer) {
  const Launch& launch = command.launch;
  int64_t columns = ResultColumns(graph, contraction.node);
  int64_t count = graph[contraction.node].type().numel();
  int access = AccessOf(launch, buffer);
  if (access < 0 || count == 0 || columns <= 1) return std::nullopt;
  if (launch.maps[access].offset != 0) return std::nullopt;
  if (launch.kernel->lanes_along_rows) return std::nullopt;
  std::vector<Loop> loops = LoopsOf(launch);
  std::stable_sort(loops.begin(), loops.end(), [&](const Loop& a, const Loop& b) {
    return a.strides[access] > b.strides[access];
  });
  if (!VisitInOrder(loops, access, count)) return std::nullopt;
  bool reduces = launch.kernel->HasReduction() || launch.kernel->stages > 1;
  std::optional<size_t> row_loops = SplitRows(loops, access, columns, reduces);
  if (!row_loops || *row_loops == loops.size() || !loops.back().is_column) return std::nullopt;
  Command joined;
  joined.node = contraction.node;
  joined.launch = WithLoops(launch, loops, *row_loops);
  joined.row_loops = std::max(static_cast<int>(*row_loops) - 1, 0);
  joined.nodes = contraction.nodes;
  joined.nodes.insert(joined.nodes.end(), command.nodes.begin(), command.nodes.end());
  joined.reads = contraction.reads;
  for (BufferId read : command.reads) {
    if (read != buffer) AddOnce(joined.reads, read);
  }
  joined.writes = command.writes;
  return joined;
}

bool IsContraction(const Graph& graph, const Command& command) {
  return !command.launch.kernel && ResultColumns(graph, command.node) > 0;
}

}  // namespace

int64_t ResultColumns(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  const Dims& sizes = node.type().sizes();
  int64_t columns = 1;
  if (node.op == &ops::kConvolutionLast && node.attr("result_last").boolean()) {
    return sizes[sizes.size() - 1];
  }
  if (node.op == &ops::kConvolution || node.op == &ops::kConvolutionLast) {
    for (int d = 2; d < sizes.size(); ++d) columns *= sizes[d];
    return columns;
  }
  if (node.op != &ops::kDotGeneral && node.op != &ops::kDotGeneralFused) return 0;
  const Shape& right = graph.TypeOf(node.inputs[1]);
  int free = right.rank() - static_cast<int>(node.attrs[1].ints().size()) -
             static_cast<int>(node.attrs[3].ints().size());
  for (int d = sizes.size() - free; d < sizes.size(); ++d) columns *= sizes[d];
  return columns;
}

void AttachEpilogues(const Graph& graph, Schedule& schedule) {
  std::vector<Command>& commands = schedule.commands;
  BufferMap<int> writer(schedule.buffers.size(), -1);
  BufferMap<int> readers(schedule.buffers.size());
  for (const Command& command : commands) {
    for (BufferId buffer : command.reads) ++readers[buffer];
  }
  for (BufferId buffer : schedule.outputs) ++readers[buffer];
  BufferMap<bool> was_read(schedule.buffers.size());
  std::vector<bool> joined(commands.size());
  for (size_t i = 0; i < commands.size(); ++i) {
    std::vector<BufferId> contractions;  // that nothing has read yet, the latest first
    for (BufferId buffer : commands[i].reads) {
      int from = writer[buffer];
      if (from >= 0 && !was_read[buffer] && IsContraction(graph, commands[from])) {
        contractions.push_back(buffer);
      }
      was_read[buffer] = true;
    }
    for (BufferId buffer : commands[i].writes) writer[buffer] = static_cast<int>(i);
    if (!commands[i].launch.kernel || commands[i].node) continue;
    std::sort(contractions.begin(), contractions.end(),
              [&](BufferId a, BufferId b) { return writer[a] > writer[b]; });
    for (BufferId buffer : contractions) {
      const int from = writer[buffer];
      std::optional<Command> both = Join(graph, commands[from], commands[i], buffer);
      if (!both) continue;
      if (readers[buffer] > 1) both->writes.push_back(buffer);
      commands[i] = std::move(*both);
      joined[from] = true;
      break;
    }
  }
  size_t left = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (joined[i]) continue;
    if (left != i) commands[left] = std::move(commands[i]);
    ++left;
  }
  commands.resize(left);
}

}  // namespace hammock::compiler
