// Which attribute an argument of a schema becomes.

#include <algorithm>

#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "ir/schema_access.h"

namespace hammock {
namespace {

using Base = SchemaType::Base;
using Kind = Attr::Kind;

bool IsScalarOf(const Attr& attr, DType dtype) {
  return attr.kind() == Kind::kScalar && attr.scalar().dtype() == dtype;
}

bool ListFits(const SchemaType& type, const Attr& attr) {
  auto length_fits = [&](size_t size) {
    return type.fixed_length <= 1 || size == 0 || static_cast<int>(size) == type.fixed_length;
  };
  if (type.base == Base::kFloat) {
    return attr.kind() == Kind::kFloats && length_fits(attr.floats().size());
  }
  if (type.base == Base::kString) {
    return attr.kind() == Kind::kStrings && length_fits(attr.strings().size());
  }
  if (attr.kind() != Kind::kInts || !length_fits(attr.ints().size())) return false;
  const std::vector<int64_t>& items = attr.ints();
  return type.base == Base::kInt ||
         std::all_of(items.begin(), items.end(), [](int64_t i) { return i == 0 || i == 1; });
}

Attr MakeListAttr(const SchemaType& type, const Any& value) {
  if (type.base == Base::kFloat) return Attr(value.ToDoubles());
  if (type.base != Base::kString) return Attr(value.ToInts());
  std::vector<std::string> items;
  for (const Any& item : value.ToList()) items.push_back(item.ToStringRef());
  return Attr(std::move(items));
}

}  // namespace

bool CanBeAttribute(const SchemaType& type) {
  switch (type.base) {
    case Base::kInt:
    case Base::kFloat:
    case Base::kBool:
    case Base::kString:
      return !type.optional_items;
    case Base::kScalar:
    case Base::kDType:
    case Base::kDevice:
    case Base::kGraph:
      return !type.list;
    case Base::kTensor:
    case Base::kGenerator:
    case Base::kDict:
    case Base::kTuple:
    case Base::kObject:
    case Base::kNested:
    case Base::kAny:
    case Base::kNone:
      return false;
  }
  return false;
}

bool AttrFits(const SchemaType& type, const Attr& attr) {
  if (attr.IsNone()) return type.optional;
  if (type.list) return CanBeAttribute(type) && ListFits(type, attr);
  switch (type.base) {
    case Base::kInt:
      return IsScalarOf(attr, DType::kI64);
    case Base::kFloat:
      return IsScalarOf(attr, DType::kF64);
    case Base::kBool:
      return IsScalarOf(attr, DType::kBool);
    case Base::kScalar:
      return attr.kind() == Kind::kScalar;
    case Base::kString:
    case Base::kDevice:
      return attr.kind() == Kind::kString;
    case Base::kDType:
      return attr.kind() == Kind::kDType;
    case Base::kGraph:
      return attr.kind() == Kind::kGraph;
    case Base::kTensor:
    case Base::kGenerator:
    case Base::kDict:
    case Base::kTuple:
    case Base::kObject:
    case Base::kNested:
    case Base::kAny:
    case Base::kNone:
      return false;
  }
  return false;
}

Attr MakeAttr(const SchemaType& type, const Any& value) {
  if (value.IsNone()) return Attr();
  if (type.list) return MakeListAttr(type, value);
  switch (type.base) {
    case Base::kInt:
      return Attr(value.ToInt());
    case Base::kFloat:
      return Attr(value.ToDouble());
    case Base::kBool:
      return Attr(value.ToBool());
    case Base::kScalar:
      return Attr(value.ToScalar());
    case Base::kString:
    case Base::kDevice:
      return Attr(value.ToStringRef());
    case Base::kDType:
      return Attr(value.ToDType());
    case Base::kGraph:
      return Attr(value.ToGraph());
    case Base::kTensor:
    case Base::kGenerator:
    case Base::kDict:
    case Base::kTuple:
    case Base::kObject:
    case Base::kNested:
    case Base::kAny:
    case Base::kNone:
      break;
  }
  Throw<InternalError>(ErrorCode::kInternal, "a {} cannot be an attribute", type.to_string());
}

}  // namespace hammock
