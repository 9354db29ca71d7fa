#include "backends/cpu/code/native_code.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <vector>

#include "backends/cpu/compiled.h"
#include "hammock/config.h"

namespace hammock::cpu {
namespace {

class NativeCode : public Compiled {};

std::string ErrorOf(const char* ir) {
  return MessageOf<CompileError>([&] { CompileCode(ir); });
}

TEST_F(NativeCode, AddsVectors) {
  for (Effort effort : {Effort::kQuick, Effort::kNormal, Effort::kFull}) {
    LoadedCode code(CompileCode(kAdd, {.effort = effort}));
    std::vector<float> x(64), y(64), out(64);
    std::iota(x.begin(), x.end(), 0.0f);
    std::iota(y.begin(), y.end(), 100.0f);
    code.Function<void(float*, float*, float*, int64_t)>("add")(out.data(), x.data(), y.data(), 64);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(out[i], 100.0f + 2.0f * i);
  }
}

TEST_F(NativeCode, Reduces) {
  LoadedCode code(CompileCode(kSum));
  std::vector<float> x(80);
  std::iota(x.begin(), x.end(), 1.0f);
  EXPECT_EQ(code.Function<float(float*, int64_t)>("sum")(x.data(), 80), 80.0f * 81 / 2);
}

TEST_F(NativeCode, HasItsConstants) {
  CodeBlob blob = CompileCode(kConstants);
  LoadedCode first(blob), second(blob);
  for (const LoadedCode* code : {&first, &second}) {
    std::vector<double> x = {1, 2, 3, 4};
    code->Function<void(double*)>("ramp")(x.data());
    EXPECT_EQ(x, (std::vector<double>{1 + 0.1, 2 + 0.2, 3 + 0.3, 4 + 0.4}));
    EXPECT_EQ(code->Function<int(int64_t)>("prime")(0), 2);
    EXPECT_EQ(code->Function<int(int64_t)>("prime")(5), 13);
  }
}

TEST_F(NativeCode, JumpsByTable) {
  std::string ir = "define i32 @pick(i32 %x, ptr %seen) {\n  switch i32 %x, label %other [\n";
  for (int i = 0; i < 12; ++i) ir += fmt::format("    i32 {}, label %case{}\n", i, i);
  ir += "  ]\n";
  for (int i = 0; i < 12; ++i) {
    ir += fmt::format("case{0}:\n  store volatile i32 {0}, ptr %seen\n  ret i32 {1}\n", i,
                      i * i * 7 + 3);
  }
  ir += "other:\n  ret i32 -1\n}\n";
  EXPECT_CONTAINS(LlvmCompiler::Get().Assembly(ir), ".LJTI") << "no table, so nothing is tested";
  LoadedCode code(CompileCode(ir));
  auto* pick = code.Function<int(int, int*)>("pick");
  for (int i = 0; i < 12; ++i) {
    int seen = -1;
    EXPECT_EQ(pick(i, &seen), i * i * 7 + 3);
    EXPECT_EQ(seen, i);
  }
  int seen = -1;
  EXPECT_EQ(pick(12, &seen), -1);
}

TEST_F(NativeCode, FunctionsCallEachOther) {
  LoadedCode code(CompileCode(R"(
    define i64 @square(i64 %x) noinline {
      %r = mul i64 %x, %x
      ret i64 %r
    }
    define internal i64 @inner(i64 %x) noinline {
      %r = call i64 @square(i64 %x)
      %s = add i64 %r, 1
      ret i64 %s
    }
    define i64 @outer(i64 %x) {
      %a = call i64 @inner(i64 %x)
      %b = call i64 @square(i64 %a)
      ret i64 %b
    }
    define i64 @tail(i64 %x) {
      %r = tail call i64 @square(i64 %x)
      ret i64 %r
    })"));
  EXPECT_EQ(code.Function<int64_t(int64_t)>("outer")(3), 100);
  EXPECT_EQ(code.Function<int64_t(int64_t)>("tail")(5), 25);
  EXPECT_EQ(code.Find("inner"), nullptr) << "internal";
}

// The address of a function that others could replace comes from a table in an ordinary library.
TEST_F(NativeCode, KnowsAddressesOfItsFunctions) {
  LoadedCode code(CompileCode(R"(
    define i64 @twice(i64 %x) {
      %r = add i64 %x, %x
      ret i64 %r
    }
    define ptr @address() {
      ret ptr @twice
    }
    define i64 @far(i64 %x) {
      %r = call i64 @twice(i64 %x) nonlazybind
      ret i64 %r
    }
    define i64 @near(i64 %x) nonlazybind {
      %r = tail call i64 @twice(i64 %x) nonlazybind
      ret i64 %r
    })"));
  EXPECT_EQ(code.Function<void*()>("address")(), code.Find("twice"));
  EXPECT_EQ(code.Function<int64_t(int64_t)>("far")(4), 8);
  EXPECT_EQ(code.Function<int64_t(int64_t)>("near")(5), 10);
}

TEST_F(NativeCode, ReachesTheRuntimeThroughATable) {
  struct Table {
    double (*power)(double, double);
    void (*note)(void*, int64_t);
  };
  LoadedCode code(CompileCode(R"(
    define double @run(ptr %table, ptr %log, double %x) {
      %power = load ptr, ptr %table
      %slot = getelementptr ptr, ptr %table, i64 1
      %note = load ptr, ptr %slot
      call void %note(ptr %log, i64 7)
      %r = call double %power(double %x, double 3.0)
      ret double %r
    })"));
  Table table = {
      [](double x, double y) { return std::pow(x, y); },
      [](void* log, int64_t value) { static_cast<std::vector<int64_t>*>(log)->push_back(value); }};
  std::vector<int64_t> log;
  EXPECT_EQ(code.Function<double(Table*, void*, double)>("run")(&table, &log, 2.0), 8.0);
  EXPECT_EQ(log, std::vector<int64_t>{7});
}

TEST_F(NativeCode, NamesWhatIsMissing) {
  std::string message = ErrorOf(R"(
    declare float @llvm.sin.f32(float)
    declare void @frobnicate(float)
    declare void @never_called()
    define void @f(float %x) {
      %y = call float @llvm.sin.f32(float %x)
      call void @frobnicate(float %y)
      call void @frobnicate(float %x)
      ret void
    })");
  EXPECT_EQ(message, "cpu: object code: it uses what is not in it: frobnicate, sinf");
  EXPECT_CONTAINS(ErrorOf(R"(
    declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
    define void @f(ptr %to, ptr %from, i64 %n) {
      call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
      ret void
    })"),
                  "it uses what is not in it: memcpy");
  EXPECT_CONTAINS(ErrorOf("@x = external global i32\n"
                          "define i32 @f() { %r = load i32, ptr @x ret i32 %r }"),
                  "it uses what is not in it: x");
}

TEST_F(NativeCode, StateAndAbsoluteAddressesAreRefused) {
  EXPECT_CONTAINS(ErrorOf("@count = global i32 5\n"
                          "define ptr @f() { ret ptr @count }"),
                  "section .data holds 4 bytes that can be written");
  EXPECT_CONTAINS(ErrorOf("@count = internal global i32 0\n"
                          "define void @f(i32 %x) { store i32 %x, ptr @count ret void }"),
                  "section .bss");
  EXPECT_CONTAINS(ErrorOf("@table = constant [1 x ptr] [ptr @f]\n"
                          "define ptr @f() { ret ptr @table }"),
                  "section .data.rel.ro");
  EXPECT_CONTAINS(ErrorOf("@here = thread_local global i32 0\n"
                          "define void @f(i32 %x) { store i32 %x, ptr @here ret void }"),
                  "section .tbss");
  EXPECT_CONTAINS(ErrorOf("@x = constant i32 1"), "it has no code");
}

TEST_F(NativeCode, AFunctionThatIsNotThereIsAnError) {
  LoadedCode code(CompileCode(kConstants));
  EXPECT_EQ(MessageOf<ValueError>([&] { code.Function<void()>("sum"); }),
            "cpu: no function 'sum' in this code, which has: prime, ramp");
  EXPECT_EQ(code.Find("sum"), nullptr);
  EXPECT_EQ(code.Find(""), nullptr);
}

/// The rights of the mapping that holds `address`, such as "r-xp"; empty if there is none.
std::string RightsOf(const void* address) {
  std::ifstream maps("/proc/self/maps");
  auto wanted = reinterpret_cast<uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> rights;
    if (wanted >= begin && wanted < end) return rights;
  }
  return "";
}

TEST_F(NativeCode, MemoryIsExecutableAndNotWritable) {
  auto code = std::make_unique<LoadedCode>(CompileCode(kAdd));
  const void* add = code->Find("add");
  EXPECT_EQ(RightsOf(add), "r-xp");
  code.reset();
  EXPECT_NE(RightsOf(add), "r-xp");
}

TEST_F(NativeCode, BlobsSurviveSerialising) {
  CodeBlob blob = CompileCode(kConstants);
  std::string bytes = SerializeCode(blob);
  CodeBlob again = DeserializeCode(bytes);
  EXPECT_EQ(again, blob);
  EXPECT_EQ(SerializeCode(again), bytes);
  EXPECT_EQ(LoadedCode(again).Function<int(int64_t)>("prime")(3), 7);
  EXPECT_EQ(again.symbols.size(), 2u);
}

TEST_F(NativeCode, DamagedBlobsAreRefused) {
  std::string bytes = SerializeCode(CompileCode(kConstants));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(DeserializeCode(std::string_view(bytes).substr(0, length)), ValueError) << length;
  }
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(DeserializeCode(damaged), ValueError) << bit;
  }
  EXPECT_THROW(DeserializeCode(bytes + "x"), ValueError);
}

// Objects have no checksum: whatever comes out, linking must not crash.
TEST_F(NativeCode, DamagedObjectsNeverCrash) {
  for (const char* ir : {kAdd, kConstants}) {
    std::string object = LlvmCompiler::Get().Compile(ir);
    int refused = 0;
    auto link = [&](std::string_view bytes) {
      try {
        LinkObject(bytes);
      } catch (const CompileError&) {
        ++refused;
      }
    };
    for (size_t length = 0; length < object.size(); ++length) {
      link(std::string_view(object).substr(0, length));
    }
    std::mt19937 random(1);
    for (int round = 0; round < 20000; ++round) {
      std::string damaged = object;
      for (int i = 0; i < 1 + round % 3; ++i) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      link(damaged);
    }
    EXPECT_GT(refused, 1000);
  }
}

TEST_F(NativeCode, PerfFindsItsNames) {
  config::Override on("tools", "perf");
  std::string path = fmt::format("/tmp/perf-{}.map", getpid());
  LoadedCode code(CompileCode(kConstants));
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(code.symbols().empty());
  for (const CodeSymbol& symbol : code.symbols()) {
    auto address = reinterpret_cast<uintptr_t>(code.Find(symbol.name));
    EXPECT_CONTAINS(text, fmt::format("{:x} {:x} {}\n", address, symbol.size, symbol.name));
  }
  unlink(path.c_str());
}

}  // namespace

// gdb's view.
extern "C" {
struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};
struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};
extern jit_descriptor __jit_debug_descriptor;
}

namespace {

TEST_F(NativeCode, GdbFindsItsNames) {
  config::Override on("tools", "gdb");
  auto listed = [] {
    std::vector<std::string> files;
    for (auto* entry = __jit_debug_descriptor.first_entry; entry; entry = entry->next_entry) {
      files.emplace_back(entry->symfile_addr, entry->symfile_size);
    }
    return files;
  };
  ASSERT_EQ(listed().size(), 0u);
  auto first = std::make_unique<LoadedCode>(CompileCode(kConstants));
  auto second = std::make_unique<LoadedCode>(CompileCode(kAdd));
  auto third = std::make_unique<LoadedCode>(CompileCode(kSum));
  ASSERT_EQ(listed().size(), 3u);
  EXPECT_CONTAINS(listed()[2], std::string("prime\0ramp\0", 11));
  second.reset();
  ASSERT_EQ(listed().size(), 2u);
  EXPECT_CONTAINS(listed()[0], std::string("sum\0", 4));
  third.reset();
  first.reset();
  EXPECT_EQ(listed().size(), 0u);
}

}  // namespace
}  // namespace hammock::cpu
