// Calls of the CPU backend, a line for each family: ours against the reference kernel and against a
// memcpy of as many bytes as operands and results have.
//
//   calls_bench [threads]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "backends/cpu/calls/calls.h"
#include "backends/cpu/host/host_allocator.h"
#include "backends/cpu/host/thread_pool.h"
#include "hammock/config.h"
#include "hammock/ir/graph.h"

namespace hammock::cpu {
namespace {

HostAllocator& Memory() {
  static auto& memory = *new HostAllocator("bench");
  return memory;
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What is measured: with one thread the time that it runs, whatever else the machine does.
double Stopwatch() {
  if (ThreadPool::threads() > 1) return Now();
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The best time of one call of `f`, in milliseconds.
template <class F>
double Best(double seconds, F f) {
  double best = 1e9;
  double end = Now() + seconds;
  do {
    double start = Stopwatch();
    f();
    best = std::min(best, Stopwatch() - start);
  } while (Now() < end);
  return best * 1e3;
}

/// Numbers from 0, or for i32 from 1, to below `limit`.
HostTensor RandomTensor(const Shape& shape, int64_t limit) {
  static std::mt19937 random(1);
  HostTensor result = Memory().New(shape, "bench");
  for (int64_t i = 0; i < result.numel(); ++i) {
    double value = IsFloat(shape.dtype())
                       ? static_cast<double>(random() % 100000) / 1e5 - 0.5
                       : static_cast<double>(random() % static_cast<uint64_t>(limit));
    if (shape.dtype() == i32) value = std::max(value, 1.0);
    result.set(i, Scalar(value));
  }
  return result;
}

class Prepared {
 public:
  Prepared(const Graph& graph, const std::vector<HostTensor>& inputs, std::unique_ptr<Call> call)
      : call_(std::move(call)) {
    for (const HostTensor& input : inputs) in_.push_back(static_cast<const char*>(input.data()));
    for (const Shape& type : graph[graph.outputs()[0].node].types) {
      results_.push_back(Memory().New(type, "bench"));
      out_.push_back(static_cast<char*>(results_.back().mutable_data()));
    }
    scratch_ = Memory().New(Shape(u8, {std::max<int64_t>(call_->scratch_bytes(), 1)}), "bench");
  }
  void Run() { call_->Run(in_, out_, static_cast<char*>(scratch_.mutable_data())); }

 private:
  std::unique_ptr<Call> call_;
  std::vector<const char*> in_;
  std::vector<HostTensor> results_;
  std::vector<char*> out_;
  HostTensor scratch_;
};

/// A graph of inputs and one node. Integers of inputs are below `limit`.
void Measure(const char* name, const std::string& text, int64_t limit = 2) {
  Graph graph = ParseGraph(text);
  NodeId node = graph.outputs()[0].node;
  std::vector<HostTensor> inputs;
  int64_t bytes = 0;
  for (NodeId id : graph.inputs()) {
    inputs.push_back(RandomTensor(graph[id].type(), limit));
    bytes += graph[id].type().bytes();
  }
  for (const Shape& type : graph[node].types) bytes += type.bytes();
  Prepared ours(graph, inputs, MakeCall(graph, node));
  Prepared reference(graph, inputs, MakeReferenceCall(graph, node));
  HostTensor from = Memory().New(Shape(u8, {bytes / 2}), "bench");
  HostTensor to = Memory().New(Shape(u8, {bytes / 2}), "bench");
  double our_time = Best(0.3, [&] { ours.Run(); });
  double reference_time = Best(0.1, [&] { reference.Run(); });
  double copy_time = Best(
      0.1, [&] { std::memcpy(to.mutable_data(), from.data(), static_cast<size_t>(bytes / 2)); });
  fmt::print("{:<28} {:10.3f} {:12.3f} {:10.3f}\n", name, our_time, reference_time, copy_time);
}

constexpr const char* kLstm = R"(
%0 = input : f32[16,128]
%1 = input : f32[16,128]
%2 = input : f32[64,16,512]
%3 = input : f32[128,512]
%4:3 = loop %0, %1, %2, %3 {body=graph {
  %0 = input : i64[]
  %1 = input : f32[16,128]
  %2 = input : f32[16,128]
  %3 = input : f32[16,512]
  %4 = input : f32[128,512]
  %5 = dot_general %1, %4 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[16,512]
  %6 = add %5, %3 : f32[16,512]
  %7 = slice %6 {dim=1, start=0, size=128, step=1} : f32[16,128]
  %8 = slice %6 {dim=1, start=128, size=128, step=1} : f32[16,128]
  %9 = slice %6 {dim=1, start=256, size=128, step=1} : f32[16,128]
  %10 = slice %6 {dim=1, start=384, size=128, step=1} : f32[16,128]
  %11 = sigmoid %7 : f32[16,128]
  %12 = sigmoid %8 : f32[16,128]
  %13 = tanh %9 : f32[16,128]
  %14 = sigmoid %10 : f32[16,128]
  %15 = mul %12, %2 : f32[16,128]
  %16 = mul %11, %13 : f32[16,128]
  %17 = add %15, %16 : f32[16,128]
  %18 = tanh %17 : f32[16,128]
  %19 = mul %14, %18 : f32[16,128]
  return %19, %17, %19
}, count=64, num_carried=2, num_stacked_in=1} : f32[16,128], f32[16,128], f32[64,16,128]
return %4.0, %4.1, %4.2)";

void MeasureAll() {
  fmt::print("{:<28} {:>10} {:>12} {:>10}\n", "ms", "ours", "reference", "memcpy");
  Measure("permute 4096x1024", R"(
%0 = input : f32[4096,1024]
%1 = permute %0 {dims=[1,0]} : f32[1024,4096]
return %1)");
  Measure("permute heads 8,512,12,64", R"(
%0 = input : f32[8,512,12,64]
%1 = permute %0 {dims=[0,2,1,3]} : f32[8,12,512,64]
return %1)");
  Measure("permute to channels last", R"(
%0 = input : f32[16,64,56,56]
%1 = permute %0 {dims=[0,2,3,1]} : f32[16,56,56,64]
return %1)");
  Measure("concat dim 1", R"(
%0 = input : f32[4096,512]
%1 = input : f32[4096,512]
%2 = concat %0, %1 {dim=1} : f32[4096,1024]
return %2)");
  Measure("pad images", R"(
%0 = input : f32[16,64,56,56]
%1 = input : f32[]
%2 = pad_constant %0, %1 {low=[0,0,1,1], high=[0,0,1,1]} : f32[16,64,58,58]
return %2)");
  Measure("update_slice", R"(
%0 = input : f32[64,256,256]
%1 = input : f32[64,8,256]
%2 = update_slice %0, %1 {dim=1, start=100, step=1} : f32[64,256,256]
return %2)");
  Measure("index_select rows", R"(
%0 = input : f32[32000,512]
%1 = input : i64[4096]
%2 = index_select %0, %1 {dim=0} : f32[4096,512]
return %2)",
          32000);
  Measure("gather one per row", R"(
%0 = input : f32[16384,256]
%1 = input : i64[16384,1]
%2 = gather %0, %1 {dim=1} : f32[16384,1]
return %2)",
          256);
  Measure("scatter sum rows", R"(
%0 = input : f32[4096,512]
%1 = input : i64[4096,512]
%2 = input : f32[4096,512]
%3 = scatter %0, %1, %2 {dim=0, reduce="sum"} : f32[4096,512]
return %3)",
          4096);
  Measure("rng_bits 4M", R"(
%0 = input : u64[2]
%1 = rng_bits %0 {sizes=[4194304]} : u32[4194304]
return %1)");
  Measure("arg_max last dim", R"(
%0 = input : f32[4096,1024]
%1 = arg_max %0 {dim=1, keepdim=false} : i64[4096]
return %1)");
  Measure("scan sum last dim", R"(
%0 = input : f32[4096,1024]
%1 = scan %0 {kind="sum", dim=1, reverse=false} : f32[4096,1024]
return %1)");
  Measure("max pool 3x3/2", R"(
%0 = input : f32[16,64,112,112]
%1 = reduce_window %0 {kind="max", window=[3,3], stride=[2,2], low=[1,1], high=[1,1], dilation=[1,1]} : f32[16,64,56,56]
return %1)");
  Measure("average pool 2x2", R"(
%0 = input : f32[16,64,112,112]
%1 = reduce_window %0 {kind="sum", window=[2,2], stride=[2,2], low=[0,0], high=[0,0], dilation=[1,1]} : f32[16,64,56,56]
return %1)");
  Measure("max pool positions 3x3/2", R"(
%0 = input : f32[16,64,112,112]
%1 = reduce_window_arg %0 {window=[3,3], stride=[2,2], low=[1,1], high=[1,1], dilation=[1,1]} : i64[16,64,56,56]
return %1)");
  Measure("sort 256 rows of 4096", R"(
%0 = input : f32[256,4096]
%1:2 = sort %0 {dim=1, descending=false, stable=true} : f32[256,4096], i64[256,4096]
return %1.0, %1.1)");
  Measure("topk 50 of 32000", R"(
%0 = input : f32[64,32000]
%1:2 = topk %0 {k=50, dim=1, largest=true, sorted=true} : f32[64,50], i64[64,50]
return %1.0, %1.1)");
  Measure("nonzero 4M", R"(
%0 = input : bool[4194304]
%1 = nonzero_bounded %0 {size=4194304} : i64[4194304,1]
return %1)");
  Measure("floor_divide 1M", R"(
%0 = input : i32[1048576]
%1 = input : i32[1048576]
%2 = floor_divide %0, %1 : i32[1048576]
return %2)",
          1000);
  Measure("lstm 64x16x128", kLstm);
}

}  // namespace
}  // namespace hammock::cpu

int main(int argc, char** argv) {
  if (argc > 1) hammock::config::Set("cpu.threads", argv[1]);
  hammock::cpu::MeasureAll();
}
