// hammock ops: all ops, or what is known of one.

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "hammock/error.h"
#include "hammock/inspect.h"
#include "hammock/onnx.h"
#include "hammock/ops.h"

namespace hammock::tool {

namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const OpDescription& op) {
  return {{"name", op.name},         {"schema", op.schema},      {"doc", op.doc},
          {"kind", op.kind},         {"dtypes", op.dtypes},      {"dtype_rule", op.rule},
          {"gradient", op.gradient}, {"expansion", op.expansion}};
}

std::string GradientText(const std::string& gradient) {
  if (gradient == "own") return "its own formula";
  if (gradient == "expanded") return "that of its expansion";
  if (gradient == "no") return "none";
  return "as differentiable as what it calls";
}

void Print(const OpDescription& op) {
  std::cout << op.schema << "\n\n  " << op.doc << "\n\n";
  auto row = [](const char* name, const std::string& text) {
    if (!text.empty()) std::cout << fmt::format("  {:<10}{}\n", name, text);
  };
  row("kind", op.kind);
  row("dtypes", op.dtypes);
  row("result", op.rule);
  row("gradient", GradientText(op.gradient));
  if (op.expansion.empty()) return;
  std::cout << "\n  for example, it becomes\n";
  std::string line;
  for (char c : op.expansion) {
    line += c;
    if (c != '\n') continue;
    std::cout << "    " << line;
    line.clear();
  }
}

/// By full name, or all overloads of a name.
std::vector<const OpDef*> Find(const std::string& name) {
  std::vector<const OpDef*> found = op_registry::Overloads(name);
  if (const OpDef* op = op_registry::Find(name); op && found.empty()) found.push_back(op);
  if (!found.empty()) return found;
  std::string nearest;
  for (const std::string& other : NearestOps(name))
    nearest += (nearest.empty() ? "" : ", ") + other;
  throw ValueError(ErrorCode::kUnknownName,
                   fmt::format("there is no op '{}'; the nearest are: {}", name, nearest));
}

}  // namespace

namespace {

/// "ai.onnx.ml.Binarizer", "Add".
std::string FullName(const onnx::OperatorRange& row) {
  return row.domain.empty() ? row.name : row.domain + "." + row.name;
}

int OnnxOps(const OpsOptions& options) {
  std::vector<onnx::OperatorRange> rows = onnx::operators();
  std::erase_if(rows, [&](const onnx::OperatorRange& row) {
    return !options.name.empty() && FullName(row) != options.name;
  });
  if (rows.empty()) {
    throw ValueError(ErrorCode::kUnknownName,
                     fmt::format("there is no operator '{}' of ONNX", options.name));
  }
  Json json = Json::array();
  for (const onnx::OperatorRange& row : rows) {
    json.push_back({{"name", FullName(row)}, {"since", row.since}, {"until", row.until}});
    if (options.json) continue;
    std::cout << fmt::format("{:<44}opset {} to {}\n", FullName(row), row.since, row.until);
  }
  if (options.json) std::cout << json.dump(2) << "\n";
  return 0;
}

}  // namespace

int Ops(const OpsOptions& options) {
  if (options.onnx) return OnnxOps(options);
  std::vector<const OpDef*> ops = options.name.empty() ? op_registry::All() : Find(options.name);
  if (options.json) {
    Json json = Json::array();
    for (const OpDef* op : ops) json.push_back(ToJson(DescribeOp(*op)));
    std::cout << json.dump(2) << "\n";
    return 0;
  }
  if (options.name.empty()) {
    for (const OpDef* op : ops) std::cout << fmt::format("{:<28}{}\n", op->info().name, op->doc);
    std::cout << ops.size() << " ops; `hammock ops NAME` says more of one\n";
    return 0;
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    if (i > 0) std::cout << "\n";
    Print(DescribeOp(*ops[i]));
  }
  return 0;
}

}  // namespace hammock::tool
