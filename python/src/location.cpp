#include "location.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

// The frames of known versions are read directly: the public functions make an object of each.
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030e0000
#define HAMMOCK_READS_FRAMES 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#pragma GCC diagnostic pop
#endif

namespace hammock::python {
namespace {

std::string& PackageDirectory() {
  static auto& directory = *new std::string;
  return directory;
}

struct Instruction {
  PyCodeObject* code = nullptr;
  int offset = 0;  // in bytes
  bool operator==(const Instruction&) const = default;
};

/// A known instruction and its location. `code` is kept alive by KeepCode.
struct Known {
  Instruction instruction;
  LocationId id = 0;
  bool own = false;  // inside of the package
};

/// Places live as long as the process, and so must the code that they point to.
void KeepCode(PyCodeObject* code) {
  static auto& kept = *new std::unordered_set<PyCodeObject*>;
  if (kept.insert(code).second) Py_INCREF(code);
}

/// Reads only what never changes, so that it may run on threads that do not hold the GIL.
ForeignPlace::Line Lookup(const void* code, uint32_t offset) {
  auto* object = static_cast<PyCodeObject*>(const_cast<void*>(code));
  int line = PyCode_Addr2Line(object, static_cast<int>(offset));
  const char* path = PyUnicode_AsUTF8(object->co_filename);  // made by MakeKnown
  return {path ? path : "?", static_cast<uint32_t>(std::max(line, 1))};
}

[[gnu::noinline]] Known MakeKnown(const Instruction& instruction) {
  KeepCode(instruction.code);
  const char* path = PyUnicode_AsUTF8(instruction.code->co_filename);
  if (!path) PyErr_Clear();
  const std::string& package = PackageDirectory();
  Known known{instruction, 0,
              path && !package.empty() && std::string_view(path).starts_with(package)};
  if (!known.own) {
    known.id = InternLocation(
        ForeignPlace{Lookup, instruction.code, static_cast<uint32_t>(instruction.offset)});
  }
  return known;
}

/// Most programs trace from few lines: a direct-mapped cache.
const Known& Find(const Instruction& instruction) {
  static std::array<Known, 4096> cache;
  size_t hash = reinterpret_cast<uintptr_t>(instruction.code) / 64 + instruction.offset / 2;
  Known& entry = cache[hash % cache.size()];
  if (entry.instruction != instruction) entry = MakeKnown(instruction);
  return entry;
}

#ifdef HAMMOCK_READS_FRAMES

#if PY_VERSION_HEX >= 0x030d0000
_PyInterpreterFrame* Innermost() { return PyThreadState_GetUnchecked()->current_frame; }
Instruction InstructionOf(const _PyInterpreterFrame* frame) {
  auto* code = reinterpret_cast<PyCodeObject*>(frame->f_executable);
  auto* start = reinterpret_cast<const char*>(_PyCode_CODE(code));
  return {code, static_cast<int>(reinterpret_cast<const char*>(frame->instr_ptr) - start)};
}
#else
_PyInterpreterFrame* Innermost() { return PyThreadState_Get()->cframe->current_frame; }
Instruction InstructionOf(const _PyInterpreterFrame* frame) {
  auto* code = reinterpret_cast<PyCodeObject*>(frame->f_code);
  auto* start = reinterpret_cast<const char*>(_PyCode_CODE(code));
  return {code, static_cast<int>(reinterpret_cast<const char*>(frame->prev_instr) - start)};
}
#endif

/// Whether a frame runs Python code: 3.12 has others on the stack.
bool HasCode(const _PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030c0000
  return frame->owner != FRAME_OWNED_BY_CSTACK;
#else
  return frame != nullptr;
#endif
}

}  // namespace

LocationId CallerLocation() {
  for (const _PyInterpreterFrame* frame = Innermost(); frame; frame = frame->previous) {
    if (!HasCode(frame)) continue;
    const Known& known = Find(InstructionOf(frame));
    if (!known.own) return known.id;
  }
  return 0;
}

#else

}  // namespace

LocationId CallerLocation() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const Known& known = Find({code, PyFrame_GetLasti(frame)});
    Py_DECREF(code);
    if (!known.own) {
      Py_DECREF(frame);
      return known.id;
    }
    Py_SETREF(frame, PyFrame_GetBack(frame));
  }
  return 0;
}

#endif

void SetPackageDirectory(std::string directory) { PackageDirectory() = std::move(directory); }

}  // namespace hammock::python
