#pragma once
/// RankConnections: the GPUs of a group's ranks, connected by NCCL.
///
/// Note [NCCL]: a collective is enqueued when the ranks have agreed on its step, and awaited by
/// nobody on the host, so a rank that dies or hangs leaves a kernel behind that never ends. A
/// thread therefore watches each collective that is under way. When it takes longer than
/// `distributed.timeout`, or another rank is known to have ended, the group fails: the fault words
/// of the runs under way are set, and then NCCL is aborted, which ends its kernels. Kernels that
/// write outputs come behind and find the word set, so the step is undone as any that failed (Note
/// [Guarded kernels]).

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "backends/cuda/driver/machine.h"
#include "backends/cuda/driver/nccl.h"
#include "base/work_queue.h"
#include "distributed/group.h"

namespace hammock::cuda {

class RankConnections : public distributed::DeviceConnections {
 public:
  /// The connections of a group, whose ranks make them at their first collective on devices; null
  /// where NCCL cannot connect all of them, as on one card. The answer is the same on all ranks.
  static RankConnections* Of(distributed::Group::State& group, distributed::Agreement& agreement,
                             Machine& machine, const std::string& what);

  /// Enqueues a collective on the calling thread's stream and watches it. RankError where the group
  /// fails meanwhile; if it does later, the word at `fault` is set.
  using Work = std::function<void(NcclCommunicator& ranks, CUstream stream)>;
  void Enqueue(Machine& machine, const std::string& what, Address fault, const Work& work);
  void Close() override;

 private:
  struct UnderWay {
    Machine& machine;
    std::shared_ptr<const Event> begin, end;
    uint64_t* fault;

    void Fail() const { __atomic_store_n(fault, 1, __ATOMIC_SEQ_CST); }
    bool has_begun() const { return machine.Passed(begin->stream) >= begin->number; }
    bool has_ended() const { return machine.Passed(end->stream) >= end->number; }
  };
  using Entry = std::list<UnderWay>::iterator;

  RankConnections(distributed::Group::State& group, std::unique_ptr<NcclCommunicator> ranks);
  void Watch(Entry entry, const std::string& what);
  bool is_closed();

  distributed::Group::State& group_;
  const std::unique_ptr<NcclCommunicator> ranks_;  // null: they cannot be connected
  std::mutex mutex_;
  bool closed_ = false;            // guarded
  std::list<UnderWay> under_way_;  // guarded
  WorkQueue watcher_;
};

}  // namespace hammock::cuda
