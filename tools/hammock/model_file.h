#pragma once
/// Models as the tool takes them: the text of a graph, an archive with a method `forward`, or an
/// ONNX file.

#include <map>
#include <string>
#include <vector>

#include "commands.h"
#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"
#include "hammock/module.h"

namespace hammock::tool {

/// The whole file; ValueError with the reason where it cannot be read.
std::string ReadFile(const std::string& path);
/// ValueError with the reason where it cannot be written.
void WriteFile(const std::string& path, const std::string& text);

struct Model {
  ModulePtr module;
  bool delegated = false;          ///< a delegate runs `forward`
  std::string argument_form;       ///< of `forward`; see PackTensors
  Graph graph;                     ///< of `forward`; of a delegated one what was lowered, or empty
  std::vector<Shape> arguments;    ///< of the graph, or as an ONNX file declares them
  std::vector<std::string> names;  ///< of the arguments
  std::vector<std::string> results;  ///< names of an ONNX file's outputs

  /// Calls `forward` on a device; tensors of the result may be pending.
  Any Call(const std::vector<Tensor>& inputs) const;
  /// The tensors of the result.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const;
};

bool IsOnnx(const std::string& path);

/// Sizes of symbolic dims, by name: "batch=8".
using DimSizes = std::map<std::string, int64_t>;
DimSizes ParseDims(const std::vector<std::string>& texts);

/// The text of a graph becomes the method `forward` of a module; so does an ONNX file, of which
/// `forward` is code. `fixed`: see OnnxOptions.
ModulePtr LoadModule(const std::string& path, const std::vector<std::string>& fixed = {});
/// Makes `forward` of an ONNX file a graph with free dims; others are left alone.
void TraceFree(const std::string& path, Module& module, const DimSizes& dims);
/// NotSupported where `forward` is no graph, nor a delegate's of which the graph is known, unless
/// any will do. Dims of an ONNX file that are free have sizes where passes are to be shown.
enum class Needs { kGraph, kSizedGraph, kForward };
Model LoadModel(const std::string& path, Needs needs = Needs::kGraph,
                const OnnxOptions& options = {});

struct InputOptions {
  /// "x.npy" or "x.pb" in order, or "NAME=x.npy" with a name or number; "x.npz" has arrays by name.
  std::vector<std::string> files;
  bool random = false;  ///< make up what is not given
  uint64_t seed = 0;
};
/// One tensor for each argument, of its type; ValueError names what is missing or wrong.
std::vector<HostTensor> LoadInputs(const Model& model, const InputOptions& options);

}  // namespace hammock::tool
