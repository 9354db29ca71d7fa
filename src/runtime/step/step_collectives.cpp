#include "runtime/step/step_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "backends/common/collectives.h"
#include "base/log.h"
#include "hammock/distributed.h"
#include "hammock/executor.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "ops/primitives/collectives.h"
#include "runtime/cache/walk.h"
#include "runtime/step/executor.h"
#include "trace/noted_collectives.h"

namespace hammock {
namespace {

using distributed::Group;
using distributed::OperationText;

/// A collective of a step, as far as others need to know it.
struct Collective {
  const OpDef* op;
  std::vector<Attr> attrs;
  std::vector<Shape> types;
  LocationId location;
  std::string loops = {};  // around it: " in loop count=3"
};

std::string WithPlace(std::string text, LocationId location) {
  const std::string where = WhereText(location);
  return where.empty() ? text : fmt::format("{} [at {}]", text, where);
}

std::string TypesText(const std::vector<Shape>& types) {
  std::string text;
  for (const Shape& type : types) text += " " + type.to_string();
  return text;
}

/// "all_reduce reduction=sum group=world size=4 f32[8] in loop count=3 [at train.cpp:7]"
std::string TextOf(const Collective& collective) {
  std::string text = collective.op->name();
  for (size_t i = 0; i < collective.attrs.size(); ++i) {
    text += fmt::format(" {}={}", collective.op->info().AttributeName(static_cast<int>(i)),
                        collective.attrs[i].to_string());
  }
  return WithPlace(text + TypesText(collective.types) + collective.loops, collective.location);
}

Hash128 HashOfCollective(const Collective& collective) {
  Hash128 hash = HashString(collective.op->name() + collective.loops);
  std::vector<uint64_t> words;
  for (const Attr& attr : collective.attrs) attr.AppendBytes(words);
  for (uint64_t word : words) hash = Combine(hash, word);
  for (const Shape& type : collective.types) hash = HashType(hash, type);
  return hash;
}

using ByGroup = std::map<std::string, std::vector<Collective>>;

void Add(ByGroup& groups, Collective collective) {
  const int at = collective.op->info().AttributeIndex("group");
  groups[collective.attrs[static_cast<size_t>(at)].str()].push_back(std::move(collective));
}

void AddAll(ByGroup& groups, const Graph& graph, const std::string& loops = "");

/// The collectives in the bodies of a node. How often a loop runs them is a part of what ranks do.
void AddBodies(ByGroup& groups, const OpDef& op, std::span<const Attr> attrs, std::string loops) {
  if (&op == &ops::kLoop) loops += fmt::format(" in loop count={}", attrs[1].to_string());
  for (const Attr& attr : attrs) {
    if (attr.kind() == Attr::Kind::kGraph) AddAll(groups, attr.graph(), loops);
  }
}

void AddAll(ByGroup& groups, const Graph& graph, const std::string& loops) {
  for (const GraphNode& node : graph.nodes()) {
    AddBodies(groups, *node.op, node.attrs, loops);
    if (IsCollective(*node.op)) {
      Add(groups, {node.op, node.attrs, node.types, node.location, loops});
    }
  }
}

ByGroup CollectivesIn(std::span<Node* const> nodes) {
  ByGroup groups;
  for (const Node* node : nodes) {
    if (node->IsLeaf() || IsAvailable(*node)) continue;
    AddBodies(groups, node->op(), node->attrs(), "");
    if (!IsCollective(node->op())) continue;
    std::vector<Shape> types;
    for (int i = 0; i < node->num_outputs(); ++i) types.push_back(node->shape(i));
    Add(groups, {&node->op(),
                 {node->attrs().begin(), node->attrs().end()},
                 std::move(types),
                 node->location()});
  }
  return groups;
}

/// The device that runs the collectives; empty where the fallback device does.
std::string DeviceOfCollectives(const CompiledStep& compiled) {
  for (const CompiledSegment& segment : compiled.segments) {
    if (segment.device != compiled.device && HasCollectives(segment.computation->graph()))
      return "";
  }
  return compiled.device->name();
}

/// A hash of which collectives of a group the step has merged; see Note [Merged collectives]. Those
/// of its other groups may differ between the ranks of this one.
uint64_t MergesOf(const CompiledStep& compiled, const std::string& group) {
  Hash128 hash;
  for (const CompiledSegment& segment : compiled.segments) {
    for (const GraphNode& node : segment.computation->graph().nodes()) {
      if (!IsCollective(*node.op) || node.attr("group").str() != group) continue;
      const bool is_merged = node.op == &ops::kMergedCollective;
      hash = Combine(hash, HashString(is_merged ? node.attrs[0].str() : node.op->name()));
      if (is_merged) hash = Combine(hash, uint64_t{node.attr("splits").ints().size()} + 1);
    }
  }
  return hash.lo;
}

OperationText TextOfStep(const std::vector<Collective>& collectives,
                         const CompiledStepPtr& compiled) {
  OperationText text;
  for (const Collective& collective : collectives) text.collectives.push_back(TextOf(collective));
  for (const GraphNode& node : compiled->traced.nodes()) {
    if (node.op == &ops::kInput || node.op == &ops::kConstant) continue;  // of no line of their own
    text.ops.push_back(WithPlace(
        node.op->name() + TypesText({node.types.begin(), node.types.end()}), node.location));
  }
  return text;
}

}  // namespace

std::shared_ptr<distributed::StepAgreements> BeginAgreements(const CompiledStepPtr& compiled,
                                                             std::span<Node* const> nodes) {
  if (!compiled->ordered) return nullptr;
  ByGroup groups = CollectivesIn(nodes);
  if (nodes.empty()) AddAll(groups, compiled->traced);
  if (groups.empty()) return nullptr;
  auto agreements = std::make_shared<distributed::StepAgreements>();
  const std::string device = DeviceOfCollectives(*compiled);
  for (auto& [name, collectives] : groups) {
    try {
      std::shared_ptr<Group::State> group = distributed::FindGroup(name);
      Hash128 hash = HashString("step");
      for (const Collective& collective : collectives) {
        hash = Combine(hash, HashOfCollective(collective));
      }
      std::string what = WithPlace(collectives[0].op->name(), collectives[0].location);
      auto agreement =
          group->Begin(hash, std::move(what),
                       [collectives, compiled] { return TextOfStep(collectives, compiled); },
                       {device, MergesOf(*compiled, name)});
      agreements->Add(std::move(group), std::move(agreement));
    } catch (const std::exception& error) {
      Log(LogLevel::kWarn, "distributed: group '{}': {}", name, error.what());
    }
  }
  return agreements;
}

CompilingCollectives::CompilingCollectives(const Graph& graph) {
  ByGroup groups;
  AddAll(groups, graph);
  for (auto& [name, collectives] : groups) {
    busy_.push_back(std::make_unique<Group::State::Busy>(*distributed::FindGroup(name)));
  }
}

std::vector<Node*> CollectivesOf(std::span<const Value> roots, DeviceId device, bool all) {
  std::vector<Node*> wanted;
  for (const NodePtr& node : NotedCollectives()) {
    if (node->device() == device && !IsAvailable(*node)) wanted.push_back(node.get());
  }
  if (all || wanted.empty()) return wanted;
  const uint32_t epoch = MarkPending(roots);
  std::erase_if(wanted, [&](Node* node) { return NodeAccess::epoch(node) != epoch; });
  return wanted;
}

namespace {

/// Takes those out for which `is_noted` is false.
template <class Fn>
std::vector<NodePtr> TakeUnless(Fn is_noted) {
  std::vector<NodePtr>& noted = NotedCollectives();
  auto gone = std::stable_partition(noted.begin(), noted.end(), is_noted);
  std::vector<NodePtr> forgotten(std::make_move_iterator(gone),
                                 std::make_move_iterator(noted.end()));
  noted.erase(gone, noted.end());
  return forgotten;
}

}  // namespace

std::vector<NodePtr> ForgetCollectives(uint32_t epoch) {
  return TakeUnless([&](const NodePtr& node) {
    return NodeAccess::epoch(node.get()) != epoch && !IsAvailable(*node);
  });
}

std::vector<NodePtr> ForgetFailedCollectives() {
  Walk walk;
  return TakeUnless([&](const NodePtr& node) {
    const Value value{node, 0};
    RunWalk(std::span(&value, 1), node->device(), 0, walk);
    return !walk.failed;
  });
}

void AbandonCollectives() {
  std::vector<NodePtr> noted;  // goes when the mutex is free
  ByGroup groups;
  {
    std::lock_guard lock(Executor().graph_mutex);
    noted.swap(NotedCollectives());
    std::vector<Node*> nodes;
    for (const NodePtr& node : noted) nodes.push_back(node.get());
    groups = CollectivesIn(nodes);
  }
  if (groups.empty()) return;
  try {
    for (DeviceEntry* device : AllDevices()) {
      if (!RunsHere(*device)) Executor().Drain(*device);
    }
    for (const auto& [name, collectives] : groups) {
      const Collective& first = collectives[0];
      distributed::FindGroup(name)->Abort("an exception left its step before " +
                                          WithPlace(first.op->name(), first.location));
    }
  } catch (const std::exception& error) {
    Log(LogLevel::kWarn, "distributed: a step that an exception left: {}", error.what());
  }
}

void distributed::shutdown(Location at) {
  LocationScope scope(at);
  if (!is_initialized()) return;
  if (!WorldState()->failure()) mark_step(/*wait=*/true, at);
  EndWorld();
}

}  // namespace hammock
