#include "hammock/nn/dropout.h"

#include "base/throw.h"
#include "hammock/ops.h"

namespace hammock::nn {

DropoutBase::DropoutBase(const char* class_name, double probability, Kind kind)
    : UnaryLayer(class_name), p(probability), kind_(kind) {
  if (!(p >= 0 && p <= 1)) Throw(ErrorCode::kValue, "{}: p is {}, expected 0 to 1", class_name, p);
}

Tensor DropoutBase::Run(const Tensor& input) {
  auto drop = dropout;
  if (kind_.alpha) {
    drop = kind_.channels ? feature_alpha_dropout : alpha_dropout;
  } else if (kind_.channels) {
    drop = kind_.unbatched_dims == 2   ? dropout1d
           : kind_.unbatched_dims == 4 ? dropout3d
                                       : dropout2d;
  }
  return drop(input, p, is_training(), Location::current());
}

std::string DropoutBase::extra_repr() const { return fmt::format("p={}", p); }

}  // namespace hammock::nn
