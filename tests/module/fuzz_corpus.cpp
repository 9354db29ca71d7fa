// Writes the inputs that archive-fuzz starts from: fuzz_corpus FOLDER

#include <filesystem>
#include <fstream>

#include "hammock/hammock.h"
#include "hammock/jit/to_backend.h"
#include "module/module_io.h"

namespace {

using namespace hammock;

void Write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

ModulePtr SampleModule() {
  auto module = std::make_shared<Module>("Sample");
  module->register_parameter("w", ones({2, 2}));
  module->register_buffer("i", tensor({1}));
  module->set_attribute(
      "notes", AnyDict{{"a", AnyList{1, 2.5, "x", Any()}}, {"t", Any::Tuple({true, DType::kF16})}});
  module->define("forward(Tensor x) -> (Tensor, Tensor)",
                 [](Module& self, const std::vector<Any>& args) {
                   Tensor y = matmul(args[0].ToTensor(), self.get_tensor("w"));
                   return Any::Tuple({softmax(y, 1), y.sum() + 1.0});
                 });
  module->trace("forward", {ones({2, 2})}, {.free_dims = {{"x", 0}}});
  return module;
}

}  // namespace

int main(int, char** argv) {
  std::string folder = argv[1];
  std::filesystem::create_directories(folder);
  ModulePtr plain = SampleModule();
  ModulePtr lowered = jit::to_backend("reference", *SampleModule(), {{"forward", AnyDict()}});
  int number = 0;
  for (const ModulePtr& module : {plain, lowered}) {
    std::string bytes = WriteModule(*module).Bytes();
    Archive archive("sample", bytes, nullptr);
    Write(folder + "/archive" + std::to_string(number), bytes);
    Write(folder + "/module" + std::to_string(number++), archive.Get("module"));
  }
}
