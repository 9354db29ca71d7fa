// The delegate "hammock": torch._C._jit_to_backend("hammock", module, {"forward": {"device":
// "cpu"}}).
//
// Methods are inlined and their graphs become programs when the module is lowered, and again when a
// saved module is loaded. Parameters are read at every call where they are, so that a state dict
// that is loaded into the lowered module's memory is seen.

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/backends/backend.h>
#include <torch/csrc/jit/backends/backend_debug_handler.h>
#include <torch/csrc/jit/backends/backend_exception.h>
#include <torch/csrc/jit/backends/backend_preprocess.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_graph.h>
#include <torch/csrc/jit/passes/lower_tuples.h>

#include "engine/jit_graph.h"
#include "engine/values.h"

namespace hammock_torch {
namespace {

using hammock::Any;
using torch::jit::Graph;
using torch::jit::Node;

/// A compiled method: what `execute` gets as its handle.
struct Method : torch::CustomClassHolder {
  Method(std::string name, Program program, std::vector<c10::IValue> parameters,
         std::vector<c10::TypePtr> results)
      : name(std::move(name)),
        program(std::move(program)),
        parameters(std::move(parameters)),
        results(std::move(results)) {}

  std::string name;
  Program program;
  std::vector<c10::IValue> parameters;
  std::vector<c10::TypePtr> results;
};

hammock::Device DeviceOf(const c10::IValue& spec) {
  if (spec.isGenericDict()) {
    auto options = spec.toGenericDict();
    auto device = options.find("device");
    if (device != options.end()) return hammock::Device(device->value().toStringRef());
  }
  return hammock::Device("cpu");
}

/// Tensors with memory of their own; `type` as the method declares its result.
c10::IValue OwnedIValue(const Any& value, const c10::TypePtr& type) {
  if (value.IsTensor()) return ExportTensor(value.ToTensor());
  if (value.kind() == Any::Kind::kTuple) {
    std::vector<c10::IValue> items;
    auto tuple = type->cast<c10::TupleType>();
    for (size_t i = 0; i < value.ToList().size(); ++i) {
      items.push_back(
          OwnedIValue(value.ToList()[i], tuple ? tuple->elements()[i] : c10::AnyType::get()));
    }
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.kind() == Any::Kind::kDict && type->cast<c10::DictType>()) {
    c10::impl::GenericDict dict(c10::StringType::get(),
                                type->castRaw<c10::DictType>()->getValueType());
    for (const auto& [key, item] : value.ToDict()) {
      dict.insert(key, OwnedIValue(item, dict.valueType()));
    }
    return dict;
  }
  if (value.IsList() && type->cast<c10::ListType>()) {
    c10::impl::GenericList list(type->castRaw<c10::ListType>()->getElementType());
    for (const Any& item : value.ToList()) list.push_back(OwnedIValue(item, list.elementType()));
    return list;
  }
  return ToIValue(value, type);
}

class Delegate : public torch::jit::PyTorchBackendInterface {
 public:
  /// A device that is not there is an error of its own, which names those that are.
  bool is_available() override { return true; }

  c10::impl::GenericDict compile(c10::IValue processed,
                                 c10::impl::GenericDict method_compile_spec) override {
    torch::jit::Module module = processed.toModule();
    c10::impl::GenericDict handles(c10::StringType::get(), c10::AnyType::get());
    for (const auto& entry : method_compile_spec) {
      std::string name = entry.key().toStringRef();
      auto graph = module.get_method(name).graph()->copy();
      torch::jit::Inline(*graph);
      auto [lowered, parameters] = torch::jit::LowerGraph(*graph, module._ivalue());
      torch::jit::ConstantPropagation(lowered);
      torch::jit::EliminateDeadCode(lowered);
      std::vector<c10::TypePtr> results;
      for (const torch::jit::Value* output : lowered->outputs()) {
        auto tuple = output->type()->cast<c10::TupleType>();
        if (tuple && lowered->outputs().size() == 1) {
          for (const c10::TypePtr& item : tuple->elements()) results.push_back(item);
        } else {
          results.push_back(output->type());
        }
      }
      handles.insert(name, c10::IValue(c10::make_intrusive<Method>(
                               name, ProgramOf(*lowered, DeviceOf(entry.value())), parameters,
                               std::move(results))));
    }
    return handles;
  }

  c10::impl::GenericList execute(c10::IValue handle, c10::impl::GenericList inputs) override {
    auto method = handle.toCustomClass<Method>();
    const hammock::Device& device = method->program.device();
    std::vector<Any> given;
    for (const c10::IValue& input : inputs.vec()) given.push_back(FromIValue(input, device));
    for (const c10::IValue& input : method->parameters) given.push_back(FromIValue(input, device));
    std::vector<Any> computed = method->program.Run(given);
    given.clear();
    // A method that returns a tuple returns its items.
    if (computed.size() == 1 && computed[0].kind() == Any::Kind::kTuple) {
      computed = hammock::AnyList(computed[0].ToList());
    }
    std::vector<hammock::Tensor> tensors;
    for (const Any& value : computed) {
      if (value.IsTensor()) tensors.push_back(value.ToTensor());
    }
    hammock::LazyGraphExecutor::Get()->SyncTensorsGraph(tensors, true);
    tensors.clear();
    c10::impl::GenericList results(c10::AnyType::get());
    for (size_t i = 0; i < computed.size(); ++i) {
      Any value = std::exchange(computed[i], Any());
      results.push_back(OwnedIValue(value, method->results[i]));
    }
    return results;
  }
};

/// Modules are saved as they are, with their source: errors need no debug handles. The lite
/// interpreter, which has those alone, keeps no graphs and cannot load a lowered module.
c10::IValue Preprocess(const torch::jit::Module& module, const c10::Dict<c10::IValue, c10::IValue>&,
                       const torch::jit::BackendDebugHandleGenerator&) {
  return module._ivalue();
}

const auto method_class = torch::class_<Method>("hammock", "Method");
const auto delegate = torch::jit::backend<Delegate>("hammock");
const auto preprocess = torch::jit::backend_preprocess_register("hammock", Preprocess);

}  // namespace
}  // namespace hammock_torch
