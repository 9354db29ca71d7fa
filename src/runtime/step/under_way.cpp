#include "runtime/step/under_way.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "ir/node_access.h"
#include "runtime/cache/walk.h"
#include "runtime/devices/backend_registry.h"
#include "runtime/step/executor.h"

namespace hammock {

namespace {

constinit thread_local int settling_here = 0;

}  // namespace

void BeginSettling(DeviceEntry& device) {
  ++device.settling;
  ++settling_here;
}

void EndSettling(DeviceEntry& device) {
  --settling_here;
  std::lock_guard lock(Executor().graph_mutex);
  --device.settling;
}

void AwaitSettling(const DeviceEntry& device, GraphLock& lock) {
  constexpr auto kLongest = std::chrono::milliseconds(1);
  constexpr auto kPause = std::chrono::microseconds(20);
  if (device.settling == 0 || settling_here > 0) [[likely]]
    return;
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (device.settling > 0 && std::chrono::steady_clock::now() < end) {
    lock.unlock();
    std::this_thread::sleep_for(kPause);
    lock.lock();
  }
}

std::vector<BackendDataPtr> TakeUnused(DeviceEntry& device) {
  constexpr int kLooks = 2;  // most of what dies does so while the next step is recorded, or run
  std::vector<BackendDataPtr> unused;
  for (Step* step : device.flights) {
    if (step->looks++ >= kLooks) continue;
    CountDropped(step->output_nodes, step->recipe.get());
    size_t placeholder = 0;
    for (const NodePtr& node : step->output_nodes) {
      const bool goes = node->references() == NodeAccess::walk_uses(node.get()) + 1;
      for (int i = 0; i < node->num_outputs(); ++i, ++placeholder) {
        BackendDataPtr& data = node->slots()[i].data;
        if (!goes || data.use_count() != 1) continue;  // somebody waits for it, or it is gone
        step->placeholders[placeholder] = nullptr;
        unused.push_back(std::move(data));
      }
    }
  }
  return unused;
}

namespace {

/// The smallest result of a step that is there; null if all are gone.
BackendDataPtr ResultOf(const Step& step) {
  BackendDataPtr smallest;
  for (const NodePtr& node : step.output_nodes) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      const BackendDataPtr& data = node->slots()[i].data;
      if (!data) continue;
      if (!smallest || data->shape().bytes() < smallest->shape().bytes()) smallest = data;
    }
  }
  return smallest;
}

/// Data that an argument's slot and the step have.
constexpr long kHolders = 2;

}  // namespace

/// The arguments in question that a step under way has.
struct DyingArguments::Share {
  BackendDataPtr result;
  std::vector<long> holders;
  std::vector<uint32_t> references;
};

DyingArguments::DyingArguments(Step& step)
    : step_(step),
      may_wait_(!step.compiled->device->flights.empty() && step.compiled->simple &&
                step.compiled->device->backend->KeepsDonatedOnFailure()) {}

void DyingArguments::Add(size_t i, Node* node, const BackendDataPtr& slot, uint32_t references) {
  const bool dies = ReferencesTo(*node) == references && slot.use_count() == kHolders;
  step_.donated[i] = dies;
  if (!dies && may_wait_) held_.push_back({i, node, slot.get(), references});
}

/// How many of the arguments in question the step makes.
size_t DyingArguments::MadeBy(const Step& step) const {
  return static_cast<size_t>(
      std::ranges::count_if(step.placeholders, [&](const lazy::BackendData* made) {
        return std::ranges::binary_search(held_, made, {}, &Held::data);
      }));
}

/// Nothing if it neither reads nor makes one of them.
std::optional<DyingArguments::Share> DyingArguments::ShareOf(const Step& reader, bool makes) const {
  Share share{nullptr, std::vector<long>(held_.size()), {}};
  bool reads = false;
  for (const BackendDataPtr& argument : reader.arguments) {
    auto found = std::ranges::lower_bound(held_, argument.get(), {}, &Held::data);
    if (found == held_.end() || found->data != argument.get()) continue;
    ++share.holders[found - held_.begin()];
    reads = true;
  }
  if (reads) share.result = ResultOf(reader);
  // The step comes behind the one that makes its argument anyway.
  if (!share.result && (reads || !makes)) return std::nullopt;
  const uint32_t epoch = CountDropped(reader.output_nodes, reader.recipe.get());
  for (const Held& held : held_) {
    const bool counted = NodeAccess::epoch(held.node) == epoch;
    share.references.push_back(counted ? NodeAccess::walk_uses(held.node) : 0);
  }
  return share;
}

void DyingArguments::AddReaders(std::span<const Node* const> remembered) {
  std::erase_if(held_, [&](const Held& held) {
    return !std::ranges::binary_search(remembered, static_cast<const Node*>(held.node));
  });
  if (held_.empty()) return;
  std::ranges::sort(held_, {}, &Held::data);
  std::vector<Share> shares;
  size_t made = 0;
  // Latest first: a step reads nothing that a later one makes.
  const std::vector<Step*>& flights = step_.compiled->device->flights;
  for (auto at = flights.rbegin(); at != flights.rend() && made < held_.size(); ++at) {
    const size_t makes = MadeBy(**at);
    made += makes;
    if (std::optional<Share> share = ShareOf(**at, makes > 0)) shares.push_back(std::move(*share));
  }
  std::ranges::reverse(shares);
  std::vector<bool> is_needed(shares.size());
  for (size_t i = 0; i < held_.size(); ++i) {
    const Held& held = held_[i];
    uint32_t references = held.references;
    long holders = kHolders;
    for (const Share& share : shares) {
      references += share.references[i];
      holders += share.holders[i];
    }
    const bool dies = ReferencesTo(*held.node) == references &&
                      step_.arguments[held.number].use_count() == holders;
    step_.donated[held.number] = dies;
    for (size_t s = 0; dies && s < shares.size(); ++s) {
      if (shares[s].holders[i] > 0) is_needed[s] = true;
    }
  }
  for (size_t s = 0; s < shares.size(); ++s) {
    if (is_needed[s]) step_.arguments.push_back(std::move(shares[s].result));
  }
}

}  // namespace hammock
