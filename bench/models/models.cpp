#include "models.h"

namespace bench {

struct Gpt::Block : nn::Module {
  explicit Block(const GptSizes& sizes) : Module("Block"), heads(sizes.heads) {
    const int64_t width = sizes.width;
    norm_1 = register_module("norm_1", nn::LayerNorm(width));
    norm_2 = register_module("norm_2", nn::LayerNorm(width));
    qkv = register_module("qkv", nn::Linear(width, 3 * width));
    out = register_module("out", nn::Linear(width, width));
    up = register_module("up", nn::Linear(width, 4 * width));
    down = register_module("down", nn::Linear(4 * width, width));
  }
  Tensor forward(const Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    Tensor parts = qkv(norm_1(x)).reshape({batch, length, 3, heads, width / heads});
    auto part = [&](int64_t i) { return parts.select(2, i).transpose(1, 2); };
    Tensor mixed = scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, true);
    Tensor y = x + out(mixed.transpose(1, 2).reshape({batch, length, width}));
    return y + down(gelu(up(norm_2(y))));
  }
  int64_t heads;
  nn::LayerNorm norm_1 = nullptr, norm_2 = nullptr;
  nn::Linear qkv = nullptr, out = nullptr, up = nullptr, down = nullptr;
};

Gpt::Gpt(const GptSizes& sizes) : Module("Gpt") {
  tokens_ = register_module("tokens", nn::Embedding(sizes.vocabulary, sizes.width));
  positions_ = register_module("positions", nn::Embedding(sizes.context, sizes.width));
  nn::init::normal_(tokens_->weight, 0, 0.02);
  nn::init::normal_(positions_->weight, 0, 0.02);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>(sizes)));
  }
  norm_ = register_module("norm", nn::LayerNorm(sizes.width));
  head_ = register_module("head", nn::Linear(sizes.width, sizes.vocabulary));
}

Tensor Gpt::forward(const Tensor& tokens) {
  Tensor x = tokens_(tokens) + positions_(arange(tokens.size(1)));
  for (auto& block : blocks_) x = block->forward(x);
  return head_(norm_(x));
}

namespace {

nn::Conv2d Convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d({.in_channels = in,
                     .out_channels = out,
                     .kernel_size = kernel,
                     .stride = stride,
                     .padding = kernel / 2,
                     .bias = false});
}

/// Convolutions with norms, the last one without an activation, beside the input.
struct ResidualBlock : nn::UnaryModule {
  struct Layer {
    int64_t channels, kernel, stride;
  };
  ResidualBlock(int64_t in, const std::vector<Layer>& layers) : UnaryModule("ResidualBlock") {
    int64_t channels = in, stride = 1;
    for (const Layer& layer : layers) {
      const std::string number = std::to_string(convs.size());
      convs.push_back(register_module(
          "conv" + number, Convolution(channels, layer.channels, layer.kernel, layer.stride)));
      norms.push_back(register_module("norm" + number, nn::BatchNorm2d(layer.channels)));
      channels = layer.channels;
      stride *= layer.stride;
    }
    if (stride == 1 && in == channels) return;
    shortcut = register_module("shortcut", nn::Sequential(Convolution(in, channels, 1, stride),
                                                          nn::BatchNorm2d(channels)));
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (size_t i = 0; i < convs.size(); ++i) {
      y = norms[i](convs[i](y));
      if (i + 1 < convs.size()) y = relu(y);
    }
    return relu(y + (shortcut ? shortcut(x) : x));
  }
  std::vector<nn::Conv2d> convs;
  std::vector<nn::BatchNorm2d> norms;
  nn::Sequential shortcut = nullptr;
};

}  // namespace

ResNet::ResNet(Depth depth) : UnaryModule("ResNet") {
  const bool deep = depth == Depth::k50;
  const std::vector<int> counts = deep ? std::vector{3, 4, 6, 3} : std::vector{2, 2, 2, 2};
  conv_ = register_module("conv", Convolution(3, 64, 7, 2));
  norm_ = register_module("norm", nn::BatchNorm2d(64));
  int64_t in = 64;
  for (size_t stage = 0; stage < counts.size(); ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int i = 0; i < counts[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      std::vector<ResidualBlock::Layer> layers = {{width, 3, stride}, {width, 3, 1}};
      if (deep) layers = {{width, 1, 1}, {width, 3, stride}, {4 * width, 1, 1}};
      blocks_.push_back(register_module("block" + std::to_string(blocks_.size()),
                                        std::make_shared<ResidualBlock>(in, layers)));
      in = layers.back().channels;
    }
  }
  head_ = register_module("head", nn::Linear(in, 1000));
}

Tensor ResNet::forward(const Tensor& images) {
  Tensor x = max_pool2d(relu(norm_(conv_(images))), {3}, {2}, {1});
  for (auto& block : blocks_) x = block->forward(x);
  return head_(flatten(adaptive_avg_pool2d(x, {1, 1}), 1));
}

namespace {

Tensor Rotated(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  std::vector<Tensor> halves = x.chunk(2, -1);
  return x * cos + cat({-halves[1], halves[0]}, -1) * sin;
}

nn::RMSNorm Norm(int64_t width) {
  return nn::RMSNorm(nn::RMSNormOptions{.normalized_shape = width, .eps = 1e-5});
}

}  // namespace

struct Llama::Block : nn::Module {
  explicit Block(const LlamaSizes& s) : Module("Block"), sizes(s), size(s.width / s.heads) {
    q = register_module("q", nn::Linear(s.width, s.heads * size, false));
    k = register_module("k", nn::Linear(s.width, s.key_heads * size, false));
    v = register_module("v", nn::Linear(s.width, s.key_heads * size, false));
    out = register_module("out", nn::Linear(s.heads * size, s.width, false));
    norm_1 = register_module("norm_1", Norm(s.width));
    norm_2 = register_module("norm_2", Norm(s.width));
    gate = register_module("gate", nn::Linear(s.width, s.inner, false));
    up = register_module("up", nn::Linear(s.width, s.inner, false));
    down = register_module("down", nn::Linear(s.inner, s.width, false));
    keys = register_buffer("keys", zeros({1, s.key_heads, s.context, size}));
    values = register_buffer("values", zeros({1, s.key_heads, s.context, size}));
  }
  /// The token at `position`, with all before it in the cache.
  Tensor Next(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& position,
              const Tensor& mask) {
    return Apply(x, cos, sin, [&](const Tensor& query, const Tensor& key, const Tensor& value) {
      keys.copy_(index_copy(keys, 2, position, key));
      values.copy_(index_copy(values, 2, position, value));
      return scaled_dot_product_attention(query, ForAllHeads(keys), ForAllHeads(values), mask);
    });
  }

  /// Whole sequences.
  Tensor forward(const Tensor& x, const Tensor& cos, const Tensor& sin) {
    return Apply(x, cos, sin, [&](const Tensor& query, const Tensor& key, const Tensor& value) {
      return scaled_dot_product_attention(query, ForAllHeads(key), ForAllHeads(value), {}, 0, true);
    });
  }

  template <class Attend>
  Tensor Apply(const Tensor& x, const Tensor& cos, const Tensor& sin, const Attend& attend) {
    const int64_t batch = x.size(0), length = x.size(1);
    auto heads = [&](const Tensor& y, int64_t count) {
      return y.view({batch, length, count, size}).transpose(1, 2);
    };
    Tensor n = norm_1(x);
    Tensor key = Rotated(heads(k(n), sizes.key_heads), cos, sin);
    Tensor value = heads(v(n), sizes.key_heads);
    Tensor mixed = attend(Rotated(heads(q(n), sizes.heads), cos, sin), key, value);
    Tensor y = x + out(mixed.transpose(1, 2).reshape({batch, length, sizes.heads * size}));
    Tensor m = norm_2(y);
    return y + down(silu(gate(m)) * up(m));
  }

  Tensor ForAllHeads(const Tensor& x) const {
    return repeat_interleave(x, sizes.heads / sizes.key_heads, 1);
  }
  LlamaSizes sizes;
  int64_t size;
  nn::Linear q = nullptr, k = nullptr, v = nullptr, out = nullptr;
  nn::Linear gate = nullptr, up = nullptr, down = nullptr;
  nn::RMSNorm norm_1 = nullptr, norm_2 = nullptr;
  Buffer keys, values;
};

Llama::Llama(const LlamaSizes& sizes) : Module("Llama"), sizes_(sizes) {
  tokens_ = register_module("tokens", nn::Embedding(sizes.vocabulary, sizes.width));
  for (int64_t i = 0; i < sizes.layers; ++i) {
    blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>(sizes)));
  }
  norm_ = register_module("norm", Norm(sizes.width));
  head_ = register_module("head", nn::Linear(sizes.width, sizes.vocabulary, false));
  const int64_t size = sizes.width / sizes.heads;
  Tensor frequencies = pow(10000.0, arange(0, size, 2).to(f32) / static_cast<double>(-size));
  Tensor angles = outer(arange(sizes.context).to(f32), frequencies);
  angles = cat({angles, angles}, -1);
  cos_ = register_buffer("cos", angles.cos());
  sin_ = register_buffer("sin", angles.sin());
}

Tensor Llama::Next(const Tensor& token, const Tensor& position) {
  Tensor x = tokens_(token);
  Tensor cos = cos_.index_select(0, position), sin = sin_.index_select(0, position);
  Tensor mask = (arange(sizes_.context) <= position).unsqueeze(0);
  for (auto& block : blocks_) x = block->Next(x, cos, sin, position, mask);
  return argmax(head_(norm_(x.select(1, -1))), -1, true);
}

Tensor Llama::forward(const Tensor& tokens) {
  Tensor x = tokens_(tokens);
  for (auto& block : blocks_) x = block->forward(x, cos_, sin_);
  return head_(norm_(x));
}

}  // namespace bench
