// Passes on random graphs: each leaves a valid graph that gives the same bits and in which it finds
// nothing left to do; places in the source survive.

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <set>

#include "backends/reference/interpreter.h"
#include "backends/table.h"
#include "compiler/passes/fold.h"
#include "compiler/passes/move_shape_ops.h"
#include "compiler/passes/remove_dead.h"
#include "compiler/passes/share_equal.h"
#include "compiler/passes/simplify.h"
#include "compiler/pipeline.h"
#include "hammock/device.h"
#include "hammock/ir/storage_types.h"
#include "ir/graph_sizes.h"
#include "support/host_backend.h"
#include "support/program_run.h"
#include "support/random_program.h"

namespace hammock::testing {
namespace {

/// Small integers, so that many are equal and valid as indices; of floats also special ones.
HostTensor RandomInput(const Shape& type, std::mt19937_64& random) {
  constexpr double kFloats[] = {0.0, -0.0, 1.0, -1.5, 0.1, 3.0, INFINITY, -INFINITY, NAN, 1e30};
  HostTensor tensor(type);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    Scalar value = IsFloat(type.dtype()) ? Scalar(kFloats[random() % 10])
                                         : Scalar(static_cast<int64_t>(random() % 3));
    if (IsComplex(type.dtype())) {
      const double real = kFloats[random() % 10];
      value = Scalar(std::complex<double>(real, kFloats[random() % 10]));
    }
    tensor.set(i, value.To(type.dtype()));
  }
  return tensor;
}

/// One tensor per output, or none if the graph raises.
std::vector<HostTensor> RunOrRaise(const Graph& graph, std::span<const HostTensor> inputs) {
  try {
    return EvaluateOnHost(graph, inputs);
  } catch (const Error&) {
    return {};
  }
}

struct Seen {
  int64_t graphs = 0, nodes_before = 0, nodes_after = 0, raised = 0;
};

/// A valid graph that raises where the first one does and else gives the same bits.
void CheckPass(const char* pass, const Graph& before, const Graph& after, Seen& seen) {
  Verify(after);
  std::set<std::pair<LocationId, NodeId>> places;
  for (const GraphNode& node : before.nodes()) places.insert({node.location, node.origin});
  for (const GraphNode& node : after.nodes()) {
    ASSERT_TRUE(places.contains({node.location, node.origin}))
        << pass << " lost a place\n"
        << ToText(after, {.locations = true});
  }
  std::mt19937_64 random(static_cast<uint64_t>(before.size()));
  std::vector<HostTensor> inputs;
  for (NodeId id : before.inputs()) inputs.push_back(RandomInput(before[id].type(), random));
  std::vector<HostTensor> expected = RunOrRaise(before, inputs), got = RunOrRaise(after, inputs);
  seen.raised += expected.empty();
  ASSERT_EQ(expected.size(), got.size()) << pass << ": only one raises\n"
                                         << ToText(before) << "after\n"
                                         << ToText(after);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(SameValues(expected[i], got[i])) << pass << ": result " << i << " differs\n"
                                                 << ToText(before) << "after\n"
                                                 << ToText(after);
  }
}

/// Checks each pass alone and all together; what Optimise gives.
Graph Checked(const Graph& graph, Seen& seen) {
  const Pass passes[] = {
      {"fold", [](Graph g) { return Fold(std::move(g), EvaluateOnHost); }},
      {"simplify", Simplify},
      {"move_shape_ops", MoveShapeOps},
      {"share_equal", ShareEqual},
      {"remove_dead", RemoveDead},
      {"optimise", [](Graph g) { return Optimise(std::move(g), EvaluateOnHost); },
       /*in_bodies=*/false}};
  for (const Pass& pass : passes) {
    Graph once = RunPass(pass, graph);
    CheckPass(pass.name, graph, once, seen);
    EXPECT_EQ(ToText(RemoveDead(RunPass(pass, once))), ToText(RemoveDead(once)))
        << pass.name << " is not idempotent, of\n"
        << ToText(graph);
  }
  Graph after = Optimise(graph, EvaluateOnHost);
  ++seen.graphs;
  seen.nodes_before += graph.size();
  seen.nodes_after += after.size();
  return after;
}

void Report(const Seen& seen) {
  std::cout << seen.graphs << " graphs, " << seen.nodes_before << " nodes before, "
            << seen.nodes_after << " after; " << seen.raised << " runs raised\n";
}

// ---- Programs

/// Runs what the passes make of its graphs. Compiles once for all sizes, which must not matter.
class OptimisingBackend : public HostBackend {
 public:
  using HostBackend::HostBackend;
  bool WantsOptimisedGraphs(const lazy::BackendDevice&) const override { return true; }
  bool SupportsDimParams(const lazy::BackendDevice&) const override { return true; }
  lazy::ComputationPtr Instantiate(const lazy::ComputationPtr& general,
                                   std::span<const int64_t> sizes) const override {
    auto instance = HostBackend::Instantiate(general, sizes);
    graphs_.push_back(std::make_shared<Graph>(AtSizes(general->graph(), instance->sizes())));
    instance->artifact = std::make_shared<reference::Program>(*graphs_.back());
    return instance;
  }

 private:
  mutable std::vector<std::shared_ptr<Graph>> graphs_;  // which the programs borrow
};

/// Checks the passes on the graphs that it compiles.
class CheckingBackend : public HostBackend {
 public:
  using HostBackend::HostBackend;
  std::vector<lazy::ComputationPtr> Compile(
      std::vector<lazy::ComputationPtr> instances) const override {
    for (const auto& instance : instances) Checked(instance->graph(), seen);
    return HostBackend::Compile(std::move(instances));
  }
  mutable Seen seen;
};

int64_t CountOr(int64_t count) {
  const char* given = std::getenv("RANDOM_PROGRAMS");
  return given ? std::atoll(given) : count;
}

void RunPrograms(HostBackend& backend, int64_t count) {
  Registered registered(backend);
  Device before;
  SetDefaultDevice(Device(backend.GetDefaultDeviceType()->toString()));
  for (int64_t seed = 1; seed <= count && !::testing::Test::HasFailure(); ++seed) {
    Program program = GenerateProgram(static_cast<uint64_t>(seed), seed % 3 == 0);
    EXPECT_EQ(FindDifference(program), "") << "seed " << seed;
  }
  SetDefaultDevice(before);
}

TEST(RandomGraphs, OfProgramsGiveTheSameBitsAfterPasses) {
  auto& backend = *new CheckingBackend("checking");
  RunPrograms(backend, CountOr(1000));
  Report(backend.seen);
  EXPECT_GT(backend.seen.graphs, 0);
  EXPECT_LT(backend.seen.nodes_after, backend.seen.nodes_before);
}

TEST(RandomGraphs, OfProgramsRunOptimised) {
  auto& backend = *new OptimisingBackend("optimising");
  RunPrograms(backend, CountOr(1000));
  EXPECT_GT(backend.executed, 0);
}

// ---- Graphs of primitives, with many constants and much to simplify

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Graph Generate() {
    for (int i = 0; i < 3; ++i) {
      DType dtype = Pick({f32, f32, i64, i32, f16, boolean});
      if (Below(4) == 0) dtype = Pick({u8, u16, u32, u64, c64});
      values_.push_back(graph_.AddInput(Shape(dtype, Sizes())));
    }
    while (graph_.size() < 40) {
      try {
        AddSome();
      } catch (const Error&) {  // operands that do not go together
      }
    }
    for (int i = 0; i < 4; ++i) graph_.AddOutput(values_[values_.size() - 1 - Below(6)]);
    for (NodeId id : graph_.ids()) {
      graph_.mutable_node(id).location = InternLocation(Location::current());
      graph_.mutable_node(id).origin = id;
    }
    // As compiled graphs are: of complex numbers and storage types what they consist of.
    auto keep_none = [](const Graph&, NodeId) { return false; };
    return RunPasses(LoweringPasses(keep_none), graph_);
  }

 private:
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }
  template <class T>
  T Pick(std::initializer_list<T> list) {
    return *(list.begin() + Below(static_cast<int64_t>(list.size())));
  }
  Dims Sizes() { return Pick<Dims>({{2, 3}, {6}, {1, 6}, {3, 2}, {1}, {}, {2, 1, 3}, {0, 3}}); }
  /// Recent ones more often: chains are what passes look for.
  GraphValue Any() {
    int64_t count = static_cast<int64_t>(values_.size());
    return values_[count - 1 - Below(Below(2) ? std::min<int64_t>(count, 4) : count)];
  }

  void Add(const char* op, std::vector<GraphValue> in, std::vector<Attr> attrs = {}) {
    NodeId id = graph_.AddNode(op_registry::Get(op), std::move(in), std::move(attrs));
    values_.push_back({id, 0});
  }

  void AddSome() {
    GraphValue x = Any();
    Shape type = graph_.TypeOf(x);
    int rank = type.rank();
    int64_t dim = rank ? Below(rank) : 0;
    switch (Below(16)) {
      case 0:
        values_.push_back(graph_.AddConstant(Scalar(Pick({0.0, -0.0, 1.0, 2.0, -1.5}))
                                                 .To(Pick({f32, i64, i32, f16, boolean, c64}))));
        return;
      case 1:
      case 2:
        return Add(Pick({"add", "sub", "mul", "div", "pow", "floor_divide", "maximum", "eq",
                         "bitwise_or", "bitwise_left_shift", "logical_and"}),
                   {x, Any()});
      case 3:
      case 4:
        return Add(Pick({"neg", "logical_not", "bitwise_not", "abs", "exp", "isnan"}), {x});
      case 5:
        return Add("cast", {x},
                   {Attr(Below(4) ? Pick({f32, f64, f16, bf16, i8, i32, i64, u8, boolean})
                                  : Pick({u16, u32, u64, c64, f8e4m3, f8e5m2, i4, u4, i2, u2}))});
      case 6:
        return Add("where", {Any(), x, Any()});
      case 7:
      case 8:
        return Add("reshape", {x}, {Attr(Sizes())});
      case 9:
        return Add("broadcast", {x},
                   {Attr(Pick<Dims>({{2, 3}, {2, 6}, {3, 3, 2}, {2, 2, 3}, {4, 6}}))});
      case 10: {
        std::vector<int64_t> dims(static_cast<size_t>(rank));
        std::iota(dims.begin(), dims.end(), 0);
        std::shuffle(dims.begin(), dims.end(), random_);
        return Add("permute", {x}, {Attr(dims)});
      }
      case 11:
        return Add("slice", {x}, {Attr(dim), Attr(Below(2)), Attr(Below(4)), Attr(1 + Below(2))});
      case 12:
        return Add("flip", {x}, {Attr(Dims{dim})});
      case 13:
        return Below(2) ? Add("concat", {x, Any()}, {Attr(dim)}) : Add("concat", {x}, {Attr(dim)});
      case 14:
        return Add(Pick({"reduce_sum", "reduce_max", "reduce_prod", "reduce_any"}), {x},
                   {Attr(Dims{dim}), Attr(Below(2) == 0)});
      default: {
        GraphValue y = Any();
        if (rank == 0 || graph_.TypeOf(y).rank() == 0) return;
        int64_t other = Below(graph_.TypeOf(y).rank());
        return Add("dot_general", {x, y},
                   {Attr(Dims{dim}), Attr(Dims{other}), Attr(Dims()), Attr(Dims())});
      }
    }
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<GraphValue> values_;
};

TEST(RandomGraphs, OfPrimitivesGiveTheSameBitsAfterPasses) {
  Seen seen;
  for (int64_t seed = 1; seed <= CountOr(4000) && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Checked(Generator(static_cast<uint64_t>(seed)).Generate(), seen);
  }
  Report(seen);
  EXPECT_LT(seen.nodes_after, seen.nodes_before * 9 / 10);
}

}  // namespace
}  // namespace hammock::testing
