#include "backends/cuda/driver/checks.h"

#include <chrono>

namespace hammock::cuda {

namespace {

constexpr size_t kMost = 64;  // unchecked runs that a stream may have
constexpr std::chrono::microseconds kGracePeriod{
    250};  // then no thread is expected to wait for a check

}  // namespace

Checks::Checks(const std::string& device) {
  for (auto& queue : queues_) {
    queue = std::make_unique<WorkQueue>(device + " checks", kMost, kGracePeriod);
  }
}

void Checks::HelpUntil(Mask streams, const std::function<bool()>& done) {
  for (int stream = 0; stream < kMostStreams && !done(); ++stream) {
    if (streams & MaskOf(stream)) QueueOf(stream).HelpUntil(done);
  }
}

void Checks::Drain() {
  for (auto& queue : queues_) queue->Drain();
}

}  // namespace hammock::cuda
