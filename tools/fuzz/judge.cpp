#include "fuzz/judge.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "backends/cpu/code/llvm_compiler.h"
#include "backends/reference/interpreter.h"
#include "backends/table.h"
#include "compiler/passes/expand.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/make_explicit.h"
#include "compiler/pipeline.h"
#include "fuzz/bounds.h"
#include "fuzz/run.h"
#include "hammock/error.h"
#include "ir/id_format.h"
#include "ir/primitives.h"

namespace hammock::fuzz {
namespace {

/// Thrown when a node is wrong.
struct WrongNode {
  std::string text;
};

using Values = NodeMap<std::vector<HostTensor>>;

/// False where the interpreter refuses a node.
bool RunNodes(const Case& test, bool check, Values& values) {
  const Graph& graph = test.graph;
  values = Values(graph.size());
  size_t next_input = 0;
  for (NodeId id : graph.ids()) {
    const GraphNode& node = graph[id];
    if (node.op == &ops::kInput) {
      values[id] = {test.inputs[next_input++]};
      continue;
    }
    Graph one = Alone(graph, node);
    std::vector<HostTensor> operands;
    for (GraphValue input : node.inputs) {
      if (!input.node) continue;
      operands.push_back(values[input.node][input.index]);
    }
    std::vector<HostTensor> expected;
    try {
      expected = reference::Interpret(
          node.op->IsComposite() ? MakeExplicit(ExpandComposites(one)) : one, operands);
    } catch (const Error&) {
      return false;
    }
    std::vector<HostTensor> actual = RunOnCpu(one, operands, false, 1);
    if (check) {
      std::string difference = CompareNode(one, operands, actual, expected);
      if (!difference.empty()) {
        throw WrongNode{fmt::format("%{} = {} alone, against the interpreter: {}", id,
                                    node.op->name(), difference)};
      }
    }
    values[id] = std::move(actual);
  }
  return true;
}

/// `graph` is the case's, or what passes made of it.
std::string CompareWhole(const Case& test, const Graph& graph, const Values& values, bool compiled,
                         int threads) {
  std::vector<HostTensor> results = RunOnCpu(graph, test.inputs, compiled, threads);
  for (size_t i = 0; i < results.size(); ++i) {
    GraphValue output = test.graph.outputs()[i];
    const HostTensor& expected = values[output.node][output.index];
    std::string difference = CompareBits(results[i], expected);
    if (!difference.empty()) {
      return fmt::format("output {} {}{}, against node by node: {}", i,
                         &graph == &test.graph ? "" : "optimised and ",
                         compiled ? "compiled" : "interpreted", difference);
    }
  }
  return "";
}

}  // namespace

std::string FindDifference(const Case& test, const Tiers& tiers) {
  try {
    Values values;
    if (!RunNodes(test, true, values)) return "";
    // Now and then with more threads; results do not depend on them.
    int threads = 1 + test.graph.size() % 3;
    const Graph optimised = Optimise(test.graph, EvaluateOnHost);
    std::string difference;
    for (bool compiled : {false, true}) {
      if (!(compiled ? tiers.compiled : tiers.interpreted)) continue;
      for (const Graph* graph : {&test.graph, &optimised}) {
        if (graph == &optimised && optimised == test.graph) continue;
        if (difference.empty()) difference = CompareWhole(test, *graph, values, compiled, threads);
      }
    }
    return difference;
  } catch (const WrongNode& wrong) {
    return wrong.text;
  } catch (const Error& error) {
    return fmt::format("error: {}", error.what());
  }
}

std::string RunApart(const std::function<std::string()>& f) {
  int ends[2];
  if (pipe(ends) != 0) return "error: no pipe";
  pid_t child = fork();
  if (child == 0) {
    for (int signal : {SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGILL}) std::signal(signal, SIG_DFL);
    std::string result = f();
    [[maybe_unused]] ssize_t written = write(ends[1], result.data(), result.size());
    _exit(0);
  }
  close(ends[1]);
  std::string result;
  char part[4096];
  for (ssize_t size; (size = read(ends[0], part, sizeof part)) > 0;) {
    result.append(part, static_cast<size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("crashed with signal {}", WTERMSIG(status));
  return result;
}

Values NodeByNode(const Case& test) {
  Values values;
  try {
    if (RunNodes(test, false, values)) return values;
  } catch (const Error&) {
  }
  return {};
}

std::string WhyNotCompiled() { return cpu::LlvmCompiler::WhyAbsent(); }

Counts CountsOf(bool compiled) { return {ProgramsRun(compiled), KernelsRun(compiled)}; }

}  // namespace hammock::fuzz
