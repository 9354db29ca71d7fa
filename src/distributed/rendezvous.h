#pragma once
/// How ranks find each other through a store that may hold keys of earlier attempts.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "hammock/distributed/engine.h"

namespace hammock::distributed {

/// A process, so that others can tell whether it still runs.
struct Member {
  std::string host;  ///< with its process ids: other containers are other hosts
  int64_t pid = 0;
  int64_t started = 0;  ///< in clock ticks; a process id may be used again

  static Member Self();
  /// False only if it is known: a process of this host that has ended.
  bool MayRun() const;
  std::string ToText() const;
  static Member FromText(const std::string& text);
};

struct Meeting {
  std::shared_ptr<Store> store;  ///< of this attempt alone
  std::vector<Member> members;   ///< by rank
};

/// Waits for all ranks. Each attempt has a prefix of its own, which is made from a number that each
/// rank draws: whoever of an earlier attempt left keys is not taken for a rank of this one.
/// RankError names the ranks that did not come to `where` within `timeout`.
Meeting Meet(std::shared_ptr<Store> root, const std::string& where, int rank, int size,
             std::chrono::milliseconds timeout);

}  // namespace hammock::distributed
