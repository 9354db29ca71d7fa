#include "hammock/nn/recurrent.h"

#include <cmath>

#include "base/throw.h"
#include "hammock/nn/init.h"
#include "hammock/ops.h"
#include "nn/call_forward.h"
#include "nn/given.h"

namespace hammock::nn {
namespace {

double Bound(int64_t hidden_size) {
  return hidden_size > 0 ? 1 / std::sqrt(static_cast<double>(hidden_size)) : 0;
}

}  // namespace

RNNBase::RNNBase(const char* class_name, int gates, Options given)
    : Module(class_name), options(std::move(given)) {
  if (options.num_layers < 1 || options.hidden_size < 1 || options.proj_size < 0 ||
      options.proj_size >= options.hidden_size) {
    Throw(ErrorCode::kValue, "{}: {} layers of {} features, projected to {}", class_name,
          options.num_layers, options.hidden_size, options.proj_size);
  }
  AddParameters(gates);
}

void RNNBase::AddParameters(int gates) {
  int64_t hidden = options.hidden_size;
  int64_t out = options.proj_size > 0 ? options.proj_size : hidden;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    for (int64_t direction = 0; direction < directions(); ++direction) {
      std::string suffix = fmt::format("_l{}{}", layer, direction == 1 ? "_reverse" : "");
      auto add = [&](const std::string& name, const Dims& sizes) {
        params_.push_back(register_parameter(name + suffix, empty(sizes)));
        init::uniform_(params_.back(), -Bound(hidden), Bound(hidden));
      };
      int64_t in = layer == 0 ? options.input_size : out * directions();
      add("weight_ih", {gates * hidden, in});
      add("weight_hh", {gates * hidden, out});
      if (options.bias) add("bias_ih", {gates * hidden});
      if (options.bias) add("bias_hh", {gates * hidden});
      if (options.proj_size > 0) add("weight_hr", {out, hidden});
    }
  }
}

std::vector<Tensor> RNNBase::params() const { return {params_.begin(), params_.end()}; }

Tensor RNNBase::Batched(const Tensor& input) const {
  if (input.dim() == 3) return input;
  if (input.dim() == 2) return unsqueeze(input, options.batch_first ? 0 : 1);
  Throw(ErrorCode::kShapeMismatch, "{}: the input is {}, expected 2 or 3 dims", class_name(),
        input.shape().to_string());
}

Tensor RNNBase::State(const std::optional<Tensor>& given, const Tensor& batched,
                      int64_t size) const {
  if (given) return given->dim() == 2 ? unsqueeze(*given, 1) : *given;
  int64_t batch = batched.size(options.batch_first ? 0 : 1);
  return zeros({options.num_layers * directions(), batch, size}, batched.dtype(), batched.device());
}

Tensor RNNBase::WithoutBatch(const Tensor& result, bool is_state) const {
  return squeeze(result, !is_state && options.batch_first ? 0 : 1);
}

std::string RNNBase::extra_repr() const {
  std::string result = fmt::format("{}, {}", options.input_size, options.hidden_size);
  if (options.proj_size > 0) result += fmt::format(", proj_size={}", options.proj_size);
  if (options.num_layers != 1) result += fmt::format(", num_layers={}", options.num_layers);
  if (!options.bias) result += ", bias=false";
  if (options.batch_first) result += ", batch_first=true";
  if (options.dropout != 0) result += fmt::format(", dropout={}", options.dropout);
  if (options.bidirectional) result += ", bidirectional=true";
  return result;
}

namespace {

using LayersOp = std::tuple<Tensor, Tensor> (*)(const Tensor&, const Tensor&,
                                                const std::vector<Tensor>&, bool, int64_t, double,
                                                bool, bool, bool, Location);

template <size_t index>
std::optional<Tensor> Part(const std::optional<LSTMState>& state) {
  return state ? std::optional(std::get<index>(*state)) : std::nullopt;
}

/// The state among the boxed arguments (input, h, c) of a method.
std::optional<LSTMState> StateOf(const std::vector<Any>& args) {
  if (args[1].IsNone() || args[2].IsNone()) return std::nullopt;
  return LSTMState(args[1].ToTensor(), args[2].ToTensor());
}

/// Of the overloads, the one that methods by name call.
template <class M>
auto OnTensor(std::tuple<Tensor, Tensor> (M::*forward)(const TensorAt&,
                                                       const std::optional<Tensor>&)) {
  return forward;
}

/// One direction of one layer of an op.
RNNBase::LayerFn LayerOf(LayersOp op, bool bias) {
  return [=](const Tensor& input, const std::vector<Tensor>& states,
             const std::vector<Tensor>& params) {
    auto [output, last] =
        op(input, states[0], params, bias, 1, 0, false, false, false, Location::current());
    return std::pair(output, std::vector<Tensor>{last});
  };
}

}  // namespace

Tensor RNNBase::PackedState(const std::optional<Tensor>& given, const PackedSequence& input,
                            int64_t size) const {
  if (given) return *given;
  return zeros({options.num_layers * directions(), input.batch(), size}, input.data.dtype(),
               input.data.device());
}

RNNImpl::RNNImpl(const Options& given) : RNNBase("RNN", 1, given) {
  if (options.proj_size != 0) Throw(ErrorCode::kValue, "RNN: proj_size is for LSTM");
  if (options.nonlinearity != "tanh" && options.nonlinearity != "relu") {
    Throw(ErrorCode::kValue, "RNN: nonlinearity '{}' is not tanh or relu", options.nonlinearity);
  }
  define("forward(Tensor input, Tensor? state=None) -> (Tensor, Tensor)",
         OnTensor(&RNNImpl::forward));
}

std::tuple<Tensor, Tensor> RNNImpl::forward(const TensorAt& given,
                                            const std::optional<Tensor>& state) {
  return CallForward(*this, given.at, [&]() -> std::tuple<Tensor, Tensor> {
    const Tensor& input = given.tensor;
    LayersOp op = options.nonlinearity == "relu" ? rnn_relu : rnn_tanh;
    Tensor batched = Batched(input);
    auto [output, last] = op(batched, State(state, batched, options.hidden_size), params(),
                             options.bias, options.num_layers, options.dropout, is_training(),
                             options.bidirectional, options.batch_first, Location::current());
    if (input.dim() == 3) return {output, last};
    return {WithoutBatch(output, false), WithoutBatch(last, true)};
  });
}

std::tuple<PackedSequence, Tensor> RNNImpl::forward(const PackedAt& given,
                                                    const std::optional<Tensor>& state) {
  return CallForward(*this, given.at, [&]() -> std::tuple<PackedSequence, Tensor> {
    const PackedSequence& input = given.sequence;
    LayersOp op = options.nonlinearity == "relu" ? rnn_relu : rnn_tanh;
    auto [output, last] = RunPacked(input, {PackedState(state, input, options.hidden_size)},
                                    LayerOf(op, options.bias));
    return {output, last[0]};
  });
}

GRUImpl::GRUImpl(const Options& given) : RNNBase("GRU", 3, given) {
  if (options.proj_size != 0) Throw(ErrorCode::kValue, "GRU: proj_size is for LSTM");
  define("forward(Tensor input, Tensor? state=None) -> (Tensor, Tensor)",
         OnTensor(&GRUImpl::forward));
}

std::tuple<Tensor, Tensor> GRUImpl::forward(const TensorAt& given,
                                            const std::optional<Tensor>& state) {
  return CallForward(*this, given.at, [&]() -> std::tuple<Tensor, Tensor> {
    const Tensor& input = given.tensor;
    Tensor batched = Batched(input);
    auto [output, last] = gru(batched, State(state, batched, options.hidden_size), params(),
                              options.bias, options.num_layers, options.dropout, is_training(),
                              options.bidirectional, options.batch_first);
    if (input.dim() == 3) return {output, last};
    return {WithoutBatch(output, false), WithoutBatch(last, true)};
  });
}

std::tuple<PackedSequence, Tensor> GRUImpl::forward(const PackedAt& given,
                                                    const std::optional<Tensor>& state) {
  return CallForward(*this, given.at, [&]() -> std::tuple<PackedSequence, Tensor> {
    const PackedSequence& input = given.sequence;
    auto [output, last] = RunPacked(input, {PackedState(state, input, options.hidden_size)},
                                    LayerOf(gru, options.bias));
    return {output, last[0]};
  });
}

LSTMImpl::LSTMImpl(const Options& given) : RNNBase("LSTM", 4, given) {
  define("forward(Tensor input, Tensor? h=None, Tensor? c=None) -> (Tensor, Tensor, Tensor)",
         [](Module& self, const std::vector<Any>& args) -> Any {
           auto [output, last] =
               dynamic_cast<LSTMImpl&>(self).forward(args[0].ToTensor(), StateOf(args));
           return boxing::ToAny(std::tuple_cat(std::tuple(output), last));
         });
}

std::tuple<Tensor, LSTMState> LSTMImpl::forward(const TensorAt& given,
                                                const std::optional<LSTMState>& state) {
  return CallForward(*this, given.at, [&]() -> std::tuple<Tensor, LSTMState> {
    const Tensor& input = given.tensor;
    Tensor batched = Batched(input);
    int64_t out = options.proj_size > 0 ? options.proj_size : options.hidden_size;
    Tensor first_h = State(Part<0>(state), batched, out);
    Tensor first_c = State(Part<1>(state), batched, options.hidden_size);
    auto [output, h, c] =
        lstm(batched, {first_h, first_c}, params(), options.bias, options.num_layers,
             options.dropout, is_training(), options.bidirectional, options.batch_first);
    if (input.dim() == 3) return {output, {h, c}};
    return {WithoutBatch(output, false), {WithoutBatch(h, true), WithoutBatch(c, true)}};
  });
}

std::tuple<PackedSequence, LSTMState> LSTMImpl::forward(const PackedAt& given,
                                                        const std::optional<LSTMState>& state) {
  return CallForward(*this, given.at, [&]() -> std::tuple<PackedSequence, LSTMState> {
    const PackedSequence& input = given.sequence;
    int64_t out = options.proj_size > 0 ? options.proj_size : options.hidden_size;
    auto run = [&](const Tensor& block, const std::vector<Tensor>& states,
                   const std::vector<Tensor>& params) {
      auto [output, h, c] =
          lstm(block, states, params, options.bias, 1, 0, false, false, false, Location::current());
      return std::pair(output, std::vector<Tensor>{h, c});
    };
    auto [output, last] = RunPacked(input,
                                    {PackedState(Part<0>(state), input, out),
                                     PackedState(Part<1>(state), input, options.hidden_size)},
                                    run);
    return {output, {last[0], last[1]}};
  });
}

// ---- Cells

CellBase::CellBase(const char* class_name, int gates, int64_t input_size, int64_t hidden_size,
                   bool bias)
    : Module(class_name) {
  auto add = [&](Parameter& member, const char* name, const Dims& sizes) {
    member = register_parameter(name, empty(sizes));
    init::uniform_(member, -Bound(hidden_size), Bound(hidden_size));
  };
  add(weight_ih, "weight_ih", {gates * hidden_size, input_size});
  add(weight_hh, "weight_hh", {gates * hidden_size, hidden_size});
  if (!bias) return;
  add(bias_ih, "bias_ih", {gates * hidden_size});
  add(bias_hh, "bias_hh", {gates * hidden_size});
}

Tensor CellBase::State(const std::optional<Tensor>& given, const Tensor& input) const {
  if (given) return *given;
  Dims sizes = input.sizes();
  sizes[input.dim() - 1] = weight_hh.size(1);
  return zeros(sizes, input.dtype(), input.device());
}

RNNCellImpl::RNNCellImpl(int64_t input_size, int64_t hidden_size, bool bias,
                         const std::string& nonlinearity)
    : CellBase("RNNCell", 1, input_size, hidden_size, bias), relu_(nonlinearity == "relu") {
  if (!relu_ && nonlinearity != "tanh") {
    Throw(ErrorCode::kValue, "RNNCell: nonlinearity '{}' is not tanh or relu", nonlinearity);
  }
  define("forward(Tensor input, Tensor? state=None) -> Tensor", &RNNCellImpl::forward);
}

Tensor RNNCellImpl::forward(const TensorAt& given, const std::optional<Tensor>& state) {
  return CallForward(*this, given.at, [&]() -> Tensor {
    const Tensor& input = given.tensor;
    auto op = relu_ ? rnn_relu_cell : rnn_tanh_cell;
    return op(input, State(state, input), weight_ih, weight_hh, Given(bias_ih), Given(bias_hh),
              Location::current());
  });
}

GRUCellImpl::GRUCellImpl(int64_t input_size, int64_t hidden_size, bool bias)
    : CellBase("GRUCell", 3, input_size, hidden_size, bias) {
  define("forward(Tensor input, Tensor? state=None) -> Tensor", &GRUCellImpl::forward);
}

Tensor GRUCellImpl::forward(const TensorAt& given, const std::optional<Tensor>& state) {
  return CallForward(*this, given.at, [&]() -> Tensor {
    const Tensor& input = given.tensor;
    return gru_cell(input, State(state, input), weight_ih, weight_hh, Given(bias_ih),
                    Given(bias_hh));
  });
}

LSTMCellImpl::LSTMCellImpl(int64_t input_size, int64_t hidden_size, bool bias)
    : CellBase("LSTMCell", 4, input_size, hidden_size, bias) {
  define("forward(Tensor input, Tensor? h=None, Tensor? c=None) -> (Tensor, Tensor)",
         [](Module& self, const std::vector<Any>& args) -> Any {
           return boxing::ToAny(
               dynamic_cast<LSTMCellImpl&>(self).forward(args[0].ToTensor(), StateOf(args)));
         });
}

LSTMState LSTMCellImpl::forward(const TensorAt& given, const std::optional<LSTMState>& state) {
  return CallForward(*this, given.at, [&]() -> LSTMState {
    const Tensor& input = given.tensor;
    Tensor h = State(Part<0>(state), input), c = State(Part<1>(state), input);
    return lstm_cell(input, {h, c}, weight_ih, weight_hh, Given(bias_ih), Given(bias_hh));
  });
}

}  // namespace hammock::nn
