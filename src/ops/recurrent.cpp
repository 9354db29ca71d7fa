// Recurrent layers as loops over time, and their cells.

#include "hammock/ops/recurrent.h"

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/shape.h"
#include "ops/compose.h"
#include "ops/families.h"
#include "ops/loop.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

using Maybe = std::optional<Tensor>;
using Tensors = std::vector<Tensor>;

/// From the input's share of the gates, the state's and the states {h} or {h, c} to the next ones.
using CellFn = Tensors (*)(const Tensor& from_input, const Tensor& from_state,
                           std::span<const Tensor> states);

struct CellKind {
  const char* op;
  int gates;  // rows of the weights, in hidden sizes
  CellFn next;
};

Tensor Gate(const Tensor& gates, int i, int64_t size) { return Sliced(gates, 1, i * size, size); }

Tensors NextTanh(const Tensor& x, const Tensor& h, std::span<const Tensor>) {
  return {tanh(x + h)};
}
Tensors NextRelu(const Tensor& x, const Tensor& h, std::span<const Tensor>) {
  return {relu(x + h)};
}

Tensors NextGru(const Tensor& x, const Tensor& h, std::span<const Tensor> states) {
  int64_t size = states[0].size(1);
  Tensor reset = sigmoid(Gate(x, 0, size) + Gate(h, 0, size));
  Tensor update = sigmoid(Gate(x, 1, size) + Gate(h, 1, size));
  Tensor fresh = tanh(Gate(x, 2, size) + reset * Gate(h, 2, size));
  return {(states[0] - fresh) * update + fresh};
}

Tensors NextLstm(const Tensor& x, const Tensor& h, std::span<const Tensor> states) {
  Tensor gates = x + h;
  int64_t size = states[1].size(1);
  Tensor in = sigmoid(Gate(gates, 0, size)), forget = sigmoid(Gate(gates, 1, size));
  Tensor fresh = tanh(Gate(gates, 2, size)), out = sigmoid(Gate(gates, 3, size));
  Tensor cell = forget * states[1] + in * fresh;
  return {out * tanh(cell), cell};
}

constexpr CellKind kTanh{"rnn_tanh", 1, NextTanh}, kRelu{"rnn_relu", 1, NextRelu},
    kGruKind{"gru", 3, NextGru}, kLstmKind{"lstm", 4, NextLstm};

/// x @ w.t() + b over the last dim.
Tensor Projected(const Tensor& x, const Tensor& weight, const Maybe& bias) {
  return linear(x, weight, bias);
}

// ---- Cells

[[noreturn]] void Misfit(const char* op, const char* what, const Tensor& tensor,
                         const Dims& wanted) {
  Throw(ErrorCode::kShapeMismatch, "{}: {} must be of {}, got {}", op, what, ToString(wanted),
        tensor.shape().to_string());
}

void CheckVector(const char* op, const char* what, const Maybe& vector, int64_t size) {
  if (vector && vector->sizes() != Dims{size}) Misfit(op, what, *vector, {size});
}

void CheckCell(const char* op, const CellKind& kind, const Tensor& input,
               std::span<const Tensor> states, const Tensor& w_ih, const Tensor& w_hh,
               const Maybe& b_ih, const Maybe& b_hh) {
  const Tensor& h = states[0];
  if (input.dim() < 1 || input.dim() > 2 || h.dim() != input.dim()) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs input (batch, features) and states like it, got {} "
          "and {}",
          op, input.shape().to_string(), h.shape().to_string());
  }
  int64_t hidden = h.size(-1), rows = kind.gates * hidden;
  for (const Tensor& state : states) {
    Dims wanted = input.sizes();
    wanted[wanted.size() - 1] = hidden;
    if (state.sizes() != wanted) Misfit(op, "hx", state, wanted);
  }
  if (w_ih.sizes() != Dims{rows, input.size(-1)}) Misfit(op, "w_ih", w_ih, {rows, input.size(-1)});
  if (w_hh.sizes() != Dims{rows, hidden}) Misfit(op, "w_hh", w_hh, {rows, hidden});
  CheckVector(op, "b_ih", b_ih, rows);
  CheckVector(op, "b_hh", b_hh, rows);
}

Maybe Widened(const Maybe& tensor, DType dtype) {
  return tensor ? Maybe(Casted(*tensor, dtype)) : Maybe();
}

Tensors RunCell(const char* op, const CellKind& kind, const Tensor& input,
                std::span<const Tensor> hx, const Tensor& w_ih, const Tensor& w_hh,
                const Maybe& b_ih, const Maybe& b_hh) {
  NeedFloat(op, input);
  CheckCell(op, kind, input, hx, w_ih, w_hh, b_ih, b_hh);
  DType wide = WideFloat(input.dtype());
  auto matrix = [&](const Tensor& x) {
    return Reshaped(Casted(x, wide), {x.dim() == 2 ? x.size(0) : 1, x.size(-1)});
  };
  Tensors states;
  for (const Tensor& state : hx) states.push_back(matrix(state));
  Tensor from_input = Projected(matrix(input), Casted(w_ih, wide), Widened(b_ih, wide));
  Tensor from_state = Projected(states[0], Casted(w_hh, wide), Widened(b_hh, wide));
  Tensors results = kind.next(from_input, from_state, states);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = Casted(Reshaped(results[i], hx[i].sizes()), input.dtype());
  }
  return results;
}

// ---- Layers

struct LayerParams {
  Tensor w_ih, w_hh;
  Maybe b_ih, b_hh;
  Maybe w_hr;  // projects h
};

struct LayersCall {
  const CellKind& kind;
  int64_t layers;
  double dropout;
  bool train;
  int directions;
  std::vector<LayerParams> params;  // of each layer and direction
  Tensors states;                   // each [layers * directions, batch, features]
};

/// One direction of one layer: all inputs are projected at once, the rest is a loop.
Tensors RunDirection(const CellKind& kind, const Tensor& input, const Tensors& start,
                     const LayerParams& p) {
  Tensor from_inputs = Projected(input, p.w_ih, p.b_ih);
  LoopOperands operands{start, {from_inputs}, {p.w_hh}};
  if (p.b_hh) operands.invariant.push_back(*p.b_hh);
  if (p.w_hr) operands.invariant.push_back(*p.w_hr);
  bool biased = p.b_hh.has_value(), projects = p.w_hr.has_value();
  auto body = [&](const LoopStep& s) -> Tensors {
    Maybe bias = biased ? Maybe(s.invariant[1]) : Maybe();
    Tensor from_state = Projected(s.carried[0], s.invariant[0], bias);
    Tensors next = kind.next(s.slices[0], from_state, s.carried);
    if (projects) next[0] = Projected(next[0], s.invariant.back(), std::nullopt);
    next.push_back(next[0]);
    return next;
  };
  return Loop(input.size(0), operands, body);  // states, then h of every step
}

Tensors RunLayers(const LayersCall& call, Tensor x) {
  std::vector<Tensors> last(call.states.size());
  for (int64_t layer = 0; layer < call.layers; ++layer) {
    Tensors outputs;
    for (int direction = 0; direction < call.directions; ++direction) {
      int64_t at = layer * call.directions + direction;
      Tensors start;
      for (const Tensor& state : call.states) {
        start.push_back(Reshaped(Sliced(state, 0, at, 1), {state.size(1), state.size(2)}));
      }
      Tensor in = direction == 0 ? x : Flipped(x, 0);
      Tensors results = RunDirection(call.kind, in, start, call.params[static_cast<size_t>(at)]);
      for (size_t i = 0; i < last.size(); ++i) {
        Dims one = results[i].sizes();
        one.insert(0, 1);
        last[i].push_back(Reshaped(results[i], one));
      }
      outputs.push_back(direction == 0 ? results.back() : Flipped(results.back(), 0));
    }
    x = Concatenated(outputs, 2);
    if (call.train && call.dropout > 0 && layer + 1 < call.layers) x = dropout(x, call.dropout);
  }
  Tensors results{x};
  for (const Tensors& states : last) results.push_back(Concatenated(states, 0));
  return results;
}

std::vector<LayerParams> ReadParams(const CellKind& kind, const Tensors& params, bool has_biases,
                                    bool projects, int64_t count, DType dtype) {
  size_t each = (has_biases ? 4 : 2) + (projects ? 1 : 0);
  if (params.size() != each * static_cast<size_t>(count)) {
    Throw(ErrorCode::kValue, "{}: {} layers and directions need {} params each, got {} in all",
          kind.op, count, each, params.size());
  }
  std::vector<LayerParams> result;
  for (size_t i = 0; i < params.size(); i += each) {
    auto at = [&](size_t k) { return Casted(params[i + k], dtype); };
    LayerParams p{at(0), at(1), {}, {}, {}};
    if (has_biases) {
      p.b_ih = at(2);
      p.b_hh = at(3);
    }
    if (projects) p.w_hr = at(each - 1);
    result.push_back(p);
  }
  return result;
}

void CheckParams(const CellKind& kind, const LayersCall& call, int64_t features, int64_t hidden,
                 int64_t out) {
  int64_t rows = kind.gates * hidden;
  for (size_t i = 0; i < call.params.size(); ++i) {
    const LayerParams& p = call.params[i];
    bool first = i < static_cast<size_t>(call.directions);
    int64_t in = first ? features : out * call.directions;
    if (p.w_ih.sizes() != Dims{rows, in}) Misfit(kind.op, "w_ih", p.w_ih, {rows, in});
    if (p.w_hh.sizes() != Dims{rows, out}) Misfit(kind.op, "w_hh", p.w_hh, {rows, out});
    CheckVector(kind.op, "b_ih", p.b_ih, rows);
    CheckVector(kind.op, "b_hh", p.b_hh, rows);
    if (p.w_hr && p.w_hr->sizes() != Dims{out, hidden}) {
      Misfit(kind.op, "w_hr", *p.w_hr, {out, hidden});
    }
  }
}

Tensors Layers(const CellKind& kind, const Tensor& input, const Tensors& hx, const Tensors& params,
               bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
               bool batch_first) {
  NeedFloat(kind.op, input);
  if (input.dim() != 3 || num_layers < 1 || input.size(batch_first ? 1 : 0) == 0) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs input of 3 dims with at least one step and one layer, got {} and {}", kind.op,
          input.shape().to_string(), num_layers);
  }
  DType dtype = input.dtype(), wide = WideFloat(dtype);
  Tensor x = Casted(input, wide);
  if (batch_first) x = Permuted(x, {1, 0, 2});
  LayersCall call{kind, num_layers, dropout, train, bidirectional ? 2 : 1, {}, {}};
  int64_t count = num_layers * call.directions;
  for (const Tensor& state : hx) {
    if (state.dim() != 3 || state.size(0) != count || state.size(1) != x.size(1)) {
      Misfit(kind.op, "hx", state, {count, x.size(1), state.dim() > 0 ? state.size(-1) : 1});
    }
    call.states.push_back(Casted(state, wide));
  }
  int64_t out = hx[0].size(2), hidden = hx.back().size(2);
  call.params = ReadParams(kind, params, has_biases, out != hidden, count, wide);
  CheckParams(kind, call, x.size(2), hidden, out);
  Tensors results = RunLayers(call, x);
  if (batch_first) results[0] = Permuted(results[0], {1, 0, 2});
  for (Tensor& result : results) result = Casted(result, dtype);
  return results;
}

void NeedTwoStates(const char* op, const Tensors& hx) {
  if (hx.size() == 2) return;
  Throw(ErrorCode::kValue, "{}: hx must hold h and c, got {} tensors", op, hx.size());
}

}  // namespace

#define HAMMOCK_CELL(name, kind)                                                                   \
  Tensor name(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,       \
              const std::optional<Tensor>& b_ih, const std::optional<Tensor>& b_hh, Location at) { \
    LocationScope scope(at);                                                                       \
    return RunCell(#name, kind, input, std::span(&hx, 1), w_ih, w_hh, b_ih, b_hh)[0];              \
  }
HAMMOCK_CELL(rnn_tanh_cell, kTanh)
HAMMOCK_CELL(rnn_relu_cell, kRelu)
HAMMOCK_CELL(gru_cell, kGruKind)
#undef HAMMOCK_CELL

std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, const std::vector<Tensor>& hx,
                                     const Tensor& w_ih, const Tensor& w_hh,
                                     const std::optional<Tensor>& b_ih,
                                     const std::optional<Tensor>& b_hh, Location at) {
  LocationScope scope(at);
  NeedTwoStates("lstm_cell", hx);
  Tensors results = RunCell("lstm_cell", kLstmKind, input, hx, w_ih, w_hh, b_ih, b_hh);
  return {results[0], results[1]};
}

#define HAMMOCK_LAYERS(name, kind)                                                              \
  std::tuple<Tensor, Tensor> name(const Tensor& input, const Tensor& hx,                        \
                                  const std::vector<Tensor>& params, bool has_biases,           \
                                  int64_t num_layers, double dropout, bool train,               \
                                  bool bidirectional, bool batch_first, Location at) {          \
    LocationScope scope(at);                                                                    \
    Tensors results = Layers(kind, input, {hx}, params, has_biases, num_layers, dropout, train, \
                             bidirectional, batch_first);                                       \
    return {results[0], results[1]};                                                            \
  }
HAMMOCK_LAYERS(rnn_tanh, kTanh)
HAMMOCK_LAYERS(rnn_relu, kRelu)
HAMMOCK_LAYERS(gru, kGruKind)
#undef HAMMOCK_LAYERS

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, const std::vector<Tensor>& hx,
                                        const std::vector<Tensor>& params, bool has_biases,
                                        int64_t num_layers, double dropout, bool train,
                                        bool bidirectional, bool batch_first, Location at) {
  LocationScope scope(at);
  NeedTwoStates("lstm", hx);
  Tensors results = Layers(kLstmKind, input, hx, params, has_biases, num_layers, dropout, train,
                           bidirectional, batch_first);
  return {results[0], results[1], results[2]};
}

namespace {

#define HAMMOCK_CELL(name)                                                                   \
  HAMMOCK_FUNCTION(k_##name,                                                                 \
                   #name                                                                     \
                   "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, " \
                   "Tensor? b_hh=None) -> Tensor",                                           \
                   "One step of a recurrent layer.", name)
HAMMOCK_CELL(rnn_tanh_cell)
HAMMOCK_CELL(rnn_relu_cell)
HAMMOCK_CELL(gru_cell)
#undef HAMMOCK_CELL
HAMMOCK_FUNCTION(k_lstm_cell,
                 "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? "
                 "b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
                 "One step of an LSTM: h and c.", lstm_cell)

#define HAMMOCK_LAYERS(name, states, returns)                                                      \
  HAMMOCK_FUNCTION(k_##name,                                                                       \
                   #name "(Tensor input, " states                                                  \
                         " hx, Tensor[] params, bool has_biases, int num_layers, float "           \
                         "dropout, bool train, bool bidirectional, bool batch_first) -> " returns, \
                   "Layers that run over time: outputs and last states.", name)
HAMMOCK_LAYERS(rnn_tanh, "Tensor", "(Tensor, Tensor)")
HAMMOCK_LAYERS(rnn_relu, "Tensor", "(Tensor, Tensor)")
HAMMOCK_LAYERS(gru, "Tensor", "(Tensor, Tensor)")
HAMMOCK_LAYERS(lstm, "Tensor[]", "(Tensor, Tensor, Tensor)")
#undef HAMMOCK_LAYERS

}  // namespace

std::span<const OpDef* const> ops::RecurrentOps() {
  static constexpr const OpDef* kOps[] = {
      &k_rnn_tanh_cell, &k_rnn_relu_cell, &k_gru_cell, &k_lstm_cell,
      &k_rnn_tanh,      &k_rnn_relu,      &k_gru,      &k_lstm,
  };
  return kOps;
}

}  // namespace hammock
