#pragma once
/// Layers of one matmul, convolution or lookup: Linear, Bilinear, convolutions, Embedding.

#include <optional>
#include <string>

#include "hammock/nn/layer.h"
#include "hammock/nn/sizes.h"

namespace hammock::nn {

class HAMMOCK_API IdentityImpl : public UnaryLayer {
 public:
  IdentityImpl() : UnaryLayer("Identity") {}

 protected:
  Tensor Run(const Tensor& input) override { return input; }
};

class HAMMOCK_API FlattenImpl : public UnaryLayer {
 public:
  explicit FlattenImpl(int64_t start_dim = 1, int64_t end_dim = -1);

 protected:
  Tensor Run(const Tensor& input) override;

 private:
  int64_t start_dim_, end_dim_;
};

class HAMMOCK_API LinearImpl : public UnaryLayer {
 public:
  LinearImpl(int64_t in_features, int64_t out_features, bool bias = true);
  std::string extra_repr() const override;
  void reset_parameters();

  int64_t in_features, out_features;
  Parameter weight, bias;  ///< [out, in], [out] or undefined

 protected:
  Tensor Run(const Tensor& input) override;
};

class HAMMOCK_API BilinearImpl : public Module {
 public:
  BilinearImpl(int64_t in1_features, int64_t in2_features, int64_t out_features, bool bias = true);
  Tensor forward(const TensorAt& input1, const Tensor& input2);
  std::string extra_repr() const override;

  int64_t in1_features, in2_features, out_features;
  Parameter weight, bias;
};

/// `padding_mode` is zeros, reflect, replicate or circular; `same` pads so that sizes stay.
struct ConvOptions {
  int64_t in_channels, out_channels;
  Sizes kernel_size;
  Sizes stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true, same = false;
  std::string padding_mode = "zeros";
};

class HAMMOCK_API ConvBase : public UnaryLayer {
 public:
  using Options = ConvOptions;
  std::string extra_repr() const override;

  Options options;
  Parameter weight, bias;

 protected:
  Tensor Run(const Tensor& input) override;
  ConvBase(const char* class_name, int dims, Options options);

 private:
  int dims_;
};

struct ConvTransposeOptions {
  int64_t in_channels, out_channels;
  Sizes kernel_size;
  Sizes stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

class HAMMOCK_API ConvTransposeBase : public UnaryLayer {
 public:
  using Options = ConvTransposeOptions;
  std::string extra_repr() const override;

  Options options;
  Parameter weight, bias;

 protected:
  Tensor Run(const Tensor& input) override;
  ConvTransposeBase(const char* class_name, int dims, Options options);

 private:
  int dims_;
};

template <int dims>
class ConvImpl : public ConvBase {
 public:
  explicit ConvImpl(const Options& options)
      : ConvBase(dims == 1   ? "Conv1d"
                 : dims == 2 ? "Conv2d"
                             : "Conv3d",
                 dims, options) {}
  ConvImpl(int64_t in_channels, int64_t out_channels, const Sizes& kernel_size,
           const Sizes& stride = 1, const Sizes& padding = 0)
      : ConvImpl(Options{.in_channels = in_channels,
                         .out_channels = out_channels,
                         .kernel_size = kernel_size,
                         .stride = stride,
                         .padding = padding}) {}
};
template <int dims>
class ConvTransposeImpl : public ConvTransposeBase {
 public:
  explicit ConvTransposeImpl(const Options& options)
      : ConvTransposeBase(dims == 1   ? "ConvTranspose1d"
                          : dims == 2 ? "ConvTranspose2d"
                                      : "ConvTranspose3d",
                          dims, options) {}
  ConvTransposeImpl(int64_t in_channels, int64_t out_channels, const Sizes& kernel_size,
                    const Sizes& stride = 1, const Sizes& padding = 0)
      : ConvTransposeImpl(Options{.in_channels = in_channels,
                                  .out_channels = out_channels,
                                  .kernel_size = kernel_size,
                                  .stride = stride,
                                  .padding = padding}) {}
};

struct EmbeddingOptions {
  int64_t num_embeddings, embedding_dim;
  std::optional<int64_t> padding_idx = std::nullopt;
  /// Gradients are the rows that were used (hammock/sparse.h), for SGD, Adagrad and SparseAdam.
  bool sparse = false;
};
class HAMMOCK_API EmbeddingImpl : public UnaryLayer {
 public:
  using Options = EmbeddingOptions;
  explicit EmbeddingImpl(const Options& options);
  EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim)
      : EmbeddingImpl(Options{num_embeddings, embedding_dim}) {}
  std::string extra_repr() const override;

  Options options;
  Parameter weight;

 protected:
  Tensor Run(const Tensor& input) override;
};

struct EmbeddingBagOptions {
  int64_t num_embeddings, embedding_dim;
  std::string mode = "mean";
  std::optional<double> max_norm = std::nullopt;
  double norm_type = 2;
  bool include_last_offset = false;
  std::optional<int64_t> padding_idx = std::nullopt;
};
class HAMMOCK_API EmbeddingBagImpl : public Module {
 public:
  using Options = EmbeddingBagOptions;
  explicit EmbeddingBagImpl(const Options& options);
  Tensor forward(const TensorAt& input, const std::optional<Tensor>& offsets = std::nullopt,
                 const std::optional<Tensor>& per_sample_weights = std::nullopt);
  std::string extra_repr() const override;

  Options options;
  Parameter weight;
};

using Identity = Layer<IdentityImpl>;
using Flatten = Layer<FlattenImpl>;
using Linear = Layer<LinearImpl>;
using Bilinear = Layer<BilinearImpl>;
using Conv1d = Layer<ConvImpl<1>>;
using Conv2d = Layer<ConvImpl<2>>;
using Conv3d = Layer<ConvImpl<3>>;
using ConvTranspose1d = Layer<ConvTransposeImpl<1>>;
using ConvTranspose2d = Layer<ConvTransposeImpl<2>>;
using ConvTranspose3d = Layer<ConvTransposeImpl<3>>;
using Embedding = Layer<EmbeddingImpl>;
using EmbeddingBag = Layer<EmbeddingBagImpl>;

}  // namespace hammock::nn
