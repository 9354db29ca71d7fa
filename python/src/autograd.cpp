#include "hammock/autograd.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert.h"
#include "errors.h"
#include "hammock/autocast.h"
#include "hammock/vmap.h"
#include "location.h"
#include "parts.h"
#include "release.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

using Tensors = std::vector<Tensor>;

Tensors TensorsFrom(nb::handle sequence, const char* what) {
  Tensors tensors;
  for (nb::handle item : nb::borrow(sequence)) {
    if (item.is_none()) {
      tensors.emplace_back();
    } else if (IsTensor(item.ptr())) {
      tensors.push_back(TensorOf(item.ptr()));
    } else {
      throw TypeError(ErrorCode::kSchema,
                      std::string(what) + ": takes tensors, not " + Py_TYPE(item.ptr())->tp_name);
    }
  }
  return tensors;
}

/// A Python function of a list of tensors.
TensorsFn FunctionOf(nb::handle callable, const char* what) {
  return [kept = Keep(callable), what](const Tensors& inputs) {
    nb::gil_scoped_acquire gil;
    return TensorsFrom(nb::handle(kept.get())(nb::cast(inputs)), what);
  };
}

/// The Python function that the tape holds for a custom function.
class PythonBackward : public Object {
 public:
  explicit PythonBackward(nb::handle function) : function(Keep(function)) {}
  std::string type_name() const override { return "hammock.python.Backward"; }
  const std::shared_ptr<PyObject> function;
};
constexpr const char* kBackwardKey = "python";

Tensors CallBackward(autograd::AutogradContext* context, Tensors grads) {
  nb::gil_scoped_acquire gil;
  auto backward =
      std::static_pointer_cast<PythonBackward>(context->saved_data.at(kBackwardKey).ToObject());
  nb::object results = nb::handle(backward->function.get())(
      nb::cast(context->get_saved_variables()), nb::cast(grads));
  return TensorsFrom(results, "backward");
}

Tensors FinishFunction(const Tensors& inputs, const Tensors& outputs, const Tensors& saved,
                       const Tensors& non_differentiable, bool materialize_grads,
                       nb::handle backward) {
  CallerLine line;
  auto context = std::make_shared<autograd::AutogradContext>();
  context->saved_data[kBackwardKey] =
      Any(std::shared_ptr<Object>(std::make_shared<PythonBackward>(backward)));
  context->save_for_backward(saved);
  context->mark_non_differentiable(non_differentiable);
  context->set_materialize_grads(materialize_grads);
  return autograd::FinishFunction(context, inputs, outputs, CallBackward, Location());
}

SampleDims SampleDimsFrom(nb::handle dims) {
  SampleDims result;
  for (nb::handle dim : nb::borrow(dims)) {
    result.push_back(dim.is_none() ? std::nullopt : std::optional(nb::cast<int64_t>(dim)));
  }
  return result;
}

Randomness RandomnessFrom(const std::string& name) {
  if (name == "error") return Randomness::kError;
  if (name == "different") return Randomness::kDifferent;
  if (name == "same") return Randomness::kSame;
  throw ValueError(ErrorCode::kValue,
                   "vmap: randomness must be 'error', 'different' or 'same', not '" + name + "'");
}

/// `fn` returns its results and their dims, which are known once it was called.
Tensors Vmap(nb::handle fn, nb::handle inputs, nb::handle in_dims, const std::string& randomness,
             std::optional<int64_t> chunk_size) {
  CallerLine line;
  VmapOptions options{.in_dims = SampleDimsFrom(in_dims),
                      .randomness = RandomnessFrom(randomness),
                      .chunk_size = chunk_size};
  TensorsFn call = [&, kept = Keep(fn)](const Tensors& tensors) {
    nb::gil_scoped_acquire gil;
    auto returned = nb::cast<nb::tuple>(nb::handle(kept.get())(nb::cast(tensors)));
    options.out_dims = SampleDimsFrom(returned[1]);
    return TensorsFrom(returned[0], "vmap");
  };
  return MapOver(call, TensorsFrom(inputs, "vmap"), options, Location());
}

/// A guard of C++ as a context manager: made by enter(), ended by exit().
template <class Guard>
struct Scope {
  std::unique_ptr<Guard> guard;
};

}  // namespace

void AddAutograd(nb::module_& module) {
  module.def(
      "backward",
      [](nb::handle tensors, nb::handle gradients, std::optional<bool> retain_graph,
         bool create_graph, nb::handle inputs) {
        CallerLine line;
        Tensors roots = TensorsFrom(tensors, "backward"),
                given = TensorsFrom(gradients, "backward"),
                leaves = TensorsFrom(inputs, "backward");
        backward(roots, given, retain_graph, create_graph, leaves, Location());
      },
      nb::arg("tensors"), nb::arg("gradients"), nb::arg("retain_graph").none(),
      nb::arg("create_graph"), nb::arg("inputs"));
  module.def(
      "grad",
      [](nb::handle outputs, nb::handle inputs, nb::handle grad_outputs,
         std::optional<bool> retain_graph, bool create_graph, bool allow_unused) {
        CallerLine line;
        return grad(TensorsFrom(outputs, "grad"), TensorsFrom(inputs, "grad"),
                    TensorsFrom(grad_outputs, "grad"), retain_graph, create_graph, allow_unused,
                    Location());
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("grad_outputs"),
      nb::arg("retain_graph").none(), nb::arg("create_graph"), nb::arg("allow_unused"));
  module.def("jvp", [](nb::handle fn, nb::handle inputs, nb::handle tangents) {
    CallerLine line;
    return jvp(FunctionOf(fn, "jvp"), TensorsFrom(inputs, "jvp"), TensorsFrom(tangents, "jvp"),
               Location());
  });
  module.def("checkpoint", [](nb::handle fn, nb::handle inputs) {
    CallerLine line;
    return checkpoint(FunctionOf(fn, "checkpoint"), TensorsFrom(inputs, "checkpoint"), Location());
  });
  module.def("finish_function", FinishFunction);
  module.def("vmap", Vmap, nb::arg("fn"), nb::arg("inputs"), nb::arg("in_dims"),
             nb::arg("randomness"), nb::arg("chunk_size").none());
  module.def("is_grad_enabled", &AutoGradMode::is_enabled,
             "Whether ops of this thread record history.");
  nb::class_<Scope<AutoGradMode>>(module, "GradMode")
      .def(nb::init<>())
      .def("enter", [](Scope<AutoGradMode>& self,
                       bool on) { self.guard = std::make_unique<AutoGradMode>(on); })
      .def("exit", [](Scope<AutoGradMode>& self) { self.guard.reset(); });
  nb::class_<Scope<AutocastGuard>>(module, "AutocastMode")
      .def(nb::init<>())
      .def(
          "enter",
          [](Scope<AutocastGuard>& self, nb::handle dtype) {
            CallerLine line;
            if (dtype.is_none()) {
              self.guard = std::make_unique<NoAutocastGuard>();
              return;
            }
            std::optional<DType> wanted = DTypeFrom(dtype.ptr());
            if (!wanted)
              ThrowTypeError("autocast: dtype must be hammock.bfloat16 or hammock.float16");
            self.guard = std::make_unique<AutocastGuard>(*wanted, Location());
          },
          nb::arg("dtype").none())
      .def("exit", [](Scope<AutocastGuard>& self) { self.guard.reset(); });
  module.def("requires_grad_", [](Tensor tensor, bool on) {
    CallerLine line;
    tensor.requires_grad_(on, Location());
  });
  module.def("retain_grad", [](Tensor tensor) {
    CallerLine line;
    tensor.retain_grad(Location());
  });
  module.def("register_hook", [](Tensor tensor, nb::handle hook) {
    CallerLine line;
    auto call = [kept = Keep(hook)](const Tensor& gradient) {
      nb::gil_scoped_acquire gil;
      nb::object result = nb::handle(kept.get())(nb::cast(gradient));
      if (result.is_none()) return Tensor();
      if (!IsTensor(result.ptr())) ThrowTypeError("a hook returns a Tensor or None");
      return TensorOf(result.ptr());
    };
    return tensor.register_hook(call, Location());
  });
  module.def("remove_hook", [](Tensor tensor, int64_t number) { tensor.remove_hook(number); });
  module.def("is_same", [](const Tensor& a, const Tensor& b) { return a.is_same(b); });
  module.def("is_alias_of", [](const Tensor& a, const Tensor& b) { return a.is_alias_of(b); });
  module.def("summary", [](const Tensor& tensor) { return tensor.summary(); });
  module.def("tensor_id", [](const Tensor& tensor) { return tensor.id(); });
  module.def("strides", [](const Tensor& tensor) {
    CallerLine line;
    return tensor.strides(Location()).vec();
  });
}

}  // namespace hammock::python
