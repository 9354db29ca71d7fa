#pragma once
/// Recurrent layers. Inputs are (time, batch, features), or with `batch_first` (batch, time,
/// features), or without a batch; states (layers * directions, batch, features).

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hammock/nn/layer.h"
#include "hammock/nn/packed_sequence.h"

namespace hammock::nn {

struct RNNOptions {
  int64_t input_size, hidden_size;
  int64_t num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  int64_t proj_size = 0;              ///< LSTM only
  std::string nonlinearity = "tanh";  ///< RNN only: tanh or relu
};

/// The parameters of PyTorch's RNN, GRU and LSTM, by its names.
class HAMMOCK_API RNNBase : public Module {
 public:
  using Options = RNNOptions;
  std::string extra_repr() const override;
  Options options;
  /// One direction of one layer: (outputs, last states) from input, states and parameters.
  using LayerFn = std::function<std::pair<Tensor, std::vector<Tensor>>(
      const Tensor& input, const std::vector<Tensor>& states, const std::vector<Tensor>& params)>;

 protected:
  RNNBase(const char* class_name, int gates, Options options);
  int64_t directions() const { return options.bidirectional ? 2 : 1; }
  /// With a batch dim, and in the order of `params`.
  Tensor Batched(const Tensor& input) const;
  Tensor State(const std::optional<Tensor>& given, const Tensor& batched, int64_t size) const;
  Tensor WithoutBatch(const Tensor& result, bool is_state) const;
  /// All layers and directions on sequences of different lengths.
  std::pair<PackedSequence, std::vector<Tensor>> RunPacked(const PackedSequence& input,
                                                           std::vector<Tensor> states,
                                                           const LayerFn& run) const;
  Tensor PackedState(const std::optional<Tensor>& given, const PackedSequence& input,
                     int64_t size) const;
  /// As the ops take them.
  std::vector<Tensor> params() const;

 private:
  void AddParameters(int gates);

  std::vector<Parameter> params_;  // by layer, direction and kind, whatever the lists hold
};

class HAMMOCK_API RNNImpl : public RNNBase {
 public:
  explicit RNNImpl(const Options& options);
  RNNImpl(int64_t input_size, int64_t hidden_size) : RNNImpl(Options{input_size, hidden_size}) {}
  /// (outputs, last state)
  std::tuple<Tensor, Tensor> forward(const TensorAt& input,
                                     const std::optional<Tensor>& state = std::nullopt);
  std::tuple<PackedSequence, Tensor> forward(const PackedAt& input,
                                             const std::optional<Tensor>& state = std::nullopt);
};

class HAMMOCK_API GRUImpl : public RNNBase {
 public:
  explicit GRUImpl(const Options& options);
  GRUImpl(int64_t input_size, int64_t hidden_size) : GRUImpl(Options{input_size, hidden_size}) {}
  std::tuple<Tensor, Tensor> forward(const TensorAt& input,
                                     const std::optional<Tensor>& state = std::nullopt);
  std::tuple<PackedSequence, Tensor> forward(const PackedAt& input,
                                             const std::optional<Tensor>& state = std::nullopt);
};

/// (h, c): what an LSTM and its cell take and return.
using LSTMState = std::tuple<Tensor, Tensor>;

class HAMMOCK_API LSTMImpl : public RNNBase {
 public:
  explicit LSTMImpl(const Options& options);
  LSTMImpl(int64_t input_size, int64_t hidden_size) : LSTMImpl(Options{input_size, hidden_size}) {}
  /// (outputs, last state): `std::tie(y, state) = lstm(x, state)`
  std::tuple<Tensor, LSTMState> forward(const TensorAt& input,
                                        const std::optional<LSTMState>& state = std::nullopt);
  std::tuple<PackedSequence, LSTMState> forward(
      const PackedAt& input, const std::optional<LSTMState>& state = std::nullopt);
};

/// One step of a layer.
class HAMMOCK_API CellBase : public Module {
 public:
  Parameter weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  CellBase(const char* class_name, int gates, int64_t input_size, int64_t hidden_size, bool bias);
  Tensor State(const std::optional<Tensor>& given, const Tensor& input) const;
};

class HAMMOCK_API RNNCellImpl : public CellBase {
 public:
  RNNCellImpl(int64_t input_size, int64_t hidden_size, bool bias = true,
              const std::string& nonlinearity = "tanh");
  Tensor forward(const TensorAt& input, const std::optional<Tensor>& state = std::nullopt);

 private:
  bool relu_;
};

class HAMMOCK_API GRUCellImpl : public CellBase {
 public:
  GRUCellImpl(int64_t input_size, int64_t hidden_size, bool bias = true);
  Tensor forward(const TensorAt& input, const std::optional<Tensor>& state = std::nullopt);
};

class HAMMOCK_API LSTMCellImpl : public CellBase {
 public:
  LSTMCellImpl(int64_t input_size, int64_t hidden_size, bool bias = true);
  /// `state = cell(x, state)`
  LSTMState forward(const TensorAt& input, const std::optional<LSTMState>& state = std::nullopt);
};

using RNN = Layer<RNNImpl>;
using GRU = Layer<GRUImpl>;
using LSTM = Layer<LSTMImpl>;
using RNNCell = Layer<RNNCellImpl>;
using GRUCell = Layer<GRUCellImpl>;
using LSTMCell = Layer<LSTMCellImpl>;

}  // namespace hammock::nn
