#include "backends/null/null_backend.h"

#include <atomic>
#include <cstring>
#include <limits>

#include "backends/common/single_device.h"
#include "base/never_destroyed.h"
#include "base/pool.h"

namespace hammock {
namespace {

using lazy::BackendDevice;
using lazy::ComputationPtr;

constexpr const char* kName = "null";
constexpr int8_t kType = 2;

/// A type without elements.
class NullData : public lazy::BackendData {
 public:
  NullData(const BackendDevice& device, const Shape& shape, bool has_value)
      : BackendData(device, shape), has_value_(has_value) {}

  void Assign(const BackendData&) override { has_value_.store(true, std::memory_order_release); }
  bool HasValue() const override { return has_value_.load(std::memory_order_acquire); }
  int64_t bytes() const override { return 0; }

 private:
  std::atomic<bool> has_value_;
};

/// One for every output of a step: its memory is that of nodes.
BackendDataPtr NewData(const BackendDevice& device, const Shape& shape, bool has_value) {
  return std::allocate_shared<NullData>(PoolAllocator<NullData>(), device, shape, has_value);
}

class Backend : public SingleDeviceBackend {
 public:
  Backend() : SingleDeviceBackend(kName, kType) {}

  void SetRngSeed(size_t) const override {}

  // ---- Data transfer

  BackendDataPtr MakeComputationDataFromTensor(const HostTensor&, const Shape& shape,
                                               const BackendDevice& device) const override {
    return NewData(device, shape, true);
  }
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const BackendDevice& device) const override {
    return NewData(device, Shape(scalar.dtype(), {}), true);
  }
  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    return NewData(device, shape, false);
  }
  HostTensor MakeTensorFromComputationData(
      const BackendDataPtr data, std::optional<DType> logical_scalar_type) const override {
    HostTensor zeros(data->shape().With(logical_scalar_type.value_or(data->shape().dtype())));
    std::memset(zeros.mutable_data(), 0, zeros.bytes());
    return zeros;
  }

  // ---- Compilation, execution

  bool SupportsConcurrentExecution() const override { return true; }

  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override {
    compiled_ += static_cast<int64_t>(instances.size());
    for (const ComputationPtr& instance : instances) instance->run_bytes = 1;  // known: no memory
    return instances;
  }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr>,
                                                 const BackendDevice& device,
                                                 const lazy::RunContext&) const override {
    executed_.fetch_add(1, std::memory_order_relaxed);
    std::vector<BackendDataPtr> results;
    results.reserve(computation->result_shapes().size());
    for (const Shape& shape : computation->result_shapes()) {
      results.push_back(NewData(device, shape, true));
    }
    return results;
  }

  lazy::Capability QueryCapability(const Graph&, NodeId, const BackendDevice&) const override {
    return {lazy::Capability::Verdict::kRun, ""};
  }

  // ---- Debugging and metrics

  std::string CreateMetricReport() const override {
    return fmt::format("null backend\n  computations_compiled {}\n  computations_run {}\n",
                       compiled_.load(), executed_.load());
  }
  std::map<std::string, double> GetMetrics() const override {
    return {{"computations_compiled", static_cast<double>(compiled_)},
            {"computations_run", static_cast<double>(executed_)}};
  }
  lazy::MemoryInfo GetMemoryInfo(const BackendDevice&) const override {
    return {.total = std::numeric_limits<int64_t>::max()};
  }
  void SetMemoryLimit(const BackendDevice&, int64_t) const override {}

 private:
  mutable std::atomic<int64_t> compiled_{0};
  mutable std::atomic<int64_t> executed_{0};
};

}  // namespace

lazy::BackendImplInterface* NullBackend() {
  static auto& backend = NeverDestroyed<Backend>();
  return &backend;
}

}  // namespace hammock
