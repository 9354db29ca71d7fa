// option_child MODULE COMMAND...: does what the commands say, in order, and prints what it finds.
// See option_test.cpp.

#include <dlfcn.h>
#include <hammock/hammock.h>

#include <cstdio>
#include <string>

using namespace hammock;

namespace {

void* module = nullptr;

void Step() {
  Tensor x = tensor({1.0, 2.0}, f32, "reference");
  (x + x).host();
  std::printf("step\n");
}

void Run(const std::string& command, const std::string& name, const std::string& value) {
  if (command == "open") {
    module = dlopen(name.c_str(), RTLD_NOW);
    if (!module) std::printf("%s\n", dlerror());
  } else if (command == "read") {
    auto read = reinterpret_cast<int64_t (*)()>(dlsym(module, "ReadSize"));
    std::printf("read %ld\n", static_cast<long>(read()));
  } else if (command == "read_eager") {
    std::printf("eager %d\n", config::Get<config::kEager>());
  } else if (command == "set") {
    config::Set(name, value);
  } else if (command == "get") {
    std::string text = config::GetText(name);
    std::printf("%s = %s (%s)\n", name.c_str(), text.c_str(), config::OriginOf(name).c_str());
  } else if (command == "file") {
    config::LoadFile(name);
  } else if (command == "compiles") {
    auto count = metrics::CounterValue("UncachedCompile").value_or(0);
    std::printf("compiles %ld\n", static_cast<long>(count));
  } else if (command == "step") {
    Step();
  }
}

}  // namespace

/// Commands: open, read, read_eager, step, compiles, get=NAME, file=PATH, set NAME=VALUE.
int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  for (int i = 2; i < argc; ++i) {
    std::string word = argv[i];
    size_t equals = word.find('=');
    std::string command = word.substr(0, equals);
    std::string name = equals == std::string::npos ? argv[1] : word.substr(equals + 1);
    std::string value;
    if (command == "set" && ++i < argc) {
      std::string setting = argv[i];
      name = setting.substr(0, setting.find('='));
      value = setting.substr(setting.find('=') + 1);
    }
    try {
      Run(command, name, value);
    } catch (const Error& error) {
      std::printf("%s\n", error.message().c_str());
    }
  }
}
