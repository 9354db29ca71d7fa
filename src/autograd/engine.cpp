#include "autograd/engine.h"

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/autocast.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "ir/primitives.h"
#include "runtime/diagnose/anomaly.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

/// The state of an entry during one backward pass.
struct Visit {
  TapeEntry* entry = nullptr;  // borrowed
  size_t first = 0;            // of its results among all gradients
  int target = -1;             // the last of the request's that it is
  bool reached = false;        // a gradient has arrived
  bool wanted = false;         // a gradient that was asked for comes from here or lies behind it
  bool runs = false;           // its gradient must be computed
};

class Pass {
 public:
  explicit Pass(const BackwardRequest& request) : request_(request) {}

  std::vector<Tensor> Run() {
    Order();
    FindTargets();
    MarkWanted();
    std::vector<Tensor> results(request_.targets.size());
    for (size_t i = 0; i < request_.roots.size(); ++i) {
      const TapeEdge& root = request_.roots[i];
      Add(*Find(root.entry.get()), root.index, request_.grads[i]);
    }
    GradModeScope mode(request_.create_graph);
    for (size_t i = order_.size(); i-- > 0;) Step(visits_[order_[i]], results);
    return results;
  }

 private:
  /// Lists the entries, each after those it depends on.
  void Order() {
    std::vector<std::pair<uint32_t, size_t>> stack;  // visits, with the next edge to look at
    auto enter = [&](TapeEntry* entry) {
      if (!entry) return;
      size_t known = visits_.size();
      uint32_t number = NumberOf(entry);
      if (number == known) stack.emplace_back(number, 0);
    };
    for (const TapeEdge& root : request_.roots) {
      enter(root.entry.get());
      while (!stack.empty()) {
        auto& [number, next] = stack.back();
        TapeEntry* entry = visits_[number].entry;
        if (next < entry->edges.size()) {
          enter(entry->edges[next++].entry.get());
        } else {
          order_.push_back(number);
          stack.pop_back();
        }
      }
    }
    grads_.resize(num_grads_);
  }

  void FindTargets() {
    for (const TapeEdge& target : request_.targets) {
      Visit* visit = Find(target.entry.get());
      int number = static_cast<int>(same_target_.size());
      same_target_.push_back(visit ? std::exchange(visit->target, number) : -1);
    }
  }

  void MarkWanted() {
    for (uint32_t number : order_) {
      Visit& visit = visits_[number];
      for (const TapeEdge& edge : visit.entry->edges) {
        if (edge.entry) visit.runs = visit.runs || Find(edge.entry.get())->wanted;
      }
      bool is_end = request_.targets.empty() ? visit.entry->is_leaf : visit.target >= 0;
      visit.wanted = visit.runs || is_end;
    }
  }

  /// A gradient that arrives at a result.
  void Add(Visit& visit, uint32_t index, Tensor grad) {
    visit.reached = true;
    Tensor& sum = grads_[visit.first + index];
    sum = sum.defined() ? sum + grad : std::move(grad);
  }

  // ---- The table of visits: open addressing, at most half full

  static size_t Hash(const TapeEntry* entry) {
    return static_cast<size_t>((reinterpret_cast<uintptr_t>(entry) >> 5) * 0x9e3779b97f4a7c15) >>
           20;
  }
  /// Where the entry is in the table, or would be.
  size_t SlotOf(const TapeEntry* entry) const {
    size_t mask = table_.size() - 1;
    size_t slot = Hash(entry) & mask;
    while (table_[slot] != 0 && visits_[table_[slot] - 1].entry != entry) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }
  Visit* Find(const TapeEntry* entry) {
    uint32_t number = entry ? table_[SlotOf(entry)] : 0;
    return number ? &visits_[number - 1] : nullptr;
  }
  /// The number of the entry's visit, which is made where there is none.
  uint32_t NumberOf(TapeEntry* entry) {
    size_t slot = SlotOf(entry);
    if (table_[slot] != 0) return table_[slot] - 1;
    visits_.push_back({entry, num_grads_});
    num_grads_ += entry->types.size();
    table_[slot] = static_cast<uint32_t>(visits_.size());
    uint32_t number = table_[slot] - 1;
    if (visits_.size() * 2 > table_.size()) {
      table_.assign(table_.size() * 2, 0);
      for (size_t i = 0; i < visits_.size(); ++i) {
        table_[SlotOf(visits_[i].entry)] = static_cast<uint32_t>(i + 1);
      }
    }
    return number;
  }

  void Step(const Visit& visit, std::vector<Tensor>& results) {
    TapeEntry& entry = *visit.entry;
    if (!visit.wanted || !visit.reached) return;
    // Ops that the gradient traces get the line of the op that it differentiates.
    LocationId line = entry.location ? entry.location : tls_location;
    if (ChecksValues()) [[unlikely]]
      line = GradientLocation(line, entry.name(), tls_location);
    LocationOverride override(line);
    for (size_t i = 0; i < entry.types.size(); ++i) {
      arrived_.push_back(std::move(grads_[visit.first + i]));
    }
    RunHooks(entry, arrived_);
    Deliver(entry, visit, results);
    if (visit.runs) RunGradient(entry);
    arrived_.clear();
  }

  static void RunHooks(const TapeEntry& entry, std::vector<Tensor>& grads) {
    for (const TapeEntry::Hook& hook : entry.hooks) {
      Tensor& grad = grads[hook.index];
      if (!grad.defined()) continue;
      Tensor changed = hook.call(grad);
      if (!changed.defined()) continue;
      if (changed.shape() != grad.shape()) {
        Throw(ErrorCode::kShapeMismatch, "backward: a hook returned {} for a gradient of {}",
              changed.shape().to_string(), grad.shape().to_string());
      }
      grad = changed;
    }
  }

  void Deliver(TapeEntry& entry, const Visit& visit, std::vector<Tensor>& results) {
    for (int i = visit.target; i >= 0; i = same_target_[i]) {
      const auto target = static_cast<size_t>(i);
      results[target] = arrived_[request_.targets[target].index];
    }
    bool asked = request_.targets.empty() || visit.target >= 0;
    if (entry.is_leaf && request_.accumulate && asked) {
      static_cast<LeafEntry&>(entry).Accumulate(arrived_[0], request_.create_graph);
    }
  }

  void RunGradient(TapeEntry& entry) {
    if (entry.MaterializesGrads()) {
      for (size_t i = 0; i < entry.types.size(); ++i) {
        const Shape& type = entry.types[i];
        if (arrived_[i].defined() || !IsFloatOrComplex(type.dtype())) continue;
        BakingScope home(entry.device);
        arrived_[i] =
            Apply(ops::kBroadcast, Location(), {Constant(0, type.dtype())}, {Attr(type.sizes())});
      }
    }
    // Keeps the entry alive while it runs.
    TapePtr self = Owning(entry);
    std::vector<Tensor> grads = entry.Backward(self, std::move(arrived_));
    arrived_.clear();  // before what follows runs
    HAMMOCK_CHECK(grads.size() == entry.edges.size(), "the gradient of {} gave {} of {} gradients",
                  entry.name(), grads.size(), entry.edges.size());
    for (size_t i = 0; i < grads.size(); ++i) {
      const TapeEdge& edge = entry.edges[i];
      if (!edge.entry || !grads[i].defined()) continue;
      Visit& next = *Find(edge.entry.get());
      if (next.wanted) Add(next, edge.index, std::move(grads[i]));
    }
    if (!request_.retain) entry.Release();
  }

  static TapePtr Owning(TapeEntry& entry) {
    entry.references.fetch_add(1, std::memory_order_relaxed);
    return TapePtr::Adopt(&entry);
  }

  const BackwardRequest& request_;
  std::vector<Visit> visits_;
  std::vector<int> same_target_;  // by target: another one's number or -1
  std::vector<Tensor> grads_;     // that have arrived, by result
  size_t num_grads_ = 0;
  std::vector<Tensor> arrived_;                              // of the entry that is being run
  std::vector<uint32_t> order_;                              // of visits
  std::vector<uint32_t> table_ = std::vector<uint32_t>(64);  // of visits, from 1; 0: none
};

}  // namespace

std::vector<Tensor> RunBackward(const BackwardRequest& request) {
  NoAutocastGuard no_autocast;  // gradients have the dtypes that the forward pass gave them
  return Pass(request).Run();
}

}  // namespace hammock
