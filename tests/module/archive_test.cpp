#include "module/archive.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "hammock/hammock.h"
#include "hammock/module.h"
#include "ir/expect_error.h"
#include "ir/node_access.h"
#include "module/module_io.h"

extern char** environ;

namespace hammock {
namespace {

using Floats = std::vector<float>;

std::string Folder() {
  std::string path = ::testing::TempDir() + "archive_test_" + std::to_string(getpid());
  std::filesystem::create_directories(path);
  return path;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

ModulePtr Sample() {
  auto inner = std::make_shared<Module>("Inner");
  inner->register_parameter("weight", tensor({{1.0, 2.0}, {3.0, 4.0}}));
  inner->define("forward(Tensor x) -> Tensor", [](Module& self, const std::vector<Any>& args) {
    return Any(matmul(args[0].ToTensor(), self.get_tensor("weight")));
  });
  auto module = std::make_shared<Module>("Sample");
  module->register_module("inner", inner);
  module->register_module("again", inner);
  module->register_buffer("steps", tensor({7}));
  module->set_attribute("notes", AnyDict{{"a", AnyList{1, 2.5, "x", Any()}},
                                         {"t", Any::Tuple({true, DType::kF16})},
                                         {"w", Any(tensor({9.0}))}});
  Tensor table = tensor({{10.0, 20.0}});
  module->define("forward(Tensor x, int k=3) -> (Tensor, Tensor)",
                 [table](Module& self, const std::vector<Any>& args) {
                   Tensor y = self.get_submodule("inner")->operator()(args[0].ToTensor());
                   return Any::Tuple({y + table, y * double(args[1].ToInt())});
                 });
  inner->trace("forward", {ones({1, 2})});
  module->trace("forward", {ones({1, 2})});
  return module;
}

TEST(Archive, KeepsModulesWhole) {
  std::string path = Folder() + "/whole.hmk";
  ModulePtr module = Sample();
  module->eval();
  save_module(*module, path);
  ModulePtr again = load_module(path);
  EXPECT_EQ(again->class_name(), "Sample");
  EXPECT_FALSE(again->is_training());
  const AnyDict& notes = again->attribute("notes").ToDict();
  EXPECT_EQ(notes.at("a").to_string(), "[1, 2.5, \"x\", none]");
  EXPECT_EQ(notes.at("t").to_string(), "(true, f16)");
  EXPECT_EQ(notes.at("w").ToTensor().to_vector<float>(), Floats{9});
  EXPECT_EQ(again->get_submodule("inner"), again->get_submodule("again")) << "shared as before";
  EXPECT_EQ(again->get_tensor("inner.weight").to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_TRUE(again->get_tensor("inner.weight").requires_grad());
  EXPECT_EQ(again->get_tensor("steps").item<int64_t>(), 7);
  Any result = again->run_method("forward", {ones({1, 2})});
  EXPECT_EQ(result.ToList()[0].ToTensor().to_vector<float>(), (Floats{14, 26}));
  EXPECT_EQ(result.ToList()[1].ToTensor().to_vector<float>(), (Floats{12, 18}));
  EXPECT_EQ(again->method("forward").schema.to_string(),
            module->method("forward").schema.to_string());
}

TEST(Archive, IsWrittenBehindLinksAndNotOverPipes) {
  std::string folder = Folder() + "/links";
  std::filesystem::create_directories(folder + "/data");
  std::filesystem::create_symlink("data/net.hmk", folder + "/link.hmk");
  for (int i = 0; i < 2; ++i) save_module(*Sample(), folder + "/link.hmk");  // new, then there
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link.hmk"));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder + "/data/net.hmk"));
  EXPECT_EQ(load_module(folder + "/link.hmk")->class_name(), "Sample");
  std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_ERROR(save_module(*Sample(), pipe), ValueError, "pipe': it is no plain file");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::filesystem::create_symlink("loop", folder + "/loop");
  EXPECT_ERROR(save_module(*Sample(), folder + "/loop"), ValueError, "levels of symbolic links");
  std::filesystem::remove_all(folder);
}

TEST(Archive, LoadsToADeviceAndSavesAgainWithTheSameBytes) {
  std::string path = Folder() + "/first.hmk";
  save_module(*Sample(), path);
  ModulePtr again = load_module(path, {.device = Device("reference")});
  EXPECT_EQ(again->get_tensor("steps").device(), Device("reference"));
  save_module(*again, path + "2");
  EXPECT_EQ(ReadBytes(path), ReadBytes(path + "2"));
}

TEST(Archive, MapsWeights) {
  std::string path = Folder() + "/map.hmk";
  Module module("Big");
  module.register_parameter("w", ones({1 << 20}));
  save_module(module, path);
  auto archive = Archive::Open(path);
  const Archive::Section* data = archive->Find("data/0");
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data->bytes.data()) % 64, 0u);
  ModulePtr again = ReadModule(archive, Device("reference"));
  Value w = again->get_tensor("w").value();
  const LeafPayload* leaf = NodeAccess::payload(w.node.get());
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->host.data(), data->bytes.data()) << "not copied";
  w = {};
  std::filesystem::remove(path);
  archive.reset();
  EXPECT_EQ(again->get_tensor("w").sum().item<float>(), 1 << 20) << "lives as long as its users";
}

TEST(Archive, RefusesCodeAndUnknownObjects) {
  Module module("Code");
  module.define("forward(Tensor x) -> Tensor",
                [](Module&, const std::vector<Any>& args) { return args[0]; });
  EXPECT_ERROR(save_module(module, Folder() + "/x.hmk"), ValueError,
               "method 'forward' of Code is C++ code, which no archive can hold; trace it first");
}

TEST(Archive, SaysWhatIsWrongWithAFile) {
  std::string path = Folder() + "/bad.hmk";
  EXPECT_ERROR(load_module(path), ValueError, "cannot read '" + path);
  WriteBytes(path, "something else");
  EXPECT_ERROR(load_module(path), ValueError, "it is no archive of Hammock");
  save_module(*Sample(), path);
  const std::string good = ReadBytes(path);
  auto with = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return Archive("it", bytes, nullptr).what();
  };
  EXPECT_ERROR(with(8, 2), ValueError, "it has version 2.0, this library reads 1.0 to 1.0");
  EXPECT_ERROR(with(12, 1), ValueError, "it has version 1.1, this library reads 1.0 to 1.0");
  EXPECT_ERROR(with(70, 'x'), ValueError, "damaged: the checksum of section 'module'");
  EXPECT_ERROR(with(good.size() - 3, 'x'), ValueError, "damaged: the checksum of its table");
  EXPECT_ERROR(Archive("it", good.substr(0, good.size() - 1), nullptr), ValueError, "damaged");
}

TEST(Archive, NoDamageIsAcceptedOrCrashes) {
  std::string path = Folder() + "/fuzz.hmk";
  save_module(*Sample(), path);
  const std::string good = ReadBytes(path);
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    if (bytes == good) continue;
    try {
      auto archive = std::make_shared<const Archive>("it", bytes, nullptr);
      ReadModule(archive, Device("reference"));
      // Only bytes between sections are not covered by a checksum.
      EXPECT_EQ(archive->Get("module"), Archive("it", good, nullptr).Get("module"));
    } catch (const ValueError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kParse) << error.what();
    }
  }
}

/// The sections of a good archive with one of them changed, and right checksums.
TEST(Archive, SectionsWithRightChecksumsAreStillNotTrusted) {
  std::string path = Folder() + "/trust.hmk";
  save_module(*Sample(), path);
  const std::string good = ReadBytes(path);
  Archive original("it", good, nullptr);
  std::mt19937 random(5);
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    ArchiveWriter writer;
    for (const Archive::Section& section : original.sections()) {
      std::string bytes(section.bytes);
      if (!section.name.starts_with("data/") && !bytes.empty() && random() % 2) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      writer.Add(section.name, std::move(bytes));
    }
    std::string bytes = writer.Bytes();
    try {
      ReadModule(std::make_shared<const Archive>("it", bytes, nullptr), Device("reference"));
      ++read;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    }
  }
  EXPECT_LT(read, 3000);
}

TEST(Archive, ASaveThatIsKilledLeavesTheOldFileOrTheNewOne) {
  std::string path = Folder() + "/killed.hmk";
  for (int round = 0; round < 12; ++round) {
    std::string program = HAMMOCK_SAVE_CHILD;
    char* const args[] = {program.data(), path.data(), nullptr};
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, args, environ), 0);
    for (int waited = 0; !std::filesystem::exists(path) && waited < 20000; ++waited) usleep(1000);
    usleep(static_cast<useconds_t>(1000 + 7919 * round % 60000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::vector<float> values = load_module(path)->get_tensor("w").to_vector<float>();
    for (float value : values) ASSERT_EQ(value, values[0]);
  }
}

}  // namespace
}  // namespace hammock
