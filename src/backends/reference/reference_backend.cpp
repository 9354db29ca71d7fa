#include "backends/reference/reference_backend.h"

#include <atomic>
#include <mutex>

#include "backends/common/collectives.h"
#include "backends/common/fault.h"
#include "backends/common/host_backend.h"
#include "backends/reference/interpreter.h"
#include "backends/reference/memory_pool.h"
#include "base/never_destroyed.h"
#include "base/process_exit.h"
#include "ir/graph_sizes.h"

namespace hammock {
namespace reference {
namespace {

using lazy::BackendDevice;
using lazy::ComputationPtr;

constexpr const char* kName = "reference";
constexpr int8_t kType = 1;

/// Counts, accounts and injects faults for one run.
class BackendHooks : public Hooks {
 public:
  BackendHooks(MemoryPool& memory, const lazy::RunContext& run) : memory_(memory), run_(run) {}
  void BeforeNode(const GraphNode& node) override {
    if (run_.cancel && run_.cancel->load(std::memory_order_relaxed)) [[unlikely]]
      throw process_exit::Cancelled();
    ++nodes_;
    MaybeFail(FaultPoint::kExecute, node.op->info().name);
  }
  HostTensor Allocate(const Shape& shape, const OpDef& op) override {
    const std::string& name = op.info().name;
    MaybeFail(FaultPoint::kAllocate, name);
    return memory_.Allocate(shape, name);
  }
  int64_t nodes() const { return nodes_; }

 private:
  MemoryPool& memory_;
  const lazy::RunContext& run_;
  int64_t nodes_ = 0;
};

/// A program with the graph that it borrows.
struct ProgramOfGraph {
  explicit ProgramOfGraph(Graph of) : graph(std::move(of)), program(graph) {}
  int64_t bytes() const {
    return program.bytes() +
           static_cast<int64_t>(graph.nodes().size() * (sizeof(GraphNode) + sizeof(Shape)));
  }

  const Graph graph;
  Program program;
};

class Backend : public HostBackend {
 public:
  Backend()
      : HostBackend(kName, kType),
        memory_(kName, [device = GetBackendDevices()[0]] { return lazy::DerivedBytes(device); }) {}

  void SetRngSeed(size_t seed) const override { seed_.store(seed, std::memory_order_relaxed); }

  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override {
    for (const ComputationPtr& instance : instances) {
      MaybeFail(FaultPoint::kCompile, instance->name());
      try {
        auto program = std::make_shared<Program>(instance->graph());
        instance->artifact_bytes = program->bytes();
        instance->artifact = std::move(program);
      } catch (const NotSupported& error) {
        Throw<CompileError>(ErrorCode::kCompile, "{}: {}", instance->name(), error.message());
      }
      ++counters_.compiled;
    }
    return instances;
  }

  bool SupportsDimParams(const BackendDevice&) const override { return true; }

  /// Kernels read sizes from the graph, so it is copied with other ones.
  ComputationPtr Instantiate(const ComputationPtr& general,
                             std::span<const int64_t> sizes) const override {
    auto instance = std::make_shared<lazy::Computation>(*general, sizes);
    auto at_sizes = std::make_shared<ProgramOfGraph>(AtSizes(general->graph(), instance->sizes()));
    instance->artifact_bytes = at_sizes->bytes();
    instance->artifact = std::shared_ptr<void>(at_sizes, &at_sizes->program);
    ++counters_.instantiated;
    return instance;
  }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const lazy::RunContext& run) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    HAMMOCK_CHECK(program, "computation '{}' was not compiled", computation->name());
    std::vector<HostTensor> inputs;
    inputs.reserve(arguments.size());
    for (const BackendDataPtr& argument : arguments)
      inputs.push_back(TensorOf(argument, "execute"));
    std::vector<BackendDataPtr> results;
    for (const HostTensor& tensor : Run(*program, inputs, run)) {
      results.push_back(std::make_shared<HostData>(device, tensor, /*writable=*/false));
    }
    // Every node may fail for want of memory, so donated data lives until all have run.
    for (size_t i = 0; i < run.donated.size() && i < arguments.size(); ++i) {
      if (run.donated[i]) static_cast<HostData&>(*arguments[i]).SetTensor({}, false);
    }
    return results;
  }

  lazy::Capability QueryCapability(const Graph& graph, NodeId node,
                                   const BackendDevice& device) const override {
    lazy::Capability answer = BackendImplInterface::QueryCapability(graph, node, device);
    const OpDef& op = *graph[node].op;
    if (answer.verdict == lazy::Capability::Verdict::kRun && !op.IsComposite() && !HasKernel(op)) {
      return {lazy::Capability::Verdict::kRefuse, "the interpreter has no kernel for it"};
    }
    return answer;
  }

  // ---- Saved computations

  /// Kernels have no settings: a saved computation is its graph.
  std::string Fingerprint(const BackendDevice&) const override { return "reference 1"; }

  // ---- Debugging and metrics

  std::map<std::string, double> GetMetrics() const override {
    std::map<std::string, double> all = HostBackend::GetMetrics();
    all["nodes_run"] = static_cast<double>(nodes_);
    return all;
  }

  lazy::MemoryInfo GetMemoryInfo(const BackendDevice&) const override {
    lazy::MemoryInfo info;
    info.in_use = info.reserved = memory_.in_use();
    info.derived = memory_.derived();
    info.peak = memory_.peak();
    info.limit = memory_.limit();
    return info;
  }

  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return ToText(program ? program->graph() : computation->graph());
  }

 protected:
  HostTensor Adopt(const HostTensor& tensor) const override {
    return memory_.Adopt(tensor, "upload");
  }
  void LimitMemory(int64_t bytes) const override { memory_.SetLimit(bytes); }

 private:
  std::vector<HostTensor> Run(const Program& program, std::span<const HostTensor> inputs,
                              const lazy::RunContext& run) const {
    BackendHooks hooks(memory_, run);
    const CollectiveScope collectives(run.collectives);
    try {
      std::vector<HostTensor> results = program.Run(inputs, hooks);
      ++counters_.executed;
      nodes_ += hooks.nodes();
      return results;
    } catch (...) {
      ++counters_.failed;
      nodes_ += hooks.nodes();
      throw;
    }
  }

  mutable MemoryPool memory_;
  mutable std::atomic<int64_t> nodes_{0};
  mutable std::atomic<size_t> seed_{0};
};

}  // namespace
}  // namespace reference

lazy::BackendImplInterface* ReferenceBackend() {
  static auto& backend = NeverDestroyed<reference::Backend>();
  return &backend;
}

}  // namespace hammock
