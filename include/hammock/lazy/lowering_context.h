#pragma once
/// Computation: what a backend compiles and runs. LoweringContext: how traced nodes become one.
///
/// The canonical form of a lowered program is a serialisable Graph. A LoweringContext is an adaptor
/// over it: nodes that are lowered are appended to its Graph, and Build wraps that Graph in a
/// Computation. Most backends use both classes as they are and keep their own state in
/// `Computation::artifact`.

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/graph.h"
#include "hammock/ir/node.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/lazy/backend_device.h"

namespace hammock::lazy {

/// How a dim parameter follows from others, such as the rows of a batch of sequences taken
/// together, or the height of an image behind a convolution of stride 2: (coefficient * those of
/// the graph's parameters + offset) / divisor, rounded down. Without factors it is free.
struct DerivedSize {
  int64_t coefficient = 1;
  std::vector<int> factors;
  int64_t offset = 0;
  int64_t divisor = 1;
};

class HAMMOCK_API Computation {
 public:
  Computation(std::string name, Graph graph, BackendDevice device);
  /// `general`, whose graph has dim parameters, at these values of them: all but the shapes is
  /// shared or copied. Its artifact, and the bytes of that and of a run, are left to the backend.
  Computation(const Computation& general, std::span<const int64_t> sizes);
  virtual ~Computation();

  const std::string& name() const { return name_; }
  /// That of an instance has the sizes of the general computation; `sizes` are its own.
  const Graph& graph() const { return *graph_; }
  /// The values of the graph's dim parameters that the shapes have.
  const std::vector<int64_t>& sizes() const { return sizes_; }
  const BackendDevice& device() const { return device_; }

  int parameters_size() const { return static_cast<int>(graph_->inputs().size()); }
  const std::vector<Shape>& parameter_shapes() const { return parameter_shapes_; }
  const std::vector<std::string>& parameter_names() const {
    return *parameter_names_;
  }  ///< p0, p1, ...
  const std::vector<Shape>& result_shapes() const { return result_shapes_; }
  const Shape& result_shape(int index = 0) const { return result_shapes_.at(index); }
  int results_size() const { return static_cast<int>(result_shapes_.size()); }
  virtual std::string to_string() const;
  /// For a computation that was loaded, before it is used: the nodes of its graph get the locations
  /// of the traced nodes that they came from.
  void SetLocations(const Graph& traced);

  /// By dim parameter of the graph, as far as the sizes seen so far show it.
  std::vector<DerivedSize> derived_sizes;
  /// (result, parameter) pairs that may share memory, from LoweringContext::SetUpAlias.
  std::vector<std::pair<int, int>> aliases;
  /// Where it is compiled for, from GetCompilationDevices.
  std::vector<std::string> devices;
  /// Built by mark_step rather than by a read, a capture, a dump or a tool.
  bool in_mark_step = false;
  /// Bytes that a cached entry of this computation holds besides its graph.
  virtual int64_t bytes() const { return artifact_bytes; }

  /// The backend's compiled form of this computation.
  std::shared_ptr<void> artifact;
  int64_t artifact_bytes = 0;
  /// The most memory that a run takes on its device besides its arguments; 0: not known. Where a
  /// device has a memory limit, computations run at the same time as far as these bytes fit, and
  /// those for which they are not known run alone.
  int64_t run_bytes = 0;

 private:
  /// A dim of a parameter, or of a result, that depends on dim parameters.
  struct VaryingDim {
    bool of_result;
    size_t index;
    int dim;
    DimExpr size;
  };

  std::string name_;
  std::shared_ptr<const Graph> graph_;
  BackendDevice device_;
  std::vector<int64_t> sizes_;
  std::vector<Shape> parameter_shapes_;
  std::shared_ptr<const std::vector<std::string>> parameter_names_;
  std::vector<Shape> result_shapes_;
  std::shared_ptr<const std::vector<VaryingDim>> varying_;
};
using ComputationPtr = std::shared_ptr<Computation>;

namespace Util {
enum EmitStatus { kNotEmitted, kEmitting, kEmitted };
using EmissionMap = std::unordered_map<const Node*, EmitStatus>;
/// Iterative post-order of what `node` (or `nodes`) depends on; `emap` may be used again, so that a
/// later call emits only what is new. Throws ValueError "Graph loop found at ..." on a cycle.
HAMMOCK_API std::vector<const Node*> ComputePostOrder(const Node* node, EmissionMap* emap);
HAMMOCK_API std::vector<const Node*> ComputePostOrder(std::span<const Node* const> nodes,
                                                      EmissionMap* emap);
HAMMOCK_API std::vector<const Node*> ComputePostOrder(std::span<const Node* const> nodes);
HAMMOCK_API size_t GetGraphSize(std::span<const Node* const> nodes);
}  // namespace Util

class HAMMOCK_API LoweringContext {
 public:
  LoweringContext(std::string name, BackendDevice device);
  /// Lowers every node of `post_order`. The executor itself hands over finished graphs by SetGraph;
  /// this, AddResult, AddParameter and CheckResultShape are for programs that lower nodes.
  LoweringContext(std::string name, BackendDevice device, std::span<const Node* const> post_order,
                  Util::EmissionMap emit_status);
  virtual ~LoweringContext();

  const BackendDevice& device() const { return device_; }
  const std::string& name() const { return name_; }

  /// Lowers what `output` needs and makes it a result; returns its index.
  virtual size_t AddResult(const Output& output);
  /// Declares a parameter before lowering, for op-by-op use: `output` reads parameter `index`.
  virtual void AddParameter(const Output& output, size_t index, const Shape& shape,
                            const std::string& name);
  /// Notes that a result may overwrite a parameter.
  virtual void SetUpAlias(int output_index, int param_index, bool must_alias = false);
  /// Whether `parameter` has the shape of result `result_index`, so that it may receive it.
  virtual bool CheckResultShape(const BackendDataPtr& parameter, size_t result_index);
  /// Replaces what was lowered so far by a finished graph (the executor's way in).
  virtual void SetGraph(Graph graph) { graph_ = std::move(graph); }
  virtual ComputationPtr Build();

  size_t GetEmittedNodeCount() const { return emitted_; }
  /// One per parameter, in order; null for those declared by AddParameter.
  const std::vector<BackendDataPtr>& GetParametersData() const { return parameters_; }
  Graph& graph() { return graph_; }

 protected:
  void Lower(const Node* node);
  GraphValue Emitted(const Output& output);

 private:
  std::string name_;
  BackendDevice device_;
  Graph graph_;
  std::vector<BackendDataPtr> parameters_;
  std::unordered_map<const Node*, std::vector<GraphValue>> values_;
  Util::EmissionMap emit_status_;
  std::vector<std::pair<int, int>> aliases_;
  size_t emitted_ = 0;
};

}  // namespace hammock::lazy
