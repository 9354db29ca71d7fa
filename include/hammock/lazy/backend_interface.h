#pragma once
/// BackendImplInterface: what a backend implements. An out-of-tree backend includes this header
/// alone; docs/backend-guide.md walks through a complete one.
///
/// Threads: any method may be called from any thread, several at once, and may use tensors itself:
/// the runtime holds no lock meanwhile. Uploads and reads may overlap execution. A backend that
/// says it is synchronous has ExecuteComputation called by one thread at a time per device, unless
/// it supports concurrent execution; an asynchronous one is called on the thread that syncs and
/// returns before results are ready.
///
/// Errors are exceptions derived from hammock::Error; anything else that a method throws is
/// wrapped, with the device and the method, and an error without a line gets one. Null, missing and
/// wrongly shaped results are errors. An error thrown by ExecuteComputation that knows the failing
/// op says so with ExecutionError.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/error.h"
#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/lazy/backend_device.h"
#include "hammock/lazy/ir_builder.h"
#include "hammock/lazy/lowering_context.h"
#include "hammock/lazy/run_context.h"
#include "hammock/scalar.h"

namespace hammock::lazy {

/// Grows when the layout of the classes in include/hammock/lazy changes.
inline constexpr int kBackendAbiVersion = 9;

/// A backend's answer about one node of a graph.
struct Capability {
  enum class Verdict {
    kRun,     ///< runs it as it is (for a composite: whole)
    kExpand,  ///< a composite that should be expanded
    kRefuse,  ///< cannot; the node goes to the fallback device
  };
  Verdict verdict = Verdict::kRun;
  std::string reason;  ///< for kRefuse: shown to users
};

enum class Compatibility { kOptimal, kRecompile, kUnsupported };

/// An execution error that names the node of the computation's graph that failed.
class HAMMOCK_API ExecutionError : public DeviceError {
 public:
  ExecutionError(ErrorCode code, std::string message, NodeId node)
      : DeviceError(code, std::move(message)), node_(node) {}
  NodeId node() const { return node_; }
  std::shared_ptr<Error> Clone() const override { return std::make_shared<ExecutionError>(*this); }
  [[noreturn]] void Raise() const override { throw *this; }

 private:
  NodeId node_;
};

/// One part of a compiled computation that runs by itself, for people who look at it.
struct KernelInfo {
  std::string name;           ///< "mul_add_relu"
  std::string kind;           ///< "kernel", or who runs it: "onednn matmul"
  std::vector<NodeId> nodes;  ///< of ComputationInfo::graph
  std::string text;
  int64_t bytes = 0;  ///< that it reads and writes
  int64_t flops = 0;  ///< arithmetic on elements, as by OpDef::flops; 0: not known
};

struct ComputationInfo {
  Graph graph;                      ///< as it is run
  std::vector<KernelInfo> kernels;  ///< in the order in which they run
  int64_t peak_bytes = 0;           ///< planned for a run besides its inputs; 0: not known
};

/// One thing that a device has, or lacks.
struct DeviceFact {
  std::string name;  ///< "compiler"
  std::string text;  ///< what there is, or why it is missing
  bool missing = false;
};

class HAMMOCK_API BackendImplInterface {
 public:
  virtual ~BackendImplInterface();

  // ---- Initialisation and teardown

  /// Called once when the backend is registered.
  virtual void InitializeBindings() const {}
  /// Called at exit and when the backend is unregistered, after its queues have drained; not called
  /// where a computation still runs 2 s after the exit began. What it throws is logged.
  virtual void PrepareToExit() const {}

  // ---- Configuration

  /// Called by manual_seed, for backends with random state of their own (custom calls).
  virtual void SetRngSeed(size_t seed) const = 0;

  // ---- Tracing

  virtual const IrBuilder* GetIrBuilder() const;

  // ---- Data transfer

  virtual BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                                       const BackendDevice& device) const = 0;
  /// Several at once, so that a backend can batch; by default one by one.
  virtual std::vector<BackendDataPtr> MakeComputationDataFromTensors(
      std::span<const HostTensor> tensors, const BackendDevice& device) const;
  virtual BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                                       const BackendDevice& device) const = 0;
  virtual BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                               const Shape& shape) const = 0;
  /// The data of a device-data node, else null.
  virtual BackendDataPtr GetComputationDataFromNode(const Node* node) const;
  /// A host copy in row-major order, cast to `logical_scalar_type` where given.
  virtual HostTensor MakeTensorFromComputationData(
      const BackendDataPtr data, std::optional<DType> logical_scalar_type) const = 0;
  virtual std::vector<HostTensor> MakeTensorsFromComputationData(
      std::span<const BackendDataPtr> data) const;
  /// A copy of ready data on another device of this backend, perhaps still under way. Null, the
  /// default: there is no direct way, and the copy goes through the host.
  virtual BackendDataPtr CopyToDevice(const BackendDataPtr&, const BackendDevice&) const {
    return nullptr;
  }

  // ---- Lowering, compilation, execution

  virtual std::unique_ptr<LoweringContext> CreateLoweringContext(
      const std::string& name, BackendDevice device, std::span<const Node* const> post_order,
      Util::EmissionMap emit_status) const;
  virtual std::unique_ptr<LoweringContext> CreateLoweringContext(const std::string& name,
                                                                 BackendDevice device) const;
  /// The devices that a computation for `device` is compiled for; all of `devices` or a part.
  virtual std::vector<std::string> GetCompilationDevices(
      const std::string& device, std::span<const std::string> devices) const;
  /// Index-aligned. On CompileError nothing is cached.
  virtual std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const = 0;
  /// One data per result. Arguments that `run` donates may be overwritten.
  virtual std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                         std::span<const BackendDataPtr> arguments,
                                                         const BackendDevice& device,
                                                         const RunContext& run) const = 0;
  /// Whether Compile takes graphs with dim parameters (Graph::dim_params), so that one compilation
  /// serves all sizes. By default every size is compiled by itself.
  virtual bool SupportsDimParams(const BackendDevice&) const { return false; }
  /// `general`, which was compiled with dim parameters, at these values of them. Called for each
  /// new sizes, on the way to their first step: it should cost microseconds, and must give the bits
  /// that a compilation of the graph at these sizes alone would give. Where it raises CompileError
  /// or NotSupported, the graph is compiled at these sizes. By default a computation that shares
  /// graph and artifact, whose code then reads `Computation::sizes`.
  virtual ComputationPtr Instantiate(const ComputationPtr& general,
                                     std::span<const int64_t> sizes) const;
  /// Whether ExecuteComputation returns before its results are ready.
  virtual bool IsAsynchronous() const { return false; }
  /// Of an asynchronous backend: whether a donated argument keeps its value where the run turns out
  /// to have failed, or a run whose pending result is an argument of it. Then pending arguments are
  /// donated too, and a result in donated memory shares it with the argument until it is ready; and
  /// arguments may follow behind the parameters, which are not read: donated arguments keep their
  /// values also where the runs of these have failed. By default an asynchronous backend is donated
  /// only what is ready.
  virtual bool KeepsDonatedOnFailure() const { return false; }
  /// Whether a synchronous backend runs several computations of a device at once. Then the steps of
  /// different threads wait only for their arguments. By default one runs after another.
  virtual bool SupportsConcurrentExecution() const { return false; }
  /// Returns when the device has done all that was asked of it. Raises, once, what failed there and
  /// belongs to no value that waits for it. For devices whose data counts as ready when its memory
  /// is known and the rest is order.
  virtual void WaitForDevice(const BackendDevice&) const {}
  /// As BackendData::Hurry, for all results of the device that are pending.
  virtual void Hurry(const BackendDevice&) const {}
  /// Whether graphs are folded, simplified and rid of equal and dead nodes before this backend is
  /// asked for their nodes and gets them. No bit of a result changes.
  virtual bool WantsOptimisedGraphs(const BackendDevice&) const { return false; }
  /// The treatment of a node of `graph`, whose operand types it can look up there. By default:
  /// primitives run, composites are expanded.
  virtual Capability QueryCapability(const Graph& graph, NodeId node,
                                     const BackendDevice& device) const;

  // ---- Saved computations

  /// Identifies everything that a saved computation depends on besides its graph.
  virtual std::string Fingerprint(const BackendDevice& device) const;
  virtual std::string SerializeComputation(const ComputationPtr& computation) const;
  virtual Compatibility CheckCompatibility(std::string_view bytes,
                                           const BackendDevice& device) const;
  virtual ComputationPtr DeserializeComputation(std::string_view bytes,
                                                const BackendDevice& device) const;

  // ---- Devices

  virtual std::shared_ptr<BackendDeviceType> GetDefaultDeviceType() const = 0;
  virtual void SetDefaultDeviceType(int8_t type) = 0;
  virtual int64_t GetDefaultDeviceOrdinal() const = 0;
  virtual void SetDefaultDeviceOrdinal(int64_t ordinal) = 0;
  /// Device type name of the eager fallback; the config `fallback_device`, where set, overrides it.
  virtual std::string EagerFallbackDeviceType() const { return "reference"; }
  /// The distinct devices that exist.
  virtual std::vector<BackendDevice> GetBackendDevices() const = 0;
  /// Validates the ordinal; -1 means the default one.
  virtual BackendDevice GetBackendDevice(int64_t ordinal) const;

  // ---- Debugging and metrics

  virtual std::string CreateMetricReport() const { return ""; }
  virtual std::map<std::string, double> GetMetrics() const { return {}; }
  virtual MemoryInfo GetMemoryInfo(const BackendDevice& device) const = 0;
  /// 0 lifts the limit.
  virtual void SetMemoryLimit(const BackendDevice& device, int64_t bytes) const;
  /// Memory is short: gives cached memory back. Derived data was dropped before.
  virtual void FreeCachedMemory(const BackendDevice&) const {}
  virtual std::string GetComputationBackendText(const ComputationPtr computation) const;
  /// By default the graph alone.
  virtual ComputationInfo DescribeComputation(const ComputationPtr& computation) const;
  virtual std::vector<DeviceFact> DescribeDevice(const BackendDevice&) const { return {}; }
};

/// Registers a backend under its default device type's name ("cpu", in lower case; letters, digits,
/// '_', '-' and '.'), whole or not at all. The object is borrowed and must live until exit; a
/// header of another ABI version is refused.
class HAMMOCK_API BackendRegistrar {
 public:
  explicit BackendRegistrar(BackendImplInterface* backend, int abi_version = kBackendAbiVersion);
};

HAMMOCK_API void RegisterBackend(BackendImplInterface* backend,
                                 int abi_version = kBackendAbiVersion);
/// Drains the backend's queues and drops its cached computations. While its data is live this is
/// refused with a list, unless `force`, which first copies that data to the host.
HAMMOCK_API void UnregisterBackend(const std::string& name, bool force = false);

HAMMOCK_API bool hasBackend();
/// The backend of the default device. Throws "Lazy tensor backend not registered."
HAMMOCK_API BackendImplInterface* getBackend();
HAMMOCK_API BackendImplInterface* getBackend(const std::string& name);
HAMMOCK_API const IrBuilder* getIrBuilder();
HAMMOCK_API std::vector<std::string> BackendNames();

/// A backend that this library knows and that is not registered, and why.
struct AbsentBackend {
  std::string name;
  std::string reason;
};
HAMMOCK_API std::vector<AbsentBackend> AbsentBackends();

}  // namespace hammock::lazy
