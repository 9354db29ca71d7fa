#include "backends/cpu/code/code_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/cpu/code/host_cpu.h"
#include "backends/cpu/compiled.h"
#include "base/file_cache.h"
#include "base/log.h"
#include "hammock/config.h"

namespace hammock::cpu {
namespace {

namespace fs = std::filesystem;

class CodeCache : public Compiled {
 protected:
  void SetUp() override {
    Compiled::SetUp();
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = ::testing::TempDir() + "/hammock_code_" + test->name();
    fs::remove_all(dir_);
    config::Set("cache_dir", dir_);
  }
  void TearDown() override {
    config::Set("cache_dir", "");
    if (!dir_.empty()) fs::remove_all(dir_);
  }

  std::shared_ptr<const LoadedCode> Get(const char* ir, const CompileOptions& options = {}) {
    return GetCode(
        ir,
        [&] {
          ++emitted_;
          return std::string(ir);
        },
        options);
  }
  static void ExpectRuns(const LoadedCode& code) {
    std::vector<float> x(16, 1.0f);
    EXPECT_EQ(code.Function<float(float*, int64_t)>("sum")(x.data(), 16), 16.0f);
  }

  std::string dir_;
  int emitted_ = 0;
};

TEST_F(CodeCache, CompilesOnceAndShares) {
  auto first = Get(kSum);
  auto second = Get(kSum);
  EXPECT_EQ(first, second);
  EXPECT_EQ(emitted_, 1);
  ExpectRuns(*first);
  EXPECT_NE(Get(kAdd), first);
  EXPECT_EQ(emitted_, 2);
}

TEST_F(CodeCache, OptionsArePartOfTheKey) {
  auto usual = Get(kSum);
  auto quick = Get(kSum, {.effort = Effort::kQuick});
  auto old = Get(kSum, {.cpu = "x86-64"});
  EXPECT_EQ(emitted_, 3);
  EXPECT_NE(usual, quick);
  EXPECT_NE(usual, old);
  EXPECT_CONTAINS(CodeKey("graph", {}), HostCpuKey());
  EXPECT_CONTAINS(CodeKey("graph", {}), " llvm 19.");
}

TEST_F(CodeCache, LoadsFromDiskWithoutLlvm) {
  ExpectRuns(*Get(kSum));
  config::Override nowhere("cpu.llvm_plugin", "/nowhere");
  ExpectRuns(*Get(kSum));
  EXPECT_EQ(emitted_, 1);
  EXPECT_THROW(Get(kAdd), NotSupported);
}

TEST_F(CodeCache, DamagedEntriesAreCompiledAgain) {
  ExpectRuns(*Get(kSum));
  fs::path file = fs::path(dir_) / FileCache::FileName("cpu-code", CodeKey(kSum, {}));
  ASSERT_TRUE(fs::exists(file));
  fs::resize_file(file, fs::file_size(file) - 1);
  LogCapture log;
  ExpectRuns(*Get(kSum));
  EXPECT_EQ(emitted_, 2);
  EXPECT_CONTAINS(log.text(), "damaged; ignored");
  ExpectRuns(*Get(kSum));
  EXPECT_EQ(emitted_, 2) << "it was written again";
}

TEST_F(CodeCache, AnEntryThatIsNoCodeIsCompiledAgain) {
  FileCache(dir_).Save("cpu-code", CodeKey(kSum, {}), "no code", 1 << 20);
  LogCapture log;
  ExpectRuns(*Get(kSum));
  EXPECT_EQ(emitted_, 1);
  EXPECT_CONTAINS(log.text(), "saved machine code is damaged");
}

TEST_F(CodeCache, WorksWithoutADirectory) {
  config::Override none("cache_dir", "");
  ExpectRuns(*Get(kSum));
  ExpectRuns(*Get(kSum));
  EXPECT_EQ(emitted_, 2) << "nobody held it";
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(CodeCache, FailuresAreNotKept) {
  EXPECT_THROW(Get("nonsense"), CompileError);
  EXPECT_THROW(Get("nonsense"), CompileError);
  EXPECT_EQ(emitted_, 2);
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(CodeCache, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 20; ++i) {
        std::string ir = fmt::format("define i32 @f() {{ ret i32 {} }}", (t + i) % 5);
        auto code = GetCode(ir, [&] { return ir; });
        EXPECT_EQ(code->Function<int()>("f")(), (t + i) % 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hammock::cpu
