#pragma once
/// The networks of model_bench. peers.py has the same ones in PyTorch.

#include <hammock/hammock.h>

#include <memory>
#include <string>
#include <vector>

namespace bench {

using namespace hammock;

/// GPT-2's architecture, without dropout.
struct GptSizes {
  int64_t width = 768, heads = 12, layers = 12, vocabulary = 50304, context = 1024;
};

class Gpt : public nn::Module {
 public:
  explicit Gpt(const GptSizes& sizes);
  /// Logits of each position.
  Tensor forward(const Tensor& tokens);

 private:
  struct Block;
  nn::Embedding tokens_ = nullptr, positions_ = nullptr;
  std::vector<std::shared_ptr<Block>> blocks_;
  nn::LayerNorm norm_ = nullptr;
  nn::Linear head_ = nullptr;
};

/// ResNet with two convolutions a block (18) or bottlenecks (50).
class ResNet : public nn::UnaryModule {
 public:
  enum class Depth { k18, k50 };
  explicit ResNet(Depth depth);
  Tensor forward(const Tensor& images) override;

 private:
  nn::Conv2d conv_ = nullptr;
  nn::BatchNorm2d norm_ = nullptr;
  std::vector<std::shared_ptr<nn::UnaryModule>> blocks_;
  nn::Linear head_ = nullptr;
};

/// A decoder as Llama's: grouped heads, rotary positions, a cache of keys and values that is
/// allocated once.
struct LlamaSizes {
  int64_t width = 2048, layers = 16, heads = 32, key_heads = 8, inner = 8192, vocabulary = 32000,
          context = 512;
};

class Llama : public nn::Module {
 public:
  explicit Llama(const LlamaSizes& sizes);
  /// The most likely token after `token` [1, 1], which stands at `position` [1].
  Tensor Next(const Tensor& token, const Tensor& position);
  /// Logits of each position of sequences as long as the context.
  Tensor forward(const Tensor& tokens);

 private:
  struct Block;
  LlamaSizes sizes_;
  nn::Embedding tokens_ = nullptr;
  std::vector<std::shared_ptr<Block>> blocks_;
  nn::RMSNorm norm_ = nullptr;
  nn::Linear head_ = nullptr;
  Buffer cos_, sin_;
};

}  // namespace bench
