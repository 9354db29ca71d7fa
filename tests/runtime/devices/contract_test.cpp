// The supporting contracts: devices, data, lowering contexts, post-order, and every builder of
// IrBuilder.

#include <gtest/gtest.h>

#include <sstream>

#include "hammock/config.h"
#include "hammock/lazy/ir_builder.h"
#include "hammock/lazy/lowering_context.h"
#include "hammock/op_builder.h"
#include "hammock/repro.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;
using lazy::BackendDevice;
using lazy::LoweringContext;

class Contract : public Runtime {
 protected:
  const lazy::IrBuilder& builder = *lazy::getIrBuilder();
  lazy::BackendImplInterface* backend = lazy::getBackend("reference");
  BackendDevice device = backend->GetBackendDevice(0);

  /// What a node built by hand computes.
  static Tensor Of(const NodePtr& node) { return Tensor::FromValue({node, 0}); }
  static Value Counting(const Dims& sizes) {
    int64_t numel = Shape(f32, sizes).numel();
    Tensor t = arange(numel, f32, "reference").view(sizes).clone();
    sync_multi({t});
    return t.value();
  }
  static Value Full(const Dims& sizes, float value) {
    Tensor t = full(sizes, value, f32, "reference");
    sync_multi({t});
    return t.value();
  }
};

// ---- Devices and data

TEST_F(Contract, DevicesAreOrderedAndPrinted) {
  struct Named : lazy::BackendDeviceType {
    Named(int8_t type, std::string name) : BackendDeviceType(type), name(std::move(name)) {}
    std::string toString() const override { return name; }
    std::string name;
  };
  auto cpu = std::make_shared<Named>(1, "CPU"), gpu = std::make_shared<Named>(2, "CUDA");
  BackendDevice a(cpu, 0), b(cpu, 1), c(gpu, 0);
  EXPECT_EQ(a.toString(), "CPU0");
  EXPECT_LT(a, b);
  EXPECT_LT(b, c);
  EXPECT_NE(a, c);
  EXPECT_EQ(a, BackendDevice(std::make_shared<Named>(1, "CPU"), 0));
  EXPECT_NE(a, BackendDevice(std::make_shared<Named>(1, "other"), 0)) << "same number, other name";
  std::ostringstream text;
  text << c;
  EXPECT_EQ(text.str(), "CUDA0");
  EXPECT_EQ(lazy::BackendDeviceType().toString(), "Unknown");
  EXPECT_EQ(BackendDevice().toString(), Device().backend_device().toString());
}

TEST_F(Contract, DataHasIdentityInfoAndReadiness) {
  auto data = backend->CreateDataPlaceholder(device, Shape(f32, {2}));
  auto other = backend->CreateDataPlaceholder(device, Shape(f32, {2}));
  EXPECT_NE(data->GetHandle(), other->GetHandle());
  EXPECT_FALSE(data->HasValue());
  EXPECT_EQ(data->bytes(), 0);
  auto info = std::make_shared<lazy::BackendData::DeviceDataInfo>(7, true);
  EXPECT_EQ(data->SetInfo(info), nullptr);
  EXPECT_EQ(data->SetInfo(nullptr), info);
  EXPECT_EQ(data->info(), nullptr);

  HostTensor host = HostTensor::From(std::vector<float>{1, 2}, {2});
  auto full = backend->MakeComputationDataFromTensor(host, host.shape(), device);
  data->Assign(*full);
  EXPECT_TRUE(data->HasValue());
  EXPECT_EQ(data->bytes(), 8);
  EXPECT_THROW(data->Assign(*backend->CreateDataPlaceholder(device, Shape(f32, {3}))), Error);

  other->MakePending();
  int called = 0;
  other->OnReady([&] { ++called; });
  EXPECT_FALSE(other->IsReady());
  EXPECT_EQ(other->error(), nullptr);
  other->SetError(std::make_shared<DeviceError>(ErrorCode::kDevice, "lost"));
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(other->IsReady());
  other->Wait();
  EXPECT_CODE(other->WaitReady(), ErrorCode::kDevice, "lost");
  other->OnReady([&] { ++called; });
  EXPECT_EQ(called, 2);
}

TEST_F(Contract, DerivedFormsAreCountedAndDropped) {
  auto data = backend->CreateDataPlaceholder(device, Shape(f32, {2}));
  data->AttachDerived("packed", std::make_shared<int>(5), 100);
  data->AttachDerived("other", std::make_shared<int>(6), 10);
  EXPECT_EQ(data->derived_bytes(), 110);
  EXPECT_EQ(*std::static_pointer_cast<int>(data->GetDerived("packed")), 5);
  EXPECT_EQ(data->GetDerived("none"), nullptr);
  data->DropDerived();
  EXPECT_EQ(data->derived_bytes(), 0);
  EXPECT_EQ(data->GetDerived("packed"), nullptr);
}

TEST_F(Contract, ScalarsBecomeDataOfRankZero) {
  for (const Scalar& scalar : {Scalar(1.5), Scalar(true), Scalar(int64_t{-7})}) {
    auto data = backend->MakeComputationDataFromScalar(scalar, device);
    EXPECT_TRUE(data->HasValue());
    EXPECT_EQ(data->shape().rank(), 0);
    EXPECT_EQ(data->shape().dtype(), scalar.dtype());
    EXPECT_EQ(backend->MakeTensorFromComputationData(data, std::nullopt).at(0), scalar);
  }
}

TEST_F(Contract, CompilationDevicesAreAskedFor) {
  auto devices = backend->GetCompilationDevices("reference:0", {});
  EXPECT_EQ(devices, std::vector<std::string>{"reference:0"});
  const std::vector<std::string> both{"reference:0", "null:0"};
  EXPECT_EQ(backend->GetCompilationDevices("reference:0", both), both);
  Tensor x = OnHost({1}) + 1.0f;
  Device reference("reference");
  Lazy().SyncLiveTensorsGraph(&reference, std::vector<std::string>{"reference:0"}, true);
  EXPECT_FALSE(x.is_pending());
  EXPECT_CODE(Lazy().SyncLiveTensorsGraph(&reference, std::vector<std::string>{"reference:5"}),
              ErrorCode::kBadOrdinal);
}

/// Notes what the runtime asks of it, and compiles for the first device alone.
class AskedBackend : public HostBackend {
 public:
  AskedBackend() : HostBackend("asked", 2) {
    before_compile = [this](const lazy::Computation& computation) {
      aliases = computation.aliases;
      compiled_for = computation.devices;
    };
  }
  std::vector<std::string> GetCompilationDevices(
      const std::string& device, std::span<const std::string> devices) const override {
    asked.push_back({device, {devices.begin(), devices.end()}});
    return {"asked:0"};
  }
  BackendDataPtr GetComputationDataFromNode(const Node* node) const override {
    ++asked_for_data;
    return HostBackend::GetComputationDataFromNode(node);
  }
  mutable std::vector<std::pair<std::string, std::vector<std::string>>> asked;
  mutable std::atomic<int> asked_for_data{0};
  std::vector<std::pair<int, int>> aliases;
  std::vector<std::string> compiled_for;
};

TEST_F(Contract, TheRuntimeAsksForCompilationDevices) {
  AskedBackend asked;
  Registered registered(asked);
  Device first("asked:0");
  auto run = [&](const std::vector<std::string>& replicas) {
    Tensor x = ones({2}, f32, first) + 1.0f;
    Lazy().SyncLiveTensorsGraph(&first, replicas, true);
  };
  using Asked = std::pair<std::string, std::vector<std::string>>;
  run({});
  ASSERT_EQ(asked.asked.size(), 1u);
  EXPECT_EQ(asked.asked[0], (Asked{"asked:0", {"asked:0"}}));
  EXPECT_EQ(asked.compiled_for, std::vector<std::string>{"asked:0"}) << "the answer is used";
  run({"asked:0", "asked:1"});
  ASSERT_EQ(asked.asked.size(), 2u) << "other replicas are another compilation";
  EXPECT_EQ(asked.asked[1], (Asked{"asked:0", {"asked:0", "asked:1"}}));
  run({});
  run({"asked:0", "asked:1"});
  EXPECT_EQ(asked.asked.size(), 2u) << "both are cached";
}

TEST_F(Contract, TheRuntimeSetsUpAliases) {
  AskedBackend asked;
  Registered registered(asked);
  Tensor a = tensor(std::vector<float>{1, 2}, {2}, f32, "asked");
  Tensor b = tensor(std::vector<float>{1, 2, 3}, {3}, f32, "asked");
  Tensor x = exp(b), y = exp(a) + a, z = a.sum();
  sync_multi({x, y, z});
  auto fits = [&](std::pair<int, int> alias) { return alias.first < 3 && alias.second < 2; };
  ASSERT_EQ(asked.aliases.size(), 2u) << "one a parameter; a sum fits none";
  EXPECT_TRUE(fits(asked.aliases[0]) && fits(asked.aliases[1]));
  EXPECT_NE(asked.aliases[0].second, asked.aliases[1].second);
  config::Override off("param_aliasing", "false");
  sync_multi({exp(a) * 2.0f});
  EXPECT_TRUE(asked.aliases.empty());
}

TEST_F(Contract, TheRuntimeAsksForTheDataOfLeaves) {
  AskedBackend asked;
  Registered registered(asked);
  Tensor a = ones({2}, f32, "asked") + 0.0f;
  sync_multi({a});
  auto data = a.value().node->slots()[0].data;
  Tensor leaf = Of(builder.MakeDeviceData(data));
  Tensor y = leaf * leaf;
  lazy::BackendDevice own = asked.GetBackendDevice(0);
  auto context = asked.CreateLoweringContext("asked", own);
  context->AddResult({y.value().node.get(), 0});
  EXPECT_EQ(asked.asked_for_data, 1);
  EXPECT_EQ(context->GetParametersData().at(0), data);
  SaveRepro(::testing::TempDir() + "/asked.repro", {y});
  EXPECT_GT(asked.asked_for_data, 1);
}

// ---- Post-order

TEST_F(Contract, PostOrderListsEachNodeOnceOperandsFirst) {
  Tensor x = OnDevice({1, 2});
  Tensor y = x + x;
  Tensor z = y * x;
  const Node* root = z.value().node.get();
  lazy::Util::EmissionMap emitted;
  auto order = lazy::Util::ComputePostOrder(root, &emitted);
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0], x.value().node.get());
  EXPECT_EQ(order[1], y.value().node.get());
  EXPECT_EQ(order[2], root);
  EXPECT_EQ(emitted[root], lazy::Util::kEmitted);
  Tensor w = z + y;
  auto more = lazy::Util::ComputePostOrder(w.value().node.get(), &emitted);
  ASSERT_EQ(more.size(), 1u) << "the map is used again";
  EXPECT_EQ(more[0], w.value().node.get());
  const Node* roots[] = {y.value().node.get(), z.value().node.get()};
  EXPECT_EQ(lazy::Util::GetGraphSize(roots), 3u);
}

TEST_F(Contract, PostOrderOfADeepGraphDoesNotRecurse) {
  config::Override no_trim("trim_graph_size", "0");
  Tensor x = OnDevice({1});
  Tensor t = x;
  for (int i = 0; i < 200000; ++i) t = t + x;
  Value root = t.value();
  const Node* nodes[] = {root.node.get()};
  EXPECT_EQ(lazy::Util::GetGraphSize(nodes), 200001u);
}

TEST_F(Contract, PostOrderFindsCycles) {
  Tensor x = OnDevice({1});
  Tensor a = x.exp();
  Tensor b = a.sin();
  Tensor c = b.cos();
  // No public call can make one.
  Node* first = a.value().node.get();
  Node::Operand saved = NodeAccess::operands(first)[0];
  NodeAccess::operands(first)[0] = {c.value().node.get(), 0};
  const Node* nodes[] = {c.value().node.get()};
  EXPECT_CODE(lazy::Util::ComputePostOrder(nodes), ErrorCode::kVerify, "Graph loop found at");
  NodeAccess::operands(first)[0] = saved;
  EXPECT_EQ(lazy::Util::ComputePostOrder(nodes).size(), 4u);
}

// ---- Lowering

TEST_F(Contract, LoweringOnDemand) {
  Tensor x = OnDevice({1, 2});
  Tensor y = x + x;
  Tensor z = y.exp();
  auto context = backend->CreateLoweringContext("on demand", device);
  EXPECT_EQ(context->name(), "on demand");
  EXPECT_EQ(context->device(), device);
  EXPECT_EQ(context->AddResult({z.value().node.get(), 0}), 0u);
  EXPECT_EQ(context->GetEmittedNodeCount(), 3u);
  EXPECT_EQ(context->AddResult({y.value().node.get(), 0}), 1u);
  EXPECT_EQ(context->GetEmittedNodeCount(), 3u) << "lowered before";
  ASSERT_EQ(context->GetParametersData().size(), 1u);
  BackendDataPtr data = context->GetParametersData()[0];
  EXPECT_TRUE(data);
  auto computation = context->Build();
  EXPECT_EQ(ToText(computation->graph()), ToText(ParseGraph(R"(
    %0 = input : f32[2]
    %1 = add %0, %0 : f32[2]
    %2 = exp %1 : f32[2]
    return %2, %1)")));
  auto compiled = backend->Compile({computation}).at(0);
  auto results = backend->ExecuteComputation(compiled, std::vector{data}, device, {});
  EXPECT_EQ(backend->MakeTensorFromComputationData(results[1], std::nullopt).at(1).ToDouble(), 4);
  EXPECT_CODE(backend->CreateLoweringContext("c", device)->AddResult({}), ErrorCode::kValue);
}

TEST_F(Contract, LoweringOfAWholePostOrder) {
  Tensor x = OnDevice({1, 2});
  Tensor y = (x + x) * x;
  const Node* root = y.value().node.get();
  lazy::Util::EmissionMap emitted;
  auto order = lazy::Util::ComputePostOrder(root, &emitted);
  auto context = backend->CreateLoweringContext("whole", device, order, emitted);
  EXPECT_EQ(context->GetEmittedNodeCount(), order.size());
  EXPECT_EQ(context->AddResult({root, 0}), 0u);
  auto computation = context->Build();
  EXPECT_EQ(computation->parameters_size(), 1);
  EXPECT_EQ(computation->result_shape().to_string(), "f32[2]");
}

TEST_F(Contract, LoweringOpByOp) {
  Tensor x = OnDevice({1, 2});
  Tensor y = x * x;
  auto context = backend->CreateLoweringContext("op by op", device);
  context->AddParameter({x.value().node.get(), 0}, 0, x.shape(), "x");
  EXPECT_CODE(context->AddParameter({y.value().node.get(), 0}, 5, x.shape(), "late"),
              ErrorCode::kValue, "late");
  EXPECT_EQ(context->AddResult({y.value().node.get(), 0}), 0u);
  ASSERT_EQ(context->GetParametersData().size(), 1u);
  EXPECT_EQ(context->GetParametersData()[0], nullptr);
  EXPECT_EQ(ToText(context->Build()->graph()), ToText(ParseGraph(R"(
    %0 = input : f32[2]
    %1 = mul %0, %0 : f32[2]
    return %1)")));
}

TEST_F(Contract, AliasesAreCheckedByShape) {
  Tensor x = OnDevice({1, 2});
  Tensor y = x + x;
  Tensor s = x.sum();
  auto context = backend->CreateLoweringContext("aliases", device);
  context->AddResult({y.value().node.get(), 0});
  context->AddResult({s.value().node.get(), 0});
  BackendDataPtr data = context->GetParametersData()[0];
  EXPECT_TRUE(context->CheckResultShape(data, 0));
  EXPECT_FALSE(context->CheckResultShape(data, 1));
  EXPECT_FALSE(context->CheckResultShape(data, 2));
  EXPECT_FALSE(context->CheckResultShape(nullptr, 0));
  context->SetUpAlias(0, 0);
  context->SetUpAlias(1, 0);  // does not fit: no alias
  EXPECT_CODE(context->SetUpAlias(1, 0, true), ErrorCode::kShapeMismatch);
  EXPECT_CODE(context->SetUpAlias(-1, 99, true), ErrorCode::kShapeMismatch);
  EXPECT_EQ(context->Build()->aliases, (std::vector<std::pair<int, int>>{{0, 0}}));
}

TEST_F(Contract, DataOfANodeIsItsLeafsData) {
  Tensor x = OnDevice({1, 2});
  NodePtr leaf = builder.MakeDeviceData(x.value().node->slots()[0].data);
  EXPECT_EQ(backend->GetComputationDataFromNode(leaf.get()), x.value().node->slots()[0].data);
  Tensor pending = x + x;
  EXPECT_EQ(backend->GetComputationDataFromNode(pending.value().node.get()), nullptr);
  EXPECT_EQ(backend->GetComputationDataFromNode(nullptr), nullptr);
}

// ---- IrBuilder

TEST_F(Contract, BuildersOfLeavesAndCasts) {
  Tensor x = OnDevice({1.75, 2});
  EXPECT_TENSOR_EQ(Of(builder.MakeDeviceData(x.value().node->slots()[0].data)), {1.75, 2}, {2});
  EXPECT_CODE(builder.MakeDeviceData(nullptr), ErrorCode::kValue);
  NodePtr scalar = builder.MakeScalar(2.5, f32);
  EXPECT_EQ(scalar->shape().to_string(), "f32[]");
  EXPECT_NE(scalar->hash(), builder.MakeScalar(2.25, f32)->hash()) << "the value is in the key";
  EXPECT_TENSOR_EQ(Of(builder.MakeExpand({scalar, 0}, {2, 2}, true)), {2.5, 2.5, 2.5, 2.5}, {2, 2});
  NodePtr cast = builder.MakeCast(x.value(), i32, f32);
  EXPECT_EQ(cast->shape().dtype(), i32);
  EXPECT_TENSOR_EQ(Of(cast), {1, 2}, {2});
  EXPECT_CODE(builder.MakeCast(x.value(), i32, f64), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(builder.MakeCast({}, i32), ErrorCode::kValue);
  EXPECT_CODE(builder.MakeExpand(x.value(), {3}), ErrorCode::kShapeMismatch);
}

TEST_F(Contract, BuildersOfLists) {
  Tensor x = OnDevice({1, 2}), y = OnDevice({3, 4, 5});
  const Value both[] = {x.value(), y.value()};
  NodePtr list = builder.MakeTensorList(both);
  EXPECT_EQ(list->operands().size(), 2u);
  EXPECT_GE(list->num_outputs(), 1);
  EXPECT_EQ(list->shape(0).to_string(), "f32[2]") << "every output has a shape";
  EXPECT_CODE(builder.MakeTensorList({}), ErrorCode::kValue);
  const Value holes[] = {x.value(), {}};
  EXPECT_THROW(builder.MakeTensorList(holes), Error);
}

TEST_F(Contract, GenericBuilder) {
  Tensor x = OnDevice({1, 2, 3, 4});
  const Value operands[] = {x.value(), x.value()};
  EXPECT_TENSOR_EQ(Of(builder.MakeGeneric(ops::kAdd, operands)), {2, 4, 6, 8}, {4});
  const Value one[] = {x.value()};
  const Attr sizes[] = {Attr(Dims{2, 2})};
  EXPECT_TENSOR_EQ(Of(builder.MakeGeneric(ops::kReshape, one, sizes)), {1, 2, 3, 4}, {2, 2});
  const Shape given[] = {Shape(f32, {2, 2})};
  EXPECT_TENSOR_EQ(Of(builder.MakeGeneric(ops::kReshape, one, sizes, given)), {1, 2, 3, 4}, {2, 2});
  EXPECT_THROW(builder.MakeGeneric(ops::kReshape, one), Error) << "an attribute is missing";
  EXPECT_THROW(builder.MakeGeneric(ops::kReshape, one, {}, given), Error);
  EXPECT_THROW(builder.MakeGeneric(ops::kAdd, one), Error) << "an operand is missing";
}

TEST_F(Contract, BuildersOfDimensions) {
  Value x = Full({5, 8}, 0);
  Value five{builder.MakeSizeNode(x, 0), 0}, eight{builder.MakeSizeNode(x, -1), 0};
  EXPECT_EQ(lazy::DimensionValue(*five.node), 5);
  EXPECT_EQ(lazy::DimensionValue(*eight.node), 8);
  NodePtr product = builder.MakeSizeMul(five, eight);
  EXPECT_EQ(lazy::DimensionValue(*product), 40) << "upstream says 13";
  EXPECT_EQ(lazy::DimensionValue(*builder.MakeSizeAdd(five, eight)), 13);
  EXPECT_EQ(lazy::DimensionValue(*builder.MakeSizeDiv({product, 0}, eight)), 5);
  EXPECT_EQ(lazy::DimensionValue(*builder.MakeSizeDiv(eight, five)), 1);
  EXPECT_EQ(Of(product).item<int64_t>(), 40);
  EXPECT_EQ(product->shape().dtype(), i64);
  Value zero{builder.MakeSizeNode(Full({0}, 0), 0), 0};
  EXPECT_CODE(builder.MakeSizeDiv(five, zero), ErrorCode::kValue,
              "Can't divide a dimension by zero");
  EXPECT_CODE(builder.MakeSizeNode(x, 2), ErrorCode::kDimOutOfRange);
  EXPECT_CODE(builder.MakeSizeNode({}, 0), ErrorCode::kValue);
  EXPECT_CODE(builder.MakeSizeAdd(five, {}), ErrorCode::kValue);
  EXPECT_CODE(builder.MakeSizeDiv({}, five), ErrorCode::kValue);
  EXPECT_CODE(lazy::DimensionValue(*x.node), ErrorCode::kValue);
}

TEST_F(Contract, BuildersOfViews) {
  Value x = Counting({3, 4});
  EXPECT_TENSOR_EQ(Of(builder.MakeView(x, {2, 6})), Of(x.node).view({2, 6}));
  EXPECT_TENSOR_EQ(Of(builder.MakePermute(x, {1, 0})), Of(x.node).t());
  EXPECT_TENSOR_EQ(Of(builder.MakeAsStrided(x, {2, 2}, {5, 1}, 1)), {1, 2, 6, 7}, {2, 2});
  EXPECT_TENSOR_EQ(Of(builder.MakeDiagonal(x, 1, 0, 1)), {1, 6, 11}, {3});
  EXPECT_TENSOR_EQ(Of(builder.MakeDiagonal(x, -1, 0, 1)), {4, 9}, {2});
  const int64_t at[] = {1, 2}, sizes[] = {2, 2};
  EXPECT_TENSOR_EQ(Of(builder.MakeNarrow(x, at, sizes)), {6, 7, 10, 11}, {2, 2});
  EXPECT_TENSOR_EQ(Of(builder.MakeSelect(x, 1, 0, 4, 2)), {0, 2, 4, 6, 8, 10}, {3, 2});
  EXPECT_TENSOR_EQ(Of(builder.MakeResize(x, {2, 2})), {0, 1, 2, 3}, {2, 2});
  EXPECT_TENSOR_EQ(Of(builder.MakeResize(Counting({3}), {5})), {0, 1, 2, 0, 0}, {5});
  Value ones = Full({1, 3, 1}, 1);
  EXPECT_EQ(builder.MakeSqueeze(ones, -1)->shape().to_string(), "f32[3]");
  EXPECT_EQ(builder.MakeSqueeze(ones, 0)->shape().to_string(), "f32[3,1]");
  EXPECT_EQ(builder.MakeSqueeze(ones, 1)->shape().to_string(), "f32[1,3,1]");
  EXPECT_EQ(builder.MakeUnsqueeze(ones, 0)->shape().to_string(), "f32[1,1,3,1]");
  EXPECT_EQ(builder.MakeUnsqueeze(ones, -1)->shape().to_string(), "f32[1,3,1,1]");
}

TEST_F(Contract, BuildersOfViewUpdates) {
  Value x = Full({3, 4}, 0);
  const int64_t at[] = {1, 2};
  EXPECT_TENSOR_EQ(Of(builder.MakeNarrowViewUpdate(x, Full({2, 2}, 7), at)),
                   {0, 0, 0, 0, 0, 0, 7, 7, 0, 0, 7, 7}, {3, 4});
  EXPECT_TENSOR_EQ(Of(builder.MakeSelectViewUpdate(x, Full({3, 2}, 7), 1, 0, 4, 2)),
                   {7, 0, 7, 0, 7, 0, 7, 0, 7, 0, 7, 0}, {3, 4});
  EXPECT_TENSOR_EQ(Of(builder.MakeDiagonalViewUpdate(x, Full({3}, 7), 0, 0, 1)),
                   {7, 0, 0, 0, 0, 7, 0, 0, 0, 0, 7, 0}, {3, 4});
  EXPECT_TENSOR_EQ(Of(builder.MakeAsStridedViewUpdate(x, Full({2}, 7), {2}, {5}, 1)),
                   {0, 7, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0}, {3, 4});
}

TEST_F(Contract, BuildersRefuseWhatIsWrong) {
  Value x = Full({3, 4}, 0);
  const int64_t at[] = {1, 2}, sizes[] = {9, 9};
  EXPECT_CODE(builder.MakeView({}, {3}), ErrorCode::kValue);
  EXPECT_CODE(builder.MakeView(x, {5}), ErrorCode::kShapeMismatch);
  EXPECT_THROW(builder.MakePermute(x, {0, 0}), Error);
  EXPECT_THROW(builder.MakeAsStrided(x, {9, 9}, {9, 9}, 0), Error);
  EXPECT_CODE(builder.MakeAsStridedViewUpdate(x, Full({2}, 7), {3}, {5}, 1),
              ErrorCode::kShapeMismatch);
  EXPECT_CODE(builder.MakeDiagonal(x, 0, 0, 0), ErrorCode::kValue);
  EXPECT_CODE(builder.MakeDiagonal({}, 0, 0, 1), ErrorCode::kValue);
  EXPECT_THROW(builder.MakeNarrow(x, at, sizes), Error);
  EXPECT_THROW(builder.MakeNarrowViewUpdate(x, {}, at), Error);
  EXPECT_THROW(builder.MakeNarrowViewUpdate({}, x, at), Error);
  EXPECT_THROW(builder.MakeSelect(x, 0, 0, 3, 0), Error);
  EXPECT_THROW(builder.MakeSelect(x, 0, 2, 9, 1), Error);
  EXPECT_THROW(builder.MakeSelectViewUpdate(x, {}, 0, 0, 3, 1), Error);
  EXPECT_THROW(builder.MakeDiagonalViewUpdate(x, Full({9}, 0), 0, 0, 1), Error);
  EXPECT_THROW(builder.MakeResize({}, {3}), Error);
  EXPECT_THROW(builder.MakeResize(x, {-3}), Error);
  EXPECT_THROW(builder.MakeSqueeze({}, 0), Error);
  EXPECT_THROW(builder.MakeUnsqueeze(x, 9), Error);
}

TEST_F(Contract, ABackendsOwnNodesAreRecords) {
  static constinit const OpDef kOwn = {
      .schema = "contract_test_twice(Tensor self) -> Tensor",
      .doc = "Two times self.",
      .rule = DTypeRule::kPromote,
      .expand = [](const ExpandCall& call) { return std::vector<Tensor>{call.in[0] + call.in[0]}; },
  };
  op_registry::Register(kOwn);
  Tensor x = OnDevice({1, 2});
  const Value operands[] = {x.value()};
  Tensor y = Of(builder.MakeGeneric(kOwn, operands));
  EXPECT_NE(Lazy().DumpTensors(std::vector{y}).find("contract_test_twice"), std::string::npos);
  EXPECT_TENSOR_EQ(y, {2, 4}, {2});
  EXPECT_TENSOR_EQ(CallOp("contract_test_twice", {Any(x)}).ToTensor(), {2, 4}, {2});
}

}  // namespace
}  // namespace hammock
