// Teaches clothes to a model that knows digits: finetune mnist.onnx, with a model of 1x1x28x28
// inputs and ten scores. Only its last layer learns. The file is made for one image: vmap maps it
// over a batch.
#include <cstdio>
#include <stdexcept>

#include "common/images.h"
#include "hammock/onnx.h"

using namespace hammock;

int main(int count, char** arguments) try {
  if (count != 2) throw std::runtime_error("usage: finetune MODEL.onnx");
  manual_seed(1);
  examples::Images train = examples::LoadImages(3000), test = examples::LoadImages(500, true);
  ModulePtr net = onnx::load(arguments[1]);
  NamedTensors parameters = net->named_parameters();
  std::vector<Tensor> last;  // what the scores are made of: ten of them
  for (auto& [name, tensor] : parameters) {
    bool learns = tensor.size(-1) == 10;
    tensor.requires_grad_(learns);
    if (learns) last.push_back(tensor);
  }
  auto model = vmap([&](const Tensor& image) {  // f32[1,28,28], from 0 to 1
    Tensor x = image.unsqueeze(0) * 4.0;
    return net->run_method("forward", {x}).ToTensor().squeeze(0);
  });
  optim::Adam optimizer(last, {.lr = 1e-2});
  data::DataLoader loader(data::ArrayDataset({train.pixels, train.labels}),
                          {.batch_size = 100, .shuffle = true});

  std::printf("%zu of %zu tensors learn\n", last.size(), parameters.size());
  std::printf("before: %.1f%% of %ld images right\n", 100 * examples::Accuracy(model, test), 500L);
  for (int epoch = 1; epoch <= 4; ++epoch) {
    double sum = 0;
    for (const data::Batch& batch : loader) {
      Tensor loss;
      step([&] {
        optimizer.zero_grad();
        loss = cross_entropy(model(batch[0]), batch[1]);
        loss.backward();
        optimizer.step();
      });
      sum += loss.item<double>();
    }
    std::printf("epoch %d, loss %.4f\n", epoch, sum / static_cast<double>(loader.size()));
  }
  std::printf("after: %.1f%% right\n", 100 * examples::Accuracy(model, test));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
