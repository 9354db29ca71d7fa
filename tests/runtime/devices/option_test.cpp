// Options that are declared outside of the library: here by a test, and by a library that a child
// process opens (option_module.cpp).

#include "hammock/option.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "base/log.h"
#include "hammock/hammock.h"
#include "runtime/child.h"
#include "runtime/devices/code_settings.h"

namespace hammock {
namespace {

using testing::ChildResult;
using testing::RunChild;
using testing::Succeeded;

int changes = 0;

constinit config::Option<bool> kSwitch({
    .name = "demo.switch",
    .default_value = true,
    .doc = "Another algorithm.",
    .affects_code = true,
});

constinit config::Option<int64_t> kSize({
    .name = "demo.size",
    .default_value = 16,
    .doc = "Elements of a block.",
    .affects_code = true,
    .min = 2,
    .old_name = "demo_block",
});

constinit config::Option<std::string> kMode({
    .name = "demo.mode",
    .default_value = "fast",
    .doc = "How it is done.",
    .choices = "fast, safe",
    .changed = [] { ++changes; },
});

constinit config::Option<std::string> kFree({
    .name = "demo.free",
    .default_value = "",
    .doc = "Any text.",
    .affects_code = true,
});

constinit config::Option<int64_t> kTwin({
    .name = "demo.size",
    .default_value = 1,
    .doc = "Its name is taken.",
});

constinit config::Option<std::string> kWrongDefault({
    .name = "demo.wrong",
    .default_value = "medium",
    .doc = "Its default is not one of its choices.",
    .choices = "low, high",
});

// Before the constructors of other files have run, and before main.
const int64_t size_before_main = config::Get<kSize>();
const bool eager_before_main = config::Get<config::kEager>();

template <class ErrorType>
std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const ErrorType& error) {
    return error.message();
  }
  return "no such error";
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Option, HasItsDefaultBeforeMain) {
  EXPECT_EQ(size_before_main, 16);
  EXPECT_FALSE(eager_before_main);
  EXPECT_TRUE(config::Get<kSwitch>());
  EXPECT_EQ(config::Get<kMode>(), "fast");
  EXPECT_EQ(config::Get<kFree>(), "");
}

TEST(Option, IsListedWithAllOthers) {
  std::vector<std::string_view> names;
  for (const config::OptionInfo& option : config::Options()) names.push_back(option.name);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  for (std::string_view name : {"cpu.threads", "cuda.text", "demo.mode", "demo.size", "eager"}) {
    EXPECT_EQ(std::ranges::count(names, name), 1) << name;
  }
  EXPECT_TRUE(Has(config::Describe(), "demo.size                int     '16' (default)\n"));
  EXPECT_TRUE(Has(config::DescribeMarkdown(),
                  "## `demo`\n| option | type | default | meaning | changes code | upstream name "
                  "|\n|---|---|---|---|---|---|\n| `demo.free` | string | empty |"));
}

TEST(Option, IsSetByNameAndByType) {
  config::Override restore("demo.size", "8");
  EXPECT_EQ(config::Get<kSize>(), 8);
  config::Set("demo.size", "4");
  EXPECT_EQ(config::Get<kSize>(), 4);
  config::Set<kSize>(32);
  EXPECT_EQ(config::GetText("demo.size"), "32");
  EXPECT_EQ(config::OriginOf("demo.size"), "call");
}

TEST(Option, RefusesWrongValues) {
  EXPECT_EQ(MessageOf<TypeError>([] { config::Set("demo.size", "many"); }),
            "config: demo.size is an int, got 'many', expected digits");
  EXPECT_EQ(MessageOf<ValueError>([] { config::Set<kSize>(1); }),
            "config: demo.size is 1, must be at least 2");
  EXPECT_EQ(MessageOf<ValueError>([] { config::Set("demo.mode", "slow"); }),
            "config: demo.mode is 'slow', must be one of fast, safe");
  EXPECT_EQ(MessageOf<ValueError>([] { config::Set("demo.mode", "fast, safe"); }),
            "config: demo.mode is 'fast, safe', must be one of fast, safe");
  EXPECT_EQ(MessageOf<ValueError>([] { config::Set("demo.sise", "3"); }),
            "config: no option 'demo.sise', did you mean 'demo.size'?");
}

TEST(Option, RefusesANameThatIsTaken) {
  EXPECT_EQ(MessageOf<ValueError>([] { config::detail::Register(kTwin); }),
            "config: there is an option 'demo.size' already; a library begins the names of its "
            "options with its own");
  config::detail::Register(kSize);  // itself
  EXPECT_EQ(config::Get<kSize>(), 16);
}

TEST(Option, RefusesAWrongDefault) {
  EXPECT_EQ(MessageOf<ValueError>([] { config::detail::Register(kWrongDefault); }),
            "config: demo.wrong is 'medium', must be one of low, high");
  EXPECT_THROW(config::GetText("demo.wrong"), ValueError);
}

TEST(Option, HasItsOldNameForOneVersion) {
  LogCapture log;
  config::Override by_old_name("demo_block", "64");
  EXPECT_EQ(config::Get<kSize>(), 64);
  EXPECT_EQ(log.text(),
            "warn: config: option 'demo_block' is now called 'demo.size'; the next version does "
            "not know the old name\n");
}

TEST(Option, TellsItsOwnerOfChanges) {
  int before = changes;
  {
    config::Override safe("demo.mode", "safe");
    EXPECT_EQ(changes, before + 1);
  }
  EXPECT_EQ(changes, before + 2);
}

// ---- The key

using Settings = std::vector<std::pair<std::string_view, std::string>>;

/// The settings of this test's options; the environment may have set others.
Settings DemoSettings(uint32_t id) {
  Settings settings = CodeSettingsOf(id).options;
  std::erase_if(settings, [](const auto& setting) { return !setting.first.starts_with("demo."); });
  return settings;
}

TEST(CodeSettings, AreEqualForEqualValuesAlone) {
  uint32_t defaults = CodeSettingsId();
  std::set<uint32_t> ids = {defaults};
  for (const char* flag : {"true", "false"}) {
    for (const char* size : {"16", "17", "18"}) {
      for (const char* text : {"", "a", "a\nb", "b"}) {
        config::Override a("demo.switch", flag), b("demo.size", size), c("demo.free", text);
        uint32_t id = CodeSettingsId();
        bool known = !ids.insert(id).second;
        EXPECT_EQ(known, id == defaults);
        EXPECT_EQ(CodeSettingsId(), id);
        Settings changed;
        if (*text) changed.emplace_back("demo.free", text);
        if (size != std::string("16")) changed.emplace_back("demo.size", size);
        if (flag != std::string("true")) changed.emplace_back("demo.switch", flag);
        EXPECT_EQ(DemoSettings(id), changed);
      }
    }
  }
  EXPECT_EQ(ids.size(), 24u);
  EXPECT_EQ(CodeSettingsId(), defaults);
  config::Override safe("demo.mode", "safe");
  EXPECT_EQ(CodeSettingsId(), defaults) << "it does not affect code";
}

TEST(CodeSettings, HoldTheReplicationList) {
  const std::vector<std::string> one = {"cpu:0", "cpu:1"}, other = {"cpu:0 cpu:1"};
  EXPECT_EQ(CodeSettingsId(one), CodeSettingsId(one));
  EXPECT_NE(CodeSettingsId(one), CodeSettingsId(other));
  EXPECT_NE(CodeSettingsId(one), CodeSettingsId());
  EXPECT_EQ(DescribeChange(CodeSettingsOf(CodeSettingsId()), CodeSettingsOf(CodeSettingsId(one))),
            "the replication list was `none` and is `cpu:0 cpu:1`");
}

TEST(CodeSettings, OfAnOptionOutsideAreExplained) {
  auto& executor = *LazyGraphExecutor::Get();
  executor.ClearComputationCache();
  Tensor x = tensor({1.0, 2.0}, f32, "reference");
  auto run = [&] { (x * 3.0 + x).host(); };
  run();
  size_t misses = executor.GetMisses().size();
  run();
  EXPECT_EQ(executor.GetMisses().size(), misses);
  {
    config::Override size("demo.size", "128"), off("demo.switch", "false");
    run();
    ASSERT_EQ(executor.GetMisses().size(), misses + 1);
    CompileMiss miss = executor.GetMisses().back();
    EXPECT_EQ(miss.kind, "config");
    EXPECT_TRUE(Has(miss.detail,
                    "the same graph was compiled under other options: demo.size was `16` and is "
                    "`128`, demo.switch was `true` and is `false`"))
        << miss.detail;
  }
  run();
  EXPECT_EQ(executor.GetMisses().size(), misses + 1) << "what was compiled before is found again";
}

TEST(CodeSettings, AreThePresentOnesOnEveryThread) {
  config::Override restore("demo.size", "16");
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        ASSERT_LE(DemoSettings(CodeSettingsId()).size(), 1u);
        ASSERT_GE(config::Get<kSize>(), 16);
        config::Describe();
      }
    });
  }
  for (int64_t size = 17; size < 2000; ++size) {
    config::Set<kSize>(size % 50 + 17);
    ASSERT_EQ(DemoSettings(CodeSettingsId()).at(0).second, std::to_string(size % 50 + 17));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

// ---- A library that is opened later. The child does what its arguments say, in order.

ChildResult Child(const std::string& arguments, const std::string& environment = "A=B") {
  return RunChild({"/bin/sh", "-c",
                   "env " + environment +
                       " '" HAMMOCK_OPTION_CHILD "' '" HAMMOCK_OPTION_MODULE "' " + arguments});
}

TEST(OptionOfALibrary, IsThereWhenItIsLoaded) {
  ChildResult result = Child("get=plug.size open get=plug.size read set plug.size=5 read");
  ASSERT_TRUE(Succeeded(result));
  EXPECT_EQ(result.output,
            "config: no option 'plug.size', did you mean 'plugins'?\n"
            "plug.size = 3 (default)\nread 3\nread 5\n");
}

TEST(OptionOfALibrary, IsReadFromTheEnvironment) {
  ChildResult result = Child("read_eager open read get=plug.size step", "HAMMOCK_PLUG_SIZE=9");
  ASSERT_TRUE(Succeeded(result));
  EXPECT_EQ(result.output,
            "eager 0\nread 9\nplug.size = 9 (environment HAMMOCK_PLUG_SIZE)\nstep\n");
}

TEST(OptionOfALibrary, IsReadFromTheEnvironmentByItsOldName) {
  ChildResult result = Child("open get=plug.size", "HAMMOCK_PLUG_BLOCK=9");
  ASSERT_TRUE(Succeeded(result));
  EXPECT_TRUE(
      Has(result.output, "environment variable HAMMOCK_PLUG_BLOCK is now called HAMMOCK_PLUG_SIZE"))
      << result.output;
  EXPECT_TRUE(Has(result.output, "plug.size = 9 (environment HAMMOCK_PLUG_BLOCK)\n"))
      << result.output;
}

TEST(OptionOfALibrary, MayBeSetBeforeItIsLoaded) {
  ChildResult result =
      Child("set plug.size=6 set plug.size=7 open read get=plug.size step", "HAMMOCK_PLUG_SIZE=9");
  ASSERT_TRUE(Succeeded(result));
  EXPECT_EQ(result.output, "read 7\nplug.size = 7 (call)\nstep\n");

  std::string path = ::testing::TempDir() + "option_test.conf";
  std::ofstream(path) << "eager = true\nplug.size = 8\n";
  result = Child("file=" + path + " read_eager open get=plug.size");
  ASSERT_TRUE(Succeeded(result));
  EXPECT_EQ(result.output, "eager 1\nplug.size = 8 (file " + path + ":2)\n");
}

TEST(OptionOfALibrary, KeepsItsDefaultWhereTheEarlySettingIsWrong) {
  ChildResult result = Child("set plug.size=many open read");
  ASSERT_TRUE(Succeeded(result));
  EXPECT_TRUE(Has(result.output,
                  "plug.size, set by call before it was loaded: config: plug.size is an int, got "
                  "'many', expected digits; using 3"))
      << result.output;
  EXPECT_TRUE(Has(result.output, "read 3\n")) << result.output;
}

TEST(OptionOfALibrary, EarlySettingsThatBelongToNothingAreReported) {
  ChildResult result =
      Child("set plug.sise=4 set plog.size=4 open step set plog.size=5", "HAMMOCK_PLUG_SISE=9");
  ASSERT_TRUE(Succeeded(result));
  for (const char* message :
       {"environment variable HAMMOCK_PLUG_SISE is no option, did you mean HAMMOCK_PLUG_SIZE?",
        "config: call set 'plug.sise', but no option of that name is loaded, did you mean "
        "'plug.size'?",
        "config: call set 'plog.size', but no option of that name is loaded, did you mean "
        "'plug.size'?",
        "step\nconfig: no option 'plog.size', did you mean 'plug.size'?\n"}) {
    EXPECT_TRUE(Has(result.output, message)) << message << "\nnot in\n" << result.output;
  }
}

TEST(OptionOfALibrary, WrongNamesOfALoadedOwnerAreErrors) {
  ChildResult result = Child("open set plug.sise=4");
  ASSERT_TRUE(Succeeded(result));
  EXPECT_EQ(result.output, "config: no option 'plug.sise', did you mean 'plug.size'?\n");
}

TEST(OptionOfALibrary, ChangesNoKeyWhileItHasItsDefault) {
  ChildResult result = Child("step compiles open step compiles set plug.size=4 step compiles");
  ASSERT_TRUE(Succeeded(result));
  EXPECT_EQ(result.output, "step\ncompiles 1\nstep\ncompiles 1\nstep\ncompiles 2\n");
}

}  // namespace
}  // namespace hammock
