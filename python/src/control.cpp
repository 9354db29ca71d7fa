/// Branches and loops of Python functions.

#include "hammock/control.h"

#include <nanobind/stl/vector.h>

#include "errors.h"
#include "location.h"
#include "parts.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

using Tensors = std::vector<Tensor>;

/// A Python function of a list of tensors, which is called only while this call lasts.
ControlFn FunctionOf(nb::handle function) {
  return [function](const Tensors& inputs) {
    nb::list list;
    for (const Tensor& input : inputs) list.append(nb::cast(input));
    return nb::cast<Tensors>(function(list));
  };
}

}  // namespace

void AddControl(nb::module_& module) {
  module.def("cond", [](const Tensor& predicate, nb::handle then, nb::handle otherwise,
                        const Tensors& operands, const Tensors& used) {
    CallerLine line;
    return cond(predicate, FunctionOf(then), FunctionOf(otherwise), operands, used, Location());
  });
  module.def("while_loop", [](nb::handle condition, nb::handle body, const Tensors& carried) {
    CallerLine line;
    return while_loop(FunctionOf(condition), FunctionOf(body), carried, Location());
  });
  module.def("for_loop", [](int64_t count, nb::handle body, const Tensors& carried,
                            const Tensors& stacked, const Tensors& used) {
    CallerLine line;
    return for_loop(count, FunctionOf(body), carried, stacked, used, Location());
  });
}

}  // namespace hammock::python
