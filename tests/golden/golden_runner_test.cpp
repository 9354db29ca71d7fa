// The golden runner on small suites made here: it must not call anything passed that is not.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/npz_writer.h"

namespace hammock::testing {
namespace {

struct RunResult {
  int status = -1;
  std::string output;
  bool Has(const std::string& text) const { return output.find(text) != std::string::npos; }
};

/// A suite in a folder of its own, with the array "x" = {1, 2, 3} and "y" = {2, 3, 4}.
class GoldenRunner : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = ::testing::TempDir() + "/golden_" + test->name();
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_ + "/data");
  }

  void AddCase(const std::string& id, const std::string& fn, const std::string& args,
               const std::string& outcome =
                   R"("outputs": [{"dtype": "float32", "shape": [3], "key": "y"}])") {
    std::string op = id.substr(0, id.find('/'));
    std::ofstream(dir_ + "/manifest.jsonl", std::ios::app)
        << R"({"id": ")" << id << R"(", "op": ")" << op << R"(", "src": "edge", "fn": ")" << fn
        << R"(", "args": )" << args
        << R"(, "kwargs": {}, "inputs": [{"dtype": "float32", "shape": [3], "key": "x"}], )"
        << outcome << "}\n";
    std::ofstream(dir_ + "/data/" + op + ".npz", std::ios::binary)
        << Zip({{"x.npy", Npy(Dict("<f4", "(3,)"), Raw<float>({1, 2, 3}))},
                {"y.npy", Npy(Dict("<f4", "(3,)"), Raw<float>({2, 3, 4}))},
                {"wrong.npy", Npy(Dict("<f4", "(3,)"), Raw<float>({2, 5, 4}))}});
  }

  RunResult Run(const std::string& options = "") {
    std::string command =
        std::string(HAMMOCK_GOLDEN) + " " + dir_ + " --device reference " + options + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    RunResult result;
    std::array<char, 4096> buffer;
    while (size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) {
      result.output.append(buffer.data(), size);
    }
    int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return result;
  }

  std::string dir_;
};

constexpr const char* kWrong = R"("outputs": [{"dtype": "float32", "shape": [3], "key": "wrong"}])";
constexpr const char* kRaises = R"("error": "RuntimeError", "message": "no")";

TEST_F(GoldenRunner, PassesWhatIsRight) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])");
  RunResult result = Run();
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(
      result.Has("groups: 1, of which 1 pass entirely, 0 apart from known failures, and 0 are "
                 "unknown"));
}

TEST_F(GoldenRunner, FailsWrongValuesWithIndexAndBothValues) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])", kWrong);
  RunResult result = Run();
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.Has("fail add/a#0: output 0 at [1] is 3")) << result.output;
  EXPECT_TRUE(result.Has("expected 5")) << result.output;
  EXPECT_TRUE(result.Has("1 of 3 elements differ")) << result.output;
  EXPECT_TRUE(result.Has("as C++:\n  Device device(\"reference\");\n")) << result.output;
  EXPECT_TRUE(
      result.Has("  s[0] = from_host(arrays.Read(\"x\", f32), device);\n"
                 "  Any result = CallOp(\"add\", {s[0], int64_t{1}}, {});\n"))
      << result.output;
}

TEST_F(GoldenRunner, FailsWrongDTypesAndCounts) {
  AddCase("gt/a#0", "torch.gt", R"([{"t": 0}, 1])");
  AddCase("chunk/a#0", "torch.chunk", R"([{"t": 0}, 3])");
  RunResult result = Run();
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.Has("is bool[3], expected f32[3]")) << result.output;
  EXPECT_TRUE(result.Has("returns 3 values, expected 1")) << result.output;
}

TEST_F(GoldenRunner, ReportsUnknownOpsApart) {
  AddCase("nothing/a#0", "torch.nothing_of_that_name", R"([{"t": 0}])");
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, "text"])");
  RunResult result = Run("--list-unknown");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(result.Has("no op 'nothing_of_that_name'")) << result.output;
  EXPECT_TRUE(result.Has("no overload of 'add'")) << result.output;
  EXPECT_TRUE(
      result.Has("groups: 2, of which 0 pass entirely, 0 apart from known failures, and 2 are "
                 "unknown"));
}

TEST_F(GoldenRunner, FailsWhenAnExpectedGroupIsLost) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])");
  AddCase("nothing/a#0", "torch.nothing_of_that_name", R"([{"t": 0}])");
  std::string expected = dir_ + "/expected.txt";
  std::ofstream(expected) << "# must pass\nadd # easy\n";
  EXPECT_EQ(Run("--expect " + expected).status, 0);
  std::ofstream(expected, std::ios::app) << "nothing\n";
  RunResult result = Run("--expect " + expected);
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.Has("nothing: 1 of 1 cases do not pass, 0 of them known failures"))
      << result.output;
  EXPECT_EQ(Run("--op add --expect " + expected).status, 0) << "the other is not asked for";
}

TEST_F(GoldenRunner, FailsWhenTheSuiteLacksAnExpectedGroup) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])");
  std::string expected = dir_ + "/expected.txt";
  std::ofstream(expected) << "add\nother\n";
  for (const char* filter : {"", "--op add ", "--case add/a#0 "}) {
    RunResult result = Run(std::string(filter) + "--expect " + expected);
    EXPECT_EQ(result.status, 1) << filter;
    EXPECT_TRUE(result.Has("other: expected, but not in the suite")) << result.output;
  }
}

TEST_F(GoldenRunner, ForgivesKnownFailuresOnly) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])", kWrong);
  AddCase("add/b#1", "torch.add", R"([{"t": 0}, 1])");
  std::string known = dir_ + "/known.txt", expected = dir_ + "/expected.txt";
  std::ofstream(expected) << "add\n";
  std::ofstream(known) << "# nothing yet\n";
  EXPECT_EQ(Run("--known " + known + " --expect " + expected).status, 1);
  std::ofstream(known, std::ios::app) << "add/a#0 # why\n";
  for (const char* way : {"", " --isolate"}) {
    RunResult result = Run("--known " + known + " --expect " + expected + way);
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_TRUE(result.Has("off the exact value by 0, the expected one by 2")) << result.output;
    EXPECT_TRUE(result.Has("of which 0 pass entirely, 1 apart from known failures"))
        << result.output;
  }
}

TEST_F(GoldenRunner, FailsWhenAKnownFailurePasses) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])", kWrong);
  AddCase("add/b#1", "torch.add", R"([{"t": 0}, 1])");
  std::string known = dir_ + "/known.txt";
  std::ofstream(known) << "add/a#0\nadd/b#1\n";
  RunResult result = Run("--known " + known);
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.Has("add/b#1: listed as a known failure, but passes")) << result.output;
  EXPECT_EQ(Run("--case add/a#0 --known " + known).status, 0) << "the other one was not run";
}

TEST_F(GoldenRunner, FailsWhenAKnownFailureIsFurtherFromTheExactValue) {
  // In f32 nothing is left of x.
  AddCase(
      "add/cancels#0", "program", "[]",
      R"("steps": [["torch.add", [{"t": 0}, 1e9], {}, 1], ["torch.sub", [{"t": 1}, 1e9], {}, 2]])"
      R"(, "result": [2], "outputs": [{"dtype": "float32", "shape": [3], "key": "x"}])");
  std::string known = dir_ + "/known.txt";
  std::ofstream(known) << "add/cancels#0\n";
  RunResult result = Run("--known " + known);
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.Has("off the exact value by 3, the expected one by 0")) << result.output;
  EXPECT_TRUE(result.Has("add/cancels#0: listed as a known failure, but is not nearer"))
      << result.output;
}

/// Exact values that are further from the suite's than PyTorch's own are wrong themselves.
TEST_F(GoldenRunner, TakesNoValuesForExactThatPyTorchContradicts) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])",
          R"("f64": {"out": [2.0, 0.4]}, "outputs": [)"
          R"({"dtype": "float32", "shape": [3], "key": "wrong"}])");
  EXPECT_EQ(Run().status, 0) << "so far off may PyTorch be";
  AddCase("mul/a#0", "torch.mul", R"([{"t": 0}, 3])",
          R"("f64": {"out": [2.0, 0.4]}, "outputs": [)"
          R"({"dtype": "float32", "shape": [3], "key": "wrong"}])");
  std::string known = dir_ + "/known.txt";
  std::ofstream(known) << "mul/a#0\n";
  RunResult result = Run("--known " + known);
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.Has("off the exact value by 0, the expected one by 5")) << result.output;
}

TEST_F(GoldenRunner, WantsErrorsWhereTheSuiteDoes) {
  AddCase("reshape/bad#0", "torch.reshape", R"([{"t": 0}, [2, 2]])", kRaises);
  EXPECT_EQ(Run().status, 0);
  AddCase("reshape/good#1", "torch.reshape", R"([{"t": 0}, [3, 1]])", kRaises);
  RunResult result = Run();
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.Has("fail reshape/good#1: must raise an error, but returns"));
}

TEST_F(GoldenRunner, NeverTakesABrokenSuiteForAnExpectedError) {
  AddCase("reshape/bad#0", "torch.reshape", R"([{"t": 0}, [2, 2]])", kRaises);
  std::filesystem::remove(dir_ + "/data/reshape.npz");
  RunResult result = Run();
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.Has("error reshape/bad#0: suite:")) << result.output;
}

TEST_F(GoldenRunner, SelectsGroupsAndCases) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])");
  AddCase("add/b#1", "torch.add", R"([{"t": 0}, 1])", kWrong);
  AddCase("mul/a#0", "torch.mul", R"([{"t": 0}, 1])", kWrong);
  EXPECT_EQ(Run("--case add/a#0").status, 0);
  EXPECT_TRUE(Run("--op add").Has("groups: 1,"));
  EXPECT_TRUE(Run("--op add,mul").Has("groups: 2,"));
  RunResult result = Run("--op add,sub");
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.Has("no group sub")) << result.output;
}

TEST_F(GoldenRunner, SurvivesCrashesWhenIsolated) {
  AddCase("golden_abort/a#0", "torch.golden_abort", R"([{"t": 0}])");
  AddCase("golden_abort/b#1", "torch.golden_abort", R"([{"t": 0}])");
  AddCase("golden_throw/a#0", "torch.golden_throw", R"([{"t": 0}])", kRaises);
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])");
  RunResult result = Run("--isolate --verbose --load " GOLDEN_CRASH_OP);
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_TRUE(result.Has("crash golden_abort/a#0: the process dies: Aborted")) << result.output;
  EXPECT_TRUE(result.Has("crash golden_abort/b#1: the process dies: Aborted")) << result.output;
  EXPECT_TRUE(result.Has("crash golden_throw/a#0:")) << result.output;
  EXPECT_TRUE(result.Has("foreign")) << result.output;
  EXPECT_TRUE(result.Has("pass add/a#0")) << result.output;
}

TEST_F(GoldenRunner, WritesJson) {
  AddCase("add/a#0", "torch.add", R"([{"t": 0}, 1])", kWrong);
  Run("--json " + dir_ + "/out.json");
  std::ifstream in(dir_ + "/out.json");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(text.find("\"outcome\": \"fail\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"id\": \"add/a#0\""), std::string::npos) << text;
}

TEST_F(GoldenRunner, SaysWhatIsWrongWithTheCommandLineOrManifest) {
  EXPECT_EQ(Run().status, 2);
  EXPECT_EQ(Run("--nonsense").status, 2);
  std::ofstream(dir_ + "/manifest.jsonl") << "{\"id\": 3}\n";
  RunResult result = Run();
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.Has("manifest.jsonl:1:")) << result.output;
}

}  // namespace
}  // namespace hammock::testing
