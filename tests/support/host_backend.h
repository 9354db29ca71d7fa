#pragma once
/// A small backend for tests, on host memory: graphs are run by the interpreter, and the test
/// decides what it refuses, when results become ready and what fails. It writes down what it was
/// asked.
///
///   HostBackend backend("toy");
///   backend.refuse = [](const GraphNode& node) { return node.op->name() == "exp"s ? "no exp" : "";
///   }; Registered registered(backend);               // unregisters, by force, at the end of the
///   scope Tensor x = ones({2}, f32, "toy");

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/reference/interpreter.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::testing {

class HostBackend : public lazy::BackendImplInterface {
 public:
  /// Device type and ordinals; `asynchronous` runs on a thread of its own, behind `hold`.
  explicit HostBackend(std::string name, int devices = 1, bool asynchronous = false)
      : type_(std::make_shared<Type>(std::move(name))),
        devices_(devices),
        asynchronous_(asynchronous) {
    if (asynchronous) worker_ = std::thread([this] { Work(); });
  }
  ~HostBackend() override {
    if (!worker_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      held_ = false;
    }
    wake_.notify_all();
    worker_.join();
  }

  // ---- What the test decides. Set before the backend is used by other threads.

  /// Why a node is refused; empty: it is run.
  std::function<std::string(const GraphNode&)> refuse;
  /// What an asynchronous one says of pending arguments that are donated.
  bool keeps_donated = false;
  /// Called before a computation is compiled or run; throws where the test wants a failure.
  std::function<void(const lazy::Computation&)> before_compile, before_execute;

  /// Results of an asynchronous backend wait while it is held.
  void Hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    {
      std::lock_guard lock(mutex_);
      held_ = false;
    }
    wake_.notify_all();
  }

  // ---- What it was asked

  mutable std::atomic<int> initialized{0}, exited{0}, compiled{0}, executed{0};
  mutable std::atomic<int> uploads{0}, upload_calls{0}, scalars{0}, downloads{0};
  mutable std::atomic<size_t> seed{0};
  /// Where the step of the last execution was recorded.
  LocationId location() const { return location_; }
  /// The donation mask of each execution, in order.
  std::vector<std::vector<bool>> donations() const {
    std::lock_guard lock(mutex_);
    return donations_;
  }
  /// The graph of each compilation, as text.
  std::vector<std::string> graphs() const {
    std::lock_guard lock(mutex_);
    return graphs_;
  }

  // ---- The contract

  void InitializeBindings() const override { ++initialized; }
  void PrepareToExit() const override { ++exited; }
  void SetRngSeed(size_t value) const override { seed = value; }

  BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                               const lazy::BackendDevice& device) const override {
    ++uploads;
    return std::make_shared<Data>(device, tensor.To(shape.dtype()));
  }
  std::vector<BackendDataPtr> MakeComputationDataFromTensors(
      std::span<const HostTensor> tensors, const lazy::BackendDevice& device) const override {
    ++upload_calls;
    return BackendImplInterface::MakeComputationDataFromTensors(tensors, device);
  }
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const lazy::BackendDevice& device) const override {
    ++scalars;
    return std::make_shared<Data>(device, HostTensor::From(scalar));
  }
  BackendDataPtr CreateDataPlaceholder(const lazy::BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<Data>(device, shape);
  }
  HostTensor MakeTensorFromComputationData(const BackendDataPtr data,
                                           std::optional<DType> type) const override {
    ++downloads;
    HostTensor tensor = Of(data)->get();
    return type ? tensor.To(*type) : tensor;
  }

  std::vector<lazy::ComputationPtr> Compile(
      std::vector<lazy::ComputationPtr> instances) const override {
    for (const auto& instance : instances) {
      if (before_compile) before_compile(*instance);
      instance->artifact = std::make_shared<reference::Program>(instance->graph());
      ++compiled;
      std::lock_guard lock(mutex_);
      graphs_.push_back(ToText(instance->graph()));
    }
    return instances;
  }

  std::vector<BackendDataPtr> ExecuteComputation(lazy::ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const lazy::BackendDevice& device,
                                                 const lazy::RunContext& run) const override {
    ++executed;
    {
      std::lock_guard lock(mutex_);
      donations_.push_back(run.donated);
    }
    if (run.profile) {
      const int64_t now = lazy::RunProfile::Now();
      run.profile->AddKernel(0, "interpreted", now, now);
      run.profile->AddMemory(17);
    }
    location_.store(run.location);
    std::vector<BackendDataPtr> results;
    for (const Shape& shape : computation->result_shapes()) {
      results.push_back(std::make_shared<Data>(device, shape));
      if (asynchronous_) Of(results.back())->MakeRoom();
    }
    const auto count = static_cast<size_t>(computation->parameters_size());
    std::vector<BackendDataPtr> inputs(arguments.begin(),
                                       arguments.begin() + std::min(count, arguments.size()));
    if (!asynchronous_) {
      Run(*computation, inputs, results, run.donated);
      return results;
    }
    for (const auto& result : results) result->MakePending();
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back([this, computation, inputs, results, donated = run.donated] {
        RunLater(*computation, inputs, results, donated);
      });
    }
    wake_.notify_all();
    return results;
  }
  bool IsAsynchronous() const override { return asynchronous_; }
  /// Waits for what it was asked, unless it is held.
  void Hurry(const lazy::BackendDevice&) const override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return held_ || (waiting_.empty() && !busy_); });
  }
  bool KeepsDonatedOnFailure() const override { return keeps_donated; }

  lazy::Capability QueryCapability(const Graph& graph, NodeId node,
                                   const lazy::BackendDevice& device) const override {
    std::string reason = refuse ? refuse(graph[node]) : "";
    if (!reason.empty()) return {lazy::Capability::Verdict::kRefuse, reason};
    return BackendImplInterface::QueryCapability(graph, node, device);
  }

  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t) override {}
  int64_t GetDefaultDeviceOrdinal() const override { return default_ordinal_; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override {
    GetBackendDevice(ordinal);  // validates
    default_ordinal_ = ordinal;
  }
  std::vector<lazy::BackendDevice> GetBackendDevices() const override {
    std::vector<lazy::BackendDevice> all;
    for (int i = 0; i < devices_; ++i) all.emplace_back(type_, i);
    return all;
  }
  lazy::MemoryInfo GetMemoryInfo(const lazy::BackendDevice&) const override { return {}; }
  std::string CreateMetricReport() const override {
    return "toy report of " + type_->toString() + "\n";
  }

 private:
  struct Type : lazy::BackendDeviceType {
    explicit Type(std::string name) : BackendDeviceType(99), name(std::move(name)) {}
    std::string toString() const override { return name; }
    std::string name;
  };

  /// A cell of memory that placeholder and result share once assigned.
  class Data : public lazy::BackendData {
   public:
    struct Cell {
      std::mutex mutex;
      HostTensor tensor;
    };
    Data(const lazy::BackendDevice& device, const Shape& shape) : BackendData(device, shape) {}
    Data(const lazy::BackendDevice& device, HostTensor tensor)
        : BackendData(device, tensor.shape()), cell_(std::make_shared<Cell>()) {
      cell_->tensor = std::move(tensor);
    }
    void MakeRoom() { cell_ = std::make_shared<Cell>(); }
    void Assign(const BackendData& other) override {
      auto cell = static_cast<const Data&>(other).cell();
      std::lock_guard lock(mutex_);
      cell_ = std::move(cell);
    }
    bool HasValue() const override { return cell() != nullptr; }
    std::shared_ptr<Cell> cell() const {
      std::lock_guard lock(mutex_);
      return cell_;
    }
    HostTensor get() const {
      auto cell = this->cell();
      if (!cell) throw DeviceError(ErrorCode::kDevice, "toy: no value");
      std::lock_guard lock(cell->mutex);
      if (!cell->tensor.defined()) throw DeviceError(ErrorCode::kDevice, "toy: value is gone");
      return cell->tensor;
    }
    void set(HostTensor tensor) {
      auto cell = this->cell();
      if (!cell) {
        MakeRoom();
        cell = this->cell();
      }
      std::lock_guard lock(cell->mutex);
      cell->tensor = std::move(tensor);
    }

   private:
    mutable std::atomic<LocationId> location_{0};
    mutable std::mutex mutex_;
    std::shared_ptr<Cell> cell_;
  };
  static Data* Of(const BackendDataPtr& data) {
    if (auto* own = dynamic_cast<Data*>(data.get())) return own;
    throw ValueError(ErrorCode::kForeignTensor, "toy: data of another backend");
  }

  void Run(const lazy::Computation& computation, const std::vector<BackendDataPtr>& arguments,
           const std::vector<BackendDataPtr>& results, const std::vector<bool>& donated) const {
    if (before_execute) before_execute(computation);
    std::vector<HostTensor> inputs;
    for (const auto& argument : arguments) inputs.push_back(Of(argument)->get());
    reference::Hooks hooks;
    auto outputs =
        static_cast<const reference::Program*>(computation.artifact.get())->Run(inputs, hooks);
    for (size_t i = 0; i < results.size(); ++i) Of(results[i])->set(outputs[i]);
    for (size_t i = 0; i < donated.size(); ++i) {
      if (donated[i]) Of(arguments[i])->set({});
    }
  }

  void RunLater(const lazy::Computation& computation, const std::vector<BackendDataPtr>& arguments,
                const std::vector<BackendDataPtr>& results,
                const std::vector<bool>& donated) const {
    std::shared_ptr<const Error> error;
    for (const auto& argument : arguments) {
      if (auto inherited = argument->error()) error = inherited;
    }
    try {
      if (!error) Run(computation, arguments, results, donated);
    } catch (const Error& raised) {
      error = raised.Clone();
    }
    for (const auto& result : results) {
      if (result->IsReady()) continue;  // failed by the test
      error ? result->SetError(error) : result->SetReady();
    }
  }

  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || (!held_ && !waiting_.empty()); });
      if (waiting_.empty()) return;
      auto task = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      busy_ = false;
      idle_.notify_all();
    }
  }

  const std::shared_ptr<Type> type_;
  const int devices_;
  const bool asynchronous_;
  std::atomic<int64_t> default_ordinal_{0};
  mutable std::atomic<LocationId> location_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_, idle_;
  mutable std::deque<std::function<void()>> waiting_;
  bool held_ = false, busy_ = false;
  bool stopping_ = false;
  mutable std::vector<std::vector<bool>> donations_;
  mutable std::vector<std::string> graphs_;
  std::thread worker_;
};

/// Lives until the process ends, as long as its devices are known.
inline HostBackend& MakeBackend(const std::string& name, int devices = 1,
                                bool asynchronous = false) {
  static auto& all = *new std::vector<HostBackend*>;  // reachable: nothing leaks
  all.push_back(new HostBackend(name, devices, asynchronous));
  return *all.back();
}

/// Registered in this scope.
class Registered {
 public:
  explicit Registered(HostBackend& backend) : name_(backend.GetDefaultDeviceType()->toString()) {
    lazy::RegisterBackend(&backend);
  }
  ~Registered() { lazy::UnregisterBackend(name_, true); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  std::string name_;
};

}  // namespace hammock::testing
