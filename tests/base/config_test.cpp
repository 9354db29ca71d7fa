#include "hammock/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "hammock/error.h"
#include "support/source_path.h"

namespace hammock {
namespace {

/// With its code, without the line of the call.
std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message() + " (" + std::string(ErrorCodeName(error.code())) + ")";
  }
  return "no error";
}

TEST(Config, HasDefaults) {
  EXPECT_FALSE(config::Get<config::kEager>());
  EXPECT_TRUE(config::Get<config::kParamAliasing>());
  EXPECT_EQ(config::Get<config::kCompilationCacheSize>(), 1024);
  EXPECT_EQ(config::Get<config::kTrimGraphBytes>(), -1);
  EXPECT_EQ(config::Get<config::kFallbackDevice>(), "");
  EXPECT_EQ(config::Get<config::kDevice>(), "");
}

TEST(Config, ChangeTakesEffectAtOnce) {
  config::Override restore_eager("eager", "false");
  config::Override restore_size("trim_graph_size", "1");
  config::Override restore_device("device", "");
  const std::string& before = config::Get<config::kDevice>();
  config::Set("eager", "on");
  EXPECT_TRUE(config::Get<config::kEager>());
  config::Set<config::kEager>(false);
  EXPECT_FALSE(config::Get<config::kEager>());
  config::Set<config::kTrimGraphSize>(42);
  EXPECT_EQ(config::GetText("trim_graph_size"), "42");
  config::Set<config::kDevice>("cuda:1");
  EXPECT_EQ(config::Get<config::kDevice>(), "cuda:1");
  EXPECT_EQ(before, "") << "a string that was read stays valid";
}

TEST(Config, OverrideRestores) {
  ASSERT_EQ(config::Get<config::kMaxAsyncQueue>(), 100);
  {
    config::Override outer("max_async_queue", "3");
    config::Override inner("max_async_queue", "5");
    EXPECT_EQ(config::Get<config::kMaxAsyncQueue>(), 5);
  }
  EXPECT_EQ(config::Get<config::kMaxAsyncQueue>(), 100);
}

TEST(Config, GenerationGrowsWithEveryChange) {
  uint64_t before = config::Generation();
  config::Get<config::kEager>();
  EXPECT_EQ(config::Generation(), before);
  config::Override change("eager", "true");
  EXPECT_GT(config::Generation(), before);
}

TEST(Config, UnknownNameIsRejectedWithTheNearestOne) {
  EXPECT_EQ(MessageOf([] { config::Set("eagre", "1"); }),
            "config: no option 'eagre', did you mean 'eager'? (HM0014)");
  EXPECT_EQ(
      MessageOf([] { config::GetText("compile_cache_size"); }),
      "config: no option 'compile_cache_size', did you mean 'compilation_cache_size'? (HM0014)");
  EXPECT_THROW(config::Override("nothing", "1"), ValueError);
}

TEST(Config, WrongTypeIsRejected) {
  EXPECT_THROW(config::Set("eager", "maybe"), TypeError);
  EXPECT_EQ(MessageOf([] { config::Set("eager", "maybe"); }),
            "config: eager is a bool, got 'maybe', expected true, false, on, off, 1 or 0 (HM0001)");
  for (const char* text : {"", "many", "12x", "1.5", " 7", "99999999999999999999"}) {
    EXPECT_THROW(config::Set("max_async_queue", text), TypeError) << text;
  }
  EXPECT_EQ(config::Get<config::kMaxAsyncQueue>(), 100);
}

TEST(Config, ValueOutOfRangeIsRejected) {
  EXPECT_EQ(MessageOf([] { config::Set("max_async_queue", "0"); }),
            "config: max_async_queue is 0, must be at least 1 (HM0001)");
  EXPECT_THROW(config::Set<config::kTrimGraphSize>(-1), ValueError);
  EXPECT_THROW(config::Set<config::kTrimGraphSize>(INT64_MIN), ValueError);
  EXPECT_EQ(MessageOf([] { config::Set("save_tensors_format", "pdf"); }),
            "config: save_tensors_format is 'pdf', must be one of text, dot, backend (HM0001)");
  EXPECT_THROW(config::Set("log_level", "loud"), ValueError);
  for (const char* text : {"", "0", "1", "0.5:", "0.5:2", "-0.1", "nan", "0.5,0.6"}) {
    EXPECT_THROW(config::Set("metrics_percentiles", text), ValueError) << text;
  }
}

class ConfigFile : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  std::string LoadError() {
    try {
      config::LoadFile(path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  ~ConfigFile() override { std::filesystem::remove(path_); }

  std::string path_ = ::testing::TempDir() + "hammock_config_" + std::to_string(getpid()) + ".conf";
};

TEST_F(ConfigFile, SetsOptions) {
  config::Override restore_eager("eager", "false");
  config::Override restore_format("save_tensors_format", "text");
  config::LoadFile(Write("# all of it\n\n eager = true   # slow\nsave_tensors_format=dot\r\n"));
  EXPECT_TRUE(config::Get<config::kEager>());
  EXPECT_EQ(config::Get<config::kSaveTensorsFormat>(), "dot");
}

TEST_F(ConfigFile, ErrorNamesFileAndLineAndSetsNothing) {
  Write("eager = true\nmax_async_queu = 2\n");
  EXPECT_EQ(LoadError(),
            "config: no option 'max_async_queu', did you mean 'max_async_queue'? [at " + path_ +
                ":2] (HM0014)");
  EXPECT_FALSE(config::Get<config::kEager>());
  Write("\n\neager\n");
  EXPECT_EQ(LoadError(),
            "config: expected `name = value`, got 'eager' [at " + path_ + ":3] (HM0018)");
  Write("eager = 7\n");
  EXPECT_THROW(config::LoadFile(path_), TypeError);
  EXPECT_THROW(config::LoadFile(path_ + ".missing"), ValueError);
}

/// The environment is read once, so these run in a process of their own: config_child prints some
/// options, after having set those that are given as arguments.
std::string OutputOfChild(const std::string& environment, const std::string& arguments = "") {
  std::string command = "env " + environment + " '" HAMMOCK_CONFIG_CHILD "' " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[256];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  pclose(pipe);
  return output;
}

TEST(ConfigEnvironment, SetsOptions) {
  std::string output =
      OutputOfChild("HAMMOCK_EAGER=yes HAMMOCK_MAX_ASYNC_QUEUE=4 HAMMOCK_DEVICE=null:1");
  EXPECT_NE(output.find("<1 4 null:1>"), std::string::npos) << output;
  EXPECT_EQ(output.find("config:"), std::string::npos) << output;
}

TEST(ConfigEnvironment, HasUnderscoresForDots) {
  std::string output = OutputOfChild("HAMMOCK_CPU_TIME_KERNELS=1");
  EXPECT_NE(output.find("time_kernels true"), std::string::npos) << output;
  EXPECT_EQ(output.find("config:"), std::string::npos) << output;
}

TEST(ConfigEnvironment, WarnsOfUnknownNames) {
  std::string output = OutputOfChild("HAMMOCK_EGER=1 HAMMOCK_eager=1");
  EXPECT_NE(output.find("HAMMOCK_EGER is no option, did you mean HAMMOCK_EAGER?"),
            std::string::npos)
      << output;
  EXPECT_NE(output.find("HAMMOCK_eager is no option, did you mean HAMMOCK_EAGER?"),
            std::string::npos)
      << output;
  EXPECT_NE(output.find("<0 100 >"), std::string::npos) << output;
}

TEST(ConfigEnvironment, WarnsOfBadValuesAndKeepsTheDefault) {
  std::string output = OutputOfChild("HAMMOCK_MAX_ASYNC_QUEUE=lots");
  EXPECT_NE(
      output.find(
          "environment variable HAMMOCK_MAX_ASYNC_QUEUE: config: max_async_queue is an int, got "
          "'lots', expected digits; using 100"),
      std::string::npos)
      << output;
  EXPECT_NE(output.find("<0 100 >"), std::string::npos) << output;
}

TEST(ConfigEnvironment, IsOverriddenByACallThatComesFirst) {
  std::string output = OutputOfChild("HAMMOCK_MAX_ASYNC_QUEUE=4", "max_async_queue 9");
  EXPECT_NE(output.find("<0 9 >"), std::string::npos) << output;
}

TEST(Config, DescribeShowsPresentValues) {
  config::Override change("max_async_queue", "3");
  std::string text = config::Describe();
  EXPECT_NE(text.find("max_async_queue          int     '3' (default '100')\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("eager                    bool    'false' (default)\n"), std::string::npos);
  for (const auto& option : config::Options()) {
    EXPECT_NE(text.find(option.doc), std::string::npos) << option.name;
  }
}

TEST(Config, KnowsWhoSetAValue) {
  EXPECT_EQ(config::OriginOf("metrics_samples"), "default");
  {
    config::Override change("metrics_samples", "7");
    EXPECT_EQ(config::OriginOf("metrics_samples"), "call");
    std::string path = ::testing::TempDir() + "origin.conf";
    std::ofstream(path) << "# a comment\nmetrics_samples = 9\n";
    config::LoadFile(path);
    EXPECT_EQ(config::OriginOf("metrics_samples"), "file " + path + ":2");
  }
  EXPECT_EQ(config::OriginOf("metrics_samples"), "default");
  EXPECT_THROW(config::OriginOf("metric_samples"), ValueError);
}

TEST(Config, DocumentIsFresh) {
  std::string path = testing::SourcePath("docs/config.md");
  if (std::getenv("UPDATE_DOCS")) std::ofstream(path) << config::DescribeMarkdown();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), config::DescribeMarkdown()) << "run base_tests with UPDATE_DOCS=1";
}

TEST(Config, DocumentMapsEveryUpstreamName) {
  std::string text = config::DescribeMarkdown();
  for (const char* name : {"torch_lazy_ir_debug",
                           "torch_lazy_param_aliasing",
                           "torch_lazy_handle_special_scalars",
                           "torch_lazy_all_numbers_special_scalars",
                           "torch_lazy_reuse_ir",
                           "torch_lazy_use_thread_pool",
                           "torch_lazy_io_thread_pool_size",
                           "torch_lazy_enable_device_data_cache",
                           "torch_lazy_device_data_cache_size",
                           "torch_lazy_compilation_cache_size",
                           "torch_lazy_enable_compilation_cache",
                           "torch_lazy_shape_cache_size",
                           "torch_lazy_trim_graph_check_frequency",
                           "torch_lazy_trim_graph_size",
                           "torch_lazy_metrics_samples",
                           "torch_lazy_metrics_percentiles",
                           "ltc_enable_dynamic_shapes",
                           "ltc_enable_symbolic_shapes",
                           "torch_lazy_ts_tensor_update_sync",
                           "torch_lazy_ts_cuda",
                           "LTC_TS_CUDA",
                           "LTC_FORCE_FALLBACK",
                           "LTC_ENABLE_DYNAMIC_SHAPES",
                           "LTC_ENABLE_SYMBOLIC_SHAPES",
                           "LTC_ENABLE_SOURCE_INFO",
                           "LTC_SAVE_TENSORS_FILE",
                           "LTC_SAVE_TENSORS_FMT",
                           "LTC_EXPERIMENTAL",
                           "LTC_MAX_ASYNC_QUEUE",
                           "debug_extract_compiled_graph"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
}

TEST(Config, ReadersSeeWholeValuesWhileOthersWrite) {
  config::Override restore("device", "");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) config::Set("device", std::string(1 + i % 40, 'x'));
  });
  for (int i = 0; i < 20000; ++i) {
    const std::string& value = config::Get<config::kDevice>();
    ASSERT_EQ(value.find_first_not_of('x'), std::string::npos);
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace hammock
