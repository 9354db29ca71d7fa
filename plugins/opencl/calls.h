#pragma once
/// Calls: nodes that no kernel of the loop IR holds, by kernels of this plug-in. A call writes its
/// commands through a CallBuilder.

#include <hammock/compiler/scalar_text.h>
#include <hammock/compiler/schedule.h>
#include <hammock/error.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "queued_command.h"

namespace opencl {

/// The error of a call whose fault was noted; `number` is what made it wrong, such as an index.
struct FaultText {
  hammock::ErrorCode code = hammock::ErrorCode::kIndexOutOfRange;
  std::function<std::string(int64_t number)> message;
};

class CallBuilder {
 public:
  CallBuilder(const hammock::Graph& graph, const hammock::compiler::Schedule& schedule,
              hammock::NodeId node, hammock::compiler::ScalarText& scalars);

  const hammock::GraphNode& node() const { return node_; }
  const std::string& op() const { return node_.op->info().name; }
  const hammock::Shape& in(int i) const { return graph_.TypeOf(node_.inputs[i]); }
  const hammock::Shape& out(int i = 0) const { return node_.types[i]; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  hammock::compiler::ScalarText& scalars() { return scalars_; }

  // ---- Memory
  Argument In(int i) const;
  Argument Out(int i = 0) const;
  Argument Scratch(int64_t bytes);
  /// The call may fail: the place for `note_fault`.
  Argument Fault(FaultText text);

  // ---- Commands
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  struct Sizes {
    std::array<size_t, 3> global, local;
  };
  void Run(const Parameters& parameters, const std::string& body, std::vector<Argument> arguments,
           std::vector<int64_t> numbers, const Sizes& sizes);
  /// With a work-item for each i < count; `body` may use `i`.
  void RunEach(int64_t count, const Parameters& parameters, const std::string& body,
               std::vector<Argument> arguments, std::vector<int64_t> numbers = {});
  void RunOnHost(const Argument& from, const Argument& to, HostCommand host);
  /// The number behind a fault at an element of `from`.
  void FindFault(const Argument& fault, const Argument& from, hammock::DType dtype);

  /// A box of elements, which lie so in the memory of both sides.
  struct Layout {
    int64_t offset = 0;
    hammock::Dims strides;
  };
  void Copy(const hammock::Dims& sizes, int64_t element_bytes, const Argument& from,
            const Layout& from_layout, const Argument& to, const Layout& to_layout);
  /// All bytes, unless they are there already.
  void CopyWhole(const Argument& from, const Argument& to, int64_t bytes);

  std::vector<QueuedCommand> queued;
  std::vector<KernelSource> sources;
  int64_t scratch_bytes = 0;
  std::optional<FaultText> fault;

 private:
  const hammock::Graph& graph_;
  const hammock::compiler::Schedule& schedule_;
  const hammock::NodeId id_;
  const hammock::GraphNode& node_;
  hammock::compiler::ScalarText& scalars_;
};

struct CallEntry {
  const char* op;
  void (*make)(CallBuilder& call);
  /// Why a node cannot be run; empty if it can. Null: it always can.
  std::string (*why_not)(const hammock::Graph& graph, const hammock::GraphNode& node) = nullptr;
};
/// Null for ops that are left to the fallback device.
const CallEntry* FindCall(const std::string& op);

std::vector<CallEntry> CollectiveCalls();
std::vector<CallEntry> CopyCalls();
std::vector<CallEntry> FactorCalls();
std::vector<CallEntry> FftCalls();
std::vector<CallEntry> IndexCalls();
std::vector<CallEntry> LineCalls();
std::vector<CallEntry> MatMulCalls();

// ---- Helpers of calls

int64_t BytesOf(hammock::DType dtype);
/// A type of that many bytes, for elements that are only moved.
std::string MovedType(int64_t bytes);
std::string MemoryType(hammock::DType dtype);
std::string ValueType(hammock::DType dtype);
/// Running values: f64, i64 or u64.
hammock::DType WideOf(hammock::DType dtype);
/// A tensor along one of its dims; of rank 0 it is a vector of one.
struct Axis {
  Axis(const hammock::Dims& sizes, int64_t dim);
  int64_t outer = 1, extent = 1, inner = 1;
};

}  // namespace opencl
