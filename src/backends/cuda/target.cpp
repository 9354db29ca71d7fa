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

std::shared_ptr<Program> SizedParts::At(const std::vector<int64_t>& free,
                                        const std::shared_ptr<Machine>& machine) const {
  Program::AtSizes at{schedule_, schedule_->BasisAt(free), shared_};
  std::shared_ptr<const Arrangement> arrangement;
  {
    std::lock_guard lock(mutex_);
    arrangement = arrangement_;
  }
  if (arrangement) {
    if (auto program = Program::Arranged(arrangement, machine, at)) return program;
  }
  auto program = std::make_shared<Program>(schedule_->At(at.basis), machine, at);
  std::lock_guard lock(mutex_);
  if (!arrangement_) arrangement_ = program->arrangement();
  return program;
}

}  // namespace hammock::cuda
