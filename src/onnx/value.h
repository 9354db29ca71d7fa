#pragma once
/// Values between the nodes of a model while it is traced.

#include <memory>
#include <string>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/tensor.h"

namespace hammock::onnx {

struct Value;
class Source;

/// Elements that are texts; they live on the host.
struct Strings {
  Dims sizes;
  std::vector<std::string> elements;
};

/// A tensor, a sequence, or nothing. The elements of a tensor may be known while the model is
/// traced
/// (`source`): shapes, constants and what is computed from them. Operators that need numbers, such
/// as Reshape, take them from there; a tensor is recorded only where one is needed.
struct Value {
  enum class Kind { kAbsent, kTensor, kSequence, kStrings, kMap } kind = Kind::kAbsent;
  Tensor tensor = {};                     ///< may be undefined where there is a source
  std::shared_ptr<Source> source = {};    ///< null: the elements are not known
  size_t index = 0;                       ///< of the source's results
  int32_t element = 0;                    ///< what codes of narrow elements mean, else 0
  std::vector<Value> items = {};          ///< of a sequence
  std::shared_ptr<Strings> strings = {};  ///< of kStrings; keys of kMap, with values in `tensor`

  Value() = default;
  Value(const Tensor& tensor) : kind(Kind::kTensor), tensor(tensor) {}        // NOLINT: implicit
  Value(Tensor&& tensor) : kind(Kind::kTensor), tensor(std::move(tensor)) {}  // NOLINT
  static Value Known(HostTensor host);
  static Value Sequence(std::vector<Value> items);
  static Value Map(std::vector<std::string> keys, Tensor values);
  /// ValueError where the sizes are not those of so many elements.
  static Value Text(Dims sizes, std::vector<std::string> elements);

  bool absent() const { return kind == Kind::kAbsent; }
  bool known() const { return source != nullptr; }
};
using Values = std::vector<Value>;

/// The elements of a tensor; -1 where a size is negative or the product too large.
int64_t CountOf(const Dims& sizes);

/// Where known elements come from: given ones, or an operator of known inputs, which runs on the
/// host when they are asked for.
class Source {
 public:
  virtual ~Source() = default;
  /// Runs on the host the first time.
  virtual const HostTensor& Host(size_t index) = 0;
  /// The same as a tensor of the trace in progress.
  virtual Tensor Record(size_t index) = 0;
  /// Whether elements of parameters take part.
  virtual bool uses_parameters() const { return false; }
  /// The longest chain of operators behind it.
  virtual int depth() const { return 0; }
};

}  // namespace hammock::onnx
