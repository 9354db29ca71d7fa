#pragma once
/// Calls: commands of a program that are not kernels of the loop IR. They are matmuls,
/// convolutions, copies, indexing, sorting, scans, random words, loops.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/driver/machine.h"
#include "hammock/error.h"
#include "hammock/ir/graph.h"

namespace hammock::cuda {

class Program;

/// A node, prepared. Immutable once it has its functions; several threads may run it.
class Call {
 public:
  virtual ~Call() = default;
  /// The kernels that it launches; SetFunctions gets them, compiled, in the same order.
  virtual std::vector<KernelSource> Sources() const { return {}; }
  void SetFunctions(std::vector<std::shared_ptr<Function>> functions) {
    functions_ = std::move(functions);
  }
  /// The programs that it runs: bodies of loops.
  virtual std::vector<const Program*> programs() const { return {}; }
  /// Memory that Run needs besides operands and results.
  virtual int64_t scratch_bytes() const { return 0; }
  /// The number of words, from Operands::fault on, in which the call notes errors; they are 0
  /// before. Calls with a single word describe its value by FaultMessage and FaultCode, others
  /// override FindFault.
  virtual int fault_count() const { return 0; }
  virtual std::string FaultMessage(uint64_t) const { return ""; }
  virtual ErrorCode FaultCode() const { return ErrorCode::kIndexOutOfRange; }
  struct Fault {
    ErrorCode code;
    std::string message, where;
  };
  /// The error that the words stand for; nothing if they are 0.
  virtual std::optional<Fault> FindFault(const uint64_t* words) const {
    if (words[0] == 0) return std::nullopt;
    return Fault{FaultCode(), FaultMessage(words[0]), ""};
  }

  /// The error of a slice that begins there; nothing if it can, or if the call is no slice.
  virtual std::optional<Fault> CheckStart(int64_t) const { return std::nullopt; }

  struct Operands {
    std::span<const Address> in;  ///< row-major; 0 for absent ones
    std::span<const Address> out;
    Address scratch = 0;
    Address fault = 0;
    Address failed = 0;  ///< of a run that holds writes back, Note [Guarded kernels]; 0: none
  };
  /// Whether Run writes nothing into its first operand if the word `failed` is set.
  virtual bool can_hold_back() const { return false; }
  virtual void Run(Machine& machine, const Operands& operands) const = 0;

 protected:
  const Function& function(size_t i) const { return *functions_[i]; }

 private:
  std::vector<std::shared_ptr<Function>> functions_;
};

class SharedParts;

/// The machine and program that a call is made for.
struct CallContext {
  Machine& machine;
  SharedParts* shared = nullptr;  ///< of programs at other sizes, or null
};
/// Null if this backend cannot run the node.
std::unique_ptr<Call> MakeCall(const Graph& graph, NodeId node, const CallContext& context);

/// Whether a call runs this composite without its expansion.
bool RunsWhole(const Graph& graph, const GraphNode& node);

/// Why a node of a lowered graph cannot be run; empty if it can. Without a machine, by one that has
/// all libraries.
std::string WhyNot(const Graph& graph, NodeId node, const Machine* machine = nullptr);

}  // namespace hammock::cuda
