// The delegate "hammock": torch._C._jit_to_backend("hammock", module, {"forward": {"device":
// "cpu"}}).
//
// Methods are inlined and their graphs become programs when the module is lowered, and again when a
// saved module is loaded. Parameters are read at every call where they are, so that a state dict
// that is loaded into the lowered module's memory is seen. Writes to inputs and buffers are
// copied into their memory when the call ends.

#include <ATen/MemoryOverlap.h>
#include <hammock/ir/node.h>
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
using hammock::Tensor;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

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

/// The attribute of `module` that a value of a method's graph stands for.
c10::IValue AttributeOf(const Value& value, const torch::jit::Module& module) {
  if (value.node()->kind() != c10::prim::GetAttr) return module._ivalue();
  c10::IValue owner = AttributeOf(*value.node()->input(), module);
  return owner.toObjectRef().getAttr(value.node()->s(c10::attr::name));
}

bool IsNumberOrText(const c10::TypePtr& type) {
  return type->isSubtypeOf(*c10::NumberType::get()) || type->kind() == c10::TypeKind::BoolType ||
         type->kind() == c10::TypeKind::StringType;
}

/// Numbers, flags (`training`) and strings of the module as constants: LowerGraph takes tensors.
void FoldAttributes(torch::jit::Block& block, const torch::jit::Module& module) {
  for (Node* node : block.nodes()) {
    for (torch::jit::Block* inner : node->blocks()) FoldAttributes(*inner, module);
    if (node->kind() != c10::prim::GetAttr || !IsNumberOrText(node->output()->type())) continue;
    torch::jit::WithInsertPoint before(node);
    c10::IValue constant = AttributeOf(*node->output(), module);
    node->output()->replaceAllUsesWith(block.owningGraph()->insertConstant(constant));
  }
}

/// A tensor of a call: PyTorch's, and Hammock's over the same memory.
struct Argument {
  at::Tensor theirs;
  Tensor ours;
  hammock::Value before;  ///< of `ours`
};

/// Appends the tensors of `input`, of which `made` was made.
void AddArguments(const c10::IValue& input, const Any& made, std::vector<Argument>& arguments) {
  if (made.IsTensor()) {
    arguments.push_back({input.toTensor(), made.ToTensor(), made.ToTensor().value()});
  } else if (made.kind() == Any::Kind::kDict) {
    for (const auto& item : input.toGenericDict()) {
      AddArguments(item.value(), made.ToDict().at(item.key().toStringRef()), arguments);
    }
  } else if (made.IsSequence()) {
    c10::ArrayRef<c10::IValue> items =
        input.isTuple() ? c10::ArrayRef<c10::IValue>(input.toTupleRef().elements())
                        : input.toListRef();
    for (size_t i = 0; i < items.size(); ++i) AddArguments(items[i], made.ToList()[i], arguments);
  }
}

/// The arguments that were written since.
std::vector<Argument> Written(const std::vector<Argument>& arguments) {
  std::vector<Argument> written;
  for (const Argument& argument : arguments) {
    if (argument.ours.value() == argument.before) continue;
    for (const Argument& other : arguments) {
      auto overlap = at::get_overlap_status(argument.theirs, other.theirs);
      bool apart = overlap == at::MemOverlapStatus::No || overlap == at::MemOverlapStatus::TooHard;
      TORCH_CHECK(apart || &other == &argument,
                  "hammock: the method writes to a tensor that shares memory with another one");
    }
    written.push_back({argument.theirs, argument.ours, {}});
  }
  return written;
}

void WriteBack(std::vector<Argument> written) {
  at::NoGradGuard no_grad;
  // All of it before the first write: a new value may be the memory of another argument.
  std::vector<at::Tensor> values;
  for (Argument& argument : written)
    values.push_back(ExportTensor(std::exchange(argument.ours, {})));
  for (size_t i = 0; i < values.size(); ++i) written[i].theirs.copy_(values[i]);
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
      auto method = module.find_method(name);
      TORCH_CHECK(method, "hammock: the module has no graph of a method '", name,
                  "'; archives for the lite interpreter have none");
      auto graph = method->graph()->copy();
      torch::jit::Inline(*graph);
      FoldAttributes(*graph->block(), module);
      torch::jit::ConstantPropagation(graph);  // and branches that flags decide
      torch::jit::EliminateDeadCode(graph);
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
    std::vector<c10::IValue> values = inputs.vec();
    values.insert(values.end(), method->parameters.begin(), method->parameters.end());
    std::vector<Any> given;
    std::vector<Argument> arguments;
    for (const c10::IValue& value : values) {
      given.push_back(FromIValue(value, device));
      AddArguments(value, given.back(), arguments);
    }
    std::vector<Any> computed = method->program.Run(given);
    given.clear();
    arguments = Written(arguments);
    // A method that returns a tuple returns its items.
    if (computed.size() == 1 && computed[0].kind() == Any::Kind::kTuple) {
      computed = hammock::AnyList(computed[0].ToList());
    }
    std::vector<Tensor> tensors;
    for (const Argument& argument : arguments) tensors.push_back(argument.ours);
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
    WriteBack(std::move(arguments));
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
