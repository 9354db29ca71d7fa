// Dropout of channels, and the kinds that keep SELU's mean and variance.

#include "hammock/ops/dropout.h"

#include <cmath>

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/random.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

namespace {

struct Kind {
  const char* op;
  bool alpha = false;
  bool channels = false;
  int unbatched_dims = -1;  ///< of an input whose channels are dim 0
};

/// True where a value is kept; one for each element, or for each channel.
Tensor Kept(const Kind& kind, const Tensor& self, double p) {
  Dims sizes = self.sizes();
  for (int dim = self.dim() == kind.unbatched_dims ? 1 : 2; kind.channels && dim < self.dim();
       ++dim) {
    sizes[dim] = 1;
  }
  return lt(rand(sizes, WideFloat(self.dtype()), self.device()), 1 - p);
}

Tensor Dropped(const Kind& kind, const Tensor& self, double p, bool training) {
  if (!(p >= 0 && p <= 1)) Throw(ErrorCode::kValue, "{}: p {} must be in [0, 1]", kind.op, p);
  if (kind.channels && self.dim() < 2) {
    Throw(ErrorCode::kShapeMismatch, "{}: the input is {}, expected channels", kind.op,
          self.shape().to_string());
  }
  if (!training || p == 0) return self;
  NeedFloat(kind.op, self);
  if (p == 1) return mul(self, 0.0);
  Tensor kept = Kept(kind, self, p);
  if (!kind.alpha) return mul(self, mul(Casted(kept, self.dtype()), 1 / (1 - p)));
  constexpr double kLimit = -1.7580993408473766;  // -scale * alpha of SELU
  double a = 1 / std::sqrt((1 - p) * (1 + p * kLimit * kLimit));
  double b = -a * p * kLimit;
  Tensor x = Casted(self, WideFloat(self.dtype()));
  return Casted(add(mul(where(kept, x, kLimit), a), b), self.dtype());
}

}  // namespace

#define HAMMOCK_DEFINE(name, ...)                                         \
  Tensor name(const Tensor& self, double p, bool training, Location at) { \
    LocationScope scope(at);                                              \
    return Dropped({.op = #name, __VA_ARGS__}, self, p, training);        \
  }
HAMMOCK_DEFINE(feature_dropout, .channels = true)
HAMMOCK_DEFINE(dropout1d, .channels = true, .unbatched_dims = 2)
HAMMOCK_DEFINE(dropout2d, .channels = true)
HAMMOCK_DEFINE(dropout3d, .channels = true, .unbatched_dims = 4)
HAMMOCK_DEFINE(alpha_dropout, .alpha = true)
HAMMOCK_DEFINE(feature_alpha_dropout, .alpha = true, .channels = true)
#undef HAMMOCK_DEFINE

std::tuple<Tensor, Tensor> native_dropout(const Tensor& self, double p, bool train, Location at) {
  LocationScope scope(at);
  if (!(p >= 0 && p <= 1)) Throw(ErrorCode::kValue, "native_dropout: p {} must be in [0, 1]", p);
  NeedFloat("native_dropout", self);
  if (!train) return {self, Filled(self.sizes(), true, DType::kBool, self)};
  Tensor kept = lt(rand_like(self), 1 - p);
  return {mul(mul(self, Casted(kept, self.dtype())), p == 1 ? 0.0 : 1 / (1 - p)), kept};
}

// ---- Records

namespace {

#define RECORD(name, training, about)                                                  \
  {.schema = #name "(Tensor self, float p=0.5, bool training=" training ") -> Tensor", \
   .doc = about,                                                                       \
   .call = Box<name>},

constinit const OpDef kFunctions[] = {
    RECORD(feature_dropout, "True", "Zeroes channels with probability `p`.")
        RECORD(dropout1d, "True", "Zeroes channels of sequences with probability `p`.")
            RECORD(dropout2d, "True", "Zeroes channels of images with probability `p`.") RECORD(
                dropout3d, "True", "Zeroes channels of volumes with probability `p`.")
                RECORD(alpha_dropout, "False", "Dropout that keeps mean and variance behind SELU.")
                    RECORD(feature_alpha_dropout, "False", "alpha_dropout of channels."){
                        .schema =
                            "native_dropout(Tensor self, float p, bool train) -> (Tensor, Tensor)",
                        .doc = "dropout, and which elements were kept.",
                        .call = Box<native_dropout>},
};

}  // namespace

std::span<const OpDef* const> ops::DropoutOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace hammock
