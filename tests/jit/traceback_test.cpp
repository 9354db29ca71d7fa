// Errors of delegates come back with module hierarchy, op and source.

#include <gtest/gtest.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <thread>

#include "hammock/jit/to_backend.h"
#include "ir/expect_error.h"
#include "jit/toy_delegate.h"
#include "support/source_path.h"

namespace hammock::jit {
namespace {

ModulePtr MakeB() {
  auto b = std::make_shared<Module>("B");
  b->define("forward(Tensor x, Tensor y) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(args[0].ToTensor() * args[1].ToTensor());  // in B
  });
  return b;
}

ModulePtr MakeA() {
  auto a = std::make_shared<Module>("A");
  a->register_module("b0", MakeB());
  a->define("forward(Tensor x, Tensor y) -> Tensor",
            [](Module& self, const std::vector<Any>& args) {
              return self.get_submodule("b0")->run_method("forward", args);  // in A
            });
  return a;
}

ModulePtr MakeTop() {
  auto top = std::make_shared<Module>("Top");
  top->register_module("a0", MakeA());
  top->define("forward(Tensor x, Tensor y) -> Tensor",
              [](Module& self, const std::vector<Any>& args) {
                Any a = self.get_submodule("a0")->run_method("forward", args);  // in Top
                return Any(a.ToTensor() + args[0].ToTensor());                  // the add
              });
  return top;
}

std::vector<Any> Args() { return {Any(ones({2})), Any(ones({2}))}; }

LowerOptions Examples() { return {.examples = {{"forward", {.args = Args()}}}}; }

std::string MessageOfRun(Module& module) {
  return MessageOf<DelegateError>([&] { module.run_method("forward", Args()); });
}

class Traceback : public ::testing::Test {
 protected:
  void SetUp() override {
    // Files are named relative to the repository, or to a folder in it.
    bool inside = std::string(Location::current().file_name()).starts_with("..");
    ASSERT_EQ(chdir(testing::SourcePath(inside ? "tests" : "").c_str()), 0);
  }
};

TEST_F(Traceback, OneLevel) {
  ModulePtr lowered =
      to_backend("toy", *MakeB(), {{"forward", AnyDict{{"fail", "mul"}}}}, Examples());
  std::string message = MessageOfRun(*lowered);
  EXPECT_TRUE(Contains(message,
                       "toy: overflow\nModule hierarchy: top(B)::forward."
                       "__loweredModule__(B)::forward.mul\n"
                       "Traceback (most recent call last):\n"));
  EXPECT_TRUE(Contains(message,
                       ", in __loweredModule__(B)::forward\n"
                       "    return Any(args[0].ToTensor() * args[1].ToTensor());  // in B\n"));
  EXPECT_TRUE(Contains(message, "~ <--- HERE"));
}

TEST_F(Traceback, TwoLevels) {
  ModulePtr lowered =
      to_backend("toy", *MakeTop(), {{"forward", AnyDict{{"fail", "mul"}}}}, Examples());
  std::string message = MessageOfRun(*lowered);
  EXPECT_TRUE(Contains(message,
                       "Module hierarchy: top(Top)::forward.__loweredModule__(Top)::forward."
                       "a0(A)::forward.b0(B)::forward.mul\n"));
  EXPECT_TRUE(Contains(message,
                       ", in __loweredModule__(Top)::forward\n"
                       "    Any a = self.get_submodule(\"a0\")"));
  EXPECT_TRUE(Contains(message, ", in a0(A)::forward\n    return self.get_submodule(\"b0\")"));
  EXPECT_TRUE(Contains(message, ", in b0(B)::forward\n    return Any(args[0].ToTensor() *"));
}

TEST_F(Traceback, AtTheTopOfATree) {
  ModulePtr lowered =
      to_backend("toy", *MakeTop(), {{"forward", AnyDict{{"fail", "add"}}}}, Examples());
  EXPECT_TRUE(Contains(MessageOfRun(*lowered), "__loweredModule__(Top)::forward.add\n"));
}

TEST_F(Traceback, OfALoweredSubmodule) {
  auto top = std::make_shared<Module>("Top");
  top->register_module(
      "a0", to_backend("toy", *MakeA(), {{"forward", AnyDict{{"fail", "mul"}}}}, Examples()));
  top->define(
      "forward(Tensor x, Tensor y) -> Tensor", [](Module& self, const std::vector<Any>& args) {
        return self.get_submodule("a0")->run_method("forward", args);  // calls the lowered one
      });
  std::string message = MessageOfRun(*top);
  EXPECT_TRUE(Contains(message,
                       "Module hierarchy: top(Top)::forward.a0(A)::forward."
                       "__loweredModule__(A)::forward.b0(B)::forward.mul\n"));
  EXPECT_TRUE(Contains(message, ", in top(Top)::forward\n    return self.get_submodule(\"a0\")->"));
}

TEST_F(Traceback, OfSelectivelyLoweredSubmodules) {
  auto fail = [](Module& module) {
    return to_backend("toy", module, {{"forward", AnyDict{{"fail", "mul"}}}}, Examples());
  };
  ModulePtr one = to_backend_selective(*MakeTop(), fail, {"a0"});
  EXPECT_TRUE(Contains(MessageOfRun(*one),
                       "top(Top)::forward.a0(A)::forward."
                       "__loweredModule__(A)::forward.b0(B)::forward.mul\n"));
  ModulePtr deep = to_backend_selective(*MakeTop(), fail, {"a0.b0"});
  EXPECT_TRUE(Contains(MessageOfRun(*deep),
                       "top(Top)::forward.a0(A)::forward.b0(B)::forward."
                       "__loweredModule__(B)::forward.mul\n"));
}

TEST_F(Traceback, OfWhatCannotBePreprocessed) {
  Module module("Net");
  module.define("forward(Tensor x) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(args[0].ToTensor().exp());  // not supported
  });
  module.trace("forward", {ones({2})});
  std::string message = MessageOf<DelegateError>([&] {
    to_backend("toy", module, {{"forward", AnyDict()}});
  });
  EXPECT_TRUE(Contains(message,
                       "toy: exp is not supported\n"
                       "Module hierarchy: top(Net)::<unknown>.exp\n"));
  EXPECT_TRUE(Contains(message, "return Any(args[0].ToTensor().exp());  // not supported"));
}

TEST_F(Traceback, OfWhatCannotBeCompiled) {
  std::string message = MessageOf<DelegateError>([&] {
    to_backend("toy", *MakeTop(), {{"forward", AnyDict{{"fail_compile", "mul"}}}}, Examples());
  });
  EXPECT_TRUE(Contains(message, "toy: cannot be compiled\n"));
  EXPECT_TRUE(Contains(message, "a0(A)::forward.b0(B)::forward.mul\n"));
}

TEST_F(Traceback, IsKeptInTheArchiveWithTheText) {
  std::string path = ::testing::TempDir() + std::to_string(getpid()) + "_traceback.hmk";
  save_module(*to_backend("toy", *MakeTop(), {{"forward", AnyDict{{"fail", "mul"}}}}, Examples()),
              path);
  ModulePtr again = load_module(path);
  ASSERT_EQ(chdir("/"), 0);  // the file cannot be read from here
  std::string message = MessageOfRun(*again);
  EXPECT_TRUE(Contains(message, "a0(A)::forward.b0(B)::forward.mul\n"));
  EXPECT_TRUE(Contains(message, "return Any(args[0].ToTensor() * args[1].ToTensor());  // in B"));
}

TEST_F(Traceback, OfErrorsThatKnowNoOp) {
  ModulePtr lowered = to_backend("hammock", *MakeB(), {{"forward", AnyDict()}}, Examples());
  std::string message = MessageOf<DelegateError>([&] {
    lowered->run_method("forward", {Any(ones({3})), Any(ones({2}))});
  });
  EXPECT_TRUE(Contains(message, "input 0 of its graph is f32[2], the one given is f32[3]"));
  EXPECT_TRUE(Contains(message, "__loweredModule__(B)::forward.<unknown>"));
}

TEST_F(Traceback, OfOpsThatFailInADeviceOfHammock) {
  for (const char* backend : {"hammock", "reference"}) {
    Module module("Net");
    module.define("forward(Tensor x, Tensor at) -> Tensor",
                  [](Module&, const std::vector<Any>& args) {
                    Tensor row = index_select(args[0].ToTensor(), 0, args[1].ToTensor());  // picks
                    return Any(row + 1.0);
                  });
    module.trace("forward", {ones({2, 2}), tensor({0})});
    ModulePtr lowered = to_backend(backend, module, {{"forward", AnyDict()}});
    EXPECT_NO_THROW(lowered->run_method("forward", {ones({2, 2}), tensor({1})}));
    std::string message = MessageOf<DelegateError>([&] {
      lowered->run_method("forward", {ones({2, 2}), tensor({7})});
    });
    EXPECT_TRUE(Contains(message, "index_select\nTraceback")) << backend;
    EXPECT_TRUE(Contains(message, "// picks")) << backend;
  }
}

TEST_F(Traceback, HandlesAreUniqueUnderThreads) {
  std::mutex mutex;
  std::set<int64_t> seen;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 5; ++k) {
        ModulePtr lowered = to_backend("toy", *MakeB(), {{"forward", AnyDict()}}, Examples());
        Any processed =
            lowered->get_submodule("__loweredModule__")->attribute("__processed_module");
        std::lock_guard lock(mutex);
        for (const Any& handle : processed.ToDict().at("forward").ToDict().at("handles").ToList()) {
          EXPECT_TRUE(seen.insert(handle.ToInt()).second) << handle.ToInt();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(seen.size(), 8u * 5u);
}

}  // namespace
}  // namespace hammock::jit
