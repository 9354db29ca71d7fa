#include "support/random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hammock/executor.h"
#include "hammock/random.h"
#include "support/program_run.h"

namespace hammock::testing {
namespace {

using Kind = Statement::Kind;

// ---- Comparison

std::string Describe(const Observation& o) {
  if (!o.error.empty()) return "error: " + o.error;
  std::string text = ToString(o.value.shape()) + " {";
  for (int64_t i = 0; i < o.value.numel() && i < 40; ++i) {
    text += (i ? ", " : "") + o.value.at(i).to_string();
  }
  return text + "}";
}

std::string CompareObservations(const Program& program, const std::vector<Observation>& a,
                                const std::vector<Observation>& b, const char* name_a,
                                const char* name_b) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    bool both = i < a.size() && i < b.size() && a[i].var == b[i].var;
    if (both && a[i].error.empty() && b[i].error.empty() && SameValues(a[i].value, b[i].value)) {
      continue;
    }
    const Observation& o = i < a.size() ? a[i] : b[i];
    std::string where = o.statement < program.statements.size()
                            ? "at `" + ToCpp(program.statements[o.statement]) + "`"
                            : "at the end";
    return fmt::format("{}v{} {}\n  {}: {}\n  {}: {}\n", o.gradient ? "the gradient of " : "",
                       o.var, where, name_a, i < a.size() ? Describe(a[i]) : "nothing", name_b,
                       i < b.size() ? Describe(b[i]) : "nothing");
  }
  return "";
}

std::string CompareFacts(const TensorRun& lazy, const TensorRun& eager, const PlainRun& plain) {
  for (const auto& [id, tensor] : lazy.variables()) {
    const Tensor& other = eager.variables().at(id);
    const PlainTensor& expected = plain.variables().at(id);
    auto facts = [](const auto& strides, int64_t offset) {
      return fmt::format("strides {} offset {}", ToString(strides), offset);
    };
    std::string a = facts(tensor.strides(), tensor.storage_offset()),
                b = facts(other.strides(), other.storage_offset()),
                c = facts(expected.strides(), expected.offset());
    if (a != b || b != c)
      return fmt::format("v{}: lazily {}, eagerly {}, plainly {}\n", id, a, b, c);
    for (const auto& [id2, tensor2] : lazy.variables()) {
      const PlainTensor& expected2 = plain.variables().at(id2);
      bool is = tensor.is_alias_of(tensor2), was = other.is_alias_of(eager.variables().at(id2));
      bool must = expected.SharesElement(expected2), may = expected.SameBuffer(expected2);
      if (is != was || (must && !is) || (is && !may)) {
        return fmt::format("v{} is an alias of v{}: lazily {}, eagerly {}, plainly {}\n", id, id2,
                           is, was, must);
      }
    }
  }
  return "";
}

// ---- Shrinking

/// The statements that `keep` marks, less those that use a variable which is gone.
Program Kept(const Program& program, const std::vector<bool>& keep) {
  Program result{program.seed, {}};
  std::set<int> defined;
  for (size_t i = 0; i < program.statements.size(); ++i) {
    const Statement& statement = program.statements[i];
    if (!keep[i]) continue;
    bool valid = true;
    for (int id : UsesOf(statement)) valid = valid && defined.count(id) > 0;
    if (!valid) continue;
    if (statement.result >= 0) defined.insert(statement.result);
    if (statement.kind == Kind::kDelete) defined.erase(UsesOf(statement)[0]);
    result.statements.push_back(statement);
  }
  return result;
}

/// Drops chunks of statements, large ones first.
Program DropStatements(Program program, const std::function<bool(const Program&)>& fails) {
  for (size_t chunk = program.statements.size(); chunk > 0;) {
    bool shrunk = false;
    for (size_t begin = 0; begin < program.statements.size(); begin += chunk) {
      std::vector<bool> keep(program.statements.size(), true);
      for (size_t i = begin; i < std::min(begin + chunk, keep.size()); ++i) keep[i] = false;
      Program smaller = Kept(program, keep);
      if (!fails(smaller)) continue;
      program = std::move(smaller);
      shrunk = true;
      break;
    }
    if (!shrunk) chunk /= 2;
  }
  return program;
}

/// What a variable holds right after the statement that defines it.
std::map<int, HostTensor> FirstValues(const Program& program) {
  EagerMode eager;
  TensorRun tensors(true);
  tensors.Execute(program);
  PlainRun run(tensors.gradients());
  std::map<int, HostTensor> values;
  manual_seed(program.seed);
  try {
    for (const Statement& statement : program.statements) {
      run.Execute(statement, 0);
      if (statement.result >= 0)
        values[statement.result] = run.variables().at(statement.result).Read();
    }
  } catch (const std::exception&) {
    // The rest cannot be run; what there is will do.
  }
  return values;
}

/// Replaces ops by inputs that hold their results, so that what led to them can go.
Program ReplaceByInputs(Program program, const std::function<bool(const Program&)>& fails) {
  std::map<int, HostTensor> values = FirstValues(program);
  for (size_t i = program.statements.size(); i-- > 0;) {
    const Statement& statement = program.statements[i];
    bool defines = statement.kind != Kind::kInput && statement.result >= 0;
    if (!defines || !values.count(statement.result)) continue;
    Program simpler = program;
    simpler.statements[i] = {Kind::kInput, "", statement.result, {}, values[statement.result]};
    if (fails(simpler)) program = std::move(simpler);
  }
  return program;
}

}  // namespace

std::string FindDifference(const Program& program, const InjectedBug& bug) {
  TensorRun eager(true);
  {
    EagerMode mode;
    eager.Execute(program);
  }
  PlainRun plain(eager.gradients());
  plain.Execute(program);
  TensorRun lazy;
  lazy.Execute(program, bug ? [&](const Statement& s) { return bug(program, s); }
                            : std::function<bool(const Statement&)>());
  std::string difference =
      CompareObservations(program, lazy.observations(), eager.observations(), "lazily", "eagerly");
  if (difference.empty()) {
    std::vector<Observation> values = eager.observations();
    std::erase_if(values, [](const Observation& o) { return o.gradient; });
    difference = CompareObservations(program, values, plain.observations(), "eagerly", "plainly");
  }
  if (difference.empty()) difference = CompareFacts(lazy, eager, plain);
  return difference;
}

Program ShrinkProgram(Program program, const std::function<bool(const Program&)>& fails) {
  program = DropStatements(std::move(program), fails);
  program = ReplaceByInputs(std::move(program), fails);
  return DropStatements(std::move(program), fails);
}

}  // namespace hammock::testing
