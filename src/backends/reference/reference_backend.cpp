#include "backends/reference/reference_backend.h"

#include <atomic>
#include <mutex>

#include "backends/reference/fault.h"
#include "backends/reference/interpreter.h"
#include "backends/reference/memory_pool.h"
#include "backends/single_device.h"

namespace hammock {
namespace reference {
namespace {

using lazy::BackendDevice;
using lazy::ComputationPtr;

constexpr const char* kName = "reference";
constexpr int8_t kType = 1;

/// A host tensor; empty while it is a placeholder or after it was donated.
class ReferenceData : public lazy::BackendData {
 public:
  ReferenceData(const BackendDevice& device, const Shape& shape) : BackendData(device, shape) {}
  ReferenceData(const BackendDevice& device, HostTensor tensor)
      : BackendData(device, tensor.shape()), tensor_(std::move(tensor)) {}

  void Assign(const BackendData& data) override {
    const auto* other = dynamic_cast<const ReferenceData*>(&data);
    HAMMOCK_CHECK(other && other->shape() == shape(), "{} cannot receive {}", shape().to_string(),
                  data.shape().to_string());
    SetTensor(other->tensor());
  }
  bool HasValue() const override { return tensor().defined(); }

  HostTensor tensor() const {
    std::lock_guard lock(mutex_);
    return tensor_;
  }
  void SetTensor(HostTensor tensor) {
    std::lock_guard lock(mutex_);
    std::swap(tensor_, tensor);
  }

 private:
  mutable std::mutex mutex_;
  HostTensor tensor_;
};

struct Counters {
  std::atomic<int64_t> compiled{0};
  std::atomic<int64_t> instantiated{0};
  std::atomic<int64_t> executed{0};
  std::atomic<int64_t> nodes{0};
  std::atomic<int64_t> bytes_in{0};
  std::atomic<int64_t> bytes_out{0};
  std::atomic<int64_t> failed{0};
};

/// Counts, accounts and injects faults for one run.
class BackendHooks : public Hooks {
 public:
  explicit BackendHooks(MemoryPool& memory) : memory_(memory) {}
  void BeforeNode(const GraphNode& node) override {
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
  int64_t nodes_ = 0;
};

class Backend : public SingleDeviceBackend {
 public:
  Backend()
      : SingleDeviceBackend(kName, kType),
        memory_(kName, [device = GetBackendDevices()[0]] { return lazy::DerivedBytes(device); }) {}

  void SetRngSeed(size_t seed) const override { seed_.store(seed, std::memory_order_relaxed); }

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
    return std::make_shared<ReferenceData>(device,
                                           memory_.Adopt(tensor.To(shape.dtype()), "upload"));
  }

  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const BackendDevice& device) const override {
    HostTensor tensor = HostTensor::From(scalar);
    return MakeComputationDataFromTensor(tensor, tensor.shape(), device);
  }

  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<ReferenceData>(device, shape);
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

  /// Kernels read sizes from the graph, so only the order of the nodes is planned anew.
  ComputationPtr Instantiate(const ComputationPtr& general, Graph graph) const override {
    ComputationPtr instance = BackendImplInterface::Instantiate(general, std::move(graph));
    auto program = std::make_shared<Program>(instance->graph());
    instance->artifact_bytes = program->bytes();
    instance->artifact = std::move(program);
    ++counters_.instantiated;
    return instance;
  }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const std::vector<bool>& donated) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    HAMMOCK_CHECK(program, "computation '{}' was not compiled", computation->name());
    std::vector<HostTensor> inputs;
    inputs.reserve(arguments.size());
    for (const BackendDataPtr& argument : arguments)
      inputs.push_back(TensorOf(argument, "execute"));
    std::vector<BackendDataPtr> results;
    for (HostTensor& tensor : Run(*program, inputs)) {
      results.push_back(std::make_shared<ReferenceData>(device, std::move(tensor)));
    }
    // Every node may fail for want of memory, so donated data lives until all have run.
    for (size_t i = 0; i < donated.size() && i < arguments.size(); ++i) {
      if (donated[i]) static_cast<ReferenceData&>(*arguments[i]).SetTensor({});
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

  std::string CreateMetricReport() const override {
    std::string report = "reference backend\n";
    for (const auto& [name, value] : GetMetrics()) {
      report += fmt::format("  {:<24} {:.0f}\n", name, value);
    }
    return report;
  }

  std::map<std::string, double> GetMetrics() const override {
    auto number = [](int64_t value) { return static_cast<double>(value); };
    return {{"computations_compiled", number(counters_.compiled)},
            {"computations_instantiated", number(counters_.instantiated)},
            {"computations_run", number(counters_.executed)},
            {"computations_failed", number(counters_.failed)},
            {"nodes_run", number(counters_.nodes)},
            {"bytes_uploaded", number(counters_.bytes_in)},
            {"bytes_downloaded", number(counters_.bytes_out)},
            {"memory_in_use", number(memory_.in_use())},
            {"memory_peak", number(memory_.peak())}};
  }

  lazy::MemoryInfo GetMemoryInfo(const BackendDevice&) const override {
    lazy::MemoryInfo info;
    info.in_use = info.reserved = memory_.in_use();
    info.derived = memory_.derived();
    info.peak = memory_.peak();
    info.limit = memory_.limit();
    return info;
  }

  void SetMemoryLimit(const BackendDevice&, int64_t bytes) const override {
    if (bytes < 0) {
      Throw(ErrorCode::kValue, "memory limit is {}, needs at least 0 (0 lifts it)", bytes);
    }
    memory_.SetLimit(bytes);
  }

  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    return ToText(computation->graph());
  }

 private:
  static HostTensor TensorOf(const BackendDataPtr& data, const char* what) {
    const auto* held = dynamic_cast<const ReferenceData*>(data.get());
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

  std::vector<HostTensor> Run(const Program& program, std::span<const HostTensor> inputs) const {
    BackendHooks hooks(memory_);
    try {
      std::vector<HostTensor> results = program.Run(inputs, hooks);
      ++counters_.executed;
      counters_.nodes += hooks.nodes();
      return results;
    } catch (...) {
      ++counters_.failed;
      counters_.nodes += hooks.nodes();
      throw;
    }
  }

  mutable MemoryPool memory_;
  mutable Counters counters_;
  mutable std::atomic<size_t> seed_{0};
};

}  // namespace
}  // namespace reference

lazy::BackendImplInterface* ReferenceBackend() {
  static auto* backend = new reference::Backend;
  return backend;
}

}  // namespace hammock
