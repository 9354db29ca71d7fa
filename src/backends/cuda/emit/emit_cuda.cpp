#include "backends/cuda/emit/emit_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "backends/cuda/emit/access_text.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/emit_reduction.h"
#include "base/throw.h"

namespace hammock::cuda {

using compiler::Access;
using compiler::Instr;
using compiler::Kernel;
using compiler::Level;
using Kind = Instr::Kind;
using Way = LaunchConfig::Way;

namespace {

/// Names in the text: x3 the value of instruction 3, p2 the address of access 2 in this line, m2
/// its elements of this thread as they are in memory, r5 the accumulators of reduction 5. Across
/// rows a thread has several lines, p2 belongs to the first and x3 of a row is an array over them.
class Emitter {
 public:
  Emitter(const Kernel& kernel, const LaunchConfig& config, bool guarded)
      : kernel_(kernel),
        config_(config),
        guarded_(guarded),
        accesses_(kernel, config),
        full_(config.even) {
    for (const Instr& instr : kernel.instrs) {
      if (instr.kind == Kind::kStore) written_.insert(instr.access);
    }
  }

  std::string Function(const std::string& name) {
    Open();
    for (int stage = 0; stage < kernel_.stages; ++stage) Stage(stage);
    Close();
    const int arguments = indices().Count(accesses_.count(), config_.split);
    std::string signature = fmt::format(
        "struct {0}_words {{ unsigned long long w[{1}]; }};\n"
        "extern \"C\" __global__ void __launch_bounds__({2}) {0}(const {0}_words words) {{\n"
        "  typedef {3} I;\n",
        name, arguments + guarded_, config_.block_threads(),
        config_.wide_index ? "long long" : "int");
    signature += "  wait_for_earlier_kernels();\n";
    if (guarded_) signature += GuardText(arguments);
    return fmt::format("namespace {}_parts {{\n{}{}{}}}\n}}\n", name, scalars_.Functions(),
                       signature, text_);
  }

 private:
  template <class... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += indent_ + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  void Begin(const std::string& line) {
    Line("{} {{", line);
    indent_ += "  ";
  }
  void End() {
    indent_.resize(indent_.size() - 2);
    Line("}}");
  }
  void Unroll() { Line("#pragma unroll"); }

  static std::string ArgumentText(int index) { return AccessText::ArgumentText(index); }
  const Access& AccessOf(int access) const { return accesses_.of(access); }
  const ArgumentIndices& indices() const { return accesses_.indices(); }
  int elements() const { return config_.slots * config_.vector; }
  bool across() const { return config_.way == Way::kColumn; }

  /// Which line and which part of it a thread has.
  void Open() {
    Line("const I columns = (I){};", ArgumentText(indices().columns));
    Line("const I lines = (I){};", ArgumentText(indices().lines));
    Line("const int thread = threadIdx.{};", across() ? "y" : "x");
    if (config_.way == Way::kTile) return OpenTiles();
    if (config_.way == Way::kMap) {
      if (config_.line_slots) LoadShared();
      Begin(
          fmt::format("for (I line = (I)blockIdx.y * {0} + threadIdx.y; line < lines; line += "
                      "(I)gridDim.y * {0})",
                      config_.lines * (config_.line_slots ? config_.slots : 1)));
    } else {
      Line("I line = ((I)blockIdx.x * {} + threadIdx.{}){};", config_.lines, across() ? "x" : "y",
           across() ? fmt::format(" * {}", config_.vector) : "");
      Line("const bool active = line < lines;");
      Line("if (!active) line = 0;");
    }
    Addresses();
    if (config_.whole) DeclareElements(-1);
    for (int i : RowScratch()) {
      Line("{} row{}{};", MemoryType(AccessOf(i).dtype), i, LineArray());
    }
    if (int words = ExchangeWords()) Line("__shared__ unsigned long long exchange[{}];", words);
    if (!config_.split) return;
    Line("__shared__ bool is_last;");
    Line("const int pass = blockIdx.y;");
    Line("unsigned long long* const parts = (unsigned long long*){};",
         ArgumentText(indices().Parts(accesses_.count())));
    Line("unsigned* const arrived = (unsigned*){};",
         ArgumentText(indices().Counters(accesses_.count())));
  }
  /// The elements that all lines share, before the first of them.
  void LoadShared() {
    Line("const int s = 0, count = {};", config_.vector);
    Line("const I at = {};", accesses_.SlotColumn());
    for (int i = 0; i < accesses_.count(); ++i) {
      if (!accesses_.IsShared(i)) continue;
      Address(i);
      Line("{} m{}[{}];", MemoryType(AccessOf(i).dtype), i, config_.vector);
      Line("{}", accesses_.Transfer(i, "load"));
    }
  }

  std::string LineArray() const { return across() ? fmt::format("[{}]", config_.vector) : ""; }

  void Close() {
    if (config_.maps()) End();
    if (config_.way != Way::kTile) return;
    Line("__syncthreads();");
    End();
  }

  // ---- Tiles of 32 columns and rows: what lies along the rows is loaded that way first.

  void OpenTiles() {
    for (int i = 0; i < accesses_.count(); ++i) {
      if (!accesses_.IsTransposed(i)) continue;
      Line("__shared__ {} tile{}[{}][{}];", MemoryType(AccessOf(i).dtype), i, kTileSide,
           kTileSide + 1);
    }
    Line("const I rows = (I){};", ArgumentText(indices().rows));
    Line("const I tiles = (rows + {}) / {};", kTileSide - 1, kTileSide);
    Begin("for (I tile = blockIdx.y; tile < lines / rows * tiles; tile += gridDim.y)");
    Line("const I first = tile % tiles * {};", kTileSide);
    Line("I rest = tile / tiles;");
    OuterIndices();
    for (int i = 0; i < accesses_.count(); ++i) {
      if (accesses_.IsTransposed(i)) LoadTile(i);
    }
    Line("__syncthreads();");
    Unroll();
    Begin(fmt::format("for (int k = threadIdx.y; k < {}; k += {})", kTileSide, config_.lines));
    Line("const I row = first + k;");
    Line("if (row >= rows) continue;");
    for (int i = 0; i < accesses_.count(); ++i) {
      if (!accesses_.IsTransposed(i)) Address(i);
    }
  }

  void LoadTile(int i) {
    Unroll();
    Begin(fmt::format("for (int k = threadIdx.y; k < {}; k += {})", kTileSide, config_.lines));
    Line("const I row = first + thread, at = (I)blockIdx.x * {} + k;", kTileSide);
    Line("if (row < rows && at < columns) tile{0}[k][thread] = (({1}*){2}{3})[row + at * (I){4}];",
         i, MemoryType(AccessOf(i).dtype), ArgumentText(indices().Access(i)), accesses_.Outer(i),
         ArgumentText(indices().Column(i)));
    End();
  }

  /// Scratch memory for one value of a row: every thread of the row has it.
  std::set<int> RowScratch() const {
    std::set<int> result;
    for (const Instr& instr : kernel_.instrs) {
      if (instr.access >= 0 && IsRowScratch(instr)) result.insert(instr.access);
    }
    return result;
  }
  bool IsRowScratch(const Instr& instr) const {
    return instr.level == Level::kRow && AccessOf(instr.access).kind == Access::Kind::kScratch;
  }

  /// 64-bit words of the memory through which threads of a line exchange.
  int ExchangeWords() const {
    if (!kernel_.HasReduction() || config_.threads <= (across() ? 1 : 32)) return 0;
    int count = 0, bytes = 0;
    for (const Instr& instr : kernel_.instrs) {
      if (instr.kind != Kind::kReduce) continue;
      ++count;
      bytes = std::max(bytes, ValueType(instr.dtype) == "float" ? 4 : InfoOf(instr.dtype).bits / 8);
    }
    if (across()) return (config_.block_threads() * config_.vector * bytes + 7) / 8;
    return config_.block_threads() * std::min(count, 2);
  }

  void Addresses() {
    Line("const I row = {};",
         config_.outer_dims == 0 ? "line" : "line % (I)" + ArgumentText(indices().rows));
    if (config_.outer_dims > 0) Line("I rest = line / (I){};", ArgumentText(indices().rows));
    OuterIndices();
    for (int i = 0; i < accesses_.count(); ++i) {
      if (!accesses_.IsShared(i)) Address(i);
    }
  }
  void OuterIndices() {
    for (int d = config_.outer_dims; d-- > 0;) {
      if (d == 0) {
        Line("const I outer0 = rest;");
      } else {
        Line("const I outer{} = rest % (I){};", d, ArgumentText(indices().Extent(d)));
        Line("rest /= (I){};", ArgumentText(indices().Extent(d)));
      }
    }
  }

  void Address(int i) {
    if (std::string line = accesses_.Address(i); !line.empty()) Line("{}", line);
  }

  bool IsElement(const Instr& instr, int stage) const {
    return instr.stage == stage && (instr.level == Level::kElement || instr.kind == Kind::kReduce);
  }

  /// Arrays of the elements of all accesses, or of those of one stage.
  void DeclareElements(int stage) {
    std::set<int> declared;
    for (const Instr& instr : kernel_.instrs) {
      if (instr.level != Level::kElement || instr.access < 0) continue;
      if (instr.kind != Kind::kLoad && instr.kind != Kind::kStore) continue;
      if (stage >= 0 && instr.stage != stage) continue;
      if (accesses_.IsShared(instr.access)) continue;
      if (!declared.insert(instr.access).second) continue;
      Line("{} m{}[{}];", MemoryType(AccessOf(instr.access).dtype), instr.access, elements());
    }
  }

  void Stage(int stage) {
    bool reads_rows = false;
    for (const Instr& instr : kernel_.instrs) {
      reads_rows |= instr.stage == stage && instr.level == Level::kRow &&
                    instr.kind == Kind::kLoad && written_.contains(instr.access);
    }
    if (reads_rows && !config_.maps()) Line("__syncthreads();");
    RowInstructions(stage);
    bool any = std::any_of(kernel_.instrs.begin(), kernel_.instrs.end(),
                           [&](const Instr& instr) { return IsElement(instr, stage); });
    if (!any) return;
    bool passes = config_.passes > 1;
    if (passes && !config_.split) {
      ForEachReduction(stage, [&](int i, const Instr& instr) {
        Line("{} r{}_passes[{}][{}];", ValueType(instr.dtype), i, config_.passes, config_.vector);
      });
      Line("#pragma unroll 1");
      Begin(fmt::format("for (int pass = 0; pass < {}; ++pass)", config_.passes));
    }
    ForEachReduction(stage, [&](int i, const Instr& instr) { Accumulators(i, instr); });
    Elements(stage);
    ForEachReduction(stage, [&](int i, const Instr& instr) {
      text_ += EmitReduction(instr, i, reductions_++, config_, scalars_);
    });
    if (!passes) return;
    if (config_.split) {
      text_ += WaitForLastBlockText(config_.passes);
    } else {
      End();
    }
    int ordinal = 0;
    ForEachReduction(stage, [&](int i, const Instr& instr) {
      text_ += EmitPasses(instr, i, ordinal++, config_, scalars_);
    });
  }

  void RowInstructions(int stage) {
    std::vector<int> stores;
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.level != Level::kRow || instr.kind == Kind::kReduce || instr.stage != stage) {
        continue;
      }
      if (instr.kind == Kind::kStore) {
        stores.push_back(static_cast<int>(i));
      } else {
        RowInstruction(static_cast<int>(i));
      }
    }
    // Before that no reduction has let the threads wait until all have loaded.
    if (stage == 0 && !stores.empty() && !config_.maps()) Line("__syncthreads();");
    for (int i : stores) RowInstruction(i);
  }

  template <class F>
  void ForEachReduction(int stage, F f) const {
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      const Instr& instr = kernel_.instrs[i];
      if (instr.kind == Kind::kReduce && instr.stage == stage) f(static_cast<int>(i), instr);
    }
  }

  /// Of a thread.
  int accumulators() const {
    return across() ? elements() : config_.accumulators / config_.threads;
  }

  void Accumulators(int i, const Instr& instr) {
    Line("{} r{}[{}];", ValueType(instr.dtype), i, accumulators());
    Unroll();
    Line("for (int k = 0; k < {}; ++k) r{}[k] = {};", accumulators(), i,
         scalars_.Identity(instr.reduce, instr.dtype));
  }

  void Elements(int stage) {
    const int width = across() ? config_.accumulators : config_.threads * elements();
    if (config_.maps() || config_.whole) {
      Begin("");
      if (!config_.maps()) Line("const I iteration = 0;");
      Round(stage);
    } else if (across() || config_.even) {
      // Loads of narrow elements that are further apart fetch little: two iterations are under way.
      if (across() && !Stores(stage)) Line("#pragma unroll 2");
      Begin(fmt::format("for (I iteration = 0; iteration * {} < columns; ++iteration)", width));
      Round(stage);
    } else {  // only the last iteration compares its elements with the end of the line
      Begin("");
      Line("I iteration = 0;");
      full_ = true;
      Begin(fmt::format("for (; columns - iteration * {0} >= {0}; ++iteration)", width));
      Round(stage);
      End();
      full_ = false;
      Begin(fmt::format("if (iteration * {} < columns)", width));
      Round(stage);
      End();
    }
    End();
    for (const Instr& instr : kernel_.instrs) {
      if (IsElement(instr, stage) && instr.access >= 0) held_.insert(instr.access);
    }
  }

  void Round(int stage) {
    if (!config_.whole) DeclareElements(stage);
    Transfer(stage, Kind::kLoad);
    Unroll();
    Begin(fmt::format("for (int e = 0; e < {}; ++e)", elements()));
    if (across()) Line("const int v = e % {};", config_.vector);
    if (NeedsIndices(stage)) {
      Line("const int s = e / {};", config_.vector);
      Line("const I at = {}{};", accesses_.SlotColumn(),
           across() ? "" : fmt::format(" + e % {}", config_.vector));
    }
    for (size_t i = 0; i < kernel_.instrs.size(); ++i) {
      if (IsElement(kernel_.instrs[i], stage)) Instruction(static_cast<int>(i));
    }
    End();
    Transfer(stage, Kind::kStore);
  }

  bool Stores(int stage) const {
    return std::any_of(kernel_.instrs.begin(), kernel_.instrs.end(), [&](const Instr& instr) {
      return IsElement(instr, stage) && instr.kind == Kind::kStore;
    });
  }
  bool NeedsIndices(int stage) const {
    return std::any_of(kernel_.instrs.begin(), kernel_.instrs.end(), [&](const Instr& instr) {
      return IsElement(instr, stage) &&
             ((instr.kind == Kind::kReduce && !full_) || instr.kind == Kind::kIndex);
    });
  }

  /// Whether a load of a later stage can be one of this stage: it does not wait for the reduction.
  bool IsAhead(const Instr& instr, int stage) const {
    return config_.whole && instr.kind == Kind::kLoad && instr.level == Level::kElement &&
           instr.stage > stage && !written_.contains(instr.access);
  }

  /// Loads before, or stores after, the elements of a stage are computed.
  void Transfer(int stage, Kind kind) {
    std::vector<int> accesses;
    for (const Instr& instr : kernel_.instrs) {
      if (instr.kind != kind || !(IsElement(instr, stage) || IsAhead(instr, stage))) continue;
      if (config_.whole && AccessOf(instr.access).kind == Access::Kind::kScratch) continue;
      if (kind == Kind::kLoad && config_.whole && held_.contains(instr.access)) continue;
      if (accesses_.IsShared(instr.access)) continue;
      if (std::count(accesses.begin(), accesses.end(), instr.access) == 0) {
        accesses.push_back(instr.access);
      }
    }
    if (accesses.empty()) return;
    if (kind == Kind::kLoad) held_.insert(accesses.begin(), accesses.end());
    Unroll();
    Begin(fmt::format("for (int s = 0; s < {}; ++s)", config_.slots));
    Line("const I at = {};", accesses_.SlotColumn());
    bool guarded = !config_.maps() && kind == Kind::kStore;
    if (full_) {
      Line("const int count = {};", guarded ? fmt::format("active ? {} : 0", config_.vector)
                                            : fmt::format("{}", config_.vector));
    } else if (across()) {
      Line("const int count = {}columns > at ? {} : 0;", guarded ? "active && " : "",
           config_.vector);
    } else {
      Line("const int count = {}columns > at ? (columns - at > {} ? {} : (int)(columns - at)) : 0;",
           guarded ? "active && " : "", config_.vector, config_.vector);
    }
    if (config_.line_slots) SlotOfLine(kind);
    for (int access : accesses) {
      Line("{}", accesses_.Transfer(access, kind == Kind::kLoad ? "load" : "store"));
    }
    End();
  }

  /// Slots behind the last line load the first one's elements again, and store nothing.
  void SlotOfLine(Kind kind) {
    const std::string is_line = fmt::format("lines - line > s * {}", config_.lines);
    if (kind == Kind::kStore) Line("if (!({})) continue;", is_line);
    Line("const I down = {} ? s * {} : 0;", is_line, config_.lines);
  }

  std::string Operand(const Instr& instr, int k) const {
    const Instr& operand = kernel_.instrs[instr.operands[k]];
    return fmt::format("x{}{}", instr.operands[k], IsArray(operand) ? "[v]" : "");
  }
  /// Whether a thread has a value for each of its lines.
  bool IsArray(const Instr& instr) const {
    return across() && instr.level == Level::kRow && instr.kind != Kind::kConstant;
  }

  void RowInstruction(int i) {
    const Instr& instr = kernel_.instrs[i];
    if (!IsArray(instr)) return Instruction(i);
    if (instr.kind != Kind::kStore) Line("{} x{}{};", ValueType(instr.dtype), i, LineArray());
    Unroll();
    Begin(fmt::format("for (int v = 0; v < {}; ++v)", config_.vector));
    if (instr.kind == Kind::kStore) {
      Store(instr);
    } else {
      Line("x{}[v] = {};", i, Value(instr));
    }
    End();
  }

  void Instruction(int i) {
    const Instr& instr = kernel_.instrs[i];
    if (instr.kind == Kind::kStore) return Store(instr);
    if (instr.kind == Kind::kReduce) {
      std::string sum = fmt::format("r{}[e % {}]", i, accumulators());
      Line("{}{} = {};", full_ ? "" : "if (at < columns) ", sum,
           scalars_.Combine(instr.reduce, instr.dtype, sum, Operand(instr, 0)));
      return;
    }
    Line("const {} x{} = {};", ValueType(instr.dtype), i, Value(instr));
  }

  void Store(const Instr& instr) {
    const Access& access = AccessOf(instr.access);
    std::string element = scalars_.ToMemory(Operand(instr, 0), access.dtype);
    if (instr.level == Level::kElement) {
      Line("m{}[e] = {};", instr.access, element);
    } else if (IsRowScratch(instr)) {
      Line("row{}{} = {};", instr.access, across() ? "[v]" : "", element);
    } else if (config_.maps()) {
      Line("if (blockIdx.x == 0 && thread == 0) p{}[0] = {};", instr.access, element);
    } else {
      Line("if (active && thread == 0) {} = {};", accesses_.RowElement(instr.access), element);
    }
  }

  std::string Value(const Instr& instr) {
    bool in_loop = instr.level == Level::kElement;
    switch (instr.kind) {
      case Kind::kLoad:
        return scalars_.FromMemory(in_loop ? accesses_.Element(instr.access)
                                   : IsRowScratch(instr)
                                       ? fmt::format("row{}{}", instr.access, across() ? "[v]" : "")
                                       : accesses_.RowElement(instr.access),
                                   AccessOf(instr.access).dtype);
      case Kind::kIndex:
        return accesses_.Index(instr.access, in_loop);
      case Kind::kConstant:
        return scalars_.FromBits(ArgumentText(indices().Access(instr.access)), instr.dtype);
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
  const LaunchConfig& config_;
  const bool guarded_;
  const AccessText accesses_;
  ScalarText scalars_;
  std::set<int> written_;  // accesses
  std::set<int> held_;     // accesses whose elements an earlier stage left in registers
  int reductions_ = 0;     // so far
  bool full_;              // whether all elements of the iteration are elements of the line
  std::string text_;
  std::string indent_ = "  ";
};

}  // namespace

KernelSource EmitCuda(const Kernel& kernel, const LaunchConfig& config, bool guarded) {
  std::string name =
      SourceName(compiler::ToText(kernel) + ToText(config) + (guarded ? "guarded" : ""));
  return {name, Emitter(kernel, config, guarded).Function(name)};
}

std::string GuardText(int index) {
  return fmt::format("  if (*(const unsigned long long*)words.w[{}] != 0) return;\n", index);
}

std::string SourceName(const std::string& what) {
  return fmt::format("k{:016x}", std::hash<std::string>()(what));
}

}  // namespace hammock::cuda
