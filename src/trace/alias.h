#pragma once
/// Views. Tensors that share memory form an alias group: one base value plus, per tensor, a chain
/// of view ops from the base. A write makes a new base value (functional underneath) and moves the
/// group's generation; the other members build their value anew when they are next used.
///
/// Strides and offset are host metadata with PyTorch's values; they are never part of a key. A
/// tensor of memory of its own that is not row-major has a ViewState without a group: its value is
/// the row-major one, as always.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/pool.h"
#include "hammock/ir/node.h"
#include "hammock/ir/shape.h"
#include "hammock/tensor.h"
#include "trace/write_unit.h"

namespace hammock {

struct TensorImpl;

struct AliasGroup : WriteTarget, std::enable_shared_from_this<AliasGroup> {
  ~AliasGroup() { ForgetWrites(*this); }

  std::mutex mutex;
  Value base;  // row-major, guarded by `mutex`
  Dims order;  // dims of the base as they lie in memory; empty: as they are
  std::atomic<uint64_t> generation{1};  // grows with every write
  std::atomic<bool> listed{false};      // in some thread's written_groups
  std::atomic<int> attached{0};         // members that gradients pass through to the base
};

/// One more view op. `start` is the operand of a dynamic slice, which is a parameter of the graph.
struct ViewOp {
  const OpDef& op;
  std::initializer_list<Attr> attrs;
  std::optional<int64_t> start = std::nullopt;
};

/// One view op of a chain, shared by all views behind it.
struct ViewStep {
  /// Of a value of type `input`.
  ViewStep(const ViewOp& view, const Shape& input, std::shared_ptr<const ViewStep> parent);

  const OpDef* op() const { return &model->op(); }
  const Attr& attr(size_t i) const { return model->attrs()[i]; }

  std::shared_ptr<const ViewStep> parent;  // null: applies to the base
  Value start;                             // of a dynamic slice
  NodePtr model;                           // of the op's nodes; see ModelOf
};

/// Where a tensor's elements lie relative to its base, in elements.
struct Geometry {
  Dims sizes;
  Dims strides;
  int64_t offset = 0;
};

struct ViewState {
  /// Of memory that is shared with no other tensor.
  explicit ViewState(const Dims& strides) : strides(strides) {}
  ViewState(std::shared_ptr<AliasGroup> group, std::shared_ptr<const ViewStep> last,
            uint64_t generation, const Geometry& geometry, bool detached)
      : group(std::move(group)),
        last(std::move(last)),
        generation(generation),
        strides(geometry.strides),
        offset(geometry.offset),
        detached(detached) {}
  /// The last member of a group that gradients pass through takes the history with it, so that what
  /// was detached from a loss keeps its value only.
  ~ViewState();
  ViewState(const ViewState&) = delete;
  ViewState& operator=(const ViewState&) = delete;

  std::shared_ptr<AliasGroup> group;     // null: shares its memory with no other
  std::shared_ptr<const ViewStep> last;  // null: the base itself
  uint64_t generation = 0;               // of the cached node
  Dims strides;
  int64_t offset = 0;
  bool detached = false;  // made by detach or without grad: gradients do not pass to the base

  static void* operator new(size_t bytes) { return pool::Allocate(bytes); }
  static void operator delete(void* memory, size_t bytes) { pool::Free(memory, bytes); }
};

Geometry GeometryOf(const TensorImpl& impl);
/// Whether two elements may share a place.
bool SelfOverlaps(const Geometry& geometry);

/// A new tensor that aliases `self` through a view op. The caller has opened a LocationScope.
Tensor MakeView(const char* name, const Tensor& self, const ViewOp& op, const Geometry& geometry);
/// A view that addresses the base directly (as_strided, diagonal, unfold).
Tensor MakeBaseView(const char* name, const Tensor& self, const Geometry& geometry);
/// A second handle to the same memory.
Tensor MakeAlias(const Tensor& self, bool detached);

/// Whether its group was written since.
inline bool IsStale(const ViewState& view) {
  return view.group && view.generation != view.group->generation.load(std::memory_order_acquire);
}
/// Brings the node of a stale view up to date with its group.
void RefreshView(TensorImpl& impl);
/// Writes `value` (of the tensor's own type) to the tensor and so to everything it aliases.
/// `is_shared`: it is another tensor's value too.
void WriteValue(const char* op, TensorImpl& impl, const Value& value, bool is_shared = false);
/// The value that a step must compute for this tensor: its own, or its group's base.
Value BaseValue(const std::shared_ptr<AliasGroup>& group);

}  // namespace hammock
