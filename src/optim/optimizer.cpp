#include "hammock/optim/optimizer.h"

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ir/node.h"
#include "hammock/ops.h"
#include "hammock/sparse.h"

namespace hammock::optim {

Hyper::Hyper(double value, const Device& device)
    : tensor_(hammock::tensor(value, DType::kF64, device)),
      known_(std::make_shared<Value>(tensor_.value())),
      number_(value) {}

double Hyper::value() const {
  // A value never changes once it is recorded; a tensor that has another one is read.
  if (Value now = tensor_.value(); now != *known_) {
    number_ = tensor_.item<double>();
    known_ = std::make_shared<Value>(std::move(now));
  }
  return number_;
}

void Hyper::set(double value) {
  if (this->value() == value) return;
  NoGradGuard no_grad;
  tensor_.copy_(hammock::tensor(value, DType::kF64, tensor_.device()));
  known_ = std::make_shared<Value>(tensor_.value());
  number_ = value;
}

void Optimizer::AddGroup(const std::vector<Tensor>& params, double lr, double momentum) {
  if (params.empty()) Throw(ErrorCode::kValue, "optimizer: group {} has no parameters", groups());
  auto given_before = [&](const Tensor& param, size_t end) {
    for (size_t i = 0; i < end; ++i) {
      if (params[i].is_same(param)) return true;
    }
    for (const ParamGroup& group : groups_) {
      for (const Tensor& other : group.params) {
        if (other.is_same(param)) return true;
      }
    }
    return false;
  };
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& param = params[i];
    auto refuse = [&](std::string_view why) {
      Throw(ErrorCode::kValue, "optimizer: parameter {} of group {} {}", i, groups(), why);
    };
    if (!param.defined()) refuse("is undefined");
    if (!param.is_leaf()) refuse("is the result of an op; give leaves");
    if (!param.is_floating_point())
      refuse("is of dtype " + param.shape().to_string() + ", expected floats");
    if (given_before(param, i)) refuse("has been given before");
  }
  Device device = params[0].device();
  groups_.push_back({params, Hyper(lr, device), Hyper(momentum, device)});
}

const Optimizer::ParamGroup& Optimizer::GroupAt(int group) const {
  if (group < 0 || group >= groups()) {
    Throw(ErrorCode::kValue, "optimizer: group {} asked for, there are {}", group, groups());
  }
  return groups_[group];
}

Optimizer::ParamGroup& Optimizer::GroupAt(int group) {
  return const_cast<ParamGroup&>(std::as_const(*this).GroupAt(group));
}

const std::vector<Tensor>& Optimizer::params(int group, Location at) const {
  LocationScope scope(at);
  return GroupAt(group).params;
}

double Optimizer::lr(int group, Location at) const {
  LocationScope scope(at);
  return GroupAt(group).lr.value();
}

double Optimizer::momentum(int group, Location at) const {
  LocationScope scope(at);
  return GroupAt(group).momentum.value();
}

Optimizer::Optimizer() = default;
Optimizer::~Optimizer() = default;

StateShapes Optimizer::ExpectedState(const StateShapes&) const { return ShapesOf(state_dict()); }

void Optimizer::zero_grad(Location at) {
  LocationScope scope(at);
  for (ParamGroup& group : groups_) {
    for (Tensor& param : group.params) {
      param.set_grad(Tensor());
      sparse::clear_grad(param);
    }
  }
}

void Optimizer::set_lr(double lr, Location at) {
  LocationScope scope(at);
  for (ParamGroup& group : groups_) group.lr.set(lr);
}
void Optimizer::set_lr(int group, double lr, Location at) {
  LocationScope scope(at);
  GroupAt(group).lr.set(lr);
}
void Optimizer::set_momentum(int group, double momentum, Location at) {
  LocationScope scope(at);
  GroupAt(group).momentum.set(momentum);
}

StateDict Optimizer::state_dict() const {
  StateDict state;
  for (int i = 0; i < groups(); ++i) {
    state[fmt::format("groups.{}.lr", i)] = groups_[i].lr.tensor();
    state[fmt::format("groups.{}.momentum", i)] = groups_[i].momentum.tensor();
  }
  return state;
}

void Optimizer::load_state_dict(const StateDict& state, Location at) {
  LocationScope scope(at);
  CopyState(state_dict(), state, "optimizer state");
}

std::vector<Tensor> Optimizer::tensors() const {
  std::vector<Tensor> all;
  for (const ParamGroup& group : groups_) {
    all.insert(all.end(), group.params.begin(), group.params.end());
  }
  for (const auto& [name, tensor] : state_dict()) all.push_back(tensor);
  return all;
}

}  // namespace hammock::optim
