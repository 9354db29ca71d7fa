/// Collecting: the values of a thread's tensors that a step has to compute.

#include <unordered_set>

#include "ir/node_access.h"
#include "runtime/step/executor.h"
#include "trace/noted_collectives.h"

namespace hammock {

namespace {

/// Computed without error, so that no step has to look at it again. With the graph mutex held.
bool IsSettled(const Value& value) {
  const BackendDataPtr& data = value.node->slots()[value.index].data;
  if (!data) return value.node->IsLeaf();
  return data->IsReady() && !data->error();
}

}  // namespace

// Note [Pending views]: what a step computes for a view is the base of its group. A view waits in
// its thread's list until the base is settled; a write puts the group on the list of the thread
// that wrote, where it stays until the new base is settled.
std::vector<Value> StepExecutor::PendingRoots(ThreadContext& context, DeviceId device) {
  std::vector<Value> roots;
  std::vector<std::shared_ptr<AliasGroup>> groups;  // first those of views, then the written ones
  std::vector<std::weak_ptr<AliasGroup>> written;
  auto wanted = [&](const Value& value) {
    return device == kNoDevice || value.node->device() == device;
  };
  {
    std::lock_guard graph(graph_mutex);
    if (&context == &Context()) {
      for (const NodePtr& node : NotedCollectives()) {  // whose result nobody else has
        if (node->references() > 1 || !wanted({node, 0})) continue;
        if (!node->slots()[0].data) roots.push_back({node, 0});
      }
    }
    std::lock_guard lock(context.lock);
    for (Link* link = context.pending.next; link != &context.pending;) {
      auto* impl = static_cast<TensorImpl*>(link);
      link = link->next;
      Value value{NodePtr(impl->node), impl->index};
      if (!wanted(value)) continue;
      if (impl->SharesMemory()) {
        if (groups.empty() || groups.back() != impl->view->group) {
          groups.push_back(impl->view->group);
        }
      } else if (IsSettled(value)) {
        impl->Remove();
        impl->InsertBefore(&context.settled);
      } else {
        roots.push_back(std::move(value));
      }
    }
    written.swap(context.written_groups);
  }
  if (groups.empty() && written.empty()) return roots;
  size_t views = groups.size();
  for (auto& weak : written) {
    if (auto group = weak.lock()) groups.push_back(std::move(group));
  }
  std::unordered_set<AliasGroup*> settled;  // looked up, never iterated
  std::vector<std::weak_ptr<AliasGroup>> still_written;
  for (size_t i = 0; i < groups.size(); ++i) {
    AliasGroup& group = *groups[i];
    uint64_t generation = group.generation.load();
    Value base = BaseValue(groups[i]);
    bool done;
    {
      std::lock_guard graph(graph_mutex);
      done = IsSettled(base);
    }
    if (done) settled.insert(&group);
    if (i >= views) {
      if (done) group.listed = false;
      // Another thread may have written meanwhile, and have found the group listed.
      if (!done || (group.generation.load() != generation && !group.listed.exchange(true))) {
        still_written.push_back(groups[i]);
      }
    }
    if (!done && wanted(base)) roots.push_back(std::move(base));
  }
  std::lock_guard lock(context.lock);
  for (auto& weak : still_written) context.written_groups.push_back(std::move(weak));
  for (Link* link = context.pending.next; link != &context.pending;) {
    auto* impl = static_cast<TensorImpl*>(link);
    link = link->next;
    if (!impl->SharesMemory() || !settled.contains(impl->view->group.get())) continue;
    impl->Remove();
    impl->InsertBefore(&context.settled);
  }
  return roots;
}

}  // namespace hammock
