#include "backends/cpu/cpu_backend.h"

#include <atomic>
#include <mutex>

#include "backends/cpu/host_allocator.h"
#include "backends/cpu/program.h"
#include "backends/reference/fault.h"
#include "backends/reference/interpreter.h"
#include "backends/single_device.h"
#include "hammock/config.h"

namespace hammock {
namespace cpu {
namespace {

using lazy::BackendDevice;
using lazy::ComputationPtr;
using reference::FaultHookSet;
using reference::FaultPoint;
using reference::MaybeFail;

constexpr const char* kName = "cpu";
constexpr int8_t kType = 3;

/// A host tensor; empty while it is a placeholder or after it was donated. Uploaded ones may share
/// memory with the caller and are never written.
class CpuData : public lazy::BackendData {
 public:
  CpuData(const BackendDevice& device, const Shape& shape) : BackendData(device, shape) {}
  CpuData(const BackendDevice& device, HostTensor tensor, bool writable)
      : BackendData(device, tensor.shape()), tensor_(std::move(tensor)), writable_(writable) {}

  void Assign(const BackendData& data) override {
    const auto* other = dynamic_cast<const CpuData*>(&data);
    HAMMOCK_CHECK(other && other->shape() == shape(), "{} cannot receive {}", shape().to_string(),
                  data.shape().to_string());
    SetTensor(other->tensor(), other->writable());
  }
  bool HasValue() const override { return tensor().defined(); }

  HostTensor tensor() const {
    std::lock_guard lock(mutex_);
    return tensor_;
  }
  void SetTensor(HostTensor tensor, bool writable) {
    std::lock_guard lock(mutex_);
    std::swap(tensor_, tensor);
    writable_ = writable;
  }
  bool writable() const {
    std::lock_guard lock(mutex_);
    return writable_;
  }

 private:
  mutable std::mutex mutex_;
  HostTensor tensor_;
  bool writable_ = false;
};

struct Counters {
  std::atomic<int64_t> compiled{0};
  std::atomic<int64_t> instantiated{0};
  std::atomic<int64_t> executed{0};
  std::atomic<int64_t> bytes_in{0};
  std::atomic<int64_t> bytes_out{0};
  std::atomic<int64_t> failed{0};
};

class Backend : public SingleDeviceBackend {
 public:
  Backend() : SingleDeviceBackend(kName, kType), memory_(kName) {}

  void SetRngSeed(size_t) const override {}

  // ---- Data transfer

  BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                               const BackendDevice& device) const override {
    if (FaultHookSet()) MaybeFail(FaultPoint::kUpload, shape.to_string());
    if (!tensor.defined() || tensor.shape().sizes() != shape.sizes()) {
      Throw(ErrorCode::kShapeMismatch, "upload: {} given for {}",
            tensor.defined() ? tensor.shape().to_string() : "an undefined tensor",
            shape.to_string());
    }
    counters_.bytes_in += shape.bytes();
    MaybeFail(FaultPoint::kAllocate, "upload");
    return std::make_shared<CpuData>(
        device, memory_.Adopt(tensor.To(shape.dtype()), "upload", lazy::DerivedBytes(device)),
        /*writable=*/false);
  }

  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const BackendDevice& device) const override {
    HostTensor tensor = HostTensor::From(scalar);
    return MakeComputationDataFromTensor(tensor, tensor.shape(), device);
  }

  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<CpuData>(device, shape);
  }

  HostTensor MakeTensorFromComputationData(
      const BackendDataPtr data, std::optional<DType> logical_scalar_type) const override {
    if (FaultHookSet()) MaybeFail(FaultPoint::kDownload, data->shape().to_string());
    HostTensor tensor = TensorOf(data, "download");
    counters_.bytes_out += tensor.bytes();
    if (logical_scalar_type && *logical_scalar_type != tensor.dtype()) {
      return tensor.To(*logical_scalar_type);
    }
    return HostTensor::Copy(tensor.shape(), tensor.data());
  }

  // ---- Lowering, compilation, execution

  std::unique_ptr<lazy::LoweringContext> CreateLoweringContext(
      const std::string& name, BackendDevice device, std::span<const Node* const> post_order,
      lazy::Util::EmissionMap emit_status) const override {
    MaybeFail(FaultPoint::kLower, name);
    return BackendImplInterface::CreateLoweringContext(name, device, post_order,
                                                       std::move(emit_status));
  }

  std::unique_ptr<lazy::LoweringContext> CreateLoweringContext(
      const std::string& name, BackendDevice device) const override {
    MaybeFail(FaultPoint::kLower, name);
    return BackendImplInterface::CreateLoweringContext(name, device);
  }

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

  /// Kernels know no sizes: only the schedule and the memory plan are made anew.
  ComputationPtr Instantiate(const ComputationPtr& general, Graph graph) const override {
    ComputationPtr instance = BackendImplInterface::Instantiate(general, std::move(graph));
    Prepare(*instance);
    ++counters_.instantiated;
    return instance;
  }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const std::vector<bool>& donated) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    HAMMOCK_CHECK(program, "computation '{}' was not compiled", computation->name());
    if (FaultHookSet()) {
      for (const GraphNode& node : computation->graph().nodes()) {
        MaybeFail(FaultPoint::kExecute, node.op->info().name);
      }
    }
    try {
      std::vector<BackendDataPtr> results = Run(*program, *computation, arguments, device, donated);
      for (size_t i = 0; i < donated.size() && i < arguments.size(); ++i) {
        if (donated[i]) static_cast<CpuData&>(*arguments[i]).SetTensor({}, false);
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
    if (answer.verdict == lazy::Capability::Verdict::kRun && !op.IsComposite() &&
        !reference::HasKernel(op)) {
      return {lazy::Capability::Verdict::kRefuse, "there is no kernel for it"};
    }
    return answer;
  }

  // ---- Saved computations

  std::string Fingerprint(const BackendDevice&) const override { return "cpu 1"; }

  // ---- Debugging and metrics

  std::string CreateMetricReport() const override {
    std::string report = "cpu backend\n";
    for (const auto& [name, value] : GetMetrics()) {
      report += fmt::format("  {:<24} {:.0f}\n", name, value);
    }
    return report;
  }

  std::map<std::string, double> GetMetrics() const override {
    auto number = [](int64_t value) { return static_cast<double>(value); };
    lazy::MemoryInfo memory = memory_.Info();
    return {{"computations_compiled", number(counters_.compiled)},
            {"computations_instantiated", number(counters_.instantiated)},
            {"computations_run", number(counters_.executed)},
            {"computations_failed", number(counters_.failed)},
            {"bytes_uploaded", number(counters_.bytes_in)},
            {"bytes_downloaded", number(counters_.bytes_out)},
            {"memory_in_use", number(memory.in_use)},
            {"memory_peak", number(memory.peak)}};
  }

  lazy::MemoryInfo GetMemoryInfo(const BackendDevice& device) const override {
    lazy::MemoryInfo info = memory_.Info();
    info.derived = lazy::DerivedBytes(device);
    return info;
  }

  void SetMemoryLimit(const BackendDevice&, int64_t bytes) const override {
    if (bytes < 0) {
      Throw(ErrorCode::kValue, "memory limit is {}, needs at least 0 (0 lifts it)", bytes);
    }
    memory_.SetLimit(bytes);
  }

  void FreeCachedMemory(const BackendDevice&) const override { memory_.FreeCached(); }

  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return program ? program->ToText(config::Get<config::kCpuText>())
                   : ToText(computation->graph());
  }

 private:
  /// Memory for one run, given back at its end.
  class Arena {
   public:
    Arena(HostAllocator& memory, int64_t bytes, int64_t others)
        : memory_(memory),
          bytes_(bytes),
          data_(bytes == 0 ? nullptr : memory.Allocate(bytes, "values on the way", others)) {}
    ~Arena() {
      if (data_) memory_.Free(data_, bytes_);
    }
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    char* data() const { return static_cast<char*>(data_); }

   private:
    HostAllocator& memory_;
    int64_t bytes_;
    void* data_;
  };

  static void Prepare(lazy::Computation& computation) {
    try {
      auto program = std::make_shared<Program>(computation.graph());
      computation.artifact_bytes = program->bytes();
      computation.artifact = std::move(program);
    } catch (const NotSupported& error) {
      Throw<CompileError>(ErrorCode::kCompile, "{}: {}", computation.name(), error.message());
    }
  }

  static HostTensor TensorOf(const BackendDataPtr& data, const char* what) {
    const auto* held = dynamic_cast<const CpuData*>(data.get());
    if (!held) {
      Throw(ErrorCode::kForeignTensor, "{}: the data belongs to {}, not to {}", what,
            data ? data->device().toString() : "nobody", kName);
    }
    HostTensor tensor = held->tensor();
    if (!tensor.defined()) {
      Throw<DeviceError>(ErrorCode::kDevice, "{}: {} on {} has no value: not computed, or donated",
                         what, data->shape().to_string(), kName);
    }
    return tensor;
  }

  /// A donated input among `wanted` that nobody else holds; null: none.
  static HostTensor* TakeDonated(const std::vector<int>& wanted, const std::vector<bool>& donated,
                                 std::span<const BackendDataPtr> arguments,
                                 std::vector<HostTensor>& inputs) {
    for (int i : wanted) {
      size_t input = static_cast<size_t>(i);
      // Held by its data and by this run; an output that has taken it counts as a third.
      bool mine = input < donated.size() && donated[input] &&
                  inputs[input].storage().use_count() == 2 &&
                  static_cast<const CpuData&>(*arguments[input]).writable();
      if (mine) return &inputs[input];
    }
    return nullptr;
  }

  std::vector<BackendDataPtr> Run(const Program& program, const lazy::Computation& computation,
                                  std::span<const BackendDataPtr> arguments,
                                  const BackendDevice& device,
                                  const std::vector<bool>& donated) const {
    try {
      return RunWithMemory(program, computation, arguments, device, donated);
    } catch (OutOfMemory& error) {
      std::string largest = program.LargestBuffers();
      if (largest.empty()) throw;
      OutOfMemory with_plan(
          error.code(), fmt::format("{}; the run needs {} bytes besides its inputs, most for {}",
                                    error.message(), program.plan().peak_bytes(), largest));
      with_plan.SetWhere(error.where());
      throw with_plan;
    }
  }

  std::vector<BackendDataPtr> RunWithMemory(const Program& program,
                                            const lazy::Computation& computation,
                                            std::span<const BackendDataPtr> arguments,
                                            const BackendDevice& device,
                                            const std::vector<bool>& donated) const {
    int64_t others = lazy::DerivedBytes(device);
    std::vector<HostTensor> inputs;
    std::vector<char*> input_pointers;
    for (const BackendDataPtr& argument : arguments) {
      inputs.push_back(TensorOf(argument, "execute"));
      input_pointers.push_back(static_cast<char*>(inputs.back().mutable_data()));
    }
    std::vector<HostTensor> outputs;
    std::vector<char*> output_pointers;
    for (size_t i = 0; i < program.outputs().size(); ++i) {
      const Program::Output& source = program.outputs()[i];
      const Shape& type = computation.result_shapes()[i];
      if (source.input >= 0) {
        outputs.emplace_back(type, inputs[static_cast<size_t>(source.input)].storage());
      } else if (source.same >= 0) {
        outputs.emplace_back(type, outputs[static_cast<size_t>(source.same)].storage());
      } else if (HostTensor* input =
                     TakeDonated(program.Replaceable(i), donated, arguments, inputs)) {
        outputs.emplace_back(type, input->storage());
      } else {
        MaybeFail(FaultPoint::kAllocate, "output");
        outputs.push_back(memory_.New(type, "output", others));
      }
      output_pointers.push_back(static_cast<char*>(outputs.back().mutable_data()));
    }
    Arena arena(memory_, program.plan().arena_bytes, others);
    program.Run(input_pointers, output_pointers, arena.data());
    std::vector<BackendDataPtr> results;
    results.reserve(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      HostTensor& tensor = outputs[i];
      bool writable = program.outputs()[i].input < 0;
      results.push_back(std::make_shared<CpuData>(device, std::move(tensor), writable));
    }
    return results;
  }

  mutable HostAllocator memory_;
  mutable Counters counters_;
};

}  // namespace
}  // namespace cpu

lazy::BackendImplInterface* CpuBackend() {
  static auto* backend = new cpu::Backend;
  return backend;
}

}  // namespace hammock
