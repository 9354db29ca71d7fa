#pragma once
/// A delegate for tests that adds, subtracts and multiplies, logs what is called, and fails on
/// demand: the compile spec of a method may have
///   "fail": "mul"            execution fails at that op
///   "fail_compile": "mul"    compilation does
///   "extra": true            one value too many is returned
///   "text": true             a string is returned instead of the first value
///   "no_handle": true        compile gives no handle

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "hammock/hammock.h"
#include "hammock/jit/backend.h"
#include "hammock/jit/to_backend.h"

namespace hammock::jit {

class CallLog {
 public:
  void Add(std::string what) {
    std::lock_guard lock(mutex_);
    calls_.push_back(std::move(what));
  }
  std::vector<std::string> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> calls_;
};
inline CallLog call_log;
inline std::atomic<bool> toy_available{true};

class ToyBackend : public BackendInterface {
 public:
  ToyBackend() { call_log.Add("create"); }

  bool is_available() override {
    call_log.Add("is_available");
    return toy_available;
  }

  AnyDict compile(Any processed, AnyDict method_compile_spec) override {
    call_log.Add("compile");
    AnyDict handles;
    for (const auto& [method, spec] : method_compile_spec) {
      AnyDict handle = processed.ToDict().at(method).ToDict();
      handle["spec"] = spec;
      if (Option(spec, "no_handle")) continue;
      FailAt(handle, Text(spec, "fail_compile"), "cannot be compiled");
      handles[method] = handle;
    }
    return handles;
  }

  AnyList execute(Any handle, AnyList inputs) override {
    call_log.Add("execute");
    const AnyDict& method = handle.ToDict();
    const Any& spec = method.at("spec");
    FailAt(method, Text(spec, "fail"), "overflow");
    AnyList outputs = Run(*method.at("graph").ToGraph(), method.at("captures").ToList(), inputs);
    if (Option(spec, "text")) outputs[0] = Any("text");
    if (Option(spec, "extra")) outputs.push_back(1);
    return outputs;
  }

  static Any Preprocess(const Module& module, const AnyDict& spec,
                        const DebugHandleGenerator& generate) {
    call_log.Add("preprocess");
    AnyDict processed;
    for (const auto& [method, unused] : spec) {
      const GraphBody& body = module.graph_body(method);
      NodeMap<DebugHandle> handles = generate(*body.graph);
      AnyList captures;
      for (const Capture& capture : body.captures) {
        captures.push_back(capture.name.empty() ? capture.constant
                                                : module.get_tensor(capture.name));
      }
      for (NodeId id : body.graph->ids()) {
        std::string op = (*body.graph)[id].op->name();
        if (Runs(op)) continue;
        throw BackendRuntimeException(op + " is not supported", handles[id]);
      }
      processed[method] = AnyDict{{"graph", body.graph},
                                  {"captures", std::move(captures)},
                                  {"handles", Any::Ints(handles.values())}};
    }
    return processed;
  }

  static lazy::Capability Capable(const Graph& graph, NodeId node) {
    std::string op = graph[node].op->name();
    if (Runs(op)) return {};
    return {lazy::Capability::Verdict::kRefuse, "toy has no " + op};
  }

 private:
  static bool Runs(const std::string& op) {
    return op == "add" || op == "sub" || op == "mul" || op == "input" || op == "constant";
  }
  static bool Option(const Any& spec, const char* name) {
    return spec.kind() == Any::Kind::kDict && spec.ToDict().contains(name);
  }
  static std::string Text(const Any& spec, const char* name) {
    return Option(spec, name) ? spec.ToDict().at(name).ToStringRef() : "";
  }

  static void FailAt(const AnyDict& method, const std::string& op, const std::string& message) {
    const Graph& graph = *method.at("graph").ToGraph();
    for (NodeId id : graph.ids()) {
      if (graph[id].op->name() != op) continue;
      throw BackendRuntimeException(message, method.at("handles").ToList()[id.number()].ToInt());
    }
  }

  static AnyList Run(const Graph& graph, const AnyList& captures, const AnyList& inputs) {
    AnyList given;
    for (const Any& input : inputs) {
      if (input.IsTensor()) given.push_back(input);
    }
    given.insert(given.end(), captures.begin(), captures.end());
    NodeMap<Tensor> values;
    size_t next = 0;
    for (const GraphNode& node : graph.nodes()) {
      std::string op = node.op->name();
      auto operand = [&](size_t i) { return values[node.inputs[i].node]; };
      if (op == "input") {
        values.push_back(given.at(next++).ToTensor());
      } else if (op == "constant") {
        values.push_back(full({}, node.attr("value").scalar(), node.type().dtype()));
      } else if (op == "add") {
        values.push_back(operand(0) + operand(1));
      } else if (op == "sub") {
        values.push_back(operand(0) - operand(1));
      } else {
        values.push_back(operand(0) * operand(1));
      }
    }
    AnyList outputs;
    for (GraphValue output : graph.outputs()) {
      outputs.push_back(values[output.node]);
    }
    return outputs;
  }
};

/// Static registration, as libraries out of tree do it; the same class has two names.
inline const backend<ToyBackend> toy_class("toy");
inline const backend<ToyBackend> toy_twin_class("toy_twin");
inline const bool toy_preprocess = backend_preprocess_register("toy", ToyBackend::Preprocess) &&
                                   backend_preprocess_register("toy_twin", ToyBackend::Preprocess);
inline const bool toy_capability = backend_capability_register("toy", ToyBackend::Capable);

}  // namespace hammock::jit
