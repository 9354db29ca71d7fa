#pragma once
/// Dropout: elements or whole channels are left out at random while training.

#include "hammock/nn/layer.h"

namespace hammock::nn {

/// Zeroes what it drops and scales the rest; the alpha kinds keep mean and variance of what SELU
/// gives. `channels`: whole channels are dropped, those of inputs of (batch, channel, ...).
class HAMMOCK_API DropoutBase : public UnaryLayer {
 public:
  std::string extra_repr() const override;

  double p;

 protected:
  Tensor Run(const Tensor& input) override;
  struct Kind {
    bool alpha = false;
    bool channels = false;
    int unbatched_dims = 0;  ///< inputs of so many dims have no batch; 0: none
  };
  DropoutBase(const char* class_name, double p, Kind kind);

 private:
  Kind kind_;
};

class HAMMOCK_API DropoutImpl : public DropoutBase {
 public:
  explicit DropoutImpl(double p = 0.5) : DropoutBase("Dropout", p, {}) {}
};
template <int dims>
class ChannelDropoutImpl : public DropoutBase {
 public:
  explicit ChannelDropoutImpl(double p = 0.5)
      : DropoutBase(dims == 1   ? "Dropout1d"
                    : dims == 2 ? "Dropout2d"
                                : "Dropout3d",
                    p, {.channels = true, .unbatched_dims = dims == 2 ? 0 : dims + 1}) {}
};
class HAMMOCK_API AlphaDropoutImpl : public DropoutBase {
 public:
  explicit AlphaDropoutImpl(double p = 0.5) : DropoutBase("AlphaDropout", p, {.alpha = true}) {}
};
class HAMMOCK_API FeatureAlphaDropoutImpl : public DropoutBase {
 public:
  explicit FeatureAlphaDropoutImpl(double p = 0.5)
      : DropoutBase("FeatureAlphaDropout", p, {.alpha = true, .channels = true}) {}
};

using Dropout = Layer<DropoutImpl>;
using Dropout1d = Layer<ChannelDropoutImpl<1>>;
using Dropout2d = Layer<ChannelDropoutImpl<2>>;
using Dropout3d = Layer<ChannelDropoutImpl<3>>;
using AlphaDropout = Layer<AlphaDropoutImpl>;
using FeatureAlphaDropout = Layer<FeatureAlphaDropoutImpl>;

}  // namespace hammock::nn
