#include "case_code.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "hammock/scalar.h"
#include "replay.h"

namespace hammock::golden {
namespace {

/// In place of a tensor in the arguments of a call.
struct Slot : Object {
  explicit Slot(size_t index) : index(index) {}
  std::string type_name() const override { return "Slot"; }
  const size_t index;
};

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return quoted + "\"";
}

std::string NumberCode(double value) {
  if (std::isnan(value)) return "std::numeric_limits<double>::quiet_NaN()";
  if (std::isinf(value)) {
    return fmt::format("{}std::numeric_limits<double>::infinity()", value < 0 ? "-" : "");
  }
  return fmt::format("double({})", value);
}

std::string ValueCode(const Any& value);

template <class List>
std::string ListCode(const List& items) {
  std::vector<std::string> codes;
  for (const Any& item : items) codes.push_back(ValueCode(item));
  return fmt::format("{{{}}}", fmt::join(codes, ", "));
}

template <class Entries>
std::string EntriesCode(const Entries& entries) {
  std::vector<std::string> codes;
  for (const auto& [name, value] : entries) {
    codes.push_back(fmt::format("{{{}, {}}}", Quoted(name), ValueCode(value)));
  }
  return fmt::format("{{{}}}", fmt::join(codes, ", "));
}

std::string ValueCode(const Any& value) {
  switch (value.kind()) {
    case Any::Kind::kBool:
      return value.ToBool() ? "true" : "false";
    case Any::Kind::kInt:
      return fmt::format("int64_t{{{}}}", value.ToInt());
    case Any::Kind::kFloat:
      return NumberCode(value.ToDouble());
    case Any::Kind::kComplex: {
      const Scalar number = value.ToScalar();
      return fmt::format("std::complex<double>({}, {})", number.ToDouble(), number.imag());
    }
    case Any::Kind::kString:
      return Quoted(value.ToStringRef());
    case Any::Kind::kDType:
      return std::string(InfoOf(value.ToDType()).name);
    case Any::Kind::kList:
    case Any::Kind::kTuple:
      return fmt::format("Any(AnyList{})", ListCode(value.ToList()));
    case Any::Kind::kDict:
      return fmt::format("Any(AnyDict{})", EntriesCode(value.ToDict()));
    case Any::Kind::kObject:
      return fmt::format("s[{}]", static_cast<const Slot&>(*value.ToObject()).index);
    default:
      return "Any()";
  }
}

std::string ShapeCode(const Shape& shape) {
  return fmt::format("Shape({}, {{{}}})", InfoOf(shape.dtype()).name,
                     fmt::join(shape.sizes(), ", "));
}

/// As Generate of the replay.
constexpr const char* kWeyl =
    "  auto weyl = [](const Shape& shape, double scale, double shift) {\n"
    "    HostTensor host(shape);\n"
    "    for (int64_t i = 0; i < shape.numel(); ++i) {\n"
    "      const uint64_t word = static_cast<uint64_t>(i) * 2654435761u & 0xffffffffu;\n"
    "      host.set(i, (static_cast<double>(word) / 4294967296.0 - shift) * scale);\n"
    "    }\n"
    "    return host;\n"
    "  };\n";

std::string InputCode(const Input& input) {
  const Shape& shape = input.shape;
  std::string host =
      input.weyl
          ? fmt::format("weyl({}, {}, {})", ShapeCode(shape), input.weyl->scale, input.weyl->shift)
          : fmt::format("arrays.Read({}, {})", Quoted(input.key), InfoOf(shape.dtype()).name);
  std::string code = fmt::format("from_host({}, device)", host);
  if (input.view) {
    code =
        fmt::format("as_strided({}, {{{}}}, {{{}}}, {})", code, fmt::join(input.view->sizes, ", "),
                    fmt::join(input.view->strides, ", "), input.view->offset);
  }
  return code;
}

}  // namespace

std::string CodeOf(const Case& c, const std::string& dir, const std::string& device) {
  std::string code =
      fmt::format("  Device device{};\n  io::NpzFile arrays = io::NpzFile::Open({});\n",
                  device.empty() ? "" : fmt::format("({})", Quoted(device)),
                  Quoted(fmt::format("{}/data/{}.npz", dir, c.op)));
  size_t count = c.inputs.size();
  for (const Step& step : c.steps) {
    if (step.slot) count = std::max(count, static_cast<size_t>(*step.slot) + 1);
  }
  std::vector<Any> slots;
  for (size_t i = 0; i < count; ++i) {
    slots.emplace_back(std::shared_ptr<Object>(std::make_shared<Slot>(i)));
  }
  for (const Input& input : c.inputs) {
    if (!input.weyl) continue;
    code += kWeyl;
    break;
  }
  code += fmt::format("  std::vector<Any> s({});\n", count);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    code += fmt::format("  s[{}] = {};\n", i, InputCode(c.inputs[i]));
  }
  for (const Step& step : c.steps) {
    const OpCall call = MakeCall(step, slots, device);
    code += fmt::format("  {} = CallOp({}, {}, {});\n",
                        step.slot ? fmt::format("s[{}]", *step.slot) : "Any result",
                        Quoted(call.op), ListCode(call.args), EntriesCode(call.kwargs));
  }
  return code;
}

}  // namespace hammock::golden
