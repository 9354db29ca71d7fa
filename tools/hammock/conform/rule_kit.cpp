#include "conform/rule_kit.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hammock/plugins.h"

namespace hammock::tool {

Device Open(const Subject& subject) {
  Device device(plugins::Load(subject.plugin).name);
  SetDefaultDevice(device);
  return device;
}

PluginTables& Tables() {
  static PluginTables tables;
  return tables;
}

Device OpenWrapped(const Subject& subject, const std::function<void()>& wrap) {
  static const HammockPlugin* (*entry)(const HammockHost*) = nullptr;
  static std::function<void()> change;
  void* library = dlopen(subject.plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) throw ValueError(ErrorCode::kValue, dlerror());
  entry = reinterpret_cast<decltype(entry)>(dlsym(library, "hammock_plugin"));
  change = wrap;
  auto table = [](const HammockHost* host) -> const HammockPlugin* {
    const HammockPlugin* given = entry(host);
    if (!given) return nullptr;
    PluginTables& tables = Tables();
    tables.original = {};
    std::memcpy(&tables.original, given, std::min<size_t>(sizeof(*given), given->struct_size));
    tables.wrapped = tables.original;
    tables.wrapped.struct_size = sizeof(tables.wrapped);
    change();
    return &tables.wrapped;
  };
  Device device(plugins::Register(entry ? +table : nullptr, subject.plugin).name);
  SetDefaultDevice(device);
  return device;
}

namespace {

/// Without a tolerance zeros of both signs differ; NaN is NaN.
bool IsClose(double x, double y, double tolerance) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return tolerance > 0 || std::signbit(x) == std::signbit(y);
  return std::isfinite(y) && std::abs(x - y) <= tolerance * (1 + std::abs(y));
}

}  // namespace

std::string Difference(const HostTensor& got, const HostTensor& wanted, double tolerance) {
  if (got.shape() != wanted.shape()) {
    return fmt::format("{} instead of {}", got.shape().to_string(), wanted.shape().to_string());
  }
  for (int64_t i = 0; i < got.numel(); ++i) {
    const Scalar a = got.at(i), b = wanted.at(i);
    if (a == b) continue;
    const bool numbers = tolerance > 0 || IsFloatOrComplex(a.dtype());
    if (numbers && IsClose(a.ToDouble(), b.ToDouble(), tolerance) &&
        IsClose(a.imag(), b.imag(), tolerance)) {
      continue;
    }
    return fmt::format("element {} is {} instead of {}", i, a.to_string(), b.to_string());
  }
  return "";
}

std::string BitDifference(const HostTensor& got, const HostTensor& wanted) {
  if (got.SameBits(wanted)) return "";
  const std::string differs = Difference(got, wanted);
  return differs.empty() ? "the bits of a zero or a NaN differ" : differs;
}

double ToleranceOf(DType dtype) {
  const DType real = RealOf(dtype);
  if (real == f64) return 1e-7;
  if (real == f32) return 1e-5;
  return IsFloat(real) ? 1e-2 : 0;
}

HostTensor Ramp(DType dtype, const Dims& sizes) {
  HostTensor tensor(Shape(dtype, sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.set(i, Scalar(static_cast<double>(i % 7) - (IsSigned(dtype) ? 3 : 0)).To(dtype));
  }
  return tensor;
}

std::string Line(const std::string& text) { return text.empty() ? "" : text + "\n"; }

// ---- DirectDevice

BackendDataPtr DirectDevice::Upload(const HostTensor& host) const {
  return backend.MakeComputationDataFromTensor(host, host.shape(), where);
}

HostTensor DirectDevice::Download(const Data& data) const {
  return backend.MakeTensorFromComputationData(data, std::nullopt);
}

lazy::ComputationPtr DirectDevice::Compile(const std::string& graph) const {
  ShowGraph(graph);
  auto computation = std::make_shared<lazy::Computation>("rule", ParseGraph(graph), where);
  computation->aliases = {{0, 0}};
  return backend.Compile({computation}).at(0);
}

std::vector<BackendDataPtr> DirectDevice::Run(const lazy::ComputationPtr& computation,
                                              const std::vector<Data>& arguments,
                                              const std::vector<bool>& donated) const {
  lazy::RunContext run;
  run.donated = donated;
  std::vector<Data> results = backend.ExecuteComputation(computation, arguments, where, run);
  for (const Data& result : results) result->WaitReady();
  return results;
}

std::string TwiceGraph(const std::string& sizes) {
  return fmt::format("%0 = input : f32[{0}]\n%1 = add %0, %0 : f32[{0}]\nreturn %1", sizes);
}

// ---- The program of a rule

namespace {

struct Shown {
  std::string code, graphs;
  std::string text;  // both, at any time: a crash prints it

  void Update() {
    text = code.empty() ? "" : "as C++:\n" + code;
    if (!graphs.empty()) text += "as a graph:\n" + graphs;
  }
};

Shown& Program() {
  static auto& program = *new Shown;
  return program;
}

/// A line for each statement outside of parentheses.
std::string StatementLines(std::string_view statements) {
  std::string lines = "  ";
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < statements.size(); ++i) {
    const char c = statements[i];
    if (c == '"' && (i == 0 || statements[i - 1] != '\\')) in_text = !in_text;
    if (!in_text) depth += (c == '(') - (c == ')');
    lines += c;
    if (c == ';' && !in_text && depth == 0 && i + 2 < statements.size()) {
      lines += "\n  ";
      if (statements[i + 1] == ' ') ++i;
    }
  }
  return lines + (lines.ends_with(';') || lines.ends_with('}') ? "\n" : ";\n");
}

}  // namespace

void ShowCode(const char* statements) {
  Shown& shown = Program();
  const std::string lines = StatementLines(statements);
  if (shown.code.find(lines) != shown.code.npos) return;
  shown.code += lines;
  shown.Update();
}

void ShowOnly(std::string code) {
  Program() = {std::move(code), "", ""};
  Program().Update();
}

void ShowGraph(const std::string& text) {
  Shown& shown = Program();
  if (shown.graphs.find(text) != shown.graphs.npos) return;
  shown.graphs += text + (text.ends_with('\n') ? "" : "\n");
  shown.Update();
}

void ShowGraph(std::initializer_list<Tensor> pending) {
  const std::vector<Tensor> tensors(pending);
  ShowGraph(LazyGraphExecutor::Get()->DumpTensors(tensors));
}

const std::string& ShownText() { return Program().text; }

}  // namespace hammock::tool
