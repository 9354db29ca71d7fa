// Compiled steps in `cache_dir`, and how a backend that saves machine code takes part.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backends/cpu/code/llvm_compiler.h"
#include "hammock/config.h"
#include "hammock/lazy/saved_computation.h"
#include "runtime/cache/saved_step.h"
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

/// Loading needs no compilation.
class SavingBackend : public HostBackend {
 public:
  SavingBackend() : HostBackend("saving") {}
  std::string Fingerprint(const lazy::BackendDevice&) const override {
    return claims.empty() ? "saving " + std::to_string(version) : claims;
  }
  lazy::Compatibility CheckCompatibility(std::string_view bytes,
                                         const lazy::BackendDevice&) const override {
    return lazy::SavedComputation::FingerprintOf(bytes) == "saving " + std::to_string(version)
               ? lazy::Compatibility::kOptimal
               : lazy::Compatibility::kRecompile;
  }
  lazy::ComputationPtr DeserializeComputation(std::string_view bytes,
                                              const lazy::BackendDevice& device) const override {
    ++loaded;
    lazy::ComputationPtr computation = lazy::SavedComputation::Parse(bytes).ToComputation(device);
    computation->artifact = std::make_shared<reference::Program>(computation->graph());
    EXPECT_GT(config::Get<kUnroll>(), 0);
    return computation;
  }
  int version = 1;
  std::string claims;
  mutable std::atomic<int> loaded{0};
};

class SavedStep : public Runtime {
 protected:
  void SetUp() override {
    Runtime::SetUp();
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = ::testing::TempDir() + "/hammock_cache_" + test->name();
    fs::remove_all(dir_);
    config::Set("cache_dir", dir_ + "/deep");
  }
  void TearDown() override {
    WaitForSavedSteps();
    config::Set("cache_dir", "");
    fs::remove_all(dir_);
    Runtime::TearDown();
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(dir_ + "/deep")) files.push_back(entry.path());
    return files;
  }
  static void Forget() {
    WaitForSavedSteps();
    Lazy().ClearComputationCache();
  }
  /// As a new process would: nothing is in memory.
  std::vector<float> RunAnew() {
    Forget();
    return (exp(tensor(std::vector<float>{0, 0}, {2}, f32, "saving")) + 1.0f).to_vector<float>();
  }

  std::string dir_;
};

TEST_F(SavedStep, ServesWhatWasCompiledBefore) {
  SavingBackend backend;
  Registered registered(backend);
  int64_t hits = CounterOf("DiskCacheHits"), writes = CounterOf("DiskCacheWrites");
  std::vector<float> expected = {2, 2};
  EXPECT_EQ(RunAnew(), expected);
  EXPECT_EQ(backend.compiled, 1);
  WaitForSavedSteps();
  EXPECT_EQ(CounterOf("DiskCacheWrites"), writes + 1);
  ASSERT_EQ(Files().size(), 1u) << "no part is left behind";
  EXPECT_EQ(RunAnew(), expected);
  EXPECT_EQ(backend.compiled, 1);
  EXPECT_EQ(backend.loaded, 1);
  EXPECT_EQ(CounterOf("DiskCacheHits"), hits + 1);
}

TEST_F(SavedStep, AnotherVersionIsCompiledAnew) {
  SavingBackend backend;
  Registered registered(backend);
  RunAnew();
  backend.version = 2;
  RunAnew();
  EXPECT_EQ(backend.compiled, 2);
  EXPECT_EQ(backend.loaded, 0);
}

TEST_F(SavedStep, AnotherValueOfAnOptionThatAffectsCodeIsCompiledAnew) {
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

TEST_F(SavedStep, DamagedFilesAreAsGoodAsNone) {
  SavingBackend backend;
  Registered registered(backend);
  RunAnew();
  WaitForSavedSteps();
  fs::path file = Files().at(0);
  std::string bytes;
  std::getline(std::ifstream(file, std::ios::binary), bytes, '\0');
  for (const std::string& damaged : {std::string(), std::string("x"), bytes.substr(0, 40)}) {
    WaitForSavedSteps();
    std::ofstream(file, std::ios::binary) << damaged;
    int compiled = backend.compiled;
    const int64_t refused = CounterOf("DiskCacheRefused");
    EXPECT_EQ(RunAnew(), (std::vector<float>{2, 2}));
    EXPECT_GT(CounterOf("DiskCacheRefused"), refused);
    EXPECT_EQ(backend.compiled, compiled + 1);
  }
  EXPECT_EQ(backend.loaded, 0);
  RunAnew();
  EXPECT_EQ(backend.loaded, 1) << "it was written again";
}

TEST_F(SavedStep, ADirectoryThatCannotBeWrittenIsNoError) {
  SavingBackend backend;
  Registered registered(backend);
  fs::create_directories(dir_);
  std::ofstream(dir_ + "/file") << "no directory";
  config::Override file("cache_dir", dir_ + "/file");
  config::Override quiet("log_level", "error");
  EXPECT_EQ(RunAnew(), (std::vector<float>{2, 2}));
}

TEST_F(SavedStep, ErrorsOfLoadedComputationsNameTheirOp) {
  auto run = [] {
    Forget();
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
      EXPECT_NE(std::string(error.what()).find("saved_step_test.cpp"), std::string::npos);
    }
  }
  EXPECT_GT(CounterOf("DiskCacheHits"), 0);
}

// A failure is noted at the op that failed, also when its graph came from a file.
TEST_F(SavedStep, OtherValuesOfALoadedStepNeverSeeAnError) {
  for (int i = 0; i < 2; ++i) {
    Forget();
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

/// Without a compiler the CPU device has nothing to save.
std::string OnDevice() { return cpu::LlvmCompiler::WhyAbsent().empty() ? "cpu" : "reference"; }

/// Compilations, and what comes before them.
struct Work {
  int64_t misses = CounterOf("UncachedCompile");
  int64_t lowered = metrics::GetMetric("LowerTime", metrics::Kind::kTime).Data().samples;
  int64_t scheduled = CounterOf("cpu::SizesScheduled");
  bool operator==(const Work&) const = default;
};

TEST_F(SavedStep, NothingIsLoweredOrCompiledAgain) {
  auto run = [] {
    Tensor x = tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}, f32, OnDevice());
    Tensor weight = ones({3, 3}, f32, OnDevice()) * 0.5f;
    return matmul(softmax(x, 1), weight).to_vector<float>();
  };
  std::vector<float> expected = run();
  Forget();
  const Work before;
  const int64_t hits = CounterOf("DiskCacheHits");
  EXPECT_EQ(run(), expected);
  EXPECT_EQ(Work(), before);
  EXPECT_EQ(CounterOf("DiskCacheHits"), hits + 1);
}

TEST_F(SavedStep, LoadedStepsAreNotForbidden) {
  auto run = [] { return (ones({5}, f32, OnDevice()) * 3.0f).to_vector<float>(); };
  run();
  Forget();
  ExpectNoRecompile guard("a test");
  EXPECT_EQ(run(), std::vector<float>(5, 3));
}

TEST_F(SavedStep, OneGeneralStepServesAllSizes) {
  auto run = [](int64_t n) {
    Tensor x = arange(n * 4, f32, OnDevice()).reshape({n, 4});
    return (softmax(x, 1) * 2.0f + x.sum(0)).to_vector<float>();
  };
  std::vector<std::vector<float>> expected;
  const std::vector<int64_t> sizes = {9, 12, 14, 20, 37};
  for (int64_t n : sizes) expected.push_back(run(n));
  Forget();
  const Work before;
  const int64_t hits = CounterOf("DiskCacheHits");
  for (size_t i = sizes.size(); i-- > 1;) EXPECT_EQ(run(sizes[i]), expected[i]);
  EXPECT_EQ(run(16), [&] {
    config::Override none("cache_dir", "");
    config::Override off("generalise", "false");
    Lazy().ClearComputationCache();
    return run(16);
  }()) << "sizes that the other process did not have";
  EXPECT_EQ(CounterOf("DiskCacheHits"), hits + 1);
  EXPECT_EQ(Work().lowered, before.lowered + 1) << "without the cache";
}

TEST_F(SavedStep, ALoadedGeneralStepIsWidened) {
  auto run = [](int64_t n) {
    return (arange(n, f32, OnDevice()) * 2.0f + 1.0f).to_vector<float>();
  };
  run(9);
  run(12);
  Forget();
  const int64_t misses = CounterOf("UncachedCompile");
  for (int64_t n : {1000000, 70, 3}) EXPECT_EQ(run(n).size(), static_cast<size_t>(n));
  EXPECT_EQ(CounterOf("UncachedCompile"), misses) << "sizes far from the saved ones";
}

TEST_F(SavedStep, PartsOnTheFallbackDeviceAreSavedToo) {
  if (OnDevice() == "reference") GTEST_SKIP() << "it is the fallback device";
  config::Override force("force_fallback", "exp");
  auto run = [] {
    Tensor x = ones({4}, f32, OnDevice());
    return (exp(x * 2.0f) + 1.0f).to_vector<float>();
  };
  std::vector<float> expected = run();
  Forget();
  const Work before;
  EXPECT_EQ(run(), expected);
  EXPECT_EQ(Work(), before);
}

TEST_F(SavedStep, LinesAreThoseOfThisProgram) {
  auto lookup = [](Tensor x, Tensor i, Location at) { return index_select(x, 0, i, at); };
  auto line_of = [&](Location at) -> std::string {
    try {
      lookup(tensor(std::vector<float>{1, 2, 3}, {3}, f32, OnDevice()),
             tensor(std::vector<int64_t>{7}, {1}, i64, OnDevice()), at)
          .host();
    } catch (const Error& error) {
      return error.where();
    }
    return "no error";
  };
  const Location first = Location::current();
  const Location second = Location::current();
  std::string here = line_of(first);
  Forget();
  const int64_t hits = CounterOf("DiskCacheHits");
  std::string moved = line_of(second);
  EXPECT_EQ(CounterOf("DiskCacheHits"), hits + 1);
  EXPECT_NE(here, moved) << "the lines at which the two programs call it";
  EXPECT_NE(moved.find(std::to_string(second.line())), std::string::npos) << moved;
}

TEST_F(SavedStep, ErrorsNameTheOpThatFailedNotItsUsers) {
  auto where = []() -> std::string {
    try {
      Tensor x = arange(12, f32, OnDevice()).reshape({3, 4});
      Tensor rows = index_select(x, 0, tensor(std::vector<int64_t>{1, 7}, {2}, i64, OnDevice()));
      Tensor used = exp(rows) * 2.0f;
      used.host();
    } catch (const Error& error) {
      return error.where();
    }
    return "no error";
  };
  const std::string cold = where();
  Forget();
  const int64_t hits = CounterOf("DiskCacheHits");
  EXPECT_EQ(where(), cold);
  EXPECT_GT(CounterOf("DiskCacheHits"), hits);
}

TEST_F(SavedStep, GraphsOfOneFormMayFollowSeveralRules) {
  auto run = [](int64_t n, int64_t m) {
    Tensor x = arange(n * m, f32, OnDevice()).reshape({n, m});
    return (softmax(x, 1) + 1.0f).to_vector<float>();
  };
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{4, 16}, {6, 16}, {4, 20}, {3, 24}};
  std::vector<std::vector<float>> expected;
  for (auto [n, m] : sizes) expected.push_back(run(n, m));
  for (int process = 0; process < 2; ++process) {
    Forget();
    const int64_t misses = CounterOf("UncachedCompile");
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(run(sizes[i].first, sizes[i].second), expected[i]);
    }
    EXPECT_EQ(CounterOf("UncachedCompile"), misses);
  }
}

TEST_F(SavedStep, BytesOfAnotherDeviceAreCountedAndCompiledAnew) {
  SavingBackend backend;
  Registered registered(backend);
  RunAnew();
  WaitForSavedSteps();
  // The key of the file says one version, its computation another.
  const int64_t refused = CounterOf("DiskCacheRefused");
  backend.claims = "saving 1";
  backend.version = 2;
  RunAnew();
  EXPECT_EQ(CounterOf("DiskCacheRefused"), refused + 1);
  EXPECT_EQ(backend.compiled, 2);
}

}  // namespace
}  // namespace hammock
