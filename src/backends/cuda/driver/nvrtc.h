#pragma once
/// CUDA C++ text to machine code, by NVRTC, which is opened at run time.

#include <string>

namespace hammock::cuda {

/// Empty if NVRTC can be opened.
const std::string& WhyNoNvrtc();
/// "13.0"
std::string NvrtcVersion();
/// The version whose code this process uses: that of NVRTC, or where it cannot be opened, the one
/// that filled `cache_dir`; "none" where there is neither.
std::string CompilerVersion();
/// The options of every compilation, except the architecture; part of the key of cached code.
std::string NvrtcOptions();
/// Machine code for an architecture such as 90. CompileError with the compiler's messages.
std::string CompileByNvrtc(const std::string& text, int architecture);
/// The same as assembly, for people.
std::string PtxByNvrtc(const std::string& text, int architecture);

}  // namespace hammock::cuda
