// PyTorch's inner names for functions that exist under others.

#include "hammock/ops/inner_names.h"

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/shape.h"
#include "ops/compose.h"
#include "ops/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

std::optional<DType> SoftmaxType(const char* op, const Tensor& self, bool half_to_float) {
  if (!half_to_float) return std::nullopt;
  if (self.dtype() == DType::kF16) return DType::kF32;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: half_to_float needs f16, got {}", op,
                   self.shape().to_string());
}

Tensor PadBy(const char* op, const char* mode, int rank, const Tensor& self,
             const std::vector<int64_t>& padding, const Location& at) {
  if (padding.size() != static_cast<size_t>(2 * rank)) {
    Throw(ErrorCode::kValue, "{}: padding needs {} numbers, got {}", op, 2 * rank, padding.size());
  }
  return pad(self, padding, mode, 0, at);
}

}  // namespace

Tensor _softmax(const Tensor& self, int64_t dim, bool half_to_float, Location at) {
  return softmax(self, dim, SoftmaxType("_softmax", self, half_to_float), at);
}

Tensor _log_softmax(const Tensor& self, int64_t dim, bool half_to_float, Location at) {
  return log_softmax(self, dim, SoftmaxType("_log_softmax", self, half_to_float), at);
}

std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self, Location at) {
  LocationScope scope(at);
  return {log_sigmoid(self), exp(-abs(self))};
}

#define HAMMOCK_PAD(name, mode, rank)                                                 \
  Tensor name(const Tensor& self, const std::vector<int64_t>& padding, Location at) { \
    return PadBy(#name, mode, rank, self, padding, at);                               \
  }
HAMMOCK_PAD(reflection_pad1d, "reflect", 1)
HAMMOCK_PAD(reflection_pad2d, "reflect", 2)
HAMMOCK_PAD(reflection_pad3d, "reflect", 3)
HAMMOCK_PAD(replication_pad1d, "replicate", 1)
HAMMOCK_PAD(replication_pad2d, "replicate", 2)
HAMMOCK_PAD(replication_pad3d, "replicate", 3)
#undef HAMMOCK_PAD

namespace {

HAMMOCK_FUNCTION(kSoftmax, "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
                 "Same as softmax.", _softmax)
HAMMOCK_FUNCTION(kLogSoftmax, "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
                 "Same as log_softmax.", _log_softmax)
HAMMOCK_FUNCTION(kLogSigmoidForward, "log_sigmoid_forward(Tensor self) -> (Tensor, Tensor)",
                 "log_sigmoid and exp(-|x|).", log_sigmoid_forward)
#define HAMMOCK_PAD(name, count, about) \
  HAMMOCK_FUNCTION(k_##name, #name "(Tensor self, int[" #count "] padding) -> Tensor", about, name)
HAMMOCK_PAD(reflection_pad1d, 2, "Adds elements mirrored at the ends.")
HAMMOCK_PAD(reflection_pad2d, 4, "Adds elements mirrored at the ends.")
HAMMOCK_PAD(reflection_pad3d, 6, "Adds elements mirrored at the ends.")
HAMMOCK_PAD(replication_pad1d, 2, "Repeats the elements at the ends.")
HAMMOCK_PAD(replication_pad2d, 4, "Repeats the elements at the ends.")
HAMMOCK_PAD(replication_pad3d, 6, "Repeats the elements at the ends.")
#undef HAMMOCK_PAD

}  // namespace

std::span<const OpDef* const> ops::InnerNameOps() {
  static constexpr const OpDef* kOps[] = {
      &kSoftmax,
      &kLogSoftmax,
      &kLogSigmoidForward,
      &k_reflection_pad1d,
      &k_reflection_pad2d,
      &k_reflection_pad3d,
      &k_replication_pad1d,
      &k_replication_pad2d,
      &k_replication_pad3d,
  };
  return kOps;
}

}  // namespace hammock
