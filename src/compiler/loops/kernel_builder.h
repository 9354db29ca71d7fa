#pragma once
/// KernelBuilder: joins loop nests into one kernel. A nest computes one root, element by
/// element or as a reduction, from values in memory and from those that earlier nests of the kernel
/// left; the inlined nodes between are computed where they are used.

#include <functional>
#include <vector>

#include "compiler/facts/fusion_facts.h"

namespace hammock::compiler {

class KernelBuilder {
 public:
  explicit KernelBuilder(const FusionFacts& facts) : facts_(&facts) {}

  /// Adds a nest for a root; false, with nothing changed, where it does not fit.
  bool Add(NodeId node);
  /// After a failure: a node between that has to be a root for this one to fit.
  NodeId blocker() const { return blocker_; }

  const std::vector<NodeId>& nodes() const { return nodes_; }
  size_t size() const { return instrs_.size(); }
  bool reduces() const { return reduces_; }
  int reductions() const;
  int64_t rows() const;     ///< of a kernel that reduces
  int64_t columns() const;  ///< of a kernel that reduces

  /// `stored` says which of the nodes are needed in memory afterwards.
  Launch Finish(const std::function<bool(NodeId)>& stored) const;

 private:
  /// An index: a sum of loop indices times their coefficients. Loops are numbered for good; one
  /// that is split keeps its number for the outer part.
  struct Affine {
    int64_t offset = 0;
    std::vector<int64_t> coefficients;
    int64_t of(int loop) const;
    void Add(int loop, int64_t coefficient);
    void Add(const Affine& other, int64_t factor);
  };
  using Indices = std::vector<Affine>;  // one per dim of a tensor

  struct Loop {
    int64_t extent = 1;
    bool column = false;  // part of the reduced dim
  };
  struct BuildAccess {
    BufferId buffer;
    DType dtype = DType::kF32;
    Affine address;
    NodeId scratch_of;
    Access::Kind kind = Access::Kind::kBuffer;
  };
  struct Nest {
    NodeId node;
    int instr = -1;     // its value
    int second = -1;    // of a pair, whose parts lie side by side in memory
    int stage = 0;      // which loop computes its elements, or before which a row value is known
    bool row = false;   // one value per row
    Affine address;     // in its own memory
    bool kept = false;  // a later stage reads its elements from memory
  };
  struct NeedsSplit {  // indices in flight are out of date then
    int loop;
    int64_t inner;
  };
  struct DoesNotFit {
    NodeId blocker;
  };
  struct Groups;
  /// The state before a nest was added.
  struct Mark {
    size_t accesses;
    size_t instrs;
    size_t nests;
    std::vector<Loop> loops;
    std::vector<int> order;
    bool reduces;
  };

  void AddNest(NodeId node);
  void Undo(const Mark& mark);
  bool HasAsManyElements(NodeId node) const;
  const Dims& DomainOf(NodeId node) const;
  void StartLoops(const Dims& sizes);
  Indices Match(const Dims& sizes, const std::vector<int>& order) const;
  std::vector<int> RowOrder() const;
  void MarkColumns(const Affine& reduced);
  void SplitLoop(int loop, int64_t inner);
  int StageOf(NodeId node) const;
  const Nest* FindNest(NodeId node) const;
  bool InMemory(GraphValue value) const;

  int Value(GraphValue value, const Indices& indices);
  int Compute(NodeId node, const Indices& indices);
  int ComputePointwise(const GraphNode& node, const Indices& indices);
  int ThroughView(NodeId id, const Indices& indices);
  int FromMemory(GraphValue value, const Affine& address);
  int FromNest(NodeId node, const Affine& address);
  int EmitLoad(int access, DType dtype);
  Indices ThroughReshape(NodeId id, const Indices& indices) const;
  void Decompose(NodeId id, Affine flat, const Dims& sizes, int begin, int end, Indices& out) const;
  int AccessOf(const BuildAccess& access);
  int Emit(const Instr& instr);
  Affine Flat(const Dims& sizes, const Indices& indices) const;
  bool SameAddress(const Affine& a, const Affine& b) const;
  Groups GroupLoops(const std::vector<BuildAccess>& accesses) const;

  const FusionFacts* facts_;
  std::vector<Loop> loops_;
  std::vector<int> order_;  // loops as the dims of the elements lie in memory
  bool reduces_ = false;
  std::vector<BuildAccess> accesses_;
  std::vector<Instr> instrs_;
  std::vector<Nest> nests_;
  std::vector<NodeId> nodes_;
  NodeId blocker_;
  // While a nest is added.
  int stage_ = 0;
  bool row_level_ = false;
  std::vector<size_t> kept_now_;  // nests that are kept since
};

}  // namespace hammock::compiler
