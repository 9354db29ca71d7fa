/// Conversions of boxed calls.

#include "base/throw.h"
#include "hammock/op_builder.h"
#include "ir/op_registry.h"
#include "ir/primitives.h"
#include "ir/schema_access.h"
#include "trace/record.h"

namespace hammock::boxing {

namespace {

/// As PyTorch wraps a Python number: bool, i64, the default float or the default complex dtype.
Tensor LiftNumber(const Any& value) {
  Scalar scalar = value.ToScalar();
  return Lift(scalar, DTypeOfNumber(scalar));
}

class BoxedGenerator : public Object {
 public:
  explicit BoxedGenerator(Generator generator) : generator(std::move(generator)) {}
  std::string type_name() const override { return "Generator"; }
  Generator generator;
};

}  // namespace

Tensor ToTensorOrNumber(const Any& value) {
  if (value.IsNone()) return Tensor();
  return value.IsNumber() ? LiftNumber(value) : value.ToTensor();
}

TensorArg ToTensorArg(const Any& value) {
  return value.IsTensor() ? TensorArg(value.ToTensor()) : TensorArg(value.ToScalar());
}

std::vector<Tensor> ToTensors(const Any& value) {
  std::vector<Tensor> tensors;
  if (value.IsTensor()) return {value.ToTensor()};
  for (const Any& item : value.ToList()) tensors.push_back(ToTensorOrNumber(item));
  return tensors;
}

std::vector<std::optional<Tensor>> ToOptionalTensors(const Any& value) {
  std::vector<std::optional<Tensor>> tensors;
  for (const Any& item : value.ToList()) {
    tensors.push_back(item.IsNone() ? std::nullopt : std::optional(ToTensorOrNumber(item)));
  }
  return tensors;
}

Device ToDevice(const Any& value) {
  return value.IsNone() ? Device() : Device(value.ToStringRef());
}

std::optional<Generator> ToGenerator(const Any& value) {
  if (value.IsNone()) return std::nullopt;
  auto boxed = std::dynamic_pointer_cast<BoxedGenerator>(value.ToObject());
  if (!boxed) {
    Throw<TypeError>(ErrorCode::kSchema, "expected a Generator, got {}", value.type_name());
  }
  return boxed->generator;
}

Any FromGenerator(const Generator& generator) {
  return Any(std::shared_ptr<Object>(std::make_shared<BoxedGenerator>(generator)));
}

Any FromTensors(const std::vector<Tensor>& tensors) {
  AnyList list;
  for (const Tensor& tensor : tensors) list.emplace_back(tensor);
  return Any(std::move(list));
}

}  // namespace hammock::boxing

namespace hammock {

void LiftFirst(const OpDef& op, std::span<Any> args) {
  if (args.size() < 2 || !args[0].IsNumber() || !args[1].IsTensor()) return;
  const SchemaType& type = op.info().schema.arguments()[0].type;
  if (type.base != SchemaType::Base::kTensor || type.list) return;
  Scalar number = args[0].ToScalar();
  args[0] = Lift(number, ResultType(args[1].ToTensor(), number));
}

Any CallNode(const OpDef& op, std::span<const Any> args) {
  const OpInfo& info = op.info();
  if (&op == &ops::kInput || &op == &ops::kDeviceData || &op == &ops::kScalarLeaf ||
      &op == &ops::kRngState) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "{}: a leaf has data and cannot be called",
                        info.name);
  }
  std::vector<Tensor> operands;
  for (int index : info.operand_args) {
    const Any& value = args[index];
    if (info.schema.arguments()[index].type.list) {
      for (Tensor& tensor : boxing::ToTensors(value)) operands.push_back(std::move(tensor));
    } else {
      operands.push_back(boxing::ToTensorOrNumber(value));
    }
  }
  std::vector<Attr> attrs;
  for (int index : info.attribute_args) {
    attrs.push_back(MakeAttr(info.schema.arguments()[index].type, args[index]));
  }
  if (operands.empty()) {
    NodePtr node = RecordNodeOn(op, attrs, Device().id(), CurrentLocation());
    if (node->num_outputs() == 0) return boxing::FromTensors({});  // a list of no tensors
    return Tensor::FromValue({std::move(node), 0});
  }
  std::vector<Tensor> results = ApplyMulti(op, Location::current(), operands, attrs);
  if (results.size() == 1 && !info.schema.variadic_returns()) return results[0];
  return boxing::FromTensors(results);
}

}  // namespace hammock
