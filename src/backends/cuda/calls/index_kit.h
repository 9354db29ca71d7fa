#pragma once
/// Helpers of calls with tensors of indices.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "backends/cuda/calls/call_kit.h"

namespace hammock::cuda {

/// A 0-d tensor counts as a vector of one.
inline Dims AtLeastVector(const Dims& sizes) { return sizes.empty() ? Dims{1} : sizes; }

inline int64_t FaultyIndex(uint64_t fault) {
  return static_cast<int32_t>(static_cast<uint32_t>(~fault));
}

/// Indices count along the dim of `self`.
class IndexedCall : public Call {
 public:
  IndexedCall(const GraphNode& node, const Shape& self, int64_t dim)
      : name_(node.op->name()),
        dim_(dim),
        extent_(AtLeastVector(self.sizes())[static_cast<int>(dim)]) {}
  int fault_count() const override { return 1; }
  std::string FaultMessage(uint64_t fault) const override {
    return fmt::format("{}: index {} is out of bounds for dimension {} with size {}", name_,
                       FaultyIndex(fault), dim_, extent_);
  }

 protected:
  std::string name_;
  int64_t dim_;
  int64_t extent_;
};

}  // namespace hammock::cuda
