#include "backends/cpu/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>

#include "backends/cpu/emit_llvm.h"
#include "backends/cpu/expand_short.h"
#include "backends/cpu/fused_product.h"
#include "backends/cpu/llvm_compiler.h"
#include "backends/cpu/thread_pool.h"
#include "base/throw.h"
#include "compiler/kernel_builder.h"
#include "compiler/split_reductions.h"
#include "hammock/config.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/metrics.h"

namespace hammock::cpu {

using compiler::Access;
using compiler::AccessMap;
using compiler::Instr;
using compiler::Kernel;
using compiler::Launch;

namespace {

constexpr int64_t kSerialWork = 1 << 16;  // element instructions that are not worth a second thread
constexpr int64_t kTileWork = 1 << 15;    // element instructions that one tile should have
constexpr int64_t kColumnGrain = 256;

size_t Index(int i) { return static_cast<size_t>(i); }

/// Passes keep `origin`; here it is a node's number in the graph as given.
Graph WithOrigins(const Graph& graph) {
  Graph copy = graph;
  for (NodeId id = 0; id < copy.size(); ++id) copy.mutable_node(id).origin = id;
  return copy;
}

}  // namespace

struct Program::PreparedStep {
  // Of a kernel.
  const Launch* launch = nullptr;
  std::shared_ptr<KernelCode> code;
  std::vector<int64_t> element_bytes;  // by access; 1 for a number
  std::vector<int64_t> row_strides;
  std::vector<int64_t> column_strides;
  std::vector<int64_t> scratch_at;  // by access: in a worker's scratch memory; -1: not there
  int64_t worker_scratch = 0;
  int workers = 1;
  int64_t outer_count = 1;
  int64_t row_tile = 1;
  int64_t column_tile = 1;
  int64_t row_tiles = 1;
  int64_t column_tiles = 1;
  int64_t tile_work = 1;
  // Of a call.
  std::unique_ptr<Call> call;
  std::vector<int> operands;  // buffers, -1 for absent ones
  std::vector<int> results;

  // For errors: of the graph as given.
  NodeId node = -1;
  LocationId location = 0;

  explicit PreparedStep(const Launch& launch);
  PreparedStep(const Graph& graph, const compiler::Schedule& schedule, const compiler::Step& step);
  int64_t scratch_bytes() const { return call ? call->scratch_bytes() : worker_scratch * workers; }
};

Program::PreparedStep::PreparedStep(const Launch& l) : launch(&l), code(KernelCode::Get(l.kernel)) {
  const Kernel& kernel = *l.kernel;
  for (size_t i = 0; i < l.maps.size(); ++i) {
    const Access& access = kernel.accesses[i];
    bool is_number = access.kind == Access::Kind::kIndex || access.kind == Access::Kind::kConstant;
    bool is_scratch = access.kind == Access::Kind::kScratch;
    element_bytes.push_back(is_number ? 1 : InfoOf(access.dtype).bits / 8);
    row_strides.push_back(l.maps[i].row);
    column_strides.push_back(l.maps[i].column);
    scratch_at.push_back(is_scratch ? worker_scratch : -1);
    if (is_scratch) {
      int64_t elements = l.columns * (kernel.lanes_along_rows ? kMaxRowLanes : 1);
      worker_scratch += (elements * InfoOf(access.dtype).bits / 8 + 127) / 64 * 64;
    }
  }
  for (int64_t extent : l.outer) outer_count *= extent;
  int64_t per_element = std::max<int64_t>(static_cast<int64_t>(kernel.instrs.size()), 1);
  bool whole_rows = kernel.stages > 1;
  column_tile = l.columns;
  if (!whole_rows && l.columns * per_element > kTileWork) {
    int64_t wanted = std::max(kTileWork / per_element, kColumnGrain);
    column_tile = (wanted + kColumnGrain - 1) / kColumnGrain * kColumnGrain;
  }
  int64_t row_work = std::max<int64_t>(std::min(column_tile, l.columns) * per_element, 1);
  row_tile = std::clamp<int64_t>(kTileWork / row_work, 1, std::max<int64_t>(l.rows, 1));
  if (kernel.lanes_along_rows) {
    row_tile = std::min((row_tile + kMaxRowLanes - 1) / kMaxRowLanes * kMaxRowLanes,
                        std::max<int64_t>(l.rows, 1));
  }
  row_tiles = l.rows == 0 ? 0 : (l.rows + row_tile - 1) / row_tile;
  column_tiles =
      l.columns == 0 ? (whole_rows ? 1 : 0) : (l.columns + column_tile - 1) / column_tile;
  tile_work = row_tile * row_work;
  int64_t total = tile_work * outer_count * row_tiles * column_tiles;
  workers = total <= kSerialWork ? 1 : ThreadPool::threads();
}

Program::PreparedStep::PreparedStep(const Graph& graph, const compiler::Schedule& schedule,
                                    const compiler::Step& step)
    : node(graph[step.node].origin), location(graph[step.node].location) {
  const NodeId id = step.node;
  if (step.launch.kernel) {
    auto fused = std::make_unique<FusedProduct>(graph, schedule, step);
    operands = fused->operands();
    results = step.writes;
    call = std::move(fused);
    return;
  }
  call = MakeCall(graph, id);
  for (GraphValue input : graph[id].inputs) {
    operands.push_back(input.node < 0 ? -1 : schedule.NumberOf(compiler::StorageOf(graph, input)));
  }
  for (size_t i = 0; i < graph[id].types.size(); ++i) {
    results.push_back(schedule.NumberOf({id, static_cast<int32_t>(i)}));
  }
}

Program::Program(const Graph& graph, bool aligned_outputs)
    : graph_(SplitReductions(ExpandShort(WithOrigins(graph)))),
      schedule_(compiler::MakeSchedule(graph_, aligned_outputs)) {
  steps_.reserve(schedule_.steps.size());
  std::vector<int64_t> scratch;
  for (const compiler::Step& step : schedule_.steps) {
    if (step.is_call()) {
      steps_.emplace_back(graph_, schedule_, step);
    } else {
      steps_.emplace_back(step.launch);
      steps_.back().node = graph_[step.nodes.back()].origin;
    }
    scratch.push_back(steps_.back().scratch_bytes());
  }
  plan_ = compiler::PlanMemory(schedule_, scratch);
#ifndef NDEBUG
  std::vector<int64_t> sizes;
  for (const Shape& type : schedule_.buffers) sizes.push_back(type.numel());
  for (const compiler::Step& step : schedule_.steps) {
    if (step.launch.kernel) CheckBounds(step.launch, sizes);
  }
#endif
  FindOutputs();
  FindReplaceable();
}

void Program::FindOutputs() {
  for (size_t i = 0; i < schedule_.outputs.size(); ++i) {
    Output output;
    auto input = std::find(schedule_.inputs.begin(), schedule_.inputs.end(), schedule_.outputs[i]);
    if (input != schedule_.inputs.end()) {
      output.input = static_cast<int>(input - schedule_.inputs.begin());
    }
    auto same = std::find(schedule_.outputs.begin(), schedule_.outputs.end(), schedule_.outputs[i]);
    size_t first = static_cast<size_t>(same - schedule_.outputs.begin());
    if (first < i) output.same = static_cast<int>(first);
    outputs_.push_back(output);
  }
}

void Program::FindReplaceable() {
  replaceable_.resize(outputs_.size());
  for (size_t o = 0; o < outputs_.size(); ++o) {
    if (outputs_[o].input >= 0 || outputs_[o].same >= 0) continue;
    for (size_t i = 0; i < schedule_.inputs.size(); ++i) {
      int64_t bytes = schedule_.buffers[Index(schedule_.inputs[i])].bytes();
      if (bytes != schedule_.buffers[Index(schedule_.outputs[o])].bytes() || bytes == 0) continue;
      if (MayReplace(schedule_.outputs[o], schedule_.inputs[i])) {
        replaceable_[o].push_back(static_cast<int>(i));
      }
    }
  }
}

namespace {

bool Contains(const std::vector<int>& list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

/// Whether a kernel reads every element of `input` before it writes the same place of `output`.
bool ReadsBeforeWriting(const Launch& launch, int input, int output) {
  const AccessMap* store = nullptr;
  int store_stage = 0;
  for (const Instr& instr : launch.kernel->instrs) {
    if (instr.kind != Instr::Kind::kStore || launch.maps[Index(instr.access)].buffer != output) {
      continue;
    }
    if (store) return false;
    store = &launch.maps[Index(instr.access)];
    store_stage = instr.stage;
    if (launch.kernel->accesses[Index(instr.access)].streams) return false;
  }
  if (!store) return false;
  for (const Instr& instr : launch.kernel->instrs) {
    if (instr.kind != Instr::Kind::kLoad) continue;
    const AccessMap& load = launch.maps[Index(instr.access)];
    if (load.buffer != input) continue;
    bool same = load.offset == store->offset && load.outer == store->outer &&
                load.row == store->row && load.column == store->column;
    if (!same || instr.stage > store_stage) return false;
  }
  return true;
}

/// Whether a step that reads an input may write an output in its place.
bool MayWriteInto(const Graph& graph, const compiler::Schedule& schedule,
                  const compiler::Step& step, int input, int output) {
  if (step.updates == input) return true;
  if (!step.launch.kernel || !ReadsBeforeWriting(step.launch, input, output)) return false;
  if (!step.is_call()) return true;
  // A product reads its operands until the end.
  const std::vector<GraphValue>& operands = graph[step.node].inputs;
  return std::none_of(operands.begin(), operands.end(), [&](GraphValue operand) {
    return schedule.NumberOf(compiler::StorageOf(graph, operand)) == input;
  });
}

}  // namespace

bool Program::MayReplace(int output, int input) const {
  if (Contains(schedule_.outputs, input)) return false;
  if (InfoOf(schedule_.buffers[Index(output)].dtype()).bits !=
      InfoOf(schedule_.buffers[Index(input)].dtype()).bits) {
    return false;
  }
  bool written = false;
  for (const compiler::Step& step : schedule_.steps) {
    bool writes = Contains(step.writes, output);
    bool reads = Contains(step.reads, input);
    if (written && reads) return false;
    if (writes && reads && !MayWriteInto(graph_, schedule_, step, input, output)) return false;
    written |= writes;
    bool fails_first = writes && step.updates == input;
    if (written && step.is_call() && graph_[step.node].op->can_fail && !fails_first) return false;
  }
  return true;
}

Program::~Program() = default;

int Program::kernels() const {
  return static_cast<int>(
      std::count_if(schedule_.steps.begin(), schedule_.steps.end(),
                    [](const compiler::Step& step) { return step.launch.kernel != nullptr; }));
}

int64_t Program::bytes() const {
  return static_cast<int64_t>(graph_.nodes().size() * sizeof(GraphNode) +
                              steps_.size() * (sizeof(PreparedStep) + sizeof(compiler::Step)) +
                              schedule_.buffers.size() * sizeof(Shape));
}

void Program::Run(std::span<char* const> inputs, std::span<char* const> outputs,
                  char* arena) const {
  constexpr size_t kInline = 64;
  char* inline_buffers[kInline];
  std::vector<char*> more;
  char** buffers = inline_buffers;
  if (schedule_.buffers.size() > kInline) {
    more.resize(schedule_.buffers.size());
    buffers = more.data();
  }
  for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
    buffers[i] = plan_.offset[i] < 0 ? nullptr : arena + plan_.offset[i];
  }
  for (size_t i = 0; i < inputs.size(); ++i) buffers[Index(schedule_.inputs[i])] = inputs[i];
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs_[i].input < 0 && outputs_[i].same < 0) {
      buffers[Index(schedule_.outputs[i])] = outputs[i];
    }
  }
  const bool timed = config::Get<config::kCpuTimeSteps>();
  for (size_t i = 0; i < steps_.size(); ++i) {
    int64_t scratch_at = plan_.scratch_offset[i];
    char* scratch = scratch_at < 0 ? nullptr : arena + scratch_at;
    std::optional<metrics::ScopedTimer> timer;
    if (timed) timer.emplace(metrics::GetMetric(StepName(i), metrics::Kind::kTime));
    if (steps_[i].call) {
      RunCall(steps_[i], buffers, scratch);
    } else {
      RunKernel(steps_[i], buffers, scratch);
    }
  }
}

/// "cpu::step::mul_add_maximum": the nodes that it computes, the first few of many.
std::string Program::StepName(size_t i) const {
  constexpr size_t kNamed = 4;
  const std::vector<NodeId>& nodes = schedule_.steps[i].nodes;
  std::string name = "cpu::step::";
  for (size_t k = 0; k < std::min(nodes.size(), kNamed); ++k) {
    name += (k == 0 ? "" : "_") + graph_[nodes[k]].op->info().name;
  }
  return nodes.size() > kNamed ? fmt::format("{}_and_{}_more", name, nodes.size() - kNamed) : name;
}

std::string Program::LargestBuffers() const {
  constexpr size_t kShown = 3;
  std::vector<size_t> written;
  for (const compiler::Step& step : schedule_.steps) {
    for (int buffer : step.writes) written.push_back(Index(buffer));
  }
  auto larger = [&](size_t a, size_t b) {
    return schedule_.buffers[a].bytes() > schedule_.buffers[b].bytes();
  };
  std::stable_sort(written.begin(), written.end(), larger);
  std::string text;
  for (size_t k = 0; k < std::min(written.size(), kShown); ++k) {
    auto after = std::upper_bound(schedule_.first.begin(), schedule_.first.end(),
                                  static_cast<int>(written[k]));
    const GraphNode& node = graph_[static_cast<NodeId>(after - schedule_.first.begin()) - 1];
    std::string where = LocationText(node.location);
    text += fmt::format("{}{} of {} ({} bytes){}{}", k == 0 ? "" : ", ",
                        schedule_.buffers[written[k]].to_string(), node.op->name(),
                        schedule_.buffers[written[k]].bytes(), where.empty() ? "" : " at ", where);
  }
  return text;
}

void Program::RunCall(const PreparedStep& step, char* const* buffers, char* scratch) const {
  std::vector<const char*> in;
  std::vector<char*> out;
  for (int buffer : step.operands) in.push_back(buffer < 0 ? nullptr : buffers[buffer]);
  for (int buffer : step.results) out.push_back(buffers[buffer]);
  try {
    step.call->Run(in, out, scratch);
  } catch (...) {
    RethrowAt(step);
  }
}

/// Gives the exception in flight the node that raised it.
void Program::RethrowAt(const PreparedStep& step) {
  const std::string place = LocationText(step.location);
  try {
    throw;
  } catch (OutOfMemory& error) {
    if (error.where().empty()) error.SetWhere(place);
    throw;
  } catch (const Error& error) {
    lazy::ExecutionError at_node(error.code(), error.message(), step.node);
    at_node.SetWhere(error.where().empty() ? place : error.where());
    throw at_node;
  } catch (const std::bad_alloc&) {
    OutOfMemory error(ErrorCode::kOutOfMemory, "the host has no memory left");
    error.SetWhere(place);
    throw error;
  } catch (const std::exception& error) {
    lazy::ExecutionError at_node(ErrorCode::kExecute, error.what(), step.node);
    at_node.SetWhere(place);
    throw at_node;
  }
}

void Program::RunKernel(const PreparedStep& step, char* const* buffers, char* scratch) const {
  const Launch& launch = *step.launch;
  const size_t accesses = launch.maps.size();
  auto run_tiles = [&](int64_t begin, int64_t end, int worker) {
    constexpr size_t kInline = 32;
    char* inline_pointers[kInline];
    std::vector<char*> more;
    char** pointers = inline_pointers;
    if (accesses > kInline) {
      more.resize(accesses);
      pointers = more.data();
    }
    KernelArgs args;
    args.pointers = pointers;
    args.row_strides = step.row_strides.data();
    args.column_strides = step.column_strides.data();
    args.lane_functions = LaneFunctionTable();
    for (int64_t tile = begin; tile < end; ++tile) {
      int64_t column = tile % step.column_tiles * step.column_tile;
      int64_t rest = tile / step.column_tiles;
      int64_t row = rest % step.row_tiles * step.row_tile;
      rest /= step.row_tiles;
      args.rows = std::min(step.row_tile, launch.rows - row);
      args.columns = std::min(step.column_tile, launch.columns - column);
      for (size_t i = 0; i < accesses; ++i) {
        const AccessMap& map = launch.maps[i];
        if (step.scratch_at[i] >= 0) {
          pointers[i] = scratch + worker * step.worker_scratch + step.scratch_at[i];
          continue;
        }
        int64_t element = map.offset + row * map.row + column * map.column;
        int64_t outer = rest;
        for (size_t d = launch.outer.size(); d-- > 0;) {
          element += outer % launch.outer[d] * map.outer[d];
          outer /= launch.outer[d];
        }
        pointers[i] = map.buffer < 0 ? reinterpret_cast<char*>(element)
                                     : buffers[map.buffer] + element * step.element_bytes[i];
      }
      step.code->Run(args);
    }
  };
  static metrics::Counter& compiled = metrics::GetCounter("cpu::KernelRunsCompiled");
  static metrics::Counter& interpreted = metrics::GetCounter("cpu::KernelRunsInterpreted");
  (step.code->compiled() ? compiled : interpreted).Add();
  int64_t tiles = step.outer_count * step.row_tiles * step.column_tiles;
  if (step.workers == 1) return run_tiles(0, tiles, 0);
  int64_t grain = std::max<int64_t>(kTileWork / std::max<int64_t>(step.tile_work, 1), 1);
  ThreadPool::Get().ParallelFor(tiles, grain, run_tiles, step.workers);
}

std::string Program::ToText(std::string_view what) const {
  std::string text = hammock::ToText(graph_) + "\n" + compiler::ToText(schedule_, graph_);
  text += fmt::format("arena {} bytes, outputs {} bytes\n", plan_.arena_bytes, plan_.output_bytes);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].call) {
      text += fmt::format("step {}: {}\n", i, steps_[i].call->kernel());
    }
    const Kernel* kernel = schedule_.steps[i].launch.kernel.get();
    if (!kernel) continue;
    if (what == "llvm") {
      text += fmt::format("step {}:\n{}", i, EmitLlvm(*kernel));
    } else if (what == "assembly" && LlvmCompiler::WhyAbsent().empty()) {
      text += fmt::format("step {}:\n{}", i, LlvmCompiler::Get().Assembly(EmitLlvm(*kernel)));
    }
  }
  return text;
}

}  // namespace hammock::cpu
