/// The optimisers of C++.

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <variant>

#include "convert.h"
#include "errors.h"
#include "gil.h"
#include "hammock/optim.h"
#include "location.h"
#include "parts.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

using optim::Optimizer;

/// An option of an optimiser by its name: a number or a flag.
template <class Options>
using Field = std::variant<double Options::*, bool Options::*>;
template <class Options>
using Fields = std::vector<std::pair<const char*, Field<Options>>>;

template <class Options>
Options OptionsFrom(const Fields<Options>& fields, const nb::dict& given) {
  Options options;
  for (auto [key, value] : given) {
    std::string name = nb::cast<std::string>(key);
    bool known = false;
    for (const auto& [field, member] : fields) {
      if (name != field) continue;
      known = true;
      std::optional<Scalar> number = ScalarFrom(value.ptr(), true);
      if (!number) {
        throw TypeError(ErrorCode::kSchema, "optimizer: '" + name + "' must be a number, not " +
                                                Py_TYPE(value.ptr())->tp_name);
      }
      if (auto* real = std::get_if<double Options::*>(&member))
        options.*(*real) = number->ToDouble();
      if (auto* flag = std::get_if<bool Options::*>(&member)) options.*(*flag) = number->ToBool();
    }
    if (!known) {
      std::string names;
      for (const auto& [field, member] : fields)
        names += (names.empty() ? "" : ", ") + std::string(field);
      throw TypeError(ErrorCode::kSchema,
                      "optimizer: there is no option '" + name + "'; there are " + names);
    }
  }
  return options;
}

/// Adds the class of one rule. Groups are pairs of parameters and options.
template <class Options>
void AddRule(nb::module_& module, const char* name, Fields<Options> fields) {
  using Rule = optim::Rule<Options>;
  nb::class_<Rule, optim::RuleOptimizer>(module, name)
      .def("__init__",
           [fields](Rule* self,
                    const std::vector<std::pair<std::vector<Tensor>, nb::dict>>& groups) {
             CallerLine line;
             std::vector<optim::Group<Options>> list;
             for (const auto& [params, options] : groups)
               list.push_back({params, OptionsFrom(fields, options)});
             new (self) Rule(std::move(list), Location());
           })
      .def("options", [fields](const Rule& self, int group) {
        CallerLine line;
        const Options& options = self.options(group);
        nb::dict named;
        for (const auto& [name, member] : fields)
          std::visit([&, name = name](auto field) { named[name] = options.*field; }, member);
        return named;
      });
}

}  // namespace

void AddOptim(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("optim");
  nb::class_<Optimizer>(module, "Optimizer")
      .def("zero_grad",
           [](Optimizer& self) {
             CallerLine line;
             self.zero_grad(Location());
           })
      .def("groups", &Optimizer::groups)
      .def("params", [](const Optimizer& self, int group) { return self.params(group); })
      .def("lr", [](const Optimizer& self, int group) { return self.lr(group); })
      .def("set_lr",
           [](Optimizer& self, int group, double lr) {
             CallerLine line;
             self.set_lr(group, lr);
           })
      .def("momentum", [](const Optimizer& self, int group) { return self.momentum(group); })
      .def("set_momentum",
           [](Optimizer& self, int group, double m) {
             CallerLine line;
             self.set_momentum(group, m);
           })
      .def("state_dict", [](const Optimizer& self) { return self.state_dict(); })
      .def("load_state_dict",
           [](Optimizer& self, const std::map<std::string, Tensor>& state) {
             CallerLine line;
             self.load_state_dict(state, Location());
           })
      .def("tensors", [](const Optimizer& self) { return self.tensors(); });
  nb::class_<optim::RuleOptimizer, Optimizer>(module, "RuleOptimizer")
      .def("step", [](optim::RuleOptimizer& self) {
        CallerLine line;
        self.step(Location());
      });
  nb::class_<optim::LBFGS, Optimizer>(module, "LBFGS")
      .def("__init__",
           [](optim::LBFGS* self, std::vector<Tensor> params, double lr, int64_t max_iter,
              std::optional<int64_t> max_eval, double tolerance_grad, double tolerance_change,
              int64_t history_size, bool line_search) {
             CallerLine line;
             new (self) optim::LBFGS(std::move(params),
                                     {lr, max_iter, max_eval, tolerance_grad, tolerance_change,
                                      history_size, line_search},
                                     Location());
           })
      .def("step", [](optim::LBFGS& self, const nb::callable& closure) {
        CallerLine line;
        auto loss = [&] {
          nb::gil_scoped_acquire gil;
          nb::object result = closure();
          if (!IsTensor(result.ptr())) ThrowTypeError("LBFGS: the closure must return the loss");
          return TensorOf(result.ptr());
        };
        WithoutGil no_gil;  // it reads numbers
        return self.step(loss, Location());
      });
  nb::class_<optim::EMA>(module, "EMA")
      .def("__init__",
           [](optim::EMA* self, std::vector<Tensor> params, double decay) {
             CallerLine line;
             new (self) optim::EMA(std::move(params), decay, Location());
           })
      .def(
          "update",
          [](optim::EMA& self) {
            CallerLine line;
            self.update(Location());
          },
          "Takes the parameters into the averages.")
      .def(
          "swap",
          [](optim::EMA& self) {
            CallerLine line;
            self.swap(Location());
          },
          "Exchanges the values of parameters and averages.")
      .def("averages", &optim::EMA::averages)
      .def("state_dict", [](const optim::EMA& self) { return self.state_dict(); })
      .def("load_state_dict", [](optim::EMA& self, const std::map<std::string, Tensor>& state) {
        CallerLine line;
        self.load_state_dict(state, Location());
      });
  using namespace optim;
#define HAMMOCK_FIELD(name) {#name, &O::name}
  {
    using O = SGDOptions;
    AddRule<O>(module, "SGD",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(momentum), HAMMOCK_FIELD(dampening),
                HAMMOCK_FIELD(weight_decay), HAMMOCK_FIELD(nesterov), HAMMOCK_FIELD(maximize)});
  }
  {
    using O = AdamOptions;
    AddRule<O>(module, "Adam",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(beta1), HAMMOCK_FIELD(beta2), HAMMOCK_FIELD(eps),
                HAMMOCK_FIELD(weight_decay), HAMMOCK_FIELD(amsgrad), HAMMOCK_FIELD(maximize)});
  }
  {
    using O = AdamWOptions;
    AddRule<O>(module, "AdamW",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(beta1), HAMMOCK_FIELD(beta2), HAMMOCK_FIELD(eps),
                HAMMOCK_FIELD(weight_decay), HAMMOCK_FIELD(amsgrad), HAMMOCK_FIELD(maximize)});
  }
  {
    using O = SparseAdamOptions;
    AddRule<O>(module, "SparseAdam",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(beta1), HAMMOCK_FIELD(beta2), HAMMOCK_FIELD(eps),
                HAMMOCK_FIELD(maximize)});
  }
  {
    using O = AdamaxOptions;
    AddRule<O>(module, "Adamax",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(beta1), HAMMOCK_FIELD(beta2), HAMMOCK_FIELD(eps),
                HAMMOCK_FIELD(weight_decay), HAMMOCK_FIELD(maximize)});
  }
  {
    using O = NAdamOptions;
    AddRule<O>(module, "NAdam",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(beta1), HAMMOCK_FIELD(beta2), HAMMOCK_FIELD(eps),
                HAMMOCK_FIELD(weight_decay), HAMMOCK_FIELD(momentum_decay)});
  }
  {
    using O = RAdamOptions;
    AddRule<O>(module, "RAdam",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(beta1), HAMMOCK_FIELD(beta2), HAMMOCK_FIELD(eps),
                HAMMOCK_FIELD(weight_decay)});
  }
  {
    using O = RMSpropOptions;
    AddRule<O>(
        module, "RMSprop",
        {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(alpha), HAMMOCK_FIELD(eps), HAMMOCK_FIELD(weight_decay),
         HAMMOCK_FIELD(momentum), HAMMOCK_FIELD(centered), HAMMOCK_FIELD(maximize)});
  }
  {
    using O = AdagradOptions;
    AddRule<O>(
        module, "Adagrad",
        {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(lr_decay), HAMMOCK_FIELD(weight_decay),
         HAMMOCK_FIELD(initial_accumulator_value), HAMMOCK_FIELD(eps), HAMMOCK_FIELD(maximize)});
  }
  {
    using O = AdadeltaOptions;
    AddRule<O>(module, "Adadelta",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(rho), HAMMOCK_FIELD(eps),
                HAMMOCK_FIELD(weight_decay), HAMMOCK_FIELD(maximize)});
  }
  {
    using O = LionOptions;
    AddRule<O>(module, "Lion",
               {HAMMOCK_FIELD(lr), HAMMOCK_FIELD(beta1), HAMMOCK_FIELD(beta2),
                HAMMOCK_FIELD(weight_decay)});
  }
#undef HAMMOCK_FIELD
  module.def(
      "clip_grad_norm_",
      [](const std::vector<Tensor>& params, double max_norm, double norm_type) {
        CallerLine line;
        return clip_grad_norm_(params, max_norm, norm_type, Location());
      },
      nb::arg("parameters"), nb::arg("max_norm"), nb::arg("norm_type") = 2.0,
      "Scales all gradients together so that their norm is at most `max_norm`; returns the norm "
      "they had.");
  module.def(
      "clip_grad_value_",
      [](const std::vector<Tensor>& params, double clip_value) {
        CallerLine line;
        clip_grad_value_(params, clip_value, Location());
      },
      nb::arg("parameters"), nb::arg("clip_value"), "Limits every element of the gradients.");
  nb::class_<GradScaler>(module, "GradScaler",
                         "Keeps the gradients of half precision from vanishing.")
      .def(
          "__init__",
          [](GradScaler* self, double init_scale, double growth_factor, double backoff_factor,
             int64_t growth_interval, bool enabled) {
            CallerLine line;
            new (self) GradScaler(
                {init_scale, growth_factor, backoff_factor, growth_interval, enabled, Device()},
                Location());
          },
          nb::kw_only(), nb::arg("init_scale") = 65536.0, nb::arg("growth_factor") = 2.0,
          nb::arg("backoff_factor") = 0.5, nb::arg("growth_interval") = 2000,
          nb::arg("enabled") = true)
      .def(
          "scale",
          [](const GradScaler& self, const Tensor& loss) {
            CallerLine line;
            return self.scale(loss, Location());
          },
          "The loss times the scale.")
      .def("_unscale",
           [](GradScaler& self, Optimizer& optimizer) {
             CallerLine line;
             self.unscale_(optimizer, Location());
           })
      .def("_step",
           [](GradScaler& self, RuleOptimizer& optimizer) {
             CallerLine line;
             self.step(optimizer, Location());
           })
      .def(
          "update",
          [](GradScaler& self) {
            CallerLine line;
            self.update(Location());
          },
          "The next scale.")
      .def(
          "get_scale",
          [](const GradScaler& self) {
            CallerLine line;
            WithoutGil no_gil;
            return self.get_scale(Location());
          },
          "The scale; computes.")
      .def("state_dict", [](const GradScaler& self) { return self.state_dict(); })
      .def("load_state_dict", [](GradScaler& self, const std::map<std::string, Tensor>& state) {
        CallerLine line;
        self.load_state_dict(state, Location());
      });
}

}  // namespace hammock::python
