#include "backends/cpu/code/llvm_compiler.h"

#include <atomic>
#include <thread>
#include <vector>

#include "backends/cpu/compiled.h"
#include "hammock/config.h"

namespace hammock::cpu {
namespace {

class Llvm : public Compiled {};

TEST_F(Llvm, NamesItselfAndTheHost) {
  const LlvmCompiler& llvm = LlvmCompiler::Get();
  EXPECT_TRUE(llvm.version().starts_with("19.")) << llvm.version();
  EXPECT_FALSE(llvm.host_cpu().empty());
  EXPECT_CONTAINS(llvm.host_features(), "+sse2");
}

TEST_F(Llvm, WrongTextGivesTheParsersMessage) {
  std::string message = MessageOf<CompileError>(
      [] { LlvmCompiler::Get().Compile("define void @f() {\n  %x = frobnicate i32 1\n}"); });
  EXPECT_CONTAINS(message, "cpu: LLVM 19.");
  EXPECT_CONTAINS(message, "2:8: error: expected instruction opcode");
  EXPECT_CONTAINS(message, "%x = frobnicate i32 1");
}

TEST_F(Llvm, CodeThatIsNotWellFormedIsAnError) {
  std::string message = MessageOf<CompileError>([] {
    LlvmCompiler::Get().Compile(R"(
      define i32 @f(i1 %c) {
        br i1 %c, label %a, label %b
      a:
        %x = add i32 1, 2
        br label %b
      b:
        ret i32 %x
      })");
  });
  EXPECT_CONTAINS(message, "Instruction does not dominate all uses");
}

TEST_F(Llvm, TextsThatAreNoneAreErrors) {
  for (const std::string& text :
       {std::string("\0\0", 2), std::string("BC\xc0\xde"), std::string("define"),
        std::string(1000, '('), std::string("\xff\xfe")}) {
    EXPECT_THROW(LlvmCompiler::Get().Compile(text), CompileError) << text;
  }
}

TEST_F(Llvm, WhereLlvmGivesUpIsAnErrorAndOthersGoOn) {
  for (int i = 0; i < 3; ++i) {
    std::string message = MessageOf<CompileError>([] {
      LlvmCompiler::Get().Compile(R"(
        declare <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(<16 x float>, <16 x float>,
                                                                 <16 x float>, i16, i32)
        define void @f(ptr %x) {
          %a = load <16 x float>, ptr %x
          %b = call <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(
              <16 x float> %a, <16 x float> %a, <16 x float> %a, i16 -1, i32 4)
          store <16 x float> %b, ptr %x
          ret void
        })",
                                  {.cpu = "x86-64"});
    });
    EXPECT_CONTAINS(message, "it gave up: ");
    LlvmCompiler::Get().Compile(kAdd, {.cpu = "x86-64"});
  }
}

TEST_F(Llvm, AsmThatCannotBeAssembledIsAnError) {
  EXPECT_THROW(LlvmCompiler::Get().Compile(
                   "define void @f() { call void asm \"frobnicate\", \"\"() ret void }"),
               CompileError);
}

TEST_F(Llvm, PrintsAssembly) {
  CompileOptions avx2 = {.cpu = "x86-64-v3"};
  EXPECT_CONTAINS(LlvmCompiler::Get().Assembly(kAdd, avx2), "vaddps");
  std::string old = LlvmCompiler::Get().Assembly(kAdd, {.cpu = "x86-64"});
  EXPECT_EQ(old.find("vaddps"), std::string::npos);
  EXPECT_CONTAINS(old, "addps");
  std::string few = LlvmCompiler::Get().Assembly(kAdd, {.cpu = "x86-64", .features = "+avx"});
  EXPECT_CONTAINS(few, "vaddps");
}

TEST_F(Llvm, OpsAreNotContracted) {
  std::string text = LlvmCompiler::Get().Assembly(R"(
    define float @f(float %a, float %b, float %c) {
      %m = fmul float %a, %b
      %r = fadd float %m, %c
      ret float %r
    })");
  EXPECT_CONTAINS(text, "vmulss");
  EXPECT_EQ(text.find("vfmadd"), std::string::npos);
}

TEST_F(Llvm, TheSameTextGivesTheSameCode) {
  EXPECT_EQ(LlvmCompiler::Get().Compile(kSum), LlvmCompiler::Get().Compile(kSum));
}

TEST_F(Llvm, ThreadsCompileInParallel) {
  std::string expected[] = {LlvmCompiler::Get().Compile(kAdd), LlvmCompiler::Get().Compile(kSum),
                            LlvmCompiler::Get().Compile(kConstants)};
  const char* texts[] = {kAdd, kSum, kConstants};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 15; ++i) {
        int which = (t + i) % 3;
        if (LlvmCompiler::Get().Compile(texts[which]) != expected[which]) ++wrong;
        if (MessageOf<CompileError>([] { LlvmCompiler::Get().Compile("x"); }) == "no error") {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(LlvmAbsent, IsAReasonAndNoFailure) {
  config::Override nowhere("cpu.llvm_plugin", "/nowhere/libhammock-llvm.so");
  EXPECT_CONTAINS(LlvmCompiler::WhyAbsent(), "/nowhere/libhammock-llvm.so");
  std::string message = MessageOf<NotSupported>([] { LlvmCompiler::Get(); });
  EXPECT_CONTAINS(message, "no code is compiled without the LLVM plug-in");
  EXPECT_CONTAINS(message, "cpu.llvm_plugin");
}

TEST(LlvmAbsent, ALibraryThatIsNoPluginIsNamed) {
  config::Override other("cpu.llvm_plugin", "libm.so.6");
  EXPECT_CONTAINS(LlvmCompiler::WhyAbsent(), "libm.so.6 has no HammockLlvmTable");
}

}  // namespace
}  // namespace hammock::cpu
