#include "hammock/distributed/data_parallel.h"

#include "hammock/autograd.h"

namespace hammock::distributed {

DataParallel::DataParallel(const Module& module, const Group& group, Location at)
    : parameters_(module.parameters()), group_(group) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  std::vector<Tensor> all = parameters_;
  for (const auto& [name, buffer] : module.named_buffers()) all.push_back(buffer);
  for (Tensor& tensor : all) tensor.copy_(broadcast(tensor, 0, group_));
}

void DataParallel::reduce_gradients(Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  std::vector<Tensor> owners, gradients;
  for (const Tensor& parameter : parameters_) {
    if (Tensor gradient = parameter.grad(); gradient.defined()) {
      owners.push_back(parameter);
      gradients.push_back(gradient);
    }
  }
  std::vector<Tensor> means = all_reduce(gradients, Reduction::kMean, group_);
  for (size_t i = 0; i < means.size(); ++i) owners[i].set_grad(means[i]);
}

}  // namespace hammock::distributed
