// Recurrent layers as loops over time, and their cells.

#include "hammock/ops/recurrent.h"

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/shape.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/families.h"
#include "ops/primitives/loop.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef k_rnn_tanh_cell, k_rnn_relu_cell, k_gru_cell, k_lstm_cell, k_rnn_tanh,
    k_rnn_relu, k_gru, k_lstm;

extern const OpDef kRecurrentLayer, kLstmLayer;

using Maybe = std::optional<Tensor>;

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
  Tensor from_input = linear(matrix(input), Casted(w_ih, wide), Widened(b_ih, wide));
  Tensor from_state = linear(states[0], Casted(w_hh, wide), Widened(b_hh, wide));
  Tensors results = kind.next(from_input, from_state, states);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = Casted(Reshaped(results[i], hx[i].sizes()), input.dtype());
  }
  return results;
}

// ---- One direction of one layer

/// Operands of the node of a layer.
enum LayerOperand { kInput, kH, kC, kWih, kWhh, kBih, kBhh, kWhr };

const CellKind& KindOf(const std::string& name) {
  for (const CellKind* kind : {&kTanh, &kRelu, &kGruKind, &kLstmKind}) {
    if (name == kind->op) return *kind;
  }
  Throw(ErrorCode::kValue, "recurrent layer: '{}' must be rnn_tanh, rnn_relu, gru or lstm", name);
}

void RequireSizes(const char* op, const char* what, const Shape* type, const Dims& wanted) {
  if (!type || type->sizes() == wanted) return;
  Throw(ErrorCode::kShapeMismatch, "{}: {} must be of {}, got {}", op, what, ToString(wanted),
        type->to_string());
}

void InferLayer(const InferCall& c) {
  const CellKind& kind = KindOf(c.attrs[0].str());
  const Shape &input = *c.in[kInput], &h = *c.in[kH];
  bool fits = input.rank() == 3 && h.rank() == 2 && IsFloat(input.dtype()) &&
              (c.op.num_outputs == 3) == (c.in[kC] != nullptr) &&
              (!c.in[kC] || c.in[kC]->rank() == 2);
  if (!fits) {
    Refuse(c, ErrorCode::kShapeMismatch,
           "needs input (time, batch, features) and states (batch, features), got {} and {}",
           input.to_string(), h.to_string());
  }
  int64_t batch = input.size(1), out = h.size(1), hidden = c.in[kC] ? c.in[kC]->size(1) : out;
  int64_t rows = kind.gates * hidden;
  RequireSizes(kind.op, "h", &h, {batch, out});
  RequireSizes(kind.op, "c", c.in[kC], {batch, hidden});
  RequireSizes(kind.op, "w_ih", c.in[kWih], {rows, input.size(2)});
  RequireSizes(kind.op, "w_hh", c.in[kWhh], {rows, out});
  RequireSizes(kind.op, "b_ih", c.in[kBih], {rows});
  RequireSizes(kind.op, "b_hh", c.in[kBhh], {rows});
  RequireSizes(kind.op, "w_hr", c.in[kWhr], {out, hidden});
  if (!c.in[kWhr] && out != hidden) RequireSizes(kind.op, "c", c.in[kC], {batch, out});
  c.out.push_back(input.With(Dims{input.size(0), batch, out}));
  c.out.push_back(input.With(h.sizes()));
  if (c.in[kC]) c.out.push_back(input.With(c.in[kC]->sizes()));
}

/// All inputs are projected at once, the rest is a loop.
Tensors ExpandLayer(const ExpandCall& c) {
  const CellKind& kind = KindOf(c.attrs[0].str());
  DType dtype = c.out[0].dtype(), wide = WideFloat(dtype);
  auto at = [&](int i) { return c.in[i].defined() ? Maybe(Casted(c.in[i], wide)) : Maybe(); };
  Tensor input = *at(kInput);
  bool reverse = c.attrs[1].boolean();
  if (reverse) input = Flipped(input, 0);
  LoopOperands operands{{*at(kH)}, {linear(input, *at(kWih), at(kBih))}, {*at(kWhh)}};
  if (Maybe cell = at(kC)) operands.carried.push_back(*cell);
  bool biased = c.in[kBhh].defined(), projects = c.in[kWhr].defined();
  if (biased) operands.invariant.push_back(*at(kBhh));
  if (projects) operands.invariant.push_back(*at(kWhr));
  auto body = [&](const LoopStep& s) -> Tensors {
    Maybe bias = biased ? Maybe(s.invariant[1]) : Maybe();
    Tensor from_state = linear(s.carried[0], s.invariant[0], bias);
    Tensors next = kind.next(s.slices[0], from_state, s.carried);
    if (projects) next[0] = linear(next[0], s.invariant.back(), std::nullopt);
    next.push_back(next[0]);
    return next;
  };
  Tensors results = Loop(input.size(0), operands, body);  // states, then h of every step
  Tensor steps = results.back();
  results.pop_back();
  results.insert(results.begin(), reverse ? Flipped(steps, 0) : steps);
  for (Tensor& result : results) result = Casted(result, dtype);
  return results;
}

// ---- Layers

struct LayersCall {
  const CellKind& kind;
  int64_t layers;
  double dropout;
  bool train;
  int directions;
  std::vector<Tensors> params;  // of each layer and direction, in the order of LayerOperand
  Tensors states;               // each [layers * directions, batch, features]
};

Tensors RunDirection(const LayersCall& call, const Tensor& x, int64_t at, bool reverse) {
  Tensors operands{x};
  for (const Tensor& state : call.states) {
    operands.push_back(Reshaped(Sliced(state, 0, at, 1), {state.size(1), state.size(2)}));
  }
  if (call.states.size() == 1) operands.emplace_back();
  const Tensors& params = call.params[at];
  operands.insert(operands.end(), params.begin(), params.end());
  const Attr attrs[] = {call.kind.op, reverse};
  const OpDef& op = call.states.size() == 1 ? kRecurrentLayer : kLstmLayer;
  return ApplyMulti(op, Location(), operands, attrs);
}

Tensors RunLayers(const LayersCall& call, Tensor x) {
  std::vector<Tensors> last(call.states.size());
  for (int64_t layer = 0; layer < call.layers; ++layer) {
    Tensors outputs;
    for (int direction = 0; direction < call.directions; ++direction) {
      Tensors results = RunDirection(call, x, layer * call.directions + direction, direction == 1);
      outputs.push_back(results[0]);
      for (size_t i = 0; i < last.size(); ++i) {
        Dims one = results[i + 1].sizes();
        one.insert(0, 1);
        last[i].push_back(Reshaped(results[i + 1], one));
      }
    }
    x = Concatenated(outputs, 2);
    if (call.train && call.dropout > 0 && layer + 1 < call.layers) x = dropout(x, call.dropout);
  }
  Tensors results{x};
  for (const Tensors& states : last) results.push_back(Concatenated(states, 0));
  return results;
}

std::vector<Tensors> ReadParams(const CellKind& kind, const Tensors& params, bool has_biases,
                                bool projects, int64_t count) {
  size_t each = (has_biases ? 4 : 2) + (projects ? 1 : 0);
  if (params.size() != each * static_cast<size_t>(count)) {
    Throw(ErrorCode::kValue, "{}: {} layers and directions need {} params each, got {} in all",
          kind.op, count, each, params.size());
  }
  std::vector<Tensors> result;
  for (size_t i = 0; i < params.size(); i += each) {
    Tensors own{params[i], params[i + 1], Tensor(), Tensor(), Tensor()};
    if (has_biases) {
      own[2] = params[i + 2];
      own[3] = params[i + 3];
    }
    if (projects) own[4] = params[i + each - 1];
    result.push_back(own);
  }
  return result;
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
  Tensor x = batch_first ? Permuted(input, {1, 0, 2}) : input;
  LayersCall call{kind, num_layers, dropout, train, bidirectional ? 2 : 1, {}, hx};
  int64_t count = num_layers * call.directions;
  for (const Tensor& state : hx) {
    if (state.dim() == 3 && state.size(0) == count && state.size(1) == x.size(1)) continue;
    Misfit(kind.op, "hx", state, {count, x.size(1), state.dim() > 0 ? state.size(-1) : 1});
  }
  bool projects = hx[0].size(2) != hx.back().size(2);
  call.params = ReadParams(kind, params, has_biases, projects, count);
  Tensors results = RunLayers(call, x);
  if (batch_first) results[0] = Permuted(results[0], {1, 0, 2});
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
    if (Autocasted cast(k_##name, at); cast) {                                                     \
      return name(cast(input), cast(hx), cast(w_ih), cast(w_hh), cast(b_ih), cast(b_hh), at);      \
    }                                                                                              \
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
  if (Autocasted cast(k_lstm_cell, at); cast)
    return lstm_cell(cast(input), cast(hx), cast(w_ih), cast(w_hh), cast(b_ih), cast(b_hh), at);
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
    if (Autocasted cast(k_##name, at); cast) {                                                  \
      return name(cast(input), cast(hx), cast(params), has_biases, num_layers, dropout, train,  \
                  bidirectional, batch_first, at);                                              \
    }                                                                                           \
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
  if (Autocasted cast(k_lstm, at); cast)
    return lstm(cast(input), cast(hx), cast(params), has_biases, num_layers, dropout, train,
                bidirectional, batch_first, at);
  LocationScope scope(at);
  NeedTwoStates("lstm", hx);
  Tensors results = Layers(kLstmKind, input, hx, params, has_biases, num_layers, dropout, train,
                           bidirectional, batch_first);
  return {results[0], results[1], results[2]};
}

namespace {

constinit const OpDef kRecurrentLayer = {
    .schema =
        "recurrent_layer(Tensor input, Tensor h, Tensor? c, Tensor w_ih, Tensor w_hh, Tensor? "
        "b_ih, Tensor? b_hh, Tensor? w_hr, str kind, bool reverse) -> (Tensor, Tensor)",
    .doc = "One direction of one layer, rnn_tanh, rnn_relu or gru: outputs and the last state.",
    .infer = InferLayer,
    .expand = ExpandLayer,
    .num_outputs = 2,
    .samples = {{"f32[3,2,4] f32[2,5] none f32[15,4] f32[15,5] f32[15] f32[15] none",
                 "{kind=\"gru\", reverse=false}"}},
};
constinit const OpDef kLstmLayer = {
    .schema =
        "lstm_layer(Tensor input, Tensor h, Tensor? c, Tensor w_ih, Tensor w_hh, Tensor? b_ih, "
        "Tensor? b_hh, Tensor? w_hr, str kind, bool reverse) -> (Tensor, Tensor, Tensor)",
    .doc = "One direction of one LSTM layer: outputs, the last h and the last c.",
    .infer = InferLayer,
    .expand = ExpandLayer,
    .num_outputs = 3,
    .samples = {{"f32[3,2,4] f32[2,5] f32[2,5] f32[20,4] f32[20,5] f32[20] f32[20] none",
                 "{kind=\"lstm\", reverse=true}"}},
};

#define HAMMOCK_CELL(name)                                                                   \
  HAMMOCK_FUNCTION(k_##name,                                                                 \
                   #name                                                                     \
                   "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, " \
                   "Tensor? b_hh=None) -> Tensor",                                           \
                   "One step of a recurrent layer.", name, AutocastRule::kLow)
HAMMOCK_CELL(rnn_tanh_cell)
HAMMOCK_CELL(rnn_relu_cell)
HAMMOCK_CELL(gru_cell)
#undef HAMMOCK_CELL
HAMMOCK_FUNCTION(k_lstm_cell,
                 "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? "
                 "b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
                 "One step of an LSTM: h and c.", lstm_cell, AutocastRule::kLow)

#define HAMMOCK_LAYERS(name, states, returns)                                                      \
  HAMMOCK_FUNCTION(k_##name,                                                                       \
                   #name "(Tensor input, " states                                                  \
                         " hx, Tensor[] params, bool has_biases, int num_layers, float "           \
                         "dropout, bool train, bool bidirectional, bool batch_first) -> " returns, \
                   "Layers that run over time: outputs and last states.", name,                    \
                   AutocastRule::kLow)
HAMMOCK_LAYERS(rnn_tanh, "Tensor", "(Tensor, Tensor)")
HAMMOCK_LAYERS(rnn_relu, "Tensor", "(Tensor, Tensor)")
HAMMOCK_LAYERS(gru, "Tensor", "(Tensor, Tensor)")
HAMMOCK_LAYERS(lstm, "Tensor[]", "(Tensor, Tensor, Tensor)")
#undef HAMMOCK_LAYERS

}  // namespace

std::span<const OpDef* const> ops::RecurrentOps() {
  static constexpr const OpDef* kOps[] = {
      &kRecurrentLayer, &kLstmLayer, &k_rnn_tanh_cell, &k_rnn_relu_cell, &k_gru_cell,
      &k_lstm_cell,     &k_rnn_tanh, &k_rnn_relu,      &k_gru,           &k_lstm,
  };
  return kOps;
}

}  // namespace hammock
