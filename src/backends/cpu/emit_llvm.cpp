#include "backends/cpu/emit_llvm.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

#include "backends/cpu/kernel_call.h"
#include "base/throw.h"
#include "compiler/ir_number.h"
#include "compiler/reduce_bodies.h"
#include "compiler/scalar_bodies.h"

namespace hammock::cpu {
namespace {

using compiler::Access;
using compiler::Instr;
using compiler::IrConstant;
using compiler::IrMask;
using compiler::IrNumber;
using compiler::IrText;
using compiler::IrType;
using compiler::kAccumulators;
using compiler::Kernel;
using compiler::Level;
using compiler::ReduceFn;
using compiler::ScalarForm;
using compiler::Stride;
using Kind = Instr::Kind;

constexpr int kLanes = 16;
constexpr int kVectorsOfSum = kAccumulators / kLanes;
constexpr int kShortBody = 24;  // instructions up to which a loop does two vectors at once
constexpr int kRowVectors = kMaxRowLanes / kLanes;

size_t Index(int i) { return static_cast<size_t>(i); }

bool IsNarrowFloat(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

/// The element type of values in registers.
std::string_view RegisterElement(DType dtype) {
  if (dtype == DType::kBool) return "i1";
  if (IsNarrowFloat(dtype)) return "float";
  return compiler::IrElement(dtype);
}

std::string_view MemoryElement(DType dtype) {
  if (dtype == DType::kBool) return "i8";
  if (dtype == DType::kBF16) return "i16";
  return compiler::IrElement(dtype);
}

/// Calls `f(T{})` with the type that values of `dtype` are computed in; not for bool.
template <class F>
auto VisitComputed(DType dtype, F f) {
  switch (dtype) {
    case DType::kU8:
      return f(uint8_t{});
    case DType::kU16:
      return f(uint16_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    default:
      Throw<InternalError>(ErrorCode::kInternal, "no values of {}", NameOf(dtype));
  }
}

/// Prints what instructions compute; knows nothing of loops.
class ValueEmitter {
 public:
  explicit ValueEmitter(IrText& ir) : ir_(ir) {}

  static std::string TypeOf(DType dtype, int lanes) {
    return IrType(RegisterElement(dtype), lanes);
  }

  /// A value whose bits are the lowest of an i64.
  std::string FromBits(const std::string& bits, DType dtype) {
    int width = InfoOf(dtype).bits;
    std::string narrow = width == 64 ? bits : ir_.Value("trunc i64 {} to i{}", bits, width);
    std::string_view element = MemoryElement(dtype);
    if (IsFloat(dtype) && dtype != DType::kBF16) {
      narrow = ir_.Value("bitcast i{} {} to {}", width, narrow, element);
    }
    return FromMemory(narrow, dtype, 1);
  }

  std::string Splat(const std::string& value, DType dtype) {
    std::string type = TypeOf(dtype, kLanes);
    std::string one =
        ir_.Value("insertelement {} poison, {} {}, i64 0", type, RegisterElement(dtype), value);
    return ir_.Value("shufflevector {} {}, {} poison, <{} x i32> zeroinitializer", type, one, type,
                     kLanes);
  }

  /// From the form that values have in memory.
  std::string FromMemory(const std::string& value, DType dtype, int lanes) {
    if (dtype == DType::kBool) {
      return ir_.Value("icmp ne {} {}, {}", IrType("i8", lanes), value,
                       IrConstant("i8", lanes, int64_t{0}));
    }
    if (dtype == DType::kF16) return Convert("fpext", "half", value, "float", lanes);
    if (dtype == DType::kBF16) {
      return compiler::FromBFloat16Bits(IrNumber<uint16_t>{&ir_, lanes, value}).name;
    }
    return value;
  }
  std::string ToMemory(const std::string& value, DType dtype, int lanes) {
    if (dtype == DType::kBool) return Convert("zext", "i1", value, "i8", lanes);
    if (dtype == DType::kF16) return Convert("fptrunc", "float", value, "half", lanes);
    if (dtype == DType::kBF16) {
      return compiler::ToBFloat16Bits(IrNumber<float>{&ir_, lanes, value}).name;
    }
    return value;
  }

  /// Rounds a float to a 16-bit one, where the dtype is one.
  std::string Rounded(const std::string& value, DType dtype, int lanes) {
    return IsNarrowFloat(dtype) ? FromMemory(ToMemory(value, dtype, lanes), dtype, lanes) : value;
  }

  std::string Scalar(const Instr& instr, DType operand_dtype, int lanes,
                     const std::vector<std::string>& operands) {
    if (instr.fn == ScalarFn::kSelect) {
      std::string type = TypeOf(instr.dtype, lanes);
      return ir_.Value("select {} {}, {} {}, {} {}", IrType("i1", lanes), operands[0], type,
                       operands[1], type, operands[2]);
    }
    if (!compiler::HasBody(instr.fn, operand_dtype)) {
      return LaneCalls(instr, operand_dtype, lanes, operands);
    }
    if (operand_dtype == DType::kBool) return BoolScalar(instr, lanes, operands);
    return VisitComputed(operand_dtype, [&](auto zero) {
      using N = IrNumber<decltype(zero)>;
      N x{&ir_, lanes, operands[0]};
      N y{&ir_, lanes, operands.size() > 1 ? operands[1] : operands[0]};
      switch (compiler::FormOf(instr.fn)) {
        case ScalarForm::kUnary:
          return Rounded(compiler::Unary(instr.fn, x).name, instr.dtype, lanes);
        case ScalarForm::kBinary:
          return Rounded(compiler::Binary(instr.fn, x, y).name, instr.dtype, lanes);
        case ScalarForm::kTest:
          return compiler::Test(instr.fn, x).name;
        case ScalarForm::kCompare:
          return compiler::Compare(instr.fn, x, y).name;
        case ScalarForm::kOther:
          break;
      }
      return std::string();
    });
  }

  std::string Cast(const std::string& value, DType from, DType to, int lanes) {
    if (from == to) return value;
    std::string_view source = RegisterElement(from);
    std::string_view target = RegisterElement(to);
    if (to == DType::kBool) {
      return ir_.Value(
          "{} {} {}, {}", IsFloat(from) ? "fcmp une" : "icmp ne", IrType(source, lanes), value,
          IsFloat(from) ? IrConstant(source, lanes, 0.0) : IrConstant(source, lanes, int64_t{0}));
    }
    if (IsFloat(from) && IsFloat(to)) return FloatCast(value, from, to, lanes);
    if (IsFloat(from)) return FloatToInt(value, from, to, lanes);
    bool with_sign = InfoOf(from).kind == DTypeKind::kSigned;
    if (IsFloat(to)) {
      return Rounded(Convert(with_sign ? "sitofp" : "uitofp", source, value, target, lanes), to,
                     lanes);
    }
    int from_bits = from == DType::kBool ? 1 : InfoOf(from).bits;
    int to_bits = InfoOf(to).bits;
    if (from_bits == to_bits) return value;
    return Convert(to_bits < from_bits ? "trunc"
                   : with_sign         ? "sext"
                                       : "zext",
                   source, value, target, lanes);
  }

  std::string Bitcast(const std::string& value, DType from, DType to, int lanes) {
    std::string bits = ToMemory(value, from, lanes);
    if (MemoryElement(from) != MemoryElement(to)) {
      bits = Convert("bitcast", MemoryElement(from), bits, MemoryElement(to), lanes);
    }
    return FromMemory(bits, to, lanes);
  }

  std::string Combine(ReduceFn fn, DType dtype, int lanes, const std::string& sum,
                      const std::string& x) {
    if (dtype == DType::kBool) {
      return ir_.Value("{} {} {}, {}", fn == ReduceFn::kAny || fn == ReduceFn::kMax ? "or" : "and",
                       IrType("i1", lanes), sum, x);
    }
    return VisitComputed(dtype, [&](auto zero) {
      using N = IrNumber<decltype(zero)>;
      return compiler::Combine(fn, N{&ir_, lanes, sum}, N{&ir_, lanes, x}).name;
    });
  }

  std::string Identity(ReduceFn fn, DType dtype, int lanes) {
    if (dtype == DType::kBool) {
      bool value = fn == ReduceFn::kAll || fn == ReduceFn::kMin;
      return IrConstant("i1", lanes, int64_t{value});
    }
    return VisitComputed(dtype, [&](auto zero) {
      using T = decltype(zero);
      using Wide = std::conditional_t<std::floating_point<T>, double, int64_t>;
      return IrConstant(compiler::kIrElementOf<T>, lanes,
                        static_cast<Wide>(compiler::IdentityOf<T>(fn)));
    });
  }

 private:
  std::string Convert(std::string_view op, std::string_view from, const std::string& value,
                      std::string_view to, int lanes) {
    return ir_.Value("{} {} {} to {}", op, IrType(from, lanes), value, IrType(to, lanes));
  }

  std::string FloatCast(const std::string& value, DType from, DType to, int lanes) {
    if (from == DType::kF64) {
      return Rounded(Convert("fptrunc", "double", value, "float", lanes), to, lanes);
    }
    if (to == DType::kF64) return Convert("fpext", "float", value, "double", lanes);
    return Rounded(value, to, lanes);
  }

  /// Through i64; what that does not hold becomes its smallest value. u64 holds more.
  std::string FloatToInt(const std::string& value, DType from, DType to, int lanes) {
    std::string wide =
        from == DType::kF64 ? value : Convert("fpext", "float", value, "double", lanes);
    std::string type = IrType("double", lanes);
    auto within = [&](double low, double high) {
      std::string above =
          ir_.Value("fcmp oge {} {}, {}", type, wide, IrConstant("double", lanes, low));
      std::string below =
          ir_.Value("fcmp olt {} {}, {}", type, wide, IrConstant("double", lanes, high));
      return ir_.Value("and {} {}, {}", IrType("i1", lanes), above, below);
    };
    auto convert = [&](const std::string& holds, std::string_view op,
                       const std::string& otherwise) {
      std::string safe = ir_.Value("select {} {}, {} {}, {} {}", IrType("i1", lanes), holds, type,
                                   wide, type, IrConstant("double", lanes, 0.0));
      std::string number = Convert(op, "double", safe, "i64", lanes);
      std::string i64 = IrType("i64", lanes);
      return ir_.Value("select {} {}, {} {}, {} {}", IrType("i1", lanes), holds, i64, number, i64,
                       otherwise);
    };
    std::string result = convert(within(-0x1p63, 0x1p63), "fptosi",
                                 IrConstant("i64", lanes, std::numeric_limits<int64_t>::min()));
    if (to == DType::kU64) result = convert(within(0x1p63, 0x1p64), "fptoui", result);
    if (InfoOf(to).bits == 64) return result;
    return Convert("trunc", "i64", result, RegisterElement(to), lanes);
  }

  std::string BoolScalar(const Instr& instr, int lanes, const std::vector<std::string>& operands) {
    auto byte = [&](const std::string& value) {
      return IrNumber<uint8_t>{&ir_, lanes, Convert("zext", "i1", value, "i8", lanes)};
    };
    auto truth = [&](const IrNumber<uint8_t>& value) { return (value != Like(value, 0)).name; };
    IrNumber<uint8_t> x = byte(operands[0]);
    switch (compiler::FormOf(instr.fn)) {
      case ScalarForm::kUnary:
        return truth(compiler::UnaryBool(instr.fn, x));
      case ScalarForm::kBinary:
        return truth(compiler::BinaryBool(instr.fn, x, byte(operands[1])));
      case ScalarForm::kTest:
        return compiler::Test(instr.fn, x).name;
      case ScalarForm::kCompare:
        return compiler::Compare(instr.fn, x, byte(operands[1])).name;
      case ScalarForm::kOther:
        break;
    }
    return {};
  }

  /// One call per lane: of a function on doubles, or on 64-bit integers.
  std::string LaneCalls(const Instr& instr, DType dtype, int lanes,
                        const std::vector<std::string>& operands) {
    DType wide_dtype = IsFloat(dtype) ? DType::kF64 : DType::kI64;
    std::string_view element = RegisterElement(wide_dtype);
    std::string slot =
        ir_.Value("getelementptr ptr, ptr %functions, i64 {}", LaneFunctionIndex(instr.fn, dtype));
    std::string function = ir_.Value("load ptr, ptr {}, align 8", slot);
    std::vector<std::string> wide;
    for (const std::string& operand : operands) {
      wide.push_back(Cast(operand, dtype, wide_dtype, lanes));
    }
    std::string type = IrType(element, lanes);
    std::string result = "poison";
    for (int lane = 0; lane < lanes; ++lane) {
      std::string arguments;
      for (const std::string& value : wide) {
        std::string x =
            lanes == 1 ? value : ir_.Value("extractelement {} {}, i64 {}", type, value, lane);
        arguments += fmt::format("{}{} {}", arguments.empty() ? "" : ", ", element, x);
      }
      std::string y = ir_.Value("call {} {}({})", element, function, arguments);
      result = lanes == 1 ? y
                          : ir_.Value("insertelement {} {}, {} {}, i64 {}", type, result, element,
                                      y, lane);
    }
    return Cast(result, wide_dtype, instr.dtype, lanes);
  }

  IrText& ir_;
};

/// What surrounds an instruction: which vector of the loop body it is for.
struct Spot {
  int lanes = 1;
  std::string row;     // number of the first row; rows along lanes only
  std::string column;  // number of the (first) column; elements only
  std::string mask;    // empty: all lanes count
  int vector = 0;
};

class KernelEmitter {
 public:
  explicit KernelEmitter(const Kernel& kernel)
      : kernel_(kernel), values_(ir_), splat_(kernel.instrs.size()), names_(kernel.instrs.size()) {
    for (const Instr& instr : kernel.instrs) {
      for (int operand : instr.operands) {
        if (operand < 0) continue;
        bool by_element = instr.level == Level::kElement || instr.kind == Kind::kReduce;
        if (by_element && Row(operand)) splat_[Index(operand)] = true;
      }
    }
  }

  std::string Emit() {
    ir_.BeginFunction("void @kernel(ptr noalias %args)");
    ir_.Label("entry");
    LoadArguments();
    if (kernel_.lanes_along_rows) {
      EmitStrips();
    } else {
      EmitRows();
    }
    if (Streams()) {  // others must see what was written past the caches
      ir_.Declare("declare void @llvm.x86.sse.sfence()");
      ir_.Line("call void @llvm.x86.sse.sfence()");
    }
    ir_.Line("ret void");
    ir_.EndFunction();
    return ir_.Module();
  }

 private:
  bool Streams() const {
    return std::any_of(kernel_.accesses.begin(), kernel_.accesses.end(),
                       [](const Access& access) { return access.streams; });
  }

  /// The names of one instruction's value: for each vector of a loop body, and as a scalar.
  struct Names {
    std::string vectors[kRowVectors];
    std::string scalar;
  };

  /// Whether its value is known before the loop of its stage.
  bool Row(int instr) const {
    const Instr& i = kernel_.instrs[Index(instr)];
    return i.level == Level::kRow;
  }
  /// The stage from which on its value is known to rows.
  static int KnownFrom(const Instr& instr) { return instr.stage + (instr.kind == Kind::kReduce); }

  // ---- arguments

  std::string Argument(size_t offset, std::string_view type) {
    std::string at = ir_.Value("getelementptr i8, ptr %args, i64 {}", offset);
    return ir_.Value("load {}, ptr {}, align 8", type, at);
  }

  void LoadArguments() {
    rows_ = Argument(offsetof(KernelArgs, rows), "i64");
    columns_ = Argument(offsetof(KernelArgs, columns), "i64");
    std::string pointers = Argument(offsetof(KernelArgs, pointers), "ptr");
    std::string row_strides = Argument(offsetof(KernelArgs, row_strides), "ptr");
    std::string column_strides = Argument(offsetof(KernelArgs, column_strides), "ptr");
    functions_ = Argument(offsetof(KernelArgs, lane_functions), "ptr");
    ir_.Line("%functions = getelementptr i8, ptr {}, i64 0", functions_);
    auto element = [&](std::string_view type, const std::string& list, size_t i) {
      std::string at = ir_.Value("getelementptr i64, ptr {}, i64 {}", list, i);
      return ir_.Value("load {}, ptr {}, align 8", type, at);
    };
    for (size_t i = 0; i < kernel_.accesses.size(); ++i) {
      const Access& access = kernel_.accesses[i];
      pointer_.push_back(element(IsNumber(i) ? "i64" : "ptr", pointers, i));
      bool row = access.row != Stride::kZero && access.row != Stride::kOne;
      bool column = access.column != Stride::kZero && access.column != Stride::kOne;
      row_stride_.push_back(row ? element("i64", row_strides, i) : StrideConstant(access.row));
      column_stride_.push_back(column ? element("i64", column_strides, i)
                                      : StrideConstant(access.column));
    }
    row_pointer_ = pointer_;
  }

  static std::string StrideConstant(Stride stride) { return stride == Stride::kOne ? "1" : "0"; }

  /// Whether it is no memory.
  bool IsNumber(size_t access) const {
    Access::Kind kind = kernel_.accesses[access].kind;
    return kind == Access::Kind::kIndex || kind == Access::Kind::kConstant;
  }

  // ---- loops

  /// for (i = first; i < end; i += step) body(i). `first` is a number; the body may make blocks.
  template <class Body>
  void Loop(const std::string& first, const std::string& end, int64_t step, Body body) {
    std::string name = ir_.NewName("loop");
    std::string before = ir_.NewName("before");
    ir_.Line("br label %{}", before);
    ir_.Label(before);
    std::string any = ir_.Value("icmp slt i64 {}, {}", first, end);
    ir_.Line("br i1 {}, label %{}, label %{}_end", any, name, name);
    ir_.Label(name);
    ir_.Line("%{}_i = phi i64 [ {}, %{} ], [ %{}_next, %{}_latch ]", name, first, before, name,
             name);
    body("%" + name + "_i");
    ir_.Line("br label %{}_latch", name);
    ir_.Label(name + "_latch");
    ir_.Line("%{}_next = add i64 %{}_i, {}", name, name, step);
    std::string again = ir_.Value("icmp slt i64 %{}_next, {}", name, end);
    ir_.Line("br i1 {}, label %{}, label %{}_end", again, name, name);
    ir_.Label(name + "_end");
  }

  template <class Body>
  void If(const std::string& condition, Body body) {
    std::string name = ir_.NewName("if");
    ir_.Line("br i1 {}, label %{}, label %{}_end", condition, name, name);
    ir_.Label(name);
    body();
    ir_.Line("br label %{}_end", name);
    ir_.Label(name + "_end");
  }

  std::string RoundedDown(const std::string& count, int64_t to) {
    return ir_.Value("and i64 {}, {}", count, -to);
  }

  /// Lanes of the vector at `first` that lie below `end`.
  std::string Mask(const std::string& first, const std::string& end) {
    std::string left = ir_.Value("sub i64 {}, {}", end, first);
    std::string all = values_.Splat(left, DType::kI64);
    return ir_.Value("icmp sgt <{} x i64> {}, {}", kLanes, all, LaneNumbers());
  }

  static std::string LaneNumbers() {
    std::string text = "<";
    for (int i = 0; i < kLanes; ++i) text += fmt::format("{}i64 {}", i == 0 ? "" : ", ", i);
    return text + ">";
  }

  // ---- lanes along columns

  void EmitRows() {
    MakeAccumulators(kVectorsOfSum);
    Loop("0", rows_, 1, [&](const std::string& row) {
      for (size_t i = 0; i < kernel_.accesses.size(); ++i) MoveToRow(i, row);
      for (int stage = 0; stage < kernel_.stages; ++stage) {
        EmitRowValues(stage, Spot{});
        if (HasLoop(stage)) EmitColumns(stage);
      }
    });
  }

  void MoveToRow(size_t i, const std::string& row) {
    const Access& access = kernel_.accesses[i];
    if (access.row == Stride::kZero) return;
    std::string distance = ir_.Value("mul i64 {}, {}", row, row_stride_[i]);
    row_pointer_[i] = IsNumber(i) ? ir_.Value("add i64 {}, {}", pointer_[i], distance)
                                  : At(pointer_[i], access.dtype, distance);
  }

  std::string At(const std::string& pointer, DType dtype, const std::string& distance) {
    return ir_.Value("getelementptr {}, ptr {}, i64 {}", MemoryElement(dtype), pointer, distance);
  }

  bool InLoop(const Instr& instr, int stage) const {
    return instr.stage == stage && (instr.level == Level::kElement || instr.kind == Kind::kReduce);
  }

  bool HasLoop(int stage) const {
    for (const Instr& instr : kernel_.instrs) {
      if (InLoop(instr, stage)) return true;
    }
    return false;
  }

  int LoopSize(int stage) const {
    int size = 0;
    for (const Instr& instr : kernel_.instrs) size += InLoop(instr, stage);
    return size;
  }

  bool Reduces(int stage) const {
    for (const Instr& instr : kernel_.instrs) {
      if (instr.kind == Kind::kReduce && instr.stage == stage) return true;
    }
    return false;
  }

  void EmitRowValues(int stage, const Spot& spot) {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.level != Level::kRow || KnownFrom(instr) != stage) continue;
      if (instr.kind == Kind::kReduce) {
        FinishSum(i, spot);
      } else {
        EmitInstr(i, spot);
      }
      if (spot.lanes == 1 && splat_[i]) {
        std::string all = values_.Splat(names_[i].scalar, instr.dtype);
        for (std::string& name : names_[i].vectors) name = all;
      }
    }
  }

  void EmitColumns(int stage) {
    bool reduces = Reduces(stage);
    int vectors = reduces || LoopSize(stage) <= kShortBody ? kVectorsOfSum : 1;
    if (reduces) ClearAccumulators(stage, kVectorsOfSum);
    std::string whole = RoundedDown(columns_, int64_t{vectors} * kLanes);
    auto body = [&](const std::string& column, bool masked) {
      for (int v = 0; v < vectors; ++v) {
        Spot spot;
        spot.lanes = kLanes;
        spot.vector = v;
        spot.column = v == 0 ? column : ir_.Value("add i64 {}, {}", column, v * kLanes);
        if (masked) spot.mask = Mask(spot.column, columns_);
        EmitLoopBody(stage, spot, fmt::format("{}", v));
      }
    };
    Loop("0", whole, int64_t{vectors} * kLanes, [&](const std::string& c) { body(c, false); });
    std::string rest = ir_.Value("icmp slt i64 {}, {}", whole, columns_);
    If(rest, [&] { body(whole, true); });
  }

  void EmitLoopBody(int stage, const Spot& spot, const std::string& accumulator) {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (!InLoop(instr, stage)) continue;
      if (instr.kind == Kind::kReduce) {
        AddToSum(i, spot, accumulator);
      } else {
        EmitInstr(i, spot);
      }
    }
  }

  // ---- lanes along rows

  void EmitStrips() {
    int vectors = kernel_.stages <= 2 && kernel_.instrs.size() <= kShortBody ? kRowVectors : 1;
    MakeAccumulators(kAccumulators * vectors);
    std::string whole = RoundedDown(rows_, int64_t{vectors} * kLanes);
    Loop("0", whole, int64_t{vectors} * kLanes,
         [&](const std::string& row) { EmitStrip(row, vectors, false); });
    Loop(whole, rows_, kLanes, [&](const std::string& row) { EmitStrip(row, 1, true); });
  }

  void EmitStrip(const std::string& row, int vectors, bool masked) {
    std::vector<Spot> spots(Index(vectors));
    for (int v = 0; v < vectors; ++v) {
      Spot& spot = spots[Index(v)];
      spot.lanes = kLanes;
      spot.vector = v;
      spot.row = v == 0 ? row : ir_.Value("add i64 {}, {}", row, v * kLanes);
      if (masked) spot.mask = Mask(spot.row, rows_);
    }
    strip_vectors_ = vectors;
    for (int stage = 0; stage < kernel_.stages; ++stage) {
      for (const Spot& spot : spots) EmitRowValues(stage, spot);
      if (!HasLoop(stage)) continue;
      if (Reduces(stage)) ClearAccumulators(stage, kAccumulators * vectors);
      Loop("0", columns_, 1, [&](const std::string& column) {
        std::string slot = ir_.Value("and i64 {}, {}", column, kAccumulators - 1);
        std::string first = ir_.Value("mul i64 {}, {}", slot, vectors);
        for (Spot& spot : spots) {
          spot.column = column;
          EmitLoopBody(stage, spot, ir_.Value("add i64 {}, {}", first, spot.vector));
        }
      });
      if (Reduces(stage)) CombineStrips(stage, vectors);
    }
  }

  // ---- accumulators: memory on the stack, which LLVM keeps in registers where it can

  void MakeAccumulators(int vectors) {
    accumulators_.resize(kernel_.instrs.size());
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.kind != Kind::kReduce) continue;
      accumulators_[i] = ir_.Value("alloca [{} x {}], align 64", vectors, SumType(instr.dtype));
    }
  }

  /// i1 vectors are packed in memory, so truth values are bytes there.
  static std::string SumType(DType dtype) {
    return IrType(dtype == DType::kBool ? "i8" : RegisterElement(dtype), kLanes);
  }

  std::string AccumulatorAt(size_t i, const std::string& number) {
    return ir_.Value("getelementptr {}, ptr {}, i64 {}", SumType(kernel_.instrs[i].dtype),
                     accumulators_[i], number);
  }
  std::string LoadSum(size_t i, const std::string& pointer) {
    DType dtype = kernel_.instrs[i].dtype;
    std::string value = ir_.Value("load {}, ptr {}, align 64", SumType(dtype), pointer);
    return dtype == DType::kBool ? values_.FromMemory(value, dtype, kLanes) : value;
  }
  void StoreSum(size_t i, const std::string& value, const std::string& pointer) {
    DType dtype = kernel_.instrs[i].dtype;
    std::string stored = dtype == DType::kBool ? values_.ToMemory(value, dtype, kLanes) : value;
    ir_.Line("store {} {}, ptr {}, align 64", SumType(dtype), stored, pointer);
  }

  void ClearAccumulators(int stage, int vectors) {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.kind != Kind::kReduce || instr.stage != stage) continue;
      std::string identity = values_.Identity(instr.reduce, instr.dtype, kLanes);
      if (vectors <= kVectorsOfSum) {
        for (int v = 0; v < vectors; ++v) {
          StoreSum(i, identity, AccumulatorAt(i, fmt::format("{}", v)));
        }
      } else {
        Loop("0", fmt::format("{}", vectors), 1,
             [&](const std::string& v) { StoreSum(i, identity, AccumulatorAt(i, v)); });
      }
    }
  }

  void AddToSum(size_t i, const Spot& spot, const std::string& accumulator) {
    const Instr& instr = kernel_.instrs[i];
    std::string x = names_[Index(instr.operands[0])].vectors[spot.vector];
    std::string pointer = AccumulatorAt(i, accumulator);
    std::string sum = LoadSum(i, pointer);
    std::string result = values_.Combine(instr.reduce, instr.dtype, kLanes, sum, x);
    if (!spot.mask.empty() && !kernel_.lanes_along_rows) {
      std::string type = ValueEmitter::TypeOf(instr.dtype, kLanes);
      result = ir_.Value("select <{} x i1> {}, {} {}, {} {}", kLanes, spot.mask, type, result, type,
                         sum);
    }
    StoreSum(i, result, pointer);
  }

  /// Accumulator j is combined with j + 16, j + 8, ...: see Note [Reductions].
  void CombineStrips(int stage, int vectors) {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.kind != Kind::kReduce || instr.stage != stage) continue;
      for (int half = kAccumulators / 2; half >= 1; half /= 2) {
        Loop("0", fmt::format("{}", half * vectors), 1, [&](const std::string& j) {
          std::string low = AccumulatorAt(i, j);
          std::string high = AccumulatorAt(i, ir_.Value("add i64 {}, {}", j, half * vectors));
          StoreSum(
              i,
              values_.Combine(instr.reduce, instr.dtype, kLanes, LoadSum(i, low), LoadSum(i, high)),
              low);
        });
      }
    }
  }

  void FinishSum(size_t i, const Spot& spot) {
    const Instr& instr = kernel_.instrs[i];
    if (kernel_.lanes_along_rows) {
      names_[i].vectors[spot.vector] = LoadSum(i, AccumulatorAt(i, fmt::format("{}", spot.vector)));
      return;
    }
    std::string sum = LoadSum(i, AccumulatorAt(i, "0"));
    for (int v = 1; v < kVectorsOfSum; ++v) {
      sum = values_.Combine(instr.reduce, instr.dtype, kLanes, sum,
                            LoadSum(i, AccumulatorAt(i, fmt::format("{}", v))));
    }
    static_assert(kVectorsOfSum == 2, "the tree begins with j and j + 16");
    std::string_view element = RegisterElement(instr.dtype);
    for (int lanes = kLanes; lanes > 1; lanes /= 2) {
      std::string low = Half(sum, element, lanes, 0);
      std::string high = Half(sum, element, lanes, lanes / 2);
      sum = values_.Combine(instr.reduce, instr.dtype, lanes / 2, low, high);
    }
    names_[i].scalar = sum;
  }

  /// Lanes [first, first + lanes / 2); of two lanes, one of them.
  std::string Half(const std::string& value, std::string_view element, int lanes, int first) {
    std::string type = IrType(element, lanes);
    if (lanes == 2) return ir_.Value("extractelement {} {}, i64 {}", type, value, first);
    std::string order;
    for (int i = 0; i < lanes / 2; ++i) {
      order += fmt::format("{}i32 {}", i == 0 ? "" : ", ", first + i);
    }
    return ir_.Value("shufflevector {} {}, {} poison, <{} x i32> <{}>", type, value, type,
                     lanes / 2, order);
  }

  // ---- instructions

  void EmitInstr(size_t i, const Spot& spot) {
    const Instr& instr = kernel_.instrs[i];
    if (instr.kind == Kind::kStore) return EmitStore(instr, spot);
    std::string value;
    switch (instr.kind) {
      case Kind::kLoad:
        value = EmitLoad(instr, spot);
        break;
      case Kind::kIndex:
        value = EmitIndex(instr, spot);
        break;
      case Kind::kConstant:
        value = values_.FromBits(pointer_[Index(instr.access)], instr.dtype);
        if (spot.lanes > 1) value = values_.Splat(value, instr.dtype);
        break;
      case Kind::kScalar:
        value =
            values_.Scalar(instr, DTypeOf(instr.operands[0]), spot.lanes, Operands(instr, spot));
        break;
      case Kind::kCast:
        value = values_.Cast(Operand(instr, 0, spot), DTypeOf(instr.operands[0]), instr.dtype,
                             spot.lanes);
        break;
      case Kind::kBitcast:
        value = values_.Bitcast(Operand(instr, 0, spot), DTypeOf(instr.operands[0]), instr.dtype,
                                spot.lanes);
        break;
      case Kind::kStore:
      case Kind::kReduce:
        break;
    }
    if (spot.lanes == 1) {
      names_[i].scalar = value;
    } else {
      names_[i].vectors[spot.vector] = value;
    }
  }

  DType DTypeOf(int instr) const { return kernel_.instrs[Index(instr)].dtype; }

  std::string Operand(const Instr& instr, int which, const Spot& spot) const {
    const Names& names = names_[Index(instr.operands[which])];
    return spot.lanes == 1 ? names.scalar : names.vectors[spot.vector];
  }

  std::vector<std::string> Operands(const Instr& instr, const Spot& spot) const {
    std::vector<std::string> operands;
    for (int which = 0; which < 3 && instr.operands[which] >= 0; ++which) {
      operands.push_back(Operand(instr, which, spot));
    }
    return operands;
  }

  /// Where an access lies for one vector: its first element, and how lanes go on from there.
  struct Address {
    std::string pointer;
    Stride lanes = Stride::kZero;  // kZero: all lanes have the same element
    std::string stride;
  };

  Address AddressOf(const Instr& instr, const Spot& spot) {
    size_t i = Index(instr.access);
    const Access& access = kernel_.accesses[i];
    if (!kernel_.lanes_along_rows) {
      Address address = {row_pointer_[i], access.column, column_stride_[i]};
      if (!spot.column.empty() && access.column != Stride::kZero) {
        std::string distance = access.column == Stride::kOne
                                   ? spot.column
                                   : ir_.Value("mul i64 {}, {}", spot.column, column_stride_[i]);
        address.pointer = At(address.pointer, access.dtype, distance);
      }
      return address;
    }
    if (access.kind == Access::Kind::kScratch) {
      std::string vector = ir_.Value("mul i64 {}, {}", spot.column.empty() ? "0" : spot.column,
                                     strip_vectors_ * kLanes);
      std::string distance = ir_.Value("add i64 {}, {}", vector, spot.vector * kLanes);
      return {At(pointer_[i], access.dtype, distance), Stride::kOne, ""};
    }
    Address address = {pointer_[i], access.row, row_stride_[i]};
    if (access.row != Stride::kZero) {
      std::string distance = access.row == Stride::kOne
                                 ? spot.row
                                 : ir_.Value("mul i64 {}, {}", spot.row, row_stride_[i]);
      address.pointer = At(address.pointer, access.dtype, distance);
    }
    if (!spot.column.empty() && access.column != Stride::kZero) {
      address.pointer = At(address.pointer, access.dtype,
                           ir_.Value("mul i64 {}, {}", spot.column, column_stride_[i]));
    }
    return address;
  }

  std::string LanePointers(const Address& address, DType dtype) {
    std::string stride = values_.Splat(address.stride, DType::kI64);
    std::string distance = ir_.Value("mul <{} x i64> {}, {}", kLanes, stride, LaneNumbers());
    return ir_.Value("getelementptr {}, ptr {}, <{} x i64> {}", MemoryElement(dtype),
                     address.pointer, kLanes, distance);
  }

  static std::string Suffix(DType dtype) {
    std::string_view element = MemoryElement(dtype);
    std::string name = element == "float"    ? "f32"
                       : element == "double" ? "f64"
                       : element == "half"   ? "f16"
                                             : std::string(element);
    return fmt::format("v{}{}", kLanes, name);
  }

  std::string MaskOrAll(const Spot& spot) const {
    return spot.mask.empty() ? "splat (i1 true)" : spot.mask;
  }

  std::string EmitLoad(const Instr& instr, const Spot& spot) {
    DType dtype = instr.dtype;
    int bytes = InfoOf(dtype).bits / 8;
    Address address = AddressOf(instr, spot);
    std::string_view element = MemoryElement(dtype);
    if (spot.lanes == 1 || address.lanes == Stride::kZero) {
      std::string one = ir_.Value("load {}, ptr {}, align {}", element, address.pointer, bytes);
      std::string value = values_.FromMemory(one, dtype, 1);
      return spot.lanes == 1 ? value : values_.Splat(value, dtype);
    }
    std::string type = IrType(element, kLanes);
    std::string value;
    if (address.lanes == Stride::kOne && spot.mask.empty()) {
      value = ir_.Value("load {}, ptr {}, align {}", type, address.pointer, bytes);
    } else if (address.lanes == Stride::kOne) {
      ir_.Declare(fmt::format("declare {} @llvm.masked.load.{}.p0(ptr, i32, <{} x i1>, {})", type,
                              Suffix(dtype), kLanes, type));
      value = ir_.Value(
          "call {} @llvm.masked.load.{}.p0(ptr {}, i32 {}, <{} x i1> {}, {} zeroinitializer)", type,
          Suffix(dtype), address.pointer, bytes, kLanes, spot.mask, type);
    } else {
      ir_.Declare(
          fmt::format("declare {} @llvm.masked.gather.{}.v{}p0(<{} x ptr>, i32, <{} x i1>, {})",
                      type, Suffix(dtype), kLanes, kLanes, kLanes, type));
      value = ir_.Value(
          "call {} @llvm.masked.gather.{}.v{}p0(<{} x ptr> {}, i32 {}, <{} x i1> {}, {} "
          "zeroinitializer)",
          type, Suffix(dtype), kLanes, kLanes, LanePointers(address, dtype), bytes, kLanes,
          MaskOrAll(spot), type);
    }
    return values_.FromMemory(value, dtype, kLanes);
  }

  void EmitStore(const Instr& instr, const Spot& spot) {
    DType dtype = instr.dtype;
    int bytes = InfoOf(dtype).bits / 8;
    Address address = AddressOf(instr, spot);
    std::string value = values_.ToMemory(Operand(instr, 0, spot), dtype, spot.lanes);
    std::string_view element = MemoryElement(dtype);
    if (spot.lanes == 1) {
      ir_.Line("store {} {}, ptr {}, align {}", element, value, address.pointer, bytes);
      return;
    }
    std::string type = IrType(element, kLanes);
    HAMMOCK_CHECK(address.lanes != Stride::kZero, "lanes stored to one element");
    if (address.lanes == Stride::kOne && spot.mask.empty()) {
      if (kernel_.accesses[Index(instr.access)].streams) {
        ir_.Declare("!0 = !{i32 1}");
        ir_.Line("store {} {}, ptr {}, align {}, !nontemporal !0", type, value, address.pointer,
                 std::min(kLanes * bytes, 64));
      } else {
        ir_.Line("store {} {}, ptr {}, align {}", type, value, address.pointer, bytes);
      }
    } else if (address.lanes == Stride::kOne) {
      ir_.Declare(fmt::format("declare void @llvm.masked.store.{}.p0({}, ptr, i32, <{} x i1>)",
                              Suffix(dtype), type, kLanes));
      ir_.Line("call void @llvm.masked.store.{}.p0({} {}, ptr {}, i32 {}, <{} x i1> {})",
               Suffix(dtype), type, value, address.pointer, bytes, kLanes, spot.mask);
    } else {
      ir_.Declare(
          fmt::format("declare void @llvm.masked.scatter.{}.v{}p0({}, <{} x ptr>, i32, <{} x i1>)",
                      Suffix(dtype), kLanes, type, kLanes, kLanes));
      ir_.Line(
          "call void @llvm.masked.scatter.{}.v{}p0({} {}, <{} x ptr> {}, i32 {}, <{} x i1> {})",
          Suffix(dtype), kLanes, type, value, kLanes, LanePointers(address, dtype), bytes, kLanes,
          MaskOrAll(spot));
    }
  }

  std::string EmitIndex(const Instr& instr, const Spot& spot) {
    size_t i = Index(instr.access);
    const Access& access = kernel_.accesses[i];
    std::string base = row_pointer_[i];
    if (kernel_.lanes_along_rows && access.row != Stride::kZero) {
      base =
          ir_.Value("add i64 {}, {}", base, ir_.Value("mul i64 {}, {}", spot.row, row_stride_[i]));
    }
    if (!spot.column.empty() && access.column != Stride::kZero) {
      base = ir_.Value("add i64 {}, {}", base,
                       ir_.Value("mul i64 {}, {}", spot.column, column_stride_[i]));
    }
    if (spot.lanes == 1) return base;
    std::string all = values_.Splat(base, DType::kI64);
    Stride lanes = kernel_.lanes_along_rows ? access.row : access.column;
    if (lanes == Stride::kZero) return all;
    const std::string& stride = kernel_.lanes_along_rows ? row_stride_[i] : column_stride_[i];
    std::string steps = ir_.Value("mul <{} x i64> {}, {}", kLanes,
                                  values_.Splat(stride, DType::kI64), LaneNumbers());
    return ir_.Value("add <{} x i64> {}, {}", kLanes, all, steps);
  }

  const Kernel& kernel_;
  IrText ir_;
  ValueEmitter values_;
  std::vector<bool> splat_;  // row values that elements use
  std::vector<Names> names_;
  std::string rows_, columns_, functions_;
  std::vector<std::string> pointer_, row_pointer_, row_stride_, column_stride_;
  std::vector<std::string> accumulators_;
  int strip_vectors_ = 1;
};

}  // namespace

std::string EmitLlvm(const Kernel& kernel) { return KernelEmitter(kernel).Emit(); }

}  // namespace hammock::cpu
