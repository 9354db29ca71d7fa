#include "backends/cpu/code/llvm/llvm_plugin.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/never_destroyed.h"

namespace {

/// Owns one of LLVM's objects.
template <class T, void (*dispose)(T*)>
struct Disposer {
  void operator()(T* object) const { dispose(object); }
};
template <class Ref, void (*dispose)(Ref)>
using Owned =
    std::unique_ptr<std::remove_pointer_t<Ref>, Disposer<std::remove_pointer_t<Ref>, dispose>>;
using Context = Owned<LLVMContextRef, LLVMContextDispose>;
using Module = Owned<LLVMModuleRef, LLVMDisposeModule>;
using Buffer = Owned<LLVMMemoryBufferRef, LLVMDisposeMemoryBuffer>;
using TargetMachine = Owned<LLVMTargetMachineRef, LLVMDisposeTargetMachine>;
using MachineOptions = Owned<LLVMTargetMachineOptionsRef, LLVMDisposeTargetMachineOptions>;
using PassOptions = Owned<LLVMPassBuilderOptionsRef, LLVMDisposePassBuilderOptions>;

/// Thrown by a compilation without a result.
struct Failure {
  std::string text;
};

std::string WithoutLineEnd(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// The text of one of LLVM's messages, which is freed.
std::string Take(char* message) {
  std::string text = message ? message : "";
  LLVMDisposeMessage(message);
  return WithoutLineEnd(text);
}

// If LLVM cannot continue ("cannot select ...") it calls this and, if this returns, ends the
// process. Its frames have unwind tables but nothing to clean up: their memory is leaked.
thread_local bool compiling = false;

void OnFatalError(const char* reason) {
  if (compiling) throw Failure{"it gave up: " + WithoutLineEnd(reason)};
}

/// Sets LLVM up, once per process.
void SetUp() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeX86AsmParser();
  // The emitter makes its own addresses and puts independent operations side by side, and CPUs
  // reorder by themselves: these passes would only take time.
  const char* arguments[] = {"hammock", "-disable-lsr", "-enable-misched=false",
                             "-disable-post-ra"};
  LLVMParseCommandLineOptions(std::size(arguments), arguments, nullptr);
  LLVMInstallFatalErrorHandler(OnFatalError);
}

/// The passes that make object code. To build some two hundred of them takes as long as to run them
/// on a small kernel, so they are kept.
class Emitter {
 public:
  explicit Emitter(LLVMTargetMachineRef target) {
    auto* machine = reinterpret_cast<llvm::TargetMachine*>(target);
    if (machine->addPassesToEmitFile(passes_, stream_, nullptr,
                                     llvm::CodeGenFileType::ObjectFile)) {
      throw Failure{"LLVM writes no object files for this target"};
    }
  }

  /// Valid until the next call.
  std::string_view Run(LLVMModuleRef module) {
    bytes_.clear();
    passes_.run(*llvm::unwrap(module));
    return {bytes_.data(), bytes_.size()};
  }

 private:
  llvm::SmallVector<char, 0> bytes_;
  llvm::raw_svector_ostream stream_{bytes_};
  llvm::legacy::PassManager passes_;
};

/// A compiler for one target, used by one thread at a time. Free ones are kept for the next
/// compilation of any thread; there are as many as compilations ever ran at once, times the
/// targets.
struct Machine {
  std::string cpu;
  std::string features;
  int effort;
  Context context;  // of all its modules; it keeps their types and constants
  TargetMachine target;
  std::unique_ptr<Emitter> emitter;
  int compiles = 0;

  bool Serves(const HammockLlvmRequest& request) const {
    return effort == request.effort && cpu == request.cpu && features == request.features;
  }
};

struct Machines {
  std::mutex mutex;
  std::vector<Machine> free;
};

// Never destroyed: other threads may compile while the process ends.
Machines& FreeMachines() {
  static auto& machines = hammock::NeverDestroyed<Machines>();
  return machines;
}

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

Machine MakeMachine(const HammockLlvmRequest& request) {
  LLVMTargetRef target = nullptr;
  char* error = nullptr;
  if (LLVMGetTargetFromTriple(kTriple, &target, &error)) throw Failure{Take(error)};
  MachineOptions options(LLVMCreateTargetMachineOptions());
  LLVMTargetMachineOptionsSetCPU(options.get(), request.cpu);
  LLVMTargetMachineOptionsSetFeatures(options.get(), request.features);
  LLVMTargetMachineOptionsSetRelocMode(options.get(), LLVMRelocPIC);
  LLVMTargetMachineOptionsSetCodeModel(options.get(), LLVMCodeModelSmall);
  LLVMTargetMachineOptionsSetCodeGenOptLevel(
      options.get(), request.effort == 0 ? LLVMCodeGenLevelNone : LLVMCodeGenLevelDefault);
  TargetMachine machine(LLVMCreateTargetMachineWithOptions(target, kTriple, options.get()));
  if (!machine) throw Failure{"LLVM made no target machine for " + std::string(request.cpu)};
  LLVMSetTargetMachineAsmVerbosity(machine.get(), 1);
  auto emitter = std::make_unique<Emitter>(machine.get());
  return {request.cpu,
          request.features,
          request.effort,
          Context(LLVMContextCreate()),
          std::move(machine),
          std::move(emitter),
          0};
}

Machine TakeMachine(const HammockLlvmRequest& request) {
  Machines& machines = FreeMachines();
  {
    std::lock_guard lock(machines.mutex);
    for (Machine& machine : machines.free) {
      if (!machine.Serves(request)) continue;
      Machine taken = std::move(machine);
      machine = std::move(machines.free.back());
      machines.free.pop_back();
      return taken;
    }
  }
  return MakeMachine(request);
}

void GiveBack(Machine machine) {
  constexpr int kMostCompiles = 512;  // then its context is released
  if (++machine.compiles >= kMostCompiles) return;
  Machines& machines = FreeMachines();
  std::lock_guard lock(machines.mutex);
  machines.free.push_back(std::move(machine));
}

/// Errors of passes and of code generation come here; without it LLVM prints and exits.
void OnDiagnostic(LLVMDiagnosticInfoRef info, void* context) {
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  auto& errors = *static_cast<std::string*>(context);
  if (!errors.empty()) errors += "; ";
  errors += Take(LLVMGetDiagInfoDescription(info));
}

Module Parse(LLVMContextRef context, const HammockLlvmRequest& request) {
  LLVMMemoryBufferRef text =
      LLVMCreateMemoryBufferWithMemoryRangeCopy(request.ir, request.ir_size, "ir");
  LLVMModuleRef module = nullptr;
  char* error = nullptr;
  if (LLVMParseIRInContext(context, text, &module, &error)) throw Failure{Take(error)};
  Module owner(module);
  if (LLVMVerifyModule(module, LLVMReturnStatusAction, &error)) throw Failure{Take(error)};
  LLVMDisposeMessage(error);
  return owner;
}

const char* PassesOf(int effort) {
  return effort == 0 ? "" : effort == 1 ? "function(sroa,early-cse<memssa>)" : "default<O2>";
}

void RunPasses(LLVMModuleRef module, const Machine& machine) {
  const char* passes = PassesOf(machine.effort);
  if (!*passes) return;
  PassOptions options(LLVMCreatePassBuilderOptions());
  if (LLVMErrorRef error = LLVMRunPasses(module, passes, machine.target.get(), options.get())) {
    char* message = LLVMGetErrorMessage(error);
    Failure failure{message};
    LLVMDisposeErrorMessage(message);
    throw failure;
  }
}

std::string Emit(LLVMModuleRef module, const Machine& machine, bool assembly) {
  if (!assembly) return std::string(machine.emitter->Run(module));
  char* error = nullptr;
  LLVMMemoryBufferRef code = nullptr;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine.target.get(), module, LLVMAssemblyFile, &error,
                                          &code)) {
    throw Failure{Take(error)};
  }
  Buffer owner(code);
  return std::string(LLVMGetBufferStart(code), LLVMGetBufferSize(code));
}

/// The objects of a compilation that LLVM gave up. They may be in any state, so they are leaked.
struct Remains {
  Machine machine;
  Module module;
};

void Keep(Remains remains) {
  static auto& mutex = hammock::NeverDestroyed<std::mutex>();
  static auto& kept = hammock::NeverDestroyed<std::vector<Remains>>();
  std::lock_guard lock(mutex);
  kept.push_back(std::move(remains));
}

std::string Compile(const HammockLlvmRequest& request) {
  std::string errors;
  Machine machine = TakeMachine(request);
  LLVMContextSetDiagnosticHandler(machine.context.get(), OnDiagnostic, &errors);
  Module module;
  try {
    module = Parse(machine.context.get(), request);
  } catch (const Failure&) {
    GiveBack(std::move(machine));
    throw;
  }
  LLVMSetTarget(module.get(), kTriple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine.target.get());
  LLVMSetModuleDataLayout(module.get(), layout);
  LLVMDisposeTargetData(layout);
  std::string code;
  try {
    RunPasses(module.get(), machine);
    code = Emit(module.get(), machine, request.assembly != 0);
  } catch (const Failure&) {
    Keep({std::move(machine), std::move(module)});
    throw;
  }
  module.reset();
  if (!errors.empty()) throw Failure{errors};  // and the machine is not used again
  GiveBack(std::move(machine));
  return code;
}

int32_t CompileAndGive(const HammockLlvmRequest* request, HammockLlvmTake take, void* context) {
  std::string error;
  compiling = true;
  try {
    std::string code = Compile(*request);
    compiling = false;
    take(context, code.data(), code.size());
    return 0;
  } catch (const Failure& failure) {
    error = failure.text;
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  compiling = false;
  take(context, error.data(), error.size());
  return 1;
}

HammockLlvmTableV1 MakeTable() {
  SetUp();
  unsigned major = 0, minor = 0, patch = 0;
  LLVMGetVersion(&major, &minor, &patch);
  static const auto& version = hammock::NeverDestroyed<std::string>(
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch));
  return {HAMMOCK_LLVM_ABI, version.c_str(), LLVMGetHostCPUName(), LLVMGetHostCPUFeatures(),
          CompileAndGive};
}

}  // namespace

/// LLVM is never torn down: a thread may compile while the process ends. Libraries that are loaded
/// with this one find it in the C library's place (RTLD_DEEPBIND), so their destructors are
/// forgotten.
extern "C" __attribute__((visibility("default"))) int __cxa_atexit(void (*)(void*), void*, void*) {
  return 0;
}

extern "C" __attribute__((visibility("default"))) const HammockLlvmTableV1* HammockLlvmTable() {
  static const HammockLlvmTableV1 table = MakeTable();
  return &table;
}
