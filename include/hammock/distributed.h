#pragma once
/// Programs of several processes (ranks), on one machine or many. docs/distributed.md begins with
/// an example.
///
///   Group world = distributed::init();  // which rank this is, from the launcher's environment
///   Tensor mean = distributed::all_reduce(loss, Reduction::kMean);
///
/// Collectives are ops: they are recorded, and run when their step runs. Every rank of a group
/// records the same collectives in the same order; in all else ranks may differ. Ranks compare what
/// they are about to do: where it differs, every rank raises DivergedError.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hammock/distributed/engine.h"
#include "hammock/error.h"
#include "hammock/export.h"
#include "hammock/location.h"
#include "hammock/tensor.h"

namespace hammock::distributed {

/// The error that ends a group: one of the two below.
class HAMMOCK_API DistributedError : public ErrorKind<DistributedError, DeviceError> {
 public:
  using ErrorKind::ErrorKind;
};

/// Another rank died, left, failed, or did not answer within `distributed.timeout`. The step is
/// undone. The group cannot be used any more; Group::survivors makes a new one.
class HAMMOCK_API RankError : public ErrorKind<RankError, DistributedError> {
 public:
  RankError(std::string message, std::vector<int> ranks)
      : ErrorKind(ErrorCode::kDevice, std::move(message)), ranks_(std::move(ranks)) {}
  /// Which ranks of the group, as far as it is known.
  const std::vector<int>& ranks() const { return ranks_; }

 private:
  std::vector<int> ranks_;
};

/// Ranks were about to do different things; raised on all of them before any did it.
class HAMMOCK_API DivergedError : public ErrorKind<DivergedError, DistributedError> {
 public:
  using ErrorKind::ErrorKind;
};

/// A part of the ranks, in which each has a number. A cheap handle. A group is used by one thread
/// of each rank at a time.
class HAMMOCK_API Group {
 public:
  struct State;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::string& name() const;
  int rank() const;
  int size() const;
  /// The ranks of `init` that are its members, by rank in the group.
  const std::vector<int>& world_ranks() const;
  /// Steps with collectives of this group that have ended well here.
  int64_t steps() const;
  /// Whether an error has ended it.
  bool failed() const;

  /// Ranks that give the same `color` become a group, ordered by `key`, then by rank. All ranks
  /// call it.
  Group split(int64_t color, int64_t key = 0, Location at = Location::current()) const;
  /// Returns when all ranks are here. What was recorded before is not waited for.
  void barrier(Location at = Location::current()) const;
  /// After an error: a group of the ranks that are still there, all of which call it. Those that
  /// come later than `distributed.timeout` are left out, and get RankError.
  Group survivors(Location at = Location::current()) const;

  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Arguments of `init`; those that are not given come from the environment.
struct InitOptions {
  int rank = -1;
  int size = -1;
  int local_rank = -1;
  std::string store = {};  ///< where ranks meet; empty: option `distributed.store`
  std::string job = {};    ///< names the job there
};

/// Meets the other ranks and connects to them: the group of all ranks. Without an environment that
/// names others it is a world of one, which needs no engine. May be called again after shutdown.
HAMMOCK_API Group init(const InitOptions& options = {}, Location at = Location::current());
/// Waits until all ranks have come to their end, and ends the connections. Computes what is pending
/// first.
HAMMOCK_API void shutdown(Location at = Location::current());
HAMMOCK_API bool is_initialized();
/// The group of all ranks; a world of one before `init`.
HAMMOCK_API Group world();
HAMMOCK_API int rank();
HAMMOCK_API int size();
/// Among the ranks of this host: which GPU to use, and which one `init` takes where there are
/// several and the program has not chosen a device.
HAMMOCK_API int local_rank();

// ---- Collectives. Gradients are those of the sum of all ranks' losses.

/// Every rank gets the reduction of all ranks' tensors, element by element. f16 and bf16 are
/// accumulated in f32. For a given number of ranks the bits are the same in every run.
HAMMOCK_API Tensor all_reduce(const Tensor& self, Reduction reduction = Reduction::kSum,
                              const Group& group = world(), Location at = Location::current());
/// The same for several tensors, in few messages: those of one dtype travel together, up to
/// `distributed.bucket_bytes`. The bits are those of one by one.
HAMMOCK_API std::vector<Tensor> all_reduce(const std::vector<Tensor>& tensors,
                                           Reduction reduction = Reduction::kSum,
                                           const Group& group = world(),
                                           Location at = Location::current());
/// The tensors of all ranks, one behind the other along `dim`.
HAMMOCK_API Tensor all_gather(const Tensor& self, int64_t dim = 0, const Group& group = world(),
                              Location at = Location::current());
/// The part of the reduction, cut along `dim`, that has this rank's number.
HAMMOCK_API Tensor reduce_scatter(const Tensor& self, Reduction reduction = Reduction::kSum,
                                  int64_t dim = 0, const Group& group = world(),
                                  Location at = Location::current());
/// The tensor of rank `root`; those of the others say only shape and dtype.
HAMMOCK_API Tensor broadcast(const Tensor& self, int root = 0, const Group& group = world(),
                             Location at = Location::current());
/// Part i along `split_dim` goes to rank i; what comes is put together along `concat_dim`.
HAMMOCK_API Tensor all_to_all(const Tensor& self, int64_t split_dim = 0, int64_t concat_dim = 0,
                              const Group& group = world(), Location at = Location::current());
/// The tensor of the rank that is paired with this one as (from, to); zeros where there is none.
HAMMOCK_API Tensor permute(const Tensor& self, const std::vector<std::pair<int, int>>& pairs,
                           const Group& group = world(), Location at = Location::current());

}  // namespace hammock::distributed
