#pragma once
/// The toy backend's compiled form of a graph: a flat list of instructions over numbered registers.

#include <hammock/ir/graph.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace toy {

/// Device memory. Freed and uncounted when the last owner lets go.
using Buffer = std::shared_ptr<void>;

/// Counts the bytes that live buffers hold. Thread-safe; outlives every buffer.
class Memory {
 public:
  /// OutOfMemory past the limit, with the op and the user's line.
  Buffer Allocate(int64_t bytes, const std::string& what, hammock::LocationId location = 0);
  std::atomic<int64_t> in_use{0}, peak{0}, limit{0};
};

/// One run of one instruction. Data is f32 and row-major.
struct Call {
  const hammock::GraphNode& node;
  std::span<const hammock::Shape> types;  ///< of the operands
  std::vector<const float*> in;
  float* out;
};
using Kernel = void (*)(const Call&);

/// Null where the toy has none.
Kernel FindKernel(const hammock::OpDef& op);

/// Immutable once made: several threads may run it.
class Program {
 public:
  explicit Program(const hammock::Graph& graph);
  std::vector<Buffer> Run(std::span<const Buffer> arguments, Memory& memory) const;
  std::string text() const;
  int64_t bytes() const { return static_cast<int64_t>(code_.size() * sizeof(Instruction)); }

 private:
  struct Instruction {
    Kernel kernel;
    hammock::GraphNode node;
    std::vector<hammock::Shape> types;
    hammock::NodeId out;  // the register that it writes
  };
  size_t registers_;
  std::vector<hammock::NodeId> arguments_, results_;
  std::vector<Instruction> code_;
};

}  // namespace toy
