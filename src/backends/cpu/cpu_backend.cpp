#include "backends/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

#include "backends/common/collectives.h"
#include "backends/common/fault.h"
#include "backends/common/host_backend.h"
#include "backends/cpu/calls/calls.h"
#include "backends/cpu/describe.h"
#include "backends/cpu/host/host_allocator.h"
#include "backends/cpu/host/thread_pool.h"
#include "backends/cpu/packed_weights.h"
#include "backends/cpu/program.h"
#include "backends/cpu/saved_artifact.h"
#include "backends/cpu/sized_program.h"
#include "backends/reference/interpreter.h"
#include "base/never_destroyed.h"
#include "base/process_exit.h"
#include "base/profile_file.h"
#include "hammock/config.h"
#include "hammock/lazy/saved_computation.h"
#include "ir/graph_sizes.h"

namespace hammock {
namespace cpu {
namespace {

std::optional<std::string> CheckText(std::string_view value) {
  if (value.empty() || value == "llvm" || value == "assembly") return std::nullopt;
  return "empty, llvm or assembly";
}

constinit config::Option<std::string> kText({
    .name = "cpu.text",
    .default_value = "",
    .doc = "Parts of the text of a computation besides graph, schedule and memory: `llvm` or "
           "`assembly` of its kernels.",
    .check = CheckText,
});

using lazy::BackendDevice;
using lazy::ComputationPtr;

constexpr const char* kName = "cpu";
constexpr int8_t kType = 3;

class Backend : public HostBackend {
 public:
  Backend() : HostBackend(kName, kType), memory_(kName) {}

  void SetRngSeed(size_t) const override {}

  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override {
    for (const ComputationPtr& instance : instances) {
      MaybeFail(FaultPoint::kCompile, instance->name());
      Prepare(*instance);
      ++counters_.compiled;
    }
    return instances;
  }

  bool WantsOptimisedGraphs(const BackendDevice&) const override { return true; }

  bool SupportsDimParams(const BackendDevice&) const override { return true; }

  ComputationPtr Instantiate(const ComputationPtr& general,
                             std::span<const int64_t> sizes) const override {
    auto instance = std::make_shared<lazy::Computation>(*general, sizes);
    const auto& program = *static_cast<const Program*>(general->artifact.get());
    SetProgram(*instance, program.by_size->At(instance->sizes()));
    ++counters_.instantiated;
    return instance;
  }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const lazy::RunContext& run) const override {
    auto program = std::static_pointer_cast<const Program>(computation->artifact);
    HAMMOCK_CHECK(program, "computation '{}' was not compiled", computation->name());
    // It may call oneDNN; later objects do not (Note [Exit] in base/process_exit.h).
    if (process_exit::LibraryCall::Closed()) [[unlikely]] {
      program =
          std::make_shared<const Program>(AtSizes(computation->graph(), computation->sizes()));
    }
    if (FaultHookSet()) {
      for (const GraphNode& node : computation->graph().nodes()) {
        MaybeFail(FaultPoint::kExecute, node.op->info().name);
      }
    }
    try {
      std::vector<BackendDataPtr> results = WithPlanInErrors(
          *program, [&] { return Run(*program, *computation, arguments, device, run); });
      for (size_t i = 0; i < run.donated.size() && i < arguments.size(); ++i) {
        if (run.donated[i]) static_cast<HostData&>(*arguments[i]).SetTensor({}, false);
      }
      ++counters_.executed;
      return results;
    } catch (...) {
      ++counters_.failed;
      throw;
    }
  }

  lazy::Capability QueryCapability(const Graph& graph, NodeId node,
                                   const BackendDevice& device) const override {
    lazy::Capability answer = BackendImplInterface::QueryCapability(graph, node, device);
    const OpDef& op = *graph[node].op;
    if (RunsWhole(graph, node)) return {};
    if (answer.verdict == lazy::Capability::Verdict::kRun && !op.IsComposite() &&
        !reference::HasKernel(op)) {
      return {lazy::Capability::Verdict::kRefuse, "there is no kernel for it"};
    }
    return answer;
  }

  // ---- Saved computations

  std::string Fingerprint(const BackendDevice&) const override { return ProgramFingerprint(); }

  std::string SerializeComputation(const ComputationPtr& computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    HAMMOCK_CHECK(program, "computation '{}' was not compiled", computation->name());
    lazy::SavedComputation saved(*computation, ProgramFingerprint());
    saved.artifact = SaveArtifact(*program);
    return saved.ToBytes();
  }

  ComputationPtr DeserializeComputation(std::string_view bytes,
                                        const BackendDevice& device) const override {
    lazy::SavedComputation saved = lazy::SavedComputation::Parse(bytes);
    ComputationPtr computation = saved.ToComputation(device);
    SetProgram(*computation, LoadArtifact(*computation, saved.artifact));
    return computation;
  }

  // ---- Debugging and metrics

  lazy::MemoryInfo GetMemoryInfo(const BackendDevice& device) const override {
    lazy::MemoryInfo info = memory_.Info();
    info.derived = lazy::DerivedBytes(device);
    info.in_use += info.derived;
    info.peak = std::max(info.peak, info.in_use);
    return info;
  }

  void FreeCachedMemory(const BackendDevice&) const override { memory_.FreeCached(); }

  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return program ? program->ToText(config::Get<kText>()) : ToText(computation->graph());
  }

  lazy::ComputationInfo DescribeComputation(const ComputationPtr& computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return program ? program->Describe(config::Get<kText>())
                   : HostBackend::DescribeComputation(computation);
  }
  std::vector<lazy::DeviceFact> DescribeDevice(const BackendDevice&) const override {
    return DescribeHost();
  }

 protected:
  HostTensor Adopt(const HostTensor& tensor) const override {
    return memory_.Adopt(tensor, "upload", lazy::DerivedBytes(GetBackendDevices()[0]));
  }
  void LimitMemory(int64_t bytes) const override { memory_.SetLimit(bytes); }

 private:
  static void SetProgram(lazy::Computation& computation, std::shared_ptr<Program> program) {
    computation.run_bytes = program->plan().peak_bytes();
    hammock::SetProgram(computation, std::move(program));
  }

  static void Prepare(lazy::Computation& computation) {
    try {
      SetProgram(computation, CompileProgram(computation, Target()));
    } catch (const NotSupported& error) {
      Throw<CompileError>(ErrorCode::kCompile, "{}: {}", computation.name(), error.message());
    }
  }

  /// By output: the input whose memory it takes, or -1. Nobody else may hold that.
  static std::vector<int> TakeDonated(const Program& program, std::vector<bool> donated,
                                      std::span<const BackendDataPtr> arguments,
                                      const std::vector<HostTensor>& inputs) {
    donated.resize(std::min(donated.size(), inputs.size()));
    for (size_t i = 0; i < donated.size(); ++i) {
      // Held by its data and by this run.
      donated[i] = donated[i] && inputs[i].storage().use_count() == 2 &&
                   static_cast<const HostData&>(*arguments[i]).writable();
    }
    return program.donations().Match(donated);
  }

  /// Bytes that new packed weights may take; `derived` are the bytes of existing ones.
  int64_t Room(int64_t derived) const {
    lazy::MemoryInfo info = memory_.Info();
    return info.limit == 0 ? std::numeric_limits<int64_t>::max()
                           : info.limit - info.in_use - derived;
  }

  std::vector<BackendDataPtr> Run(const Program& program, const lazy::Computation& computation,
                                  std::span<const BackendDataPtr> arguments,
                                  const BackendDevice& device, const lazy::RunContext& run) const {
    int64_t others = lazy::DerivedBytes(device);
    std::vector<HostTensor> inputs;
    std::vector<char*> input_pointers;
    inputs.reserve(arguments.size());
    input_pointers.reserve(arguments.size());
    for (const BackendDataPtr& argument : arguments) {
      inputs.push_back(TensorOf(argument, "execute"));
      input_pointers.push_back(static_cast<char*>(inputs.back().mutable_data()));
    }
    const std::vector<int> taken = TakeDonated(program, run.donated, arguments, inputs);
    std::vector<HostTensor> outputs;
    std::vector<char*> output_pointers;
    outputs.reserve(program.outputs().size());
    output_pointers.reserve(program.outputs().size());
    for (size_t i = 0; i < program.outputs().size(); ++i) {
      const Program::Output& source = program.outputs()[i];
      const Shape& type = computation.result_shapes()[i];
      if (source.input >= 0) {
        outputs.emplace_back(type, inputs[source.input].storage());
      } else if (source.same >= 0) {
        outputs.emplace_back(type, outputs[source.same].storage());
      } else if (taken[i] >= 0) {
        outputs.emplace_back(type, inputs[taken[i]].storage());
      } else {
        MaybeFail(FaultPoint::kAllocate, "output");
        outputs.push_back(memory_.New(type, "output", others));
      }
      output_pointers.push_back(static_cast<char*>(outputs.back().mutable_data()));
    }
    HostAllocator::Arena arena(memory_, program.plan().arena_bytes, "values on the way", others);
    if (run.profile) [[unlikely]]
      run.profile->AddMemory(GetMemoryInfo(device).in_use);
    PackedWeights packed_weights(program, arguments, inputs, run.donated, Room(others));
    ThreadPool::Caller caller;
    const ThreadPool::Cancellable cancellable(run.cancel);
    const CollectiveScope collectives(run.collectives);
    program.Run(input_pointers, output_pointers, arena.data(), packed_weights.pointers(), taken,
                run.profile);
    std::vector<BackendDataPtr> results;
    results.reserve(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      bool writable = program.outputs()[i].input < 0;
      results.push_back(std::make_shared<HostData>(device, outputs[i], writable));
    }
    return results;
  }

  mutable HostAllocator memory_;
};

}  // namespace
}  // namespace cpu

lazy::BackendImplInterface* CpuBackend() {
  static auto& backend = NeverDestroyed<cpu::Backend>();
  return &backend;
}

}  // namespace hammock
