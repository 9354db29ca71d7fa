#include "backends/cpu/emit/vector_plan.h"

#include <algorithm>

#include "hammock/ir/scalar_fn.h"

namespace hammock::cpu {

using compiler::Access;
using compiler::Instr;
using compiler::Kernel;
using compiler::Level;
using compiler::Stride;
using Kind = Instr::Kind;

namespace {

constexpr int kShortBody = 24;    // instructions up to which vectors are as long as can be
constexpr int kMiddleBody = 64;   // and up to which they are longer than short
constexpr int kHalfTheBytes = 4;  // of 64 lanes in registers; twice that leaves half the lanes

/// The body of an instruction, by which the length of its vectors is chosen.
ScalarBody BodyOf(const Instr& instr, DType operands) {
  if (instr.kind == Kind::kCast && IsFloat(operands) && !IsFloat(instr.dtype)) {
    return ScalarBody::kWide;
  }
  return instr.kind == Kind::kScalar ? hammock::BodyOf(instr.fn, operands) : ScalarBody::kLight;
}

/// The facts of one loop that decide how long its vectors are.
struct Body {
  int size = 0;
  int bytes = 0;  // of the widest value
  ScalarBody heaviest = ScalarBody::kLight;
  bool scattered = false;  // lanes lie apart in memory
  int sums = 0;

  void Add(const Kernel& kernel, const Instr& instr) {
    ++size;
    bytes = std::max(bytes, InfoOf(instr.dtype).bits / 8);
    DType operands = instr.operands[0] < 0 ? instr.dtype : kernel.instrs[instr.operands[0]].dtype;
    heaviest = std::max(heaviest, BodyOf(instr, operands));
    sums += instr.kind == Kind::kReduce;
    if (instr.access < 0) return;
    const Access& access = kernel.accesses[instr.access];
    Stride lanes = kernel.lanes_along_rows ? access.row : access.column;
    bool in_memory = access.kind == Access::Kind::kBuffer || access.kind == Access::Kind::kScratch;
    scattered |= in_memory && lanes == Stride::kAny;
  }

  int Lanes() const {
    if (scattered || heaviest >= ScalarBody::kByLane || size > kMiddleBody) return kShortLanes;
    int lanes = kMostLanes;
    bool wide = bytes > kHalfTheBytes || heaviest == ScalarBody::kWide;
    if (wide) lanes /= 2;
    if (heaviest != ScalarBody::kLight || size > kShortBody) lanes /= 2;
    return lanes;
  }
};

}  // namespace

bool VectorPlan::InLoop(const Instr& instr, int stage) {
  return instr.stage == stage && (instr.level == Level::kElement || instr.kind == Kind::kReduce);
}

VectorPlan::VectorPlan(const Kernel& kernel) : stages_(static_cast<size_t>(kernel.stages)) {
  constexpr int kFewSums = 2;  // in strips: accumulators lie on the stack
  Body all;
  for (int stage = 0; stage < kernel.stages; ++stage) {
    Body body;
    for (const Instr& instr : kernel.instrs) {
      if (!InLoop(instr, stage)) continue;
      body.Add(kernel, instr);
      all.Add(kernel, instr);
    }
    bool heavy = body.heaviest == ScalarBody::kHeavy || body.heaviest == ScalarBody::kWide;
    stages_[stage] = {body.size, body.sums > 0, heavy, body.Lanes()};
  }
  widths_ = {kShortLanes};
  for (Stage& stage : stages_) {
    if (kernel.lanes_along_rows) stage.lanes = all.sums > kFewSums ? kShortLanes : all.Lanes();
    if (std::find(widths_.begin(), widths_.end(), stage.lanes) == widths_.end()) {
      widths_.push_back(stage.lanes);
    }
  }
}

}  // namespace hammock::cpu
