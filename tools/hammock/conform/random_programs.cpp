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
  Tensor (*run)(const Tensor& A, const Tensor& B);
};
#define BODY(...)                                                                    \
  []([[maybe_unused]] const Tensor& A, [[maybe_unused]] const Tensor& B) -> Tensor { \
    return __VA_ARGS__;                                                              \
  }
#define OPERATION(...) \
  Operation { #__VA_ARGS__, BODY(__VA_ARGS__) }
constexpr Operation kOperations[] = {
    OPERATION(A + B),
    OPERATION(A - B),
    OPERATION(tanh(A) * tanh(B)),
    OPERATION(maximum(A, B)),
    OPERATION(where(A > B, A, B)),
    OPERATION(tanh(A)),
    OPERATION(sigmoid(A)),
    OPERATION(relu(A)),
    OPERATION(softmax(A, 1)),
    OPERATION(matmul(tanh(A), tanh(B))),
    OPERATION(cumsum(tanh(A), 0)),
    OPERATION(sum(tanh(A), {1}, true) + B),
    OPERATION(mean(A, {0}, true) - B),
    OPERATION(transpose(A, 0, 1)),
    OPERATION(flip(A, {0})),
    OPERATION(-A),
};
#undef OPERATION
#undef BODY
struct Statement {
  size_t operation, a, b;
};
constexpr size_t kInputs = 3;
using RandomProgram = std::vector<Statement>;

/// Values of a program: inputs, then one for each statement.
std::string NameOf(size_t value) {
  return value < kInputs ? fmt::format("x{}", value) : fmt::format("v{}", value - kInputs);
}

std::string LineOf(const Statement& statement, size_t value) {
  std::string text;
  for (const char* c = kOperations[statement.operation].cpp; *c; ++c) {
    const bool operand = *c == 'A' || *c == 'B';
    text += operand ? NameOf(*c == 'A' ? statement.a : statement.b) : std::string(1, *c);
  }
  return fmt::format("Tensor {} = {};", NameOf(value), text);
}

/// The last value and the gradients of the inputs. What runs is shown.
std::vector<HostTensor> RunProgram(const RandomProgram& program, const Device& device) {
  SHOWN(auto input = [&](int number) {
    std::vector<float> elements;
    for (int k = 0; k < 16; ++k) {
      elements.push_back(static_cast<float>((k * 5 + number * 3) % 13) / 6 - 1);
    }
    return tensor(elements, Dims{4, 4}, f32, device).requires_grad_();
  };);
  std::vector<Tensor> values;
  for (size_t i = 0; i < kInputs; ++i) {
    ShowCode(fmt::format("Tensor {} = input({});", NameOf(i), i).c_str());
    values.push_back(input(static_cast<int>(i)));
  }
  for (const Statement& s : program) {
    ShowCode(LineOf(s, values.size()).c_str());
    values.push_back(kOperations[s.operation].run(values[s.a], values[s.b]));
  }
  ShowCode(fmt::format("Tensor result = {};", NameOf(values.size() - 1)).c_str());
  const Tensor result = values.back();
  SHOWN(sum(result * result).backward());
  std::vector<HostTensor> results = {result.host()};
  for (size_t i = 0; i < kInputs; ++i) {
    if (values[i].grad().defined()) results.push_back(values[i].grad().host());
  }
  return results;
}

std::string ProgramDiffers(const RandomProgram& program, const Device& device) {
  try {
    ShowOnly(fmt::format("  Device device(\"{}\");\n", device.to_string()));
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
