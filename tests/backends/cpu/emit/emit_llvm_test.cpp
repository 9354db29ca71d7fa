// What kernels look like as LLVM IR. Whether they are right is the fuzzer's business.
#include "backends/cpu/emit/emit_llvm.h"

#include <gtest/gtest.h>

#include "backends/cpu/emit/vector_plan.h"
#include "hammock/compiler/schedule.h"

namespace hammock::cpu {
namespace {

compiler::Kernel KernelOf(const std::string& text) {
  compiler::Schedule schedule = compiler::MakeSchedule(ParseGraph(text));
  EXPECT_EQ(schedule.commands.size(), 1u);
  return *schedule.commands[0].launch.kernel;
}

compiler::Kernel UnaryKernel(const std::string& op, const std::string& dtype) {
  return KernelOf("%0 = input : " + dtype + "[1000]\n%1 = " + op + " %0 : " + dtype +
                  "[1000]\nreturn %1");
}

TEST(EmitLlvm, ALoopOfLongVectorsThenOneOfShortOnesWithMasks) {
  EXPECT_EQ(EmitLlvm(UnaryKernel("neg", "f32"), {}), R"(define void @kernel_neg(ptr noalias %args) {
entry:
  %0 = getelementptr i8, ptr %args, i64 0
  %1 = load i64, ptr %0, align 8
  %2 = getelementptr i8, ptr %args, i64 8
  %3 = load i64, ptr %2, align 8
  %4 = getelementptr i8, ptr %args, i64 16
  %5 = load ptr, ptr %4, align 8
  %6 = getelementptr i8, ptr %args, i64 24
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr i8, ptr %args, i64 32
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr i8, ptr %args, i64 40
  %11 = load ptr, ptr %10, align 8
  %functions = getelementptr i8, ptr %11, i64 0
  %12 = getelementptr i64, ptr %5, i64 0
  %13 = load ptr, ptr %12, align 8
  %14 = getelementptr i64, ptr %5, i64 1
  %15 = load ptr, ptr %14, align 8
  br label %before1
before1:
  %16 = icmp slt i64 0, %1
  br i1 %16, label %loop0, label %loop0_end
loop0:
  %loop0_i = phi i64 [ 0, %before1 ], [ %loop0_next, %loop0_latch ]
  %17 = and i64 %3, -64
  br label %before3
before3:
  %18 = icmp slt i64 0, %17
  br i1 %18, label %loop2, label %loop2_end
loop2:
  %loop2_i = phi i64 [ 0, %before3 ], [ %loop2_next, %loop2_latch ]
  %19 = getelementptr float, ptr %13, i64 %loop2_i
  %20 = load <64 x float>, ptr %19, align 4
  %21 = fneg <64 x float> %20
  %22 = getelementptr float, ptr %15, i64 %loop2_i
  store <64 x float> %21, ptr %22, align 4
  br label %loop2_latch
loop2_latch:
  %loop2_next = add i64 %loop2_i, 64
  %23 = icmp slt i64 %loop2_next, %17
  br i1 %23, label %loop2, label %loop2_end
loop2_end:
  %24 = icmp slt i64 %17, %3
  br i1 %24, label %if4, label %if4_end
if4:
  br label %before6
before6:
  %25 = icmp slt i64 %17, %3
  br i1 %25, label %loop5, label %loop5_end
loop5:
  %loop5_i = phi i64 [ %17, %before6 ], [ %loop5_next, %loop5_latch ]
  %26 = sub i64 %3, %loop5_i
  %27 = trunc i64 %26 to i32
  %28 = insertelement <16 x i32> poison, i32 %27, i64 0
  %29 = shufflevector <16 x i32> %28, <16 x i32> poison, <16 x i32> zeroinitializer
  %30 = icmp sgt <16 x i32> %29, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %31 = getelementptr float, ptr %13, i64 %loop5_i
  %32 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %31, i32 4, <16 x i1> %30, <16 x float> zeroinitializer)
  %33 = fneg <16 x float> %32
  %34 = getelementptr float, ptr %15, i64 %loop5_i
  call void @llvm.masked.store.v16f32.p0(<16 x float> %33, ptr %34, i32 4, <16 x i1> %30)
  br label %loop5_latch
loop5_latch:
  %loop5_next = add i64 %loop5_i, 16
  %35 = icmp slt i64 %loop5_next, %3
  br i1 %35, label %loop5, label %loop5_end
loop5_end:
  br label %if4_end
if4_end:
  br label %loop0_latch
loop0_latch:
  %loop0_next = add i64 %loop0_i, 1
  %36 = icmp slt i64 %loop0_next, %1
  br i1 %36, label %loop0, label %loop0_end
loop0_end:
  ret void
}
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
)");
}

TEST(EmitLlvm, ScalesByAnInstructionWhereThereIsOne) {
  compiler::Kernel kernel = UnaryKernel("exp", "f32");
  EXPECT_EQ(EmitLlvm(kernel, {}).find("scalef"), std::string::npos);
  EXPECT_NE(EmitLlvm(kernel, {.scale = true}).find("scalef"), std::string::npos);
}

int LanesOf(const compiler::Kernel& kernel, int stage = 0) {
  return VectorPlan(kernel).lanes(stage);
}

TEST(VectorPlan, VectorsAreLongWhereBodiesAreShort) {
  EXPECT_EQ(LanesOf(UnaryKernel("neg", "f32")), 64);
  EXPECT_EQ(LanesOf(UnaryKernel("neg", "bf16")), 64);
  EXPECT_EQ(LanesOf(UnaryKernel("exp", "f32")), 32);
  EXPECT_EQ(LanesOf(UnaryKernel("neg", "f64")), 32);
  EXPECT_EQ(LanesOf(UnaryKernel("exp", "f64")), 16);
  EXPECT_EQ(LanesOf(UnaryKernel("sin", "f32")), 16);     // computed in double
  EXPECT_EQ(LanesOf(UnaryKernel("lgamma", "f32")), 16);  // a call for each lane
}

TEST(VectorPlan, ElementsThatLieApartAreFew) {
  EXPECT_EQ(LanesOf(KernelOf(R"(
    %0 = input : f32[1000]
    %1 = slice %0 {dim=0, start=0, size=500, step=2} : f32[500]
    %2 = neg %1 : f32[500]
    return %2)")),
            16);
}

TEST(VectorPlan, EachStageHasItsOwn) {
  compiler::Kernel kernel = KernelOf(R"(
    %0 = input : f32[64,100]
    %1 = reduce_max %0 {dims=[1], keepdim=true} : f32[64,1]
    %2 = broadcast %1 {sizes=[64,100]} : f32[64,100]
    %3 = sub %0, %2 : f32[64,100]
    %4 = exp %3 : f32[64,100]
    return %4)");
  EXPECT_EQ(LanesOf(kernel, 0), 64);
  EXPECT_EQ(LanesOf(kernel, 1), 32);
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The loop that sums asks for the operand and the result of the loop after it; a kernel of one loop
// for nothing.
TEST(EmitLlvm, ALoopAsksForWhatTheNextOneTouchesFirst) {
  std::string text = EmitLlvm(KernelOf(R"(
    %0 = input : f32[64,128]
    %1 = input : f32[64,128]
    %2 = reduce_sum %0 {dims=[1], keepdim=true} : f32[64,1]
    %3 = broadcast %2 {sizes=[64,128]} : f32[64,128]
    %4 = sub %0, %3 : f32[64,128]
    %5 = mul %4, %1 : f32[64,128]
    return %5)"),
                              {});
  // 64 accumulators are 256 bytes, four lines.
  EXPECT_EQ(CountOf(text, "i32 0, i32 3, i32 1)"), 4) << text;
  EXPECT_EQ(CountOf(text, "i32 1, i32 3, i32 1)"), 4) << text;
  EXPECT_EQ(CountOf(EmitLlvm(UnaryKernel("neg", "f32"), {}), "prefetch"), 0);
}

// The loop with exp asks for the result, and for the operand of the next row, which lies by the row
// stride further.
TEST(EmitLlvm, ALoopWithPolynomialsAsksForTheNextRow) {
  std::string text = EmitLlvm(KernelOf(R"(
    %0 = input : f32[64,128]
    %1 = reduce_max %0 {dims=[1], keepdim=true} : f32[64,1]
    %2 = broadcast %1 {sizes=[64,128]} : f32[64,128]
    %3 = sub %0, %2 : f32[64,128]
    %4 = exp %3 : f32[64,128]
    %5 = reduce_sum %4 {dims=[1], keepdim=true} : f32[64,1]
    %6 = broadcast %5 {sizes=[64,128]} : f32[64,128]
    %7 = div %4, %6 : f32[64,128]
    return %7)"),
                              {});
  EXPECT_EQ(CountOf(text, "i32 0, i32 3, i32 1)"), 4) << text;
  EXPECT_EQ(CountOf(text, "i32 1, i32 3, i32 1)"), 4) << text;
}

}  // namespace
}  // namespace hammock::cpu
