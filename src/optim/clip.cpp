#include "hammock/optim/clip.h"

#include <algorithm>
#include <cmath>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/distributed/shard.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "ops/nn/optimizer_updates.h"
#include "trace/apply.h"

namespace hammock::optim {
namespace {

std::vector<Tensor> GradsOf(const std::vector<Tensor>& params) {
  std::vector<Tensor> grads;
  for (const Tensor& param : params) {
    if (param.grad().defined()) grads.push_back(param.grad());
  }
  return grads;
}

/// Norms of gradients of which the same groups have the other parts; no groups: of whole ones.
struct Norms {
  std::vector<distributed::Group> groups;
  std::vector<Tensor> norms;
};

std::vector<Norms> NormsByGroups(const std::vector<Tensor>& params, double norm_type) {
  std::vector<Norms> all;
  for (const Tensor& param : params) {
    if (!param.grad().defined()) continue;
    const std::vector<distributed::Group> groups = distributed::groups_of({param});
    auto found = std::ranges::find_if(all, [&](const Norms& other) {
      using distributed::Group;
      return std::ranges::equal(other.groups, groups, {}, &Group::name, &Group::name);
    });
    if (found == all.end()) found = all.insert(found, Norms{groups, {}});
    found->norms.push_back(linalg_vector_norm(param.grad(), norm_type));
  }
  return all;
}

/// The norm of tensors whose norms are given.
Tensor Joined(const std::vector<Tensor>& norms, double norm_type, Location at) {
  return linalg_vector_norm(stack(norms, 0, at), norm_type);
}

/// The norm of the gradients, with the parts that other ranks have.
Tensor NormOfAll(const std::vector<Tensor>& params, double norm_type, Location at) {
  std::vector<Tensor> norms;
  for (const Norms& of : NormsByGroups(params, norm_type)) {
    if (!of.groups.empty() && !(norm_type > 0)) {
      Throw<NotSupported>(ErrorCode::kNotSupported,
                          "clip_grad_norm_: norm_type is {}; of parameters in shards it must be "
                          "above 0",
                          norm_type);
    }
    norms.push_back(Joined(of.norms, norm_type, at));
    for (const distributed::Group& group : of.groups) {
      Tensor of_ranks = distributed::all_gather(norms.back().reshape({1}), 0, group, at);
      norms.back() = linalg_vector_norm(of_ranks, norm_type);
    }
  }
  return norms.size() == 1 ? norms[0] : Joined(norms, norm_type, at);
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, double norm_type,
                       Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  std::vector<Tensor> grads = GradsOf(params);
  if (grads.empty()) return tensor(0.0, DType::kF32, Device(), at);
  Tensor norm = NormOfAll(params, norm_type, at);
  Tensor scale = clamp(max_norm / (norm + 1e-6), std::nullopt, 1.0);
  for (Tensor& grad : grads) grad.mul_(scale, at);
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& params, double clip_value, Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  for (Tensor& grad : GradsOf(params)) grad.copy_(clamp(grad, -clip_value, clip_value), at);
}

EMA::EMA(std::vector<Tensor> params, double decay, Location at)
    : params_(std::move(params)), keep_(Lift(decay, DType::kF64)) {
  LocationScope scope(at);
  if (!(decay >= 0 && decay <= 1)) {
    Throw(ErrorCode::kValue, "EMA: decay is {}, expected 0 to 1", decay);
  }
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!params_[i].defined()) {
      Throw(ErrorCode::kUninitializedTensor, "EMA: parameter {} is undefined", i);
    }
    averages_.push_back(params_[i].detach().clone());
  }
}

void EMA::update(Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor* operands[] = {&averages_[i], &params_[i], &keep_};
    ApplyInto(ops::kEmaUpdate, operands, {}, std::span(&averages_[i], 1));
  }
}

void EMA::swap(Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  for (size_t i = 0; i < params_.size(); ++i) {
    Tensor value = params_[i].clone();
    params_[i].copy_(averages_[i]);
    averages_[i].copy_(value);
  }
}

StateDict EMA::state_dict() const {
  StateDict state;
  for (size_t i = 0; i < averages_.size(); ++i) state[std::to_string(i)] = averages_[i];
  return state;
}

void EMA::load_state_dict(const StateDict& state, Location at) {
  LocationScope scope(at);
  CopyState(state_dict(), state, "EMA state");
}

}  // namespace hammock::optim
