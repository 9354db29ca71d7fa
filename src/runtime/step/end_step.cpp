/// The end of a step: its results stand, or it is rolled back and its error is noted.

#include <algorithm>

#include "distributed/running_step.h"
#include "hammock/metric.h"
#include "ir/node_access.h"
#include "runtime/step/executor.h"
#include "runtime/step/settle_units.h"
#include "runtime/step/under_way.h"

namespace hammock {

namespace {

constinit const metrics::DeclaredCounter kFailedSteps({
    .name = "FailedSteps",
    .doc = "Steps that ended with an error.",
});

/// Which outputs of a captured graph depend on the node with that origin.
std::vector<bool> OutputsThatNeed(const Graph& graph, NodeId origin) {
  NodeMap<bool> needs(graph.size());
  for (NodeId id : graph.ids()) {
    bool need = graph[id].origin == origin;
    for (GraphValue input : graph[id].inputs) {
      need = need || (input.node && needs[input.node]);
    }
    needs[id] = need;
  }
  std::vector<bool> outputs;
  for (GraphValue output : graph.outputs()) {
    outputs.push_back(needs[output.node]);
  }
  return outputs;
}

/// Which of a step's units have failed before the step itself: by other steps that were to compute
/// parts of them. Who hears of that failure hears of all that the units were to do.
struct FailedUnits {
  explicit FailedUnits(UnitSpan units) : are_all(!units.empty()) {
    for (const WriteUnitPtr& unit : units) {
      if (!earlier) earlier = unit->error;
      are_all &= unit->error != nullptr;
    }
  }

  std::shared_ptr<const Error> earlier;  ///< of the first of them
  bool are_all;
};

}  // namespace

Node* Step::TracedNode(NodeId origin) const {
  bool known = origin && origin.number() < std::ssize(order);
  return known ? order[origin.number()] : nullptr;
}

void StepExecutor::LetGo(Step& step) {
  std::vector<Node*> dead;
  {
    std::lock_guard lock(graph_mutex);
    for (NodePtr& output : step.output_nodes) {
      NodeAccess::flags(output.get()) &= ~NodeAccess::kClaimed;
      Node* node = output.release();
      if (NodeAccess::Release(node)) dead.push_back(node);
    }
  }
  step.output_nodes.clear();
  step.recipe = {};
  for (Node* node : dead) NodeAccess::Destroy(node);
}

void StepExecutor::Succeed(Step& step) {
  DeviceEntry& device = *step.compiled->device;
  const bool is_asynchronous = device.backend->IsAsynchronous();
  {
    std::lock_guard lock(graph_mutex);
    if (is_asynchronous) BeginSettling(device);
    std::erase(device.flights, &step);
    for (const NodePtr& node : step.output_nodes) {
      NodeAccess::TakeOperands(node.get(), step.dropped);
      LeafPayload* payload = NodeAccess::payload(node.get());
      if (payload && payload->failed_step) [[unlikely]] {
        // It has been computed after all, so that nothing is left of an earlier failure.
        const auto failed = std::move(payload->failed_step);
        if (!FailsUnit(failed->error)) ForgetUnseen(device, failed->error);
      }
    }
    for (const WriteUnitPtr& unit : step.units) --unit->in_flight;
  }
  if (step.agreements) step.agreements->Succeed();
  step.arguments.clear();
  for (lazy::BackendData* placeholder : step.placeholders) {
    if (placeholder) placeholder->SetReady();
  }
  for (Node* node : step.dropped) node->DropReference();
  step.dropped.clear();
  LetGo(step);
  for (const WriteUnitPtr& unit : step.units) TrySettle(unit);
  if (is_asynchronous) EndSettling(device);
}

void StepExecutor::FailUnits(Step& step, const std::shared_ptr<const Error>& error, bool is_known) {
  for (const WriteUnitPtr& unit : step.units) {
    --unit->in_flight;
    if (unit->error) continue;
    // Where it is not known which op failed, it may be any.
    std::shared_ptr<const Error> failure = is_known ? FailureOf(*unit, error) : error;
    if (failure) FailUnit(*unit, std::move(failure));
  }
}

void StepExecutor::Fail(Step& step, std::shared_ptr<const Error> error, NodeId origin,
                        bool inherited) {
  DeviceEntry& device = *step.compiled->device;
  if (step.agreements) step.agreements->Fail(error->what());
  step.own_failure = !inherited;
  std::vector<BackendDataPtr> held;  // until they have the error
  {
    std::lock_guard lock(graph_mutex);
    std::erase(device.flights, &step);
    for (const NodePtr& node : step.output_nodes) {
      NodeAccess::flags(node.get()) &= ~NodeAccess::kClaimed;
      for (int i = 0; i < node->num_outputs(); ++i) {
        held.push_back(std::move(node->slots()[i].data));
      }
    }
    const FailedUnits units(step.units);
    bool is_known = inherited;
    if (!inherited) {
      Node* culprit = nullptr;
      if (step.recipe && origin) {
        std::vector<bool> affected = OutputsThatNeed(step.compiled->traced, origin);
        for (size_t i = 0; i < step.output_nodes.size() && i < affected.size(); ++i) {
          if (affected[i]) NodeAccess::MakePayload(step.output_nodes[i].get()).error = error;
        }
      } else if (Node* traced = step.TracedNode(origin)) {
        culprit = traced;
      } else if (step.recipe) {
        culprit = step.recipe.get();
      } else {
        if (units.earlier) error = units.earlier;
        NoteFailure(device, step.output_nodes, error);
      }
      if (culprit && !culprit->IsLeaf()) NodeAccess::MakePayload(culprit).error = error;
      is_known = culprit || (step.recipe && origin);
    }
    FailUnits(step, error, is_known);
    // The thread that gets the error also undoes its writes: no one sees one without the other.
    if (!inherited && !units.are_all && error != units.earlier) {
      AddUnseen(device, step.owner, error);
    }
  }
  metrics::Get<kFailedSteps>().Add();
  for (lazy::BackendData* placeholder : step.placeholders) {
    if (placeholder) placeholder->SetError(error);
  }
}

}  // namespace hammock
