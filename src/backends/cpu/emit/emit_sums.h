#pragma once
/// Prints the accumulators of reductions: Note [Reductions] in hammock/compiler/kernel.h. They are
/// memory on the stack. Where lanes lie along columns, accumulator j is lane j of them all, which
/// LLVM keeps in registers; at the end of a row short vectors work on a copy. Where lanes lie along
/// rows, each accumulator is a vector for each row of a strip.

#include <string>
#include <vector>

#include "backends/cpu/emit/emit_access.h"
#include "backends/cpu/emit/emit_blocks.h"
#include "backends/cpu/emit/emit_values.h"
#include "backends/cpu/emit/vector_plan.h"

namespace hammock::cpu {

class SumEmitter {
 public:
  SumEmitter(const compiler::Kernel& kernel, const VectorPlan& plan, compiler::IrText& ir,
             ValueEmitter& values, BlockEmitter& blocks)
      : kernel_(kernel), plan_(plan), ir_(ir), values_(values), blocks_(blocks) {}

  /// At the beginning of the kernel.
  void Make();

  // Lanes along columns. `vector` counts those of the stage's lanes within 64 columns.
  void Clear(int stage);
  void Add(size_t instr, int vector, const std::string& x);
  void BeginShort(int stage);
  void AddShort(size_t instr, const Spot& spot, const std::string& x);
  void EndShort(int stage);
  std::string Finish(size_t instr);  ///< a scalar

  // Lanes along rows: what belongs to one accumulator is summed in a register, then comes the next.
  void BeginAccumulator(int stage, int lanes);
  void AddToAccumulator(size_t instr, int lanes, const std::string& x);
  void EndAccumulator(int stage, int lanes, const std::string& number);
  void FinishStrip(int stage, int lanes);
  std::string SumOfStrip(size_t instr, int lanes);

 private:
  template <class F>
  void ForEach(int stage, F f);
  std::string At(const std::string& memory, DType dtype, int lanes, const std::string& number);
  std::string Load(size_t instr, int lanes, const std::string& pointer);
  void Store(size_t instr, int lanes, const std::string& value, const std::string& pointer);
  std::string Half(const std::string& value, DType dtype, int lanes, int first);
  /// Copies all accumulators of a stage.
  void Copy(int stage, const std::vector<std::string>& from, const std::vector<std::string>& to);

  const compiler::Kernel& kernel_;
  const VectorPlan& plan_;
  compiler::IrText& ir_;
  ValueEmitter& values_;
  BlockEmitter& blocks_;
  // By instruction. The second is the copy for short vectors, or the accumulator in a register.
  std::vector<std::string> sums_, other_sums_;
};

}  // namespace hammock::cpu
