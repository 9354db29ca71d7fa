#include "hammock/ir/any.h"

#include <algorithm>
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
    case Any::Kind::kComplex:
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

Any::Any(std::string value) : Any(Kind::kString, std::make_shared<std::string>(std::move(value))) {}
Any::Any(const Scalar& value)
    : Any(value.IsBool()       ? Any(value.ToBool())
          : value.IsComplex()  ? Any(Kind::kComplex, std::make_shared<Scalar>(value))
          : value.IsFloating() ? Any(value.ToDouble())
                               : Any(value.ToInt())) {}
Any::Any(AnyList value) : Any(Kind::kList, std::make_shared<AnyList>(std::move(value))) {}
Any::Any(AnyDict value) : Any(Kind::kDict, std::make_shared<AnyDict>(std::move(value))) {}
Any::Any(std::shared_ptr<Object> value) {
  if (value) *this = Any(Kind::kObject, std::move(value));
}
Any::Any(std::shared_ptr<const Graph> value) {
  if (value) *this = Any(Kind::kGraph, std::const_pointer_cast<Graph>(std::move(value)));
}

Any Any::Tuple(AnyList values) {
  return Any(Kind::kTuple, std::make_shared<AnyList>(std::move(values)));
}

Any Any::Ints(const std::vector<int64_t>& values) {
  return Any(AnyList(values.begin(), values.end()));
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
    case Kind::kComplex:
      return "complex";
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
  if (kind_ != Kind::kBool) WrongType("a bool", *this, at);
  return bits_ != 0;
}

int64_t Any::ToInt(Location at) const {
  if (kind_ != Kind::kInt && kind_ != Kind::kBool) WrongType("an int", *this, at);
  return bits_;
}

double Any::ToDouble(Location at) const {
  if (!IsNumber() || kind_ == Kind::kComplex) WrongType("a float", *this, at);
  return ToScalar(at).ToDouble();
}

Scalar Any::ToScalar(Location at) const {
  if (kind_ == Kind::kBool) return Scalar(bits_ != 0);
  if (kind_ == Kind::kInt) return Scalar(bits_);
  if (kind_ == Kind::kFloat) return Scalar(std::bit_cast<double>(bits_));
  if (kind_ == Kind::kComplex) return *static_cast<Scalar*>(held_.get());
  WrongType("a number", *this, at);
}

DType Any::ToDType(Location at) const {
  if (kind_ != Kind::kDType) WrongType("a dtype", *this, at);
  return static_cast<DType>(bits_);
}

template <class T>
T& Any::Held(std::initializer_list<Kind> kinds, const char* expected, const Location& at) const {
  if (std::find(kinds.begin(), kinds.end(), kind_) == kinds.end()) WrongType(expected, *this, at);
  return *static_cast<T*>(held_.get());
}

const std::string& Any::ToStringRef(Location at) const {
  return Held<std::string>({Kind::kString}, "a str", at);
}

const Tensor& Any::ToTensor(Location at) const {
  return Held<Tensor>({Kind::kTensor}, "a Tensor", at);
}

const AnyList& Any::ToList(Location at) const {
  return Held<AnyList>({Kind::kList, Kind::kTuple}, "a list", at);
}

AnyList& Any::MutableList(Location at) {
  return Held<AnyList>({Kind::kList}, "a list that can be changed", at);
}

const AnyDict& Any::ToDict(Location at) const { return Held<AnyDict>({Kind::kDict}, "a dict", at); }

AnyDict& Any::MutableDict(Location at) { return Held<AnyDict>({Kind::kDict}, "a dict", at); }

std::shared_ptr<Object> Any::ToObject(Location at) const {
  return {held_, &Held<Object>({Kind::kObject}, "an object", at)};
}

std::shared_ptr<const Graph> Any::ToGraph(Location at) const {
  return {held_, &Held<Graph>({Kind::kGraph}, "a Graph", at)};
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
