/// Sparse tensors.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert.h"
#include "errors.h"
#include "gil.h"
#include "hammock/sparse.h"
#include "location.h"
#include "parts.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

using Sizes = std::vector<int64_t>;
using MaybeInt = std::optional<int64_t>;

std::optional<Dims> DimsOf(const std::optional<Sizes>& sizes) {
  return sizes ? std::optional<Dims>(*sizes) : std::nullopt;
}

nb::tuple TupleOf(const Dims& sizes) {
  nb::list list;
  for (int64_t size : sizes) list.append(size);
  return nb::tuple(list);
}

/// A number, as arguments of ops take it; TypeError for another object.
Scalar NumberOf(nb::handle object, const char* name) {
  std::optional<Scalar> number = ScalarFrom(object.ptr(), true);
  if (number) return *number;
  throw TypeError(ErrorCode::kSchema, std::string("sparse: '") + name + "' must be a number, not " +
                                          Py_TYPE(object.ptr())->tp_name);
}

/// A method that records: errors have the caller's line.
template <class F>
auto Recorded(F f) {
  return [f](const SparseTensor& self) {
    CallerLine line;
    return f(self);
  };
}

void AddClass(nb::module_& module) {
  using S = SparseTensor;
  nb::class_<S>(module, "SparseTensor")
      .def_prop_ro("layout",
                   [](const S& s) { return s.layout() == S::Layout::kCoo ? "coo" : "csr"; })
      .def_prop_ro("shape", [](const S& s) { return TupleOf(s.sizes()); })
      .def_prop_ro("ndim", &S::dim)
      .def_prop_ro("dtype", [](const S& s) { return ObjectOf(s.dtype()); })
      .def_prop_ro("is_coalesced", &S::is_coalesced)
      .def_prop_ro("nnz", &S::nnz)
      .def("sparse_dim", &S::sparse_dim)
      .def("dense_dim", &S::dense_dim)
      .def("summary", &S::summary)
      .def("__repr__", [](const S& s) { return "<" + s.summary() + ">"; })
      .def("values", [](const S& s) { return s.values(); })
      .def("indices", Recorded([](const S& s) { return s.indices(Location()); }))
      .def("crow_indices", Recorded([](const S& s) { return s.crow_indices(Location()); }))
      .def("col_indices", Recorded([](const S& s) { return s.col_indices(Location()); }))
      .def("to_dense", Recorded([](const S& s) { return s.to_dense(Location()); }))
      .def("to_sparse_coo", Recorded([](const S& s) { return s.to_sparse_coo(Location()); }))
      .def("to_sparse_csr", Recorded([](const S& s) { return s.to_sparse_csr(Location()); }))
      .def("t", Recorded([](const S& s) { return s.t(Location()); }))
      .def(
          "transpose",
          [](const S& s, int64_t dim0, int64_t dim1) {
            CallerLine line;
            return s.transpose(dim0, dim1, Location());
          },
          nb::arg("dim0"), nb::arg("dim1"))
      .def(
          "with_values",
          [](const S& s, const Tensor& values) {
            CallerLine line;
            return s.with_values(values, Location());
          },
          nb::arg("values"))
      .def(
          "coalesce",
          [](const S& s, MaybeInt max_nnz) {
            CallerLine line;
            return s.coalesce(max_nnz, Location());
          },
          nb::arg("max_nnz").none() = nb::none())
      .def("to", [](const S& s, nb::handle target) {
        CallerLine line;
        if (std::optional<DType> dtype = DTypeFrom(target.ptr())) return s.to(*dtype, Location());
        if (std::optional<std::string> device = DeviceNameFrom(target.ptr())) {
          return s.to(Device(*device), Location());
        }
        throw TypeError(ErrorCode::kSchema, "to: needs a dtype or a device");
      });
}

}  // namespace

void AddSparse(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("sparse");
  AddClass(module);
  using S = SparseTensor;
  module.def("coo", [](const Tensor& indices, const Tensor& values,
                       const std::optional<Sizes>& size, bool is_coalesced) {
    CallerLine line;
    return sparse_coo_tensor(indices, values, DimsOf(size), is_coalesced, Location());
  });
  module.def("csr",
             [](const Tensor& crow, const Tensor& col, const Tensor& values, const Sizes& size) {
               CallerLine line;
               return sparse_csr_tensor(crow, col, values, Dims(size), Location());
             });
  module.def("to_sparse", [](const Tensor& self, MaybeInt max_nnz) {
    CallerLine line;
    return to_sparse(self, max_nnz, Location());
  });
  module.def("to_sparse_csr", [](const Tensor& self, MaybeInt max_nnz) {
    CallerLine line;
    return to_sparse_csr(self, max_nnz, Location());
  });
  module.def("mm", [](const S& a, const Tensor& b) {
    CallerLine line;
    return sparse::mm(a, b, Location());
  });
  module.def("mm", [](const S& a, const S& b) {
    CallerLine line;
    return sparse::mm(a, b, Location());
  });
  module.def("mm", [](const Tensor& a, const S& b) {
    CallerLine line;
    return sparse::mm(a, b, Location());
  });
  module.def("addmm", [](const Tensor& self, const S& a, const Tensor& b, nb::handle beta,
                         nb::handle alpha) {
    CallerLine line;
    return sparse::addmm(self, a, b, NumberOf(beta, "beta"), NumberOf(alpha, "alpha"), Location());
  });
  module.def("sampled_addmm", [](const S& self, const Tensor& a, const Tensor& b, nb::handle beta,
                                 nb::handle alpha) {
    CallerLine line;
    return sparse::sampled_addmm(self, a, b, NumberOf(beta, "beta"), NumberOf(alpha, "alpha"),
                                 Location());
  });
  module.def("sum", [](const S& self) {
    CallerLine line;
    return sparse::sum(self, Location());
  });
  module.def("sum", [](const S& self, const Sizes& dims) {
    CallerLine line;
    return sparse::sum(self, Dims(dims), Location());
  });
  module.def("softmax", [](const S& self, int64_t dim) {
    CallerLine line;
    return sparse::softmax(self, dim, Location());
  });
  module.def("log_softmax", [](const S& self, int64_t dim) {
    CallerLine line;
    return sparse::log_softmax(self, dim, Location());
  });
  module.def("mask", [](const Tensor& dense, const S& pattern) {
    CallerLine line;
    return sparse::mask(dense, pattern, Location());
  });
  module.def("mul", [](const S& a, const Tensor& b) {
    CallerLine line;
    return sparse::mul(a, b, Location());
  });
  module.def("mul_number", [](const S& a, nb::handle b) {
    CallerLine line;
    return sparse::mul(a, NumberOf(b, "other"), Location());
  });
  module.def("div", [](const S& a, const Tensor& b) {
    CallerLine line;
    return sparse::div(a, b, Location());
  });
  module.def("div_number", [](const S& a, nb::handle b) {
    CallerLine line;
    return sparse::div(a, NumberOf(b, "other"), Location());
  });
  module.def("add", [](const Tensor& a, const S& b, nb::handle alpha) {
    CallerLine line;
    return sparse::add(a, b, NumberOf(alpha, "alpha"), Location());
  });
  module.def("add", [](const S& a, const S& b, nb::handle alpha) {
    CallerLine line;
    return sparse::add(a, b, NumberOf(alpha, "alpha"), Location());
  });
  module.def("embedding", [](const Tensor& input, const Tensor& weight, MaybeInt padding_idx) {
    CallerLine line;
    return sparse::embedding(input, weight, padding_idx, Location());
  });
  module.def("grad", [](const Tensor& weight) {
    CallerLine line;
    return sparse::grad(weight, Location());
  });
  module.def("clear_grad", [](const Tensor& weight) { sparse::clear_grad(weight); });
}

}  // namespace hammock::python
