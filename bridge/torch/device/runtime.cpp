// Device "hammock" as PyTorch's runtime sees it: guard, hooks, generators, registration, and what
// Python reaches as torch.ops.hammock.device_*.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <hammock/executor.h>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "device/device_tensor.h"
#include "device/native_kernels.h"
#include "device/record_foreach.h"
#include "device/record_op.h"
#include "engine/values.h"

namespace hammock_torch {

namespace {

c10::Device TorchDevice(c10::DeviceIndex index) { return {c10::kPrivateUse1, index}; }

// ---- Generators

/// Numbers come from PyTorch's CPU generator (Note [Random numbers]); one of the device keeps a
/// state of it, and the default one is the CPU's own.
class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  DeviceGenerator(at::Generator host, c10::DeviceIndex index)
      : GeneratorImpl(TorchDevice(index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { host_.set_offset(offset); }
  uint64_t get_offset() const override { return host_.get_offset(); }
  uint64_t current_seed() const override { return host_.current_seed(); }
  uint64_t seed() override { return host_.unsafeGetGeneratorImpl()->seed(); }
  void set_state(const c10::TensorImpl& state) override {
    host_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  DeviceGenerator* clone_impl() const override {
    return new DeviceGenerator(host_.clone(), device().index());
  }
  at::Generator host_;
};

// ---- Guard and hooks

struct DeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return TorchDevice(CurrentIndex()); }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < DeviceCount(), "hammock: there is no device ", device, ", only ",
                +DeviceCount());
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) SetCurrentIndex(device.index());
  }
  c10::Stream getStream(c10::Device device) const override {
    c10::DeviceIndex index = device.index() < 0 ? CurrentIndex() : device.index();
    return c10::Stream(c10::Stream::DEFAULT, TorchDevice(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return DeviceCount(); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream& stream) const override {
    synchronizeDevice(stream.device_index());
  }
  // An event is over when all that was recorded before it has run: waiting for it runs that.
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    *event = const_cast<DeviceGuard*>(this);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { synchronizeDevice(CurrentIndex()); }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    const hammock::Device& device = DeviceAt(index);
    auto* executor = hammock::LazyGraphExecutor::Get();
    executor->SyncAllThreads(&device, true);
    executor->WaitDeviceOps(std::span(&device, 1));
  }
};

struct DeviceHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return DeviceCount() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return DeviceCount(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { SetCurrentIndex(index); }
  c10::DeviceIndex getCurrentDevice() const override { return CurrentIndex(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    c10::DeviceIndex before = CurrentIndex();
    SetCurrentIndex(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? CurrentIndex() : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const auto& generator = *new at::Generator(at::make_generator<DeviceGenerator>(
        at::globalContext().defaultGenerator(at::kCPU), c10::DeviceIndex{0}));
    return generator;
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<DeviceGenerator>(at::make_generator<at::CPUGeneratorImpl>(),
                                               index < 0 ? CurrentIndex() : index);
  }
  at::Device getDeviceFromPtr(void*) const override { return TorchDevice(CurrentIndex()); }
  bool isPinnedPtr(const void*) const override { return false; }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::kCPU); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    ResizeStorage(storage, bytes);
  }
};

// ---- Registration

/// Ops that the table lacks: the same kernel, which then finds nothing and runs PyTorch's.
void Unknown(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  static std::mutex mutex;
  static auto& kernels = *new std::unordered_map<c10::OperatorName, std::unique_ptr<RecordOp>>;
  const RecordOp* kernel = nullptr;
  {
    std::lock_guard lock(mutex);
    auto& entry = kernels[op.operator_name()];
    if (!entry) entry = std::make_unique<RecordOp>(op);
    kernel = entry.get();
  }
  (*kernel)(op, keys, stack);
}

/// Every operator that Hammock knows and PyTorch does not compose of others before autograd.
void RegisterTable(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::") || !IsFromTable(name.name)) continue;
    auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) continue;
    std::string full = c10::toString(name);
    if (auto foreach = RecordForeach::Of(*op)) {
      library.impl(full.c_str(),
                   torch::CppFunction::makeFromBoxedFunctor<RecordForeach>(std::move(foreach)));
      continue;
    }
    if (!DeviceAdaptor(full) && !AtenOp::Of(op->schema()).known()) continue;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor<RecordOp>(
                                   std::make_unique<RecordOp>(*op)));
  }
}

void InitDevice() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::SetAllocator(c10::kPrivateUse1, DeviceAllocator());
    c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::kPrivateUse1)].store(
        new DeviceGuard);
    at::RegisterPrivateUse1HooksInterface(new DeviceHooks);
    auto* table = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                     __FILE__, __LINE__);
    RegisterNativeKernels(*table);
    RegisterFusedKernels(*table);
    RegisterTable(*table);
    auto* autocast = new torch::Library(torch::Library::IMPL, "aten",
                                        c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
    RegisterAutocast(*autocast);
    auto* not_cast = new torch::Library(torch::Library::IMPL, "_",
                                        c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
    not_cast->fallback(torch::CppFunction::makeFallthrough());
    auto* others = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1,
                                      __FILE__, __LINE__);
    others->fallback(torch::CppFunction::makeFromBoxedFunction<&Unknown>());
  });
}

void MarkStep(bool wait) {
  hammock::LocationScope line(Caller());
  hammock::LazyGraphExecutor::Get()->MarkStep(nullptr, wait);
}

std::string NameOfDevice(int64_t index) {
  return DeviceAt(static_cast<c10::DeviceIndex>(index)).to_string();
}

/// Computes what a tensor stands for.
void Compute(const at::Tensor& tensor) {
  hammock::LocationScope line(Caller());
  const hammock::Tensor& value = DeviceTensor::Of(tensor)->value();
  hammock::LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&value, 1));
}

bool IsPending(const at::Tensor& tensor) { return DeviceTensor::Of(tensor)->value().is_pending(); }
std::string Summary(const at::Tensor& tensor) {
  return DeviceTensor::Of(tensor)->value().summary();
}

std::vector<int64_t> MemoryInfo(int64_t index) {
  auto info = hammock::GetMemoryInfo(DeviceAt(static_cast<c10::DeviceIndex>(index)));
  return {info.in_use, info.peak, info.total};
}

}  // namespace

}  // namespace hammock_torch

TORCH_LIBRARY_FRAGMENT(hammock, m) {
  using namespace hammock_torch;
  m.def("device_init() -> ()", InitDevice);
  m.def("device_count() -> int", [] { return int64_t{DeviceCount()}; });
  m.def("device_name(int index) -> str", NameOfDevice);
  m.def("device_mark_step(bool wait) -> ()", MarkStep);
  m.def("device_check_meta(bool check) -> ()", SetChecksMeta);
  m.def("device_recorded_ops() -> int", RecordedOps);
  m.def("device_memory(int index) -> int[]", MemoryInfo);
  m.def("device_compute(Tensor tensor) -> ()", Compute);
  m.def("device_is_pending(Tensor tensor) -> bool", IsPending);
  m.def("device_summary(Tensor tensor) -> str", Summary);
}
