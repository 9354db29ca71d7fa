// Lowers a module to the stack machine: as a whole, op by op, and from an archive.

#include <cstdlib>
#include <iostream>

#include "hammock/hammock.h"
#include "hammock/jit/to_backend.h"

using namespace hammock;

namespace {

struct Net : Module {
  Net() : Module("Net") {
    weight = register_parameter("weight", tensor({1.0, -2.0, 3.0}));
    define("forward(Tensor x) -> Tensor", &Net::forward);
    define("norm(Tensor x) -> Tensor", &Net::norm);
  }
  Tensor forward(const Tensor& x) { return relu(x * weight + 1.0); }
  Tensor norm(const Tensor& x) { return sqrt(x * weight).sum() * 0.5 + x; }
  Tensor weight;
};

void Expect(bool condition, const char* what) {
  std::cout << (condition ? "ok: " : "WRONG: ") << what << "\n";
  if (!condition) std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  Net net;
  Tensor x = tensor({1.0, 2.0, 3.0});
  net.trace("forward", {x});
  net.trace("norm", {x});

  ModulePtr lowered = jit::to_backend("stack", net, {{"forward", AnyDict()}});
  Expect((*lowered)(x).to_vector<float>() == net(x).to_vector<float>(), "forward as a whole");

  jit::Partitioned parts = jit::partition_to_backend("stack", net, {{"norm", AnyDict()}});
  std::cout << parts.placements[0].ToText();
  Tensor positive = tensor({1.0, -2.0, 3.0});
  Expect(parts.module->run_method("norm", {positive}).ToTensor().to_vector<float>() ==
             net.run_method("norm", {positive}).ToTensor().to_vector<float>(),
         "norm op by op");

  std::string path = argc > 1 ? argv[1] : "net.hmk";
  save_module(*parts.module, path);
  ModulePtr again = load_module(path);
  Expect(again->run_method("norm", {positive}).ToTensor().to_vector<float>() ==
             net.run_method("norm", {positive}).ToTensor().to_vector<float>(),
         "norm from an archive");
  try {
    again->run_method("norm", {x});
    Expect(false, "the root of a negative number is an error");
  } catch (const jit::DelegateError& error) {
    std::cout << error.message() << "\n";
    Expect(error.message().find(".sqrt\n") != std::string::npos, "an error names the op");
  }
}
