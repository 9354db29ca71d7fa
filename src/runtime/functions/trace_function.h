#pragma once
/// The graph that a function of tensors records, and the sources of its parameters and results:
/// the first half of capturing a function, and how methods of modules become graphs.

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hammock/random.h"
#include "runtime/step/executor.h"

namespace hammock {

struct DirectPlan;

using TensorFn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Where a parameter of the graph comes from at each call.
struct ParameterSource {
  enum Kind { kInput, kConstant, kRandom } kind = kConstant;
  size_t input = 0;
  Value constant = {};                        // by identity: whatever data its node has
  std::optional<Scalar> number = {};          // a constant that is a lifted number
  bool from_outside = false;                  // a constant that the function did not make
  uint64_t blocks = 0;                        // of the generator, taken anew
  uint64_t offset = 0;                        // that they had when they were traced
  std::shared_ptr<Generator> generator = {};  // null: the default one
};

/// Where a returned tensor, or the new value of an argument, comes from at each call.
struct ResultSource {
  enum Kind {
    kResult,    // result `index` of the graph
    kInput,     // the value that argument `index` had
    kConstant,  // `value`
    kArgument,  // argument `index` itself, after it was updated
    kOutput,    // the same tensor as output `index`
  } kind;
  size_t index = 0;
  Value value;
  Dims strides = {};  // of a returned tensor that is not row-major
};

struct TracedFunction {
  DeviceEntry* device = nullptr;
  std::vector<Shape> input_types;
  Graph graph;
  Hash128 hash;
  std::vector<uint64_t> key;
  int64_t kept = 0;
  std::vector<ParameterSource> parameters;  ///< of the graph
  std::vector<ResultSource> outputs;
  std::vector<std::pair<size_t, ResultSource>> writes;  ///< argument, its new value

  /// CompileError, OutOfMemory...; NotSupported for ops that would run on the fallback device.
  CompiledGraph Compile(Location at) &&;
  /// For DirectCall, which says what is not supported.
  static std::shared_ptr<const DirectPlan> PlanDirectCall(const CompiledGraph& graph);
};

/// Whether ops of this thread run one by one.
bool InEagerMode();

/// Tensors outside of a traced function that hold values of it which no result needs.
enum class Kept { kAllowed, kRefused };

/// Calls `fn` on stand-ins for the examples, which are left alone. Refuses, with the reason: eager
/// mode, reading a value inside `fn`, keeping one that depends on the inputs outside of it, several
/// devices. `op` is the caller's name in errors.
TracedFunction TraceFunction(const char* op, const TensorFn& fn,
                             const std::vector<Tensor>& examples, Location at,
                             Kept kept = Kept::kAllowed);

}  // namespace hammock
