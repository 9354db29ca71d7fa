#include "backends/cpu/emit/emit_access.h"

#include <algorithm>
#include <cstddef>

#include "backends/cpu/emit/emit_blocks.h"
#include "backends/cpu/emit/kernel_call.h"
#include "base/throw.h"

namespace hammock::cpu {

using compiler::Access;
using compiler::Instr;
using compiler::IrType;
using compiler::Stride;

namespace {

std::string StrideConstant(Stride stride) { return stride == Stride::kOne ? "1" : "0"; }

/// Of the name of an intrinsic: "v16f32".
std::string Suffix(DType dtype, int lanes) {
  std::string_view element = MemoryElement(dtype);
  std::string name = element == "float"    ? "f32"
                     : element == "double" ? "f64"
                     : element == "half"   ? "f16"
                                           : std::string(element);
  return fmt::format("v{}{}", lanes, name);
}

std::string MaskOrAll(const Spot& spot) {
  return spot.mask.empty() ? "splat (i1 true)" : spot.mask;
}

}  // namespace

std::string AccessEmitter::Argument(size_t offset, std::string_view type) {
  std::string at = ir_.Value("getelementptr i8, ptr %args, i64 {}", offset);
  return ir_.Value("load {}, ptr {}, align 8", type, at);
}

void AccessEmitter::LoadArguments() {
  rows_ = Argument(offsetof(KernelArgs, rows), "i64");
  columns_ = Argument(offsetof(KernelArgs, columns), "i64");
  std::string pointers = Argument(offsetof(KernelArgs, pointers), "ptr");
  std::string row_strides = Argument(offsetof(KernelArgs, row_strides), "ptr");
  std::string column_strides = Argument(offsetof(KernelArgs, column_strides), "ptr");
  std::string functions = Argument(offsetof(KernelArgs, lane_functions), "ptr");
  ir_.Line("%functions = getelementptr i8, ptr {}, i64 0", functions);
  auto element = [&](std::string_view type, const std::string& list, size_t i) {
    std::string at = ir_.Value("getelementptr i64, ptr {}, i64 {}", list, i);
    return ir_.Value("load {}, ptr {}, align 8", type, at);
  };
  for (size_t i = 0; i < kernel_.accesses.size(); ++i) {
    const Access& access = kernel_.accesses[i];
    pointer_.push_back(element(IsNumber(i) ? "i64" : "ptr", pointers, i));
    bool row = access.row == Stride::kAny, column = access.column == Stride::kAny;
    row_stride_.push_back(row ? element("i64", row_strides, i) : StrideConstant(access.row));
    column_stride_.push_back(column ? element("i64", column_strides, i)
                                    : StrideConstant(access.column));
  }
  row_pointer_ = pointer_;
}

/// Whether it is no memory.
bool AccessEmitter::IsNumber(size_t access) const {
  Access::Kind kind = kernel_.accesses[access].kind;
  return kind == Access::Kind::kIndex || kind == Access::Kind::kConstant;
}

void AccessEmitter::MoveToRow(const std::string& row) {
  for (size_t i = 0; i < kernel_.accesses.size(); ++i) {
    const Access& access = kernel_.accesses[i];
    if (access.row == Stride::kZero) continue;
    std::string distance = ir_.Value("mul i64 {}, {}", row, row_stride_[i]);
    row_pointer_[i] = IsNumber(i) ? ir_.Value("add i64 {}, {}", pointer_[i], distance)
                                  : At(pointer_[i], access.dtype, distance);
  }
}

std::string AccessEmitter::At(const std::string& pointer, DType dtype,
                              const std::string& distance) {
  return ir_.Value("getelementptr {}, ptr {}, i64 {}", MemoryElement(dtype), pointer, distance);
}

AccessEmitter::Address AccessEmitter::AddressOf(const Instr& instr, const Spot& spot) {
  size_t i = instr.access;
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
  if (access.kind == Access::Kind::kScratch) {  // a vector for each column
    std::string column = spot.column.empty() ? "0" : spot.column;
    std::string distance = ir_.Value("mul i64 {}, {}", column, spot.lanes);
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

std::string AccessEmitter::LanePointers(const Address& address, DType dtype, int lanes) {
  std::string stride = values_.Splat(address.stride, DType::kI64, lanes);
  std::string distance =
      ir_.Value("mul <{} x i64> {}, {}", lanes, stride, LaneNumbers("i64", lanes));
  return ir_.Value("getelementptr {}, ptr {}, <{} x i64> {}", MemoryElement(dtype), address.pointer,
                   lanes, distance);
}

std::string AccessEmitter::Load(const Instr& instr, const Spot& spot) {
  DType dtype = instr.dtype;
  int bytes = InfoOf(dtype).bits / 8, lanes = spot.lanes;
  Address address = AddressOf(instr, spot);
  std::string_view element = MemoryElement(dtype);
  if (lanes == 1 || address.lanes == Stride::kZero) {
    std::string one = ir_.Value("load {}, ptr {}, align {}", element, address.pointer, bytes);
    std::string value = values_.FromMemory(one, dtype, 1);
    return lanes == 1 ? value : values_.Splat(value, dtype, lanes);
  }
  std::string type = IrType(element, lanes), suffix = Suffix(dtype, lanes);
  std::string value;
  if (address.lanes == Stride::kOne && spot.mask.empty()) {
    value = ir_.Value("load {}, ptr {}, align {}", type, address.pointer, bytes);
  } else if (address.lanes == Stride::kOne) {
    ir_.Declare(fmt::format("declare {} @llvm.masked.load.{}.p0(ptr, i32, <{} x i1>, {})", type,
                            suffix, lanes, type));
    value = ir_.Value(
        "call {} @llvm.masked.load.{}.p0(ptr {}, i32 {}, <{} x i1> {}, {} zeroinitializer)", type,
        suffix, address.pointer, bytes, lanes, spot.mask, type);
  } else {
    ir_.Declare(
        fmt::format("declare {} @llvm.masked.gather.{}.v{}p0(<{} x ptr>, i32, <{} x i1>, {})", type,
                    suffix, lanes, lanes, lanes, type));
    value = ir_.Value(
        "call {} @llvm.masked.gather.{}.v{}p0(<{} x ptr> {}, i32 {}, <{} x i1> {}, {} "
        "zeroinitializer)",
        type, suffix, lanes, lanes, LanePointers(address, dtype, lanes), bytes, lanes,
        MaskOrAll(spot), type);
  }
  return values_.FromMemory(value, dtype, lanes);
}

void AccessEmitter::Store(const Instr& instr, const Spot& spot, const std::string& unstored) {
  DType dtype = instr.dtype;
  int bytes = InfoOf(dtype).bits / 8, lanes = spot.lanes;
  Address address = AddressOf(instr, spot);
  std::string value = values_.ToMemory(unstored, dtype, lanes);
  std::string type = IrType(MemoryElement(dtype), lanes), suffix = Suffix(dtype, lanes);
  HAMMOCK_CHECK(lanes == 1 || address.lanes != Stride::kZero, "lanes stored to one element");
  bool whole = lanes == 1 || (address.lanes == Stride::kOne && spot.mask.empty());
  if (whole && lanes > 1 && kernel_.accesses[instr.access].streams) {
    ir_.Declare("!0 = !{i32 1}");
    ir_.Line("store {} {}, ptr {}, align {}, !nontemporal !0", type, value, address.pointer,
             std::min(lanes * bytes, 64));
  } else if (whole) {
    ir_.Line("store {} {}, ptr {}, align {}", type, value, address.pointer, bytes);
  } else if (address.lanes == Stride::kOne) {
    ir_.Declare(fmt::format("declare void @llvm.masked.store.{}.p0({}, ptr, i32, <{} x i1>)",
                            suffix, type, lanes));
    ir_.Line("call void @llvm.masked.store.{}.p0({} {}, ptr {}, i32 {}, <{} x i1> {})", suffix,
             type, value, address.pointer, bytes, lanes, spot.mask);
  } else {
    ir_.Declare(
        fmt::format("declare void @llvm.masked.scatter.{}.v{}p0({}, <{} x ptr>, i32, <{} x i1>)",
                    suffix, lanes, type, lanes, lanes));
    ir_.Line("call void @llvm.masked.scatter.{}.v{}p0({} {}, <{} x ptr> {}, i32 {}, <{} x i1> {})",
             suffix, lanes, type, value, lanes, LanePointers(address, dtype, lanes), bytes, lanes,
             MaskOrAll(spot));
  }
}

void AccessEmitter::Prefetch(const Instr& instr, const Spot& spot, bool next_row) {
  constexpr int kLine = 64;
  std::string pointer = AddressOf(instr, spot).pointer;
  if (next_row) pointer = At(pointer, instr.dtype, row_stride_[instr.access]);
  int writes = instr.kind == Instr::Kind::kStore;
  ir_.Declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)");
  for (int byte = 0; byte < spot.lanes * InfoOf(instr.dtype).bits / 8; byte += kLine) {
    std::string at = ir_.Value("getelementptr i8, ptr {}, i64 {}", pointer, byte);
    ir_.Line("call void @llvm.prefetch.p0(ptr {}, i32 {}, i32 3, i32 1)", at, writes);
  }
}

std::string AccessEmitter::Position(const Instr& instr, const Spot& spot) {
  size_t i = instr.access;
  const Access& access = kernel_.accesses[i];
  std::string base = row_pointer_[i];
  if (kernel_.lanes_along_rows && access.row != Stride::kZero) {
    base = ir_.Value("add i64 {}, {}", base, ir_.Value("mul i64 {}, {}", spot.row, row_stride_[i]));
  }
  if (!spot.column.empty() && access.column != Stride::kZero) {
    base = ir_.Value("add i64 {}, {}", base,
                     ir_.Value("mul i64 {}, {}", spot.column, column_stride_[i]));
  }
  if (spot.lanes == 1) return base;
  std::string all = values_.Splat(base, DType::kI64, spot.lanes);
  Stride lanes = kernel_.lanes_along_rows ? access.row : access.column;
  if (lanes == Stride::kZero) return all;
  const std::string& stride = kernel_.lanes_along_rows ? row_stride_[i] : column_stride_[i];
  std::string steps =
      ir_.Value("mul <{} x i64> {}, {}", spot.lanes, values_.Splat(stride, DType::kI64, spot.lanes),
                LaneNumbers("i64", spot.lanes));
  return ir_.Value("add <{} x i64> {}, {}", spot.lanes, all, steps);
}

}  // namespace hammock::cpu
