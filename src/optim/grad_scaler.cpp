#include "hammock/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/throw.h"
#include "hammock/autocast.h"
#include "hammock/autograd.h"
#include "hammock/distributed/shard.h"
#include "hammock/ir/node.h"
#include "hammock/ops.h"

namespace hammock::optim {
namespace {

/// Their present values, which later writes do not change.
std::vector<Tensor> ValuesOf(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> values;
  for (const Tensor& tensor : tensors) values.push_back(Tensor::FromValue(tensor.value()));
  return values;
}

bool IsSameValue(const Tensor& a, const Tensor& b) {
  return a.value().node.get() == b.value().node.get() && a.value().index == b.value().index;
}

/// The largest `found` of all ranks that have shards of the parameters: all of them skip a step, or
/// none does.
Tensor FoundOnAnyRank(Tensor found, const std::vector<Tensor>& params, Location at) {
  for (const distributed::Group& group : distributed::groups_of(params)) {
    found = distributed::all_reduce(found, distributed::Reduction::kMax, group, at);
  }
  return found;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options, Location at) : options_(options) {
  LocationScope scope(at);
  if (!(options.init_scale > 0 && std::isfinite(options.init_scale)) ||
      !(options.growth_factor > 1) || !(options.backoff_factor > 0 && options.backoff_factor < 1) ||
      options.growth_interval < 1) {
    Throw(ErrorCode::kValue,
          "GradScaler: init_scale is {}, growth_factor {}, backoff_factor {}, growth_interval {}; "
          "expected above 0, above 1, between 0 and 1, and at least 1",
          options.init_scale, options.growth_factor, options.backoff_factor,
          options.growth_interval);
  }
  scale_ = tensor(options.init_scale, DType::kF32, options.device);
  growth_tracker_ = tensor(0, DType::kI32, options.device);
}

Tensor GradScaler::scale(const Tensor& loss, Location at) const {
  LocationScope scope(at);
  if (!options_.enabled) return loss;
  // In f32: a loss of 16 bits times a large scale would overflow at once.
  return mul(loss.dtype() == DType::kF64 ? loss : loss.to(DType::kF32), scale_, at);
}

GradScaler::Mark::Mark(const Device& device)
    : number_(tensor(0.0, DType::kF32, device)), unset_(Tensor::FromValue(number_.value())) {}

void GradScaler::Mark::Set(const Tensor& value) { number_.copy_(value); }

bool GradScaler::Mark::is_set() const { return !IsSameValue(number_, unset_); }

GradScaler::Entry& GradScaler::EntryOf(const Optimizer& optimizer) {
  for (Entry& entry : entries_) {
    if (entry.optimizer == &optimizer) return entry;
  }
  entries_.push_back({&optimizer, Mark(options_.device), Mark(options_.device), {}});
  return entries_.back();
}

void GradScaler::unscale_(Optimizer& optimizer, Location at) {
  LocationScope scope(at);
  if (!options_.enabled) return;
  Entry& entry = EntryOf(optimizer);
  if (entry.unscaled.is_set()) {
    Throw(ErrorCode::kValue, "GradScaler: unscale_ has been called{} since the last update",
          entry.stepped.is_set() ? " after step" : "");
  }
  NoGradGuard no_grad;
  NoAutocastGuard no_autocast;
  Tensor inverse = reciprocal(scale_);
  Tensor finite;
  std::vector<Tensor> params;  // of all groups
  for (int group = 0; group < optimizer.groups(); ++group) {
    for (const Tensor& param : optimizer.params(group)) {
      params.push_back(param);
      Tensor grad = param.grad();
      if (!grad.defined()) continue;
      if (grad.dtype() == DType::kF16) {
        Throw(ErrorCode::kValue,
              "GradScaler: a gradient is {}; parameters should be f32, and ops be cast by an "
              "AutocastGuard",
              grad.shape().to_string());
      }
      Tensor all_finite = isfinite(grad).all();
      finite = finite.defined() ? logical_and(finite, all_finite) : all_finite;
      grad.copy_((grad * inverse).to(grad.dtype()), at);
    }
  }
  if (!finite.defined()) {
    Throw(ErrorCode::kValue, "GradScaler: no parameter of the optimiser has a gradient");
  }
  entry.unscaled.Set(FoundOnAnyRank(logical_not(finite).to(DType::kF32), params, at));
}

void GradScaler::BeforeStep(Optimizer& optimizer, Location at) {
  LocationScope scope(at);
  if (!options_.enabled) return;
  Entry& entry = EntryOf(optimizer);
  if (entry.stepped.is_set()) {
    Throw(ErrorCode::kValue, "GradScaler: step has been called since the last update");
  }
  if (!entry.unscaled.is_set()) unscale_(optimizer, at);
  entry.before = ValuesOf(optimizer.tensors());
}

/// Restores the tensors that the step has changed if a gradient is not finite.
void GradScaler::AfterStep(Optimizer& optimizer, Location at) {
  if (!options_.enabled) return;
  Entry& entry = EntryOf(optimizer);
  NoGradGuard no_grad;
  NoAutocastGuard no_autocast;
  Tensor skip = ne(entry.unscaled.number(), 0.0);
  std::set<int64_t> done;  // a count of steps is shared
  std::vector<Tensor> tensors = optimizer.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& before = entry.before[i];
    if (IsSameValue(tensors[i], before) || !done.insert(tensors[i].id()).second) continue;
    tensors[i].copy_(where(skip, before, tensors[i]), at);
  }
  entry.before.clear();
  entry.stepped.Set(entry.unscaled.number());
}

void GradScaler::update(Location at) {
  LocationScope scope(at);
  if (!options_.enabled) return;
  if (std::ranges::none_of(entries_, [](const Entry& entry) { return entry.unscaled.is_set(); })) {
    Throw(ErrorCode::kValue, "GradScaler: update comes after a step or unscale_");
  }
  NoGradGuard no_grad;
  NoAutocastGuard no_autocast;
  Tensor bad = ne(entries_[0].unscaled.number(), 0.0);
  for (size_t i = 1; i < entries_.size(); ++i) {
    bad = logical_or(bad, ne(entries_[i].unscaled.number(), 0.0));
  }
  Tensor good_steps = growth_tracker_ + 1;
  Tensor grows = eq(good_steps, options_.growth_interval);
  Tensor grown = scale_ * options_.growth_factor;
  // A scale that would overflow stays.
  Tensor kept = where(logical_and(grows, isfinite(grown)), grown, scale_);
  scale_.copy_(where(bad, scale_ * options_.backoff_factor, kept), at);
  Tensor zero = zeros_like(growth_tracker_);
  growth_tracker_.copy_(where(logical_or(bad, grows), zero, good_steps), at);
  entries_.clear();
}

void GradScaler::update(double new_scale, Location at) {
  LocationScope scope(at);
  if (!(new_scale > 0 && std::isfinite(new_scale))) {
    Throw(ErrorCode::kValue, "GradScaler: the new scale is {}, expected above 0", new_scale);
  }
  if (!options_.enabled) return;
  NoGradGuard no_grad;
  scale_.copy_(tensor(new_scale, DType::kF32, options_.device));
  entries_.clear();
}

double GradScaler::get_scale(Location at) const {
  return options_.enabled ? scale_.item<double>(at) : 1.0;
}

StateDict GradScaler::state_dict() const {
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

void GradScaler::load_state_dict(const StateDict& state, Location at) {
  LocationScope scope(at);
  CopyState(state_dict(), state, "GradScaler state");
}

}  // namespace hammock::optim
