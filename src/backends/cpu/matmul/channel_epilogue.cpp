#include "backends/cpu/matmul/channel_epilogue.h"

#include <bit>
#include <cmath>

namespace hammock::cpu {

using compiler::Access;
using compiler::AccessMap;
using compiler::BufferId;
using compiler::Instr;
using compiler::Kernel;
using compiler::Launch;
using Kind = Instr::Kind;

namespace {

/// Follows the one value that a kernel computes from the result, instruction by instruction.
class Reader {
 public:
  Reader(const Launch& launch, BufferId result) : launch_(launch), result_(result) {}

  std::optional<ChannelEpilogueForm> Read() {
    const Kernel& kernel = *launch_.kernel;
    if (kernel.stages != 1 || !launch_.outer.empty()) return std::nullopt;
    for (size_t i = 0; i < kernel.instrs.size(); ++i) {
      const Instr& instr = kernel.instrs[i];
      if (instr.dtype != DType::kF32 || form_.out >= 0) return std::nullopt;
      if (!Take(instr, static_cast<int>(i))) return std::nullopt;
    }
    return form_.out >= 0 && form_.bias >= 0 ? std::optional(form_) : std::nullopt;
  }

 private:
  enum class Stage { kNone, kResult, kBias, kOther, kLow, kHigh };

  bool Take(const Instr& instr, int index) {
    switch (instr.kind) {
      case Kind::kLoad:
        return TakeLoad(instr, index);
      case Kind::kConstant:
        return true;
      case Kind::kScalar:
        return instr.fn == ScalarFn::kAdd ? TakeAdd(instr, index) : TakeBound(instr, index);
      case Kind::kStore:
        form_.out = instr.access;
        return instr.operands[0] == value_ && IsImage(instr.access) &&
               !AccessOf(instr.access).streams;
      default:
        return false;
    }
  }

  bool TakeLoad(const Instr& instr, int index) {
    if (AccessOf(instr.access).kind != Access::Kind::kBuffer) return false;
    if (launch_.maps[instr.access].buffer != result_) return true;
    const bool first = stage_ == Stage::kNone;
    Advance(Stage::kResult, index);
    return first && IsImage(instr.access);
  }

  bool TakeAdd(const Instr& instr, int index) {
    const bool from_left = instr.operands[0] == value_;
    if (value_ < 0 || (!from_left && instr.operands[1] != value_)) return false;
    const Instr& added = launch_.kernel->instrs[instr.operands[from_left ? 1 : 0]];
    if (added.kind != Kind::kLoad) return false;
    const bool is_bias = stage_ == Stage::kResult && IsRow(added.access);
    const bool is_other = stage_ == Stage::kBias && IsImage(added.access);
    if (!is_bias && !is_other) return false;
    (is_bias ? form_.bias : form_.other) = added.access;
    Advance(is_bias ? Stage::kBias : Stage::kOther, index);
    return true;
  }

  /// Of a zero and a bound that is a zero the kernel takes the former, which is the order here.
  bool TakeBound(const Instr& instr, int index) {
    const bool is_low = instr.fn == ScalarFn::kMaximum;
    if (!is_low && instr.fn != ScalarFn::kMinimum) return false;
    if (instr.operands[0] != value_ || stage_ < Stage::kBias ||
        stage_ >= (is_low ? Stage::kLow : Stage::kHigh)) {
      return false;
    }
    const Instr& bound = launch_.kernel->instrs[instr.operands[1]];
    if (bound.kind != Kind::kConstant) return false;
    const auto bits = static_cast<uint32_t>(launch_.maps[bound.access].offset);
    const float number = std::bit_cast<float>(bits);
    (is_low ? form_.low : form_.high) = number;
    Advance(is_low ? Stage::kLow : Stage::kHigh, index);
    return !std::isnan(number);
  }

  void Advance(Stage stage, int index) {
    stage_ = stage;
    value_ = index;
  }

  const Access& AccessOf(int access) const { return launch_.kernel->accesses[access]; }
  /// As the result lies.
  bool IsImage(int access) const {
    const AccessMap& map = launch_.maps[access];
    return map.offset == 0 && map.row == launch_.columns && map.column == 1;
  }
  /// The same in each row.
  bool IsRow(int access) const {
    const AccessMap& map = launch_.maps[access];
    return map.row == 0 && map.column == 1;
  }

  const Launch& launch_;
  const BufferId result_;
  ChannelEpilogueForm form_;
  Stage stage_ = Stage::kNone;
  int value_ = -1;  // the instruction that has it so far
};

}  // namespace

std::optional<ChannelEpilogueForm> FindChannelEpilogue(const Launch& launch, BufferId result) {
  return Reader(launch, result).Read();
}

}  // namespace hammock::cpu
