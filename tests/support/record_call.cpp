#include "support/record_call.h"

#include <set>

#include "ir/sample.h"

namespace hammock::testing {
namespace {

using Base = SchemaType::Base;

bool IsCallable(const OpDef& op) {
  static const std::set<std::string> kLeaves = {"input", "device_data", "scalar", "rng_state"};
  const FunctionSchema& schema = op.info().schema;
  if (kLeaves.count(schema.name()) || schema.name().find("empty") != std::string::npos) {
    return false;  // values that nobody chose
  }
  if (schema.name().ends_with("_update")) return false;  // takes state of a given number
  for (const SchemaArgument& argument : schema.arguments()) {
    // Norms update running statistics, which PyTorch's schemas do not say.
    bool written = argument.written || argument.name.rfind("running_", 0) == 0;
    if (written || argument.type.base == Base::kGraph) return false;
  }
  for (const SchemaType& type : schema.returns()) {
    if (type.base != Base::kTensor) return false;
  }
  return !schema.returns().empty();
}

Argument ArgumentOf(const Attr& attr) {
  switch (attr.kind()) {
    case Attr::Kind::kScalar:
      if (attr.scalar().IsBool()) return attr.boolean();
      if (attr.scalar().IsInt()) return attr.integer();
      return attr.real();
    case Attr::Kind::kDType:
      return attr.dtype();
    case Attr::Kind::kString:
      return attr.str();
    case Attr::Kind::kInts:
      return attr.ints();
    case Attr::Kind::kFloats:
      return attr.floats();
    case Attr::Kind::kNone:
    case Attr::Kind::kGraph:
    case Attr::Kind::kStrings:
      break;
  }
  return Absent{true};
}

Argument RandomNumber(const ArgumentSource& source, bool floating) {
  if (!floating) return source.number(-2, 3);
  return static_cast<double>(source.number(-4, 8)) / 4.0;
}

std::vector<Argument> OfSample(const OpDef& op, const SampleCall& call,
                               const ArgumentSource& source) {
  const OpInfo& info = op.info();
  std::vector<Argument> args(info.schema.arguments().size(), Absent{});
  size_t next = 0;
  auto variable = [&] { return Var{source.of_type(*call.operands[next++], op.domain)}; };
  for (int place : info.operand_args) {
    const SchemaType& type = info.schema.arguments()[place].type;
    Argument& argument = args[place];
    if (type.list) {
      std::vector<Var> vars;
      while (next < call.operands.size()) vars.push_back(variable());
      argument = vars;
    } else if (next >= call.operands.size() || !call.operands[next]) {
      argument = Absent{type.optional};
      ++next;
    } else if (type.base == Base::kScalar) {
      argument = RandomNumber(source, IsFloat(call.operands[next++]->dtype()));
    } else {
      argument = variable();
    }
  }
  for (size_t i = 0; i < call.attrs.size(); ++i) {
    args[info.attribute_args[i]] = ArgumentOf(call.attrs[i]);
  }
  return args;
}

Argument OfType(const SchemaArgument& argument, const ArgumentSource& source) {
  if (argument.default_value && source.number(0, 1) == 0) return Absent{};
  const SchemaType& type = argument.type;
  switch (type.base) {
    case Base::kTensor:
      if (type.list) return std::vector<Var>{Var{source.variable()}, Var{source.variable()}};
      return Var{source.variable()};
    case Base::kScalar:
      return RandomNumber(source, source.number(0, 1) == 0);
    case Base::kInt: {
      if (!type.list) return source.number(-2, 3);
      std::vector<int64_t> values;
      int64_t length = type.fixed_length > 1 ? type.fixed_length : source.number(0, 3);
      while (static_cast<int64_t>(values.size()) < length) values.push_back(source.number(-1, 3));
      return values;
    }
    case Base::kFloat:
      if (type.list) return std::vector<double>{0.5, 1.5};
      return RandomNumber(source, true);
    case Base::kBool:
      return source.number(0, 1) == 0;
    case Base::kDType:
      return source.number(0, 1) == 0 ? DType::kF32 : DType::kI64;
    case Base::kString:
    case Base::kDevice:
    case Base::kGenerator:
    case Base::kGraph:
    case Base::kDict:
    case Base::kTuple:
    case Base::kObject:
    case Base::kNested:
    case Base::kAny:
    case Base::kNone:
      break;
  }
  return Absent{};
}

}  // namespace

const std::vector<const OpDef*>& CallableRecords() {
  static const std::vector<const OpDef*> records = [] {
    std::vector<const OpDef*> all = op_registry::All();
    std::erase_if(all, [](const OpDef* op) { return !IsCallable(*op); });
    return all;
  }();
  return records;
}

std::vector<Argument> RandomArguments(const OpDef& op, const ArgumentSource& source) {
  std::vector<SampleCall> samples = SampleCalls(op);
  if (!samples.empty() && source.number(0, 3) > 0) {
    int64_t last = static_cast<int64_t>(samples.size()) - 1;
    return OfSample(op, samples[source.number(0, last)], source);
  }
  std::vector<Argument> args;
  for (const SchemaArgument& argument : op.info().schema.arguments()) {
    args.push_back(OfType(argument, source));
  }
  return args;
}

}  // namespace hammock::testing
