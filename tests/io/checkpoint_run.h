#pragma once
/// A small run with all that a checkpoint holds: dropout, a shuffled loader, a schedule, averages.

#include <optional>
#include <string>
#include <vector>

#include "hammock/checkpoint.h"
#include "hammock/data.h"
#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "hammock/optim.h"

namespace hammock {

inline data::ArrayDataset RunData() {
  HostTensor x(Shape(DType::kF32, {40, 3})), y(Shape(DType::kI64, {40}));
  for (int64_t i = 0; i < x.numel(); ++i) x.set(i, Scalar(static_cast<double>(i * 7 % 11) / 11));
  for (int64_t i = 0; i < y.numel(); ++i) y.set(i, Scalar(i % 4));
  return data::ArrayDataset({x, y});
}

struct TrainingRun {
  explicit TrainingRun(const std::string& device)
      : loader(
            RunData(),
            {.batch_size = 6, .shuffle = true, .seed = 9, .workers = 1, .device = Device(device)}) {
    net->to(Device(device));
    optimizer.emplace(std::vector<optim::Group<optim::AdamWOptions>>{
        {.params = {net->parameters()[0]}, .options = {.lr = 0.02}},
        {.params = {net->parameters()[1], net->parameters()[2], net->parameters()[3]},
         .options = {.lr = 0.01, .weight_decay = 0, .amsgrad = true}}});
    schedule.emplace(*optimizer, optim::CosineOptions{.t_max = 30});
    average.emplace(net->parameters(), 0.9);
    scaler.emplace(optim::GradScalerOptions{
        .init_scale = 256, .growth_interval = 4, .device = Device(device)});
  }

  Checkpoint checkpoint() {
    return Checkpoint({{"model", net},
                       {"optimizer", *optimizer},
                       {"schedule", *schedule},
                       {"average", *average},
                       {"scaler", *scaler},
                       {"data", loader},
                       {"noise", noise},
                       {"step", step},
                       {"loss", loss},
                       {"notes", notes}});
  }

  void Train(int64_t steps) {
    for (int64_t end = step + steps; step < end;) {
      for (const data::Batch& batch : loader) {
        Step(batch);
        if (++step == end) break;
      }
    }
  }

  void Step(const data::Batch& batch) {
    optimizer->zero_grad();
    Tensor x = batch[0] + 0.01 * randn(batch[0].sizes(), f32, batch[0].device(), noise);
    Tensor value = cross_entropy(net(x), batch[1]);
    scaler->scale(value).backward();
    scaler->step(*optimizer);
    scaler->update();
    schedule->step();
    average->update();
    loss = value.item<double>();
    notes += step % 2 ? "a" : "b";
  }

  data::DataLoader loader;
  nn::Sequential net{nn::Linear(3, 8), nn::BatchNorm1d(8), nn::ReLU(), nn::Dropout(0.3),
                     nn::Linear(8, 4)};
  std::optional<optim::AdamW> optimizer;
  std::optional<optim::CosineAnnealingLR> schedule;
  std::optional<optim::EMA> average;
  std::optional<optim::GradScaler> scaler;
  Generator noise{77};
  int64_t step = 0;
  double loss = 0;
  std::string notes;
};

}  // namespace hammock
