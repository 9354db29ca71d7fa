#include "backends/cpu/emit/emit_sums.h"

#include <limits>

namespace hammock::cpu {

using compiler::Instr;
using compiler::IrType;
using compiler::kAccumulators;
using Kind = Instr::Kind;

namespace {

/// i1 vectors are packed in memory, so truth values are bytes there.
std::string_view ElementOf(DType dtype) {
  return dtype == DType::kBool ? "i8" : RegisterElement(dtype);
}

std::string Number(int64_t value) { return fmt::format("{}", value); }

}  // namespace

/// f(instruction number, instruction, lanes) for the reductions of a stage.
template <class F>
void SumEmitter::ForEach(int stage, F f) {
  for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
    const Instr& instr = kernel_.instrs[i];
    if (instr.kind == Kind::kReduce && instr.stage == stage) f(i, instr, plan_.lanes(stage));
  }
}

void SumEmitter::Make() {
  sums_.resize(kernel_.instrs.size());
  other_sums_.resize(kernel_.instrs.size());
  for (int stage = 0; stage < kernel_.stages; ++stage) {
    ForEach(stage, [&](size_t i, const Instr& instr, int lanes) {
      int vectors = kernel_.lanes_along_rows ? kAccumulators : kAccumulators / lanes;
      std::string type = IrType(ElementOf(instr.dtype), lanes);
      sums_[i] = ir_.Value("alloca [{} x {}], align 64", vectors, type);
      int others = kernel_.lanes_along_rows ? 1 : vectors;
      other_sums_[i] = ir_.Value("alloca [{} x {}], align 64", others, type);
    });
  }
}

std::string SumEmitter::At(const std::string& memory, DType dtype, int lanes,
                           const std::string& number) {
  return ir_.Value("getelementptr {}, ptr {}, i64 {}", IrType(ElementOf(dtype), lanes), memory,
                   number);
}

std::string SumEmitter::Load(size_t i, int lanes, const std::string& pointer) {
  DType dtype = kernel_.instrs[i].dtype;
  std::string value =
      ir_.Value("load {}, ptr {}, align 16", IrType(ElementOf(dtype), lanes), pointer);
  return dtype == DType::kBool ? values_.FromMemory(value, dtype, lanes) : value;
}

void SumEmitter::Store(size_t i, int lanes, const std::string& value, const std::string& pointer) {
  DType dtype = kernel_.instrs[i].dtype;
  std::string stored = dtype == DType::kBool ? values_.ToMemory(value, dtype, lanes) : value;
  ir_.Line("store {} {}, ptr {}, align 16", IrType(ElementOf(dtype), lanes), stored, pointer);
}

// ---- lanes along columns

void SumEmitter::Clear(int stage) {
  ForEach(stage, [&](size_t i, const Instr& instr, int lanes) {
    std::string identity = values_.Identity(instr.reduce, instr.dtype, lanes);
    for (int v = 0; v < kAccumulators / lanes; ++v) {
      Store(i, lanes, identity, At(sums_[i], instr.dtype, lanes, Number(v)));
    }
  });
}

void SumEmitter::Add(size_t i, int vector, const std::string& x) {
  const Instr& instr = kernel_.instrs[i];
  int lanes = plan_.lanes(instr.stage);
  std::string pointer = At(sums_[i], instr.dtype, lanes, Number(vector));
  std::string sum = Load(i, lanes, pointer);
  Store(i, lanes, values_.Combine(instr.reduce, instr.dtype, lanes, sum, x), pointer);
}

void SumEmitter::Copy(int stage, const std::vector<std::string>& from,
                      const std::vector<std::string>& to) {
  ForEach(stage, [&](size_t i, const Instr& instr, int lanes) {
    for (int v = 0; v < kAccumulators / lanes; ++v) {
      std::string sum = Load(i, lanes, At(from[i], instr.dtype, lanes, Number(v)));
      Store(i, lanes, sum, At(to[i], instr.dtype, lanes, Number(v)));
    }
  });
}

void SumEmitter::BeginShort(int stage) { Copy(stage, sums_, other_sums_); }

void SumEmitter::EndShort(int stage) { Copy(stage, other_sums_, sums_); }

void SumEmitter::AddShort(size_t i, const Spot& spot, const std::string& x) {
  const Instr& instr = kernel_.instrs[i];
  std::string first = ir_.Value("and i64 {}, {}", spot.column, kAccumulators - 1);
  std::string pointer = At(other_sums_[i], instr.dtype, 1, first);
  std::string sum = Load(i, spot.lanes, pointer);
  std::string next = values_.Combine(instr.reduce, instr.dtype, spot.lanes, sum, x);
  std::string type = ValueEmitter::TypeOf(instr.dtype, spot.lanes);
  next =
      ir_.Value("select <{} x i1> {}, {} {}, {} {}", spot.lanes, spot.mask, type, next, type, sum);
  Store(i, spot.lanes, next, pointer);
}

std::string SumEmitter::Finish(size_t i) {
  const Instr& instr = kernel_.instrs[i];
  int lanes = plan_.lanes(instr.stage);
  auto combine = [&](const std::string& low, const std::string& high, int count) {
    return values_.Combine(instr.reduce, instr.dtype, count, low, high);
  };
  std::vector<std::string> sums;
  for (int v = 0; v < kAccumulators / lanes; ++v) {
    sums.push_back(Load(i, lanes, At(sums_[i], instr.dtype, lanes, Number(v))));
  }
  for (size_t half = sums.size() / 2; half > 0; half /= 2) {
    for (size_t v = 0; v < half; ++v) sums[v] = combine(sums[v], sums[v + half], lanes);
  }
  std::string sum = sums[0];
  // The next instruction waits for the last of these steps, so they do not look for NaNs.
  const bool extreme = IsFloat(instr.dtype) && (instr.reduce == compiler::ReduceFn::kMax ||
                                                instr.reduce == compiler::ReduceFn::kMin);
  std::string any_nan = extreme ? values_.AnyNan(sum, instr.dtype, lanes) : "";
  for (int half = lanes / 2; half > 0; half /= 2) {
    std::string low = Half(sum, instr.dtype, 2 * half, 0);
    std::string high = Half(sum, instr.dtype, 2 * half, half);
    sum = extreme ? values_.Extreme(instr.reduce, instr.dtype, half, low, high)
                  : combine(low, high, half);
  }
  if (!extreme) return sum;
  std::string_view type = RegisterElement(instr.dtype);
  return ir_.Value("select i1 {}, {} {}, {} {}", any_nan, type,
                   compiler::IrConstant(type, 1, std::numeric_limits<double>::quiet_NaN()), type,
                   sum);
}

/// Lanes [first, first + lanes / 2); of two lanes, one of them.
std::string SumEmitter::Half(const std::string& value, DType dtype, int lanes, int first) {
  std::string type = ValueEmitter::TypeOf(dtype, lanes);
  if (lanes == 2) return ir_.Value("extractelement {} {}, i64 {}", type, value, first);
  std::string order;
  for (int i = 0; i < lanes / 2; ++i) {
    order += fmt::format("{}i32 {}", i == 0 ? "" : ", ", first + i);
  }
  return ir_.Value("shufflevector {} {}, {} poison, <{} x i32> <{}>", type, value, type, lanes / 2,
                   order);
}

// ---- lanes along rows

void SumEmitter::BeginAccumulator(int stage, int lanes) {
  ForEach(stage, [&](size_t i, const Instr& instr, int) {
    Store(i, lanes, values_.Identity(instr.reduce, instr.dtype, lanes), other_sums_[i]);
  });
}

void SumEmitter::AddToAccumulator(size_t i, int lanes, const std::string& x) {
  const Instr& instr = kernel_.instrs[i];
  std::string sum = Load(i, lanes, other_sums_[i]);
  Store(i, lanes, values_.Combine(instr.reduce, instr.dtype, lanes, sum, x), other_sums_[i]);
}

void SumEmitter::EndAccumulator(int stage, int lanes, const std::string& number) {
  ForEach(stage, [&](size_t i, const Instr& instr, int) {
    std::string sum = Load(i, lanes, other_sums_[i]);
    Store(i, lanes, sum, At(sums_[i], instr.dtype, lanes, number));
  });
}

void SumEmitter::FinishStrip(int stage, int lanes) {
  constexpr int kLevels = 6;
  static_assert(1 << kLevels == kAccumulators);
  ForEach(stage, [&](size_t i, const Instr& instr, int) {
    blocks_.Loop("0", Number(kLevels), 1, [&](const std::string& level) {
      std::string half = ir_.Value("lshr i64 {}, {}", kAccumulators / 2, level);
      blocks_.Loop("0", half, 1, [&](const std::string& j) {
        std::string low = At(sums_[i], instr.dtype, lanes, j);
        std::string high = At(sums_[i], instr.dtype, lanes, ir_.Value("add i64 {}, {}", j, half));
        Store(i, lanes,
              values_.Combine(instr.reduce, instr.dtype, lanes, Load(i, lanes, low),
                              Load(i, lanes, high)),
              low);
      });
    });
  });
}

std::string SumEmitter::SumOfStrip(size_t i, int lanes) {
  return Load(i, lanes, At(sums_[i], kernel_.instrs[i].dtype, lanes, "0"));
}

}  // namespace hammock::cpu
