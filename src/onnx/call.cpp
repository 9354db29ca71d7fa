#include "onnx/call.h"

#include <algorithm>

#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "onnx/program.h"
#include "trace/tensor_impl.h"

namespace hammock::onnx {
namespace {

struct ElementRow {
  int32_t element;
  DType dtype;
};
constexpr ElementRow kElements[] = {
    {format::kFloat, DType::kF32},       {format::kUint8, DType::kU8},
    {format::kInt8, DType::kI8},         {format::kUint16, DType::kU16},
    {format::kInt16, DType::kI16},       {format::kInt32, DType::kI32},
    {format::kInt64, DType::kI64},       {format::kBool, DType::kBool},
    {format::kFloat16, DType::kF16},     {format::kDouble, DType::kF64},
    {format::kUint32, DType::kU32},      {format::kUint64, DType::kU64},
    {format::kBfloat16, DType::kBF16},   {format::kComplex64, DType::kC64},
    {format::kComplex128, DType::kC128},
};

/// Only of files that are written: those that are read hold codes of them (narrow.h).
constexpr ElementRow kStorageElements[] = {
    {format::kFloat8E4M3FN, DType::kF8E4M3},
    {format::kFloat8E5M2, DType::kF8E5M2},
    {format::kUint4, DType::kU4},
    {format::kInt4, DType::kI4},
    {format::kUint2, DType::kU2},
    {format::kInt2, DType::kI2},
};

constexpr const char* kElementNames[] = {
    "undefined",      "float",    "uint8",        "int8",           "uint16",
    "int16",          "int32",    "int64",        "string",         "bool",
    "float16",        "double",   "uint32",       "uint64",         "complex64",
    "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
    "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
    "uint2",          "int2"};

/// Given elements.
class Given : public Source {
 public:
  explicit Given(HostTensor host) : host_(std::move(host)) {}
  const HostTensor& Host(size_t) override { return host_; }
  Tensor Record(size_t) override { return Recorded(host_, Device::FromId(Context().home_device)); }

 private:
  HostTensor host_;
};

}  // namespace

Value Value::Known(HostTensor host) {
  Value value;
  value.kind = Kind::kTensor;
  value.source = std::make_shared<Given>(std::move(host));
  return value;
}

Value Value::Sequence(std::vector<Value> items) {
  Value value;
  value.kind = Kind::kSequence;
  value.items = std::move(items);
  return value;
}

Value Value::Map(std::vector<std::string> keys, Tensor values) {
  auto count = static_cast<int64_t>(keys.size());
  Value value = Text(Dims(count), std::move(keys));
  value.kind = Kind::kMap;
  value.tensor = std::move(values);
  return value;
}

int64_t CountOf(const Dims& sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return -1;
  }
  return count;
}

Value Value::Text(Dims sizes, std::vector<std::string> elements) {
  if (CountOf(sizes) != static_cast<int64_t>(elements.size())) {
    Throw(ErrorCode::kParse, "onnx: a tensor of {} has {} strings", fmt::join(sizes, "x"),
          elements.size());
  }
  Value value;
  value.kind = Kind::kStrings;
  value.strings = std::make_shared<Strings>(Strings{sizes, std::move(elements)});
  return value;
}

DType DTypeOfElement(int32_t element) {
  for (const ElementRow& row : kElements) {
    if (row.element == element) return row.dtype;
  }
  Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: tensors of {} are not supported",
                      NameOfElement(element));
}

std::string NameOfElement(int32_t element) {
  bool named = element >= 0 && element < static_cast<int32_t>(std::size(kElementNames));
  return named ? kElementNames[element] : fmt::format("element type {}", element);
}

int32_t ElementOfDType(DType dtype) {
  for (std::span<const ElementRow> rows :
       {std::span<const ElementRow>(kElements), std::span<const ElementRow>(kStorageElements)}) {
    for (const ElementRow& row : rows) {
      if (row.dtype == dtype) return row.element;
    }
  }
  return format::kUndefined;
}

Tensor Recorded(const HostTensor& host, const Device& device) {
  if (host.numel() == 1) {
    Tensor element = Constant(host.at(0), host.dtype());
    return host.shape().rank() == 0 ? element : broadcast_to(element, host.shape().sizes());
  }
  if (Context().symbolic == 0) return from_host(host, device);
  if (host.numel() == 0) return zeros(host.shape().sizes(), host.dtype(), device);
  // A body has no leaves of its own: a constant an element.
  constexpr int64_t kMostConstants = 4096;
  if (host.numel() > kMostConstants) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "a constant of {} inside of a body",
                        host.shape().to_string());
  }
  std::vector<Tensor> elements;
  for (int64_t i = 0; i < host.numel(); ++i) {
    elements.push_back(broadcast_to(Constant(host.at(i), host.dtype()), {1}));
  }
  return reshape(cat(elements), host.shape().sizes());
}

Device Call::device() const { return run_.device(); }

const Value& Call::At(size_t i) const {
  if (!Has(i)) Fail("input {} is missing", i);
  return in_[i];
}

Tensor Call::operator[](size_t i) const { return run_.TensorOf(At(i)); }

std::optional<Tensor> Call::Optional(size_t i) const {
  if (!Has(i)) return std::nullopt;
  return (*this)[i];
}

std::vector<Tensor> Call::Tensors() const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < size(); ++i) tensors.push_back((*this)[i]);
  return tensors;
}

HostTensor Call::Host(size_t i) const { return run_.HostOf(At(i)); }

std::vector<int64_t> Call::Ints(size_t i) const {
  HostTensor host = Host(i).To(DType::kI64);
  auto values = host.values<int64_t>();
  return {values.begin(), values.end()};
}

std::vector<double> Call::Numbers(size_t i) const {
  HostTensor host = Host(i).To(DType::kF64);
  auto values = host.values<double>();
  return {values.begin(), values.end()};
}

Scalar Call::Number(size_t i) const {
  HostTensor host = Host(i);
  if (host.numel() != 1) Fail("input {} is {}, needs one element", i, host.shape().to_string());
  return host.at(0);
}

const Strings& Call::Texts(size_t i) const {
  const Value& value = At(i);
  if (value.kind != Value::Kind::kStrings) Fail("input {} must hold strings", i);
  return *value.strings;
}

const format::Attribute* Call::Find(std::string_view name) const {
  for (const format::Attribute& attribute : node_.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

int64_t Call::Int(std::string_view name, int64_t otherwise) const {
  const format::Attribute* found = Find(name);
  return found ? found->i : otherwise;
}

double Call::Float(std::string_view name, double otherwise) const {
  const format::Attribute* found = Find(name);
  return found ? static_cast<double>(found->f) : otherwise;
}

std::string Call::Text(std::string_view name, const std::string& otherwise) const {
  const format::Attribute* found = Find(name);
  return found ? found->s : otherwise;
}

std::vector<int64_t> Call::IntList(std::string_view name) const {
  const format::Attribute* found = Find(name);
  return found ? found->ints : std::vector<int64_t>();
}

std::vector<float> Call::FloatList(std::string_view name) const {
  const format::Attribute* found = Find(name);
  return found ? found->floats : std::vector<float>();
}

std::vector<std::string> Call::TextList(std::string_view name) const {
  const format::Attribute* found = Find(name);
  return found ? found->strings : std::vector<std::string>();
}

const format::Graph& Call::Graph(std::string_view name) const {
  const format::Attribute* found = Find(name);
  if (!found || found->graphs.empty()) Fail("attribute '{}' must be a graph", name);
  return *found->graphs[0];
}

}  // namespace hammock::onnx
