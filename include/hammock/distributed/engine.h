#pragma once
/// Engines: libraries that move bytes between the ranks of a group. Hammock's own are
/// `libhammock-gloo.so` and `libhammock-mpi.so`; a library of yours fills this interface and calls
/// RegisterEngine, and the option `distributed.engine` chooses it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/dtype.h"

namespace hammock::distributed {

/// How all_reduce and reduce_scatter combine the elements of the ranks.
enum class Reduction : uint8_t { kSum, kMean, kMin, kMax, kProd };

/// Small values by name that all ranks of a job see, before there are connections and after they
/// broke. Thread-safe.
class HAMMOCK_API Store {
 public:
  virtual ~Store() = default;
  virtual void Set(const std::string& key, const std::string& value) = 0;
  /// Nothing if there is no such key yet.
  virtual std::optional<std::string> Get(const std::string& key) = 0;
  /// Sets the key unless it is set; its value then.
  virtual std::string SetOnce(const std::string& key, const std::string& value) = 0;
};

/// A group as an engine needs to know it.
struct EngineSpec {
  int rank = 0;
  int size = 1;
  Store* store = nullptr;                 ///< of this group alone; lives as long as the engine
  bool one_host = true;                   ///< all ranks are on this host
  std::string interface = {};             ///< of the network; empty: by the host's name
  std::chrono::milliseconds timeout{30};  ///< to connect
};

/// The connections of one rank to the others of its group. Buffers are in host memory and do not
/// overlap but where it is said. Calls wait until their part is done; several threads may call at
/// once, with different tags. Calls with one tag are the same call on all ranks.
///
/// Errors are thrown as exceptions derived from std::exception: a rank that has gone, or Close.
/// Time limits are not the engine's: whoever waits calls Close.
class Engine {
 public:
  virtual ~Engine() = default;
  /// `out` has the `bytes` of every rank, by rank. `in` may be this rank's part of `out`.
  virtual void AllGather(const void* in, void* out, size_t bytes, uint32_t tag) = 0;
  /// Part i of `in` goes to rank i; part i of `out` comes from rank i. Each has `bytes`. This
  /// rank's own part of `out` need not be written: callers that want it copy it.
  virtual void AllToAll(const void* in, void* out, size_t bytes, uint32_t tag) = 0;
  /// `data` of rank `root` on all ranks.
  virtual void Broadcast(void* data, size_t bytes, int root, uint32_t tag) = 0;
  /// Sends `in` to rank `to` and receives `out` from rank `from`; -1: does not.
  virtual void Permute(const void* in, int to, void* out, int from, size_t bytes, uint32_t tag) = 0;
  /// The engine's own reductions; false where it has none for these elements. Then they are made of
  /// the calls above, each element in the order of ranks. The bits of a result must not differ
  /// between runs. `in` and `out` may be the same.
  virtual bool AllReduce(const void* /*in*/, void* /*out*/, size_t /*count*/, DType, Reduction,
                         uint32_t /*tag*/) {
    return false;
  }
  /// Ends all connections: calls that wait throw, here and on the other ranks.
  virtual void Close() = 0;
};

/// Connects a rank to the others, which call it at the same time. Throws what is derived from
/// std::exception.
using EngineFactory = std::function<std::unique_ptr<Engine>(const EngineSpec&)>;

/// Makes an engine known by name. ValueError if the name is taken.
HAMMOCK_API void RegisterEngine(const std::string& name, EngineFactory factory);

/// An engine that this library knows, and why it cannot be used.
struct EngineFact {
  std::string name;
  std::string text;
  bool missing = false;
};
HAMMOCK_API std::vector<EngineFact> DescribeEngines();

}  // namespace hammock::distributed
