#include "hammock/distributed/data_parallel.h"

#include "hammock/autograd.h"
#include "hammock/distributed/random_part.h"

namespace hammock::distributed {

DataParallel::DataParallel(Module& module, const Group& group, Location at)
    : module_(module), parameters_(module.parameters()), group_(group) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  std::vector<Tensor> all = parameters_;
  for (const auto& [name, buffer] : module.named_buffers()) all.push_back(buffer);
  for (Tensor& tensor : all) tensor.copy_(broadcast(tensor, 0, group_));
}

Tensor DataParallel::operator()(const Tensor& part, Location at) {
  RandomPart random(group_, 0, at);
  return module_(part, at);
}

void DataParallel::reduce_gradients(Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  std::vector<Tensor> owners, gradients;
  // The last parameters have their gradients first, so that their messages can be sent while the
  // others are computed.
  for (auto parameter = parameters_.rbegin(); parameter != parameters_.rend(); ++parameter) {
    if (Tensor gradient = parameter->grad(); gradient.defined()) {
      owners.push_back(*parameter);
      gradients.push_back(gradient);
    }
  }
  std::vector<Tensor> means = all_reduce(gradients, Reduction::kMean, group_);
  for (size_t i = 0; i < means.size(); ++i) owners[i].set_grad(means[i]);
}

}  // namespace hammock::distributed
