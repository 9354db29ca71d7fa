#pragma once
/// A checkpoint that all ranks write together, each its own part, and that a world of another size,
/// or one whose parameters are in other parts, can read.
///
///   distributed::Checkpoint run(world);
///   run.add("model", *model);
///   run.add("optimizer", optimizer);
///   run.add("epoch", epoch);
///   if (std::filesystem::exists("run")) run.load("run");
///   ...
///   run.save("run");                     // all ranks call it
///
/// `run` is a folder that all ranks see. It has the old checkpoint or the new one, whole, whatever
/// ends a rank meanwhile. Tensors have the names and sizes of an undivided model, so that what
/// fully_shard, tensor parallel layers or one rank alone wrote is read by any of them. (The parts
/// of ShardedOptimizer have numbers instead: they need the same `distributed.bucket_bytes`.) Shards
/// of shards, such as tensor parallel layers in fully_shard, are saved by the group of the latter.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hammock/distributed.h"
#include "hammock/distributed/shard.h"
#include "hammock/module.h"
#include "hammock/optim/optimizer.h"
#include "hammock/state_dict.h"

namespace hammock::distributed {

/// It refers to what is added, which must outlive it.
class HAMMOCK_API Checkpoint {
 public:
  explicit Checkpoint(const Group& group = world());
  /// Names have no dot and occur once. The modules of an optimiser's parameters come before it.
  void add(const std::string& name, Module& module, Location at = Location::current());
  void add(const std::string& name, optim::Optimizer& optimizer, Location at = Location::current());
  /// A number that is the same on all ranks.
  void add(const std::string& name, int64_t& number, Location at = Location::current());

  /// Computes what is pending, and writes. All ranks raise where the numbers of their last steps
  /// (`Group::steps`) differ, where a part of a tensor is on no rank of the group (ValueError), and
  /// where one of them cannot write; then the folder has what it had before.
  void save(const std::string& folder, Location at = Location::current()) const;
  /// All ranks of the group call it, and each reads what it has a part of. ValueError for a folder
  /// that is damaged, has parts of different steps, or names, shapes and dtypes that are not those
  /// of what was added; what one rank cannot read is raised on all, and nothing has been loaded.
  /// Returns the number of steps that the ranks had made.
  int64_t load(const std::string& folder, Location at = Location::current());

 private:
  struct Entry {
    Tensor tensor;
    std::optional<Shard> shard;
    std::string local;  // its name in the part
  };
  using Entries = std::map<std::string, Entry>;
  struct Part {
    std::string name;
    std::function<void(Entries&)> collect;
    std::function<void(const StateDict&)> load;  // by local names
  };
  void AddPart(Part part);
  Entries Collect() const;

  Group group_;
  std::vector<Part> parts_;
  std::vector<const Module*> modules_;
};

}  // namespace hammock::distributed
