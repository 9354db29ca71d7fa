#include "location.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "hammock/foreign_call.h"

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

/// A known instruction inside of calls of modules, and its location. `code` is kept alive by
/// KeepCode.
struct Known {
  Instruction instruction;
  ForeignFrames frames = nullptr;
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

/// The name of a function; null: code outside of functions, or of one without a name.
const char* FunctionOf(PyCodeObject* code) {
  const char* name = PyUnicode_AsUTF8(code->co_name);
  if (!name) PyErr_Clear();
  return name && *name != '<' ? name : nullptr;
}

[[gnu::noinline]] Known MakeKnown(const Instruction& instruction, ForeignFrames frames) {
  KeepCode(instruction.code);
  const char* path = PyUnicode_AsUTF8(instruction.code->co_filename);
  if (!path) PyErr_Clear();
  const std::string& package = PackageDirectory();
  Known known{instruction, frames, 0,
              path && !package.empty() && std::string_view(path).starts_with(package)};
  if (!known.own) {
    const ForeignPlace place{Lookup, instruction.code, static_cast<uint32_t>(instruction.offset)};
    known.id = InternLocation(ForeignCall{place, frames, FunctionOf(instruction.code)});
  }
  return known;
}

/// Most programs trace from few lines: a direct-mapped cache.
const Known& Find(const Instruction& instruction, ForeignFrames frames) {
  static std::array<Known, 4096> cache;
  size_t hash = reinterpret_cast<uintptr_t>(instruction.code) / 64 + instruction.offset / 2 +
                reinterpret_cast<uintptr_t>(frames) / 32;
  Known& entry = cache[hash % cache.size()];
  if (entry.instruction != instruction || entry.frames != frames) [[unlikely]]
    entry = MakeKnown(instruction, frames);
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

/// The calling line inside of `frames`.
LocationId Caller(ForeignFrames frames) {
  for (const _PyInterpreterFrame* frame = Innermost(); frame; frame = frame->previous) {
    if (!HasCode(frame)) continue;
    const Known& known = Find(InstructionOf(frame), frames);
    if (!known.own) return known.id;
  }
  return 0;
}

#else

/// The calling line inside of `frames`.
LocationId Caller(ForeignFrames frames) {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const Known known = Find({code, PyFrame_GetLasti(frame)}, frames);
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

// ---- Calls of modules

constinit thread_local ModuleCall* innermost_call = nullptr;
uint64_t tree_generation = 0;

/// A weak reference, by which a module is known to be the one of before.
class Watched {
 public:
  void Watch(PyObject* object) {
    Py_XSETREF(reference_, object ? PyWeakref_NewRef(object, nullptr) : nullptr);
    if (object && !reference_) PyErr_Clear();
    object_ = object;
  }
  bool Is(PyObject* object) const {
    if (object_ != object) return false;
    if (!object) return true;
    if (!reference_) return false;
#if PY_VERSION_HEX >= 0x030d0000
    PyObject* alive = nullptr;
    if (PyWeakref_GetRef(reference_, &alive) < 0) PyErr_Clear();
    Py_XDECREF(alive);
#else
    PyObject* alive = PyWeakref_GET_OBJECT(reference_);
#endif
    return alive == object;
  }

 private:
  PyObject* object_ = nullptr;
  PyObject* reference_ = nullptr;
};

/// The path of a module below another one; empty where it is not there.
std::string PathBelow(PyObject* root, PyObject* module, int depth = 0) {
  PyObject* children = PyObject_GetAttrString(root, "_modules");
  if (!children) PyErr_Clear();
  if (!children || !PyDict_Check(children)) {
    Py_XDECREF(children);
    return "";
  }
  std::unique_ptr<PyObject, void (*)(PyObject*)> held(children, Py_DecRef);
  auto text = [](PyObject* name) {
    const char* utf8 = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    if (!utf8) PyErr_Clear();
    return std::string(utf8 ? utf8 : "?");
  };
  PyObject *name, *child;
  for (Py_ssize_t i = 0; PyDict_Next(children, &i, &name, &child);) {
    if (child == module) return text(name);
  }
  if (depth == 64) return "";  // a module that contains itself
  for (Py_ssize_t i = 0; PyDict_Next(children, &i, &name, &child);) {
    if (child == Py_None) continue;
    std::string below = PathBelow(child, module, depth + 1);
    if (!below.empty()) return text(name) + "." + below;
  }
  return "";
}

struct CachedFrames {
  ForeignFrames outer = nullptr, frames = nullptr;
  Watched caller, module;
  LocationId called_at = 0;
  uint64_t generation = 0;
};

}  // namespace

/// Functions that read the private members of open calls.
struct OpenCalls {
  /// The calls that are open on this thread.
  static ForeignFrames Frames() {
    if (!innermost_call) [[likely]]
      return nullptr;
    return innermost_call->frames_ ? innermost_call->frames_ : FramesOf(*innermost_call);
  }

 private:
  [[gnu::noinline]] static ForeignFrames FramesOf(ModuleCall& call) {
    if (call.frames_) return call.frames_;
    static auto& cache = *new std::array<CachedFrames, 1024>;
    ForeignFrames outer = call.outer_ ? FramesOf(*call.outer_) : nullptr;
    PyObject* caller = call.outer_ ? call.outer_->module_ : nullptr;
    CachedFrames& entry =
        cache[(reinterpret_cast<uintptr_t>(call.module_) / 16 + call.called_at_) % cache.size()];
    if (entry.outer != outer || entry.called_at != call.called_at_ ||
        entry.generation != tree_generation || !entry.module.Is(call.module_) ||
        !entry.caller.Is(caller)) {
      std::string path = caller ? PathBelow(caller, call.module_) : "";
      std::string label =
          (path.empty() ? "top" : path) + "(" + Py_TYPE(call.module_)->tp_name + ")::forward";
      entry.frames = InternFrames(outer, label, LocationText(call.called_at_));
      entry.outer = outer;
      entry.called_at = call.called_at_;
      entry.generation = tree_generation;
      entry.module.Watch(call.module_);
      entry.caller.Watch(caller);
    }
    return call.frames_ = entry.frames;
  }
};

LocationId CallerLocation() { return Caller(OpenCalls::Frames()); }

ModuleCall::ModuleCall(PyObject* module)
    : outer_(std::exchange(innermost_call, this)), module_(module), called_at_(Caller(nullptr)) {}

ModuleCall::~ModuleCall() { innermost_call = outer_; }

void ModuleTreeChanged() { ++tree_generation; }

void SetPackageDirectory(std::string directory) { PackageDirectory() = std::move(directory); }

}  // namespace hammock::python
