/// Distributions: the classes of C++, by PyTorch's names and arguments.

#include "hammock/distributions.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "convert.h"
#include "errors.h"
#include "hammock/ops.h"
#include "location.h"
#include "parts.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

namespace D = distributions;
using D::Distribution;
using MaybeTensor = std::optional<Tensor>;

nb::tuple TupleOf(const Dims& sizes) {
  nb::list list;
  for (int64_t size : sizes) list.append(size);
  return nb::tuple(list);
}

/// A list of sizes, or one size.
Dims SizesFrom(nb::handle object) {
  const SchemaType sizes{.base = SchemaType::Base::kInt, .list = true};
  Any value;
  if (!Convert(object.ptr(), sizes, value)) {
    throw TypeError(ErrorCode::kSchema, std::string("sample_shape must be a list of sizes, not ") +
                                            Py_TYPE(object.ptr())->tp_name);
  }
  Dims dims;
  for (const Any& size : value.ToList()) dims.push_back(size.ToInt());
  return dims;
}

/// A parameter that is a tensor or a number. The object must outlive it.
TensorArg Parameter(nb::handle object, const char* name) {
  if (IsTensor(object.ptr())) return {TensorOf(object.ptr()), Location()};
  if (std::optional<Scalar> number = ScalarFrom(object.ptr(), false)) return {*number, Location()};
  throw TypeError(ErrorCode::kSchema, std::string(name) + " must be a tensor or a number, not " +
                                          Py_TYPE(object.ptr())->tp_name);
}

/// Whether a distribution is given by its logits; ValueError unless it is either they or `probs`.
bool ByLogits(const char* name, nb::handle probs, nb::handle logits) {
  if (probs.is_none() == logits.is_none()) {
    throw ValueError(ErrorCode::kValue, std::string(name) + ": takes either probs or logits");
  }
  return probs.is_none();
}

/// Probabilities of zero or one, of whichever is given.
TensorArg Probabilities(const char* name, nb::handle probs, nb::handle logits, Tensor& made) {
  if (!ByLogits(name, probs, logits)) return Parameter(probs, "probs");
  TensorArg given = Parameter(logits, "logits");
  made = sigmoid(given.is_tensor() ? given.tensor() : full({}, given.scalar(), kDefaultFloat));
  return {made, Location()};
}

/// Probabilities of classes, of whichever is given.
Tensor ClassProbabilities(const char* name, const MaybeTensor& probs, const MaybeTensor& logits) {
  if (probs.has_value() == logits.has_value()) {
    throw ValueError(ErrorCode::kValue, std::string(name) + ": takes either probs or logits");
  }
  return probs ? *probs : softmax(*logits, -1);
}

/// A property that may record: errors have the caller's line.
template <class Result>
auto Recorded(Result (Distribution::*method)(Location) const) {
  return [method](const Distribution& self) {
    CallerLine line;
    return (self.*method)(Location());
  };
}

void AddBase(nb::module_& module) {
  auto value = [](Tensor (Distribution::*method)(const Tensor&, Location) const) {
    return [method](const Distribution& self, nb::handle value) {
      CallerLine line;
      TensorArg given = Parameter(value, "value");
      Tensor tensor = given.is_tensor() ? given.tensor() : full({}, given.scalar(), kDefaultFloat);
      return (self.*method)(tensor, Location());
    };
  };
  auto draw = [](Tensor (Distribution::*method)(const Dims&, Location) const) {
    return [method](const Distribution& self, nb::handle sample_shape) {
      CallerLine line;
      return (self.*method)(SizesFrom(sample_shape), Location());
    };
  };
  nb::class_<Distribution>(module, "Distribution", "What all distributions have.")
      .def_prop_ro(
          "batch_shape", [](const Distribution& d) { return TupleOf(d.batch_shape()); },
          "Sizes of the parameters: independent draws.")
      .def_prop_ro(
          "event_shape", [](const Distribution& d) { return TupleOf(d.event_shape()); },
          "Sizes of one draw.")
      .def_prop_ro("has_rsample", &Distribution::has_rsample,
                   "Whether draws have gradients with respect to the parameters.")
      .def("sample", draw(&Distribution::sample), nb::arg("sample_shape") = nb::make_tuple(),
           "Draws of sizes sample_shape, batch_shape, event_shape; without history.")
      .def("rsample", draw(&Distribution::rsample), nb::arg("sample_shape") = nb::make_tuple(),
           "Draws with gradients with respect to the parameters.")
      .def("log_prob", value(&Distribution::log_prob), nb::arg("value"),
           "The logarithm of the density or probability of each draw.")
      .def("cdf", value(&Distribution::cdf), nb::arg("value"), "The probability of at most value.")
      .def("icdf", value(&Distribution::icdf), nb::arg("value"), "The inverse of cdf.")
      .def("entropy", Recorded(&Distribution::entropy))
      .def_prop_ro("mean", Recorded(&Distribution::mean))
      .def_prop_ro("variance", Recorded(&Distribution::variance))
      .def_prop_ro("stddev", Recorded(&Distribution::stddev))
      .def("__repr__", [](const Distribution& d) {
        return nb::str("{}(batch_shape={}, event_shape={})")
            .format(d.name(), TupleOf(d.batch_shape()), TupleOf(d.event_shape()));
      });
}

/// A distribution of one parameter that is a tensor or a number.
template <class C>
void AddOne(nb::module_& module, const char* name, const char* parameter,
            const Tensor& (C::*get)() const, const char* doc) {
  nb::class_<C, Distribution>(module, name, doc)
      .def(
          "__init__",
          [parameter](C* self, nb::handle value, nb::handle) {
            CallerLine line;
            new (self) C(Parameter(value, parameter));
          },
          nb::arg(parameter), nb::arg("validate_args") = nb::none())
      .def_prop_ro(parameter, get);
}

/// The same of two.
template <class C>
void AddTwo(nb::module_& module, const char* name, const char* first, const char* second,
            const Tensor& (C::*get_first)() const, const Tensor& (C::*get_second)() const,
            const char* doc) {
  nb::class_<C, Distribution>(module, name, doc)
      .def(
          "__init__",
          [first, second](C* self, nb::handle a, nb::handle b, nb::handle) {
            CallerLine line;
            new (self) C(Parameter(a, first), Parameter(b, second));
          },
          nb::arg(first), nb::arg(second), nb::arg("validate_args") = nb::none())
      .def_prop_ro(first, get_first)
      .def_prop_ro(second, get_second);
}

void AddContinuous(nb::module_& module) {
  AddTwo(module, "Normal", "loc", "scale", &D::Normal::loc, &D::Normal::scale,
         "Of a mean and a standard deviation.");
  AddTwo(module, "LogNormal", "loc", "scale", &D::LogNormal::loc, &D::LogNormal::scale,
         "The exponential of a normal one.");
  AddTwo(module, "Uniform", "low", "high", &D::Uniform::low, &D::Uniform::high, "In [low, high).");
  AddTwo(module, "Laplace", "loc", "scale", &D::Laplace::loc, &D::Laplace::scale,
         "Two exponential ones back to back.");
  AddTwo(module, "Cauchy", "loc", "scale", &D::Cauchy::loc, &D::Cauchy::scale,
         "Mean and variance are NaN.");
  AddTwo(module, "Gumbel", "loc", "scale", &D::Gumbel::loc, &D::Gumbel::scale,
         "Of the largest of many draws.");
  AddTwo(module, "Gamma", "concentration", "rate", &D::Gamma::concentration, &D::Gamma::rate,
         "Of positive numbers, by concentration and rate.");
  AddTwo(module, "Beta", "concentration1", "concentration0", &D::Beta::concentration1,
         &D::Beta::concentration0, "Of numbers in [0, 1].");
  AddOne(module, "Exponential", "rate", &D::Exponential::rate, "Of positive numbers, by rate.");
  nb::class_<D::StudentT, Distribution>(module, "StudentT", "By its degrees of freedom.")
      .def(
          "__init__",
          [](D::StudentT* self, nb::handle df, nb::handle loc, nb::handle scale, nb::handle) {
            CallerLine line;
            new (self)
                D::StudentT(Parameter(df, "df"), Parameter(loc, "loc"), Parameter(scale, "scale"));
          },
          nb::arg("df"), nb::arg("loc") = 0.0, nb::arg("scale") = 1.0,
          nb::arg("validate_args") = nb::none())
      .def_prop_ro("df", &D::StudentT::df)
      .def_prop_ro("loc", &D::StudentT::loc)
      .def_prop_ro("scale", &D::StudentT::scale);
}

void AddDiscrete(nb::module_& module) {
  nb::class_<D::Bernoulli, Distribution>(module, "Bernoulli", "1 with a probability, else 0.")
      .def(
          "__init__",
          [](D::Bernoulli* self, nb::handle probs, nb::handle logits, nb::handle) {
            CallerLine line;
            if (ByLogits("Bernoulli", probs, logits) && IsTensor(logits.ptr())) {
              new (self) D::Bernoulli(D::Bernoulli::from_logits(TensorOf(logits.ptr())));
              return;
            }
            Tensor made;
            new (self) D::Bernoulli(Probabilities("Bernoulli", probs, logits, made));
          },
          nb::arg("probs") = nb::none(), nb::arg("logits") = nb::none(),
          nb::arg("validate_args") = nb::none())
      .def_prop_ro("probs", &D::Bernoulli::probs)
      .def_prop_ro("logits", &D::Bernoulli::logits);
  nb::class_<D::Categorical, Distribution>(
      module, "Categorical",
      "Numbers of classes, which are the last dim of the parameter; probs need not sum to one.")
      .def(
          "__init__",
          [](D::Categorical* self, const MaybeTensor& probs, const MaybeTensor& logits,
             nb::handle) {
            CallerLine line;
            if (logits && !probs) {
              new (self) D::Categorical(D::Categorical::from_logits(*logits, Location()));
            } else {
              new (self)
                  D::Categorical(ClassProbabilities("Categorical", probs, logits), Location());
            }
          },
          nb::arg("probs").none() = nb::none(), nb::arg("logits").none() = nb::none(),
          nb::arg("validate_args") = nb::none())
      .def_prop_ro("probs", &D::Categorical::probs)
      .def_prop_ro("logits", &D::Categorical::logits);
  nb::class_<D::Multinomial, Distribution>(module, "Multinomial",
                                           "How often each class came in total_count draws.")
      .def(
          "__init__",
          [](D::Multinomial* self, int64_t total_count, const MaybeTensor& probs,
             const MaybeTensor& logits, nb::handle) {
            CallerLine line;
            new (self) D::Multinomial(total_count, ClassProbabilities("Multinomial", probs, logits),
                                      Location());
          },
          nb::arg("total_count") = 1, nb::arg("probs").none() = nb::none(),
          nb::arg("logits").none() = nb::none(), nb::arg("validate_args") = nb::none())
      .def_prop_ro("total_count", &D::Multinomial::total_count)
      .def_prop_ro("probs", &D::Multinomial::probs);
  nb::class_<D::Binomial, Distribution>(module, "Binomial",
                                        "How often 1 came in total_count draws of Bernoulli.")
      .def(
          "__init__",
          [](D::Binomial* self, int64_t total_count, nb::handle probs, nb::handle logits,
             nb::handle) {
            CallerLine line;
            Tensor made;
            new (self) D::Binomial(total_count, Probabilities("Binomial", probs, logits, made));
          },
          nb::arg("total_count") = 1, nb::arg("probs") = nb::none(), nb::arg("logits") = nb::none(),
          nb::arg("validate_args") = nb::none())
      .def_prop_ro("total_count", &D::Binomial::total_count)
      .def_prop_ro("probs", &D::Binomial::probs);
  nb::class_<D::Geometric, Distribution>(module, "Geometric", "Failures before the first success.")
      .def(
          "__init__",
          [](D::Geometric* self, nb::handle probs, nb::handle logits, nb::handle) {
            CallerLine line;
            Tensor made;
            new (self) D::Geometric(Probabilities("Geometric", probs, logits, made));
          },
          nb::arg("probs") = nb::none(), nb::arg("logits") = nb::none(),
          nb::arg("validate_args") = nb::none())
      .def_prop_ro("probs", &D::Geometric::probs);
  AddOne(module, "Poisson", "rate", &D::Poisson::rate, "Of counts, by their mean.");
}

void AddMultivariate(nb::module_& module) {
  nb::class_<D::Dirichlet, Distribution>(module, "Dirichlet", "Of probabilities that sum to one.")
      .def(
          "__init__",
          [](D::Dirichlet* self, const Tensor& concentration, nb::handle) {
            CallerLine line;
            new (self) D::Dirichlet(concentration, Location());
          },
          nb::arg("concentration"), nb::arg("validate_args") = nb::none())
      .def_prop_ro("concentration", &D::Dirichlet::concentration);
  using Normal = D::MultivariateNormal;
  nb::class_<Normal, Distribution>(
      module, "MultivariateNormal",
      "By its covariance, the inverse of that, or its lower Cholesky factor.")
      .def(
          "__init__",
          [](Normal* self, const Tensor& loc, const MaybeTensor& covariance,
             const MaybeTensor& precision, const MaybeTensor& scale_tril, nb::handle) {
            CallerLine line;
            if (covariance.has_value() + precision.has_value() + scale_tril.has_value() != 1) {
              throw ValueError(ErrorCode::kValue,
                               "MultivariateNormal: takes one of covariance_matrix, "
                               "precision_matrix and scale_tril");
            }
            if (scale_tril) {
              new (self) Normal(Normal::from_scale_tril(loc, *scale_tril, Location()));
            } else {
              new (self) Normal(loc, covariance ? *covariance : linalg_inv(*precision), Location());
            }
          },
          nb::arg("loc"), nb::arg("covariance_matrix").none() = nb::none(),
          nb::arg("precision_matrix").none() = nb::none(),
          nb::arg("scale_tril").none() = nb::none(), nb::arg("validate_args") = nb::none())
      .def_prop_ro("loc", &Normal::loc)
      .def_prop_ro("scale_tril", &Normal::scale_tril)
      .def_prop_ro("covariance_matrix", [](const Normal& self) {
        CallerLine line;
        return self.covariance_matrix();
      });
  nb::class_<D::Independent, Distribution>(
      module, "Independent",
      "The last batch dims of a distribution as dims of its event: their log-probabilities are "
      "summed.")
      .def(
          "__init__",
          [](D::Independent* self, const std::shared_ptr<Distribution>& base, int dims,
             nb::handle) {
            CallerLine line;
            new (self) D::Independent(base, dims, Location());
          },
          nb::arg("base_distribution"), nb::arg("reinterpreted_batch_ndims"),
          nb::arg("validate_args") = nb::none())
      .def_prop_ro("base_dist", &D::Independent::base, nb::rv_policy::reference_internal)
      .def_prop_ro("reinterpreted_batch_ndims", &D::Independent::reinterpreted_batch_dims);
}

void AddTransforms(nb::module_& module) {
  using D::Transform;
  using One = std::function<Tensor(Tensor)>;
  using Two = std::function<Tensor(Tensor, Tensor)>;
  nb::class_<Transform>(
      module, "Transform",
      "An invertible elementwise function, with the logarithm of its derivative's magnitude.")
      .def(
          "__init__",
          [](Transform* self, One forward, One inverse, Two log_abs_det_jacobian,
             const std::string& name) {
            new (self) Transform{name, std::move(forward), std::move(inverse),
                                 std::move(log_abs_det_jacobian)};
          },
          nb::arg("forward"), nb::arg("inverse"), nb::arg("log_abs_det_jacobian"),
          nb::arg("name") = "Transform")
      .def_ro("name", &Transform::name)
      .def("__call__",
           [](const Transform& self, const Tensor& x) {
             CallerLine line;
             return self.forward(x);
           })
      .def(
          "inverse",
          [](const Transform& self, const Tensor& y) {
            CallerLine line;
            return self.inverse(y);
          },
          nb::arg("y"))
      .def(
          "log_abs_det_jacobian",
          [](const Transform& self, const Tensor& x, const Tensor& y) {
            CallerLine line;
            return self.log_abs_det_jacobian(x, y);
          },
          nb::arg("x"), nb::arg("y"))
      .def("__repr__", [](const Transform& self) { return self.name + "()"; });
  module.def(
      "AffineTransform",
      [](nb::handle loc, nb::handle scale) {
        CallerLine line;
        return D::AffineTransform(Parameter(loc, "loc"), Parameter(scale, "scale"));
      },
      nb::arg("loc"), nb::arg("scale"), "loc + scale * x");
  module.def(
      "PowerTransform",
      [](nb::handle exponent) {
        CallerLine line;
        return D::PowerTransform(Parameter(exponent, "exponent"));
      },
      nb::arg("exponent"), "x ** exponent");
  module.def("ExpTransform", D::ExpTransform);
  module.def("SigmoidTransform", D::SigmoidTransform);
  module.def("TanhTransform", D::TanhTransform);
  module.def("SoftplusTransform", D::SoftplusTransform);
  using Transformed = D::TransformedDistribution;
  nb::class_<Transformed, Distribution>(
      module, "TransformedDistribution",
      "Draws of a base, to which transforms are applied in order.")
      .def(
          "__init__",
          [](Transformed* self, const std::shared_ptr<Distribution>& base, nb::handle transforms,
             nb::handle) {
            CallerLine line;
            std::vector<Transform> list;
            if (nb::isinstance<Transform>(transforms)) {
              list.push_back(nb::cast<Transform>(transforms));
            } else {
              list = nb::cast<std::vector<Transform>>(transforms);
            }
            new (self) Transformed(base, std::move(list));
          },
          nb::arg("base_distribution"), nb::arg("transforms"),
          nb::arg("validate_args") = nb::none())
      .def_prop_ro("base_dist", &Transformed::base, nb::rv_policy::reference_internal);
}

}  // namespace

void AddDistributions(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("distributions");
  AddBase(module);
  AddContinuous(module);
  AddDiscrete(module);
  AddMultivariate(module);
  AddTransforms(module);
  module.def(
      "kl_divergence",
      [](const Distribution& p, const Distribution& q) {
        CallerLine line;
        return D::kl_divergence(p, q, Location());
      },
      nb::arg("p"), nb::arg("q"),
      "The Kullback-Leibler divergence of p from q, for each of their batches.");
}

}  // namespace hammock::python
