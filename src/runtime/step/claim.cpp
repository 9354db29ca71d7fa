/// Claiming: placeholders go into the slots of a step's outputs; the step joins the units of writes
/// that it computes values of, and gets the arguments that die with it.

#include <algorithm>

#include "base/of_thread.h"
#include "hammock/config.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/step/executor.h"
#include "runtime/step/settle_units.h"
#include "runtime/step/step_collectives.h"
#include "runtime/step/under_way.h"

namespace hammock {

constinit config::Option<bool> config::kParamAliasing({
    .name = "param_aliasing",
    .default_value = true,
    .doc = "Let a step write its results into the memory of inputs that die with it.",
    .upstream = "torch_lazy_param_aliasing",
});

void Step::Clear() {
  compiled = nullptr;
  arguments.clear();
  donated.clear();
  output_nodes.clear();
  placeholders.clear();
  order.clear();
  recipe = {};
  own_failure = is_all = false;
  looks = 0;
  owner = nullptr;
  units.clear();
  agreements = nullptr;
}

StepPtr Step::New() {
  if (StepPtr& spare = OfThread<StepPtr>()) return std::move(spare);
  return std::make_shared<Step>();
}

void Step::Recycle(StepPtr step) {
  constexpr size_t kMostKept = 1 << 16;
  if (step->order.capacity() > kMostKept) return;
  step->Clear();
  OfThread<StepPtr>() = std::move(step);
}

std::vector<BackendDataPtr> Step::Results() const {
  std::vector<BackendDataPtr> results;
  for (const NodePtr& node : output_nodes) {
    for (int i = 0; i < node->num_outputs(); ++i) results.push_back(node->slots()[i].data);
  }
  return results;
}

bool StepExecutor::MakePlaceholders(DeviceEntry& device, const Walk& walk, GraphLock& lock,
                                    std::vector<BackendDataPtr>& placeholders) {
  std::vector<Shape> shapes;
  shapes.reserve(walk.outputs.size());
  for (const Output& output : walk.outputs) {
    shapes.push_back(output.node->shape(static_cast<int>(output.index)));
  }
  auto shape_of = [](const BackendDataPtr& data) -> const Shape& { return data->shape(); };
  if (std::ranges::equal(placeholders, shapes, {}, shape_of)) return true;  // of an earlier walk
  placeholders.clear();
  placeholders.reserve(shapes.size());
  WithoutGraphLock unlocked(lock);
  for (const Shape& shape : shapes) placeholders.push_back(NewPlaceholder(device, shape));
  bool alone = unlocked.Lock();
  if (!alone) lock.unlock();
  return alone;
}

uint32_t ReferencesTo(const Node& node) {
  const bool claimed = NodeAccess::flags(const_cast<Node*>(&node)) & NodeAccess::kClaimed;
  return node.references() - claimed;
}

namespace {

/// An asynchronous device starts before it is known whether what it needs has failed.
bool DonatesPending(const DeviceEntry& device) {
  return !device.backend->IsAsynchronous() || device.backend->KeepsDonatedOnFailure();
}

}  // namespace

bool MayDonate(const Node& node, const lazy::BackendData& data, const DeviceEntry& device) {
  if (&node.op() == &ops::kScalarLeaf) return false;
  if (!data.IsReady() && !DonatesPending(device)) return false;
  auto info = std::dynamic_pointer_cast<lazy::BackendData::DeviceDataInfo>(data.info());
  return !info || !info->read_only;
}

// Note [Undo in place]: a step may overwrite what its units remember if it alone decides about
// them: it computes all that is left of them, so that they are settled when it has succeeded, and
// it does not run, or writes nothing there, if a unit that it needs fails. A synchronous backend
// writes to donated memory only when nothing can fail any more; an asynchronous one that says so
// (KeepsDonatedOnFailure) holds the writes back on the device. So if the step fails, what the units
// remember is intact.
bool StepExecutor::JoinUnits(Step& step, UnitSpan units, std::span<Node* const> parameters,
                             bool is_whole) {
  std::vector<WriteUnitPtr> needs;
  for (const Node* node : parameters) {
    LeafPayload* payload = NodeAccess::payload(node);
    if (!payload || !payload->unit) continue;
    if (std::find(units.begin(), units.end(), payload->unit) != units.end()) continue;
    if (std::find(needs.begin(), needs.end(), payload->unit) == needs.end()) {
      needs.push_back(payload->unit);
    }
  }
  bool is_atomic = is_whole && step.compiled->simple;
  for (const WriteUnitPtr& need : needs) is_atomic = is_atomic && need->is_atomic;
  for (const WriteUnitPtr& unit : units) {
    is_atomic = is_atomic && unit->in_flight == 0 && !unit->error;
  }
  for (const WriteUnitPtr& unit : units) {
    for (const WriteUnitPtr& need : needs) {
      if (std::find(unit->needs.begin(), unit->needs.end(), need) == unit->needs.end()) {
        unit->needs.push_back(need);
      }
    }
    unit->is_atomic = is_atomic;
    ++unit->in_flight;
  }
  step.units.assign(units.begin(), units.end());
  return is_atomic && (needs.empty() || DonatesPending(*step.compiled->device));
}

StepPtr StepExecutor::Claim(DeviceEntry& device, Walk& walk, CompiledStepPtr compiled,
                            std::vector<BackendDataPtr> placeholders, const SyncOptions& options) {
  bool nested = RunsHere(device);
  StepPtr step = Step::New();
  step->compiled = std::move(compiled);
  step->is_all = !walk.under_way;
  step->arguments.reserve(walk.parameters.size());
  ThreadContext& context = Context();
  step->owner = &context;
  bool donate = options.full_step && config::Get<config::kParamAliasing>();
  bool whole = options.full_step && options.one_device;
  std::erase_if(context.units,
                [](const WriteUnitPtr& unit) { return unit->error && IsUndone(*unit); });
  const bool overwrites = JoinUnits(*step, context.units, walk.parameters, whole);
  if (!overwrites) CountUndos(context.units, walk.epoch, -1);
  if (donate) step->donated.resize(walk.parameters.size());
  DyingArguments dying(*step);
  for (size_t i = 0; i < walk.parameters.size(); ++i) {
    Node* node = walk.parameters[i];
    BackendDataPtr& data = node->slots()[walk.parameter_outputs[i]].data;
    LeafPayload* payload = NodeAccess::payload(node);
    bool given_away = payload && payload->donated;
    if (nested) [[unlikely]]
      RefuseToWait(device, data);
    step->arguments.push_back(data);
    if (donate || given_away) {
      if (step->donated.empty()) step->donated.resize(walk.parameters.size());
      // Nobody but this graph may refer to the node.
      if (MayDonate(*node, *data, device)) dying.Add(i, node, data, NodeAccess::walk_uses(node));
    }
  }
  if (donate && overwrites && dying.has_held()) dying.AddReaders(RememberedBy(context.units));
  step->placeholders.reserve(placeholders.size());
  step->output_nodes.reserve(placeholders.size());
  for (const BackendDataPtr& placeholder : placeholders) {
    step->placeholders.push_back(placeholder.get());
  }
  step->agreements = BeginAgreements(step->compiled, walk.order);
  // Nothing below can fail.
  for (size_t i = 0; i < walk.outputs.size(); ++i) {
    Node* node = const_cast<Node*>(walk.outputs[i].node);
    node->slots()[walk.outputs[i].index].data = std::move(placeholders[i]);
    if (walk.outputs[i].index == 0) step->output_nodes.emplace_back(node);
    NodeAccess::flags(node) |= NodeAccess::kClaimed;
  }
  TakeTurns(device, *step, nested);
  step->order = walk.order;
  return step;
}

}  // namespace hammock
