// The delegates that ship, and machine code in archives.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "backends/cpu/code/kernel_code.h"
#include "backends/cpu/code/llvm_compiler.h"
#include "base/log.h"
#include "hammock/hammock.h"
#include "hammock/jit/compile_ahead.h"
#include "hammock/jit/to_backend.h"
#include "ir/expect_error.h"
#include "module/archive.h"
#include "module/module_io.h"
#include "runtime/child.h"

namespace hammock::jit {
namespace {

using Floats = std::vector<float>;

std::string TempFile(const std::string& name) {
  return ::testing::TempDir() + std::to_string(getpid()) + "_" + name;
}

struct Mlp : Module {
  Mlp() : Module("Mlp") {
    w1 = register_parameter("w1", arange(12.0).reshape({3, 4}) / 12.0);
    w2 = register_parameter("w2", arange(8.0).reshape({4, 2}) / 8.0);
    seen = register_buffer("seen", zeros({1}));
    each = register_buffer("each", ones({3}));
    define("forward(Tensor x) -> Tensor", &Mlp::forward);
    define("features(Tensor x) -> (Tensor, Tensor)", &Mlp::features);
  }
  Tensor forward(const Tensor& x) {
    seen += 1.0;
    return softmax(matmul(gelu(matmul(x, w1)), w2), 1);
  }
  std::tuple<Tensor, Tensor> features(const Tensor& x) { return {relu(x), matmul(x, each)}; }
  Tensor w1, w2, seen, each;
};

class DeviceDelegate : public ::testing::TestWithParam<const char*> {};

TEST_P(DeviceDelegate, GivesTheResultsOfTheModule) {
  Mlp mlp;
  Tensor x = arange(6.0).reshape({2, 3});
  mlp.trace("forward", {x});
  mlp.trace("features", {x});
  ModulePtr lowered =
      to_backend(GetParam(), mlp, {{"forward", AnyDict()}, {"features", AnyDict()}});
  Floats expected = mlp(x).to_vector<float>();
  Floats actual = (*lowered)(x).to_vector<float>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6);
  EXPECT_EQ(lowered->get_tensor("seen").item<float>(), 1) << "buffers are written";
  Any features = lowered->run_method("features", {x});
  EXPECT_EQ(features.ToList()[1].ToTensor().to_vector<float>(), (Floats{3, 12}));
}

TEST_P(DeviceDelegate, ServesFreeDims) {
  Mlp mlp;
  ModulePtr lowered =
      to_backend(GetParam(), mlp, {{"forward", AnyDict()}},
                 {.examples = {{"forward", {{Any(ones({2, 3}))}, {.free_dims = {{"x", 0}}}}}}});
  for (int64_t n : {1, 2, 3, 8}) {
    Tensor x = arange(3.0 * double(n)).reshape({n, 3});
    Floats expected = mlp(x).to_vector<float>(), actual = (*lowered)(x).to_vector<float>();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6);
  }
}

TEST_P(DeviceDelegate, SavesWeightsOnceAndLoads) {
  Mlp mlp;
  mlp.trace("forward", {ones({1, 3})});
  mlp.trace("features", {ones({1, 3})});
  mlp.register_buffer("large", ones({1 << 16}));
  mlp.define("use(Tensor x) -> Tensor", [](Module& self, const std::vector<Any>& args) {
    return Any(args[0].ToTensor() + self.get_tensor("large"));
  });
  ModulePtr lowered = to_backend(GetParam(), mlp, {{"use", AnyDict()}},
                                 {.examples = {{"use", {.args = {Any(ones({1}))}}}}});
  std::string path = TempFile("once.hmk");
  save_module(*lowered, path);
  size_t bytes = 0;
  auto archive = Archive::Open(path);
  for (const Archive::Section& section : archive->sections()) {
    if (section.name.starts_with("data/")) bytes += section.bytes.size();
  }
  EXPECT_LT(bytes, size_t{(1 << 16) * 4 + 4096}) << "the delegate's weights are the module's";
  EXPECT_EQ(load_module(path)->run_method("use", {ones({1})}).ToTensor().sum().item<float>(),
            2 << 16);
}

TEST_P(DeviceDelegate, SixteenThreadsExecuteOneLoweredModule) {
  Mlp mlp;
  ModulePtr lowered =
      to_backend(GetParam(), mlp, {{"features", AnyDict()}},
                 {.examples = {{"features", {{Any(ones({2, 3}))}, {.free_dims = {{"x", 0}}}}}}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        int64_t rows = 2 + (t + i) % 5;
        Tensor x = full({rows, 3}, double(t));
        Any result = lowered->run_method("features", {x});
        ASSERT_EQ(result.ToList()[1].ToTensor().to_vector<float>(),
                  Floats(static_cast<size_t>(rows), 3.0f * float(t)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(DeviceDelegate, TakesTensorsOfOtherDevices) {
  Mlp mlp;
  ModulePtr lowered = to_backend(GetParam(), mlp, {{"features", AnyDict()}},
                                 {.examples = {{"features", {.args = {Any(ones({2, 3}))}}}}});
  for (const char* device : {"cpu", "reference"}) {
    Any result = lowered->run_method("features", {ones({2, 3}).to(Device(device))});
    EXPECT_EQ(result.ToList()[1].ToTensor().to_vector<float>(), (Floats{3, 3})) << device;
  }
}

TEST_P(DeviceDelegate, DrawsRandomNumbersForTensorsOfOtherDevices) {
  Module noisy("Noisy");
  noisy.define("forward(Tensor x) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(dropout(args[0].ToTensor(), 0.5));
  });
  ModulePtr lowered = to_backend(GetParam(), noisy, {{"forward", AnyDict()}},
                                 {.examples = {{"forward", {.args = {Any(ones({64}))}}}}});
  for (const char* device : {"cpu", "reference"}) {
    Tensor x = ones({64}).to(Device(device));
    Floats first = (*lowered)(x).to_vector<float>(), second = (*lowered)(x).to_vector<float>();
    EXPECT_NE(first, second) << device;
    EXPECT_NE(std::ranges::count(first, 0.0f), 0) << device;
    EXPECT_NE(std::ranges::count(first, 2.0f), 0) << device;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceDelegate, ::testing::Values("hammock", "reference"));

TEST(DeviceDelegates, RefuseToRunWhereExecutionIsForbidden) {
  Mlp mlp;
  ModulePtr lowered = to_backend("hammock", mlp, {{"features", AnyDict()}},
                                 {.examples = {{"features", {.args = {Any(ones({2, 3}))}}}}});
  NoExecution guard("a test");
  EXPECT_ERROR(lowered->run_method("features", {ones({2, 3})}), DelegateError,
               "execution is forbidden in this scope: a test");
}

#define SKIP_WITHOUT_LLVM()                                        \
  if (!cpu::LlvmCompiler::WhyAbsent().empty()) {                   \
    GTEST_SKIP() << "no LLVM: " << cpu::LlvmCompiler::WhyAbsent(); \
  }

std::string CompiledMlp() {
  static const std::string path = [] {
    Mlp mlp;
    mlp.trace("forward", {ones({2, 3})});
    mlp.trace("features", {ones({2, 3})});
    std::string made = TempFile("ahead.hmk");
    compile_ahead(mlp, made);
    return made;
  }();
  return path;
}

TEST(CompileAhead, RunsWithoutLlvmInTheProcess) {
  SKIP_WITHOUT_LLVM();
  EXPECT_TRUE(hammock::testing::Succeeded(
      hammock::testing::RunChild({HAMMOCK_AHEAD_CHILD, CompiledMlp(), "allow"})));
}

TEST(CompileAhead, CodeIsNotRunUnlessAllowed) {
  SKIP_WITHOUT_LLVM();
  EXPECT_TRUE(hammock::testing::Succeeded(
      hammock::testing::RunChild({HAMMOCK_AHEAD_CHILD, CompiledMlp(), "default"})));
}

/// The archive with its native section replaced, and under another name if one is given.
std::string WithNative(const std::string& name, const std::function<void(std::string&)>& change,
                       const std::string& other_section = "") {
  auto archive = Archive::Open(CompiledMlp());
  ArchiveWriter writer;
  for (const Archive::Section& section : archive->sections()) {
    std::string section_name = section.name, bytes(section.bytes);
    if (section.name.starts_with("native/")) {
      change(bytes);
      if (!other_section.empty()) section_name = other_section;
    }
    writer.Add(section_name, std::move(bytes));
  }
  std::string path = TempFile(name);
  writer.Save(path);
  return path;
}

TEST(CompileAhead, AnotherCpuRecompilesOrRefuses) {
  SKIP_WITHOUT_LLVM();
  std::string path =
      WithNative("other_cpu.hmk", [](std::string& bytes) { bytes[bytes.find("host ") + 6] ^= 1; });
  Tensor x = ones({2, 3});
  LogCapture log;
  ModulePtr module = load_module(path, {.allow_native = true});
  EXPECT_TRUE(Contains(log.text(),
                       "its native code is not used, graphs are compiled anew: it was "
                       "made for another device or version"));
  Mlp mlp;
  EXPECT_NEAR((*module)(x).to_vector<float>()[0], mlp(x).to_vector<float>()[0], 1e-6);
  EXPECT_ERROR(load_module(path, {.allow_native = true, .require_native = true}), NotSupported,
               "its native code cannot be used: it was made for another device or version");
}

TEST(CompileAhead, DamagedCodeIsNotRun) {
  SKIP_WITHOUT_LLVM();
  std::string path = WithNative("damaged.hmk", [](std::string& bytes) { bytes.back() ^= 1; });
  auto refused = [] { return metrics::CounterValue("NativeCodeRefused").value_or(0); };
  const int64_t before = refused();
  ModulePtr module = load_module(path, {.allow_native = true});
  EXPECT_EQ(refused(), before + 1);
  Mlp mlp;
  Tensor x = ones({2, 3});
  EXPECT_NEAR((*module)(x).to_vector<float>()[0], mlp(x).to_vector<float>()[0], 1e-6);
  EXPECT_ERROR(load_module(path, {.allow_native = true, .require_native = true}), NotSupported,
               "its native code cannot be used");
}

TEST(CompileAhead, CodeForADeviceThatIsAbsentIsNotUsed) {
  SKIP_WITHOUT_LLVM();
  std::string path = WithNative(
      "absent.hmk", [](std::string&) {}, "native/absent");
  LogCapture log;
  EXPECT_NO_THROW(load_module(path, {.allow_native = true}));
  EXPECT_TRUE(Contains(log.text(), "its native code is not used"));
}

TEST(CompileAhead, ArchivesWithoutCodeAreLoaded) {
  Mlp mlp;
  mlp.trace("forward", {ones({2, 3})});
  mlp.trace("features", {ones({2, 3})});
  std::string path = TempFile("no_code.hmk");
  save_module(mlp, path);
  EXPECT_NO_THROW(load_module(path, {.allow_native = true}));
  EXPECT_ERROR(load_module(path, {.allow_native = true, .require_native = true}), NotSupported,
               "its native code cannot be used: it has none");
  EXPECT_TRUE(Contains(describe_archive(path), "parameter w1: f32[3,4]"));
  EXPECT_TRUE(Contains(describe_archive(path), "method forward(Tensor x) -> Tensor, a graph of"));
}

TEST(CompileAhead, ArchivesAreDescribed) {
  SKIP_WITHOUT_LLVM();
  std::string text = describe_archive(CompiledMlp());
  EXPECT_TRUE(Contains(text, "native code: "));
  EXPECT_TRUE(
      Contains(text, "delegate \"hammock\", compile spec {\"features\": {}, \"forward\": {}}"));
  EXPECT_TRUE(Contains(text, "method forward(Tensor x) -> Tensor, run by __loweredModule__"));
}

TEST(CompileAhead, OptionsThatAffectCodeMustBeAsTheyWere) {
  SKIP_WITHOUT_LLVM();
  config::Override other("wide_sums", "true");
  Mlp mlp;
  mlp.trace("forward", {ones({2, 3})}, {.free_dims = {{"x", 0}}});
  mlp.trace("features", {ones({2, 3})});
  std::string path = TempFile("wide_sums.hmk");
  {
    config::Override before("wide_sums", "false");
    compile_ahead(mlp, path);
  }
  EXPECT_NO_THROW(load_module(path, {.allow_native = true}));
  EXPECT_ERROR(load_module(path, {.allow_native = true, .require_native = true}), NotSupported,
               "options that affect code must be as when it was compiled");
}

TEST(CompileAhead, OpsThatAreForcedElsewhereAreRefused) {
  SKIP_WITHOUT_LLVM();
  Mlp mlp;
  mlp.trace("forward", {ones({2, 3})}, {.free_dims = {{"x", 0}}});
  mlp.trace("features", {ones({2, 3})});
  std::string path = TempFile("forced.hmk");
  compile_ahead(mlp, path);
  config::Override forced("force_fallback", "gelu");
  EXPECT_ERROR((*load_module(path))(ones({4, 3})), Error, "gelu");
}

}  // namespace
}  // namespace hammock::jit
