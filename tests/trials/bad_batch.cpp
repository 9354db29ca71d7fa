// Training with wrong labels in some batches: they cost their step, never the model.
#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

struct Trainer {
  explicit Trainer(int64_t width)
      : net(nn::Linear(width, width), nn::BatchNorm1d(width), nn::ReLU(), nn::Linear(width, 10)),
        optimizer(net->parameters(), {.lr = 0.01, .momentum = 0.9}) {}
  nn::Sequential net;
  optim::SGD optimizer;

  void Step(const Tensor& x, const Tensor& labels) {
    step([&] {
      optimizer.zero_grad();
      cross_entropy(net(x), labels).backward();
      optimizer.step();
    });
  }
};

double SumOfWeights(const Trainer& trainer) {
  double sum = 0;
  for (const auto& [name, tensor] : trainer.net->state_dict()) {
    sum += tensor.to(f64).abs().sum().item<double>();
  }
  for (const auto& [name, tensor] : trainer.optimizer.state_dict()) {
    sum += tensor.to(f64).abs().sum().item<double>();
  }
  return sum;
}

void Train(int64_t width) {
  manual_seed(1);
  Trainer trainer(width), twin(width);
  twin.net->load_state_dict(trainer.net->state_dict());
  Tensor x = randn({32, width}), good = randint(0, 10, {32}), wrong = full({32}, 100000, i64);
  mark_step(true);
  int raised = 0;
  for (int i = 0; i < 12; ++i) {
    // A loop that reads nothing: the error of a bad batch comes with a later step, which then has
    // not run.
    if (i % 4 == 1) {
      trainer.Step(x, wrong);
      std::string text = ErrorOf([] { wait_device_ops(); });
      Check(Contains(text, "cross_entropy") || Contains(text, "100000"), text);
      Check(Contains(text, "undone"), text);
      Check(Contains(text, "bad_batch.cpp:"), text);
      ++raised;
    }
    trainer.Step(x, good);
    twin.Step(x, good);
  }
  Check(raised == 3, "every bad batch is reported");
  Check(SumOfWeights(trainer) == SumOfWeights(twin), "bad batches leave no trace");
  std::string path = "bad_batch.safetensors";
  Checkpoint({{"net", trainer.net}, {"optimizer", trainer.optimizer}}).save(path);
  std::remove(path.c_str());
}

}  // namespace

int main() {
  Train(4);    // runs inline
  Train(512);  // runs behind the program
  return Result();
}
