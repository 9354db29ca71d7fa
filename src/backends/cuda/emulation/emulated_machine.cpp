#include "backends/cuda/emulation/emulated_machine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <complex>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <numbers>
#include <vector>

#include "backends/cuda/device/device_text.h"
#include "backends/cuda/driver/nccl.h"
#include "backends/cuda/driver/nccl_host.h"
#include "backends/cuda/emulation/fibres.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "ir/convert.h"

namespace hammock::cuda {

const std::string& EmulationPrelude() { return DeviceText("emulation.cuh"); }

namespace {

class EmulatedFunction : public Function {
 public:
  explicit EmulatedFunction(const KernelSource& source)
      : source(source),
        waits(source.text.find("__syncthreads") != std::string::npos ||
              source.text.find("shuffle_") != std::string::npos) {}
  const KernelSource source;
  const bool waits;
  mutable void (*code)(const uint64_t*) = nullptr;  // guarded by the machine's mutex
};

class EmulatedEvent : public Event {
 public:
  using Event::Event;
  const std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
};

class EmulatedMatMul : public PreparedOp {
 public:
  explicit EmulatedMatMul(const MatMul& matmul) : matmul(matmul) {}
  const MatMul matmul;
};

template <class T, class Out>
void MultiplyOf(const MatMul& p, const T* a, const T* b, const Out* bias, Out* out) {
  using Sum = std::conditional_t<kIsReal<T>, double, uint64_t>;
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        Sum sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          int64_t at_a = p.a_transposed ? k * p.a_row + i : i * p.a_row + k;
          int64_t at_b = p.b_transposed ? j * p.b_row + k : k * p.b_row + j;
          sum +=
              Convert<Sum>(a[batch * p.a_batch + at_a]) * Convert<Sum>(b[batch * p.b_batch + at_b]);
        }
        using Made = std::conditional_t<kIsReal<T> && sizeof(T) <= 4, float, Sum>;
        Made made = static_cast<Made>(sum);
        if (p.bias) made += Convert<Made>(bias[j]);
        if (p.relu && made < 0) made = 0;
        out[batch * p.out_batch + i * p.out_row + j] = Convert<Out>(made);
      }
    }
  }
}

class EmulatedTransform : public PreparedOp {
 public:
  explicit EmulatedTransform(const Transform& transform) : transform(transform) {}
  int64_t scratch_bytes() const override { return 64; }
  const Transform transform;
};

/// By the definition, over all dims at once.
template <class T>
void TransformOf(const Transform& t, Address in, Address out) {
  using Kind = Transform::Kind;
  using Number = std::complex<T>;
  using Wide = std::complex<double>;
  const bool from_real = t.kind == Kind::kToComplex, to_real = t.kind == Kind::kToReal;
  int64_t size = 1;
  for (int64_t each : t.sizes) size *= each;
  const int64_t bins = from_real || to_real ? size / 2 + 1 : size;
  const double sign = t.kind == Kind::kForward || from_real ? -1 : 1;
  auto turns = [&](int64_t j, int64_t k) {
    double sum = 0;
    for (int d = t.sizes.size(); d-- > 0;) {
      sum += static_cast<double>(j % t.sizes[d] * (k % t.sizes[d]) % t.sizes[d]) /
             static_cast<double>(t.sizes[d]);
      j /= t.sizes[d];
      k /= t.sizes[d];
    }
    return std::polar(1.0, sign * 2 * std::numbers::pi * sum);
  };
  for (int64_t row = 0; row < t.batch; ++row) {
    std::vector<Wide> signal(size);
    for (int64_t j = 0; j < (to_real ? bins : size); ++j) {
      const int64_t at = row * t.in_distance + j * t.in_stride;
      signal[j] = from_real ? Wide(reinterpret_cast<const T*>(in)[at])
                            : Wide(reinterpret_cast<const Number*>(in)[at]);
    }
    for (int64_t j = 0; to_real && j < bins; ++j) {
      const int64_t mirrored = (size - j) % size;
      if (mirrored == j) signal[j] = signal[j].real();
      signal[mirrored] = std::conj(signal[j]);
    }
    for (int64_t k = 0; k < (from_real ? bins : size); ++k) {
      Wide sum = 0;
      for (int64_t j = 0; j < size; ++j) sum += signal[j] * turns(j, k);
      const int64_t at = row * t.out_distance + k * t.out_stride;
      if (to_real) {
        reinterpret_cast<T*>(out)[at] = static_cast<T>(sum.real());
      } else {
        reinterpret_cast<Number*>(out)[at] = Number(sum);
      }
    }
  }
}

class EmulatedConvolution : public PreparedOp {
 public:
  explicit EmulatedConvolution(const Convolution& convolution) : convolution(convolution) {}
  int64_t scratch_bytes() const override { return 64; }
  const Convolution convolution;
};

/// Calls `f(at_input, at_weight, at_out)` for all products of a convolution.
template <class F>
void ForEachProduct(const Convolution& c, F f) {
  int dims = c.stride.size();
  auto positions = [dims](const Dims& sizes) {
    int64_t count = 1;
    for (int d = 0; d < dims; ++d) count *= sizes[d + 2];
    return count;
  };
  int64_t channels = c.weight[1], each = c.out[1] / c.groups;
  for (int64_t i = 0; i < c.out[0] * c.out[1] * positions(c.out); ++i) {
    int64_t channel = i / positions(c.out) % c.out[1], image = i / positions(c.out) / c.out[1];
    for (int64_t k = 0; k < channels * positions(c.weight); ++k) {
      int64_t position = i % positions(c.out), tap = k % positions(c.weight), at = 0, step = 1;
      bool inside = true;
      for (int d = dims; d-- > 0;) {
        int64_t p = position % c.out[d + 2] * c.stride[d] + tap % c.weight[d + 2] * c.dilation[d] -
                    c.padding[d];
        inside = inside && p >= 0 && p < c.input[d + 2];
        at += p * step;
        step *= c.input[d + 2];
        position /= c.out[d + 2];
        tap /= c.weight[d + 2];
      }
      if (!inside) continue;
      int64_t from = channel / each * channels + k / positions(c.weight);
      f((image * c.input[1] + from) * positions(c.input) + at,
        channel * channels * positions(c.weight) + k, i);
    }
  }
}

/// The offset of element `i` of a tensor [a, channels, positions...].
int64_t OffsetOf(const Dims& sizes, bool channels_last, int64_t i) {
  if (!channels_last) return i;
  int64_t positions = 1;
  for (int d = 2; d < sizes.size(); ++d) positions *= sizes[d];
  int64_t position = i % positions, channel = i / positions % sizes[1],
          first = i / positions / sizes[1];
  return (first * positions + position) * sizes[1] + channel;
}

template <class T>
void ConvolveOf(const Convolution& c, const T* a, const T* b, T* out) {
  using Kind = Convolution::Kind;
  const Dims& sizes = c.kind == Kind::kForward ? c.out
                      : c.kind == Kind::kInput ? c.input
                                               : c.weight;
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  std::vector<double> sums(static_cast<size_t>(count));
  ForEachProduct(c, [&](int64_t input, int64_t weight, int64_t position) {
    input = OffsetOf(c.input, c.channels_last, input);
    weight = OffsetOf(c.weight, c.channels_last, weight);
    position = OffsetOf(c.out, c.channels_last, position);
    int64_t at_a = c.kind == Kind::kForward ? input : position;
    int64_t at_b = c.kind == Kind::kWeight ? input : weight;
    int64_t to = c.kind == Kind::kForward ? position : c.kind == Kind::kInput ? input : weight;
    sums[to] += Convert<double>(a[at_a]) * Convert<double>(b[at_b]);
  });
  for (size_t i = 0; i < sums.size(); ++i) out[i] = Convert<T>(sums[i]);
}

class EmulatedMachine : public Machine, public NcclHost {
 public:
  EmulatedMachine(std::string compiler, int card) : compiler_(std::move(compiler)), card_(card) {}

  std::string name() const override { return "emulated on the host"; }
  // Where nothing is computed, memory is addresses that hardly anything touches.
  int64_t memory_bytes() const override { return int64_t{compiler_ == "none" ? 128 : 8} << 30; }
  std::string code_key() const override { return "emulated"; }
  int card() const override { return card_; }

  Address TakeMemory(int64_t bytes) override {
    return reinterpret_cast<Address>(
        std::aligned_alloc(256, (static_cast<size_t>(bytes) + 255) / 256 * 256));
  }
  void GiveMemory(Address address) override { std::free(reinterpret_cast<void*>(address)); }
  bool has_async_matmuls() const override { return true; }
  void* TakeHostMemory(int64_t bytes) override { return std::malloc(static_cast<size_t>(bytes)); }
  void GiveHostMemory(void* memory) override { std::free(memory); }
  // Kernels run one after another.
  Address Counters() override { return reinterpret_cast<Address>(counters_.data()); }

  void Upload(Address to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(reinterpret_cast<void*>(to), from, static_cast<size_t>(bytes));
  }
  void Download(void* to, Address from, int64_t bytes, const Event*) override {
    if (bytes > 0) std::memcpy(to, reinterpret_cast<const void*>(from), static_cast<size_t>(bytes));
  }
  void Copy(Address to, Address from, int64_t bytes) override {
    Upload(to, reinterpret_cast<const void*>(from), bytes);
  }
  void CopyFrom(Machine&, Address to, Address from, int64_t bytes, const Event&) override {
    Upload(to, reinterpret_cast<const void*>(from), bytes);
  }
  void Clear(Address at, int64_t bytes) override {
    if (bytes > 0) std::memset(reinterpret_cast<void*>(at), 0, static_cast<size_t>(bytes));
  }

  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) override {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Function>> functions;
    for (const KernelSource& source : sources) {
      std::shared_ptr<EmulatedFunction>& known = functions_[source.name];
      if (!known) {
        known = std::make_shared<EmulatedFunction>(source);
        pending_.push_back(known);
      }
      functions.push_back(known);
    }
    return functions;
  }

  void Launch(const Function& function, const Grid& grid,
              std::span<const uint64_t> arguments) override {
    if (compiler_ == "none") return;
    std::lock_guard lock(mutex_);
    const auto& emulated = static_cast<const EmulatedFunction&>(function);
    if (!emulated.code) CompilePending();
    static auto& one_at_a_time = NeverDestroyed<std::mutex>();  // also of other machines
    std::lock_guard fibres(one_at_a_time);
    RunBlocks(grid.x, grid.y, grid.block_x, grid.block_y, emulated.waits,
              [&] { emulated.code(arguments.data()); });
  }

  std::shared_ptr<PreparedOp> Prepare(const MatMul& matmul) override {
    return std::make_shared<EmulatedMatMul>(matmul);
  }
  void Multiply(const PreparedOp& matmul, Address a, Address b, Address bias, Address out,
                Address) override {
    if (compiler_ == "none") return;
    const MatMul& p = static_cast<const EmulatedMatMul&>(matmul).matmul;
    VisitDType(p.dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (!std::is_same_v<T, bool>) {
        const T* left = reinterpret_cast<const T*>(a);
        const T* right = reinterpret_cast<const T*>(b);
        if (p.out_dtype == p.dtype) {
          MultiplyOf(p, left, right, reinterpret_cast<const T*>(bias), reinterpret_cast<T*>(out));
        } else {
          using Wide = std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>;
          MultiplyOf(p, left, right, reinterpret_cast<const Wide*>(bias),
                     reinterpret_cast<Wide*>(out));
        }
      }
    });
  }

  std::shared_ptr<PreparedOp> Prepare(const Convolution& convolution) override {
    if (!IsFloat(convolution.dtype)) return nullptr;
    return std::make_shared<EmulatedConvolution>(convolution);
  }
  void Convolve(const PreparedOp& convolution, Address a, Address b, Address out,
                Address) override {
    if (compiler_ == "none") return;
    const Convolution& c = static_cast<const EmulatedConvolution&>(convolution).convolution;
    VisitDType(c.dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (kIsReal<T>) {
        ConvolveOf(c, reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b),
                   reinterpret_cast<T*>(out));
      }
    });
  }

  std::shared_ptr<PreparedOp> Prepare(const Transform& transform) override {
    return std::make_shared<EmulatedTransform>(transform);
  }
  void RunTransform(const PreparedOp& transform, Address in, Address out, Address) override {
    if (compiler_ == "none") return;
    const Transform& t = static_cast<const EmulatedTransform&>(transform).transform;
    // As cuFFT does, also of real numbers.
    const Address complex_bytes = t.dtype == DType::kF64 ? 16 : 8;
    HAMMOCK_CHECK((in | out) % complex_bytes == 0, "a transform of numbers that are not aligned");
    if (t.dtype == DType::kF64) {
      TransformOf<double>(t, in, out);
    } else {
      TransformOf<float>(t, in, out);
    }
  }
  std::string WhyNoTransforms() const override { return ""; }
  // NCCL itself needs a GPU; tests name a library that moves the host's memory.
  std::string WhyNoNccl() const override {
    return NcclIsChosen() ? cuda::WhyNoNccl() : "the emulation has none";
  }
  void OnStream(const std::function<void(CUstream)>& work) override { work(nullptr); }

  int Stream() override { return threads_.Mine(); }
  int Streams() const override { return threads_.count(); }
  std::shared_ptr<Event> RecordEvent() override {
    const int stream = Stream();
    return std::make_shared<EmulatedEvent>(stream, ++asked_[stream]);
  }
  std::shared_ptr<Event> RecordTimedEvent() override { return RecordEvent(); }
  double Seconds(const Event& from, const Event& to) override {
    auto time = [](const Event& event) { return static_cast<const EmulatedEvent&>(event).time; };
    return std::chrono::duration<double>(time(to) - time(from)).count();
  }
  // Work is done by the call that asks for it.
  void ComeAfter(const Event&) override {}
  void ComeAfter(int, uint64_t) override {}
  uint64_t Asked(int stream) const override { return asked_[stream]; }
  uint64_t Passed(int stream) const override { return Asked(stream); }
  void WaitFor(const Event&) override {}
  void Finish() override {}

 private:
  /// Compiles all waiting kernels into one library.
  void CompilePending() {
    std::string directory = std::filesystem::temp_directory_path() / "hammock-emulation-XXXXXX";
    if (!mkdtemp(directory.data())) {
      Throw<CompileError>(ErrorCode::kCompile, "cuda: no directory for emulated kernels");
    }
    std::string base = directory + "/kernels";
    {
      std::ofstream file(base + ".cpp");
      file << EmulationPrelude() << Prelude();
      for (const auto& function : pending_) {
        const std::string& name = function->source.name;
        file << function->source.text
             << fmt::format(
                    "extern \"C\" void run_{0}(const unsigned long long* words) {{\n"
                    "  {0}_parts::{0}(*(const {0}_parts::{0}_words*)words);\n}}\n",
                    name);
      }
    }
    std::string command = fmt::format(
        "{} -std=c++20 -w -O1 -ffp-contract=off -fPIC -shared -fno-gnu-unique -march=native -o "
        "{}.so {}.cpp -lm "
        "2>{}.log",
        compiler_, base, base, base);
    int status = std::system(command.c_str());
    void* library = status == 0 ? dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) {
      std::ifstream log(base + ".log");
      std::string line(2000, '\0');
      log.read(line.data(), 2000);
      line.resize(static_cast<size_t>(log.gcount()));
      Throw<CompileError>(ErrorCode::kCompile, "cuda: {} failed on {}.cpp: {}", compiler_, base,
                          line);
    }
    std::filesystem::remove_all(directory);
    auto set = reinterpret_cast<void (*)(EmulatedThread*)>(dlsym(library, "set_emulated"));
    set(&CurrentEmulatedThread());
    for (const auto& function : pending_) {
      std::string symbol = "run_" + function->source.name;
      function->code = reinterpret_cast<void (*)(const uint64_t*)>(dlsym(library, symbol.c_str()));
    }
    pending_.clear();
  }

  const std::string compiler_;
  const int card_;
  std::vector<unsigned> counters_ = std::vector<unsigned>(kMostSplitBlocks);
  ThreadStreams threads_;
  std::array<std::atomic<uint64_t>, kMostStreams> asked_{};
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<EmulatedFunction>> functions_;
  std::vector<std::shared_ptr<EmulatedFunction>> pending_;
};

}  // namespace

std::shared_ptr<Machine> MakeEmulatedMachine(const std::string& compiler, int card) {
  return std::make_shared<EmulatedMachine>(compiler, card);
}

}  // namespace hammock::cuda
