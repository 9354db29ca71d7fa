#include "jit/lowered_module.h"

#include "base/throw.h"
#include "hammock/jit/to_backend.h"
#include "jit/delegate_registry.h"

namespace hammock::jit {
namespace {

[[noreturn]] void ThrowNotAvailable() {
  Throw<NotSupported>(ErrorCode::kNotSupported, "Backend is not available.");
}

/// The values that a delegate returned as the method's result: those of a tuple one by one.
Any PutTogether(const std::string& backend, const FunctionSchema& schema, AnyList outputs) {
  const auto& returns = schema.returns();
  bool is_tuple = returns.size() == 1 && returns[0].base == SchemaType::Base::kTuple &&
                  !returns[0].list && !returns[0].optional;
  size_t expected = is_tuple ? returns[0].inner.size() : returns.size();
  bool nothing = returns.size() == 1 && returns[0].base == SchemaType::Base::kNone;
  if (nothing && outputs.empty()) return Any();
  if (outputs.size() != expected) {
    Throw<TypeError>(ErrorCode::kSchema,
                     "backend {} returned {} values for method '{}', its schema has {}: {}",
                     backend, outputs.size(), schema.name(), expected, schema.to_string());
  }
  Any result = returns.size() == 1 && !is_tuple ? outputs[0] : Any::Tuple(std::move(outputs));
  schema.CheckReturned(result);
  for (const Tensor& tensor : PackTensors(result).tensors) {
    if (tensor.defined()) continue;
    Throw<TypeError>(ErrorCode::kSchema,
                     "backend {} returned an undefined tensor for method '{}', its schema has {}",
                     backend, schema.name(), schema.to_string());
  }
  return result;
}

}  // namespace

Any WithTraceback(const std::string& backend, const DebugInfo& info,
                  const std::vector<ModuleFrame>& frames, const std::function<Any()>& call) {
  try {
    return call();
  } catch (const BackendRuntimeException& error) {
    DelegateError(error.code(), Symbolicate(backend + ": " + error.message(), frames, info,
                                            error.debug_handles()))
        .Raise();
  } catch (const DelegateError&) {
    throw;  // of a lowered module that this one uses
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    DelegateError(error.code(), Symbolicate(backend + ": " + error.message(), frames, info, {}))
        .Raise();
  } catch (const std::exception& error) {
    DelegateError(ErrorCode::kExecute, Symbolicate(backend + ": " + error.what(), frames, info, {}))
        .Raise();
  } catch (...) {
    DelegateError(
        ErrorCode::kExecute,
        Symbolicate(backend + ": an exception that is no std::exception", frames, info, {}))
        .Raise();
  }
}

LoweredModule::LoweredModule(std::string backend, const std::string& original_class)
    : Module("hammock.jit.LoweredModule." + backend + "." + original_class),
      backend_name_(std::move(backend)) {
  set_attribute("__processed_module", Any());
  set_attribute("__method_compile_spec", AnyDict());
  set_attribute("__backend", Any());
  set_attribute("__handles", AnyDict());
  set_attribute("__backend_debug_info", Any());
  DefineHiddenMethods();
}

void LoweredModule::DefineHiddenMethods() {
  define("__create_backend() -> None", [this](Module&, const std::vector<Any>&) {
    CreateBackend();
    return Any();
  });
  define("__is_available() -> bool",
         [this](Module&, const std::vector<Any>&) { return Any(IsAvailable()); });
  define("__create_backend_debug_info() -> None", [this](Module&, const std::vector<Any>&) {
    SetDebugInfo(debug_info_);
    return Any();
  });
  define("__getstate__() -> Tuple(Dict(str, Any), Any, bool)",
         [this](Module&, const std::vector<Any>&) { return GetState(); });
  define("__setstate__(Tuple(Dict(str, Any), Any, bool) state) -> None",
         [this](Module&, const std::vector<Any>& args) {
           SetState(args[0]);
           return Any();
         });
}

void LoweredModule::AddMethod(const FunctionSchema& schema,
                              std::shared_ptr<const GraphBody> original) {
  define(
      Method{.schema = schema,
             .code = [this, schema](Module&,
                                    const std::vector<Any>& args) { return Execute(schema, args); },
             .body = std::move(original)});
}

void LoweredModule::SetDebugInfo(DebugInfo info) {
  debug_info_ = std::move(info);
  set_attribute("__backend_debug_info", debug_info_.ToAny());
}

std::vector<ModuleFrame> LoweredModule::OwnFrame() const {
  std::string type = class_name().substr(class_name().rfind('.') + 1);
  return {{fmt::format("{}({})::<unknown>", name(), type), ""}};
}

bool LoweredModule::CreateBackend() {
  Any available = WithTraceback(backend_name_, debug_info_, OwnFrame(), [&] {
    backend_ = NewBackend(backend_name_);
    return Any(backend_->is_available());
  });
  set_attribute("__backend", Any(std::shared_ptr<Object>(backend_)));
  return available.ToBool();
}

bool LoweredModule::IsAvailable() const {
  if (!backend_) return false;
  return WithTraceback(backend_name_, debug_info_, OwnFrame(),
                       [&] { return Any(backend_->is_available()); })
      .ToBool();
}

Any LoweredModule::GetState() const {
  return Any::Tuple({attribute("__method_compile_spec"), attribute("__processed_module"), true});
}

void LoweredModule::SetState(const Any& state) {
  const AnyList& parts = state.ToList();
  set_attribute("__method_compile_spec", Any(AnyDict(parts.at(0).ToDict())));
  set_attribute("__processed_module", parts.at(1));
  bool available = parts.at(2).ToBool() ? CreateBackend() : IsAvailable();
  if (!available) ThrowNotAvailable();
  Compile();
}

void LoweredModule::Compile() {
  const AnyDict& spec = attribute("__method_compile_spec").ToDict();
  Any handles = WithTraceback(backend_name_, debug_info_, OwnFrame(), [&] {
    return Any(backend_->compile(attribute("__processed_module"), spec));
  });
  for (const auto& [method, unused] : spec) {
    if (handles.ToDict().contains(method)) continue;
    std::string names;
    for (const auto& [key, handle] : handles.ToDict()) names += (names.empty() ? "" : ", ") + key;
    Throw<CompileError>(ErrorCode::kCompile,
                        "backend {} compiled no handle for method '{}', only for: {}",
                        backend_name_, method, names.empty() ? "none" : names);
  }
  handles_ = handles.ToDict();
  set_attribute("__handles", handles);
  compiled_ = true;
}

Any LoweredModule::Execute(const FunctionSchema& schema, const std::vector<Any>& args) const {
  if (!compiled_) ThrowNotAvailable();
  const Any& handle = handles_.at(schema.name());
  // Frames are collected when something fails: the usual call pays nothing.
  AnyList outputs;
  try {
    outputs = backend_->execute(handle, args);
  } catch (...) {
    WithTraceback(backend_name_, debug_info_, OpenFrames(), []() -> Any { throw; });
  }
  return PutTogether(backend_name_, schema, std::move(outputs));
}

std::pair<std::string, Any> LoweredModule::SavedState() const {
  std::string original = class_name().substr(std::string("hammock.jit.LoweredModule.").size() +
                                             backend_name_.size() + 1);
  return {kKind, Any::Tuple({backend_name_, original, GetState(), debug_info_.ToAny()})};
}

ModulePtr LoweredModule::Restore(const SavedModule& saved) {
  const AnyList& parts = saved.state.ToList();
  auto module =
      std::make_shared<LoweredModule>(parts.at(0).ToStringRef(), parts.at(1).ToStringRef());
  const Any& state = parts.at(2);
  for (const Method& method : saved.methods) {
    bool lowered = state.ToList().at(0).ToDict().contains(method.schema.name());
    if (lowered) module->AddMethod(method.schema, method.body);
  }
  module->SetDebugInfo(DebugInfo::FromAny(parts.at(3)));
  module->SetState(state);
  return module;
}

}  // namespace hammock::jit
