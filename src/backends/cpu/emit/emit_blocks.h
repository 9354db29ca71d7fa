#pragma once
/// Prints the control flow of kernels as LLVM IR: loops, conditions, masks of vectors.

#include <string>

#include "backends/cpu/emit/llvm_text.h"

namespace hammock::cpu {

/// <0, 1, 2, ...>
std::string LaneNumbers(std::string_view element, int lanes);

class BlockEmitter {
 public:
  explicit BlockEmitter(compiler::IrText& ir) : ir_(ir) {}

  /// for (i = first; i < end; i += step) body(i). `first` is a number; the body may make blocks.
  template <class Body>
  void Loop(const std::string& first, const std::string& end, int64_t step, Body body) {
    std::string name = ir_.NewName("loop");
    std::string before = ir_.NewName("before");
    ir_.Line("br label %{}", before);
    ir_.Label(before);
    std::string any = ir_.Value("icmp slt i64 {}, {}", first, end);
    ir_.Line("br i1 {}, label %{}, label %{}_end", any, name, name);
    ir_.Label(name);
    ir_.Line("%{}_i = phi i64 [ {}, %{} ], [ %{}_next, %{}_latch ]", name, first, before, name,
             name);
    body("%" + name + "_i");
    ir_.Line("br label %{}_latch", name);
    ir_.Label(name + "_latch");
    ir_.Line("%{}_next = add i64 %{}_i, {}", name, name, step);
    std::string again = ir_.Value("icmp slt i64 %{}_next, {}", name, end);
    ir_.Line("br i1 {}, label %{}, label %{}_end", again, name, name);
    ir_.Label(name + "_end");
  }

  template <class Body>
  void If(const std::string& condition, Body body) {
    std::string name = ir_.NewName("if");
    ir_.Line("br i1 {}, label %{}, label %{}_end", condition, name, name);
    ir_.Label(name);
    body();
    ir_.Line("br label %{}_end", name);
    ir_.Label(name + "_end");
  }

  /// condition ? a() : b(), of this type, where only one of them runs.
  template <class A, class B>
  std::string Choose(const std::string& condition, const std::string& type, A a, B b) {
    std::string name = ir_.NewName("choice");
    ir_.Line("br i1 {}, label %{}_a, label %{}_b", condition, name, name);
    ir_.Label(name + "_a");
    std::string first = a();
    ir_.Line("br label %{}_end", name);
    ir_.Label(name + "_b");
    std::string second = b();
    ir_.Line("br label %{}_end", name);
    ir_.Label(name + "_end");
    return ir_.Value("phi {} [ {}, %{}_a ], [ {}, %{}_b ]", type, first, name, second, name);
  }

  /// To a multiple of `to`, a power of two.
  std::string RoundedDown(const std::string& count, int64_t to);
  /// Lanes of the vector at `first` that lie below `end`; no more than a few are behind it.
  std::string Mask(const std::string& first, const std::string& end, int lanes);

 private:
  compiler::IrText& ir_;
};

}  // namespace hammock::cpu
