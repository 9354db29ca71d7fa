// Scatter: elements of a source meet those that their indices name. What rounds is always combined
// in the order of the indices, so results are the same every time.
#include <bit>

#include "backends/cuda/cuda_text.h"
#include "backends/cuda/index_kit.h"
#include "backends/cuda/item_sort.h"
#include "backends/cuda/scalar_text.h"
#include "hammock/config.h"
#include "ops/primitives.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kFewRounds = 16;      // indices that a thread takes one after another
constexpr int64_t kEnoughLines = 4096;  // for a thread each
constexpr int64_t kMostItems = (int64_t{1} << 32) - 1;

/// A scatter as its operands lie: `lines` lines with `rounds` indices each. An index of rows has
/// one for all lines, and zeros are no operand, see ScatterRows.
struct ScatterPlan {
  ScatterPlan(const Graph& graph, const GraphNode& node)
      : dim(static_cast<int>(node.attrs[0].integer())),
        reduce(node.attrs[1].str()),
        dtype(node.type().dtype()),
        index_dtype(graph.TypeOf(node.inputs[1]).dtype()),
        self(AtLeastVector(node.type().sizes())),
        index(AtLeastVector(graph.TypeOf(node.inputs[1]).sizes())),
        source(AtLeastVector(graph.TypeOf(node.inputs[2]).sizes())) {
    rows = index.size() < source.size();
    if (rows) index = source;
    rounds = index[dim];
    for (int d = 0; d < index.size(); ++d) {
      if (d != dim) lines *= index[d];
    }
    self_strides = ContiguousStrides(self);
    source_strides = ContiguousStrides(source);
    index_strides = rows ? Dims::Filled(index.size(), 0) : ContiguousStrides(index);
    if (rows) index_strides[dim] = 1;
    inner = self_strides[dim];
  }

  int dim;
  std::string reduce;
  DType dtype, index_dtype;
  Dims self, index, source;
  Dims self_strides, index_strides, source_strides;
  bool rows = false;
  int64_t rounds = 0, lines = 1;
  int64_t inner = 1;  ///< elements of a row
};

/// What elements meet in.
DType WideOf(DType dtype) {
  if (IsFloat(dtype)) return DType::kF64;
  return InfoOf(dtype).kind == DTypeKind::kSigned ? DType::kI64 : DType::kU64;
}

std::string Combined(ScalarText& scalars, const ScatterPlan& plan, DType wide, const char* old,
                     const std::string& value) {
  if (plan.reduce == "none") return value;
  ScalarFn fn = plan.reduce == "sum"    ? ScalarFn::kAdd
                : plan.reduce == "prod" ? ScalarFn::kMul
                : plan.reduce == "amax" ? ScalarFn::kMaximum
                                        : ScalarFn::kMinimum;
  return scalars.Scalar(fn, wide, {old, value});
}

/// Lines that set `place` to where coordinate `i` of `sizes`, `dim` left out, is.
std::string LineText(const Dims& sizes, const Dims& strides, int left_out, const std::string& i,
                     const std::string& place) {
  std::string text = fmt::format("  long long {0} = 0, rest_of_{0} = {1};\n", place, i);
  for (int d = sizes.size(); d-- > 0;) {
    if (d == left_out || sizes[d] == 1) continue;
    text += fmt::format("  {0} += rest_of_{0} % {1}ll * {2}ll; rest_of_{0} /= {1}ll;\n", place,
                        sizes[d], strides[d]);
  }
  return text;
}

std::string CheckText(const std::string& leave) {
  return "    if (index < 0 || index >= (long long)w5) { note_fault(w4, place, index); " + leave +
         " }\n";
}

class ScatterCall : public IndexedCall {
 public:
  ScatterCall(const Graph& graph, const GraphNode& node)
      : IndexedCall(node, node.type(), node.attrs[0].integer()),
        plan_(graph, node),
        bytes_(node.type().bytes()) {}
  void Run(Machine& machine, const Operands& operands) const override {
    if (operands.in[0] == 0 && bytes_ > 0) {
      machine.Clear(operands.out[0], bytes_);
    } else if (operands.in[0] != operands.out[0] && bytes_ > 0) {
      machine.Copy(operands.out[0], operands.in[0], bytes_);
    }
    if (plan_.lines > 0 && plan_.rounds > 0) RunAll(machine, operands);
  }

 protected:
  virtual void RunAll(Machine& machine, const Operands& operands) const = 0;
  std::vector<uint64_t> WordsOf(int64_t count, const Operands& operands) const {
    return {WordOf(count),   operands.in[1], operands.in[2],
            operands.out[0], operands.fault, WordOf(extent_)};
  }
  std::string Pointers() const {
    return fmt::format("  {0}* to = ({0}*)w3;\n  const {0}* from = (const {0}*)w2;\n",
                       MemoryType(plan_.dtype));
  }
  std::string IndexAt(const char* place) const {
    return fmt::format("((const {}*)w1)[{}]", MemoryType(plan_.index_dtype), place);
  }

  ScatterPlan plan_;
  int64_t bytes_;
};

/// One thread for each line along `dim` takes its indices in order.
class LineScatter : public ScatterCall {
 public:
  using ScatterCall::ScatterCall;
  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    const ScatterPlan& p = plan_;
    std::string value = Combined(scalars, p, p.dtype, scalars.FromMemory("to[p]", p.dtype).c_str(),
                                 scalars.FromMemory("from[s]", p.dtype));
    std::string body =
        LineText(p.index, p.self_strides, p.dim, "i", "at_self") +
        LineText(p.index, p.index_strides, p.dim, "i", "at_index") +
        LineText(p.index, p.source_strides, p.dim, "i", "at_source") + Pointers() +
        fmt::format(
            "  for (long long k = 0; k < {}ll; ++k) {{\n"
            "    const long long place = at_index + k * {}ll;\n"
            "    const long long index = {};\n",
            p.rounds, p.index_strides[p.dim], IndexAt("place")) +
        CheckText("continue;") +
        fmt::format(
            "    const long long p = at_self + index * {}ll;\n"
            "    const long long s = at_source + k * {}ll;\n    to[p] = {};\n  }}\n",
            p.self_strides[p.dim], p.source_strides[p.dim], scalars.ToMemory(value, p.dtype));
    return {ElementKernel(6, scalars.Functions(), body)};
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    machine.Launch(function(0), ElementGrid(plan_.lines), WordsOf(plan_.lines, operands));
  }
};

/// One thread for each element of the index; the memory combines.
class AtomicScatter : public ScatterCall {
 public:
  using ScatterCall::ScatterCall;
  std::vector<KernelSource> Sources() const override {
    const ScatterPlan& p = plan_;
    bool wide = InfoOf(p.dtype).bits == 64;
    bool sum = p.reduce == "sum";
    std::string_view type = sum && !IsFloat(p.dtype)
                                ? (wide ? "unsigned long long" : "unsigned int")
                                : MemoryType(p.dtype);
    std::string body =
        LineText(p.index, p.self_strides, -1, "i", "at_self") +
        LineText(p.index, p.source_strides, -1, "i", "at_source") +
        LineText(p.index, p.index_strides, -1, "i", "place") +
        fmt::format("  const long long along = i / {}ll % {}ll;\n  const long long index = {};\n",
                    ContiguousStrides(p.index)[p.dim], p.rounds, IndexAt("place")) +
        CheckText("return;") +
        fmt::format(
            "  {0}(({1}*)w3 + at_self + (index - along) * {2}ll, ((const "
            "{1}*)w2)[at_source]);\n",
            sum                  ? "atomicAdd"
            : p.reduce == "amax" ? "atomicMax"
                                 : "atomicMin",
            type, p.self_strides[p.dim]);
    return {ElementKernel(6, "", body)};
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    int64_t count = plan_.lines * plan_.rounds;
    machine.Launch(function(0), ElementGrid(count), WordsOf(count, operands));
  }
};

/// Indices are sorted with their positions, and for each place that is met some threads combine
/// what meets there: whole rows where an index names one, else elements. Where more than kRun meet,
/// each kRun of them have threads of their own, and the parts are combined after that.
class SortedScatter : public ScatterCall {
 public:
  SortedScatter(const Graph& graph, const GraphNode& node)
      : ScatterCall(graph, node),
        count_(plan_.rows ? plan_.rounds : plan_.rounds * plan_.lines),
        columns_(plan_.rows ? plan_.lines : 1),
        threads_(static_cast<int64_t>(
            std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(columns_, 1, 256))))),
        sorter_(count_, KeyBytes()) {}

  std::vector<KernelSource> Sources() const override {
    std::vector<KernelSource> sources = {ItemsSource(), CombineSource(/*parts=*/false),
                                         CombineSource(/*parts=*/true)};
    for (KernelSource& source : sorter_.Sources()) sources.push_back(std::move(source));
    return sources;
  }
  int64_t scratch_bytes() const override {
    return sorter_.scratch_bytes() + 2 * (count_ / kRun + 1) * columns_ * 8;
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    std::vector<uint64_t> words = WordsOf(count_, operands);
    words.push_back(operands.scratch);
    words.push_back(operands.scratch + static_cast<Address>(sorter_.scratch_bytes()));
    machine.Launch(function(0), ElementGrid(count_), words);
    std::vector<const Function*> functions;
    for (size_t i = 0; i < sorter_.Sources().size(); ++i) functions.push_back(&function(3 + i));
    words[0] = WordOf(count_ * threads_);
    words[6] = sorter_.Run(machine, functions, operands.scratch);
    machine.Launch(function(1), ElementGrid(count_ * threads_), words);
    if (plan_.reduce != "none" && count_ > kRun) {
      machine.Launch(function(2), ElementGrid(count_ * threads_), words);
    }
  }

 private:
  static constexpr int64_t kRun = 128;

  int KeyBytes() const {
    int64_t places = plan_.rows ? extent_ : 1;
    for (int d = 0; d < plan_.self.size() && !plan_.rows; ++d) places *= plan_.self[d];
    return static_cast<int>(std::bit_width(static_cast<uint64_t>(places) | 1) + 7) / 8;
  }

  /// The place that an index names; a wrong one comes last.
  KernelSource ItemsSource() const {
    const ScatterPlan& p = plan_;
    std::string body;
    std::string target = "index";
    if (!p.rows) {
      body = LineText(p.index, p.self_strides, -1, "i", "at_self") +
             fmt::format("  const long long along = i / {}ll % {}ll;\n", p.index_strides[p.dim],
                         p.rounds);
      target = fmt::format("at_self + (index - along) * {}ll", p.self_strides[p.dim]);
    }
    body += "  unsigned long long target = 0xffffffffull;\n  const long long place = i, index = " +
            IndexAt("i") +
            ";\n  if (index < 0 || index >= (long long)w5) note_fault(w4, place, index);\n";
    body += fmt::format(
        "  else target = (unsigned long long)({});\n"
        "  ((unsigned long long*)w6)[i] = target << 32 | (unsigned long long)i;\n",
        target);
    return ElementKernel(8, "", body);
  }

  /// Finds `target`, the `head` of its run and whether the run is `long_run`; leaves unless this
  /// item is where a part of a run begins, or with `parts` where a long run begins.
  std::string RunText(bool parts) const {
    std::string text = fmt::format(
        "  const unsigned long long* items = (const unsigned long long*)w6;\n"
        "  const long long first = i / {0}, all = {1}ll;\n"
        "  const unsigned long long target = items[first] >> 32;\n"
        "  if (target == 0xffffffffull) return;\n"
        "  const bool is_head = first == 0 || items[first - 1] >> 32 != target;\n",
        threads_, count_);
    if (plan_.reduce == "none") return text + "  if (!is_head) return;\n";
    if (parts) {
      return text + fmt::format(
                        "  if (!is_head || first + {0} >= all || items[first + {0}] >> 32 != "
                        "target) return;\n",
                        kRun);
    }
    return text + fmt::format(R"(
  bool long_run = is_head && first + {0} < all && items[first + {0}] >> 32 == target;
  if (!is_head) {{
    if (first < {0} || items[first - {0}] >> 32 != target) return;
    long long low = 0, high = first - {0};
    while (low < high) {{
      const long long middle = (low + high) / 2;
      if (items[middle] >> 32 < target) low = middle + 1;
      else high = middle;
    }}
    if ((first - low) % {0} != 0) return;
    long_run = true;
  }}
)",
                              kRun);
  }

  /// Of one part of a run; with `parts` of all parts of a long one.
  KernelSource CombineSource(bool parts) const {
    ScalarText scalars;
    const ScatterPlan& p = plan_;
    DType wide = WideOf(p.dtype);
    bool last = p.reduce == "none";
    std::string body = Pointers() + RunText(parts);
    body += fmt::format(
        "  typedef {} Wide;\n  Wide* partial = (Wide*)w7;\n  long long count = 1;\n"
        "  while ({}first + count < all && items[first + count] >> 32 == target) ++count;\n"
        "  for (long long c = i % {}; c < {}ll; c += {}) {{\n",
        ValueType(wide), last || parts ? "" : fmt::format("count < {} && ", kRun), threads_,
        columns_, threads_);
    body += p.rows ? fmt::format(
                         "    const long long outer = c / {0}ll, inner = c % {0}ll;\n"
                         "    const long long at = (outer * {1}ll + (long long)target) * {0}ll + "
                         "inner;\n",
                         p.inner, p.self[p.dim])
                   : "    const long long at = (long long)target;\n";
    std::string old = scalars.Cast(scalars.FromMemory("to[at]", p.dtype), p.dtype, wide);
    std::string result = scalars.ToMemory(scalars.Cast("sum", wide, p.dtype), p.dtype);
    auto slot = [&](const char* item, const char* head) {
      return fmt::format("partial[(2 * (({}) / {}) + ({})) * {}ll + c]", item, kRun, head,
                         columns_);
    };
    if (parts) {
      body += fmt::format(
          "    Wide sum = {};\n    for (long long k = 0; k < count; k += {}) sum = {};\n"
          "    to[at] = {};\n  }}\n",
          old, kRun, Combined(scalars, p, wide, "sum", slot("first + k", "k == 0")), result);
      return ElementKernel(8, scalars.Functions(), body);
    }
    std::string value = scalars.Cast(scalars.FromMemory("from[s]", p.dtype), p.dtype, wide);
    auto read = [&](const char* k) {
      std::string text = fmt::format(
          "    const long long position = (long long)(items[first + {}] & 0xffffffffull);\n", k);
      if (p.rows) {
        return text +
               fmt::format("    const long long s = (outer * {1}ll + position) * {0}ll + inner;\n",
                           p.inner, p.rounds);
      }
      if (p.index == p.source) return text + "    const long long s = position;\n";
      return text + LineText(p.index, p.source_strides, -1, "position", "s");
    };
    if (last) {
      body += read("count - 1") +
              fmt::format("    Wide sum = {};\n    to[at] = {};\n  }}\n", value, result);
      return ElementKernel(8, scalars.Functions(), body);
    }
    // A part of a long run begins with its first element, a short run with what is there.
    body += fmt::format("    Wide sum = {};\n    {{\n{}    sum = long_run ? {} : {};\n    }}\n",
                        old, read("0"), value, Combined(scalars, p, wide, "sum", value));
    body += fmt::format(
        "#pragma unroll 4\n    for (long long k = 1; k < count; ++k) {{\n{}    sum = {};\n    "
        "}}\n    if (long_run) {} = sum;\n    else to[at] = {};\n  }}\n",
        read("k"), Combined(scalars, p, wide, "sum", value), slot("first", "is_head ? 1 : 0"),
        result);
    return ElementKernel(8, scalars.Functions(), body);
  }

  int64_t count_;    // indices
  int64_t columns_;  // elements that an index moves
  int64_t threads_;  // for each place
  ItemSorter sorter_;
};

/// Which way depends on sizes and dtype alone, and not on whether an index names rows.
std::unique_ptr<Call> MakeScatter(const Graph& graph, const GraphNode& node, Machine&) {
  ScatterPlan plan(graph, node);
  bool is_float = IsFloat(plan.dtype), is_sum = plan.reduce == "sum";
  bool has_atomics = InfoOf(plan.dtype).bits >= 32 && plan.reduce != "none" &&
                     plan.reduce != "prod" && (is_sum || !is_float);
  if (is_float && is_sum && has_atomics && config::Get<config::kCudaFastAtomics>()) {
    return std::make_unique<AtomicScatter>(graph, node);
  }
  bool rounds = is_float && (is_sum || plan.reduce == "prod");
  bool few = plan.rounds <= kFewRounds || (!rounds && plan.lines >= kEnoughLines);
  bool fits = plan.rounds * plan.lines < kMostItems && node.type().numel() < kMostItems;
  if (few || !fits || plan.lines == 0) return std::make_unique<LineScatter>(graph, node);
  if (has_atomics && !is_float) return std::make_unique<AtomicScatter>(graph, node);
  return std::make_unique<SortedScatter>(graph, node);
}

constexpr CallEntry kCalls[] = {{&ops::kScatter, MakeScatter}};

}  // namespace

std::span<const CallEntry> ScatterCalls() { return kCalls; }

}  // namespace hammock::cuda
