#include "backends/cuda/target.h"

namespace hammock::cuda {

SizedParts::SizedParts(std::shared_ptr<const compiler::SizedSchedule> schedule)
    : schedule_(std::move(schedule)) {
  for (size_t i = 0; i < schedule_->schedule().steps.size(); ++i) {
    parts_.varies.push_back(schedule_->varies(i));
  }
  parts_.shared = std::make_shared<SharedParts>();
}

}  // namespace hammock::cuda
