#include "support/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "hammock/ir/op_def.h"

namespace hammock::testing {
namespace {

using Kind = Statement::Kind;

std::string VarName(int id) { return fmt::format("v{}", id); }

std::string Number(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <class T, class F>
std::string Braced(const std::vector<T>& items, F&& text) {
  std::string result = "{";
  for (const T& item : items) result += (result.size() == 1 ? "" : ", ") + text(item);
  return result + "}";
}

std::string IndexText(const IndexItem& item) {
  if (item.step == 0) return fmt::format("{}", item.start);
  return fmt::format("Slice({}, {}, {})", item.start, item.stop, item.step);
}

struct ArgumentText {
  std::string operator()(const Var& var) const { return VarName(var.id); }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return Number(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(DType value) const {
    std::string name(NameOf(value));
    if (value == DType::kBool) return "boolean";
    if (InfoOf(value).supported) return name;
    std::ranges::transform(name, name.begin(), ::toupper);
    return "DType::k" + name;
  }
  std::string operator()(const std::vector<int64_t>& values) const {
    return Braced(values, [](int64_t value) { return fmt::format("{}", value); });
  }
  std::string operator()(const std::vector<Var>& vars) const {
    return Braced(vars, [](const Var& var) { return VarName(var.id); });
  }
  std::string operator()(const std::vector<IndexItem>& items) const {
    return Braced(items, IndexText);
  }
  std::string operator()(const std::vector<double>& values) const { return Braced(values, Number); }
  std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
  std::string operator()(const Absent&) const { return "None"; }
};

/// As an Any.
struct BoxedText : ArgumentText {
  using ArgumentText::operator();
  std::string operator()(const std::vector<int64_t>& values) const {
    return "Any::Ints(" + ArgumentText()(values) + ")";
  }
  std::string operator()(const std::vector<Var>& vars) const {
    return "AnyList" + ArgumentText()(vars);
  }
  std::string operator()(const std::vector<double>& values) const {
    return "AnyList" + ArgumentText()(values);
  }
  std::string operator()(const Absent&) const { return "Any()"; }
};

std::string Arguments(const Statement& statement, size_t first = 0) {
  std::string text;
  for (size_t i = first; i < statement.args.size(); ++i) {
    text += (i == first ? "" : ", ") + std::visit(ArgumentText(), statement.args[i]);
  }
  return text;
}

/// What an input of a dtype is written in; storage types are cast.
std::string ElementType(DType dtype) {
  if (dtype == DType::kBool) return "bool";
  if (IsComplex(dtype)) return "std::complex<float>";
  if (IsFloat(dtype)) return "float";
  int bits = InfoOf(dtype).supported ? InfoOf(dtype).bits : 64;
  return fmt::format("{}int{}_t", IsSigned(dtype) || bits == 64 ? "" : "u", bits);
}

std::string InputText(const HostTensor& input) {
  std::vector<Scalar> values;
  for (int64_t i = 0; i < input.numel(); ++i) values.push_back(input.at(i));
  auto text = [&](const Scalar& value) -> std::string {
    if (value.IsBool()) return value.ToBool() ? "true" : "false";
    if (value.IsInt()) return fmt::format("{}", value.ToInt());
    auto number = [](double part) {
      std::string text = Number(part);
      return text.find_first_of("NI") == std::string::npos ? text + "f" : text;
    };
    if (!value.IsComplex()) return number(value.ToDouble());
    return fmt::format("{{{}, {}}}", number(value.ToDouble()), number(value.imag()));
  };
  std::string cast =
      InfoOf(input.dtype()).supported ? "" : fmt::format(".to({})", ArgumentText()(input.dtype()));
  return fmt::format("tensor(std::vector<{}>{}, Dims{}){}", ElementType(input.dtype()),
                     Braced(values, text), ArgumentText()(input.shape().sizes().vec()), cast);
}

std::string ByNameText(const Statement& statement) {
  const auto& arguments = op_registry::Get(statement.op).info().schema.arguments();
  std::string given;
  for (size_t i = 0; i < statement.args.size(); ++i) {
    const auto* absent = std::get_if<Absent>(&statement.args[i]);
    if (absent && !absent->is_none) continue;
    given += fmt::format("{}{{\"{}\", {}}}", given.empty() ? "" : ", ", arguments[i].name,
                         std::visit(BoxedText(), statement.args[i]));
  }
  std::string part =
      statement.part < 0 ? "" : fmt::format(".ToList().at({})", static_cast<int>(statement.part));
  return fmt::format("CallOp(\"{}\", {{}}, {{{}}}){}.ToTensor().clone()", statement.op, given,
                     part);
}

std::string CallText(const Statement& statement) {
  if (statement.kind == Kind::kByName) return ByNameText(statement);
  if (statement.op == "getitem") {
    return fmt::format("{}.index({})", std::visit(ArgumentText(), statement.args[0]),
                       Arguments(statement, 1));
  }
  if (statement.op == "setitem") {
    return fmt::format("{}.index_put_({})", std::visit(ArgumentText(), statement.args[0]),
                       Arguments(statement, 1));
  }
  return fmt::format("{}({})", statement.op, Arguments(statement));
}

}  // namespace

std::vector<int> UsesOf(const Statement& statement) {
  std::vector<int> uses;
  for (const Argument& argument : statement.args) {
    if (const auto* var = std::get_if<Var>(&argument)) uses.push_back(var->id);
    if (const auto* vars = std::get_if<std::vector<Var>>(&argument)) {
      for (const Var& var : *vars) uses.push_back(var.id);
    }
  }
  return uses;
}

std::string ToCpp(const Statement& statement) {
  switch (statement.kind) {
    case Kind::kInput:
      return fmt::format("Tensor {} = {}{};", VarName(statement.result), InputText(statement.input),
                         statement.requires_grad ? ".requires_grad_()" : "");
    case Kind::kCall:
    case Kind::kByName:
    case Kind::kView:
      if (statement.no_grad) {
        return fmt::format("Tensor {} = [&] {{ NoGradGuard no_grad; return {}; }}();",
                           VarName(statement.result), CallText(statement));
      }
      return fmt::format("Tensor {} = {};", VarName(statement.result), CallText(statement));
    case Kind::kInPlace:
      if (statement.no_grad) return "{ NoGradGuard no_grad; " + CallText(statement) + "; }";
      return CallText(statement) + ";";
    case Kind::kBackward:
      return fmt::format(
          "if ({0}.requires_grad()) "
          "backward(std::vector{{sum({0}.is_complex() ? view_as_real({0}) : {0})}}, {{}}, true);",
          Arguments(statement));
    case Kind::kGradient:
      return fmt::format(
          "Tensor {0} = {1}.grad().defined() ? {1}.grad().clone() : zeros_like({1});",
          VarName(statement.result), Arguments(statement));
    case Kind::kRead:
      return Arguments(statement) + ".host();";
    case Kind::kSync:
      return fmt::format("sync_multi({});", Arguments(statement));
    case Kind::kStep:
      return "mark_step();";
    case Kind::kDelete:
      return Arguments(statement) + " = Tensor();";
    case Kind::kSeed:
      return fmt::format("manual_seed({});", Arguments(statement));
  }
  return "";
}

std::string ToCpp(const Program& program) {
  std::string text =
      "#include <hammock/hammock.h>\n\n#include <complex>\n#include <iostream>\n\nusing namespace "
      "hammock;\n\n"
      "int main(int argc, char**) {\n"
      "  std::optional<EagerMode> eager;\n"
      "  if (argc > 1) eager.emplace();  // any argument: op by op\n";
  std::vector<int> live, leaves;
  for (const Statement& statement : program.statements) {
    text += "  " + ToCpp(statement) + "\n";
    if (statement.result >= 0) live.push_back(statement.result);
    if (statement.requires_grad) leaves.push_back(statement.result);
    if (statement.kind == Kind::kDelete) std::erase(live, UsesOf(statement)[0]);
    if (statement.kind == Kind::kDelete) std::erase(leaves, UsesOf(statement)[0]);
  }
  for (int id : live) text += fmt::format("  std::cout << v{} << '\\n';\n", id);
  for (int id : leaves) {
    text += fmt::format("  if (v{0}.grad().defined()) std::cout << v{0}.grad() << '\\n';\n", id);
  }
  return text + "}\n";
}

}  // namespace hammock::testing
