#include "backends/cuda/emit/emit_reduction.h"

#include <fmt/format.h>

#include <bit>
#include <vector>

#include "backends/cuda/emit/cuda_text.h"

namespace hammock::cuda {
namespace {

int Log2(int power) { return std::countr_zero(static_cast<unsigned>(power)); }

/// The bit of an index that a bit of an accumulator's number is, along a row.
struct IndexBit {
  bool in_thread;
  int bit;  ///< of the index in the thread's array, or of the thread's number
};

IndexBit IndexBitOf(int bit, const LaunchConfig& config) {
  int low = Log2(config.vector);
  int threads = Log2(config.threads);
  if (bit < low) return {true, bit};
  if (bit < low + threads) return {false, bit - low};
  return {true, bit - threads};
}

std::vector<int> OrderOfBits(int accumulators) {
  int bits = Log2(accumulators);
  std::vector<int> order;
  for (int b = 0; b < std::min(bits, 3); ++b) order.push_back(b);
  for (int b = bits; b-- > 3;) order.push_back(b);
  return order;
}

class ReductionEmitter {
 public:
  ReductionEmitter(const compiler::Instr& instr, int number, int ordinal,
                   const LaunchConfig& config, ScalarText& scalars)
      : instr_(instr),
        ordinal_(ordinal),
        config_(config),
        scalars_(scalars),
        name_(fmt::format("r{}", number)),
        value_(fmt::format("x{}", number)),
        type_(ValueType(instr.dtype)),
        shared_(fmt::format(
            "(({}*)(exchange + {}))", type_,
            config.way == LaunchConfig::Way::kRow ? ordinal % 2 * config.block_threads() : 0)),
        live_(static_cast<size_t>(config.accumulators / config.threads), true) {}

  std::string EmitAlong() {
    bool exchanged = false;
    for (int bit : OrderOfBits(config_.accumulators)) {
      IndexBit index = IndexBitOf(bit, config_);
      if (index.in_thread) {
        CombineInThread(index.bit);
      } else if (index.bit < 5) {
        CombineLanes(index.bit);
      } else {
        if (!exchanged) ExchangeWarps();
        exchanged = true;
      }
    }
    std::string result = name_ + "[0]";
    if (config_.threads > 1) {
      result = fmt::format("shuffle_first({}, {})", result, std::min(config_.threads, 32));
    }
    Line("const {} {} = {};", type_, value_, result);
    return text_;
  }

  std::string EmitAcross() {
    for (int half = 1; half < config_.slots; half *= 2) {
      Line("#pragma unroll");
      Line("for (int k = 0; k < {}; ++k) if (k / {} % {} == 0) {}[k] = {};",
           config_.slots * config_.vector, config_.vector, 2 * half, name_,
           Combined(name_ + "[k]", fmt::format("{}[k + {}]", name_, half * config_.vector)));
    }
    if (config_.threads > 1) ExchangeAcross();
    std::string result = value_ + "[v]";
    if (config_.split) {
      result = fmt::format("if (active && thread == 0) {}[line + v]", PartsOf("pass"));
    } else if (config_.passes > 1) {
      result = name_ + "_passes[pass][v]";
    } else {
      Line("{} {}[{}];", type_, value_, config_.vector);
    }
    Line("#pragma unroll");
    Line("for (int v = 0; v < {}; ++v) {} = {}[v];", config_.vector, result, name_);
    return text_;
  }

  std::string EmitPasses() {
    Line("{} {}[{}];", type_, value_, config_.vector);
    if (config_.split) {
      CombineBlocks();
    } else {
      Line("#pragma unroll");
      Line("for (int v = 0; v < {}; ++v) {{", config_.vector);
      Line("{} parts[{}];", type_, config_.passes);
      Line("for (int k = 0; k < {}; ++k) parts[k] = {}_passes[k][v];", config_.passes, name_);
      CombineHalves("parts", config_.passes);
      Line("{}[v] = parts[0];", value_);
      Line("}}");
    }
    return text_;
  }

 private:
  template <class... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += "  " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string Combined(const std::string& a, const std::string& b) {
    return scalars_.Combine(instr_.reduce, instr_.dtype, a, b);
  }
  std::string At(size_t i) const { return fmt::format("{}[{}]", name_, i); }

  void CombineInThread(int bit) {
    size_t step = size_t{1} << bit;
    for (size_t i = 0; i < live_.size(); ++i) {
      if (!live_[i] || (i & step) != 0) continue;
      Line("{} = {};", At(i), Combined(At(i), At(i | step)));
      live_[i | step] = false;
    }
  }

  void CombineLanes(int bit) {
    for (size_t i = 0; i < live_.size(); ++i) {
      if (!live_[i]) continue;
      Line("{} = {};", At(i), Combined(At(i), fmt::format("shuffle_xor({}, {})", At(i), 1 << bit)));
    }
  }

  /// Lines that leave the tree of `parts[0]` to `parts[count - 1]` in the first, halves first.
  void CombineHalves(const std::string& parts, int count) {
    for (int half = count / 2; half >= 1; half /= 2) {
      Line("#pragma unroll");
      Line("for (int k = 0; k < {}; ++k) {}[k] = {};", half, parts,
           Combined(parts + "[k]", fmt::format("{}[k + {}]", parts, half)));
    }
  }

  /// Every warp of a line combines what all of them have. Two reductions that follow each other
  /// have different memory, so what one reads is written again only after the other's barrier.
  void ExchangeWarps() {
    int warps = config_.threads / 32;
    Line("{}[threadIdx.y * {} + thread] = {}[0];", shared_, config_.threads, name_);
    Line("__syncthreads();");
    std::string all = name_ + "_warps";
    Line("{} {}[{}];", type_, all, warps);
    Line("#pragma unroll");
    Line("for (int k = 0; k < {}; ++k) {}[k] = {}[threadIdx.y * {} + k * 32 + thread % 32];", warps,
         all, shared_, config_.threads);
    CombineHalves(all, warps);
    Line("{}[0] = {}[0];", name_, all);
  }

  /// Threads of one line lie across the block. Each combines up to 16 parts of one line at a time.
  void ExchangeAcross() {
    const int wide = config_.lines * config_.vector;  // lines of the block
    Line("__syncthreads();");
    Line("#pragma unroll");
    Line("for (int v = 0; v < {0}; ++v) {1}[(thread * {2} + threadIdx.x) * {0} + v] = {3}[v];",
         config_.vector, shared_, config_.lines, name_);
    Line("__syncthreads();");
    for (int left = config_.threads; left > 1;) {
      const int parts = std::min(left, 16);
      left /= parts;
      Line("#pragma unroll 1");
      Line("for (int t = thread * {0} + threadIdx.x; t < {1}; t += {2}) {{", config_.lines,
           wide * left, config_.block_threads());
      Line("{} parts[{}];", type_, parts);
      Line("#pragma unroll");
      Line("for (int k = 0; k < {}; ++k) parts[k] = {}[t + k * {}];", parts, shared_, wide * left);
      CombineHalves("parts", parts);
      Line("{}[t] = parts[0];", shared_);
      Line("}}");
      Line("__syncthreads();");
    }
    Line("#pragma unroll");
    Line("for (int v = 0; v < {0}; ++v) {1}[v] = {2}[threadIdx.x * {0} + v];", config_.vector,
         name_, shared_);
  }

  /// Where the blocks of one pass leave their results, by line.
  std::string PartsOf(const std::string& pass) const {
    return fmt::format("(({}*)(parts + (long long)({} * {} + {}) * lines))", type_, ordinal_,
                       config_.passes, pass);
  }

  /// The last block has a thread for each of its lines.
  void CombineBlocks() {
    const int wide = config_.lines * config_.vector;
    Line("__syncthreads();");
    Line("#pragma unroll 1");
    Line("for (int t = thread * {0} + threadIdx.x; t < {1}; t += {2}) {{", config_.lines, wide,
         config_.block_threads());
    Line("const I at = (I)blockIdx.x * {} + t;", wide);
    Line("if (at >= lines) break;");
    Line("{} all[{}];", type_, config_.passes);
    Line("#pragma unroll");
    Line("for (int k = 0; k < {}; ++k) all[k] = ((volatile {}*){})[at];", config_.passes, type_,
         PartsOf("k"));
    CombineHalves("all", config_.passes);
    Line("{}[t] = all[0];", shared_);
    Line("}}");
    Line("__syncthreads();");
    Line("#pragma unroll");
    Line("for (int v = 0; v < {0}; ++v) {1}[v] = {2}[threadIdx.x * {0} + v];", config_.vector,
         value_, shared_);
  }

  const compiler::Instr& instr_;
  const int ordinal_;
  const LaunchConfig& config_;
  ScalarText& scalars_;
  const std::string name_;   // of the accumulators
  const std::string value_;  // of the result
  const std::string type_;
  const std::string shared_;
  std::vector<bool> live_;
  std::string text_;
};

}  // namespace

std::string EmitReduction(const compiler::Instr& instr, int number, int ordinal,
                          const LaunchConfig& config, ScalarText& scalars) {
  ReductionEmitter emitter(instr, number, ordinal, config, scalars);
  return config.way == LaunchConfig::Way::kColumn ? emitter.EmitAcross() : emitter.EmitAlong();
}

// The counter is 0 again for the next launch of the stream.
std::string WaitForLastBlockText(int blocks) {
  return fmt::format(R"(  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {{
    is_last = atomicAdd(&arrived[blockIdx.x], 1u) == {}u;
    if (is_last) arrived[blockIdx.x] = 0;
    __threadfence();
  }}
  __syncthreads();
  if (!is_last) return;
)",
                     blocks - 1);
}

std::string EmitPasses(const compiler::Instr& instr, int number, int ordinal,
                       const LaunchConfig& config, ScalarText& scalars) {
  return ReductionEmitter(instr, number, ordinal, config, scalars).EmitPasses();
}

}  // namespace hammock::cuda
