// Compiled computations in `cache_dir`, and how a backend that saves machine code takes part.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hammock/config.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;
namespace fs = std::filesystem;

constinit config::Option<int64_t> kUnroll({
    .name = "saving.unroll",
    .default_value = 4,
    .doc = "Iterations of a loop.",
    .affects_code = true,
});

/// Saves more than its graph, so that loading needs no compilation.
class SavingBackend : public HostBackend {
 public:
  SavingBackend() : HostBackend("saving") {}
  std::string Fingerprint(const lazy::BackendDevice&) const override {
    return "saving " + std::to_string(version);
  }
  lazy::ComputationPtr DeserializeComputation(std::string_view bytes,
                                              const lazy::BackendDevice& device) const override {
    ++loaded;
    size_t graph = bytes.find(':') + 1 + Fingerprint(device).size();
    auto computation = std::make_shared<lazy::Computation>(
        "loaded", DeserializeGraph(bytes.substr(graph)), device);
    computation->artifact = std::make_shared<reference::Program>(computation->graph());
    EXPECT_GT(config::Get<kUnroll>(), 0);
    return computation;
  }
  int version = 1;
  mutable std::atomic<int> loaded{0};
};

class DiskCache : public Runtime {
 protected:
  void SetUp() override {
    Runtime::SetUp();
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = ::testing::TempDir() + "/hammock_cache_" + test->name();
    fs::remove_all(dir_);
    config::Set("cache_dir", dir_ + "/deep");
  }
  void TearDown() override {
    config::Set("cache_dir", "");
    fs::remove_all(dir_);
    Runtime::TearDown();
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(dir_ + "/deep")) files.push_back(entry.path());
    return files;
  }
  /// As a new process would: nothing is in memory.
  std::vector<float> RunAnew() {
    Lazy().ClearComputationCache();
    return (exp(tensor(std::vector<float>{0, 0}, {2}, f32, "saving")) + 1.0f).to_vector<float>();
  }

  std::string dir_;
};

TEST_F(DiskCache, ServesWhatWasCompiledBefore) {
  SavingBackend backend;
  Registered registered(backend);
  int64_t hits = CounterOf("DiskCacheHits"), writes = CounterOf("DiskCacheWrites");
  std::vector<float> expected = {2, 2};
  EXPECT_EQ(RunAnew(), expected);
  EXPECT_EQ(backend.compiled, 1);
  EXPECT_EQ(CounterOf("DiskCacheWrites"), writes + 1);
  ASSERT_EQ(Files().size(), 1u) << "no part is left behind";
  EXPECT_EQ(RunAnew(), expected);
  EXPECT_EQ(backend.compiled, 1);
  EXPECT_EQ(backend.loaded, 1);
  EXPECT_EQ(CounterOf("DiskCacheHits"), hits + 1);
}

TEST_F(DiskCache, AnotherVersionIsCompiledAnew) {
  SavingBackend backend;
  Registered registered(backend);
  RunAnew();
  backend.version = 2;
  RunAnew();
  EXPECT_EQ(backend.compiled, 2);
  EXPECT_EQ(backend.loaded, 0);
}

TEST_F(DiskCache, AnotherValueOfAnOptionThatAffectsCodeIsCompiledAnew) {
  SavingBackend backend;
  Registered registered(backend);
  RunAnew();
  {
    config::Override other("saving.unroll", "8");
    RunAnew();
    EXPECT_EQ(backend.compiled, 2);
    RunAnew();
    EXPECT_EQ(backend.compiled, 2);
    EXPECT_EQ(backend.loaded, 1);
  }
  RunAnew();
  EXPECT_EQ(backend.compiled, 2);
  EXPECT_EQ(backend.loaded, 2);
  std::ifstream file(Files().at(0), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(bytes.find("\nsaving.unroll="), std::string::npos) << "by its name";
}

TEST_F(DiskCache, DamagedFilesAreAsGoodAsNone) {
  SavingBackend backend;
  Registered registered(backend);
  RunAnew();
  fs::path file = Files().at(0);
  std::string bytes;
  std::getline(std::ifstream(file, std::ios::binary), bytes, '\0');
  for (const std::string& damaged : {std::string(), std::string("x"), bytes.substr(0, 40)}) {
    std::ofstream(file, std::ios::binary) << damaged;
    int compiled = backend.compiled;
    EXPECT_EQ(RunAnew(), (std::vector<float>{2, 2}));
    EXPECT_EQ(backend.compiled, compiled + 1);
  }
  EXPECT_EQ(backend.loaded, 0);
  RunAnew();
  EXPECT_EQ(backend.loaded, 1) << "it was written again";
}

TEST_F(DiskCache, ADirectoryThatCannotBeWrittenIsNoError) {
  SavingBackend backend;
  Registered registered(backend);
  fs::create_directories(dir_);
  std::ofstream(dir_ + "/file") << "no directory";
  config::Override file("cache_dir", dir_ + "/file");
  config::Override quiet("log_level", "error");
  EXPECT_EQ(RunAnew(), (std::vector<float>{2, 2}));
}

TEST_F(DiskCache, ErrorsOfLoadedComputationsNameTheirOp) {
  auto run = [] {
    Lazy().ClearComputationCache();
    Tensor x = OnHost({1, 2, 3});
    Tensor good = exp(x);
    Tensor bad = index_select(x, 0, Indices({7}));
    mark_step(true);
    return std::pair(good, bad);
  };
  for (int i = 0; i < 2; ++i) {
    Tensor good, bad;
    try {
      std::tie(good, bad) = run();
      FAIL() << "an index is wrong";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIndexOutOfRange);
      EXPECT_NE(std::string(error.what()).find("disk_cache_test.cpp"), std::string::npos);
    }
  }
  EXPECT_GT(CounterOf("DiskCacheHits"), 0);
}

// A failure is noted at the op that failed, also when its graph came from a file.
TEST_F(DiskCache, OtherValuesOfALoadedStepNeverSeeAnError) {
  for (int i = 0; i < 2; ++i) {
    Lazy().ClearComputationCache();
    Tensor x = OnHost({1, 2, 3});
    Tensor good = x * 2.0f;
    Tensor bad = index_select(x, 0, Indices({7}));
    EXPECT_CODE(sync_multi({good, bad}), ErrorCode::kIndexOutOfRange);
    EXPECT_TENSOR_EQ(good, {2, 4, 6}, {3});
    int64_t failed = CounterOf("FailedSteps");
    EXPECT_CODE(bad.host(), ErrorCode::kIndexOutOfRange);
    EXPECT_EQ(CounterOf("FailedSteps"), failed) << "it is not run again";
  }
}

}  // namespace
}  // namespace hammock
