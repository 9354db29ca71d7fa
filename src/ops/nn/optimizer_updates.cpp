// Updates of parameters by optimisers. The arithmetic is PyTorch's, op by op.

#include "ops/nn/optimizer_updates.h"

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/view.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

/// The new parameter has the old one's type, and so has the state.
void InferUpdate(const InferCall& c) {
  const Shape &self = *c.in[0], &grad = *c.in[1];
  RequireDType(c, IsFloat(self.dtype()), self, "a floating dtype");
  if (grad != self) {
    Refuse(c, ErrorCode::kShapeMismatch, "the gradient of {} must have its type, not {}",
           self.to_string(), grad.to_string());
  }
  c.out.push_back(self);
  for (size_t i = c.op.info().operand_args.size() - 1; i < c.in.size(); ++i) {
    c.out.push_back(*c.in[i]);
  }
}

/// Settings are numbers of f64 without dims. They decide the dtype of nothing but of a parameter
/// without dims, so that gets one.
Tensor WithDims(const Tensor& x) { return x.dim() == 0 ? reshape(x, {1}) : x; }
Tensor AsBefore(const Tensor& x, const Shape& type) {
  return x.dim() == type.rank() ? x : reshape(x, type.sizes());
}

/// The arguments of an update by their names.
class Update {
 public:
  explicit Update(const ExpandCall& call)
      : self(WithDims(call.in[0])),
        grad(WithDims(call.in[1])),
        lr(call.in[2]),
        state(call.in.begin() + static_cast<long>(call.op.info().operand_args.size()) - 1,
              call.in.end()),
        call_(call) {
    for (Tensor& tensor : state) {
      if (tensor.shape() == call.in[0].shape()) tensor = WithDims(tensor);
    }
  }

  /// Undefined where it is absent.
  const Tensor& operator[](std::string_view name) const {
    const OpInfo& info = call_.op.info();
    for (size_t i = 0; i < info.operand_args.size(); ++i) {
      const SchemaArgument& argument = info.schema.arguments()[info.operand_args[i]];
      if (argument.name == name) return call_.in[i];
    }
    HAMMOCK_CHECK(false, "{} has no operand {}", info.name, name);
    __builtin_unreachable();
  }
  const Tensor& State(size_t index) const {
    if (index >= state.size()) {
      Throw(ErrorCode::kValue, "{}: {} tensors of state are given, needs {}", call_.op.info().name,
            state.size(), index + 1);
    }
    return state[index];
  }
  bool is(std::string_view flag) const {
    return call_.attrs[call_.op.info().AttributeIndex(flag)].boolean();
  }
  /// The first part of most rules.
  void PrepareGrad() {
    if (is("maximize")) grad = -grad;
    if (const Tensor& decay = (*this)["weight_decay"]; decay.defined()) grad = grad + self * decay;
  }
  /// Decay that is no part of the gradient.
  void DecayWeights() {
    if (const Tensor& decay = (*this)["weight_decay"]; decay.defined()) {
      self = self * (1.0 - lr * decay);
    }
  }

  Tensor self, grad;
  const Tensor& lr;
  Tensors state;

 private:
  const ExpandCall& call_;
};

/// `average` moves towards `value`.
Tensor Averaged(const Tensor& average, const Tensor& value, const Tensor& keep) {
  return average * keep + value * (1.0 - keep);
}

/// 1 - beta^step: what an average that began at zero lacks.
Tensor Correction(const Tensor& beta, const Tensor& step) { return 1.0 - pow(beta, step); }

Tensors Sgd(Update& u) {
  u.PrepareGrad();
  const Tensor& momentum = u["momentum"];
  if (!momentum.defined()) return {u.self - u.grad * u.lr};
  Tensor fresh = u.grad;
  if (const Tensor& dampening = u["dampening"]; dampening.defined()) {
    // The first gradient is not dampened.
    Tensor rest = Casted(1.0 - dampening, kDefaultFloat);
    fresh = u.grad * where(u["step"].gt(1), rest, ConstantLike(1.0, rest));
  }
  Tensor buffer = u.State(0) * momentum + fresh;
  Tensor direction = u.is("nesterov") ? u.grad + buffer * momentum : buffer;
  return {u.self - direction * u.lr, buffer};
}

Tensors Adam(Update& u) {
  if (u.is("decoupled")) {
    if (u.is("maximize")) u.grad = -u.grad;
    u.DecayWeights();
  } else {
    u.PrepareGrad();
  }
  const Tensor &beta1 = u["beta1"], &beta2 = u["beta2"], &step = u["step"];
  Tensor first = Averaged(u.State(0), u.grad, beta1);
  Tensor second = Averaged(u.State(1), square(u.grad), beta2);
  Tensors state{first, second};
  if (u.state.size() == 3) state.push_back(maximum(u.State(2), second));
  Tensor divisor = sqrt(state.back()) / sqrt(Correction(beta2, step)) + u["eps"];
  state.insert(state.begin(), u.self - first / divisor * (u.lr / Correction(beta1, step)));
  return state;
}

Tensors Adamax(Update& u) {
  u.PrepareGrad();
  Tensor first = Averaged(u.State(0), u.grad, u["beta1"]);
  Tensor largest = maximum(u.State(1) * u["beta2"], abs(u.grad) + u["eps"]);
  Tensor rate = u.lr / Correction(u["beta1"], u["step"]);
  return {u.self - first / largest * rate, first, largest};
}

Tensors Nadam(Update& u) {
  u.PrepareGrad();
  const Tensor &beta1 = u["beta1"], &beta2 = u["beta2"], &step = u["step"];
  auto momentum_at = [&](const Tensor& count) {
    return beta1 * (1.0 - 0.5 * pow(Scalar(0.96), count * u["momentum_decay"]));
  };
  Tensor mu = momentum_at(step), mu_next = momentum_at(step + 1.0);
  Tensor product = u.State(2) * mu;
  Tensor first = Averaged(u.State(0), u.grad, beta1);
  Tensor second = Averaged(u.State(1), square(u.grad), beta2);
  Tensor divisor = sqrt(second / Correction(beta2, step)) + u["eps"];
  Tensor moved = u.self - u.grad / divisor * (u.lr * (1.0 - mu) / (1.0 - product));
  moved = moved - first / divisor * (u.lr * mu_next / (1.0 - product * mu_next));
  return {moved, first, second, product};
}

Tensors Radam(Update& u) {
  u.PrepareGrad();
  const Tensor &beta1 = u["beta1"], &beta2 = u["beta2"], &step = u["step"];
  Tensor first = Averaged(u.State(0), u.grad, beta1);
  Tensor second = Averaged(u.State(1), square(u.grad), beta2);
  Tensor correction = Correction(beta2, step);
  Tensor limit = 2.0 / (1.0 - beta2) - 1.0;
  Tensor length = limit - 2.0 * step * (1.0 - correction) / correction;
  Tensor rectification =
      sqrt((length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length));
  Tensor adaptive = sqrt(correction) * rectification / (sqrt(second) + u["eps"]);
  // While the average is too short its variance is not to be trusted.
  Tensor scale = where(length.gt(5), adaptive, ConstantLike(1.0, adaptive));
  return {u.self - first * (u.lr / Correction(beta1, step)) * scale, first, second};
}

Tensors Rmsprop(Update& u) {
  u.PrepareGrad();
  Tensors state{Averaged(u.State(0), square(u.grad), u["alpha"])};
  Tensor average = state[0];
  if (u.is("centered")) {
    state.push_back(Averaged(u.State(1), u.grad, u["alpha"]));
    average = average - square(state[1]);
  }
  Tensor scaled = u.grad / (sqrt(average) + u["eps"]);
  if (const Tensor& momentum = u["momentum"]; momentum.defined()) {
    scaled = u.state.back() * momentum + scaled;
    state.push_back(scaled);
  }
  state.insert(state.begin(), u.self - scaled * u.lr);
  return state;
}

Tensors Adagrad(Update& u) {
  u.PrepareGrad();
  Tensor sum = u.State(0) + square(u.grad);
  Tensor rate = u.lr / (1.0 + (u["step"] - 1.0) * u["lr_decay"]);
  return {u.self - u.grad / (sqrt(sum) + u["eps"]) * rate, sum};
}

Tensors Adadelta(Update& u) {
  u.PrepareGrad();
  const Tensor &rho = u["rho"], &eps = u["eps"];
  Tensor average = Averaged(u.State(0), square(u.grad), rho);
  Tensor delta = sqrt(u.State(1) + eps) / sqrt(average + eps) * u.grad;
  return {u.self - delta * u.lr, average, Averaged(u.State(1), square(delta), rho)};
}

Tensors Lion(Update& u) {
  u.DecayWeights();
  Tensor direction = sign(Averaged(u.State(0), u.grad, u["beta1"]));
  return {u.self - direction * u.lr, Averaged(u.State(0), u.grad, u["beta2"])};
}

void InferEma(const InferCall& c) { c.out.push_back(*c.in[0]); }

Tensors ExpandEma(const ExpandCall& c) {
  return {AsBefore(Averaged(WithDims(c.in[0]), WithDims(c.in[1]), c.in[2]), c.in[0].shape())};
}

template <Tensors (*rule)(Update&)>
Tensors Expand(const ExpandCall& c) {
  Update u(c);
  Tensors results = rule(u);
  for (size_t i = 0; i < results.size(); ++i) results[i] = AsBefore(results[i], c.out[i]);
  return results;
}

}  // namespace

// Samples are of one sign: second moments are never negative.
#define HAMMOCK_UPDATE(variable, text, about, rule, ...)                   \
  constinit const OpDef ops::variable = {.schema = text,                   \
                                         .doc = about,                     \
                                         .infer = InferUpdate,             \
                                         .expand = Expand<rule>,           \
                                         .domain = {.lo = 0.1, .hi = 0.9}, \
                                         .samples = {__VA_ARGS__}}

HAMMOCK_UPDATE(
    kSgdUpdate,
    "_sgd_update(Tensor self, Tensor grad, Tensor lr, Tensor? momentum, Tensor? step, Tensor? "
    "weight_decay, Tensor? dampening, Tensor[] momentum_buffer, bool nesterov, bool maximize) -> "
    "Tensor[]",
    "One update by SGD.", Sgd,
    {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f64[] f32[2,3]",
     "{nesterov=false, maximize=true}"});
HAMMOCK_UPDATE(
    kAdamUpdate,
    "_adam_update(Tensor self, Tensor grad, Tensor lr, Tensor beta1, Tensor step, Tensor beta2, "
    "Tensor eps, Tensor? weight_decay, Tensor[] state, bool decoupled, bool maximize) -> Tensor[]",
    "One update by Adam, or by AdamW where the decay is decoupled.", Adam,
    {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f64[] f64[] f32[2,3] f32[2,3]",
     "{decoupled=true, maximize=false}"},
    {"bf16[3] bf16[3] f64[] f64[] f64[] f64[] f64[] f64[] bf16[3] bf16[3] bf16[3]",
     "{decoupled=false, maximize=true}"});
HAMMOCK_UPDATE(
    kAdamaxUpdate,
    "_adamax_update(Tensor self, Tensor grad, Tensor lr, Tensor beta1, Tensor step, Tensor beta2, "
    "Tensor eps, Tensor? weight_decay, Tensor[] state, bool maximize) -> Tensor[]",
    "One update by Adamax.", Adamax,
    {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f64[] f64[] f32[2,3] f32[2,3]",
     "{maximize=false}"});
HAMMOCK_UPDATE(
    kNadamUpdate,
    "_nadam_update(Tensor self, Tensor grad, Tensor lr, Tensor beta1, Tensor step, Tensor beta2, "
    "Tensor eps, Tensor? weight_decay, Tensor momentum_decay, Tensor[] state, bool maximize) -> "
    "Tensor[]",
    "One update by NAdam.", Nadam,
    {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f64[] f64[] f64[] f32[2,3] f32[2,3] f64[]",
     "{maximize=false}"});
HAMMOCK_UPDATE(
    kRadamUpdate,
    "_radam_update(Tensor self, Tensor grad, Tensor lr, Tensor beta1, Tensor step, Tensor beta2, "
    "Tensor eps, Tensor? weight_decay, Tensor[] state, bool maximize) -> Tensor[]",
    "One update by RAdam.", Radam,
    {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f64[] f64[] f32[2,3] f32[2,3]",
     "{maximize=false}"});
HAMMOCK_UPDATE(
    kRmspropUpdate,
    "_rmsprop_update(Tensor self, Tensor grad, Tensor lr, Tensor? momentum, Tensor alpha, Tensor "
    "eps, Tensor? weight_decay, Tensor[] state, bool centered, bool maximize) -> Tensor[]",
    "One update by RMSprop.", Rmsprop,
    {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f64[] f32[2,3] f32[2,3]",
     "{centered=false, maximize=false}"});
HAMMOCK_UPDATE(
    kAdagradUpdate,
    "_adagrad_update(Tensor self, Tensor grad, Tensor lr, Tensor step, Tensor lr_decay, Tensor "
    "eps, Tensor? weight_decay, Tensor[] sum, bool maximize) -> Tensor[]",
    "One update by Adagrad.", Adagrad,
    {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f64[] f32[2,3]", "{maximize=false}"});
HAMMOCK_UPDATE(
    kAdadeltaUpdate,
    "_adadelta_update(Tensor self, Tensor grad, Tensor lr, Tensor rho, Tensor eps, Tensor? "
    "weight_decay, Tensor[] state, bool maximize) -> Tensor[]",
    "One update by Adadelta.", Adadelta,
    {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f32[2,3] f32[2,3]", "{maximize=false}"});
HAMMOCK_UPDATE(
    kLionUpdate,
    "_lion_update(Tensor self, Tensor grad, Tensor lr, Tensor beta1, Tensor beta2, Tensor? "
    "weight_decay, Tensor[] exp_avg) -> Tensor[]",
    "One update by Lion.", Lion, {"f32[2,3] f32[2,3] f64[] f64[] f64[] f64[] f32[2,3]", ""});
#undef HAMMOCK_UPDATE

constinit const OpDef ops::kEmaUpdate = {
    .schema = "_ema_update(Tensor self, Tensor value, Tensor keep) -> Tensor",
    .doc = "`self` moved towards `value`: an exponential moving average.",
    .infer = InferEma,
    .expand = ExpandEma,
    .samples = {{"f32[2,3] f32[2,3] f64[]"}},
};

std::span<const OpDef* const> ops::UpdateOps() {
  static constexpr const OpDef* kOps[] = {
      &kSgdUpdate,     &kAdamUpdate,    &kAdamaxUpdate,   &kNadamUpdate, &kRadamUpdate,
      &kRmspropUpdate, &kAdagradUpdate, &kAdadeltaUpdate, &kLionUpdate,  &kEmaUpdate,
  };
  return kOps;
}

}  // namespace hammock
