// Wrong input is a clear error with its own code, never a crash.

#include <gtest/gtest.h>

#include <fstream>

#include "hammock/config.h"
#include "hammock/op_builder.h"
#include "hammock/repro.h"
#include "runtime/runtime.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class BadInput : public Runtime {
 protected:
  Tensor x = OnHost({1, 2, 3});
  Tensor m = ones({2, 3}, f32, "reference");
  Tensor none;
};

TEST_F(BadInput, Shapes) {
  EXPECT_CODE(x + ones({2}, f32, "reference"), ErrorCode::kShapeMismatch, "f32[2]");
  EXPECT_CODE(matmul(m, m), ErrorCode::kShapeMismatch, "2");
  EXPECT_CODE(matmul(m, tensor(1.0, f32, "reference")), ErrorCode::kShapeMismatch);
  EXPECT_CODE(cat({m, ones({2, 2, 2}, f32, "reference")}, 0), ErrorCode::kShapeMismatch);
  EXPECT_CODE(stack({x, m}, 0), ErrorCode::kShapeMismatch);
  EXPECT_CODE(cat({}, 0), ErrorCode::kValue);
  EXPECT_CODE(x.view({2}), ErrorCode::kShapeMismatch);
  EXPECT_CODE(m.sum({5}), ErrorCode::kDimOutOfRange, "5");
  EXPECT_CODE(softmax(m, 2), ErrorCode::kDimOutOfRange);
  EXPECT_CODE(tensor(std::vector<float>{1, 2, 3}, {2, 2}), ErrorCode::kShapeMismatch);
  EXPECT_CODE(tensor({{1, 2}, {3}}), ErrorCode::kShapeMismatch);
  EXPECT_CODE(where(x > 0, m.t(), x), ErrorCode::kShapeMismatch);
  EXPECT_CODE(m.expand({2}), ErrorCode::kShapeMismatch);
  EXPECT_CODE(x.add_(m), ErrorCode::kShapeMismatch);
  EXPECT_CODE(gather(m, 0, zeros({2}, i64, "reference")), ErrorCode::kShapeMismatch);
  EXPECT_TENSOR_EQ(x, {1, 2, 3}, {3});
}

TEST_F(BadInput, OperatorsNameTheLine) {
  Tensor two = ones({2}, f32, "reference");
  const std::string here = Line(__LINE__ + 1);
  EXPECT_CODE(x == two, ErrorCode::kShapeMismatch, here);
  EXPECT_CODE(x != two, ErrorCode::kShapeMismatch, Line(__LINE__));
  EXPECT_CODE(x + two, ErrorCode::kShapeMismatch, Line(__LINE__));
  EXPECT_TENSOR_EQ(x == 2, {false, true, false}, {3});
  EXPECT_TENSOR_EQ(2.0 != x, {true, false, true}, {3});
  EXPECT_TENSOR_EQ(x == x + 0.0f, {true, true, true}, {3});
}

TEST_F(BadInput, DTypes) {
  Tensor i = tensor({1, 2, 3}, i32, "reference");
  EXPECT_CODE(gather(x, 0, x), ErrorCode::kDTypeMismatch, "f32");
  EXPECT_CODE(matmul(m, ones({3, 2}, f64, "reference")), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(bitwise_and(x, x), ErrorCode::kDTypeMismatch, "bitwise_and");
  EXPECT_CODE(i.add_(1.5), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(mean(i), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(x.host().values<int32_t>(), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(index_select(x, 0, x), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(rand({2}, i32, "reference"), ErrorCode::kDTypeMismatch);
}

TEST_F(BadInput, Devices) {
  EXPECT_CODE(x + ones({3}, f32, "null"), ErrorCode::kDeviceMismatch, "reference:0 and null:0");
  EXPECT_CODE(cat({x, ones({3}, f32, "null")}, 0), ErrorCode::kDeviceMismatch);
  EXPECT_CODE(x.add_(ones({3}, f32, "null")), ErrorCode::kDeviceMismatch);
  EXPECT_CODE(ones({3}, f32, "refrence"), ErrorCode::kUnknownDevice, "reference");
  EXPECT_CODE(ones({3}, f32, "reference:1"), ErrorCode::kBadOrdinal, "reference:0");
  EXPECT_CODE(x.to(Device("reference:1")), ErrorCode::kBadOrdinal);
  EXPECT_CODE(mark_step(Device("nothing")), ErrorCode::kUnknownDevice);
  {
    config::Override device("device", "nowhere");
    EXPECT_CODE(ones({3}), ErrorCode::kUnknownDevice, "nowhere");
  }
  EXPECT_CODE(Lazy().DumpTensors(std::vector{x, ones({1}, f32, "null")}),
              ErrorCode::kDeviceMismatch);
}

TEST_F(BadInput, UndefinedTensors) {
  Tensor moved = x;
  Tensor taken = std::move(moved);
  for (const Tensor& bad : {none, moved}) {
    EXPECT_FALSE(bad.defined());
    EXPECT_CODE(bad + 1.0f, ErrorCode::kUninitializedTensor, "add: the tensor is undefined");
    EXPECT_CODE(x + bad, ErrorCode::kUninitializedTensor, "add");
    EXPECT_CODE(1.0f + bad, ErrorCode::kUninitializedTensor, "add: the tensor is undefined");
    EXPECT_CODE(bad / 2, ErrorCode::kUninitializedTensor, "div: the tensor is undefined");
    EXPECT_CODE(bad - x, ErrorCode::kUninitializedTensor, "sub: the tensor is undefined");
    EXPECT_CODE(bad - 1.0f, ErrorCode::kUninitializedTensor, "sub: the tensor is undefined");
    EXPECT_CODE(bad == 2, ErrorCode::kUninitializedTensor, "eq: the tensor is undefined");
    EXPECT_CODE(bad.exp(), ErrorCode::kUninitializedTensor, "exp");
    EXPECT_CODE(matmul(m, bad), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(cat({x, bad}, 0), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.view({1}), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad[0], ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.index({0}), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.sum(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.host(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.item(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.shape(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.strides(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.device(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.id(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.value(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.is_pending(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.to(f64), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.to(Device("null")), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(bad.clone(), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(where(bad, x, x), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(gather(x, 0, bad), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(zeros_like(bad), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(Lazy().GetTensorId(bad), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(Lazy().GetGraphHash(std::vector{bad}), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(Lazy().DumpTensors(std::vector{bad}), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(Lazy().IsPending(bad), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(Lazy().ClearErrors(bad), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(Lazy().GetTensors(std::vector{x, bad}), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(sync_multi({bad}), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(SaveRepro("/tmp/hammock_bad_input.repro", {bad}), ErrorCode::kUninitializedTensor);
    Tensor copy = bad;
    EXPECT_CODE(copy.add_(1.0f), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(copy += x, ErrorCode::kUninitializedTensor);
    EXPECT_CODE(copy.fill_(0.0f), ErrorCode::kUninitializedTensor);
    EXPECT_CODE(donate(copy), ErrorCode::kUninitializedTensor);
    EXPECT_EQ(bad.summary(), "undefined");
    EXPECT_FALSE(bad.is_alias_of(x));
    std::ostringstream text;
    text << bad;
    EXPECT_EQ(text.str(), "undefined");
  }
  Tensor y = x;
  EXPECT_CODE(y.add_(none), ErrorCode::kUninitializedTensor);
  EXPECT_CODE(y.copy_(none), ErrorCode::kUninitializedTensor);
  EXPECT_CODE(Tensor::FromValue({}), ErrorCode::kUninitializedTensor);
  EXPECT_TENSOR_EQ(x, {1, 2, 3}, {3});
}

TEST_F(BadInput, Sizes) {
  EXPECT_CODE(zeros({-1}), ErrorCode::kNegativeSize, "-1");
  EXPECT_CODE(ones({2, -3}), ErrorCode::kNegativeSize);
  EXPECT_CODE(full({-1}, 1), ErrorCode::kNegativeSize);
  EXPECT_CODE(rand({-5}), ErrorCode::kNegativeSize);
  EXPECT_CODE(randperm(-1), ErrorCode::kNegativeSize);
  EXPECT_CODE(eye(-1), ErrorCode::kNegativeSize);
  EXPECT_CODE(linspace(0, 1, -1), ErrorCode::kNegativeSize);
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_CODE(zeros({kHuge, 4}), ErrorCode::kSizeOverflow);
  EXPECT_CODE(zeros({kHuge}), ErrorCode::kSizeOverflow) << "as bytes, not as elements";
  EXPECT_CODE(x.unsqueeze(0).expand({kHuge, 3}), ErrorCode::kSizeOverflow);
  EXPECT_CODE(arange(0, 1e30), ErrorCode::kValue, "more elements than a tensor can have");
  EXPECT_CODE(arange(INT64_MIN, INT64_MAX), ErrorCode::kValue, "more elements");
  EXPECT_CODE(x.view({kHuge, kHuge}), ErrorCode::kSizeOverflow);
  EXPECT_CODE(arange(0, 5, 0), ErrorCode::kValue);
  EXPECT_CODE(arange(0, 5, -1), ErrorCode::kValue);
  EXPECT_CODE(arange(0, NAN), ErrorCode::kValue);
  EXPECT_CODE(zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}), ErrorCode::kValue)
      << "more dims than there can be";
  Tensor eight = zeros({1, 1, 1, 1, 1, 1, 1, 1}, f32, "reference");
  EXPECT_THROW(eight.unsqueeze(0), Error);
  EXPECT_EQ(eight.sum().item<float>(), 0);
}

TEST_F(BadInput, MemoryThatThereIsNot) {
  // Fits an int64, not the machine: an error when it is computed, and of that value only.
  Tensor huge = zeros({int64_t{1} << 45}, f32, "reference");
  Tensor y = x + 1.0f;
  EXPECT_CODE(huge.host(), ErrorCode::kOutOfMemory);
  EXPECT_TENSOR_EQ(y, {2, 3, 4}, {3});
}

TEST_F(BadInput, Items) {
  EXPECT_CODE(zeros({0}, f32, "reference").item(), ErrorCode::kEmptyTensor, "f32[0]");
  EXPECT_CODE(x.item(), ErrorCode::kValue, "3");
  EXPECT_CODE(x.item<float>(), ErrorCode::kValue);
  EXPECT_CODE(zeros({0}, f32, "reference").max(), ErrorCode::kEmptyTensor);
  EXPECT_CODE(argmax(zeros({0}, f32, "reference")), ErrorCode::kEmptyTensor);
  EXPECT_EQ(zeros({0}, f32, "reference").sum().item<float>(), 0);
}

TEST_F(BadInput, Config) {
  EXPECT_CODE(config::Set("trim_graph_sise", "5"), ErrorCode::kUnknownName, "trim_graph_size");
  EXPECT_CODE(config::Set("", "5"), ErrorCode::kUnknownName);
  EXPECT_CODE(config::GetText("nonsense"), ErrorCode::kUnknownName);
  EXPECT_THROW(config::Set("trim_graph_size", "many"), TypeError);
  EXPECT_THROW(config::Set("trim_graph_size", "99999999999999999999"), Error);
  EXPECT_THROW(config::Set("eager", "perhaps"), TypeError);
  EXPECT_THROW(config::Set("max_async_queue", "0"), ValueError);
  EXPECT_THROW(config::Set("save_tensors_format", "pdf"), Error);
  EXPECT_CODE(config::Override("eagre", "1"), ErrorCode::kUnknownName, "eager");
  EXPECT_CODE(config::LoadFile("/nonexistent/hammock.conf"), ErrorCode::kValue, "nonexistent");
}

TEST_F(BadInput, CallsByName) {
  EXPECT_CODE(CallOp("no_such_op", {}), ErrorCode::kUnknownName, "no_such_op");
  EXPECT_CODE(CallOp("matmull", {Any(m)}), ErrorCode::kUnknownName, "matmul");
  EXPECT_CODE(CallOp("exp", {}), ErrorCode::kSchema, "exp");
  EXPECT_CODE(CallOp("exp", {Any(x), Any(x)}), ErrorCode::kSchema);
  EXPECT_CODE(CallOp("exp", {Any("text")}), ErrorCode::kSchema);
  EXPECT_CODE(CallOp("exp", {Any(x)}, {{"bogus", Any(1)}}), ErrorCode::kSchema, "bogus");
  EXPECT_CODE(CallOp("exp", {Any(x)}, {{"self", Any(x)}}), ErrorCode::kSchema);
  EXPECT_THROW(CallOp("exp", {Any(none)}), Error);
  EXPECT_CODE(CallOp("exp", {Any()}), ErrorCode::kSchema);
  EXPECT_TRUE(CallOp("tensor_list", {Any(AnyList())}).ToList().empty());  // no output to refer to
  EXPECT_CODE(CallOp("", {}), ErrorCode::kUnknownName);
}

TEST_F(BadInput, SymbolicTensors) {
  Tensor s = SymbolicTensor(Shape(f32, {3}));
  EXPECT_EQ(s.sizes(), Dims({3}));
  EXPECT_NE(s.summary().find("symbolic"), std::string::npos);
  EXPECT_CODE(s.host(), ErrorCode::kValue, "symbolic");
  EXPECT_CODE(s.sum().item(), ErrorCode::kValue, "symbolic");
  EXPECT_THROW(sync_multi({s}), Error);
  EXPECT_THROW(Lazy().DumpTensors(std::vector{s}), Error);
  EXPECT_THROW(Lazy().GetGraphHash(std::vector{s}), Error);
  EXPECT_THROW(donate(s), Error);
  EXPECT_NO_THROW(s.is_pending());
  EXPECT_NO_THROW(s.id());
  EXPECT_THROW((x + s).host(), Error) << "mixed with a real one";
  EXPECT_TENSOR_EQ(x, {1, 2, 3}, {3});
  Tensor lifted = Lift(2.0, f32);
  EXPECT_EQ(lifted.item<float>(), 2);
  EXPECT_THROW(lifted.add_(1.0f), Error);
  EXPECT_EQ((lifted + 1.0f).item<float>(), 3);
}

TEST_F(BadInput, ManyOperands) {
  std::vector<Tensor> many(70000, OnDevice({1}));
  // More operands than a node can have is an error, if it is not simply done.
  try {
    EXPECT_EQ(cat(many, 0).sum().item<float>(), 70000);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("operands"), std::string::npos) << error.what();
    EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
  }
  std::vector<Tensor> some(5000, OnDevice({1}));
  EXPECT_EQ(cat(some, 0).sum().item<float>(), 5000);
}

TEST_F(BadInput, Closures) {
  EXPECT_CODE(add_step_closure(nullptr), ErrorCode::kValue);
  EXPECT_CODE(extract_compiled_graph(nullptr, {}), ErrorCode::kValue);
  EXPECT_CODE(extract_compiled_graph(
                  [](const std::vector<Tensor>&) { return std::vector<Tensor>{Tensor()}; }, {x}),
              ErrorCode::kUninitializedTensor);
  CompiledGraph empty;
  EXPECT_CODE(empty({}), ErrorCode::kUninitializedTensor);
  EXPECT_CODE(empty.hash(), ErrorCode::kUninitializedTensor);
  CompiledGraph graph = extract_compiled_graph(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + 1.0f}; }, {x});
  EXPECT_CODE(graph({}), ErrorCode::kValue);
  EXPECT_CODE(graph({m}), ErrorCode::kShapeMismatch);
  EXPECT_CODE(graph({x.to(f64)}), ErrorCode::kDTypeMismatch);
  EXPECT_CODE(graph({ones({3}, f32, "null")}), ErrorCode::kDeviceMismatch);
  EXPECT_CODE(graph({none}), ErrorCode::kUninitializedTensor);
}

TEST_F(BadInput, Dumps) {
  EXPECT_CODE(Lazy().DumpTensors(std::vector{x}, "pdf"), ErrorCode::kUnknownName, "text, dot");
  EXPECT_CODE(Lazy().GetCachedText(Hash128{1, 2}), ErrorCode::kUnknownName);
  EXPECT_CODE(Lazy().RunCachedGraph(Hash128{1, 2}, {}), ErrorCode::kUnknownName);
  EXPECT_NO_THROW(Lazy().DumpTensors({}));
  EXPECT_NO_THROW(Lazy().GetGraphHash({}));
  EXPECT_NO_THROW(sync_multi({}));
  EXPECT_TRUE(Lazy().GetTensors({}).empty());
}

TEST_F(BadInput, HostMemory) {
  EXPECT_CODE(from_host(HostTensor(), "reference"), ErrorCode::kUninitializedTensor);
  EXPECT_CODE(from_blob(nullptr, {2}, f32, {}, "reference"), ErrorCode::kValue);
  EXPECT_CODE(HostTensor::From(std::vector<float>{1, 2}, {3}), ErrorCode::kShapeMismatch);
  bool freed = false;
  std::vector<float> memory{1, 2};
  {
    Tensor borrowed =
        from_blob(memory.data(), {2}, f32, BorrowedMemory([&] { freed = true; }), "reference");
    Tensor y = borrowed + 1.0f;
    borrowed = Tensor();
    EXPECT_TENSOR_EQ(y, {2, 3}, {2});
  }
  mark_step();
  EXPECT_TRUE(freed);
}

TEST_F(BadInput, ErrorsNameTheOp) {
  EXPECT_THROW_MESSAGE(matmul(m, m), ValueError, "matmul: ");
  EXPECT_THROW_MESSAGE(m.view({4}), ValueError, "view: ");
  EXPECT_THROW_MESSAGE(x.add_(m), ValueError, "add_: ");
  EXPECT_THROW_MESSAGE(none.exp(), ValueError, "exp: the tensor is undefined");
  EXPECT_THROW_MESSAGE(none.item(), ValueError, "item: the tensor is undefined");
  EXPECT_THROW_MESSAGE(none.size(0), ValueError, "size: the tensor is undefined");
  EXPECT_THROW_MESSAGE(none + none, ValueError, "add: the tensor is undefined");
  Raised raised = ErrorOf([&] { x + ones({2}, f32, "reference"); });
  int line = __LINE__ - 1;
  EXPECT_NE(raised.what.find(Line(line)), std::string::npos) << raised.what;
}

}  // namespace
}  // namespace hammock
