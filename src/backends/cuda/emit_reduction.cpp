#include "backends/cuda/emit_reduction.h"

#include <fmt/format.h>

#include <bit>
#include <vector>

#include "backends/cuda/cuda_text.h"

namespace hammock::cuda {
namespace {

using Way = KernelCut::Way;

int Log2(int power) { return std::countr_zero(static_cast<unsigned>(power)); }

/// Where a bit of an accumulator's number is.
struct BitPlace {
  bool in_thread;
  int bit;  ///< of the place in the thread's array, or of the thread's number
};

BitPlace PlaceOf(int bit, const KernelCut& cut) {
  int low = cut.way == Way::kColumn ? std::min(3, Log2(cut.accumulators)) : Log2(cut.vector);
  int threads = Log2(cut.threads);
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
  ReductionEmitter(const compiler::Instr& instr, int number, const KernelCut& cut,
                   ScalarText& scalars)
      : instr_(instr),
        cut_(cut),
        scalars_(scalars),
        name_(fmt::format("r{}", number)),
        type_(ValueType(instr.dtype)),
        live_(static_cast<size_t>(cut.accumulators / cut.threads), true) {}

  std::string Emit(int number) {
    bool exchanged = false;
    for (int bit : OrderOfBits(cut_.accumulators)) {
      BitPlace place = PlaceOf(bit, cut_);
      if (place.in_thread) {
        CombineInThread(place.bit);
      } else if (cut_.way == Way::kColumn) {
        if (!exchanged) ExchangeAcross();
        exchanged = true;
      } else if (place.bit < 5) {
        CombineLanes(place.bit);
      } else {
        if (!exchanged) ExchangeWarps();
        exchanged = true;
      }
    }
    std::string result = name_ + "[0]";
    if (cut_.way == Way::kRow && cut_.threads > 1) {
      result = fmt::format("shuffle_first({}, {})", result, std::min(cut_.threads, 32));
    }
    Line("const {} x{} = {};", type_, number, result);
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

  /// Every warp of a line combines what all of them have.
  void ExchangeWarps() {
    int warps = cut_.threads / 32;
    Line("__syncthreads();");
    Line("(({}*)exchange)[threadIdx.y * {} + thread] = {}[0];", type_, cut_.threads, name_);
    Line("__syncthreads();");
    std::string all = name_ + "_warps";
    Line("{} {}[{}];", type_, all, warps);
    Line("#pragma unroll");
    Line(
        "for (int k = 0; k < {}; ++k) {}[k] = (({}*)exchange)[threadIdx.y * {} + k * 32 + thread % "
        "32];",
        warps, all, type_, cut_.threads);
    for (int half = warps / 2; half >= 1; half /= 2) {
      Line("#pragma unroll");
      Line("for (int k = 0; k < {}; ++k) {}[k] = {};", half, all,
           Combined(all + "[k]", fmt::format("{}[k + {}]", all, half)));
    }
    Line("{}[0] = {}[0];", name_, all);
  }

  /// Threads of one row lie across the block.
  void ExchangeAcross() {
    std::string mine = fmt::format("(({}*)exchange)[thread * {} + threadIdx.x]", type_, cut_.lines);
    Line("__syncthreads();");
    Line("{} = {}[0];", mine, name_);
    Line("__syncthreads();");
    for (int half = cut_.threads / 2; half >= 1; half /= 2) {
      std::string other =
          fmt::format("(({}*)exchange)[(thread + {}) * {} + threadIdx.x]", type_, half, cut_.lines);
      Line("if (thread < {}) {} = {};", half, mine, Combined(mine, other));
      Line("__syncthreads();");
    }
    Line("{}[0] = (({}*)exchange)[threadIdx.x];", name_, type_);
  }

  const compiler::Instr& instr_;
  const KernelCut& cut_;
  ScalarText& scalars_;
  const std::string name_;
  const std::string type_;
  std::vector<bool> live_;
  std::string text_;
};

}  // namespace

std::string EmitReduction(const compiler::Instr& instr, int number, const KernelCut& cut,
                          ScalarText& scalars) {
  return ReductionEmitter(instr, number, cut, scalars).Emit(number);
}

}  // namespace hammock::cuda
