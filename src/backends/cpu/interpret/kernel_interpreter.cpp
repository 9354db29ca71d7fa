// Compiled without contraction: see Note [Scalar bodies].
#include "backends/cpu/interpret/kernel_interpreter.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/interpret/lane_functions.h"
#include "backends/cpu/interpret/scalar_loops.h"
#include "base/never_destroyed.h"
#include "base/of_thread.h"
#include "base/throw.h"
#include "compiler/loops/computed_type.h"
#include "compiler/scalar/reduce_bodies.h"
#include "ir/convert.h"

namespace hammock::cpu {

using compiler::Access;
using compiler::Instr;
using compiler::IsNarrowFloat;
using compiler::kAccumulators;
using compiler::Kernel;
using compiler::Level;
using compiler::Number;
using compiler::ReduceFn;
using compiler::Stride;
using Kind = Instr::Kind;

namespace {

constexpr int64_t kBlock = 256;  // columns at a time; a multiple of kAccumulators

/// The type of values on the way: 16-bit floats are held as floats that they can represent.
DType Held(DType dtype) { return IsNarrowFloat(dtype) ? DType::kF32 : dtype; }
int64_t HeldBytes(DType dtype) { return InfoOf(Held(dtype)).bits / 8; }

template <class To, class From>
void CastLoop(int64_t count, const void* x, void* out) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<To*>(out)[i] = Convert<To>(static_cast<const From*>(x)[i]);
  }
}

UnaryLoop CastLoopFor(DType from, DType to) {
  return VisitDType(Held(from), [&](auto a) {
    return VisitDType(Held(to), [&](auto b) -> UnaryLoop {
      if constexpr (kIsReal<decltype(a)> && sizeof(a) == 2) {
        return nullptr;
      } else if constexpr (kIsReal<decltype(b)> && sizeof(b) == 2) {
        return nullptr;
      } else {
        return CastLoop<decltype(b), decltype(a)>;
      }
    });
  });
}

using CombineLoop = void (*)(int64_t count, const void* x, void* sums);
using CombineTree = void (*)(void* sums);

template <ReduceFn fn, class T>
void CombineAll(int64_t count, const void* x, void* sums) {
  using Held = std::conditional_t<std::same_as<T, bool>, uint8_t, T>;
  const Held* in = static_cast<const Held*>(x);
  Held* sum = static_cast<Held*>(sums);
  auto combine = [](Held s, Held v) -> Held {
    if constexpr (std::same_as<T, bool>) {
      return fn == ReduceFn::kAny || fn == ReduceFn::kMax ? s | v : s & v;
    } else {
      return compiler::Combine(fn, Number<Held>{s}, Number<Held>{v}).value;
    }
  };
  int64_t i = 0;
  for (; i + kAccumulators <= count; i += kAccumulators) {
    for (int j = 0; j < kAccumulators; ++j) sum[j] = combine(sum[j], in[i + j]);
  }
  for (int j = 0; i + j < count; ++j) sum[j] = combine(sum[j], in[i + j]);
}

template <ReduceFn fn, class T>
void CombineLast(void* sums) {
  T* sum = static_cast<T*>(sums);
  for (int half = kAccumulators / 2; half >= 1; half /= 2) {
    CombineAll<fn, T>(half, sum + half, sum);
  }
}

struct Reduction {
  CombineLoop combine = nullptr;
  CombineTree tree = nullptr;
  uint64_t identity = 0;
};

template <ReduceFn fn>
Reduction ReductionOf(DType dtype) {
  return VisitDType(Held(dtype), [](auto zero) -> Reduction {
    using T = decltype(zero);
    if constexpr (kIsReal<T> && sizeof(T) == 2) {
      return {};
    } else {
      Reduction reduction = {CombineAll<fn, T>, CombineLast<fn, T>, 0};
      T identity = std::same_as<T, bool> ? T(fn == ReduceFn::kAll || fn == ReduceFn::kMin)
                                         : compiler::IdentityOf<T>(fn);
      std::memcpy(&reduction.identity, &identity, sizeof identity);
      return reduction;
    }
  });
}

Reduction ReductionFor(ReduceFn fn, DType dtype) {
  switch (fn) {
    case ReduceFn::kSum:
      return ReductionOf<ReduceFn::kSum>(dtype);
    case ReduceFn::kProd:
      return ReductionOf<ReduceFn::kProd>(dtype);
    case ReduceFn::kMax:
      return ReductionOf<ReduceFn::kMax>(dtype);
    case ReduceFn::kMin:
      return ReductionOf<ReduceFn::kMin>(dtype);
    case ReduceFn::kAny:
      return ReductionOf<ReduceFn::kAny>(dtype);
    case ReduceFn::kAll:
      return ReductionOf<ReduceFn::kAll>(dtype);
  }
  return {};
}

template <int kBytes>
struct Word {
  char bytes[kBytes];
};

/// Copies elements that lie `from_step` and `to_step` bytes apart.
template <int kBytes>
void CopySteps(int64_t count, const char* from, int64_t from_step, char* to, int64_t to_step) {
  if (from_step == kBytes && to_step == kBytes) {
    std::memcpy(to, from, static_cast<size_t>(count * kBytes));
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, kBytes);
}

void Copy(int64_t bytes, int64_t count, const char* from, int64_t from_step, char* to,
          int64_t to_step) {
  switch (bytes) {
    case 1:
      return CopySteps<1>(count, from, from_step, to, to_step);
    case 2:
      return CopySteps<2>(count, from, from_step, to, to_step);
    case 4:
      return CopySteps<4>(count, from, from_step, to, to_step);
    default:
      return CopySteps<8>(count, from, from_step, to, to_step);
  }
}

void Fill(int64_t bytes, int64_t count, char* values) {
  if (count > 1) Copy(bytes, count - 1, values, 0, values + bytes, bytes);
}

}  // namespace

/// An instruction with its functions looked up and its place in the state.
struct InterpretedKernel::Op {
  Instr instr;
  DType operand_dtype = DType::kF32;
  UnaryLoop unary = nullptr;    // functions, tests, casts
  BinaryLoop binary = nullptr;  // functions, compares
  LaneUnary lane_unary = nullptr;
  LaneBinary lane_binary = nullptr;
  LaneIntBinary lane_int = nullptr;
  UnaryLoop widen = nullptr;  // of 16-bit floats
  UnaryLoop round = nullptr;
  Reduction reduction;
  int64_t at = 0;       // of the value in the state: a block, or one element
  int64_t sums = 0;     // of a reduction's accumulators
  bool spread = false;  // a row value that elements use
};

InterpretedKernel::InterpretedKernel(std::shared_ptr<const Kernel> kernel)
    : kernel_(std::move(kernel)), ops_(kernel_->instrs.size()) {
  auto take = [&](int64_t bytes) {
    int64_t at = state_bytes_;
    state_bytes_ += (bytes + 63) / 64 * 64;
    return at;
  };
  for (size_t i = 0; i < ops_.size(); ++i) {
    Op& op = ops_[i];
    op.instr = kernel_->instrs[i];
    const Instr& instr = op.instr;
    if (instr.operands[0] >= 0) {
      op.operand_dtype = ops_[instr.operands[0]].instr.dtype;
    }
    bool in_loop = instr.level == Level::kElement || instr.kind == Kind::kReduce;
    for (int operand : instr.operands) {
      if (operand < 0) continue;
      Op& from = ops_[operand];
      if (in_loop && from.instr.level == Level::kRow) from.spread = true;
    }
    if (instr.kind == Kind::kScalar && instr.fn != ScalarFn::kSelect) {
      DType held = Held(op.operand_dtype);
      op.unary = UnaryLoopFor(instr.fn, held);
      op.binary = BinaryLoopFor(instr.fn, held);
      op.lane_unary = LaneUnaryFor(instr.fn, op.operand_dtype);
      op.lane_binary = LaneBinaryFor(instr.fn, op.operand_dtype);
      op.lane_int = LaneIntBinaryFor(instr.fn, op.operand_dtype);
    }
    if (instr.kind == Kind::kCast) op.unary = CastLoopFor(op.operand_dtype, instr.dtype);
    if (instr.kind == Kind::kReduce) {
      op.reduction = ReductionFor(instr.reduce, instr.dtype);
      op.sums = take(kAccumulators * 8);
    }
    op.widen = WidenLoopFor(instr.dtype);
    op.round = RoundLoopFor(instr.dtype);
    op.at = take(kBlock * 8);
  }
}

InterpretedKernel::~InterpretedKernel() = default;

/// One run of one thread.
class InterpretedKernel::Runner {
 public:
  Runner(const InterpretedKernel& kernel, const KernelArgs& args)
      : kernel_(*kernel.kernel_), ops_(kernel.ops_), args_(args) {
    // Kept by the thread: a step has many tiles.
    std::vector<char>& memory = OfThread<Memory>().bytes;
    if (memory.size() < static_cast<size_t>(kernel.state_bytes_) + 64) {
      memory.resize(static_cast<size_t>(kernel.state_bytes_) + 64);
    }
    state_ = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  }

  void Run() {
    for (row_ = 0; row_ < args_.rows; ++row_) {
      for (int stage = 0; stage < kernel_.stages; ++stage) RunStage(stage);
    }
  }

 private:
  struct Memory {
    std::vector<char> bytes;
  };

  static bool InLoop(const Instr& instr, int stage) {
    return instr.stage == stage && (instr.level == Level::kElement || instr.kind == Kind::kReduce);
  }

  void RunStage(int stage) {
    for (const Op& op : ops_) {
      const Instr& instr = op.instr;
      if (instr.level != Level::kRow) continue;
      if (instr.kind == Kind::kReduce && instr.stage == stage) {
        std::memcpy(state_ + op.sums, &op.reduction.identity, 8);
        Fill(HeldBytes(instr.dtype), kAccumulators, state_ + op.sums);
      }
      if (instr.stage + (instr.kind == Kind::kReduce) != stage) continue;
      if (instr.kind == Kind::kReduce) {
        op.reduction.tree(state_ + op.sums);
        std::memcpy(state_ + op.at, state_ + op.sums, 8);
      } else {
        RunOp(op, 0, 1);
      }
      if (op.spread) {
        Fill(HeldBytes(instr.dtype), std::min(kBlock, args_.columns), state_ + op.at);
      }
    }
    bool any = std::any_of(ops_.begin(), ops_.end(),
                           [&](const Op& op) { return InLoop(op.instr, stage); });
    if (!any) return;
    for (int64_t column = 0; column < args_.columns; column += kBlock) {
      int64_t count = std::min(kBlock, args_.columns - column);
      for (const Op& op : ops_) {
        if (!InLoop(op.instr, stage)) continue;
        if (op.instr.kind == Kind::kReduce) {
          op.reduction.combine(count, ValueOf(op.instr.operands[0]), state_ + op.sums);
        } else {
          RunOp(op, column, count);
        }
      }
    }
  }

  const char* ValueOf(int instr) const { return state_ + ops_[instr].at; }

  char* Address(const Instr& instr, int64_t column) const {
    size_t i = static_cast<size_t>(instr.access);
    int64_t element = row_ * args_.row_strides[i] + column * args_.column_strides[i];
    return args_.pointers[i] + element * (InfoOf(kernel_.accesses[i].dtype).bits / 8);
  }

  int64_t Step(const Instr& instr) const {
    size_t i = static_cast<size_t>(instr.access);
    return args_.column_strides[i] * (InfoOf(kernel_.accesses[i].dtype).bits / 8);
  }

  void RunOp(const Op& op, int64_t column, int64_t count) {
    const Instr& instr = op.instr;
    char* out = state_ + op.at;
    switch (instr.kind) {
      case Kind::kLoad:
        return Load(op, column, count, out);
      case Kind::kStore:
        return Store(op, column, count);
      case Kind::kIndex: {
        size_t i = static_cast<size_t>(instr.access);
        int64_t first = reinterpret_cast<intptr_t>(args_.pointers[i]) +
                        row_ * args_.row_strides[i] + column * args_.column_strides[i];
        for (int64_t k = 0; k < count; ++k) {
          reinterpret_cast<int64_t*>(out)[k] = first + k * args_.column_strides[i];
        }
        return;
      }
      case Kind::kConstant: {
        auto bits = reinterpret_cast<uintptr_t>(args_.pointers[instr.access]);
        if (op.widen) {
          op.widen(1, &bits, out);
        } else {
          std::memcpy(out, &bits, sizeof bits);
        }
        return;
      }
      case Kind::kScalar:
        Scalar(op, count, out);
        return Round(op, count, out);
      case Kind::kCast:
        op.unary(count, ValueOf(instr.operands[0]), out);
        return Round(op, count, out);
      case Kind::kBitcast:
        return Bitcast(op, count, out);
      case Kind::kReduce:
        return;
    }
  }

  void Load(const Op& op, int64_t column, int64_t count, char* out) {
    DType dtype = op.instr.dtype;
    const char* from = Address(op.instr, column);
    int64_t bytes = InfoOf(dtype).bits / 8;
    if (!op.widen) return Copy(bytes, count, from, Step(op.instr), out, bytes);
    uint16_t narrow[kBlock];
    Copy(2, count, from, Step(op.instr), reinterpret_cast<char*>(narrow), 2);
    op.widen(count, narrow, out);
  }

  void Store(const Op& op, int64_t column, int64_t count) {
    const char* value = ValueOf(op.instr.operands[0]);
    char* to = Address(op.instr, column);
    int64_t bytes = InfoOf(op.instr.dtype).bits / 8;
    if (!op.round) return Copy(bytes, count, value, bytes, to, Step(op.instr));
    uint16_t narrow[kBlock];
    op.round(count, value, narrow);
    Copy(2, count, reinterpret_cast<const char*>(narrow), 2, to, Step(op.instr));
  }

  static void Round(const Op& op, int64_t count, char* values) {
    if (!op.round) return;
    uint16_t narrow[kBlock];
    op.round(count, values, narrow);
    op.widen(count, narrow, values);
  }

  void Bitcast(const Op& op, int64_t count, char* out) {
    const char* value = ValueOf(op.instr.operands[0]);
    DType from = op.operand_dtype;
    int64_t bytes = InfoOf(from).bits / 8;
    uint16_t narrow[kBlock];
    if (IsNarrowFloat(from)) {
      RoundLoopFor(from)(count, value, narrow);
      value = reinterpret_cast<const char*>(narrow);
    }
    if (op.widen) {
      op.widen(count, value, out);
    } else {
      std::memcpy(out, value, static_cast<size_t>(count * bytes));
      if (op.instr.dtype == DType::kBool) {
        for (int64_t i = 0; i < count; ++i) out[i] = out[i] != 0;
      }
    }
  }

  void Scalar(const Op& op, int64_t count, char* out) {
    const Instr& instr = op.instr;
    const char* x = ValueOf(instr.operands[0]);
    const char* y = instr.operands[1] < 0 ? nullptr : ValueOf(instr.operands[1]);
    if (instr.fn == ScalarFn::kSelect) {
      return Select(HeldBytes(instr.dtype), count, x, y, ValueOf(instr.operands[2]), out);
    }
    if (op.unary && !y) return op.unary(count, x, out);
    if (op.binary && y) return op.binary(count, x, y, out);
    Lanes(op, count, x, y, out);
  }

  template <class T>
  static void SelectOf(int64_t count, const char* condition, const char* x, const char* y,
                       char* out) {
    const T* a = reinterpret_cast<const T*>(x);
    const T* b = reinterpret_cast<const T*>(y);
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(out)[i] = condition[i] ? a[i] : b[i];
  }
  static void Select(int64_t bytes, int64_t count, const char* condition, const char* x,
                     const char* y, char* out) {
    switch (bytes) {
      case 1:
        return SelectOf<uint8_t>(count, condition, x, y, out);
      case 2:
        return SelectOf<uint16_t>(count, condition, x, y, out);
      case 4:
        return SelectOf<uint32_t>(count, condition, x, y, out);
      default:
        return SelectOf<uint64_t>(count, condition, x, y, out);
    }
  }

  /// Element by element through wide values.
  void Lanes(const Op& op, int64_t count, const char* x, const char* y, char* out) {
    DType wide = op.lane_int ? DType::kI64 : DType::kF64;
    alignas(64) char a[kBlock * 8];
    alignas(64) char b[kBlock * 8];
    alignas(64) char result[kBlock * 8];
    CastLoopFor(op.operand_dtype, wide)(count, x, a);
    if (y) CastLoopFor(op.operand_dtype, wide)(count, y, b);
    for (int64_t i = 0; i < count; ++i) {
      if (op.lane_int) {
        reinterpret_cast<int64_t*>(result)[i] =
            op.lane_int(reinterpret_cast<int64_t*>(a)[i], reinterpret_cast<int64_t*>(b)[i]);
        continue;
      }
      double left = reinterpret_cast<double*>(a)[i];
      HAMMOCK_CHECK(op.lane_unary || op.lane_binary, "no function {} for {}", NameOf(op.instr.fn),
                    NameOf(op.operand_dtype));
      reinterpret_cast<double*>(result)[i] =
          y ? op.lane_binary(left, reinterpret_cast<double*>(b)[i]) : op.lane_unary(left);
    }
    CastLoopFor(wide, op.instr.dtype)(count, result, out);
  }

  const Kernel& kernel_;
  const std::vector<Op>& ops_;
  const KernelArgs& args_;
  char* state_;
  int64_t row_ = 0;
};

void InterpretedKernel::Run(const KernelArgs& args) const { Runner(*this, args).Run(); }

const void* const* LaneFunctionTable() {
  static const auto& table = []() -> const auto& {
    auto& made = NeverDestroyed<std::vector<const void*>>(kNumDTypes * kNumScalarFns);
    for (int d = 0; d < kNumDTypes; ++d) {
      for (size_t f = 0; f < kNumScalarFns; ++f) {
        ScalarFn fn = static_cast<ScalarFn>(f);
        DType dtype = static_cast<DType>(d);
        const void*& entry = made[LaneFunctionIndex(fn, dtype)];
        if (LaneUnary lane = LaneUnaryFor(fn, dtype)) entry = reinterpret_cast<const void*>(lane);
        if (LaneBinary lane = LaneBinaryFor(fn, dtype)) entry = reinterpret_cast<const void*>(lane);
        if (LaneIntBinary lane = LaneIntBinaryFor(fn, dtype)) {
          entry = reinterpret_cast<const void*>(lane);
        }
      }
    }
    return made;
  }
  ();
  return table.data();
}

}  // namespace hammock::cpu
