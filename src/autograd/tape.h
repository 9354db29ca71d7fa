#pragma once
/// The tape: the history of values, apart from the trace. An entry stands for one op whose results
/// may be differentiated; it knows its operands' entries, the types, and the values its gradient
/// reads. A value saved here is referenced from outside the graph, so a step that comes between
/// forward and backward keeps it.
///
/// Note [No cycles]: an entry saves the values of its own results without their history (which is
/// the entry itself) and adds it when the backward pass asks for them.

#include <atomic>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/inline_list.h"
#include "base/pool.h"
#include "hammock/ir/node.h"
#include "hammock/tensor.h"

namespace hammock {

/// Where a gradient goes: one result of an entry.
struct TapeEdge {
  TapePtr entry;  // null where none is wanted
  uint32_t index = 0;
};

using GradHook = std::function<Tensor(const Tensor&)>;

class TapeEntry {
 public:
  virtual ~TapeEntry() = default;
  /// "mul", for messages.
  virtual std::string name() const = 0;
  /// Gradients of the operands, one per edge, from those of the results. Zeros for results that
  /// none arrived at, if MaterializesGrads(). `grads` may be moved from.
  virtual std::vector<Tensor> Backward(const TapePtr& self, std::vector<Tensor>&& grads) = 0;
  virtual bool MaterializesGrads() const { return true; }
  /// Forgets what was saved for Backward, which then raises.
  virtual void Release() {}

  std::atomic<uint32_t> references{1};
  /// Stands for a single tensor; the results of the others are numbered as their node's are.
  bool one_result = false;
  bool is_leaf = false;  // a LeafEntry
  InlineList<TapeEdge, 3> edges;
  std::span<const Shape> types;  // of the results
  DeviceId device = kNoDevice;
  LocationId location = 0;
  TapeEntry* next_dying = nullptr;  // while it is being destroyed

  /// Entries are made for every op: their memory is that of nodes.
  static void* operator new(size_t bytes) { return pool::Allocate(bytes); }
  static void operator delete(void* memory, size_t bytes) { pool::Free(memory, bytes); }

  struct Hook {
    int64_t number;
    uint32_t index;  // of the result
    GradHook call;
  };
  std::vector<Hook> hooks;
};

/// The end of the tape: a tensor that requires grad. Belongs to its handle.
class LeafEntry : public TapeEntry {
 public:
  explicit LeafEntry(const Shape& type) : type_(type) {
    one_result = is_leaf = true;
    types = std::span(&type_, 1);
  }
  std::string name() const override { return "leaf"; }
  std::vector<Tensor> Backward(const TapePtr&, std::vector<Tensor>&&) override { return {}; }
  void Accumulate(const Tensor& grad, bool keep_history);
  Dims strides;  ///< of the gradient, as the leaf has them; empty if it is row-major

  Tensor grad() const {
    std::lock_guard lock(mutex_);
    return IsUndone() ? Tensor() : grad_;
  }
  void SetGrad(const Tensor& grad) {
    std::lock_guard lock(mutex_);
    grad_ = grad;
  }

 private:
  /// The step that made the gradient failed, so there is none.
  bool IsUndone() const;

  const Shape type_;
  mutable std::mutex mutex_;
  Tensor grad_;
};

/// Where the gradient of a value goes.
inline TapeEdge EdgeTo(const Value& value) {
  return {value.tape, value.tape && !value.tape->one_result ? value.index : 0};
}
/// A tensor's own history, whose gradient goes to `edge` through `backward`. `name` is a literal.
TapePtr OneResult(const char* name, TapeEdge edge, const Shape& type, DeviceId device,
                  std::function<Tensor(const Tensor& grad)> backward);

/// "Trying to backward a second time", in our words.
[[noreturn]] void ThrowReleased(const TapeEntry& entry);

/// The operand's type where an elementwise op broadcast or promoted it.
Tensor ReducedTo(const Tensor& grad, const Shape& type);

}  // namespace hammock
