#include "backends/cpu/emit/emit_llvm.h"

#include <algorithm>
#include <map>

#include "backends/cpu/emit/emit_access.h"
#include "backends/cpu/emit/emit_blocks.h"
#include "backends/cpu/emit/emit_sums.h"
#include "backends/cpu/emit/emit_values.h"
#include "backends/cpu/emit/vector_plan.h"

namespace hammock::cpu {
namespace {

using compiler::Instr;
using compiler::IrText;
using compiler::kAccumulators;
using compiler::Kernel;
using compiler::Level;
using Kind = Instr::Kind;

class KernelEmitter {
 public:
  KernelEmitter(const Kernel& kernel, const compiler::IrTarget& target)
      : kernel_(kernel),
        plan_(kernel),
        ir_(target),
        blocks_(ir_),
        values_(ir_),
        access_(kernel, ir_, values_),
        sums_(kernel, plan_, ir_, values_, blocks_),
        used_by_elements_(kernel.instrs.size()),
        divides_elements_(kernel.instrs.size()),
        names_(kernel.instrs.size()),
        inverses_(kernel.instrs.size()) {
    for (const Instr& instr : kernel.instrs) {
      if (DividesByRow(instr)) divides_elements_[instr.operands[1]] = true;
      for (int operand : instr.operands) {
        if (operand < 0 || kernel.instrs[operand].level != Level::kRow) continue;
        bool by_element = instr.level == Level::kElement || instr.kind == Kind::kReduce;
        if (by_element) used_by_elements_[operand] = true;
      }
    }
  }

  std::string Emit() {
    ir_.BeginFunction("void @" + compiler::FunctionName(kernel_) + "(ptr noalias %args)");
    ir_.Label("entry");
    access_.LoadArguments();
    sums_.Make();
    if (kernel_.lanes_along_rows) {
      EmitStrips();
    } else {
      PlanPrefetches();
      EmitRows();
    }
    ir_.Line("ret void");
    ir_.EndFunction();
    return ir_.Module();
  }

 private:
  /// The stage from which on the value of a row's instruction is known.
  static int KnownFrom(const Instr& instr) { return instr.stage + (instr.kind == Kind::kReduce); }

  // ---- lanes along columns

  void EmitRows() {
    blocks_.Loop("0", access_.rows(), 1, [&](const std::string& row) {
      access_.MoveToRow(row);
      for (int stage = 0; stage < kernel_.stages; ++stage) {
        EmitRowValues(stage);
        if (plan_.HasLoop(stage)) EmitColumns(stage);
      }
    });
  }

  void EmitRowValues(int stage) {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.level != Level::kRow || KnownFrom(instr) != stage) continue;
      if (instr.kind == Kind::kReduce) {
        names_[i][1] = sums_.Finish(i);
      } else {
        EmitInstr(i, Spot{});
      }
      if (!used_by_elements_[i]) continue;
      for (int lanes : plan_.widths()) {
        names_[i][lanes] = values_.Splat(names_[i][1], instr.dtype, lanes);
      }
      if (divides_elements_[i]) PrepareInverse(i);
    }
  }

  // ---- asking for memory ahead

  /// Loops of one row take turns between waiting for memory and computing, and no processor
  /// foresees the turns. So each loop asks for what the next one will be the first to touch. The
  /// next row is asked for by a loop with polynomials, unless it is the first, which reads on.
  void PlanPrefetches() {
    int before = LaterHeavyLoop();
    bool next_row = true;
    for (int stage = 0; stage < kernel_.stages; ++stage) {
      if (!plan_.HasLoop(stage)) continue;
      for (size_t i = 0; before >= 0 && i < kernel_.instrs.size(); ++i) {
        const Instr& instr = kernel_.instrs[i];
        if (VectorPlan::InLoop(instr, stage) && IsInRows(instr) && IsFirst(i)) {
          prefetches_.push_back({before, i, next_row});
        }
      }
      before = stage;
      next_row = false;
    }
  }

  int LaterHeavyLoop() const {
    bool is_first = true;
    for (int stage = 0; stage < kernel_.stages; ++stage) {
      if (!plan_.HasLoop(stage)) continue;
      if (plan_.IsHeavy(stage)) return is_first ? -1 : stage;
      is_first = false;
    }
    return -1;
  }

  static bool IsAccess(const Instr& instr) {
    return instr.kind == Kind::kLoad || instr.kind == Kind::kStore;
  }

  bool IsInRows(const Instr& instr) const {
    if (!IsAccess(instr)) return false;
    const compiler::Access& access = kernel_.accesses[instr.access];
    return access.kind == compiler::Access::Kind::kBuffer && !access.streams &&
           access.row == compiler::Stride::kAny && access.column == compiler::Stride::kOne;
  }

  /// Whether no instruction before this one has its access.
  bool IsFirst(size_t i) const {
    return std::none_of(kernel_.instrs.begin(), kernel_.instrs.begin() + static_cast<ptrdiff_t>(i),
                        [&](const Instr& other) {
                          return IsAccess(other) && other.access == kernel_.instrs[i].access;
                        });
  }

  // ---- division of elements by a value of the row

  /// Division is by far the slowest of the simple functions, and often by a power of two.
  bool DividesByRow(const Instr& instr) const {
    return !kernel_.lanes_along_rows && instr.kind == Kind::kScalar && instr.fn == ScalarFn::kDiv &&
           instr.level == Level::kElement &&
           (instr.dtype == DType::kF32 || instr.dtype == DType::kF64) &&
           kernel_.instrs[instr.operands[1]].level == Level::kRow;
  }

  struct Inverse {
    std::string exact;  // an i1
    std::map<int, std::string> values;
  };

  void PrepareInverse(size_t i) {
    DType dtype = kernel_.instrs[i].dtype;
    inverses_[i].exact = values_.HasExactInverse(names_[i][1], dtype);
    std::string inverse = ir_.Value("fdiv {} 1.0, {}", RegisterElement(dtype), names_[i][1]);
    for (int lanes : plan_.widths())
      inverses_[i].values[lanes] = values_.Splat(inverse, dtype, lanes);
  }

  std::string EmitDivision(const Instr& instr, const Spot& spot) {
    std::string type = ValueEmitter::TypeOf(instr.dtype, spot.lanes);
    const std::string& x = Operand(instr, 0, spot);
    const Inverse& inverse = inverses_[instr.operands[1]];
    return blocks_.Choose(
        inverse.exact, type,
        [&] { return ir_.Value("fmul {} {}, {}", type, x, inverse.values.at(spot.lanes)); },
        [&] { return ir_.Value("fdiv {} {}, {}", type, x, Operand(instr, 1, spot)); });
  }

  /// A loop over whole vectors, then one over short vectors with masks.
  void EmitColumns(int stage) {
    bool reduces = plan_.Reduces(stage);
    int lanes = plan_.lanes(stage);
    int step = reduces ? kAccumulators : lanes;
    if (reduces) sums_.Clear(stage);
    std::string whole = blocks_.RoundedDown(access_.columns(), step);
    blocks_.Loop("0", whole, step, [&](const std::string& column) {
      for (int v = 0; v < step / lanes; ++v) {
        Spot spot{.lanes = lanes, .column = column};
        if (v > 0) spot.column = ir_.Value("add i64 {}, {}", column, v * lanes);
        EmitLoopBody(stage, spot, [&](size_t i, const std::string& x) { sums_.Add(i, v, x); });
        for (const Prefetch& prefetch : prefetches_) {
          if (prefetch.stage != stage) continue;
          access_.Prefetch(kernel_.instrs[prefetch.instr], spot, prefetch.next_row);
        }
      }
    });
    blocks_.If(ir_.Value("icmp slt i64 {}, {}", whole, access_.columns()), [&] {
      if (reduces) sums_.BeginShort(stage);
      blocks_.Loop(whole, access_.columns(), kShortLanes, [&](const std::string& column) {
        Spot spot{.lanes = kShortLanes, .column = column};
        spot.mask = blocks_.Mask(column, access_.columns(), kShortLanes);
        EmitLoopBody(stage, spot,
                     [&](size_t i, const std::string& x) { sums_.AddShort(i, spot, x); });
      });
      if (reduces) sums_.EndShort(stage);
    });
  }

  /// `add` adds a value to the sum of an instruction.
  template <class Add>
  void EmitLoopBody(int stage, const Spot& spot, Add add) {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (!VectorPlan::InLoop(instr, stage)) continue;
      if (instr.kind == Kind::kReduce) {
        add(i, names_[instr.operands[0]][spot.lanes]);
      } else {
        EmitInstr(i, spot);
      }
    }
  }

  // ---- lanes along rows

  void EmitStrips() {
    int lanes = plan_.lanes(0);
    std::string whole = blocks_.RoundedDown(access_.rows(), lanes);
    blocks_.Loop("0", whole, lanes,
                 [&](const std::string& row) { EmitStrip(Spot{.lanes = lanes, .row = row}); });
    blocks_.Loop(whole, access_.rows(), kShortLanes, [&](const std::string& row) {
      Spot spot{.lanes = kShortLanes, .row = row};
      spot.mask = blocks_.Mask(row, access_.rows(), kShortLanes);
      EmitStrip(spot);
    });
  }

  void EmitStrip(const Spot& spot) {
    for (int stage = 0; stage < kernel_.stages; ++stage) {
      EmitRowValuesOfStrip(stage, spot);
      if (!plan_.HasLoop(stage)) continue;
      auto loop = [&](const std::string& first, int64_t step) {
        blocks_.Loop(first, access_.columns(), step, [&](const std::string& column) {
          Spot element = spot;
          element.column = column;
          EmitLoopBody(stage, element, [&](size_t i, const std::string& x) {
            sums_.AddToAccumulator(i, spot.lanes, x);
          });
        });
      };
      if (!plan_.Reduces(stage)) {
        loop("0", 1);
        continue;
      }
      blocks_.Loop("0", fmt::format("{}", kAccumulators), 1, [&](const std::string& number) {
        sums_.BeginAccumulator(stage, spot.lanes);
        loop(number, kAccumulators);
        sums_.EndAccumulator(stage, spot.lanes, number);
      });
      sums_.FinishStrip(stage, spot.lanes);
    }
  }

  void EmitRowValuesOfStrip(int stage, const Spot& spot) {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.level != Level::kRow || KnownFrom(instr) != stage) continue;
      if (instr.kind == Kind::kReduce) {
        names_[i][spot.lanes] = sums_.SumOfStrip(i, spot.lanes);
      } else {
        EmitInstr(i, spot);
      }
    }
  }

  // ---- instructions

  void EmitInstr(size_t i, const Spot& spot) {
    const Instr& instr = kernel_.instrs[i];
    std::string& name = names_[i][spot.lanes];
    switch (instr.kind) {
      case Kind::kLoad:
        name = access_.Load(instr, spot);
        break;
      case Kind::kStore:
        access_.Store(instr, spot, Operand(instr, 0, spot));
        break;
      case Kind::kIndex:
        name = access_.Position(instr, spot);
        break;
      case Kind::kConstant:
        name = values_.FromBits(access_.Bits(instr.access), instr.dtype);
        if (spot.lanes > 1) name = values_.Splat(name, instr.dtype, spot.lanes);
        break;
      case Kind::kScalar:
        name = DividesByRow(instr) ? EmitDivision(instr, spot)
                                   : values_.Scalar(instr, DTypeOf(instr.operands[0]), spot.lanes,
                                                    Operands(instr, spot));
        break;
      case Kind::kCast:
        name = values_.Cast(Operand(instr, 0, spot), DTypeOf(instr.operands[0]), instr.dtype,
                            spot.lanes);
        break;
      case Kind::kBitcast:
        name = values_.Bitcast(Operand(instr, 0, spot), DTypeOf(instr.operands[0]), instr.dtype,
                               spot.lanes);
        break;
      case Kind::kReduce:
        break;
    }
  }

  DType DTypeOf(int instr) const { return kernel_.instrs[instr].dtype; }

  const std::string& Operand(const Instr& instr, int which, const Spot& spot) const {
    return names_[instr.operands[which]].at(spot.lanes);
  }

  std::vector<std::string> Operands(const Instr& instr, const Spot& spot) const {
    std::vector<std::string> operands;
    for (int which = 0; which < 3 && instr.operands[which] >= 0; ++which) {
      operands.push_back(Operand(instr, which, spot));
    }
    return operands;
  }

  const Kernel& kernel_;
  const VectorPlan plan_;
  IrText ir_;
  BlockEmitter blocks_;
  ValueEmitter values_;
  AccessEmitter access_;
  SumEmitter sums_;
  // By instruction.
  std::vector<bool> used_by_elements_;             // row values
  std::vector<bool> divides_elements_;             // row values
  std::vector<std::map<int, std::string>> names_;  // of values: by lanes
  std::vector<Inverse> inverses_;                  // of what divides elements
  struct Prefetch {
    int stage;  // in whose loop it is asked for
    size_t instr;
    bool next_row;
  };
  std::vector<Prefetch> prefetches_;
};

}  // namespace

std::string EmitLlvm(const Kernel& kernel, const compiler::IrTarget& target) {
  return KernelEmitter(kernel, target).Emit();
}

}  // namespace hammock::cpu
