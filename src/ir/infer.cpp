// Result types of nodes: InferShapes and ComputeDType.

#include "ir/infer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/throw.h"
#include "hammock/ir/op_def.h"
#include "ir/storage.h"

namespace hammock {
namespace {

constexpr int kNothing = -1;

// bool < integers < floats < complex numbers.
int Category(DType dtype) {
  if (dtype == DType::kBool) return 0;
  return IsComplex(dtype) ? 3 : IsFloat(dtype) ? 2 : 1;
}

// The promotion of the operands met so far; tensors with dims count before those of rank 0.
class Promotion {
 public:
  void Add(const Shape& operand) {
    int& dtype = operand.rank() > 0 ? with_dims_ : without_dims_;
    auto next = static_cast<int>(operand.dtype());
    if (dtype == kNothing) {
      dtype = next;
    } else if (dtype != next) {
      dtype = static_cast<int>(PromoteTypes(static_cast<DType>(dtype), operand.dtype()));
    }
  }

  DType Result() const {
    if (with_dims_ == kNothing || without_dims_ == kNothing) {
      return static_cast<DType>(with_dims_ == kNothing ? without_dims_ : with_dims_);
    }
    auto high = static_cast<DType>(with_dims_);
    auto low = static_cast<DType>(without_dims_);
    if (Category(low) <= Category(high)) return high;
    // A complex number takes on the precision of floats.
    return IsComplex(low) && IsFloat(high) ? ComplexOf(high) : PromoteTypes(high, low);
  }

 private:
  int with_dims_ = kNothing;
  int without_dims_ = kNothing;
};

DType Promote(std::span<const Shape* const> in) {
  Promotion promotion;
  for (const Shape* operand : in) {
    if (operand) promotion.Add(*operand);
  }
  return promotion.Result();
}

std::string OperandText(std::span<const Shape* const> in) {
  std::string text;
  for (const Shape* operand : in) {
    if (!text.empty()) text += ", ";
    text += operand ? operand->to_string() : "none";
  }
  return text;
}

void CheckCounts(const OpDef& op, std::span<const Shape* const> in, std::span<const Attr> attrs) {
  const OpInfo& info = op.info();
  size_t fixed = info.operand_args.size() - (info.variadic ? 1 : 0);
  HAMMOCK_CHECK(in.size() == fixed || (info.variadic && in.size() > fixed),
                "{} has {} operands, got {}", info.name, fixed, in.size());
  HAMMOCK_CHECK(attrs.size() == info.attribute_args.size(), "{} has {} attributes, got {}",
                info.name, info.attribute_args.size(), attrs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i]) [[likely]]
      continue;
    size_t last = info.operand_args.size() - 1;
    const SchemaArgument& argument = info.schema.arguments()[info.operand_args[std::min(i, last)]];
    if (argument.type.list ? argument.type.optional_items : argument.type.optional) continue;
    Throw(ErrorCode::kUninitializedTensor, "{}: operand {} (`{}`) is undefined", info.name, i,
          argument.name);
  }
}

/// Storage types are moved and cast.
void CheckStorage(const OpDef& op, std::span<const Shape* const> in) {
  for (const Shape* operand : in) {
    if (!operand || InfoOf(operand->dtype()).supported) [[likely]]
      continue;
    if (!op.IsPrimitive() || TakesStorage(op)) return;
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: {} is a storage type; cast it, say to {}",
                     op.name(), NameOf(operand->dtype()), IsFloat(operand->dtype()) ? "f32" : "i8");
  }
}

/// A primitive that is not defined on complex numbers refuses them, whatever else its inference
/// allows.
void CheckComplex(const OpDef& op, std::span<const Shape* const> in) {
  if (!op.IsPrimitive() || op.complex || op.takes_complex) return;
  for (const Shape* operand : in) {
    if (!operand || !IsComplex(operand->dtype())) continue;
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: complex numbers are not supported", op.name());
  }
}

DType ResultDType(const OpDef& op, DType computed) {
  switch (op.rule) {
    case DTypeRule::kCompare:
    case DTypeRule::kLogical:
    case DTypeRule::kFloatTest:
      return DType::kBool;
    case DTypeRule::kNone:
    case DTypeRule::kPromote:
    case DTypeRule::kFloat:
    case DTypeRule::kInteger:
    case DTypeRule::kSelect:
      break;
  }
  return computed;
}

Shape InferElementwise(const OpDef& op, std::span<const Shape* const> in) {
  DType dtype = ResultDType(op, ComputeDType(op, in));
  const Shape* first = nullptr;
  Dims sizes;
  for (const Shape* operand : in) {
    if (!operand) continue;
    sizes = first ? BroadcastSizes(op.name(), sizes, operand->sizes()) : operand->sizes();
    first = operand;
  }
  return Shape(dtype, sizes);
}

// The message with the op's name before it and its operands behind it.
template <class E>
[[noreturn, gnu::cold]] void RaiseWithCall(const E& error, const OpDef& op,
                                           std::span<const Shape* const> in) {
  std::string name = op.name();
  std::string message = error.message();
  if (!message.starts_with(name + ":")) message = name + ": " + message;
  if (!in.empty()) message += "; operands are " + OperandText(in);
  E raised(error.code(), message);
  if (!error.where().empty()) raised.SetWhere(error.where());
  throw raised;
}

}  // namespace

DType ComputeDType(const OpDef& op, std::span<const Shape* const> in) {
  switch (op.rule) {
    case DTypeRule::kPromote:
    case DTypeRule::kCompare:
      return Promote(in);
    case DTypeRule::kFloat: {
      DType dtype = Promote(in);
      return IsFloatOrComplex(dtype) ? dtype : kDefaultFloat;
    }
    case DTypeRule::kLogical:
      return DType::kBool;
    case DTypeRule::kInteger: {
      DType dtype = Promote(in);
      if (!IsFloatOrComplex(dtype)) return dtype;
      Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: needs integers or bool, got {}", op.name(),
                       NameOf(dtype));
    }
    case DTypeRule::kFloatTest:
      return in[0]->dtype();
    case DTypeRule::kSelect:
      if (in[0]->dtype() != DType::kBool) {
        Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: the condition must be bool, got {}",
                         op.name(), in[0]->to_string());
      }
      return Promote(in.subspan(1));
    case DTypeRule::kNone:
      break;
  }
  Throw<InternalError>(ErrorCode::kInternal, "{} is not elementwise", op.name());
}

void InferShapes(const OpDef& op, std::span<const Shape* const> in, std::span<const Attr> attrs,
                 std::vector<Shape>& out) {
  CheckCounts(op, in, attrs);
  try {
    CheckStorage(op, in);
    CheckComplex(op, in);
    if (op.infer) {
      op.infer(InferCall{op, in, attrs, out});
    } else {
      out.push_back(InferElementwise(op, in));
    }
    for (const Shape& shape : out) {
      CheckSizes(op.name(), shape.sizes());
      if (IsStorage(shape.dtype())) [[unlikely]]
        CheckPacked(op.name(), shape);
    }
  } catch (const ValueError& error) {
    RaiseWithCall(error, op, in);
  } catch (const TypeError& error) {
    RaiseWithCall(error, op, in);
  } catch (const NotSupported& error) {
    RaiseWithCall(error, op, in);
  }
}

std::vector<Shape> InferShapes(const OpDef& op, std::span<const Shape* const> in,
                               std::span<const Attr> attrs) {
  std::vector<Shape> out;
  InferShapes(op, in, attrs, out);
  return out;
}

}  // namespace hammock
