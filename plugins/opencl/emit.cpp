#include "emit.h"

#include <fmt/format.h>
#include <hammock/compiler/launch_size.h>

#include <algorithm>
#include <bit>
#include <set>

namespace opencl {

using hammock::DType;
using hammock::InfoOf;
using hammock::compiler::Access;
using hammock::compiler::AccessMap;
using hammock::compiler::Instr;
using hammock::compiler::Kernel;
using hammock::compiler::kOpenClC;
using hammock::compiler::Launch;
using hammock::compiler::Level;
using hammock::compiler::LinesOf;
using hammock::compiler::ScalarText;
using hammock::compiler::Stride;
using Kind = Instr::Kind;

namespace {

constexpr int kGroup = 64;  // work-items that share rows

/// One row after another is independent only by element.
bool Maps(const Kernel& kernel) { return kernel.stages == 1 && !kernel.HasReduction(); }

bool HasPointer(const Access& access) {
  return access.kind == Access::Kind::kBuffer || access.kind == Access::Kind::kScratch;
}

/// The indices of a kernel's numbers: columns, rows, lines, threads, extents of outer dims, then
/// for each access its offset (or bits), strides of rows and columns, and strides of outer dims.
struct Numbers {
  int outer_dims;
  int Extent(int dim) const { return 4 + dim; }
  int Offset(int access) const { return 4 + outer_dims + access * (3 + outer_dims); }
  int Row(int access) const { return Offset(access) + 1; }
  int Column(int access) const { return Offset(access) + 2; }
  int Outer(int access, int dim) const { return Offset(access) + 3 + dim; }
};

std::string Value(DType dtype) {
  return std::string(hammock::compiler::ValueType(kOpenClC, dtype));
}
std::string Memory(DType dtype) {
  return std::string(hammock::compiler::MemoryType(kOpenClC, dtype));
}

/// Names in the text: x3 is the value of instruction 3, p2 the first element of access 2 in this
/// line or, of an index, its number there.
class Emitter {
 public:
  Emitter(const Kernel& kernel, int outer_dims, KernelKind kind, ScalarText& scalars)
      : kernel_(kernel),
        at_{outer_dims},
        wide_(kind.wide_index),
        one_pointer_(kind.one_pointer),
        maps_(Maps(kernel)),
        scalars_(scalars) {
    for (const Instr& instr : kernel.instrs) {
      if (instr.kind == Kind::kStore) written_.insert(instr.access);
    }
  }

  KernelSource Make() {
    std::vector<std::pair<std::string, std::string>> parameters;
    for (size_t i = 0; i < kernel_.accesses.size(); ++i) {
      if (!HasPointer(kernel_.accesses[i])) continue;
      parameters.emplace_back(Memory(kernel_.accesses[i].dtype), fmt::format("b{}", i));
    }
    Line("typedef {} I;", wide_ ? "long" : "int");
    Line("const I columns = (I)w[0], rows = (I)w[1], lines = (I)w[2];");
    const bool across = kernel_.lanes_along_rows;
    if (maps_) {
      Line("const I column = (I)get_global_id({}), line = (I)get_global_id({});", across ? 1 : 0,
           across ? 0 : 1);
      Line("if (column >= columns || line >= lines) return;");
    } else {
      OpenRows(across);
    }
    Addresses();
    for (int i : RowScratch()) Line("{} row{};", Memory(kernel_.accesses[i].dtype), i);
    for (int stage = 0; stage < kernel_.stages; ++stage) Stage(stage);
    return MakeKernel(parameters, text_, one_pointer_);
  }

 private:
  template <class... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += indent_ + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void OpenRows(bool across) {
    std::set<std::pair<std::string, std::string>> exchanges;  // type, name
    for (int stage = 0; stage < kernel_.stages; ++stage) {
      for (const std::vector<int>& together : ReductionsOf(stage)) {
        for (size_t k = 0; k < together.size(); ++k) {
          exchanges.emplace(Exchanged(kernel_.instrs[together[k]].dtype), Exchange(together, k));
        }
      }
    }
    for (const auto& [type, name] : exchanges) Line("__local {} {}[{}];", type, name, kGroup);
    Line("const int threads = (int)w[3], thread = (int)get_local_id({});", across ? 1 : 0);
    Line("const int item = (int)(get_local_id(1) * get_local_size(0) + get_local_id(0));");
    Line("const int apart = {};", across ? "(int)get_local_size(0)" : "1");
    Line("I line = (I)get_global_id({});", across ? 0 : 1);
    Line("const bool active = line < lines;");
    Line("if (!active) line = 0;");
  }

  /// The type that work-items exchange: local memory has no bools.
  static std::string Exchanged(DType dtype) { return dtype == DType::kBool ? "int" : Value(dtype); }
  static std::string Flat(std::string type) {
    std::replace(type.begin(), type.end(), ' ', '_');
    return type;
  }

  // ---- Addresses

  void Addresses() {
    Line("const I row = {};", at_.outer_dims == 0 ? "line" : "line % rows");
    if (at_.outer_dims > 0) Line("I rest = line / rows;");
    for (int d = at_.outer_dims; d-- > 0;) {
      if (d == 0) {
        Line("const I outer0 = rest;");
      } else {
        Line("const I outer{} = rest % (I)w[{}];", d, at_.Extent(d));
        Line("rest /= (I)w[{}];", at_.Extent(d));
      }
    }
    for (int i = 0; i < static_cast<int>(kernel_.accesses.size()); ++i) Address(i);
  }

  void Address(int i) {
    const Access& access = kernel_.accesses[i];
    std::string offset = fmt::format("w[{}]", at_.Offset(i));
    if (access.row == Stride::kOne) offset += " + row";
    if (access.row == Stride::kAny) offset += fmt::format(" + row * (I)w[{}]", at_.Row(i));
    for (int d = 0; d < at_.outer_dims; ++d) {
      offset += fmt::format(" + outer{} * (I)w[{}]", d, at_.Outer(i, d));
    }
    switch (access.kind) {
      case Access::Kind::kBuffer:
        return Line("__global {0}* p{1} = b{1} + {2};", Memory(access.dtype), i, offset);
      case Access::Kind::kScratch:
        return Line("__global {0}* p{1} = b{1} + (long)line * columns;", Memory(access.dtype), i);
      case Access::Kind::kIndex:
        return Line("const long p{} = {};", i, offset);
      case Access::Kind::kConstant:
      case Access::Kind::kRandom:  // made by a backend's own pass only
        return;
    }
  }

  std::string Element(int i) const {
    const Access& access = kernel_.accesses[i];
    if (access.kind == Access::Kind::kScratch || access.column == Stride::kOne) {
      return fmt::format("p{}[column]", i);
    }
    if (access.column == Stride::kZero) return fmt::format("p{}[0]", i);
    return fmt::format("p{}[column * (I)w[{}]]", i, at_.Column(i));
  }

  bool IsRowScratch(const Instr& instr) const {
    return instr.level == Level::kRow && instr.access >= 0 &&
           kernel_.accesses[instr.access].kind == Access::Kind::kScratch;
  }
  std::set<int> RowScratch() const {
    std::set<int> accesses;
    for (const Instr& instr : kernel_.instrs) {
      if (IsRowScratch(instr)) accesses.insert(instr.access);
    }
    return accesses;
  }

  // ---- Stages

  static bool IsElement(const Instr& instr) {
    return instr.level == Level::kElement || instr.kind == Kind::kReduce;
  }

  void Stage(int stage) {
    RowInstructions(stage);
    bool any = false;
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.stage != stage || !IsElement(instr)) continue;
      any = true;
      if (instr.kind == Kind::kReduce) {
        Line("{} r{} = {};", Value(instr.dtype), i, scalars_.Identity(instr.reduce, instr.dtype));
      }
    }
    if (!any) return;
    if (maps_) return ElementInstructions(stage);
    Line("for (I column = thread; column < columns; column += threads) {{");
    indent_ += "  ";
    ElementInstructions(stage);
    indent_.resize(indent_.size() - 2);
    Line("}}");
    for (const std::vector<int>& together : ReductionsOf(stage)) Trees(together);
  }

  /// The reductions of a stage, in parts that are combined at once: the fewer barriers the better.
  std::vector<std::vector<int>> ReductionsOf(int stage) const {
    constexpr size_t kTogether = 8;  // so many arrays fit into the local memory of any device
    std::vector<std::vector<int>> parts;
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.stage != stage || instr.kind != Kind::kReduce) continue;
      if (parts.empty() || parts.back().size() == kTogether) parts.emplace_back();
      parts.back().push_back(static_cast<int>(i));
    }
    return parts;
  }

  /// The array of one of them: the k-th of its type.
  std::string Exchange(const std::vector<int>& together, size_t k) const {
    const std::string type = Exchanged(kernel_.instrs[together[k]].dtype);
    int before = 0;
    for (size_t i = 0; i < k; ++i) before += Exchanged(kernel_.instrs[together[i]].dtype) == type;
    return fmt::format("exchange_{}_{}", Flat(type), before);
  }

  /// Written out: drivers for CPUs take exponential time for barriers in loops.
  void Trees(const std::vector<int>& together) {
    auto read = [&](size_t k, const std::string& index) {
      const std::string element = fmt::format("{}[{}]", Exchange(together, k), index);
      return kernel_.instrs[together[k]].dtype == DType::kBool ? fmt::format("({} != 0)", element)
                                                               : element;
    };
    auto for_each = [&](auto&& emit) {
      for (size_t k = 0; k < together.size(); ++k) emit(k, kernel_.instrs[together[k]]);
    };
    for_each([&](size_t k, const Instr&) {
      Line("{}[item] = r{};", Exchange(together, k), together[k]);
    });
    Line("barrier(CLK_LOCAL_MEM_FENCE);");
    for (int half = kGroup / 2; half > 0; half /= 2) {
      Line("if (threads > {0} && thread < {0}) {{", half);
      for_each([&](size_t k, const Instr& instr) {
        Line("  {}[item] = {};", Exchange(together, k),
             scalars_.Combine(instr.reduce, instr.dtype, read(k, "item"),
                              read(k, fmt::format("item + {} * apart", half))));
      });
      Line("}}");
      Line("barrier(CLK_LOCAL_MEM_FENCE);");
    }
    for_each([&](size_t k, const Instr& instr) {
      Line("const {} x{} = {};", Value(instr.dtype), together[k], read(k, "item - thread * apart"));
    });
    Line("barrier(CLK_LOCAL_MEM_FENCE);");
  }

  void RowInstructions(int stage) {
    bool reads_written = false, stores = false;
    for (const Instr& instr : kernel_.instrs) {
      if (instr.stage != stage || IsElement(instr)) continue;
      reads_written |= instr.kind == Kind::kLoad && written_.contains(instr.access);
      stores |= instr.kind == Kind::kStore;
    }
    if (reads_written && !maps_) Line("barrier(CLK_GLOBAL_MEM_FENCE);");
    for (Kind part : {Kind::kLoad, Kind::kStore}) {  // all others first
      if (part == Kind::kStore && stores && !maps_) Line("barrier(CLK_GLOBAL_MEM_FENCE);");
      for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
        const Instr& instr = kernel_.instrs[i];
        if (instr.stage != stage || IsElement(instr)) continue;
        if ((instr.kind == Kind::kStore) == (part == Kind::kStore)) {
          Instruction(static_cast<int>(i));
        }
      }
    }
  }

  void ElementInstructions(int stage) {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.stage == stage && IsElement(instr)) Instruction(static_cast<int>(i));
    }
  }

  std::string Operand(const Instr& instr, int k) const {
    return fmt::format("x{}", instr.operands[k]);
  }

  void Instruction(int i) {
    const Instr& instr = kernel_.instrs[i];
    if (instr.kind == Kind::kStore) return Store(instr);
    if (instr.kind == Kind::kReduce) {
      return Line(
          "r{0} = {1};", i,
          scalars_.Combine(instr.reduce, instr.dtype, fmt::format("r{}", i), Operand(instr, 0)));
    }
    Line("const {} x{} = {};", Value(instr.dtype), i, ValueOf(instr));
  }

  void Store(const Instr& instr) {
    std::string value = scalars_.ToMemory(Operand(instr, 0), kernel_.accesses[instr.access].dtype);
    if (instr.level == Level::kElement) {
      Line("{}{} = {};", maps_ ? "" : "if (active) ", Element(instr.access), value);
    } else if (IsRowScratch(instr)) {
      Line("row{} = {};", instr.access, value);
    } else {
      Line("if ({}) p{}[0] = {};", maps_ ? "column == 0" : "active && thread == 0", instr.access,
           value);
    }
  }

  std::string ValueOf(const Instr& instr) {
    const bool in_loop = instr.level == Level::kElement;
    switch (instr.kind) {
      case Kind::kLoad:
        return scalars_.FromMemory(in_loop               ? Element(instr.access)
                                   : IsRowScratch(instr) ? fmt::format("row{}", instr.access)
                                                         : fmt::format("p{}[0]", instr.access),
                                   kernel_.accesses[instr.access].dtype);
      case Kind::kIndex:
        return in_loop ? fmt::format("p{} + column * w[{}]", instr.access, at_.Column(instr.access))
                       : fmt::format("p{}", instr.access);
      case Kind::kConstant:
        return scalars_.FromBits(fmt::format("w[{}]", at_.Offset(instr.access)), instr.dtype);
      case Kind::kScalar:
      case Kind::kCast:
      case Kind::kBitcast:
        return scalars_.Computed(kernel_, instr, [&](int k) { return Operand(instr, k); });
      case Kind::kStore:
      case Kind::kReduce:
        break;
    }
    return "";
  }

  const Kernel& kernel_;
  const Numbers at_;
  const bool wide_, one_pointer_, maps_;
  ScalarText& scalars_;
  std::set<int> written_;  // accesses
  std::string text_;
  std::string indent_ = "  ";
};

int64_t AlignedBytes(const Launch& launch, const Access& access) {
  const int64_t bytes = LinesOf(launch) * launch.columns * (InfoOf(access.dtype).bits / 8);
  return (bytes + 63) / 64 * 64;
}

size_t RoundedUp(int64_t extent, size_t to) {
  return (static_cast<size_t>(extent) + to - 1) / to * to;
}

/// Few group sizes, since drivers compile a kernel for each.
void SetMapSizes(int64_t along, int64_t others, QueuedCommand& item) {
  item.local = along >= 4096 ? std::array<size_t, 3>{256, 1, 1}
               : along >= 32 ? std::array<size_t, 3>{64, 1, 1}
                             : std::array<size_t, 3>{4, 16, 1};
  item.global = {RoundedUp(along, item.local[0]), RoundedUp(others, item.local[1]), 1};
}

void SetRowSizes(const Launch& launch, int64_t threads, QueuedCommand& item) {
  const auto items = static_cast<size_t>(threads), lines = kGroup / items;
  const size_t all_lines = RoundedUp(LinesOf(launch), lines);
  if (launch.kernel->lanes_along_rows) {
    item.local = {lines, items, 1};
    item.global = {all_lines, items, 1};
  } else {
    item.local = {items, lines, 1};
    item.global = {items, all_lines, 1};
  }
}

}  // namespace

KernelSource EmitKernel(const Kernel& kernel, int outer_dims, KernelKind kind,
                        ScalarText& scalars) {
  return Emitter(kernel, outer_dims, kind, scalars).Make();
}

QueuedCommand MakeQueuedCommand(const Launch& launch, const KernelSource& source) {
  const Kernel& kernel = *launch.kernel;
  QueuedCommand item;
  item.kernel = source.name;
  const int64_t lines = LinesOf(launch);
  const auto threads = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(launch.columns, 1, kGroup))));
  item.numbers = {launch.columns, launch.rows, lines, threads};
  item.numbers.insert(item.numbers.end(), launch.outer.begin(), launch.outer.end());
  int64_t scratch = 0;
  for (size_t i = 0; i < kernel.accesses.size(); ++i) {
    const Access& access = kernel.accesses[i];
    const AccessMap& map = launch.maps[i];
    item.numbers.insert(item.numbers.end(), {map.offset, map.row, map.column});
    for (size_t d = 0; d < launch.outer.size(); ++d) {
      item.numbers.push_back(d < map.outer.size() ? map.outer[d] : 0);
    }
    if (access.kind == Access::Kind::kBuffer) {
      item.arguments.push_back({Argument::Kind::kBuffer, map.buffer, 0});
    } else if (access.kind == Access::Kind::kScratch) {
      item.arguments.push_back({Argument::Kind::kScratch, {}, scratch});
      scratch += AlignedBytes(launch, access);
    }
  }
  if (!Maps(kernel)) {
    SetRowSizes(launch, threads, item);
  } else if (kernel.lanes_along_rows) {
    SetMapSizes(lines, launch.columns, item);
  } else {
    SetMapSizes(launch.columns, lines, item);
  }
  // A kernel that reduces nothing still has results.
  if (lines == 0 || (Maps(kernel) && launch.columns == 0)) item.global = {0, 0, 0};
  return item;
}

int64_t ScratchBytes(const Launch& launch) {
  int64_t bytes = 0;
  for (const Access& access : launch.kernel->accesses) {
    if (access.kind == Access::Kind::kScratch) bytes += AlignedBytes(launch, access);
  }
  return bytes;
}

}  // namespace opencl
