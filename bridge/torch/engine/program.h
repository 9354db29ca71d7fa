#pragma once
/// Program: a graph of aten ops as instructions on registers. It runs on Hammock: its first run of
/// a signature records each op through the table (aten_op.h) and so finds out what falls back and
/// which random numbers are drawn; later runs replay one compiled graph where nothing fell back.
///
///   Program program = ProgramOf(*graph, hammock::Device("cpu"));
///   std::vector<Any> results = program.Run(inputs);
///
/// Inputs and results are tensors, numbers or lists. Numbers are part of the signature; numbers
/// that change every time are recorded every time and compile nothing anew, because Hammock lifts
/// them. May be run by several threads at once.

#include <ATen/core/function_schema.h>
#include <hammock/device.h>
#include <hammock/executor.h>
#include <hammock/ir/any.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/aten_op.h"
#include "engine/fallback.h"
#include "engine/scope.h"

namespace hammock_torch {

struct Instruction;
using Block = std::vector<Instruction>;

/// One step: reads and writes registers.
struct Instruction {
  enum class Kind {
    kOp,        ///< an aten op: by Hammock, else by PyTorch on the CPU
    kConstant,  ///< `value`
    kList,
    kTuple,
    kDict,    ///< of keys and values in turn; keys are strings
    kUnpack,  ///< a list or tuple into its items
    kCopy,    ///< the outputs are the inputs
    kNumber,  ///< the number in a tensor
    kIf,      ///< a condition chooses a block; its last instruction copies to the outputs
    kLoop,  ///< count, condition, carried values; the block takes the first registers of `carried`
  };
  Kind kind = Kind::kOp;
  std::string name = {};  ///< "aten::add.Tensor", for messages
  std::vector<int> inputs = {}, outputs = {};
  const AtenOp* op = nullptr;  ///< of an op with a schema
  EagerFn eager = nullptr;
  hammock::Any value = {};
  std::vector<Block> blocks = {};
  std::vector<int> carried = {};  ///< of a loop: registers of iteration number and carried values
  std::vector<int> results = {};  ///< of a loop's block: registers of condition and carried values
  std::vector<int> dead = {};     ///< registers that nobody reads afterwards
  std::string source = {};        ///< where it stands in the user's program
};

class Program {
 public:
  explicit Program(const hammock::Device& device);

  // ---- Building
  int AddInput();
  int NewRegister() { return num_registers_++; }
  void Add(Instruction instruction) { block_.push_back(std::move(instruction)); }
  int AddConstant(hammock::Any value);
  /// `overload` is PyTorch's name of an operator, "aten::add.Tensor". Returns its results.
  std::vector<int> AddCall(const std::string& overload, std::vector<int> inputs);
  /// A call of what is no operator of PyTorch's, which `eager` runs; on numbers alone it is no
  /// fallback. `name` has a namespace. Returns its result.
  int AddForeignCall(const std::string& name, EagerFn eager, std::vector<int> inputs);
  void SetBlock(Block block) { block_ = std::move(block); }
  void SetOutputs(std::vector<int> registers);

  // ---- Running
  size_t num_inputs() const { return inputs_.size(); }
  size_t num_outputs() const { return outputs_.size(); }
  const hammock::Device& device() const { return device_; }
  std::vector<hammock::Any> Run(const std::vector<hammock::Any>& inputs) const;
  /// The same with PyTorch's tensors, numbers and none, for doors that return to PyTorch at once:
  /// results are computed, and nobody else uses their memory, but for an output that is an input,
  /// which is that tensor itself.
  std::vector<c10::IValue> RunNow(c10::ArrayRef<c10::IValue> inputs) const;
  /// How many runs were replays of a compiled graph.
  int64_t replays() const;

 private:
  struct Plan;
  struct Plans;

  using Registers = std::vector<hammock::Any>;
  void RunBlock(const Block& block, Registers& registers, bool free) const;
  void RunInstruction(const Instruction& instruction, Registers& registers) const;
  void RunLoop(const Instruction& instruction, Registers& registers) const;
  std::vector<hammock::Any> Record(const std::vector<hammock::Any>& inputs) const;
  template <class Fits>
  std::shared_ptr<Plan> FindPlan(const Fits& fits) const;
  std::shared_ptr<Plan> PlanOf(const std::vector<hammock::Any>& inputs) const;
  std::vector<hammock::Any> Replay(Plan& plan, const std::vector<hammock::Any>& inputs) const;
  void Capture(Plan& plan, const std::vector<hammock::Any>& inputs) const;
  std::vector<c10::IValue> RunDirectly(Plan& plan, c10::ArrayRef<c10::IValue> inputs) const;
  void FindLastUses();

  hammock::Device device_;
  c10::Device torch_device_;  ///< of the results of RunNow
  int num_registers_ = 0;
  std::vector<int> inputs_, outputs_;
  std::vector<int> passed_on_;  ///< of each output, the index of the input that it is, or -1
  Block block_;
  std::shared_ptr<Plans> plans_;
};

}  // namespace hammock_torch
