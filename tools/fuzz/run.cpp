#include "fuzz/run.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "backends/cpu/program.h"
#include "base/throw.h"
#include "hammock/config.h"

namespace hammock::fuzz {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBefore = 64;  // bytes in front of a buffer that are watched
constexpr unsigned char kMark = 0x5C;
constexpr unsigned char kNonsense = 0xFF;  // NaN, -1, true

/// Memory that lies before a page that faults.
class Slot {
 public:
  Slot() = default;
  Slot(const Slot&) = delete;
  ~Slot() {
    if (memory_) munmap(memory_, size_ + kPage);
  }

  char* Take(size_t bytes, size_t alignment) {
    if (bytes + alignment + kBefore > size_) Grow(bytes + alignment + kBefore);
    size_t begin = (size_ - bytes) / alignment * alignment;
    begin_ = memory_ + begin;
    std::memset(begin_ - kBefore, kMark, kBefore);
    std::memset(begin_, kNonsense, size_ - begin);
    return begin_;
  }

  void CheckFront(const char* what) const {
    for (size_t i = 1; i <= kBefore; ++i) {
      HAMMOCK_CHECK(static_cast<unsigned char>(begin_[-static_cast<int64_t>(i)]) == kMark,
                    "{} bytes before {} were written", i, what);
    }
  }

 private:
  void Grow(size_t bytes) {
    if (memory_) munmap(memory_, size_ + kPage);
    size_ = (2 * bytes + kPage - 1) / kPage * kPage;
    memory_ = static_cast<char*>(
        mmap(nullptr, size_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    HAMMOCK_CHECK(memory_ != MAP_FAILED, "no memory for {} bytes", size_);
    mprotect(memory_ + size_, kPage, PROT_NONE);
  }

  char* memory_ = nullptr;
  char* begin_ = nullptr;
  size_t size_ = 0;
};

Slot& SlotOf(size_t index) {
  static auto& slots = *new std::deque<Slot>;
  while (slots.size() <= index) slots.emplace_back();
  return slots[index];
}

int64_t programs_run[2];
int64_t kernels_run[2];

size_t WidthOf(const Shape& type) {
  return static_cast<size_t>(std::max(InfoOf(type.dtype()).bits / 8, 1));
}

}  // namespace

int64_t ProgramsRun(bool compiled) { return programs_run[compiled]; }
int64_t KernelsRun(bool compiled) { return kernels_run[compiled]; }

std::vector<HostTensor> RunOnCpu(const Graph& graph, const std::vector<HostTensor>& inputs,
                                 bool compiled, int threads) {
  config::Set("cpu.wait_for_code", "true");
  config::Set("cpu.threads", std::to_string(threads));
  // Without a plug-in kernels stay interpreted.
  std::string plugin = config::GetText("cpu.llvm_plugin");
  config::Override none("cpu.llvm_plugin", compiled ? plugin : "none");
  cpu::Program program(graph);
  ++programs_run[compiled];
  kernels_run[compiled] += program.kernels();

  size_t slot = 0;
  std::vector<char*> in, out;
  for (const HostTensor& input : inputs) {
    size_t bytes = static_cast<size_t>(input.bytes());
    in.push_back(SlotOf(slot++).Take(bytes, WidthOf(input.shape())));
    if (bytes > 0) std::memcpy(in.back(), input.data(), bytes);
  }
  for (GraphValue output : graph.outputs()) {
    const Shape& type = graph.TypeOf(output);
    out.push_back(SlotOf(slot++).Take(static_cast<size_t>(type.bytes()), WidthOf(type)));
  }
  char* arena = SlotOf(slot++).Take(static_cast<size_t>(program.plan().arena_bytes), 64);
  program.Run(in, out, arena);
  for (size_t i = 0; i < slot; ++i) SlotOf(i).CheckFront("a buffer");
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t bytes = static_cast<size_t>(inputs[i].bytes());
    HAMMOCK_CHECK(bytes == 0 || std::memcmp(in[i], inputs[i].data(), bytes) == 0,
                  "input {} was written", i);
  }
  std::vector<HostTensor> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const cpu::Program::Output& source = program.outputs()[i];
    if (source.input >= 0) out[i] = in[source.input];
    if (source.same >= 0) out[i] = out[source.same];
    results.push_back(HostTensor::Copy(graph.TypeOf(graph.outputs()[i]), out[i]));
  }
  return results;
}

}  // namespace hammock::fuzz
