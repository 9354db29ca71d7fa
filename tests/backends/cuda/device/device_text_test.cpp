#include "backends/cuda/device/device_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/transpose_args.h"
#include "backends/cuda/driver/nvrtc.h"
#include "backends/cuda/emulated.h"

namespace hammock::cuda {
namespace {

size_t CountOf(std::string_view part, std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

TEST(DeviceText, HasIncludedFilesOnce) {
  std::string text = DeviceText("transpose.cuh");
  EXPECT_EQ(CountOf("struct Strided", text), 1u);
  EXPECT_LT(text.find("struct Strided"), text.find("struct TransposeArgs"));
  EXPECT_EQ(CountOf("#include", text), 0u);
  EXPECT_EQ(CountOf("#pragma once", text), 0u);
}

TEST(DeviceText, LeavesOutThePrelude) {
  for (const auto& [file, text] : DeviceFiles()) {
    if (file == "prelude.cuh") continue;
    EXPECT_EQ(CountOf("void load_wide(", DeviceText(file)), 0u) << file;
  }
  EXPECT_EQ(CountOf("void load_wide(", Prelude()), 1u);
}

TEST(DeviceText, OfAllFilesCompiles) {
  if (!WhyNoNvrtc().empty()) GTEST_SKIP() << WhyNoNvrtc();
  std::string text = Prelude();
  for (const auto& [file, unused] : DeviceFiles()) {
    if (file == "prelude.cuh" || file == "emulation.cuh") continue;
    text += "namespace file_" + std::string(file.substr(0, file.find('.'))) + " {\n" +
            DeviceText(file) + "}\n";
  }
  EXPECT_NO_THROW(CompileByNvrtc(text, 90));
}

/// A struct that differs between host and device does not compile.
TEST(DeviceKernel, ChecksTheSizeOfItsArguments) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  auto run = [](size_t bytes) {
    std::shared_ptr<Machine> machine = MakeEmulatedMachine("g++");
    const KernelSource source = SourceOf(
        {.file = "transpose.cuh", .function = "transpose<float, 1>", .argument_bytes = bytes});
    float from = 3, to = 0;
    std::vector<uint64_t> words = WordsOf(TransposeDimArgs<float, 1>{{.from = &from,
                                                                      .to = &to,
                                                                      .read_size = 1,
                                                                      .written_size = 1,
                                                                      .written_stride = 1,
                                                                      .read_stride = 1},
                                                                     {{1}, {0}},
                                                                     {{1}, {0}}});
    machine->Launch(*machine->Load(std::span(&source, 1))[0], {.block_x = 256}, words);
    return to;
  };
  EXPECT_EQ(run(sizeof(TransposeDimArgs<float, 1>)), 3);
  EXPECT_THROW(run(sizeof(TransposeArgs<float>)), CompileError);
}

}  // namespace
}  // namespace hammock::cuda
