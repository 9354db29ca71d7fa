// Random programs with gradients, made as short as they still fail.
#include <fmt/format.h>

#include <random>
#include <vector>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"

namespace hammock::tool {
namespace {

/// One line of a random program, on values of f32[4,4].
struct Operation {
  const char* cpp;  ///< with A and B for the operands
  Tensor (*run)(const Tensor& a, const Tensor& b);
};
using T = const Tensor&;
constexpr Operation kOperations[] = {
    {"A + B", [](T a, T b) { return a + b; }},
    {"A - B", [](T a, T b) { return a - b; }},
    {"A * B", [](T a, T b) { return tanh(a) * tanh(b); }},
    {"maximum(A, B)", [](T a, T b) { return maximum(a, b); }},
    {"where(A > B, A, B)", [](T a, T b) { return where(a > b, a, b); }},
    {"tanh(A)", [](T a, T) { return tanh(a); }},
    {"sigmoid(A)", [](T a, T) { return sigmoid(a); }},
    {"relu(A)", [](T a, T) { return relu(a); }},
    {"softmax(A, 1)", [](T a, T) { return softmax(a, 1); }},
    {"matmul(tanh(A), tanh(B))", [](T a, T b) { return matmul(tanh(a), tanh(b)); }},
    {"cumsum(tanh(A), 0)", [](T a, T) { return cumsum(tanh(a), 0); }},
    {"sum(tanh(A), {1}, true) + B", [](T a, T b) { return sum(tanh(a), {1}, true) + b; }},
    {"mean(A, {0}, true) - B", [](T a, T b) { return mean(a, {0}, true) - b; }},
    {"transpose(A, 0, 1)", [](T a, T) { return transpose(a, 0, 1); }},
    {"flip(A, {0})", [](T a, T) { return flip(a, {0}); }},
    {"-A", [](T a, T) { return -a; }},
};
struct Statement {
  size_t operation, a, b;
};
constexpr size_t kInputs = 3;
using RandomProgram = std::vector<Statement>;

/// The last value and the gradients of the inputs.
std::vector<HostTensor> RunProgram(const RandomProgram& program, const Device& device) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < kInputs; ++i) {
    HostTensor host(Shape(f32, {4, 4}));
    for (int64_t k = 0; k < 16; ++k) {
      host.set(k, static_cast<double>((k * 5 + static_cast<int64_t>(i) * 3) % 13) / 6 - 1);
    }
    values.push_back(from_host(host, device).requires_grad_());
  }
  for (const Statement& s : program) {
    values.push_back(kOperations[s.operation].run(values[s.a], values[s.b]));
  }
  sum(values.back() * values.back()).backward();
  std::vector<HostTensor> results = {values.back().host()};
  for (size_t i = 0; i < kInputs; ++i) {
    if (values[i].grad().defined()) results.push_back(values[i].grad().host());
  }
  return results;
}

std::string CodeOf(const RandomProgram& program) {
  std::string text;
  auto name = [](size_t value) {
    return value < kInputs ? fmt::format("x{}", value) : fmt::format("v{}", value - kInputs);
  };
  for (size_t i = 0; i < program.size(); ++i) {
    const Statement& s = program[i];
    std::string line;
    for (const char* c = kOperations[s.operation].cpp; *c; ++c) {
      line += *c == 'A' ? name(s.a) : *c == 'B' ? name(s.b) : std::string(1, *c);
    }
    text += fmt::format("  Tensor v{} = {};\n", i, line);
  }
  return text;
}

std::string ProgramDiffers(const RandomProgram& program, const Device& device) {
  try {
    ShowOnly(CodeOf(program));  // a crash prints it
    auto wanted = RunProgram(program, "reference");
    auto got = RunProgram(program, device);
    for (size_t i = 0; i < wanted.size(); ++i) {
      std::string differs = Difference(got.at(i), wanted[i], 1e-4);
      if (!differs.empty()) return (i == 0 ? "the result: " : "a gradient: ") + differs;
    }
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Without statement `gone`, whose value is replaced by its first operand.
RandomProgram Without(const RandomProgram& program, size_t gone) {
  RandomProgram shorter;
  auto moved = [&](size_t value) {
    if (value == gone + kInputs) value = program[gone].a;
    return value > gone + kInputs ? value - 1 : value;
  };
  for (size_t i = 0; i < program.size(); ++i) {
    if (i == gone) continue;
    shorter.push_back({program[i].operation, moved(program[i].a), moved(program[i].b)});
  }
  return shorter;
}

void ShowProgramGraph(const RandomProgram& program, const Device& device) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < kInputs; ++i) values.push_back(ones({4, 4}, f32, device));
  for (const Statement& s : program) {
    values.push_back(kOperations[s.operation].run(values[s.a], values[s.b]));
  }
  ShowGraph({values.back()});
}

}  // namespace

std::string RunsRandomPrograms(const Subject& subject) {
  Device device = Open(subject);
  std::mt19937 random(1);
  for (int trial = 0; trial < 150; ++trial) {
    RandomProgram program;
    for (size_t i = 0, length = 2 + random() % 10; i < length; ++i) {
      const size_t values = kInputs + i;
      program.push_back({random() % std::size(kOperations), random() % values, random() % values});
    }
    std::string differs = ProgramDiffers(program, device);
    if (differs.empty()) continue;
    for (size_t i = program.size(); i-- > 0 && program.size() > 1;) {
      if (i >= program.size()) continue;
      RandomProgram shorter = Without(program, i);
      if (!ProgramDiffers(shorter, device).empty()) program = shorter;
    }
    differs = ProgramDiffers(program, device);
    ShowProgramGraph(program, device);
    return fmt::format("program {}: {}\n", trial, differs);
  }
  return "";
}

}  // namespace hammock::tool
