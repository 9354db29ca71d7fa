#include "runtime/diagnose/forwarded_profile.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/never_destroyed.h"

namespace hammock {
namespace {

struct Receivers {
  std::mutex mutex;
  int64_t last = 0;
  std::map<int64_t, std::shared_ptr<const ForwardedProfile::Receiver>> by_graph;
};

Receivers& All() {
  static auto& all = NeverDestroyed<Receivers>();
  return all;
}

}  // namespace

ForwardedProfile::ForwardedProfile(Receiver receiver) {
  auto shared = std::make_shared<const Receiver>(std::move(receiver));
  std::lock_guard lock(All().mutex);
  profile_.graph = --All().last;
  All().by_graph.emplace(profile_.graph, std::move(shared));
}

ForwardedProfile::~ForwardedProfile() {
  std::lock_guard lock(All().mutex);
  All().by_graph.erase(profile_.graph);
}

std::shared_ptr<const ForwardedProfile::Receiver> ForwardedProfile::Find(
    const lazy::RunProfile& profile) {
  std::lock_guard lock(All().mutex);
  const auto found = All().by_graph.find(profile.graph);
  return found == All().by_graph.end() ? nullptr : found->second;
}

}  // namespace hammock
