// Loss scaling: what keeps gradients of half precision finite.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/reduce.h"
#include "ops/kit/compose.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

/// Whether any element is infinite or NaN, as 1 or 0 in f32[1].
Tensor AnyNotFinite(const Tensor& x) {
  Tensor bad = any(Reshaped(logical_not(isfinite(x)), {x.numel()}));
  return Reshaped(Casted(bad, DType::kF32), {1});
}

Tensor Unscaled(const Tensor& x, const Tensor& inv_scale) {
  Tensor scale = Reshaped(inv_scale, {});
  return Casted(mul(Casted(x, WideFloat(x.dtype())), scale), x.dtype());
}

struct Scales {
  std::vector<Tensor> unscaled;
  Tensor found_inf;
};

Scales CheckAndUnscale(const std::vector<Tensor>& self, const Tensor& found_inf,
                       const Tensor& inv_scale) {
  const char* op = "_amp_foreach_non_finite_check_and_unscale_";
  if (found_inf.numel() != 1 || inv_scale.numel() != 1 || found_inf.dtype() != DType::kF32 ||
      inv_scale.dtype() != DType::kF32) {
    Throw(ErrorCode::kValue, "{}: found_inf and inv_scale must be one f32, got {} and {}", op,
          found_inf.shape().to_string(), inv_scale.shape().to_string());
  }
  Scales result{{}, found_inf};
  for (const Tensor& x : self) {
    NeedFloat(op, x);
    Tensor bad = Reshaped(AnyNotFinite(x), found_inf.sizes());
    result.found_inf = maximum(result.found_inf, bad);
    result.unscaled.push_back(Unscaled(x, inv_scale));
  }
  return result;
}

void CheckAndUnscaleInPlace(const std::vector<Tensor>& self, const Tensor& found_inf,
                            const Tensor& inv_scale, Location at) {
  LocationScope scope(at);
  Scales result = CheckAndUnscale(self, found_inf, inv_scale);
  for (size_t i = 0; i < self.size(); ++i) {
    Tensor target = self[i];
    WriteInPlace("_amp_foreach_non_finite_check_and_unscale_", target, result.unscaled[i]);
  }
  Tensor found = found_inf;
  WriteInPlace("_amp_foreach_non_finite_check_and_unscale_", found, result.found_inf);
}

/// The next scale and growth tracker: smaller after a step that was not finite, larger after
/// `growth_interval` good ones in a row.
std::tuple<Tensor, Tensor> UpdatedScale(const Tensor& scale, const Tensor& tracker,
                                        const Tensor& found_inf, double growth, double backoff,
                                        int64_t interval, Location at) {
  LocationScope scope(at);
  if (tracker.numel() != 1 || scale.numel() != 1 || found_inf.numel() != 1 ||
      tracker.dtype() != DType::kI32 || scale.dtype() != DType::kF32) {
    Throw(ErrorCode::kValue,
          "_amp_update_scale_: needs one f32 scale, one i32 growth_tracker and one found_inf, got "
          "{}, {} and {}",
          scale.shape().to_string(), tracker.shape().to_string(), found_inf.shape().to_string());
  }
  Tensor bad = Reshaped(ne(found_inf, 0), {});
  Tensor good_steps = tracker + ConstantLike(1, tracker);
  Tensor grows = eq(good_steps, ConstantLike(interval, tracker));
  Tensor grown = scale * growth;
  // A scale that would overflow stays.
  Tensor kept = where(logical_and(Reshaped(grows, scale.sizes()), isfinite(grown)), grown, scale);
  Tensor zero = ConstantLike(0, tracker);
  return {where(bad, scale * backoff, kept), where(logical_or(bad, grows), zero, good_steps)};
}

Tensor& UpdateScale(Tensor& self, const Tensor& growth_tracker, const Tensor& found_inf,
                    double growth, double backoff, int64_t interval, Location at) {
  LocationScope scope(at);
  auto [scale, tracker] =
      UpdatedScale(self, growth_tracker, found_inf, growth, backoff, interval, at);
  Tensor target = growth_tracker;
  WriteInPlace("_amp_update_scale_", target, tracker);
  return WriteInPlace("_amp_update_scale_", self, scale);
}

Any CallCheckAndUnscale(std::span<const Any> args) {
  LocationScope scope(Location::current());
  Scales result =
      CheckAndUnscale(boxing::ToTensors(args[0]), args[1].ToTensor(), args[2].ToTensor());
  return Any::Tuple({boxing::FromTensors(result.unscaled), Any(result.found_inf)});
}

// ---- Records

HAMMOCK_FUNCTION(kUpdateScale,
                 "_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, "
                 "float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> "
                 "Tensor(a!)",
                 "The loss scale for the next step.", UpdateScale)
HAMMOCK_FUNCTION(kUpdatedScale,
                 "_amp_update_scale(Tensor self, Tensor growth_tracker, Tensor found_inf, float "
                 "scale_growth_factor, float scale_backoff_factor, int growth_interval) -> "
                 "(Tensor, Tensor)",
                 "The loss scale and growth tracker for the next step.", UpdatedScale)
HAMMOCK_FUNCTION(kUnscaleI,
                 "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) "
                 "found_inf, Tensor inv_scale) -> ()",
                 "Multiplies by `inv_scale`; `found_inf` becomes 1 if anything was not finite.",
                 CheckAndUnscaleInPlace)
constinit const OpDef kUnscale = {
    .schema =
        "_amp_foreach_non_finite_check_and_unscale(Tensor[] self, Tensor found_inf, Tensor "
        "inv_scale) -> Any",
    .doc = "(unscaled tensors, found_inf): the functional form.",
    .call = CallCheckAndUnscale,
};

}  // namespace

std::span<const OpDef* const> ops::LossScaleOps() {
  static constexpr const OpDef* kOps[] = {&kUpdateScale, &kUpdatedScale, &kUnscaleI, &kUnscale};
  return kOps;
}

}  // namespace hammock
