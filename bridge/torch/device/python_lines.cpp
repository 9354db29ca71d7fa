// hammock_torch._device: the Python line that calls an op of the device. Ops run without the GIL,
// so the frames of the calling thread, which nobody else changes, are read as they are; only what
// was not seen before takes the GIL.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <array>
#include <string>
#include <string_view>
#include <unordered_set>

#include "device/caller.h"

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
#define HAMMOCK_READS_FRAMES 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#pragma GCC diagnostic pop
#endif

namespace {

using hammock::ForeignPlace;
using hammock::LocationId;

std::string& LibraryDirectory() {
  static auto& directory = *new std::string;
  return directory;
}

struct Instruction {
  PyCodeObject* code = nullptr;
  int offset = 0;
  bool operator==(const Instruction&) const = default;
};

struct Known {
  Instruction instruction;
  LocationId id = 0;
  bool library = false;  // PyTorch's own code: its caller is meant
};

/// Reads only what never changes.
ForeignPlace::Line Lookup(const void* code, uint32_t offset) {
  auto* object = static_cast<PyCodeObject*>(const_cast<void*>(code));
  int line = PyCode_Addr2Line(object, static_cast<int>(offset));
  const char* path = PyUnicode_AsUTF8(object->co_filename);
  return {path ? path : "?", static_cast<uint32_t>(line > 0 ? line : 1)};
}

[[gnu::noinline]] Known MakeKnown(const Instruction& instruction) {
  PyGILState_STATE state = PyGILState_Ensure();
  static auto& kept = *new std::unordered_set<PyCodeObject*>;
  if (kept.insert(instruction.code).second) Py_INCREF(instruction.code);
  const char* path = PyUnicode_AsUTF8(instruction.code->co_filename);
  if (!path) PyErr_Clear();
  Known known{instruction, 0, path && std::string_view(path).starts_with(LibraryDirectory())};
  PyGILState_Release(state);
  if (!known.library) {
    known.id = hammock::InternLocation(
        ForeignPlace{Lookup, instruction.code, static_cast<uint32_t>(instruction.offset)});
  }
  return known;
}

const Known& Find(const Instruction& instruction) {
  thread_local std::array<Known, 1024> cache;
  size_t hash = reinterpret_cast<uintptr_t>(instruction.code) / 64 + instruction.offset / 2;
  Known& entry = cache[hash % cache.size()];
  if (entry.instruction != instruction) entry = MakeKnown(instruction);
  return entry;
}

#ifdef HAMMOCK_READS_FRAMES

LocationId PythonLine() {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (!thread) return 0;
  for (auto* frame = thread->cframe->current_frame; frame; frame = frame->previous) {
    auto* code = reinterpret_cast<PyCodeObject*>(frame->f_code);
    auto* start = reinterpret_cast<const char*>(_PyCode_CODE(code));
    int offset = static_cast<int>(reinterpret_cast<const char*>(frame->prev_instr) - start);
    const Known& known = Find({code, offset});
    if (!known.library) return known.id;
  }
  return 0;
}

#else

LocationId PythonLine() {
  if (!PyGILState_GetThisThreadState()) return 0;
  PyGILState_STATE state = PyGILState_Ensure();
  LocationId id = 0;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && id == 0) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    id = Find({code, PyFrame_GetLasti(frame)}).id;
    Py_DECREF(code);
    Py_SETREF(frame, PyFrame_GetBack(frame));
  }
  Py_XDECREF(frame);
  PyGILState_Release(state);
  return id;
}

#endif

PyObject* NameLines(PyObject*, PyObject* directory) {
  const char* path = PyUnicode_AsUTF8(directory);
  if (!path) return nullptr;
  LibraryDirectory() = path;
  hammock_torch::SetCaller(PythonLine);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"name_lines", NameLines, METH_O,
                          "Name the callers of code below a directory in errors and graphs."},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_device", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__device() { return PyModule_Create(&module); }
