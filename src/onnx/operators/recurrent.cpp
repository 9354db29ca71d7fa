#include <algorithm>
#include <functional>

#include "onnx/operators/quantized.h"
#include "ops/primitives/loop.h"

namespace hammock::onnx {
namespace {

using Activation = std::function<Tensor(const Tensor&)>;

Activation ActivationOf(const Call& c, std::string name, double alpha, double beta) {
  std::ranges::transform(name, name.begin(), [](unsigned char ch) { return std::tolower(ch); });
  if (name == "sigmoid") return [](const Tensor& x) { return sigmoid(x); };
  if (name == "tanh") return [](const Tensor& x) { return tanh(x); };
  if (name == "relu") return [](const Tensor& x) { return relu(x); };
  if (name == "affine") return [=](const Tensor& x) { return x * alpha + beta; };
  if (name == "leakyrelu") return [=](const Tensor& x) { return leaky_relu(x, alpha); };
  if (name == "thresholdedrelu") return [=](const Tensor& x) { return threshold(x, alpha, 0); };
  if (name == "scaledtanh") return [=](const Tensor& x) { return tanh(x * beta) * alpha; };
  if (name == "hardsigmoid") {
    return [=](const Tensor& x) { return clamp(x * alpha + beta, 0.0, 1.0); };
  }
  if (name == "elu") return [=](const Tensor& x) { return elu(x, alpha); };
  if (name == "softsign") return [](const Tensor& x) { return softsign(x); };
  if (name == "softplus") return [](const Tensor& x) { return softplus(x); };
  c.Fail("activation '{}'", name);
}

struct Layer {
  int64_t gates = 1;
  int64_t activations = 1;  // of one direction
  std::vector<std::string> defaults;
};

/// One direction of a layer.
struct Direction {
  Tensor input;  // (time, batch, gates * hidden): times the weights, with both biases
  Tensor weight, recurrent, bias_w, bias_r, peephole;
  Tensor hidden, cell;
  std::vector<Activation> activations;
};

double DefaultAlpha(const std::string& name) {
  if (name == "LeakyRelu") return 0.01;
  if (name == "HardSigmoid") return 0.2;
  return 1;
}
double DefaultBeta(const std::string& name) { return name == "HardSigmoid" ? 0.5 : 0; }

/// The loop over time of any layer: `step` gives the new states from the old ones.
class Recurrence {
 public:
  using Step = std::function<std::vector<Tensor>(const Direction&, const ops::LoopStep&, double)>;

  Recurrence(Call& c, Layer layer, int states) : c_(c), layer_(std::move(layer)), states_(states) {}

  Values Run(const Step& step) {
    Tensor x = c_[0];
    bool batch_first = c_.Int("layout", 0);
    if (batch_first) x = x.transpose(0, 1);
    std::string direction = c_.Text("direction", "forward");
    int64_t count = direction == "bidirectional" ? 2 : 1;
    std::vector<Tensor> outputs, hidden, cell;
    for (int64_t d = 0; d < count; ++d) {
      bool reverse = direction == "reverse" || d == 1;
      std::vector<Tensor> results = RunDirection(x, d, reverse, batch_first, step);
      outputs.push_back(results[0]);
      hidden.push_back(results[1]);
      if (states_ == 2) cell.push_back(results[2]);
    }
    Tensor y = stack(outputs, 1);  // (time, directions, batch, hidden)
    Tensor h = stack(hidden, 0);
    Values values{y, h};
    if (states_ == 2) values.push_back(stack(cell, 0));
    if (batch_first) {
      values[0] = y.permute({2, 0, 1, 3});
      for (size_t i = 1; i < values.size(); ++i) values[i] = values[i].tensor.transpose(0, 1);
    }
    return values;
  }

 private:
  std::vector<Tensor> RunDirection(const Tensor& x, int64_t d, bool reverse, bool batch_first,
                                   const Step& step) {
    Direction one;
    int64_t hidden = c_.Int("hidden_size", c_[2].size(2)), batch = x.size(1), time = x.size(0);
    one.weight = select(c_[1], 0, d);
    one.recurrent = select(c_[2], 0, d);
    int64_t rows = layer_.gates * hidden;
    Tensor biases = c_.Has(3) ? select(c_[3], 0, d) : zeros({2 * rows}, x.dtype(), c_.device());
    one.bias_w = narrow(biases, 0, 0, rows);
    one.bias_r = narrow(biases, 0, rows, rows);
    auto state = [&](size_t i) {
      if (!c_.Has(i)) return zeros({batch, hidden}, x.dtype(), c_.device());
      return select(c_[i], batch_first ? 1 : 0, d);
    };
    one.hidden = state(5);
    if (states_ == 2) one.cell = state(6);
    if (states_ == 2 && c_.Has(7)) one.peephole = select(c_[7], 0, d);
    std::vector<std::string> names = c_.TextList("activations");
    std::vector<float> alphas = c_.FloatList("activation_alpha");
    std::vector<float> betas = c_.FloatList("activation_beta");
    for (int64_t i = 0; i < layer_.activations; ++i) {
      auto at = static_cast<size_t>(d * layer_.activations + i);
      std::string name = names.empty() ? layer_.defaults[static_cast<size_t>(i)] : names.at(at);
      double alpha = at < alphas.size() ? static_cast<double>(alphas[at]) : DefaultAlpha(name);
      double beta = at < betas.size() ? static_cast<double>(betas[at]) : DefaultBeta(name);
      one.activations.push_back(ActivationOf(c_, name, alpha, beta));
    }
    double clip = c_.Float("clip", 0);

    Tensor lengths = c_.Has(4) ? c_[4].to(DType::kI64) : Tensor();
    Tensor input = reverse ? Reversed(x, lengths) : x;
    ops::LoopOperands operands;
    operands.carried = {one.hidden};
    if (states_ == 2) operands.carried.push_back(one.cell);
    operands.stacked = {linear(input, one.weight, one.bias_w)};
    operands.invariant = {one.recurrent.t().contiguous(), one.bias_r};
    if (one.peephole.defined()) operands.invariant.push_back(one.peephole);
    if (lengths.defined()) operands.invariant.push_back(lengths.unsqueeze(1));
    std::vector<Tensor> results =
        ops::Loop(time, operands, [&](const ops::LoopStep& s) -> std::vector<Tensor> {
          std::vector<Tensor> next = step(one, s, clip);
          Tensor seen = next[0];
          if (lengths.defined()) {  // what is past the end keeps its state and gives zeros
            Tensor inside = s.index < s.invariant.back();
            seen = where(inside, next[0], zeros_like(next[0]));
            for (size_t i = 0; i < next.size(); ++i) {
              next[i] = where(inside, next[i], s.carried[i]);
            }
          }
          next.push_back(seen);
          return next;
        });
    Tensor y = results.back();
    if (reverse) y = Reversed(y, lengths);
    results.pop_back();
    results.insert(results.begin(), y);
    return results;
  }

  /// From the end of each sample to its start.
  Tensor Reversed(const Tensor& x, const Tensor& lengths) const {
    if (!lengths.defined()) return flip(x, {0});
    Tensor steps = arange(x.size(0), DType::kI64, c_.device()).unsqueeze(1);
    Tensor index = where(steps < lengths, lengths - 1 - steps, steps).unsqueeze(2);
    return gather(x, 0, broadcast_to(index, x.sizes()));
  }

  Call& c_;
  Layer layer_;
  int states_;
};

Tensor Clipped(const Tensor& x, double clip) { return clip > 0 ? clamp(x, -clip, clip) : x; }

Values Rnn(Call& c) {
  return Recurrence(c, {1, 1, {"Tanh"}}, 1)
      .Run([](const Direction& d, const ops::LoopStep& s, double clip) -> std::vector<Tensor> {
        Tensor sum = s.slices[0] + matmul(s.carried[0], s.invariant[0]) + s.invariant[1];
        return {d.activations[0](Clipped(sum, clip))};
      });
}

Values Gru(Call& c) {
  bool before = c.Int("linear_before_reset", 0) == 0;
  return Recurrence(c, {3, 2, {"Sigmoid", "Tanh"}}, 1)
      .Run([before](const Direction& d, const ops::LoopStep& s,
                    double clip) -> std::vector<Tensor> {
        Tensor h = s.carried[0], w = s.slices[0], r = s.invariant[0], b = s.invariant[1];
        int64_t n = h.size(1);
        auto part = [&](const Tensor& x, int64_t gate) { return narrow(x, -1, gate * n, n); };
        Tensor gates =
            narrow(w, -1, 0, 2 * n) + matmul(h, narrow(r, 1, 0, 2 * n)) + narrow(b, 0, 0, 2 * n);
        gates = d.activations[0](Clipped(gates, clip));
        Tensor update = part(gates, 0), reset = part(gates, 1);
        Tensor own = before ? matmul(reset * h, part(r, 2)) + part(b, 2)
                            : reset * (matmul(h, part(r, 2)) + part(b, 2));
        Tensor candidate = d.activations[1](Clipped(part(w, 2) + own, clip));
        return {(1 - update) * candidate + update * h};
      });
}

Values Lstm(Call& c) {
  bool coupled = c.Int("input_forget", 0);
  // com.microsoft's DynamicQuantizeLSTM multiplies integers.
  bool rounded = c.node().op == "DynamicQuantizeLSTM";
  return Recurrence(c, {4, 3, {"Sigmoid", "Tanh", "Tanh"}}, 2)
      .Run([&c, rounded, coupled](const Direction& d, const ops::LoopStep& s,
                                  double clip) -> std::vector<Tensor> {
        Tensor h = s.carried[0], cell = s.carried[1];
        int64_t n = h.size(1);
        Tensor state = rounded ? RoundedToRange(c, h) : h;
        Tensor sums = s.slices[0] + matmul(state, s.invariant[0]) + s.invariant[1];
        auto part = [&](int64_t gate) { return narrow(sums, -1, gate * n, n); };  // i, o, f, c
        Tensor in = part(0), out = part(1), forget = part(2);
        bool peeps = d.peephole.defined();
        auto peephole = [&](int64_t gate) { return narrow(s.invariant[2], 0, gate * n, n); };
        if (peeps) {
          in = in + peephole(0) * cell;
          forget = forget + peephole(2) * cell;
        }
        in = d.activations[0](Clipped(in, clip));
        forget = coupled ? 1 - in : d.activations[0](Clipped(forget, clip));
        Tensor candidate = d.activations[1](Clipped(part(3), clip));
        Tensor next = forget * cell + in * candidate;
        if (peeps) out = out + peephole(1) * next;
        out = d.activations[0](Clipped(out, clip));
        return {out * d.activations[2](next), next};
      });
}

constexpr Operator kRows[] = {
    {"GRU", 1, kNewestOpset, Gru},
    {"LSTM", 1, kNewestOpset, Lstm},
    {"RNN", 1, kNewestOpset, Rnn},
};

}  // namespace

std::span<const Operator> RecurrentOperators() { return kRows; }

}  // namespace hammock::onnx
