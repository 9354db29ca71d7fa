#pragma once
/// Calls: commands of a program that are not kernels of the loop IR. They are matmuls by oneDNN or
/// our own loops, copies, indexing, sorting, control flow, and ops that only the interpreter of the
/// reference backend has.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hammock/ir/graph.h"

namespace hammock::cpu {

class Program;

/// A node, prepared. Immutable; several threads may run it, each with its own scratch memory.
class Call {
 public:
  virtual ~Call() = default;
  /// Memory that Run needs besides operands and results.
  virtual int64_t scratch_bytes() const { return 0; }
  /// Row-major operands (null for absent ones) and results.
  virtual void Run(std::span<const char* const> in, std::span<char* const> out,
                   char* scratch) const = 0;
  /// Raises what Run would, from the operands alone that StartInput names.
  virtual void Check(std::span<const char* const>) const {}
  virtual const char* kernel() const = 0;  ///< the implementation, for people

  /// An operand that is faster to compute with when it is packed, for weights that many runs read.
  /// The packed weight is an operand of Run behind those of the node, null if it was not made. It
  /// changes no bit.
  struct PackedWeightSpec {
    int operand = -1;  ///< -1: there is none
    int64_t bytes = 0;
    std::string key;  ///< equal keys: equally packed
  };
  virtual PackedWeightSpec packed_weight() const { return {}; }
  /// `packed` is aligned to 64 bytes.
  virtual void PackWeight(const char* /*operand*/, char* /*packed*/) const {}

  /// The programs that it runs: bodies of loops, branches.
  virtual std::vector<const Program*> programs() const { return {}; }
};

/// Whether a matmul of 16-bit floats with f32 results is faster than one of f32 casts.
bool GainsByNarrowOperands(const Graph& graph, const GraphNode& matmul);

/// Borrows the graph. The other files of this folder and control_calls.cpp list calls by family.
std::unique_ptr<Call> MakeCall(const Graph& graph, NodeId node);
/// Whether a call runs this composite without its expansion.
bool RunsWhole(const Graph& graph, NodeId node);
/// By the kernel of the reference backend: slow, but there for every op.
std::unique_ptr<Call> MakeReferenceCall(const Graph& graph, NodeId node);

}  // namespace hammock::cpu
