#include "backends/cuda/target.h"

#include "hammock/metric.h"

namespace hammock::cuda {
namespace {

constinit const metrics::DeclaredCounter kSizesScheduled({
    .name = "cuda::SizesScheduled",
    .doc = "New sizes of known graphs that needed a schedule of their own.",
});

}  // namespace

metrics::Counter& Target::scheduled() const { return metrics::Get<kSizesScheduled>(); }

SizedParts::SizedParts(std::shared_ptr<const compiler::SizedSchedule> schedule)
    : schedule_(std::move(schedule)) {
  for (size_t i = 0; i < schedule_->schedule().commands.size(); ++i) {
    parts_.varies.push_back(schedule_->varies(i));
  }
  parts_.shared = std::make_shared<SharedParts>();
}

}  // namespace hammock::cuda
