#pragma once
/// For tests that need the LLVM plug-in, and texts that they compile.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "backends/cpu/code/code_cache.h"
#include "hammock/error.h"

namespace hammock::cpu {

/// Skipped where the plug-in is absent, with the reason.
class Compiled : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string reason = LlvmCompiler::WhyAbsent(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

template <class E>
std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.message();
  }
  return "no error";
}

#define EXPECT_CONTAINS(text, part)                                                      \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "in: " << (text) << "\n" \
                                                             << "wanted: " << (part)

/// out[i] = x[i] + y[i], 16 at a time.
inline constexpr const char* kAdd = R"(
define void @add(ptr %out, ptr %x, ptr %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %po = getelementptr float, ptr %out, i64 %i
  %a = load <16 x float>, ptr %px, align 4
  %b = load <16 x float>, ptr %py, align 4
  %c = fadd <16 x float> %a, %b
  store <16 x float> %c, ptr %po, align 4
  %next = add i64 %i, 16
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
})";

/// The sum of x[0..n), n a multiple of 8.
inline constexpr const char* kSum = R"(
declare float @llvm.vector.reduce.fadd.v8f32(float, <8 x float>)
define float @sum(ptr %x, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi <8 x float> [ zeroinitializer, %entry ], [ %new, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %a = load <8 x float>, ptr %px, align 4
  %new = fadd <8 x float> %sum, %a
  %next = add i64 %i, 8
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %r = call reassoc float @llvm.vector.reduce.fadd.v8f32(float 0.0, <8 x float> %new)
  ret float %r
})";

/// x + 0.1 * {1, ..., 16} and a table of bytes: constants beside the code.
inline constexpr const char* kConstants = R"(
@primes = private unnamed_addr constant [6 x i8] c"\02\03\05\07\0B\0D"
define void @ramp(ptr %x) {
  %a = load <4 x double>, ptr %x, align 8
  %b = fadd <4 x double> %a, <double 0.1, double 0.2, double 0.3, double 0.4>
  store <4 x double> %b, ptr %x, align 8
  ret void
}
define i32 @prime(i64 %i) {
  %p = getelementptr i8, ptr @primes, i64 %i
  %b = load i8, ptr %p
  %r = zext i8 %b to i32
  ret i32 %r
})";

}  // namespace hammock::cpu
