#include "lazy/lazy_backend.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <hammock/executor.h>
#include <hammock/metrics.h>
#include <torch/csrc/lazy/backend/backend_interface.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <sstream>

#include "engine/fallback.h"
#include "engine/values.h"
#include "lazy/lazy_data.h"

namespace hammock_torch {

using hammock::Any;
using torch::lazy::BackendDataPtr;
using torch::lazy::BackendDevice;
using torch::lazy::ComputationPtr;
using torch::lazy::LoweringContext;
using torch::lazy::Shape;

namespace {

#if TORCH_VERSION_MAJOR >= 2
using NodePtr = const torch::lazy::Node*;
template <class T>
using Optional = std::optional<T>;
#else
using NodePtr = torch::lazy::Node*;
template <class T>
using Optional = c10::optional<T>;
#endif

/// "CPU", "CUDA", "OPENCL": devices print as "CPU0".
struct DeviceType : torch::lazy::BackendDeviceType {
  explicit DeviceType(const std::string& name)
      : BackendDeviceType(static_cast<int8_t>(name == "cuda" ? at::kCUDA : at::kCPU)), name(name) {}
  std::string toString() const override {
    std::string upper = name;
    std::transform(upper.begin(), upper.end(), upper.begin(), ::toupper);
    return upper;
  }
  std::string name;
};

struct Counts {
  std::atomic<int64_t> compiles = 0, runs = 0;
  std::mutex mutex;
  std::string last_graph;
};
Counts& TheCounts() {
  static auto& counts = *new Counts;
  return counts;
}

class LazyBackend : public torch::lazy::BackendImplInterface {
 public:
  explicit LazyBackend(const hammock::Device& device) { SetDevice(device); }

  void SetDevice(const hammock::Device& device) {
    type_ = std::make_shared<DeviceType>(device.type());
    ordinal_ = device.ordinal();
  }

  // ---- Life of the process
  void PrepareToExit() const override { hammock::LazyGraphExecutor::Get()->PrepareToExit(); }
  /// See Note [Random numbers]: the generator is PyTorch's.
  void SetRngSeed(size_t seed) const override { at::manual_seed(seed); }

  // ---- Tracing is PyTorch's
  const torch::lazy::IrBuilder* GetIrBuilder() const override {
    return torch::lazy::GetTSBackendImpl()->GetIrBuilder();
  }
  BackendDataPtr GetComputationDataFromNode(NodePtr node) const override {
    return torch::lazy::GetTSBackendImpl()->GetComputationDataFromNode(node);
  }

  // ---- Data
  /// The front end gives tensors that it has copied, or made itself.
  BackendDataPtr MakeComputationDataFromTensor(const at::Tensor& tensor, const Shape& shape,
                                               const BackendDevice& device) const override {
    return std::make_shared<LazyData>(tensor.detach(), shape, device);
  }
  BackendDataPtr MakeComputationDataFromScalar(const at::Scalar& scalar,
                                               const BackendDevice& device) const override {
    return std::make_shared<LazyData>(scalar, device);
  }
  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<LazyData>(shape, device);
  }
  at::Tensor MakeTensorFromComputationData(const BackendDataPtr data,
                                           Optional<at::ScalarType> logical) const override {
    at::Tensor tensor = std::static_pointer_cast<LazyData>(data)->tensor();
    return logical && tensor.scalar_type() != *logical ? tensor.to(*logical) : tensor;
  }

  // ---- Lowering, compilation, execution
  std::unique_ptr<LoweringContext> CreateLoweringContext(
      const std::string& name, BackendDevice device, c10::ArrayRef<NodePtr> post_order,
      torch::lazy::Util::EmissionMap emit_status) const override {
    return std::make_unique<LazyLowering>(name, device, post_order, std::move(emit_status));
  }
  std::unique_ptr<LoweringContext> CreateLoweringContext(const std::string& name,
                                                         BackendDevice device) const override {
    return std::make_unique<LazyLowering>(name, device);
  }
  std::vector<std::string> GetCompilationDevices(
      const std::string&, c10::ArrayRef<std::string> devices) const override {
    return devices.vec();
  }
  /// Hammock compiles a graph when it first runs, for the sizes that it then has.
  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override {
    Counts& counts = TheCounts();
    for (const ComputationPtr& instance : instances) {
      ++counts.compiles;
      std::lock_guard lock(counts.mutex);
      counts.last_graph = instance->to_string();
    }
    return instances;
  }
  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 c10::ArrayRef<BackendDataPtr> arguments,
                                                 const BackendDevice& device) const override;

  // ---- Devices
  std::shared_ptr<torch::lazy::BackendDeviceType> GetDefaultDeviceType() const override {
    return type_;
  }
  void SetDefaultDeviceType(int8_t type) override {
    bool cuda = static_cast<c10::DeviceType>(type) == at::kCUDA;
    TORCH_CHECK(cuda || static_cast<c10::DeviceType>(type) == at::kCPU,
                "the device type of lazy tensors is CPU or CUDA; others are chosen by "
                "hammock_torch.lazy.init(device)");
    type_ = std::make_shared<DeviceType>(cuda ? "cuda" : "cpu");
  }
  int64_t GetDefaultDeviceOrdinal() const override { return ordinal_; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override { ordinal_ = ordinal; }
  /// Fallbacks run on the host, whatever the device.
  at::DeviceType EagerFallbackDeviceType() const override { return at::kCPU; }
  /// The devices that exist, of the default type.
  std::vector<BackendDevice> GetBackendDevices() const override {
    std::vector<BackendDevice> result;
    for (const hammock::Device& device : hammock::Devices()) {
      if (device.type() == type_->name)
        result.emplace_back(GetDefaultDeviceType(), device.ordinal());
    }
    return result;
  }
  BackendDevice GetBackendDevice(c10::Device device) const override {
    return BackendDevice(GetDefaultDeviceType(), device.index());
  }

  hammock::Device OnHammock(int64_t ordinal) const {
    return hammock::Device(type_->name + ":" + std::to_string(ordinal < 0 ? ordinal_ : ordinal));
  }

  // ---- Looking
  std::string CreateMetricReport() const override { return LazyReport(); }
  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    return computation->to_string();
  }

 private:
  std::shared_ptr<DeviceType> type_;
  int64_t ordinal_ = 0;
};

std::vector<BackendDataPtr> LazyBackend::ExecuteComputation(ComputationPtr computation,
                                                            c10::ArrayRef<BackendDataPtr> arguments,
                                                            const BackendDevice& device) const {
  auto& lowered = static_cast<LazyComputation&>(*computation);
  hammock::Device on = OnHammock(device.ordinal());
  const Program& program = lowered.ProgramFor(on);
  std::vector<Any> inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& data = static_cast<LazyData&>(*arguments[i]);
    bool number = data.scalar.has_value() || lowered.IsNumber(i);
    inputs.push_back(number ? data.number() : Any(data.value(on)));
  }
  std::vector<Any> results = program.Run(inputs);
  std::vector<hammock::Tensor> tensors;
  for (const Any& result : results) tensors.push_back(result.ToTensor());
  // PyTorch may write to what it gave as soon as this returns, and asks for errors now.
  hammock::LazyGraphExecutor::Get()->SyncTensorsGraph(tensors, true);
  ++TheCounts().runs;
  std::vector<BackendDataPtr> data;
  for (hammock::Tensor& tensor : tensors) {
    std::vector<int64_t> sizes = tensor.sizes().vec();
    Shape shape(FromDType(tensor.dtype()), sizes);
    at::Tensor shared = on.type() == "cpu" ? ShareTensor(tensor) : at::Tensor();
    data.push_back(std::make_shared<LazyData>(std::move(tensor), shared, shape, device));
  }
  return data;
}

/// The one that InitLazyBackend made; lives as long as PyTorch, which keeps a pointer.
LazyBackend* the_backend = nullptr;

bool HasLazyKernels() {
  auto add = c10::Dispatcher::singleton().findSchema({"aten::add", "Tensor"});
  return add && add->hasKernelForDispatchKey(c10::DispatchKey::Lazy);
}

}  // namespace

void InitLazyBackend(const std::string& device) {
  static std::mutex mutex;
  hammock::Device on(device);
  std::lock_guard lock(mutex);
  if (!HasLazyKernels()) torch::lazy::InitTorchScriptBackend();
  if (the_backend) {
    the_backend->SetDevice(on);
  } else {
    the_backend = new LazyBackend(on);
  }
  torch::lazy::BackendRegistrar registrar(the_backend);  // the last one that registers is used
}

hammock::Device LazyDevice() {
  TORCH_CHECK(the_backend, "lazy tensors have no device before InitLazyBackend");
  return the_backend->OnHammock(the_backend->GetDefaultDeviceOrdinal());
}

std::string LazyReport() {
  Counts& counts = TheCounts();
  std::ostringstream text;
  text << "Hammock: " << counts.compiles << " graphs lowered, " << counts.runs << " runs\n";
  for (const auto& [op, count] : FallbackCounts()) {
    text << "  by PyTorch on the CPU: " << op << " x " << count << "\n";
  }
  for (const hammock::CompileMiss& miss : hammock::LazyGraphExecutor::Get()->GetMisses()) {
    text << miss.ToText() << "\n";
  }
  text << hammock::metrics::Report();
  return text.str();
}

std::string LastLazyGraph() {
  Counts& counts = TheCounts();
  std::lock_guard lock(counts.mutex);
  return counts.last_graph;
}

}  // namespace hammock_torch
