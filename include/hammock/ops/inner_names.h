#pragma once
/// Names that PyTorch's own functions go by inside, for code that calls those.

#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// `half_to_float` makes the result of an f16 input f32.
HAMMOCK_API Tensor _softmax(const Tensor& self, int64_t dim, bool half_to_float, HAMMOCK_AT);
HAMMOCK_API Tensor _log_softmax(const Tensor& self, int64_t dim, bool half_to_float, HAMMOCK_AT);
/// (log_sigmoid, exp(-|x|)).
HAMMOCK_API std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self, HAMMOCK_AT);

// pad by one mode over the last one, two or three dims; `padding` starts at the last dim.
#define HAMMOCK_PAD(name) \
  HAMMOCK_API Tensor name(const Tensor& self, const std::vector<int64_t>& padding, HAMMOCK_AT);
HAMMOCK_PAD(reflection_pad1d)
HAMMOCK_PAD(reflection_pad2d)
HAMMOCK_PAD(reflection_pad3d)
HAMMOCK_PAD(replication_pad1d)
HAMMOCK_PAD(replication_pad2d)
HAMMOCK_PAD(replication_pad3d)
#undef HAMMOCK_PAD

}  // namespace hammock
