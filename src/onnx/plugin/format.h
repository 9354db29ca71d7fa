#pragma once
/// A model file's content as plain structures: made from bytes and written to bytes by the plug-in
/// `libhammock-onnx.so`, the only code that knows protobuf.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hammock::onnx::format {

/// Element types by ONNX's numbers.
enum ElementType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

struct Tensor {
  std::string name;
  int32_t element = kUndefined;
  std::vector<int64_t> dims;
  std::string bytes;  ///< row-major elements, little-endian; those below a byte packed
  std::vector<std::string> strings;                                ///< elements of a string tensor
  bool external = false;                                           ///< elements are in another file
  std::vector<std::pair<std::string, std::string>> external_data;  ///< where
};

struct SparseTensor {
  Tensor values, indices;
  std::vector<int64_t> dims;
};

struct Dim {
  int64_t value = -1;  ///< negative: not known
  std::string param;   ///< the name of a size that is not known
};

struct Type {
  enum Kind { kNone, kTensor, kSequence, kMap, kSparseTensor, kOptional } kind = kNone;
  int32_t element = kUndefined;  ///< of a tensor
  bool has_shape = false;
  std::vector<Dim> dims;
  std::shared_ptr<Type> inner;  ///< of a sequence or an optional
};

struct ValueInfo {
  std::string name;
  Type type;
};

struct Graph;

struct Attribute {
  std::string name;
  /// Numbers of ONNX.
  enum Kind : int32_t {
    kNone = 0,
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
    kSparseTensor = 11,
    kSparseTensors = 12,
    kType = 13,
    kTypes = 14,
  } kind = kNone;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;                 ///< also of kTensor
  std::vector<std::shared_ptr<Graph>> graphs;  ///< also of kGraph
  std::vector<SparseTensor> sparse_tensors;    ///< also of kSparseTensor
  std::string from_caller;  ///< the function's attribute that it has the value of
};

struct Node {
  std::string name, op, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<SparseTensor> sparse_initializers;
  std::vector<ValueInfo> inputs, outputs;
};

struct OperatorSet {
  std::string domain;
  int64_t version = 0;
};

struct Function {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  std::vector<OperatorSet> opsets;
};

struct Model {
  int64_t ir_version = 0;
  std::string producer_name, producer_version;
  Graph graph;
  std::vector<OperatorSet> opsets;
  std::vector<Function> functions;
};

/// A value in a file of its own: a tensor, a sequence of values, or one that may be absent.
struct Value {
  enum Kind { kTensor, kSequence, kAbsent } kind = kTensor;
  std::string name;
  Tensor tensor;
  std::vector<Value> items;
};

}  // namespace hammock::onnx::format
