#include "compiler/passes/pass.h"

#include <memory>
#include <utility>

#include "base/log.h"
#include "hammock/config.h"
#include "hammock/profile.h"

namespace hammock {

constinit config::Option<bool> config::kPrintPasses({
    .name = "print_passes",
    .default_value = false,
    .doc = "Log the graph after every compiler pass, and the schedule of its kernels.",
    .upstream = "PYTORCH_JIT_LOG_LEVEL",
});

constinit config::Option<bool> config::kVerifyPasses({
    .name = "verify_passes",
#ifdef NDEBUG
    .default_value = false,
#else
    .default_value = true,
#endif
    .doc = "Verify the graph after every compiler pass.",
    .default_doc = "true in debug builds, else false",
});
namespace {

constinit thread_local std::vector<PassResult>* listener = nullptr;

Graph RunInBodies(const Pass& pass, Graph graph) {
  if (!graph.dim_params.empty()) return graph;
  graph = pass.run(std::move(graph));
  if (!pass.in_bodies) return graph;
  for (NodeId id : graph.ids()) {
    graph.mutable_node(id).attrs.Map([&](const Attr& attr) {
      if (attr.kind() != Attr::Kind::kGraph) return attr;
      Graph body = RunInBodies(pass, attr.graph());
      // The result of a body is shared by all nodes that have it; an unchanged body stays the same.
      return body == attr.graph() ? attr : Attr(std::make_shared<const Graph>(std::move(body)));
    });
  }
  return graph;
}

}  // namespace

PassListener::PassListener() : outer_(std::exchange(listener, &results)) {}
PassListener::~PassListener() { listener = outer_; }

bool ShowsPasses() { return listener || config::Get<config::kPrintPasses>(); }

void ShowPass(PassResult result) {
  if (config::Get<config::kPrintPasses>()) {
    Log(LogLevel::kWarn, "after {}:\n{}", result.pass,
        result.schedule.empty() ? ToText(result.graph, {.locations = true}) : result.schedule);
  }
  if (listener) listener->push_back(std::move(result));
}

Graph RunPass(const Pass& pass, Graph graph) {
  profile::Span span(pass.name, "pass");
  graph = RunInBodies(pass, std::move(graph));
  span.Set("nodes", graph.size());
  if (ShowsPasses()) ShowPass({pass.name, graph});
  if (config::Get<config::kVerifyPasses>()) Verify(graph);
  return graph;
}

Graph RunPasses(std::span<const Pass> passes, Graph graph) {
  for (const Pass& pass : passes) graph = RunPass(pass, std::move(graph));
  return graph;
}

}  // namespace hammock
