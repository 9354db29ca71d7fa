#include "autograd/engine.h"

#include <unordered_map>

#include "base/throw.h"
#include "hammock/autocast.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "ir/location_scope.h"
#include "lazy/tensor_impl.h"
#include "ops/primitives.h"

namespace hammock {

namespace {

/// What is known of an entry during one backward pass.
struct Visit {
  std::vector<Tensor> grads;  // that have arrived, by result
  std::vector<size_t> targets;
  bool wanted = false;  // a gradient that was asked for comes from here or lies behind it
  bool runs = false;    // its gradient must be computed
};

class Pass {
 public:
  explicit Pass(const BackwardRequest& request) : request_(request) {}

  std::vector<Tensor> Run() {
    Order();
    for (size_t i = 0; i < request_.targets.size(); ++i) {
      auto it = visits_.find(request_.targets[i].entry.get());
      if (it != visits_.end()) it->second.targets.push_back(i);
    }
    MarkWanted();
    std::vector<Tensor> results(request_.targets.size());
    for (size_t i = 0; i < request_.roots.size(); ++i) {
      Add(request_.roots[i], request_.grads[i]);
    }
    GradModeScope mode(request_.create_graph);
    for (size_t i = order_.size(); i-- > 0;) Step(*order_[i], results);
    return results;
  }

 private:
  /// Lists the entries, each after those it depends on.
  void Order() {
    std::vector<std::pair<TapeEntry*, size_t>> stack;  // with the next edge to look at
    auto enter = [&](TapeEntry* entry) {
      if (entry && visits_.try_emplace(entry).second) stack.emplace_back(entry, 0);
    };
    for (const TapeEdge& root : request_.roots) {
      enter(root.entry.get());
      while (!stack.empty()) {
        auto& [entry, next] = stack.back();
        if (next < entry->edges.size()) {
          enter(entry->edges[next++].entry.get());
        } else {
          order_.push_back(entry);
          stack.pop_back();
        }
      }
    }
  }

  void MarkWanted() {
    for (TapeEntry* entry : order_) {
      Visit& visit = visits_[entry];
      for (const TapeEdge& edge : entry->edges) {
        if (edge.entry) visit.runs = visit.runs || visits_[edge.entry.get()].wanted;
      }
      bool is_end = request_.targets.empty() ? IsLeaf(*entry) : !visit.targets.empty();
      visit.wanted = visit.runs || is_end;
    }
  }

  static bool IsLeaf(const TapeEntry& entry) {
    return dynamic_cast<const LeafEntry*>(&entry) != nullptr;
  }

  void Add(const TapeEdge& edge, const Tensor& grad) {
    Visit& visit = visits_[edge.entry.get()];
    visit.grads.resize(edge.entry->types.size());
    Tensor& sum = visit.grads[edge.index];
    sum = sum.defined() ? sum + grad : grad;
  }

  void Step(TapeEntry& entry, std::vector<Tensor>& results) {
    Visit& visit = visits_[&entry];
    if (!visit.wanted || visit.grads.empty()) return;
    // What the gradient traces belongs to the line of the op it differentiates.
    LocationId before = tls_location;
    if (entry.location) tls_location = entry.location;
    try {
      RunHooks(entry, visit.grads);
      Deliver(entry, visit, results);
      if (visit.runs) RunGradient(entry, visit);
    } catch (Error& error) {
      tls_location = before;
      if (error.where().empty() && entry.location) error.SetWhere(LocationText(entry.location));
      throw;
    }
    tls_location = before;
    visit.grads.clear();
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
    for (size_t target : visit.targets) {
      const TapeEdge& edge = request_.targets[target];
      results[target] = visit.grads[edge.index];
    }
    auto* leaf = dynamic_cast<LeafEntry*>(&entry);
    bool asked = request_.targets.empty() || !visit.targets.empty();
    if (leaf && request_.accumulate && asked) {
      leaf->Accumulate(visit.grads[0], request_.create_graph);
    }
  }

  void RunGradient(TapeEntry& entry, Visit& visit) {
    if (entry.MaterializesGrads()) {
      for (size_t i = 0; i < entry.types.size(); ++i) {
        const Shape& type = entry.types[i];
        if (visit.grads[i].defined() || !IsFloat(type.dtype())) continue;
        BakingScope home(entry.device);
        visit.grads[i] =
            Apply(ops::kBroadcast, Location(), {Constant(0, type.dtype())}, {Attr(type.sizes())});
      }
    }
    // Keeps the entry alive while it runs; `order_` only borrows it.
    TapePtr self = Owning(entry);
    std::vector<Tensor> grads = entry.Backward(self, std::move(visit.grads));
    HAMMOCK_CHECK(grads.size() == entry.edges.size(), "the gradient of {} gave {} of {} gradients",
                  entry.name(), grads.size(), entry.edges.size());
    for (size_t i = 0; i < grads.size(); ++i) {
      const TapeEdge& edge = entry.edges[i];
      if (edge.entry && grads[i].defined() && visits_[edge.entry.get()].wanted) Add(edge, grads[i]);
    }
    if (!request_.retain) entry.Release();
  }

  static TapePtr Owning(TapeEntry& entry) {
    entry.references.fetch_add(1, std::memory_order_relaxed);
    return TapePtr::Adopt(&entry);
  }

  const BackwardRequest& request_;
  std::vector<TapeEntry*> order_;
  std::unordered_map<const TapeEntry*, Visit> visits_;
};

}  // namespace

std::vector<Tensor> RunBackward(const BackwardRequest& request) {
  NoAutocastGuard no_autocast;  // gradients have the dtypes that the forward pass gave them
  return Pass(request).Run();
}

}  // namespace hammock
