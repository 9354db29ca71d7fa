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
/// ValueError that lists what no rank has, or a tensor of which ranks have parts of another shape.
void CheckWhole(const std::vector<Inventory>& all);
/// The rank that writes the piece that `rank` has of a tensor.
int WriterOf(const std::string& name, const std::vector<Inventory>& all, int rank);

/// The values that a rank writes. What it throws is raised on all ranks.
using ReadTensors = std::function<io::NamedHostTensors()>;

/// Writes this rank's file, and makes the generation the present one when all ranks have.
void WriteTogether(const std::string& folder, const std::string& generation, const Group& group,
                   const Inventory& written, const ReadTensors& read);

/// The files of the present generation. What they say of themselves is checked at once, elements
/// when they are read: a rank touches only the pieces in files that it has a part of.
class SavedParts {
 public:
  explicit SavedParts(const std::string& folder);
  int64_t steps() const { return steps_; }
  StateShapes Shapes() const;
  /// A tensor of this shape: the whole one, or the part that `shard` says, with zeros behind its
  /// end. ValueError where a piece that it is made of is damaged.
  HostTensor Read(const std::string& name, const Shape& shape,
                  const std::optional<Shard>& shard = {}) const;

 private:
  struct Source {
    std::string path;
    Piece piece;
    HostTensor data;  // memory of the file
    std::string checksum;
  };
  std::string folder_;
  int64_t steps_ = 0;
  std::map<std::string, std::vector<Source>> sources_;
};

/// Calls `read` on each rank; what it throws on one is raised on all.
void ReadTogether(const std::string& folder, const Group& group, const std::function<void()>& read);

}  // namespace hammock::distributed
