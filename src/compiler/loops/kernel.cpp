#include "hammock/compiler/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <string_view>

#include "base/throw.h"
#include "ir/id_format.h"

namespace hammock::compiler {

namespace {

const char* NameOf(Stride stride) {
  switch (stride) {
    case Stride::kZero:
      return "0";
    case Stride::kOne:
      return "1";
    case Stride::kAny:
      return "n";
  }
  return "?";
}

const char* NameOf(Access::Kind kind) {
  switch (kind) {
    case Access::Kind::kBuffer:
      return "";
    case Access::Kind::kScratch:
      return "scratch ";
    case Access::Kind::kIndex:
      return "index ";
    case Access::Kind::kConstant:
      return "constant ";
    case Access::Kind::kRandom:
      return "random ";
  }
  return "?";
}

void Append(std::string& text, std::string_view part) { text += part; }

template <std::integral Number>
void Append(std::string& text, Number number) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void AppendWhat(std::string& text, const Instr& instr) {
  auto add = [&](const auto&... parts) { (Append(text, parts), ...); };
  switch (instr.kind) {
    case Instr::Kind::kLoad:
      return add("load a", instr.access);
    case Instr::Kind::kStore:
      return add("store a", instr.access, ",");
    case Instr::Kind::kIndex:
      return add("index a", instr.access);
    case Instr::Kind::kConstant:
      return add("constant a", instr.access);
    case Instr::Kind::kScalar:
      return add(hammock::NameOf(instr.fn));
    case Instr::Kind::kCast:
      return add("cast");
    case Instr::Kind::kBitcast:
      return add("bitcast");
    case Instr::Kind::kReduce:
      return add("reduce_", NameOf(instr.reduce));
  }
}

}  // namespace

const char* NameOf(ReduceFn fn) {
  switch (fn) {
    case ReduceFn::kSum:
      return "sum";
    case ReduceFn::kProd:
      return "prod";
    case ReduceFn::kMax:
      return "max";
    case ReduceFn::kMin:
      return "min";
    case ReduceFn::kAny:
      return "any";
    case ReduceFn::kAll:
      return "all";
  }
  return "?";
}

bool Kernel::HasReduction() const {
  return std::any_of(instrs.begin(), instrs.end(),
                     [](const Instr& instr) { return instr.kind == Instr::Kind::kReduce; });
}

std::string FunctionName(const Kernel& kernel) {
  constexpr size_t kMost = 4;
  std::vector<std::string> ops;  // each once
  for (const Instr& instr : kernel.instrs) {
    const bool computes = instr.kind == Instr::Kind::kScalar || instr.kind == Instr::Kind::kCast ||
                          instr.kind == Instr::Kind::kReduce;
    if (!computes) continue;
    std::string op;
    AppendWhat(op, instr);
    if (std::ranges::find(ops, op) == ops.end()) ops.push_back(std::move(op));
  }
  if (ops.empty()) return "kernel_copy";
  std::string name = "kernel";
  for (size_t i = 0; i < std::min(ops.size(), kMost); ++i) name += "_" + ops[i];
  if (ops.size() > kMost) name += "_and_more";
  return name;
}

std::string ToText(const Kernel& kernel) {
  // Every launch is looked up by it, so it is put together without a formatter.
  std::string text = kernel.lanes_along_rows ? "kernel, lanes along rows\n" : "kernel\n";
  auto add = [&](const auto&... parts) { (Append(text, parts), ...); };
  for (size_t i = 0; i < kernel.accesses.size(); ++i) {
    const Access& access = kernel.accesses[i];
    add("  a", i, " = ", NameOf(access.kind), hammock::NameOf(access.dtype), " row ",
        NameOf(access.row), " column ", NameOf(access.column),
        access.streams ? " streams\n" : "\n");
  }
  for (size_t i = 0; i < kernel.instrs.size(); ++i) {
    const Instr& instr = kernel.instrs[i];
    add("  ", instr.stage, instr.level == Level::kRow ? " row: " : " all: ");
    if (instr.kind != Instr::Kind::kStore) add("%", i, " = ");
    AppendWhat(text, instr);
    const char* separator = " %";
    for (int operand : instr.operands) {
      if (operand < 0) continue;
      add(separator, operand);
      separator = ", %";
    }
    add(" : ", hammock::NameOf(instr.dtype), "\n");
  }
  return text;
}

std::string ToText(const Launch& launch) {
  std::string text = fmt::format("launch [{}] x {} x {}\n", fmt::join(launch.outer, ","),
                                 launch.rows, launch.columns);
  for (size_t i = 0; i < launch.maps.size(); ++i) {
    const AccessMap& map = launch.maps[i];
    text += fmt::format("  a{} = b{} at {} + [{}] + row*{} + column*{}\n", i, map.buffer,
                        map.offset, fmt::join(map.outer, ","), map.row, map.column);
  }
  return text + ToText(*launch.kernel);
}

void CheckBounds(const Launch& launch, const BufferMap<int64_t>& bytes) {
  if (launch.rows == 0 || launch.columns == 0) return;
  for (int64_t extent : launch.outer) {
    if (extent == 0) return;
  }
  for (size_t i = 0; i < launch.maps.size(); ++i) {
    const AccessMap& map = launch.maps[i];
    if (!map.buffer || launch.kernel->accesses[i].kind == Access::Kind::kRandom) continue;
    int64_t low = map.offset;
    int64_t high = map.offset;
    auto reach = [&](int64_t stride, int64_t extent) {
      (stride < 0 ? low : high) += stride * (extent - 1);
    };
    for (size_t d = 0; d < map.outer.size(); ++d) reach(map.outer[d], launch.outer[d]);
    reach(map.row, launch.rows);
    reach(map.column, launch.columns);
    int64_t size = bytes[map.buffer] * 8 / InfoOf(launch.kernel->accesses[i].dtype).bits;
    HAMMOCK_CHECK(low >= 0 && high < size, "a{} reaches from {} to {} in b{} of {} elements\n{}", i,
                  low, high, map.buffer, size, ToText(launch));
  }
}

}  // namespace hammock::compiler
