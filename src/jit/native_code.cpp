/// Machine code in archives: compiled ahead, used where it fits.
///
/// Section `native/cpu`: the CPU and the versions that the code was made for, then pairs of a key
/// and a serialised CodeBlob. The whole key of each kernel's code has CPU and versions in it too,
/// so that code of others is never found, whatever an archive says.

#include "backends/cpu/code/code_cache.h"
#include "backends/cpu/code/kernel_code.h"
#include "backends/cpu/emit/emit_llvm.h"
#include "backends/cpu/host_cpu.h"
#include "base/bytes.h"
#include "base/log.h"
#include "hammock/caller_scope.h"
#include "hammock/jit/compile_ahead.h"
#include "hammock/jit/to_backend.h"
#include "hammock/metrics.h"
#include "module/module_io.h"

namespace hammock {
namespace {

constexpr char kSection[] = "native/cpu";

/// What all keys begin with: versions, CPU and options.
std::string MadeFor() { return cpu::CodeKey("", {}); }

std::string CodeOf(const cpu::KernelRecorder& recorder) {
  ByteWriter out;
  out.Text(MadeFor());
  out.Count(recorder.kernels().size());
  for (const auto& kernel : recorder.kernels()) {
    out.Text(cpu::CodeKey(ToText(kernel->kernel()), {}));
    out.Text(
        cpu::SerializeCode(cpu::CompileCode(cpu::EmitLlvm(kernel->kernel(), cpu::HostTarget()))));
  }
  return out.Take();
}

void Refuse(const Archive& archive, const LoadOptions& options, const std::string& why) {
  if (options.require_native) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "{}: its native code cannot be used: {}",
                        archive.what(), why);
  }
  Log(LogLevel::kWarn, "{}: its native code is not used, graphs are compiled anew: {}",
      archive.what(), why);
}

}  // namespace

void LoadNativeCode(const Archive& archive, const LoadOptions& options) {
  if (!options.allow_native) return;
  static metrics::Counter& loaded = metrics::GetCounter("NativeCodeLoaded");
  const Archive::Section* section = archive.Find(kSection);
  if (!section) return Refuse(archive, options, "it has none");
  ByteReader in(archive.what(), section->bytes);
  std::string made_for = in.Text();
  if (made_for != MadeFor()) {
    return Refuse(archive, options,
                  fmt::format("it was made for another CPU or version\n  made for: {}\n  this is: "
                              " {}",
                              made_for, MadeFor()));
  }
  for (uint64_t count = in.Count(); count > 0; --count) {
    std::string key = in.Text();
    std::string code = in.Text();
    cpu::KeepCode(key, cpu::DeserializeCode(code));
    loaded.Add();
  }
  in.ExpectEnd();
}

void jit::compile_ahead(Module& module, const std::string& path, const LowerOptions& options,
                        Location at) {
  CallerScope caller(at);
  AnyDict spec;
  for (const Method& method : module.methods()) {
    bool has_graph = method.body || options.examples.contains(method.schema.name());
    if (has_graph) spec[method.schema.name()] = AnyDict();
  }
  if (spec.empty()) {
    Throw(ErrorCode::kValue, "compile: {} has no method that is a graph", module.class_name());
  }
  cpu::KernelRecorder recorder;
  ModulePtr lowered = to_backend("hammock", module, spec, options);
  ArchiveWriter archive = WriteModule(*lowered);
  archive.Add(kSection, CodeOf(recorder));
  archive.Save(path);
}

}  // namespace hammock
