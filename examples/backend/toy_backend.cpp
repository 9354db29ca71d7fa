// The backend of device "toy": loading this library registers it.
#include <hammock/lazy/backend_interface.h>
#include <hammock/option.h>

#include <cstring>
#include <mutex>
#include <sstream>

#include "toy_program.h"

namespace toy {
using namespace hammock;
using lazy::BackendDevice;
using lazy::Capability;
using lazy::ComputationPtr;

namespace {

constinit config::Option<bool> kWholeGelu({
    .name = "toy.whole_gelu",
    .default_value = true,
    .doc = "Run `gelu` as one kernel, not as the ops that it is made of.",
    .affects_code = true,
});

struct ToyDeviceType : lazy::BackendDeviceType {
  ToyDeviceType() : BackendDeviceType(100) {}
  std::string toString() const override { return "toy"; }
};

/// A buffer; null while the data is a placeholder.
class ToyData : public lazy::BackendData {
 public:
  ToyData(const BackendDevice& device, const Shape& shape, Buffer buffer = nullptr)
      : BackendData(device, shape), buffer_(std::move(buffer)) {}

  void Assign(const BackendData& data) override {
    SetBuffer(dynamic_cast<const ToyData&>(data).buffer());
  }
  bool HasValue() const override { return buffer() != nullptr; }

  Buffer buffer() const {
    std::lock_guard lock(mutex_);
    return buffer_;
  }
  void SetBuffer(Buffer buffer) {
    std::lock_guard lock(mutex_);
    buffer_.swap(buffer);
  }

 private:
  mutable std::mutex mutex_;
  Buffer buffer_;
};

Buffer BufferOf(const BackendDataPtr& data) {
  auto* held = dynamic_cast<ToyData*>(data.get());
  if (!held) throw ValueError(ErrorCode::kForeignTensor, "the data is not the toy's");
  if (held->HasValue()) return held->buffer();
  throw DeviceError(ErrorCode::kDevice, "the data has no value, or was donated");
}

class ToyBackend : public lazy::BackendImplInterface {
 public:
  void SetRngSeed(size_t) const override {}  // no random state of its own

  BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                               const BackendDevice& device) const override {
    HostTensor host = tensor.dtype() == shape.dtype() ? tensor : tensor.To(shape.dtype());
    Buffer buffer = memory_.Allocate(shape.bytes(), "upload");
    std::memcpy(buffer.get(), host.data(), static_cast<size_t>(shape.bytes()));
    return std::make_shared<ToyData>(device, shape, std::move(buffer));
  }
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const BackendDevice& device) const override {
    HostTensor host = HostTensor::From(scalar);
    return MakeComputationDataFromTensor(host, host.shape(), device);
  }
  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<ToyData>(device, shape);
  }
  HostTensor MakeTensorFromComputationData(
      const BackendDataPtr data, std::optional<DType> logical_scalar_type) const override {
    HostTensor host = HostTensor::Copy(data->shape(), BufferOf(data).get());
    return logical_scalar_type ? host.To(*logical_scalar_type) : host;
  }

  // ---- Capability, compilation, execution

  Capability QueryCapability(const Graph& graph, NodeId id, const BackendDevice&) const override {
    const GraphNode& node = graph[id];
    const std::string& name = node.op->info().name;
    bool whole =
        name == "gelu" && node.attr("approximate").str() == "none" && config::Get<kWholeGelu>();
    if (node.op->IsComposite() && !whole) return {Capability::Verdict::kExpand, ""};
    auto refuse = [](std::string why) { return Capability{Capability::Verdict::kRefuse, why}; };
    if (!FindKernel(*node.op)) return refuse("toy has no kernel for it");
    if (node.type().dtype() != f32) return refuse("toy computes f32 only");
    if (name == "dot_general" &&
        (node.attr("a_contract").ints().size() != 1 || !node.attr("a_batch").ints().empty())) {
      return refuse("toy contracts one dim and knows no batches");
    }
    return {Capability::Verdict::kRun, ""};
  }

  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override {
    for (const ComputationPtr& instance : instances) {
      auto program = std::make_shared<Program>(instance->graph());
      instance->artifact_bytes = program->bytes();
      instance->artifact = std::move(program);
      ++compiled_;
    }
    return instances;
  }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const lazy::RunContext& run) const override {
    std::vector<Buffer> buffers;
    for (const BackendDataPtr& argument : arguments) buffers.push_back(BufferOf(argument));
    std::vector<Buffer> outputs = ProgramOf(computation).Run(buffers, memory_);
    std::vector<BackendDataPtr> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Shape& shape = computation->result_shape(static_cast<int>(i));
      results.push_back(std::make_shared<ToyData>(device, shape, std::move(outputs[i])));
    }
    // Nothing can fail any more: donated memory may go.
    for (size_t i = 0; i < run.donated.size(); ++i) {
      if (run.donated[i]) static_cast<ToyData&>(*arguments[i]).SetBuffer(nullptr);
    }
    ++executed_;
    return results;
  }

  // ---- Devices

  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t type) override {
    if (type != type_->type) throw ValueError(ErrorCode::kUnknownDevice, "toy: one device type");
  }
  int64_t GetDefaultDeviceOrdinal() const override { return 0; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override { GetBackendDevice(ordinal); }
  std::vector<BackendDevice> GetBackendDevices() const override { return {{type_, 0}}; }

  // ---- Debugging and metrics

  std::string CreateMetricReport() const override {
    std::ostringstream report;
    report << "toy backend\n  compiled " << compiled_ << ", executed " << executed_ << "\n";
    return report.str();
  }
  std::map<std::string, double> GetMetrics() const override {
    return {{"compiled", compiled_}, {"executed", executed_}};
  }
  lazy::MemoryInfo GetMemoryInfo(const BackendDevice&) const override {
    return {memory_.in_use, 0, memory_.in_use, memory_.peak, memory_.limit};
  }
  void SetMemoryLimit(const BackendDevice&, int64_t bytes) const override { memory_.limit = bytes; }
  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    return ProgramOf(computation).text();
  }
  std::string Fingerprint(const BackendDevice&) const override { return "toy 1"; }

 private:
  static const Program& ProgramOf(const ComputationPtr& computation) {
    if (!computation->artifact) throw ValueError(ErrorCode::kValue, "toy: not compiled");
    return *static_cast<const Program*>(computation->artifact.get());
  }

  const std::shared_ptr<ToyDeviceType> type_ = std::make_shared<ToyDeviceType>();
  mutable Memory memory_;
  mutable std::atomic<int> compiled_{0}, executed_{0};
};

// Borrowed for ever: data and compiled computations may outlive main.
const lazy::BackendRegistrar registrar(new ToyBackend);

}  // namespace
}  // namespace toy
