#include "errors.h"

#include <new>
#include <string>

#include "hammock/error.h"

namespace hammock::python {
namespace {

struct Classes {
  PyObject *base, *value, *type, *index, *not_supported, *compile, *memory, *device, *internal;
};
Classes classes;

PyObject* ClassOf(const Error& error) {
  if (error.code() == ErrorCode::kIndexOutOfRange || error.code() == ErrorCode::kDimOutOfRange) {
    return classes.index;
  }
  if (dynamic_cast<const ValueError*>(&error)) return classes.value;
  if (dynamic_cast<const TypeError*>(&error)) return classes.type;
  if (dynamic_cast<const NotSupported*>(&error)) return classes.not_supported;
  if (dynamic_cast<const CompileError*>(&error)) return classes.compile;
  if (dynamic_cast<const OutOfMemory*>(&error)) return classes.memory;
  if (dynamic_cast<const DeviceError*>(&error)) return classes.device;
  if (dynamic_cast<const InternalError*>(&error)) return classes.internal;
  return classes.base;
}

nb::object Text(std::string_view text) {  // paths in messages may be any bytes
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void Set(const Error& error) {
  if (PyErr_CheckSignals() != 0) return;  // Ctrl-C, which may be why the call has failed
  nb::handle type = ClassOf(error);
  nb::object exception = type(Text(error.what()));
  exception.attr("code") = Text(ErrorCodeName(error.code()));
  exception.attr("message") = Text(error.message());
  exception.attr("where") = Text(error.where());
  PyErr_SetObject(type.ptr(), exception.ptr());
}

PyObject* MakeClass(nb::module_& module, const char* name, const char* doc, PyObject* builtin) {
  std::string full_name = std::string("hammock.") + name;
  nb::object bases = builtin
                         ? nb::object(nb::make_tuple(nb::borrow(classes.base), nb::borrow(builtin)))
                         : nb::object(nb::make_tuple(nb::borrow(PyExc_Exception)));
  PyObject* type = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, bases.ptr(), nullptr);
  if (!type) ThrowPythonError();
  module.attr(name) = nb::borrow(type);
  return type;
}

}  // namespace

void AddErrors(nb::module_& module) {
  classes.base =
      MakeClass(module, "HammockError",
                "Base of what Hammock raises. `code` is stable (\"HM0002\"), `message` has "
                "neither code nor place, `where` is the line of the failing op.",
                nullptr);
  auto make = [&](const char* name, const char* doc, PyObject* builtin) {
    return MakeClass(module, name, doc, builtin);
  };
  classes.value = make("ValueError", "An argument is wrong.", PyExc_ValueError);
  classes.type = make("TypeError", "An argument has the wrong type or dtype.", PyExc_TypeError);
  classes.index =
      make("IndexError", "An index or dim that a tensor does not have.", PyExc_IndexError);
  classes.not_supported =
      make("NotSupported", "A valid request that this build, backend or device cannot fulfil.",
           PyExc_NotImplementedError);
  classes.compile =
      make("CompileError", "A backend failed to compile a graph.", PyExc_RuntimeError);
  classes.memory =
      make("OutOfMemory", "Memory of the host or of a device is exhausted.", PyExc_MemoryError);
  classes.device =
      make("DeviceError", "A device failed while executing or transferring.", PyExc_RuntimeError);
  classes.internal = make("InternalError", "A bug in Hammock or in a backend.", PyExc_RuntimeError);
  nb::register_exception_translator([](const std::exception_ptr& failure, void*) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      Set(error);
    }
  });
}

void SetPythonError() noexcept {
  try {
    throw;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const Error& error) {
    try {
      Set(error);
    } catch (nb::python_error& failure) {
      failure.restore();
    }
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(
        error.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_RuntimeError,
        error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
}

void ThrowTypeError(const std::string& message) {
  PyErr_SetString(PyExc_TypeError, message.c_str());
  ThrowPythonError();
}

}  // namespace hammock::python
