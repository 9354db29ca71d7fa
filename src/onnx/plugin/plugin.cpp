/// From protobuf to plain structures and back.

#include "onnx/plugin/plugin.h"

#include <google/protobuf/io/coded_stream.h>

#include <cstring>
#include <limits>

#include "onnx_file.pb.h"

namespace hammock::onnx {
namespace {

namespace file = hammock::onnx_file;

/// Deeper graphs in attributes than people write.
constexpr int kMostNested = 100;

template <class To, class From>
std::string Packed(const From& values) {
  std::string bytes(static_cast<size_t>(values.size()) * sizeof(To), '\0');
  size_t at = 0;
  for (auto value : values) {
    To element = static_cast<To>(value);
    std::memcpy(bytes.data() + at, &element, sizeof(To));
    at += sizeof(To);
  }
  return bytes;
}

/// Elements that lie in fields of their own type, as bytes.
std::string TypedBytes(const file::Tensor& from) {
  switch (from.data_type()) {
    case format::kFloat:
    case format::kComplex64:
      return Packed<float>(from.float_data());
    case format::kDouble:
    case format::kComplex128:
      return Packed<double>(from.double_data());
    case format::kInt64:
      return Packed<int64_t>(from.int64_data());
    case format::kUint64:
      return Packed<uint64_t>(from.uint64_data());
    case format::kUint32:
      return Packed<uint32_t>(from.uint64_data());
    case format::kInt32:
      return Packed<int32_t>(from.int32_data());
    case format::kUint16:
    case format::kInt16:
    case format::kFloat16:
    case format::kBfloat16:
      return Packed<uint16_t>(from.int32_data());
    default:
      return Packed<uint8_t>(from.int32_data());
  }
}

format::Tensor Read(file::Tensor& from) {
  format::Tensor to;
  to.name = from.name();
  to.element = from.data_type();
  to.dims.assign(from.dims().begin(), from.dims().end());
  to.external = from.data_location() == 1;
  for (const file::KeyValue& entry : from.external_data()) {
    to.external_data.emplace_back(entry.key(), entry.value());
  }
  if (from.data_type() == format::kString) {
    to.strings.assign(from.string_data().begin(), from.string_data().end());
  } else if (from.has_raw_data()) {
    to.bytes = std::move(*from.mutable_raw_data());
  } else if (!to.external) {
    to.bytes = TypedBytes(from);
  }
  return to;
}

format::SparseTensor Read(file::SparseTensor& from) {
  format::SparseTensor to;
  to.values = Read(*from.mutable_values());
  to.indices = Read(*from.mutable_indices());
  to.dims.assign(from.dims().begin(), from.dims().end());
  return to;
}

format::Type Read(const file::Type& from) {
  format::Type to;
  auto of_tensor = [&](const file::Type::OfTensor& tensor) {
    to.element = tensor.element();
    to.has_shape = tensor.has_shape();
    for (const file::Shape::Dim& dim : tensor.shape().dims()) {
      bool known = dim.size_case() == file::Shape::Dim::kValue && dim.value() > 0;
      to.dims.push_back({known ? dim.value() : -1, dim.param()});
      if (dim.size_case() == file::Shape::Dim::kValue && dim.value() == 0) to.dims.back().value = 0;
    }
  };
  switch (from.kind_case()) {
    case file::Type::kTensor:
      to.kind = format::Type::kTensor;
      of_tensor(from.tensor());
      break;
    case file::Type::kSparseTensor:
      to.kind = format::Type::kSparseTensor;
      of_tensor(from.sparse_tensor());
      break;
    case file::Type::kSequence:
      to.kind = format::Type::kSequence;
      to.inner = std::make_shared<format::Type>(Read(from.sequence().element()));
      break;
    case file::Type::kOptionalValue:
      to.kind = format::Type::kOptional;
      to.inner = std::make_shared<format::Type>(Read(from.optional_value().element()));
      break;
    case file::Type::kMap:
      to.kind = format::Type::kMap;
      break;
    case file::Type::KIND_NOT_SET:
      break;
  }
  return to;
}

format::Graph Read(file::Graph& from);

/// Files of the first version say the kind by the field that is set.
format::Attribute::Kind KindOf(const file::Attribute& from) {
  using Kind = format::Attribute::Kind;
  if (from.type() != 0) return static_cast<Kind>(from.type());
  if (from.has_f()) return Kind::kFloat;
  if (from.has_i()) return Kind::kInt;
  if (from.has_s()) return Kind::kString;
  if (from.has_t()) return Kind::kTensor;
  if (from.has_g()) return Kind::kGraph;
  if (from.floats_size() > 0) return Kind::kFloats;
  if (from.ints_size() > 0) return Kind::kInts;
  if (from.strings_size() > 0) return Kind::kStrings;
  return Kind::kNone;
}

format::Attribute Read(file::Attribute& from) {
  format::Attribute to;
  to.name = from.name();
  to.kind = KindOf(from);
  to.f = from.f();
  to.i = from.i();
  to.s = from.s();
  to.floats.assign(from.floats().begin(), from.floats().end());
  to.ints.assign(from.ints().begin(), from.ints().end());
  to.strings.assign(from.strings().begin(), from.strings().end());
  to.from_caller = from.ref_attr_name();
  if (from.has_t()) to.tensors.push_back(Read(*from.mutable_t()));
  for (file::Tensor& tensor : *from.mutable_tensors()) to.tensors.push_back(Read(tensor));
  if (from.has_g()) to.graphs.push_back(std::make_shared<format::Graph>(Read(*from.mutable_g())));
  for (file::Graph& graph : *from.mutable_graphs()) {
    to.graphs.push_back(std::make_shared<format::Graph>(Read(graph)));
  }
  if (from.has_sparse_tensor()) to.sparse_tensors.push_back(Read(*from.mutable_sparse_tensor()));
  for (file::SparseTensor& tensor : *from.mutable_sparse_tensors()) {
    to.sparse_tensors.push_back(Read(tensor));
  }
  return to;
}

format::Node Read(file::Node& from) {
  format::Node to;
  to.name = from.name();
  to.op = from.op_type();
  to.domain = from.domain() == "ai.onnx" ? "" : from.domain();
  to.overload = from.overload();
  to.inputs.assign(from.inputs().begin(), from.inputs().end());
  to.outputs.assign(from.outputs().begin(), from.outputs().end());
  for (file::Attribute& attribute : *from.mutable_attributes()) {
    to.attributes.push_back(Read(attribute));
  }
  return to;
}

std::vector<format::ValueInfo> Read(
    const google::protobuf::RepeatedPtrField<file::ValueInfo>& from) {
  std::vector<format::ValueInfo> to;
  for (const file::ValueInfo& value : from) to.push_back({value.name(), Read(value.type())});
  return to;
}

format::Graph Read(file::Graph& from) {
  format::Graph to;
  to.name = from.name();
  for (file::Node& node : *from.mutable_nodes()) to.nodes.push_back(Read(node));
  for (file::Tensor& tensor : *from.mutable_initializers()) {
    to.initializers.push_back(Read(tensor));
  }
  for (file::SparseTensor& tensor : *from.mutable_sparse_initializers()) {
    to.sparse_initializers.push_back(Read(tensor));
  }
  to.inputs = Read(from.inputs());
  to.outputs = Read(from.outputs());
  return to;
}

std::vector<format::OperatorSet> Read(
    const google::protobuf::RepeatedPtrField<file::OperatorSet>& from) {
  std::vector<format::OperatorSet> to;
  for (const file::OperatorSet& set : from) {
    to.push_back({set.domain() == "ai.onnx" ? "" : set.domain(), set.version()});
  }
  return to;
}

format::Function Read(file::Function& from) {
  format::Function to;
  to.name = from.name();
  to.domain = from.domain() == "ai.onnx" ? "" : from.domain();
  to.overload = from.overload();
  to.inputs.assign(from.inputs().begin(), from.inputs().end());
  to.outputs.assign(from.outputs().begin(), from.outputs().end());
  to.attributes.assign(from.attributes().begin(), from.attributes().end());
  for (file::Attribute& attribute : *from.mutable_attribute_protos()) {
    to.defaults.push_back(Read(attribute));
  }
  for (file::Node& node : *from.mutable_nodes()) to.nodes.push_back(Read(node));
  to.opsets = Read(from.opsets());
  return to;
}

format::Value Read(file::Sequence& from);

format::Value Read(file::Optional& from) {
  format::Value to;
  if (from.has_tensor()) {
    to.tensor = Read(*from.mutable_tensor());
  } else if (from.has_sequence()) {
    to = Read(*from.mutable_sequence());
  } else if (from.has_inner()) {
    to = Read(*from.mutable_inner());
  } else {
    to.kind = format::Value::kAbsent;
  }
  to.name = from.name();
  return to;
}

format::Value Read(file::Sequence& from) {
  format::Value to;
  to.kind = format::Value::kSequence;
  to.name = from.name();
  for (file::Tensor& tensor : *from.mutable_tensors()) {
    format::Value item;
    item.tensor = Read(tensor);
    to.items.push_back(std::move(item));
  }
  for (file::Sequence& inner : *from.mutable_sequences()) to.items.push_back(Read(inner));
  for (file::Optional& inner : *from.mutable_optionals()) to.items.push_back(Read(inner));
  return to;
}

// ---- writing

void Write(const format::Tensor& from, file::Tensor& to) {
  to.set_name(from.name);
  to.set_data_type(from.element);
  for (int64_t dim : from.dims) to.add_dims(dim);
  if (from.element == format::kString) {
    for (const std::string& text : from.strings) to.add_string_data(text);
  } else if (from.external) {
    to.set_data_location(1);
    for (const auto& [key, value] : from.external_data) {
      file::KeyValue& entry = *to.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
  } else {
    to.set_raw_data(from.bytes);
  }
}

void Write(const format::SparseTensor& from, file::SparseTensor& to) {
  Write(from.values, *to.mutable_values());
  Write(from.indices, *to.mutable_indices());
  for (int64_t dim : from.dims) to.add_dims(dim);
}

void Write(const format::Type& from, file::Type& to) {
  if (from.kind != format::Type::kTensor) return;
  file::Type::OfTensor& tensor = *to.mutable_tensor();
  tensor.set_element(from.element);
  if (!from.has_shape) return;
  file::Shape& shape = *tensor.mutable_shape();
  for (const format::Dim& dim : from.dims) {
    file::Shape::Dim& size = *shape.add_dims();
    if (dim.value >= 0) {
      size.set_value(dim.value);
    } else if (!dim.param.empty()) {
      size.set_param(dim.param);
    }
  }
}

void Write(const format::Graph& from, file::Graph& to);

void Write(const format::Attribute& from, file::Attribute& to) {
  to.set_name(from.name);
  to.set_type(from.kind);
  switch (from.kind) {
    case format::Attribute::kFloat:
      to.set_f(from.f);
      break;
    case format::Attribute::kInt:
      to.set_i(from.i);
      break;
    case format::Attribute::kString:
      to.set_s(from.s);
      break;
    case format::Attribute::kTensor:
      Write(from.tensors.at(0), *to.mutable_t());
      break;
    case format::Attribute::kGraph:
      Write(*from.graphs.at(0), *to.mutable_g());
      break;
    default:
      break;
  }
  for (float value : from.floats) to.add_floats(value);
  for (int64_t value : from.ints) to.add_ints(value);
  for (const std::string& value : from.strings) to.add_strings(value);
}

void Write(const format::Node& from, file::Node& to) {
  for (const std::string& name : from.inputs) to.add_inputs(name);
  for (const std::string& name : from.outputs) to.add_outputs(name);
  to.set_name(from.name);
  to.set_op_type(from.op);
  to.set_domain(from.domain);
  for (const format::Attribute& attribute : from.attributes) {
    Write(attribute, *to.add_attributes());
  }
}

void Write(const format::ValueInfo& from, file::ValueInfo& to) {
  to.set_name(from.name);
  Write(from.type, *to.mutable_type());
}

void Write(const format::Graph& from, file::Graph& to) {
  to.set_name(from.name);
  for (const format::Node& node : from.nodes) Write(node, *to.add_nodes());
  for (const format::Tensor& tensor : from.initializers) Write(tensor, *to.add_initializers());
  for (const format::SparseTensor& tensor : from.sparse_initializers) {
    Write(tensor, *to.add_sparse_initializers());
  }
  for (const format::ValueInfo& value : from.inputs) Write(value, *to.add_inputs());
  for (const format::ValueInfo& value : from.outputs) Write(value, *to.add_outputs());
}

void Write(const std::vector<format::OperatorSet>& from,
           google::protobuf::RepeatedPtrField<file::OperatorSet>& to) {
  for (const format::OperatorSet& set : from) {
    file::OperatorSet& written = *to.Add();
    written.set_domain(set.domain);
    written.set_version(set.version);
  }
}

void Write(const format::Function& from, file::Function& to) {
  to.set_name(from.name);
  to.set_domain(from.domain);
  for (const std::string& name : from.inputs) to.add_inputs(name);
  for (const std::string& name : from.outputs) to.add_outputs(name);
  for (const std::string& name : from.attributes) to.add_attributes(name);
  for (const format::Node& node : from.nodes) Write(node, *to.add_nodes());
  Write(from.opsets, *to.mutable_opsets());
}

// ---- the table

template <class Message>
bool Parse(const char* bytes, size_t size, Message& message, std::string& error) {
  if (size > static_cast<size_t>(std::numeric_limits<int>::max())) {
    error = "the file has more than 2 GB; large models keep their tensors in files beside it";
    return false;
  }
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes),
                                                static_cast<int>(size));
  stream.SetRecursionLimit(kMostNested);
  if (message.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage()) return true;
  error = "the bytes are no ONNX file: it is cut off or damaged";
  return false;
}

/// Runs `body`; an exception becomes the error's text.
template <class Body>
bool Guarded(std::string& error, Body body) {
  try {
    return body();
  } catch (const std::exception& thrown) {
    error = thrown.what();
    return false;
  }
}

bool ParseModel(const char* bytes, size_t size, format::Model& model, std::string& error) {
  return Guarded(error, [&] {
    file::Model from;
    if (!Parse(bytes, size, from, error)) return false;
    model.ir_version = from.ir_version();
    model.producer_name = from.producer_name();
    model.producer_version = from.producer_version();
    model.graph = Read(*from.mutable_graph());
    model.opsets = Read(from.opsets());
    for (file::Function& function : *from.mutable_functions()) {
      model.functions.push_back(Read(function));
    }
    return true;
  });
}

bool ParseValue(const char* bytes, size_t size, const format::Type& type, format::Value& value,
                std::string& error) {
  return Guarded(error, [&] {
    auto read = [&](auto message) {
      if (!Parse(bytes, size, message, error)) return false;
      value = Read(message);
      return true;
    };
    if (type.kind == format::Type::kSequence) return read(file::Sequence());
    if (type.kind == format::Type::kOptional) return read(file::Optional());
    file::Tensor tensor;
    if (!Parse(bytes, size, tensor, error)) return false;
    value.name = tensor.name();
    value.tensor = Read(tensor);
    return true;
  });
}

bool WriteModel(const format::Model& model, std::string& bytes, std::string& error) {
  return Guarded(error, [&] {
    file::Model to;
    to.set_ir_version(model.ir_version);
    to.set_producer_name(model.producer_name);
    to.set_producer_version(model.producer_version);
    Write(model.opsets, *to.mutable_opsets());
    for (const format::Function& function : model.functions) Write(function, *to.add_functions());
    Write(model.graph, *to.mutable_graph());
    if (to.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max())) {
      error = "the file would have more than 2 GB";
      return false;
    }
    return to.SerializeToString(&bytes);
  });
}

constexpr HammockOnnxTableV1 kTable = {HAMMOCK_ONNX_ABI, ParseModel, ParseValue, WriteModel};

}  // namespace
}  // namespace hammock::onnx

extern "C" __attribute__((visibility("default"))) const HammockOnnxTableV1* HammockOnnxTable() {
  return &hammock::onnx::kTable;
}
