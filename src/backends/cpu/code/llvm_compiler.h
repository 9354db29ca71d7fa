#pragma once
/// LLVM behind a plug-in library, `libhammock-llvm.so`: IR text in, object code out. The plug-in is
/// looked for when the first code is compiled: the file that the option `cpu.llvm_plugin` names,
/// else one in the folder of the library, else in the search path of the system.

#include <string>
#include <string_view>

struct HammockLlvmTableV1;

namespace hammock::cpu {

/// The optimisation level.
enum class Effort {
  kQuick,   ///< no passes, simple code; slow kernels
  kNormal,  ///< for IR with explicit vectors and addresses, as the emitter prints it
  kFull,    ///< all of LLVM's usual passes, loop vectoriser included
};

struct CompileOptions {
  Effort effort = Effort::kNormal;
  std::string cpu = {};       ///< LLVM's name; empty: this machine's, with its features
  std::string features = {};  ///< such as "+avx2,-avx512f"; used where `cpu` is given
};

/// Thread-safe: several threads may compile at once. Lives as long as the process.
class LlvmCompiler {
 public:
  /// Throws NotSupported with the reason if there is no usable plug-in.
  static const LlvmCompiler& Get();
  /// Why there is no usable plug-in; empty if there is one.
  static std::string WhyAbsent();
  /// Whether the option `cpu.llvm_plugin` asks for none.
  static bool IsOff();

  std::string_view version() const;
  std::string_view host_cpu() const;
  std::string_view host_features() const;

  /// An ELF object. CompileError with LLVM's message if the text is wrong.
  std::string Compile(std::string_view ir, const CompileOptions& options = {}) const;
  /// The same as assembly text, for people.
  std::string Assembly(std::string_view ir, const CompileOptions& options = {}) const;

  explicit LlvmCompiler(const HammockLlvmTableV1& table) : table_(table) {}

 private:
  std::string Run(std::string_view ir, const CompileOptions& options, bool assembly) const;

  const HammockLlvmTableV1& table_;
};

}  // namespace hammock::cpu
