#pragma once
/// ONNX: models of other frameworks as modules, and modules as files that other runtimes read.
///
///   ModulePtr net = onnx::load("model.onnx");
///   Tensor y = net->run_method("forward", {x}).ToTensor();
///
/// - `forward` takes the model's inputs in order and returns its outputs: one, or a tuple. Values
///   that are no tensors: a sequence is a list, an absent optional is none, a string tensor is a
///   list of strings, or lists in lists for several dims.
/// - Initialisers, and the tensors of Constant nodes, are parameters (floats) and buffers (others)
///   under their names; dots in a name make submodules. They can be trained, replaced and moved.
/// - The model is read and checked when it is loaded; a call records Hammock's ops. Numbers that
///   operators need while they are recorded (shapes, axes, counts) are computed on the host where
///   they follow from constants and sizes, and read from the device where they depend on values.
/// - `trace` makes `forward` a graph, with the symbolic dims of the file as free dims; then the
///   module is saved, compiled ahead of time and partitioned as any other.
///
/// Files are read by a plug-in library, `libhammock-onnx.so`, which is opened when it is needed.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/module.h"

namespace hammock::onnx {

struct LoadOptions {
  Device device = Device();  ///< where parameters and buffers go
  /// Where files with tensors lie that the model names; empty: the folder of the model. Models that
  /// are loaded from bytes have none unless it is given.
  std::string folder = {};
  /// Values of inputs, by name, that are the same in every call: they are no arguments. Operators
  /// may need them as numbers, such as a sample rate that chooses a branch.
  std::map<std::string, HostTensor> fixed = {};
};

/// ValueError (kParse) for damaged files, ValueError for wrong models, NotSupported with a list of
/// all nodes whose operators are missing. Weights in files of their own are mapped, not copied.
HAMMOCK_API ModulePtr load(const std::string& path, const LoadOptions& options = {},
                           Location at = Location::current());
HAMMOCK_API ModulePtr load(std::span<const std::byte> bytes, const LoadOptions& options = {},
                           Location at = Location::current());

/// A dim of an input as the file declares it.
struct DeclaredDim {
  std::optional<int64_t> size = {};
  std::string name = {};  ///< of a symbolic one; may be empty
};
/// An input or output of `forward`.
struct DeclaredValue {
  std::string name;                 ///< in the file
  std::string argument = {};        ///< of the method, for inputs
  std::optional<DType> dtype = {};  ///< none where it is no tensor of numbers
  std::string element = {};         ///< as ONNX calls it: narrow ones are codes in u8 or i8
  bool ranked = false;              ///< whether `dims` are known
  std::vector<DeclaredDim> dims = {};
};
/// Of a module that was loaded from an ONNX file; empty for others.
HAMMOCK_API std::vector<DeclaredValue> inputs(const Module& module);
HAMMOCK_API std::vector<DeclaredValue> outputs(const Module& module);

/// Makes `forward` a graph. Its dims that are declared with a name are free; the examples, zeros
/// where none are given, have the sizes of `dims` there, or small ones. NotSupported where the
/// operators need values of the inputs.
struct TraceSizes {
  std::map<std::string, int64_t> dims = {};  ///< by the name of a symbolic dim
  bool free = true;                          ///< else all sizes are fixed as they are
};
HAMMOCK_API void trace(Module& module, const TraceSizes& sizes = {},
                       Location at = Location::current());
HAMMOCK_API void trace(Module& module, const std::vector<Any>& examples,
                       const TraceSizes& sizes = {}, Location at = Location::current());

/// A value in a file of its own (`.pb`), as ONNX's test data has them: a tensor is a Tensor on
/// `device`. `input` is the declared value that it is for: sequences and optionals are read as
/// such.
HAMMOCK_API Any read_value(const std::string& path, const Module& module, size_t input,
                           const Device& device = Device(), Location at = Location::current());
/// The same for an output.
HAMMOCK_API Any read_output(const std::string& path, const Module& module, size_t output,
                            const Device& device = Device(), Location at = Location::current());
/// A tensor in a file of its own.
HAMMOCK_API HostTensor read_tensor(const std::string& path, Location at = Location::current());

/// Writes `forward`, which must be a graph (see `Module::trace`), as an ONNX file: parameters are
/// initialisers under their names, free dims are symbolic. Opsets 14 to 27. NotSupported lists the
/// ops that ONNX lacks or that are not written yet.
HAMMOCK_API void save(const Module& module, const std::string& path, int opset = 17,
                      Location at = Location::current());

/// An operator that `load` knows, for a range of opset versions.
struct OperatorRange {
  std::string domain;  ///< empty: ai.onnx
  std::string name;
  int since = 1, until = 1;
};
HAMMOCK_API std::vector<OperatorRange> operators();

/// A description of a model file, as text for people: producer, opsets, inputs, outputs, the number
/// of parameters, how often each operator occurs and which are missing.
HAMMOCK_API std::string describe(const std::string& path, Location at = Location::current());

/// Why files cannot be read; empty if they can.
HAMMOCK_API std::string why_absent();

}  // namespace hammock::onnx
