#pragma once
/// The files of a checkpoint of several ranks.
///
/// Note [Generations]: a save writes `folder/<generation>/rank-<number>.safetensors`, one file for
/// each rank. When all are there, rank 0 replaces `folder/checkpoint.json`, which names the
/// generation, and removes the others. So a reader finds a whole checkpoint at any time. Only rank
/// 0 knows whether a generation is the present one, so it alone removes files.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hammock/distributed.h"
#include "hammock/distributed/shard.h"
#include "hammock/io/safetensors.h"
#include "hammock/state_dict.h"

namespace hammock::distributed {

/// A part of a tensor in a file.
struct Piece {
  DType dtype;
  Dims whole;  ///< of the tensor
  Dims start, sizes;
  bool flat = false;

  /// `shape` is that of the part. Padding counts as no part.
  static Piece Of(const Shape& shape, const std::optional<Shard>& shard);
  int64_t count() const;
  bool operator==(const Piece&) const = default;
};

/// The pieces that a rank has, and the steps that they are of.
struct Inventory {
  int64_t steps = 0;
  std::string generation;  ///< rank 0's choice
  std::map<std::string, Piece> pieces;

  std::string ToText() const;
  static Inventory FromText(const std::string& text);
};

/// Another one at each call.
std::string NewGeneration(int64_t steps);

/// Of all ranks, by rank. All ranks call it.
std::vector<Inventory> GatherInventories(const Group& group, const Inventory& own);
/// ValueError where the ranks have not made the same number of steps.
void CheckSteps(const std::vector<Inventory>& all, const Group& group);
/// ValueError that lists what no rank has.
void CheckWhole(const std::vector<Inventory>& all);
/// The rank that writes the piece that `rank` has of a tensor.
int WriterOf(const std::string& name, const std::vector<Inventory>& all, int rank);

/// The values that a rank writes. What it throws is raised on all ranks.
using ReadTensors = std::function<io::NamedHostTensors()>;

/// Writes this rank's file, and makes the generation the present one when all ranks have.
void WriteTogether(const std::string& folder, const std::string& generation, const Group& group,
                   const Inventory& written, const ReadTensors& read);

/// The files of the present generation, checked.
class SavedParts {
 public:
  explicit SavedParts(const std::string& folder);
  int64_t steps() const { return steps_; }
  StateShapes Shapes() const;
  /// The whole tensor.
  HostTensor Read(const std::string& name) const;

 private:
  struct Source {
    Piece piece;
    HostTensor data;
  };
  std::string folder_;
  int64_t steps_ = 0;
  std::map<std::string, std::vector<Source>> sources_;
};

}  // namespace hammock::distributed
