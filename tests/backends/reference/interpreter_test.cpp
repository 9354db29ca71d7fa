#include "backends/reference/interpreter.h"

#include <map>

#include "backends/run_graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::reference {
namespace {

/// Counts the bytes of live results.
class CountingHooks : public Hooks {
 public:
  void BeforeNode(const GraphNode& node) override {
    ++nodes;
    if (fail_at == node.op->name()) {
      throw DeviceError(ErrorCode::kDevice, "injected");
    }
  }
  HostTensor Allocate(const Shape& shape, const OpDef& op) override {
    if (no_memory) throw OutOfMemory(ErrorCode::kOutOfMemory, std::string(op.name()) + ": full");
    HostTensor tensor(shape);
    live += shape.bytes();
    peak = std::max(peak, live);
    auto release = [this, keep = tensor.storage(), bytes = shape.bytes()](void*) { live -= bytes; };
    return HostTensor(shape, std::shared_ptr<void>(tensor.mutable_data(), release));
  }

  int64_t live = 0;
  int64_t peak = 0;
  int64_t nodes = 0;
  std::string fail_at;
  bool no_memory = false;
};

Graph Chain(int length) {
  Graph graph;
  GraphValue value = graph.AddInput(Shape(f32, {4}));
  GraphValue one = graph.AddInput(Shape(f32, {4}));
  const OpDef& add = op_registry::Get("add");
  for (int i = 0; i < length; ++i) {
    GraphNode node;
    node.op = &add;
    node.inputs = {value, one};
    node.types = {Shape(f32, {4})};
    value = {graph.Append(std::move(node)), 0};
  }
  graph.AddOutput(value);
  return graph;
}

TEST(Interpreter, FreesIntermediatesAtTheirLastUse) {
  Graph graph = Chain(100);
  HostTensor zeros = Make(f32, {0, 0, 0, 0});
  HostTensor ones = Make(f32, {1, 1, 1, 1});
  CountingHooks hooks;
  auto out = Interpret(graph, std::vector{zeros, ones}, &hooks);
  EXPECT_TENSOR(out[0], Make(f32, {100, 100, 100, 100}));
  EXPECT_EQ(hooks.nodes, 100);
  EXPECT_EQ(hooks.peak, 2 * 16);
  out.clear();
  EXPECT_EQ(hooks.live, 0);
}

TEST(Interpreter, FreesResultsThatNobodyReads) {
  CountingHooks hooks;
  Graph graph = ParseGraph(R"(
    %0 = input : f32[4]
    %1:2 = sort %0 {dim=0, descending=false, stable=true} : f32[4], i64[4]
    %2 = neg %0 : f32[4]
    %3 = abs %1.0 : f32[4]
    return %3)");
  auto out = Interpret(graph, std::vector{Make(f32, {3, -1, 2, 0})}, &hooks);
  EXPECT_TENSOR(out[0], Make(f32, {1, 0, 2, 3}));
  EXPECT_EQ(hooks.live, 16);
  EXPECT_EQ(hooks.peak, 16 + 32);  // the sort's two results
}

TEST(Interpreter, RunsAChainOfAMillionOps) {
  Graph graph = Chain(1'000'000);
  auto out = Interpret(graph, std::vector{Make(f32, {0, 1, 2, 3}), Make(f32, {1, 1, 1, 1})});
  EXPECT_TENSOR(out[0], Make(f32, {1000000, 1000001, 1000002, 1000003}));
}

TEST(Interpreter, ReturnsInputsAndRepeatedValues) {
  HostTensor x = Make(f32, {1, 2});
  auto out = RunAll(R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = mul %0, %0 : f32[2]
    return %2, %0, %2)",
                    {x, x});
  EXPECT_TENSOR(out[0], Make(f32, {1, 4}));
  EXPECT_TENSOR(out[2], Make(f32, {1, 4}));
  EXPECT_EQ(out[1].data(), x.data());
}

TEST(Interpreter, AProgramRunsManyTimes) {
  Graph graph = Chain(3);
  Program program(graph);
  Hooks hooks;
  for (double start : {0.0, 5.0}) {
    std::vector<HostTensor> inputs = {Make(f32, {start, 0, 0, 0}), Make(f32, {1, 1, 1, 1})};
    EXPECT_TENSOR(program.Run(inputs, hooks)[0], Make(f32, {start + 3, 3, 3, 3}));
  }
  EXPECT_GT(program.bytes(), 0);
}

TEST(Interpreter, ErrorsOfHooksNameTheNode) {
  CountingHooks hooks;
  hooks.fail_at = "mul";
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = neg %0 : f32[2]
    %2 = mul %1, %0 : f32[2]  @ step.cpp:5
    return %2)");
  try {
    Interpret(graph, std::vector{Make(f32, {1, 2})}, &hooks);
    ADD_FAILURE() << "no error";
  } catch (const lazy::ExecutionError& error) {
    EXPECT_EQ(error.node(), NodeId(2));
    EXPECT_EQ(std::string(error.what()),
              "injected (in %2 = mul f32[2], f32[2] : f32[2]) [at step.cpp:5] (HM0025)");
  }
  EXPECT_EQ(hooks.live, 0);
}

TEST(Interpreter, OutOfMemoryStaysWhatItIs) {
  CountingHooks hooks;
  hooks.no_memory = true;
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = neg %0 : f32[2]  @ step.cpp:6
    return %1)");
  try {
    Interpret(graph, std::vector{Make(f32, {1, 2})}, &hooks);
    ADD_FAILURE() << "no error";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(std::string(error.what()), "neg: full [at step.cpp:6] (HM0024)");
  }
}

TEST(Interpreter, ChecksItsInputs) {
  Graph graph = Chain(1);
  EXPECT_THROW(Interpret(graph, {}), InternalError);
  EXPECT_THROW(Interpret(graph, std::vector{Make(f32, {1}), Make(f32, {1})}), InternalError);
}

void InferLikeFirst(const InferCall& call) { call.out = {*call.in[0]}; }

constinit const OpDef kForeign = {.schema = "interpreter_test_foreign(Tensor self) -> Tensor",
                                  .infer = InferLikeFirst};

TEST(Interpreter, NamesAnOpThatItCannotRun) {
  op_registry::Register(kForeign);
  EXPECT_FALSE(HasKernel(kForeign));
  Graph graph;
  GraphValue x = graph.AddInput(Shape(f32, {}));
  graph.AddOutput({graph.AddNode(kForeign, {x}), 0});
  try {
    Program program(graph);
    ADD_FAILURE() << "no error";
  } catch (const NotSupported& error) {
    EXPECT_EQ(error.message(), "interpreter_test_foreign: the interpreter cannot run it (%1)");
  }
}

}  // namespace
}  // namespace hammock::reference
