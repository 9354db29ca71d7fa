#pragma once
/// Sharding by annotation: a function of whole tensors runs on ranks that have parts of them.
/// Tensors say how they are cut; where an op needs values that lie on other ranks, collectives are
/// inserted, and a report says which and why.
///
///   Mesh mesh({2, 2}, {"data", "model"});                     // 4 ranks as a grid
///   ShardedTensor x = distribute(inputs, mesh, {shard(0), replicate()});
///   ShardedTensor w = distribute(weight, mesh, {replicate(), shard(1)});
///   ShardedFunction layer([](const std::vector<Tensor>& in) -> std::vector<Tensor> {
///     return {relu(matmul(in[0], in[1]))};                    // as on one rank
///   });
///   std::vector<ShardedTensor> y = layer({x, w});             // cut along both axes
///   std::cout << layer.report().to_text();
///
/// The function may compute gradients (`grad`), so that a whole training step is cut by its inputs.
/// Random numbers are those of one rank.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hammock/distributed.h"
#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock::distributed {

/// How a tensor lies along one axis of a mesh.
struct HAMMOCK_API Placement {
  enum class Kind : uint8_t { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  int dim = -1;  ///< of a shard

  bool operator==(const Placement&) const = default;
  std::string to_string() const;  ///< "replicate", "shard(0)", "partial"
};
/// Every rank of the axis has the same.
inline Placement replicate() { return {}; }
/// Equal parts along a dim, by rank. A dim is cut along one axis at most.
inline Placement shard(int dim) { return {Placement::Kind::kShard, dim}; }
/// Every rank has a summand.
inline Placement partial() { return {Placement::Kind::kPartial, -1}; }

/// The ranks of a group as a grid, rank by rank along the last axis first. A cheap handle.
class HAMMOCK_API Mesh {
 public:
  /// All ranks make it at the same time.
  Mesh(const std::vector<int>& sizes, const std::vector<std::string>& names,
       const Group& group = world(), Location at = Location::current());

  int axes() const;
  int size(int axis) const;
  const std::string& name(int axis) const;
  /// The ranks that differ from this one along the axis alone.
  const Group& group(int axis) const;
  bool operator==(const Mesh& other) const { return state_ == other.state_; }

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// The shard of a tensor that this rank has.
struct HAMMOCK_API ShardedTensor {
  Tensor local;
  Shape shape;  ///< of the whole
  Mesh mesh;
  std::vector<Placement> placements;  ///< by axis

  /// The whole tensor, on all ranks. All ranks call it.
  Tensor whole(Location at = Location::current()) const;
};

/// This rank's part of a tensor that all ranks have.
HAMMOCK_API ShardedTensor distribute(const Tensor& whole, const Mesh& mesh,
                                     std::vector<Placement> placements,
                                     Location at = Location::current());

/// A collective that was inserted.
struct HAMMOCK_API InsertedCollective {
  std::string collective;  ///< "all_reduce", "all_gather", "reduce_scatter", "all_to_all"
  std::string axis;
  std::string type;    ///< of what this rank sends, "f32[8,4]"
  int64_t bytes = 0;   ///< of it
  std::string op;      ///< that needs it; "output" for a result
  std::string reason;  ///< "dot_general sums over a dim that is cut"
  std::string where;   ///< source line of the op
};

struct HAMMOCK_API ShardingReport {
  std::vector<InsertedCollective> collectives;
  /// One line each.
  std::string to_text() const;
};

/// Traced once for each combination of types and placements, as functions given to `compile` are:
/// numbers, branches and tensors that are not arguments stay what they were. One thread at a time.
class HAMMOCK_API ShardedFunction {
 public:
  using Fn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  explicit ShardedFunction(Fn fn, Location at = Location::current());
  ~ShardedFunction();

  /// All inputs lie on one mesh. Outputs lie as `outputs` says, by output and axis, or where it is
  /// empty as they come, summed where they are summands.
  std::vector<ShardedTensor> operator()(const std::vector<ShardedTensor>& inputs,
                                        const std::vector<std::vector<Placement>>& outputs = {},
                                        Location at = Location::current());
  /// Of the last call.
  const ShardingReport& report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hammock::distributed
