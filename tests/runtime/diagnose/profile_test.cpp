#include "hammock/profile.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/location_scope.h"
#include "hammock/hammock.h"
#include "ir/expect_error.h"
#include "support/host_backend.h"
#include "support/source_path.h"

namespace hammock {
namespace {

using Json = nlohmann::json;

class Profile : public ::testing::Test {
 protected:
  void SetUp() override {
    path = ::testing::TempDir() + "trace_" + std::to_string(getpid()) + ".json";
    LazyGraphExecutor::Get()->ClearComputationCache();
  }
  void TearDown() override {
    profile::Stop();
    std::filesystem::remove(path);
  }

  Json Read() const {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return Json::parse(text.str());
  }
  static std::vector<Json> Select(const Json& events, const char* key, const std::string& value) {
    std::vector<Json> selected;
    for (const Json& event : events) {
      if (event.value(key, "") == value) selected.push_back(event);
    }
    return selected;
  }
  static Json ArgsOf(const Json& events, const std::string& name) {
    auto found = Select(events, "name", name);
    return found.empty() ? Json() : found[0]["args"];
  }

  std::string path;
};

/// Whether a span lies in another one of its thread.
bool IsInside(const Json& inner, const Json& outer) {
  constexpr double kRounding = 0.002;
  double begin = inner["ts"], end = begin + inner["dur"].get<double>();
  double from = outer["ts"], to = from + outer["dur"].get<double>();
  return inner["tid"] == outer["tid"] && begin >= from - kRounding && end <= to + kRounding;
}

/// Data that is no op of the graph.
Tensor Data(const Dims& sizes, const Device& device) {
  HostTensor host(Shape(DType::kF32, sizes));
  for (float& value : host.mutable_values<float>()) value = 0.5f;
  return from_host(host, device);
}

void TrainSteps(int steps, const Device& device) {
  Tensor x = Data({32, 16}, device);
  Tensor w = Data({16, 8}, device);
  for (int i = 0; i < steps; ++i) {
    w = w - matmul(x.t(), relu(matmul(x, w))) * 0.001f;
    mark_step(true);
  }
}

TEST_F(Profile, HasEveryPartOfAStepWhereItHappened) {
  config::Override code("cpu.wait_for_code", "true");
  profile::Start(path);
  TrainSteps(3, "cpu");
  profile::Stop();
  Json events = Read();
  for (const char* category :
       {"record", "sync", "key", "cache", "compile", "pass", "execute", "kernel", "transfer"}) {
    EXPECT_FALSE(Select(events, "cat", category).empty()) << category;
  }
  auto syncs = Select(events, "cat", "sync");
  ASSERT_EQ(syncs.size(), 3u);
  EXPECT_EQ(syncs[0]["name"], "mark_step");
  EXPECT_NE(syncs[0]["args"]["where"].get<std::string>().find("profile_test.cpp:"),
            std::string::npos);
  auto compiles = Select(events, "name", "compile");
  ASSERT_EQ(compiles.size(), 1u);
  EXPECT_TRUE(IsInside(compiles[0], syncs[0]));
  for (const Json& pass : Select(events, "cat", "pass")) EXPECT_TRUE(IsInside(pass, compiles[0]));
  auto executes = Select(events, "cat", "execute");
  ASSERT_EQ(executes.size(), 3u);
  auto kernels = Select(events, "cat", "kernel");
  for (const Json& kernel : kernels) {
    bool inside = false;
    for (const Json& execute : executes) inside |= IsInside(kernel, execute);
    EXPECT_TRUE(inside) << kernel;
  }
  EXPECT_EQ(ArgsOf(events, "record ops")["ops"], 5);
}

TEST_F(Profile, HasTheGraphWithItsKernels) {
  // Source lines are looked up where the compiler saw them.
  for (const char* folder : {"", "tests"}) {
    std::filesystem::path base = testing::SourcePath(folder);
    if (std::filesystem::exists(base / __FILE__)) std::filesystem::current_path(base);
  }
  profile::Start(path);
  TrainSteps(2, "cpu");
  profile::Stop();
  Json events = Read();
  auto graphs = Select(events, "name", "hammock_graph");
  ASSERT_EQ(graphs.size(), 1u) << "a graph is written once";
  Json graph = graphs[0]["args"];
  ASSERT_GT(graph["kernels"].size(), 0u);
  EXPECT_GT(graph["planned_bytes"], 0);
  std::set<std::string> ops;
  int in_kernels = 0;
  for (size_t i = 0; i < graph["nodes"].size(); ++i) {
    const Json& node = graph["nodes"][i];
    ops.insert(node["op"].get<std::string>());
    for (const Json& input : node["in"]) EXPECT_LT(input.get<size_t>(), i);
    if (!node.contains("kernel")) continue;
    ++in_kernels;
    EXPECT_LT(node["kernel"].get<size_t>(), graph["kernels"].size());
    std::string at = node.value("at", "");
    EXPECT_NE(at.find("profile_test.cpp:"), std::string::npos) << node;
    EXPECT_FALSE(node["type"].get<std::string>().empty());
  }
  EXPECT_GT(in_kernels, 3);
  EXPECT_TRUE(ops.contains("dot_general"));
  EXPECT_NE(graph["kernels"][0]["text"], "");
  bool has_line = false;
  for (const auto& [place, line] : graph["lines"].items()) {
    has_line |= line.get<std::string>().find("relu(matmul(x, w))") != std::string::npos;
  }
  EXPECT_TRUE(has_line);
  std::set<int64_t> run;
  for (const Json& kernel : Select(events, "cat", "kernel")) {
    EXPECT_EQ(kernel["args"]["graph"], graph["graph"]);
    run.insert(kernel["args"]["kernel"].get<int64_t>());
  }
  EXPECT_EQ(run.size(), graph["kernels"].size()) << "every kernel has its time";
}

TEST_F(Profile, TellsWhatAGraphComputesAgain) {
  config::Override budget("memory_budget", "12500");
  profile::Start(path);
  Tensor x = Data({32, 32}, "cpu");
  Tensor result = [&] {  // what has a name would be a result too
    Tensor z = matmul(x, x), y = sin(z);
    return matmul(y, matmul(sin(matmul(y, x)), x) * z);
  }();
  mark_step(true);
  profile::Stop();
  Json graphs = Select(Read(), "name", "hammock_graph");
  ASSERT_EQ(graphs.size(), 1u);
  const std::string text = graphs[0]["args"]["recomputed"];
  EXPECT_NE(text.find("computed again"), std::string::npos) << text;
}

TEST_F(Profile, TellsOfNoPlanWhereADeviceHasNone) {
  profile::Start(path);
  Tensor x = Data({2, 3, 4}, "reference").requires_grad_();
  TensorsFn layer = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {exp(sum(exp(in[0]), {0, 2}))};
  };
  sum(checkpoint(layer, {x})[0]).backward();
  mark_step(true);
  profile::Stop();
  Json graphs = Select(Read(), "name", "hammock_graph");
  ASSERT_FALSE(graphs.empty());
  for (const Json& graph : graphs) EXPECT_EQ(graph["args"]["recomputed"], "");
}

TEST_F(Profile, HasSpansOfAThreadOneInsideTheOther) {
  profile::Start(path);
  Tensor x = Data({4}, "cpu");
  Tensor y = x + 1.0f;
  {
    profile::Span outer("outer");
    y = y * 2.0f;
    {
      profile::Span inner("inner");
      y = y - 3.0f;
    }
    y = y * y;
  }
  y = y + 1.0f;
  y.host();
  profile::Stop();
  Json events = Read();
  auto spans = Select(events, "ph", "X");
  for (const Json& a : spans) {
    for (const Json& b : spans) {
      double end = a["ts"].get<double>() + a["dur"].get<double>();
      bool apart = a["tid"] != b["tid"] || end <= b["ts"].get<double>() + 0.002 ||
                   b["ts"].get<double>() + b["dur"].get<double>() <= a["ts"].get<double>() + 0.002;
      EXPECT_TRUE(apart || IsInside(a, b) || IsInside(b, a)) << a << b;
    }
  }
  std::vector<int> ops;
  for (const Json& record : Select(events, "cat", "record")) ops.push_back(record["args"]["ops"]);
  EXPECT_EQ(ops, (std::vector<int>{1, 1, 1, 1, 1}));
}

TEST_F(Profile, HasAGraphThatWasCompiledBefore) {
  TrainSteps(1, "cpu");
  for (int i = 0; i < 2; ++i) {
    profile::Start(path);
    TrainSteps(1, "cpu");
    profile::Stop();
    Json events = Read();
    EXPECT_EQ(Select(events, "name", "hammock_graph").size(), 1u) << "in each profile";
    EXPECT_TRUE(Select(events, "name", "compile").empty());
    EXPECT_EQ(ArgsOf(events, "cache lookup")["found"], "yes");
  }
}

TEST_F(Profile, ExplainsCompilesAsTheyHappen) {
  profile::Start(path);
  Tensor x = Data({4}, "reference");
  exp(x).host();
  sin(x).host();
  profile::Stop();
  auto misses = Select(Read(), "cat", "recompile");
  ASSERT_EQ(misses.size(), 2u);
  EXPECT_EQ(misses[0]["name"], "compile: first graph");
  EXPECT_EQ(misses[1]["name"], "compile: op");
  EXPECT_NE(misses[1]["args"]["detail"].get<std::string>().find("sin"), std::string::npos);
}

TEST_F(Profile, FollowsSegmentsToTheFallbackDevice) {
  config::Override forced("force_fallback", "exp");
  profile::Start(path);
  Tensor x = Data({4}, "cpu");
  Tensor y = exp(x * 2.0f) + 1.0f;
  y.host();
  profile::Stop();
  Json events = Read();
  Json graph = ArgsOf(events, "hammock_graph");
  ASSERT_EQ(graph["fallbacks"].size(), 1u);
  EXPECT_EQ(graph["fallbacks"][0]["op"], "exp");
  EXPECT_EQ(Select(events, "name", "copy between devices").size(), 2u);
  // The values that pass between segments are one node each, not an output and an input.
  int inputs = 0;
  for (const Json& node : graph["nodes"]) inputs += node["op"] == "input";
  EXPECT_EQ(inputs, 3) << graph["nodes"];
  std::set<int64_t> run;
  for (const Json& kernel : Select(events, "cat", "kernel")) {
    run.insert(kernel["args"]["kernel"].get<int64_t>());
  }
  EXPECT_GE(run.size(), 2u);
  EXPECT_EQ(run.size(), graph["kernels"].size()) << "those of both segments of the device";
}

TEST_F(Profile, HasTheKernelsOfABackendFromOutside) {
  testing::HostBackend backend("profiled");
  testing::Registered registered(backend);
  profile::Start(path);
  Tensor y = Data({4}, "profiled") * 2.0f;
  y.host();
  const std::string line = LocationText(backend.location());
  profile::Stop();
  EXPECT_NE(line.find("profile_test.cpp"), std::string::npos) << line;
  Json events = Read();
  std::vector<Json> kernels = Select(events, "cat", "kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0]["name"], "interpreted");
  EXPECT_EQ(kernels[0]["args"]["graph"], ArgsOf(events, "hammock_graph")["graph"]);
  EXPECT_EQ(kernels[0]["args"]["kernel"], 0);
  bool has_memory = false;
  for (const Json& event : Select(events, "name", "memory of profiled:0")) {
    has_memory = has_memory || event["args"]["in use"] == 17;
  }
  EXPECT_TRUE(has_memory);
}

TEST_F(Profile, CountsMemoryAndWhatIsPlanned) {
  profile::Start(path);
  TrainSteps(2, "cpu");
  profile::Stop();
  int64_t most_planned = 0;
  auto samples = Select(Read(), "name", "memory of cpu:0");
  ASSERT_GE(samples.size(), 7u) << "after the upload, and before, in and after each of two runs";
  for (const Json& sample : samples) {
    EXPECT_EQ(sample["ph"], "C");
    EXPECT_GE(sample["args"]["planned"], sample["args"]["in use"]);
    most_planned = std::max(most_planned, sample["args"]["planned"].get<int64_t>());
  }
  EXPECT_GT(most_planned, 32 * 16 * 4);
}

TEST_F(Profile, ClosesSpansOfWhatFails) {
  profile::Start(path);
  try {
    profile::Span span("mine");
    span.Set("text", "a \"quote\" and </script> and \xff");
    span.Set("number", 3);
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
  }
  profile::Stop();
  Json args = ArgsOf(Read(), "mine");
  EXPECT_EQ(args["number"], 3);
  EXPECT_EQ(args["text"].get<std::string>().substr(0, 30),
            "a \"quote\" and </script> and \xef\xbf");
}

TEST_F(Profile, IsBounded) {
  config::Override limit("profile_file_bytes", "65536");
  profile::Start(path);
  for (int i = 0; i < 5000; ++i) profile::Mark("a moment");
  profile::Stop();
  EXPECT_LT(std::filesystem::file_size(path), 65536u + 1000u);
  EXPECT_GT(ArgsOf(Read(), "hammock_left_out")["events"], 1000);
}

TEST_F(Profile, BeginsAndEndsWithTheOption) {
  std::string pattern = ::testing::TempDir() + "trace_%p.json";
  {
    config::Override option("profile_file", pattern);
    EXPECT_TRUE(profile::IsOn());
    profile::Mark("seen");
  }
  EXPECT_FALSE(profile::IsOn());
  profile::Mark("not seen");
  EXPECT_EQ(Select(Read(), "ph", "i").size(), 1u);
}

TEST_F(Profile, RefusesWhatCannotBe) {
  EXPECT_ERROR(profile::Start("/no/such/folder/x.json"), ValueError, "cannot write");
  EXPECT_ERROR(profile::Start(""), ValueError, "empty");
  profile::Start(path);
  EXPECT_ERROR(profile::Start(path + "2"), ValueError, "is being written");
  profile::Stop();
  profile::Stop();
}

// ---- Ends of processes

void RunChild(const std::string& mode, const std::string& path) {
  pid_t child = fork();
  if (child == 0) {
    setenv("HAMMOCK_PROFILE_FILE", path.c_str(), 1);
    (void)!freopen("/dev/null", "w", stderr);
    execl(HAMMOCK_PROFILE_CHILD, HAMMOCK_PROFILE_CHILD, mode.c_str(), path.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

TEST_F(Profile, IsWholeHoweverTheProcessEnds) {
  for (const char* mode : {"", "abort", "throw", "kill"}) {
    RunChild(mode, path);
    Json events;
    ASSERT_NO_THROW(events = Read()) << mode;
    EXPECT_EQ(Select(events, "name", "hammock_graph").size(), 1u) << mode;
    EXPECT_EQ(ArgsOf(events, "process_name")["name"], "profile_child");
  }
}

TEST_F(Profile, BelongsToTheProcessThatBeganIt) {
  RunChild("fork", path);
  Json events = Read();
  EXPECT_EQ(Select(events, "name", "of the parent").size(), 1u);
  EXPECT_EQ(Select(events, "name", "of the child").size(), 0u);
  path += ".child";
  EXPECT_EQ(Select(Read(), "name", "of the child's own").size(), 1u);
}

// ---- Totals

TEST(Activity, CountsWhatHappenedSinceItBegan) {
  TrainSteps(2, "cpu");
  LazyGraphExecutor::Get()->ClearComputationCache();
  Activity activity;
  TrainSteps(5, "cpu");
  ActivityTotals totals = activity.totals();
  EXPECT_EQ(totals.steps, 5);
  EXPECT_EQ(totals.graphs_compiled, 1);
  EXPECT_EQ(totals.cache_hits, 4);
  EXPECT_EQ(totals.ops_traced, 25);
  EXPECT_GT(totals.kernels_run, 0);
  EXPECT_EQ(totals.fallbacks, 0);
  EXPECT_GT(totals.peak_bytes, 32 * 16 * 4);
  EXPECT_GT(totals.tracing_seconds, 0);
  EXPECT_GT(totals.compiling_seconds, 0);
  EXPECT_GT(totals.running_seconds, 0);
  EXPECT_GE(totals.seconds, totals.tracing_seconds + totals.running_seconds);
  EXPECT_NE(totals.ToText().find("graphs compiled   1\n"), std::string::npos) << totals.ToText();
  EXPECT_EQ(Json::parse(totals.ToJson())["steps"], 5);
}

TEST(Activity, CountsFallbacks) {
  config::Override forced("force_fallback", "exp");
  Activity activity;
  exp(Data({4}, "cpu")).host();
  EXPECT_EQ(activity.totals().fallbacks, 1);
}

}  // namespace
}  // namespace hammock
