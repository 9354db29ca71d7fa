#include "hammock/ir/any.h"

#include <utility>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "ir/any_tensor.h"
#include "ir/text.h"

namespace hammock {
namespace {

// A list may contain itself, as in Python.
constexpr int kMaxPrintDepth = 32;

[[noreturn, gnu::cold]] void WrongType(const char* expected, const Any& value, const Location& at) {
  UserLineScope scope(at);
  Throw<TypeError>(ErrorCode::kSchema, "expected {}, got {}: {}", expected, value.type_name(),
                   value.to_string());
}

void Print(std::string& out, const Any& value, int depth);

void PrintItems(std::string& out, const AnyList& items, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    Print(out, items[i], depth);
  }
}

void PrintDict(std::string& out, const AnyDict& dict, int depth) {
  const char* separator = "";
  for (const auto& [key, item] : dict) {
    out += std::exchange(separator, ", ");
    AppendQuoted(out, key);
    out += ": ";
    Print(out, item, depth);
  }
}

void Print(std::string& out, const Any& value, int depth) {
  if (depth > kMaxPrintDepth) {
    out += "...";
    return;
  }
  switch (value.kind()) {
    case Any::Kind::kNone:
      out += "none";
      return;
    case Any::Kind::kBool:
    case Any::Kind::kInt:
    case Any::Kind::kFloat:
      return AppendScalar(out, value.ToScalar());
    case Any::Kind::kString:
      return AppendQuoted(out, value.ToStringRef());
    case Any::Kind::kDType:
      out += NameOf(value.ToDType());
      return;
    case Any::Kind::kTensor:
      out += TensorSummary(value.ToTensor());
      return;
    case Any::Kind::kList:
      out += '[';
      PrintItems(out, value.ToList(), depth + 1);
      out += ']';
      return;
    case Any::Kind::kTuple:
      out += '(';
      PrintItems(out, value.ToList(), depth + 1);
      out += value.ToList().size() == 1 ? ",)" : ")";
      return;
    case Any::Kind::kDict:
      out += '{';
      PrintDict(out, value.ToDict(), depth + 1);
      out += '}';
      return;
    case Any::Kind::kObject:
      out += '<' + value.type_name() + '>';
      return;
    case Any::Kind::kGraph:
      out += fmt::format("<graph of {} nodes>", value.ToGraph()->size());
      return;
  }
}

}  // namespace

Object::~Object() = default;

Any::Any(std::string value) : value_(std::make_shared<const std::string>(std::move(value))) {}
Any::Any(const Scalar& value) {
  if (value.IsBool()) {
    value_ = value.ToBool();
  } else if (value.IsFloating()) {
    value_ = value.ToDouble();
  } else {
    value_ = value.ToInt();
  }
}
Any::Any(AnyList value) : value_(std::make_shared<AnyList>(std::move(value))) {}
Any::Any(AnyDict value) : value_(std::make_shared<AnyDict>(std::move(value))) {}
Any::Any(std::shared_ptr<Object> value) {
  if (value) value_ = std::move(value);
}
Any::Any(std::shared_ptr<const Graph> value) {
  if (value) value_ = std::move(value);
}

Any Any::Tuple(AnyList values) {
  Any result;
  result.value_ = TupleBox{std::make_shared<AnyList>(std::move(values))};
  return result;
}

Any Any::Ints(const std::vector<int64_t>& values) {
  return Any(AnyList(values.begin(), values.end()));
}

Any::Kind Any::kind() const {
  // In the order of the variant's alternatives.
  constexpr Kind kKinds[] = {Kind::kNone,  Kind::kBool,   Kind::kInt,    Kind::kFloat,
                             Kind::kDType, Kind::kString, Kind::kTensor, Kind::kList,
                             Kind::kTuple, Kind::kDict,   Kind::kObject, Kind::kGraph};
  return kKinds[value_.index()];
}

std::string Any::type_name() const {
  switch (kind()) {
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kDType:
      return "dtype";
    case Kind::kTensor:
      return "Tensor";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return ToObject()->type_name();
    case Kind::kGraph:
      return "Graph";
  }
  return "";
}

bool Any::ToBool(Location at) const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  WrongType("a bool", *this, at);
}

int64_t Any::ToInt(Location at) const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return *value;
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  WrongType("an int", *this, at);
}

double Any::ToDouble(Location at) const {
  if (!IsNumber()) WrongType("a float", *this, at);
  return ToScalar(at).ToDouble();
}

Scalar Any::ToScalar(Location at) const {
  if (const bool* value = std::get_if<bool>(&value_)) return Scalar(*value);
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return Scalar(*value);
  if (const double* value = std::get_if<double>(&value_)) return Scalar(*value);
  WrongType("a number", *this, at);
}

const std::string& Any::ToStringRef(Location at) const {
  if (auto* value = std::get_if<std::shared_ptr<const std::string>>(&value_)) return **value;
  WrongType("a str", *this, at);
}

DType Any::ToDType(Location at) const {
  if (const DType* value = std::get_if<DType>(&value_)) return *value;
  WrongType("a dtype", *this, at);
}

const Tensor& Any::ToTensor(Location at) const {
  if (auto* value = std::get_if<std::shared_ptr<const Tensor>>(&value_)) return **value;
  WrongType("a Tensor", *this, at);
}

const AnyList& Any::ToList(Location at) const {
  if (auto* value = std::get_if<std::shared_ptr<AnyList>>(&value_)) return **value;
  if (auto* value = std::get_if<TupleBox>(&value_)) return *value->items;
  WrongType("a list", *this, at);
}

AnyList& Any::MutableList(Location at) {
  if (auto* value = std::get_if<std::shared_ptr<AnyList>>(&value_)) return **value;
  WrongType("a list that can be changed", *this, at);
}

const AnyDict& Any::ToDict(Location at) const {
  if (auto* value = std::get_if<std::shared_ptr<AnyDict>>(&value_)) return **value;
  WrongType("a dict", *this, at);
}

AnyDict& Any::MutableDict(Location at) { return const_cast<AnyDict&>(ToDict(at)); }

std::shared_ptr<Object> Any::ToObject(Location at) const {
  if (auto* value = std::get_if<std::shared_ptr<Object>>(&value_)) return *value;
  WrongType("an object", *this, at);
}

std::shared_ptr<const Graph> Any::ToGraph(Location at) const {
  if (auto* value = std::get_if<std::shared_ptr<const Graph>>(&value_)) return *value;
  WrongType("a Graph", *this, at);
}

std::vector<int64_t> Any::ToInts(Location at) const {
  std::vector<int64_t> values;
  for (const Any& item : ToList(at)) values.push_back(item.ToInt(at));
  return values;
}

std::vector<double> Any::ToDoubles(Location at) const {
  std::vector<double> values;
  for (const Any& item : ToList(at)) values.push_back(item.ToDouble(at));
  return values;
}

std::string Any::to_string() const {
  std::string out;
  Print(out, *this, 0);
  return out;
}

}  // namespace hammock
