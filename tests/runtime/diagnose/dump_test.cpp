#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "hammock/hammock.h"
#include "hammock/ir/graph.h"
#include "support/tensor_matchers.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

LazyGraphExecutor* executor() { return LazyGraphExecutor::Get(); }

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Tensor Three(const Device& device = "reference") {
  return tensor({1.0, 2.0, 3.0}, std::nullopt, device);
}

TEST(DumpTensors, PrintsThePendingGraphWithLines) {
  Tensor x = Three();
  Tensor y = exp(x * x);
  std::string text = executor()->DumpTensors(std::span(&y, 1));
  EXPECT_TRUE(Contains(text, "%0 = input : f32[3]")) << text;
  EXPECT_TRUE(Contains(text, "%1 = mul %0, %0 : f32[3]")) << text;
  EXPECT_TRUE(Contains(text, "@ dump_test.cpp:")) << text;
  EXPECT_TRUE(y.is_pending());
  Graph graph = ParseGraph(text);
  EXPECT_EQ(graph.size(), 3);
}

TEST(DumpTensors, HasADotAndABackendForm) {
  Tensor x = Three();
  Tensor y = exp(x + x);
  EXPECT_TRUE(Contains(executor()->DumpTensors(std::span(&y, 1), "dot"), "digraph"));
  int64_t entries = executor()->GetCacheStats().entries;
  std::string backend = executor()->DumpTensors(std::span(&y, 1), "backend");
  EXPECT_TRUE(Contains(backend, "exp")) << backend;
  EXPECT_EQ(executor()->GetCacheStats().entries, entries) << "a dump must not fill the cache";
  EXPECT_TRUE(y.is_pending());
}

TEST(DumpTensors, NamesTheSegmentsOfAFallback) {
  config::Override forced("force_fallback", "exp");
  Tensor x = Three("null");
  Tensor y = exp(x + x);
  std::string backend = executor()->DumpTensors(std::span(&y, 1), "backend");
  EXPECT_TRUE(Contains(backend, "# segment 2 of 2, on reference:0")) << backend;
}

TEST(DumpTensors, SaysThatNothingIsPending) {
  Tensor x = Three();
  EXPECT_EQ(executor()->DumpTensors(std::span(&x, 1), "backend"), "# nothing to compute\n");
}

TEST(DumpTensors, RefusesUnknownFormats) {
  Tensor x = Three();
  EXPECT_THROW_MESSAGE(executor()->DumpTensors(std::span(&x, 1), "html"), ValueError,
                       "unknown format 'html', valid ones are text, dot, backend");
}

TEST(DumpTensors, RefusesUndefinedAndSymbolicTensors) {
  Tensor none;
  EXPECT_THROW_MESSAGE(executor()->DumpTensors(std::span(&none, 1)), ValueError, "undefined");
  EXPECT_THROW_MESSAGE(executor()->GetGraphHash(std::span(&none, 1)), ValueError, "undefined");
  EXPECT_THROW_MESSAGE(executor()->GetTensorId(none), ValueError, "undefined");
  Tensor symbolic = SymbolicTensor(Shape(DType::kF32, {2}));
  EXPECT_THROW_MESSAGE(executor()->DumpTensors(std::span(&symbolic, 1)), ValueError, "symbolic");
}

TEST(DumpTensors, RefusesSeveralDevices) {
  const Tensor both[] = {Three("reference") + 1.0, Three("null") + 1.0};
  EXPECT_THROW_MESSAGE(executor()->DumpTensors(both), ValueError, "reference:0 and null:0");
  EXPECT_THROW_MESSAGE(executor()->GetGraphHash(both), ValueError, "reference:0 and null:0");
}

TEST(GetGraphHash, IsTheHashOfTheCachedEntry) {
  Tensor x = Three();
  Tensor y = x * 3.0 - x;
  Hash128 hash = executor()->GetGraphHash(std::span(&y, 1));
  executor()->ClearComputationCache();
  EXPECT_FALSE(executor()->IsCached(hash));
  y.host();
  EXPECT_TRUE(executor()->IsCached(hash));
  EXPECT_EQ(executor()->GetLatestHash(), hash);
  EXPECT_TRUE(Contains(executor()->GetCachedText(hash), "sub"));
  EXPECT_TRUE(Contains(executor()->GetCachedText(hash, "dot"), "digraph"));
  EXPECT_TRUE(Contains(executor()->GetCachedText(hash, "backend"), "sub"));
  EXPECT_TRUE(executor()->RemoveFromComputationCache(hash));
  EXPECT_FALSE(executor()->RemoveFromComputationCache(hash));
  EXPECT_FALSE(executor()->IsCached(hash));
  EXPECT_THROW_MESSAGE(executor()->GetCachedText(hash), ValueError, ToString(hash));
}

TEST(GetTensorId, IsTheTensorsOwn) {
  Tensor x = Three(), y = Three();
  EXPECT_EQ(executor()->GetTensorId(x), executor()->GetTensorId(Tensor(x)));
  EXPECT_NE(executor()->GetTensorId(x), executor()->GetTensorId(y));
}

// ---- save_tensors_file

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class SaveTensors : public ::testing::Test {
 protected:
  std::string path = (std::filesystem::path(::testing::TempDir()) /
                      (std::string("hammock_saved_") +
                       ::testing::UnitTest::GetInstance()->current_test_info()->name()))
                         .string();
  void SetUp() override { std::filesystem::remove(path); }
  void TearDown() override { std::filesystem::remove(path); }
};

TEST_F(SaveTensors, AppendsOneBlockPerSync) {
  config::Override file("save_tensors_file", path);
  Tensor x = Three();
  Tensor y = x * x;
  Hash128 hash = executor()->GetGraphHash(std::span(&y, 1));
  y.host();
  (x - x).host();
  std::string text = ReadFile(path);
  size_t first = text.find("## BEGIN_GRAPH\n"), second = text.rfind("## BEGIN_GRAPH\n");
  EXPECT_NE(first, second) << text;
  EXPECT_EQ(text.find("[SyncTensorsGraph]\nTrigger: read\nSource: dump_test.cpp:"), 0u);
  EXPECT_TRUE(Contains(text, "Device: reference:0\nHash: " + ToString(hash) + "\n")) << text;
  EXPECT_LT(text.find("mul"), text.find("## END_GRAPH"));
  EXPECT_GT(text.find("sub"), second);
}

TEST_F(SaveTensors, WritesTheChosenFormat) {
  config::Override file("save_tensors_file", path);
  for (const char* format : {"dot", "backend"}) {
    config::Override form("save_tensors_format", format);
    Tensor x = Three();
    (x * x - x).host();
  }
  std::string text = ReadFile(path);
  EXPECT_TRUE(Contains(text, "digraph")) << text;
  EXPECT_TRUE(Contains(text.substr(text.find("END_GRAPH")), "sub")) << text;
}

// A pipe that nobody reads yet stands for a slow disk.
TEST_F(SaveTensors, ASlowFileHoldsUpNobodyElse) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  Tensor x = Three(), y = x * x;
  Tensor pending = x - x;
  {
    config::Override file("save_tensors_file", path);
    std::jthread saver([&] { y.host(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    auto look = std::async(std::launch::async, [&] { return pending.is_pending(); });
    EXPECT_EQ(look.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    EXPECT_TRUE(Contains(ReadFile(path), "mul"));  // lets the saver go on
  }
  EXPECT_TENSOR_EQ(y, {1.0f, 4.0f, 9.0f}, {3});
}

TEST_F(SaveTensors, FailureIsOneWarning) {
  config::Override file("save_tensors_file", path + "/no/such/folder");
  LogCapture log;
  Tensor x = Three();
  EXPECT_TENSOR_EQ(x * x, {1.0f, 4.0f, 9.0f}, {3});
  EXPECT_TENSOR_EQ(x + x, {2.0f, 4.0f, 6.0f}, {3});
  size_t at = log.text().find("cannot write to");
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(log.text().find("cannot write to", at + 1), std::string::npos) << log.text();
}

}  // namespace
}  // namespace hammock
