#pragma once
/// One call of an operator while a model is traced, and the table of operators.

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/throw.h"
#include "hammock/device.h"
#include "onnx/plugin/format.h"
#include "onnx/value.h"

namespace hammock::onnx {

class Call;
class Run;

inline constexpr int kNewestOpset = 27;

/// A need of an operator beyond recording ops.
enum class Needs : uint8_t {
  kNothing,
  kScope,   ///< graphs in its attributes
  kRandom,  ///< draws numbers: never folded
};

/// A row of the table: an operator for a range of opset versions.
struct Operator {
  const char* name;
  int since = 1;
  int until = kNewestOpset;
  Values (*run)(Call&);
  Needs needs = Needs::kNothing;
  const char* domain = "";
  /// Inputs in order, then attributes: "x y !z rest*; a b=0". A node with another one, with `z` or
  /// with another `b` is refused when it is loaded. Null: the version says what there is.
  const char* takes = nullptr;
};

/// Null if there is none.
const Operator* FindOperator(std::string_view domain, std::string_view name, int64_t opset);
/// An input or attribute of the node that the operator does not take; empty if there is none.
std::string RefusedPart(const Operator& op, const format::Node& node);
/// All rows, by domain and name.
std::vector<const Operator*> AllOperators();

/// The dtype of ONNX's number; NotSupported for those that Hammock has not.
DType DTypeOfElement(int32_t element);
int32_t ElementOfDType(DType dtype);
/// "float8e4m3fn"
std::string NameOfElement(int32_t element);

/// A constant of the trace in progress.
Tensor Recorded(const HostTensor& host, const Device& device);

/// Inputs and attributes of a node.
class Call {
 public:
  Call(Run& run, const format::Node& node, int64_t opset, std::span<const Value> in)
      : run_(run), node_(node), opset_(opset), in_(in) {}

  const format::Node& node() const { return node_; }
  int64_t opset() const { return opset_; }
  Run& run() const { return run_; }
  Device device() const;

  // ---- Inputs
  size_t size() const { return in_.size(); }
  bool Has(size_t i) const { return i < in_.size() && !in_[i].absent(); }
  const Value& At(size_t i) const;
  std::span<const Value> inputs() const { return in_; }
  Tensor operator[](size_t i) const;
  std::optional<Tensor> Optional(size_t i) const;
  std::vector<Tensor> Tensors() const;
  /// Elements on the host: known ones, else they are read, which a trace refuses.
  HostTensor Host(size_t i) const;
  std::vector<int64_t> Ints(size_t i) const;
  std::vector<double> Numbers(size_t i) const;
  /// Of an input of one element.
  Scalar Number(size_t i) const;
  const Strings& Texts(size_t i) const;

  // ---- Attributes
  const format::Attribute* Find(std::string_view name) const;
  bool HasAttribute(std::string_view name) const { return Find(name) != nullptr; }
  int64_t Int(std::string_view name, int64_t otherwise) const;
  double Float(std::string_view name, double otherwise) const;
  std::string Text(std::string_view name, const std::string& otherwise = "") const;
  std::vector<int64_t> IntList(std::string_view name) const;
  std::vector<float> FloatList(std::string_view name) const;
  std::vector<std::string> TextList(std::string_view name) const;
  const format::Graph& Graph(std::string_view name) const;

  // ---- Results
  size_t results() const { return node_.outputs.size(); }
  bool Wants(size_t i) const { return i < results() && !node_.outputs[i].empty(); }

  template <class E = ValueError, class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    constexpr bool value = std::is_same_v<E, ValueError>;
    throw E(value ? ErrorCode::kValue : ErrorCode::kNotSupported,
            fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void Unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    Fail<NotSupported>(format, std::forward<Args>(args)...);
  }

 private:
  Run& run_;
  const format::Node& node_;
  int64_t opset_;
  std::span<const Value> in_;
};

}  // namespace hammock::onnx
