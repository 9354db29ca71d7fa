#pragma once
/// The state behind a Group: its connections, what its ranks have agreed on, and how it ends.
///
/// Note [Agreement]: all that a group does is a sequence of numbered operations: a step with
/// collectives, a barrier, a split, the end. Before an operation the ranks exchange its number and
/// a hash of what it is; only ranks whose numbers and hashes are equal go on. The exchange runs on
/// the group's own thread, from when a step is submitted; the step waits for it before its first
/// collective. Where ranks differ they exchange their descriptions too, and all raise the same
/// error.
///
/// Note [Failed groups]: whatever goes wrong, here or elsewhere, ends the group. The rank that
/// notices first writes a report to the store and closes its connections, upon which all others
/// notice. Each then reads the reports: a rank without one has died, does not answer, or computes
/// something else and hears of it later. Where ranks differ, an operation that they agreed on
/// before goes on to its end.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/work_queue.h"
#include "distributed/rendezvous.h"
#include "hammock/distributed.h"
#include "hammock/ir/hash.h"

namespace hammock::distributed {

/// A description of a rank's next operation, for errors of ranks that differ.
struct OperationText {
  std::vector<std::string> collectives;  ///< "all_reduce sum f32[4] [at train.cpp:7]"
  std::vector<std::string> ops;          ///< all ops of the step, likewise
};

/// An operation that ranks are agreeing on, or have agreed on.
class Agreement {
 public:
  /// Returns when all ranks are known to do the same; raises where they do not.
  void Await();
  /// For the engine calls of the operation, in their order.
  uint32_t NextTag();
  /// Whether the collectives of all ranks run on devices of one type, each on the only device of
  /// that type that its rank has used with the group. Known when the agreement was awaited.
  bool is_on_one_device_type() const { return is_on_one_device_type_; }
  /// Whether all ranks have merged the same collectives (Note [Merged collectives]). Known then
  /// too.
  bool is_merged_alike() const { return is_merged_alike_; }

 private:
  friend struct Group::State;
  std::shared_ptr<Group::State> group_;
  uint64_t number_ = 0;
  Hash128 hash_;
  std::string what_;  // "all_reduce [at train.cpp:7]", while it is waited for
  std::function<OperationText()> text_;
  std::mutex mutex_;
  std::condition_variable done_;
  uint16_t device_ = 0;
  uint64_t merges_ = 0;
  bool is_on_one_device_type_ = false;
  bool is_merged_alike_ = false;
  bool is_awaited_ = false;             // guarded
  bool is_done_ = false;                // guarded
  std::shared_ptr<const Error> error_;  // guarded
  uint32_t calls_ = 0;
};
using AgreementPtr = std::shared_ptr<Agreement>;

/// How this rank runs the collectives of a step, in which ranks may differ.
struct CollectivePlan {
  std::string device = {};  ///< that runs them, "cuda:0"; empty: the host does
  uint64_t merges = 0;      ///< a hash of which ones are merged
};

/// Connections of a group besides those of its engine: between the devices of its ranks.
class DeviceConnections {
 public:
  virtual ~DeviceConnections() = default;
  /// The group has failed or ended: whoever waits gets an exception. May be called by any thread,
  /// and several times.
  virtual void Close() = 0;
};

}  // namespace hammock::distributed

namespace hammock::distributed {

struct Group::State : std::enable_shared_from_this<Group::State> {
  State(std::string name, int rank, std::vector<int> world_ranks, std::vector<Member> members,
        std::shared_ptr<Store> store);
  ~State();

  /// Connects to the other ranks; RankError where that fails.
  void Connect();
  /// The engine; RankError where the group has failed.
  Engine& engine();

  /// Begins an operation: the exchange is under way when it returns.
  AgreementPtr Begin(Hash128 hash, std::string what, std::function<OperationText()> text,
                     const CollectivePlan& plan = {});
  /// Agrees on an operation that is not a step, such as "barrier".
  AgreementPtr Agree(const char* what);

  /// Calls the engine for an operation that ranks have agreed on, or a piece of one; what goes
  /// wrong, or takes longer than the time limit, ends the group and is raised as RankError. `what`
  /// is waited for.
  void Call(const std::string& what, const std::function<void(Engine&)>& call);
  /// Raises the error that ended the group, when it is known. Only where it has ended, or is about
  /// to.
  void RaiseFailure();
  /// Throws std::runtime_error if another rank has failed or died: for those who wait without the
  /// engine.
  void CheckOthers();
  /// This rank has failed by itself: tells the others.
  void Abort(const std::string& reason);
  /// Notes that it leaves, and closes.
  void Leave();
  /// While one lives, other ranks do not count the time in which they wait for this one.
  class Busy {
   public:
    explicit Busy(State& state);
    ~Busy();
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    State& state_;
  };

  /// Keeps connections until the group ends; closes them when it fails.
  void Attach(std::shared_ptr<DeviceConnections> connections);
  DeviceConnections* attached() const { return attached_.get(); }

  const std::string name;
  const int rank;
  const std::vector<int> world_ranks;
  const std::vector<Member> members;
  const std::shared_ptr<Store> store;
  std::atomic<int64_t> steps{0};
  std::atomic<int64_t> splits{0};
  /// Why it has failed; null while it has not.
  std::shared_ptr<const Error> failure();
  /// Whether it has failed since a rank did not come within the time limit.
  bool timed_out() const { return timed_out_; }
  int size() const { return static_cast<int>(world_ranks.size()); }

 private:
  void Exchange(Agreement& agreement);
  [[noreturn]] void RaiseDiverged(Agreement& agreement, const std::vector<std::string>& notes);
  std::vector<std::string> Gather(const std::string& own, uint32_t tag);
  std::shared_ptr<const Error> Fail(const std::string& what, const std::string& reason,
                                    const std::string& report);
  void Close();
  bool OthersAreBusy();
  std::shared_ptr<const Error> Diagnose(const std::string& what, const std::string& reason);

  uint16_t DeviceWord(const std::string& device);
  /// Of the store, which may be gone: then there is no value, or one line in the log.
  std::optional<std::string> Read(const std::string& key);
  void Write(const std::string& key, const std::string& value);

  std::unique_ptr<Engine> engine_;
  std::string device_;  // that steps first ran collectives of the group on; of the graph mutex
  std::shared_ptr<DeviceConnections> attached_;  // set once; guarded for those who close
  std::mutex mutex_;
  std::condition_variable diagnosed_;
  std::shared_ptr<const Error> failure_;  // guarded
  bool is_failing_ = false;               // guarded
  std::atomic<bool> timed_out_{false};
  std::atomic<uint64_t> agreements_{0};
  WorkQueue progress_;
};

/// A group by its name; ValueError if this process has none of that name.
std::shared_ptr<Group::State> FindGroup(const std::string& name);
/// The group of all ranks; a world of one before `init`.
std::shared_ptr<Group::State> WorldState();
/// Agrees on the end of the world, and leaves it.
void EndWorld();
void AddGroup(const std::shared_ptr<Group::State>& group);

/// Where the program has not chosen a device, but at most its type, and there are several of it:
/// new tensors are on the one with this rank's number on its host. Defined in runtime/.
void ChooseDevice(int local_rank);

/// `distributed.timeout`.
std::chrono::milliseconds Timeout();

/// The time limit less what is left to find out who failed.
std::chrono::milliseconds WaitTime();

/// Connects by the engine that the options choose. Defined in engines.cpp.
std::unique_ptr<Engine> ConnectEngine(const EngineSpec& spec);

}  // namespace hammock::distributed
