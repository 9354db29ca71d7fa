#pragma once
/// The commands of a schedule as commands of an OpenCL queue, in order: launches of kernels, and
/// functions on the host.
///
/// Every kernel has the same parameters: the numbers of all launches of a program in one buffer,
/// the index of its own first one, and its pointers. Its own numbers begin with an offset in bytes
/// for each pointer; so one buffer object serves many values, and nothing but pointers is set for a
/// run.

#include <hammock/compiler/kernel.h>
#include <hammock/lazy/run_context.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opencl {

/// A kernel as text; `name` is derived from it.
struct KernelSource {
  std::string name;
  std::string text;
};

/// `parameters` are types and names of the pointers. In `body`, which ends the kernel, `w` are the
/// numbers behind the offsets. With `one_pointer` there is a single one, which all offsets are
/// from.
KernelSource MakeKernel(const std::vector<std::pair<std::string, std::string>>& parameters,
                        const std::string& body, bool one_pointer = false);

/// `text` with each `$name` replaced.
std::string Fill(std::string text,
                 const std::vector<std::pair<std::string_view, std::string>>& values);

/// Functions that kernels use, before all of them.
std::string_view Prelude();

/// The memory that a pointer of a launch points to.
struct Argument {
  enum class Kind { kBuffer, kScratch, kFaults };
  Kind kind = Kind::kBuffer;
  hammock::compiler::BufferId buffer;
  int64_t offset = 0;  ///< in bytes, in the command's scratch memory or in the faults
};

/// A function on the host: argument 0 is read, argument 1 written.
struct HostCommand {
  int64_t in_bytes = 0, out_bytes = 0;
  std::function<void(const hammock::lazy::RunContext& run, const void* in, void* out)> run;
};

/// A launch of a kernel, or a function on the host. A command of the schedule becomes one or
/// several.
struct QueuedCommand {
  std::string kernel;  ///< its name; empty for a function on the host
  std::vector<Argument> arguments;
  std::vector<int64_t> numbers;  ///< behind the offsets
  std::array<size_t, 3> global = {1, 1, 1};
  std::array<size_t, 3> local = {1, 1, 1};
  bool one_pointer = false;
  bool copies = false;  ///< argument 0 to argument 1: not needed where both are one
  HostCommand host = {};
};

}  // namespace opencl
