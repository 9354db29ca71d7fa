#include "jit/delegate_registry.h"

#include <map>
#include <mutex>

#include "base/load_libraries.h"
#include "base/never_destroyed.h"
#include "base/throw.h"

namespace hammock::jit {
namespace {

std::string ClassNameOf(const std::string& name) {
  return std::string(kBackendsNamespace) + "." + name;
}

BackendInterface& Self(const Any& value) {
  return *ObjectAs<BackendInterface>(value, "a delegate");
}

/// Functions of backends by name, those of the library from the start.
template <class Fn>
class NamedFunctions {
 public:
  NamedFunctions(Fn Delegate::*own, const char* what) {
    for (const Delegate& delegate : InTreeDelegates()) Add(delegate.name, delegate.*own, what);
  }

  void Add(const std::string& name, Fn function, const char* what) {
    if (!function) Throw(ErrorCode::kValue, "{} for backend {} is empty.", what, name);
    std::lock_guard lock(mutex_);
    if (!functions_.emplace(name, std::move(function)).second) {
      Throw(ErrorCode::kDuplicateRegistration,
            "{} for backend {} is already registered. Ensure that registration is only called "
            "once.",
            what, name);
    }
  }

  Fn Get(const std::string& name, const char* what) {
    OpenListedLibraries();
    std::lock_guard lock(mutex_);
    auto entry = functions_.find(name);
    if (entry == functions_.end()) {
      Throw(ErrorCode::kNotRegistered, "{} for backend {} is not registered.", what, name);
    }
    return entry->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Fn> functions_;
};

constexpr char kPreprocess[] = "Preprocessing function";
constexpr char kCapability[] = "Capability function";

NamedFunctions<PreprocessFn>& Preprocessors() {
  static auto& functions =
      NeverDestroyed<NamedFunctions<PreprocessFn>>(&Delegate::preprocess, kPreprocess);
  return functions;
}

NamedFunctions<CapabilityFn>& Capabilities() {
  static auto& functions =
      NeverDestroyed<NamedFunctions<CapabilityFn>>(&Delegate::capability, kCapability);
  return functions;
}

}  // namespace

ClassDef BackendClass(const std::string& name,
                      std::function<std::shared_ptr<BackendInterface>()> make) {
  Function is_available{FunctionSchema::Parse("is_available(Any self) -> bool"),
                        [](Stack& stack) { Push(stack, Self(Pop(stack)).is_available()); }};
  Function compile{FunctionSchema::Parse("compile(Any self, Any processed, Dict(str, Any) "
                                         "method_compile_spec) -> Dict(str, Any)"),
                   [](Stack& stack) {
                     AnyDict spec = Pop(stack).ToDict();
                     Any processed = Pop(stack);
                     Push(stack, Self(Pop(stack)).compile(std::move(processed), std::move(spec)));
                   }};
  Function execute{FunctionSchema::Parse("execute(Any self, Any handle, Any[] input) -> Any[]"),
                   [](Stack& stack) {
                     AnyList inputs = Pop(stack).ToList();
                     Any handle = Pop(stack);
                     Push(stack, Self(Pop(stack)).execute(std::move(handle), std::move(inputs)));
                   }};
  std::string class_name = ClassNameOf(name);
  return {.name = class_name,
          .make =
              [class_name, make = std::move(make)] {
                std::shared_ptr<BackendInterface> object = make();
                object->SetClassName(class_name);
                return object;
              },
          .methods = {is_available, compile, execute}};
}

void RegisterBackendClass(const std::string& name,
                          std::function<std::shared_ptr<BackendInterface>()> make) {
  RegisterClass(BackendClass(name, std::move(make)));
}

bool backend_preprocess_register(const std::string& name, PreprocessFn preprocess) {
  Preprocessors().Add(name, std::move(preprocess), kPreprocess);
  return true;
}

bool backend_capability_register(const std::string& name, CapabilityFn capability) {
  Capabilities().Add(name, std::move(capability), kCapability);
  return true;
}

void RegisterDelegate(const Delegate& delegate) {
  Preprocessors().Add(delegate.name, delegate.preprocess, kPreprocess);
  Capabilities().Add(delegate.name, delegate.capability, kCapability);
  RegisterBackendClass(delegate.name, delegate.make);  // by which the delegate is found: last
}

PreprocessFn PreprocessOf(const std::string& name) {
  return Preprocessors().Get(name, kPreprocess);
}

CapabilityFn CapabilityOf(const std::string& name) { return Capabilities().Get(name, kCapability); }

bool IsDelegate(const std::string& name) { return FindClass(ClassNameOf(name)) != nullptr; }

void CheckBackendExists(const std::string& name) {
  OpenListedLibraries();
  if (IsDelegate(name)) return;
  std::string names;
  for (const std::string& known : ClassNames(kBackendsNamespace)) {
    names += (names.empty() ? "" : ", ") + known.substr(known.rfind('.') + 1);
  }
  Throw(ErrorCode::kUnknownName, "there is no backend '{}' of delegates; registered are {}", name,
        names);
}

std::shared_ptr<BackendInterface> NewBackend(const std::string& name) {
  CheckBackendExists(name);
  return ObjectAs<BackendInterface>(NewObject(ClassNameOf(name)), "a delegate");
}

}  // namespace hammock::jit
