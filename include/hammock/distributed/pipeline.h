#pragma once
/// Pipeline stages: rank s of a group has stage s of a model. A batch is cut into microbatches that
/// follow each other through the stages, forward and then backward.
///
///   distributed::Pipeline pipeline([&](const Tensor& x) { return stage(x); },
///                                  Shape(DType::kF32, {8, 256}),     // between stages
///                                  /*microbatches=*/4);
///   step([&] {
///     optimizer.zero_grad();                                         // of this stage's parameters
///     loss = pipeline.backward(x, [&](const Tensor& y, int microbatch) { return Loss(y, ...); });
///     optimizer.step();
///   });

#include <functional>

#include "hammock/distributed.h"
#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock::distributed {

class HAMMOCK_API Pipeline {
 public:
  using Stage = std::function<Tensor(const Tensor&)>;
  /// The loss of a microbatch's output, by its number.
  using Loss = std::function<Tensor(const Tensor& output, int microbatch)>;

  /// `between` is what every stage but the last gives for a microbatch.
  Pipeline(Stage stage, Shape between, int microbatches, const Group& group = world(),
           Location at = Location::current());

  /// Runs `input`, which the first stage needs and others may leave undefined, through all stages,
  /// and the gradients of the mean of the losses, which the last stage computes, back. They are
  /// added to the `grad` of the parameters of each stage. Returns that mean, on all ranks.
  Tensor backward(const Tensor& input, const Loss& loss, Location at = Location::current());
  /// The outputs of the last stage for all of `input`, on all ranks; without gradients. `output` is
  /// what the last stage gives for a microbatch.
  Tensor forward(const Tensor& input, const Shape& output, Location at = Location::current());

 private:
  /// The microbatch that this stage works on at a tick; -1: none.
  int AtTick(int tick, int stage) const;
  /// The output of the stage before this one, sent by all stages that have one at this tick.
  Tensor Forwarded(const Tensor& made, int tick);
  Tensor InputOf(const Tensor& input, int microbatch, const Tensor& received) const;
  void CheckMade(const Tensor& made) const;

  Stage stage_;
  Shape between_;
  int microbatches_;
  Group group_;
};

}  // namespace hammock::distributed
