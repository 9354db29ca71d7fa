#pragma once
/// Quantised layers, and the pass that makes them of trained ones.
///
/// Weights alone: matmuls of float activations with weights of 8 or 4 bits, for models that are
/// bound by the memory of their weights (decoding).
///
///   nn::quantize_(model, {.dtype = i4, .group = 64});
///
/// Activations too: bytes times bytes, summed in i32. Ranges of activations are observed first.
///
///   nn::Calibration calibration(model);  // observes inputs of linear layers and convolutions
///   for (const Tensor& batch : batches) model(batch);
///   nn::quantize_(model, {.calibration = &calibration});

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hammock/nn/layer.h"
#include "hammock/nn/linear.h"
#include "hammock/ops/quantize.h"

namespace hammock::nn {

/// The range of the values that it has seen, on their device.
class HAMMOCK_API MinMaxObserver {
 public:
  /// With `momentum` below 1, later values move the range by that part of the way.
  explicit MinMaxObserver(double momentum = 1.0);
  void observe(const Tensor& values);
  bool empty() const { return !least_.defined(); }
  /// f32 scale and i32 zero point for `dtype`, each with one element. The range includes 0, which
  /// is exact; a range of nothing but 0 has scale 1. ValueError if nothing was observed.
  struct Scale {
    Tensor scale, zero_point;
  };
  Scale scale(DType dtype = DType::kU8, Location at = Location::current()) const;

 private:
  double momentum_;
  Tensor least_, most_;
};

/// Observes the inputs of every Linear and convolution of a model while it lives, or until it is
/// used.
class HAMMOCK_API Calibration {
 public:
  explicit Calibration(Module& model, double momentum = 1.0);
  ~Calibration();
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;
  /// By dotted name; null for layers without an observer.
  const MinMaxObserver* find(const std::string& name) const;
  void stop();

 private:
  std::map<std::string, std::shared_ptr<MinMaxObserver>> observers_;
  std::vector<HookHandle> hooks_;
};

/// y = quantized_linear(x, weight, scale, zero_point, bias)
class HAMMOCK_API QuantizedLinearImpl : public UnaryLayer {
 public:
  /// `group` elements of a row share a scale; 0: the whole row does.
  QuantizedLinearImpl(const LinearImpl& from, DType dtype, int64_t group = 0);
  std::string extra_repr() const override;

  int64_t in_features, out_features;
  Buffer weight, scale, bias;

 protected:
  Tensor Run(const Tensor& input) override;
};

/// Bytes times bytes: the input is quantised by a scale that was observed, the weight by one a row.
class HAMMOCK_API ByteLinearImpl : public UnaryLayer {
 public:
  ByteLinearImpl(const LinearImpl& from, const MinMaxObserver& observer);
  std::string extra_repr() const override;

  int64_t in_features, out_features;
  Buffer weight, scale, input_scale, input_zero, bias;

 protected:
  Tensor Run(const Tensor& input) override;
};

/// The same for convolutions whose padding is zeros.
class HAMMOCK_API ByteConvImpl : public UnaryLayer {
 public:
  ByteConvImpl(const ConvBase& from, const MinMaxObserver& observer);
  std::string extra_repr() const override;

  ConvOptions options;
  Buffer weight, scale, input_scale, input_zero, bias;

 protected:
  Tensor Run(const Tensor& input) override;
};

using QuantizedLinear = Layer<QuantizedLinearImpl>;
using ByteLinear = Layer<ByteLinearImpl>;
using ByteConv = Layer<ByteConvImpl>;

struct QuantizeOptions {
  DType dtype = DType::kI8;  ///< of weights: i8, u8, i4, u4, i2, u2 or f8
  int64_t group = 0;         ///< elements of a row that share a scale; 0: the whole row
  /// With one, layers that it has observed become ByteLinear and ByteConv; the other options are
  /// those of the layers that it has not.
  Calibration* calibration = nullptr;
  /// Layers that stay as they are, by dotted name.
  std::function<bool(const std::string& name, const Module& layer)> keep = nullptr;
};

/// Replaces the Linear layers below `model` (and observed convolutions) by quantised ones; handles
/// to the former layers call the new ones. Layers whose rows do not divide into groups stay.
/// Returns the names of those that were replaced.
HAMMOCK_API std::vector<std::string> quantize_(Module& model, const QuantizeOptions& options = {},
                                               Location at = Location::current());

}  // namespace hammock::nn
