#pragma once
/// Data parallel training: every rank has the whole model and a part of each batch.
///
///   distributed::DataParallel parallel(*model);      // all ranks have rank 0's parameters
///   step([&] {
///     loss(parallel(part of the batch)).backward();  // the mean over this rank's examples
///     parallel.reduce_gradients();                   // the mean over all ranks
///     optimizer.step();
///   });

#include <vector>

#include "hammock/distributed.h"
#include "hammock/module.h"

namespace hammock::distributed {

class HAMMOCK_API DataParallel {
 public:
  /// Gives the module the parameters and buffers that it has on rank 0.
  explicit DataParallel(Module& module, const Group& group = world(),
                        Location at = Location::current());

  /// The module on this rank's part of the batch, with the random numbers of that part: dropout
  /// drops what one rank would drop that has the whole batch. Other functions of the part are
  /// called while a RandomPart lives.
  Tensor operator()(const Tensor& part, Location at = Location::current());

  /// Replaces the gradients of the parameters by their mean over all ranks, in few messages. Every
  /// rank must have gradients of the same parameters; else all raise DivergedError.
  void reduce_gradients(Location at = Location::current());

 private:
  Module& module_;
  std::vector<Tensor> parameters_;
  Group group_;
};

}  // namespace hammock::distributed
