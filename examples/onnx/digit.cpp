// An image in, a digit out: digit mnist.onnx image.png, with a model of 1x1x28x28 inputs and ten
// scores.

#include <iostream>

#include "hammock/hammock.h"
#include "hammock/io.h"
#include "hammock/onnx.h"

using namespace hammock;

int main(int count, char** arguments) try {
  if (count != 3) throw std::runtime_error("usage: digit MODEL.onnx IMAGE.png");
  ModulePtr net = onnx::load(arguments[1]);
  Tensor image = from_host(io::ReadImage(arguments[2]));       // u8[28,28,1]
  Tensor x = image.permute(2, 0, 1).unsqueeze(0).to(f32);      // f32[1,1,28,28]
  Tensor scores = net->run_method("forward", {x}).ToTensor();  // f32[1,10]
  std::cout << "it is a " << argmax(scores).item<int>() << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
