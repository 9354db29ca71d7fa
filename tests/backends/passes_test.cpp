// Every pass of every list, on graphs in which there is something to do for it and on graphs that
// are at the edge: bodies, dim parameters, several and shared results, dead nodes, no elements.
// After each pass the graph is valid, and the reference interpreter finds the same values in it.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "backends/cpu/matmul/matmul.h"
#include "backends/cpu/program.h"
#include "backends/cuda/passes/cuda_passes.h"
#include "backends/cuda/program.h"
#include "backends/reference/interpreter.h"
#include "backends/table.h"
#include "base/log.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/pipeline.h"
#include "hammock/compiler/schedule.h"
#include "hammock/config.h"
#include "ir/graph_sizes.h"
#include "ir/primitives.h"
#include "ops/primitives/collectives.h"
#include "support/source_path.h"

namespace hammock {
namespace {

struct Sample {
  const char* name;
  const char* text;
};

constexpr Sample kSamples[] = {
    {"images of 16-bit floats", R"(
      %0 = input : bf16[2,16,5,5]
      %1 = input : bf16[16,16,3,3]
      %2 = convolution %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : bf16[2,16,5,5]
      %3 = neg %2 : bf16[2,16,5,5]
      %4 = convolution %3, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=true, output_padding=[0,0], groups=1} : bf16[2,16,5,5]
      %5 = reduce_sum %4 {dims=[0,2,3], keepdim=true} : bf16[1,16,1,1]
      %6 = broadcast %5 {sizes=[2,16,5,5]} : bf16[2,16,5,5]
      %7 = sub %4, %6 : bf16[2,16,5,5]
      %8 = _convolution_weight_backward %7, %3 {sizes=[16,16,3,3], stride=[1,1], padding=[1,1], dilation=[1,1], groups=1} : bf16[16,16,3,3]
      return %5, %8)"},
    {"bodies", R"(
      %0 = input : f32[2,3]
      %1 = constant {value=2.0:f32, dtype=f32} : f32[]
      %2 = loop %0, %1 {body=graph {
        %0 = input : i64[]
        %1 = input : f32[2,3]
        %2 = input : f32[]
        %3 = exp %1 : f32[2,3]
        %4 = reshape %1 {sizes=[6]} : f32[6]
        %5 = reshape %4 {sizes=[2,3]} : f32[2,3]
        %6 = mul %5, %2 : f32[2,3]
        %7 = tanh %6 : f32[2,3]
        %8 = reduce_sum %7 {dims=[0,1], keepdim=true} : f32[1,1]
        %9 = add %7, %8 : f32[2,3]
        %10 = constant {value=0.5:f32, dtype=f32} : f32[]
        %11 = mul %9, %10 : f32[2,3]
        return %11
      }, count=3, num_carried=1, num_stacked_in=0} : f32[2,3]
      return %2)"},
    {"body with a matmul", R"(
      %0 = input : f32[4,4]
      %1 = input : f32[4,4]
      %2 = input : f32[4]
      %3 = loop %0, %1, %2 {body=graph {
        %0 = input : i64[]
        %1 = input : f32[4,4]
        %2 = input : f32[4,4]
        %3 = input : f32[4]
        %4 = dot_general %1, %2 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[4,4]
        %5 = broadcast %3 {sizes=[4,4]} : f32[4,4]
        %6 = add %4, %5 : f32[4,4]
        %7 = constant {value=0.0:f32, dtype=f32} : f32[]
        %8 = maximum %6, %7 : f32[4,4]
        return %8
      }, count=2, num_carried=1, num_stacked_in=0} : f32[4,4]
      return %3)"},
    {"several results, of which some are one value or an input", R"(
      %0 = input : f32[2,5]
      %1:2 = sort %0 {dim=1, descending=false, stable=true} : f32[2,5], i64[2,5]
      %2 = neg %1.0 : f32[2,5]
      %3 = neg %1.0 : f32[2,5]
      return %2, %3, %2, %0, %1.1)"},
    {"dead nodes", R"(
      %0 = input : f32[3]
      %1 = input : f32[3]
      %2 = exp %0 : f32[3]
      %3:2 = sort %2 {dim=0, descending=false, stable=true} : f32[3], i64[3]
      %4 = neg %0 : f32[3]
      return %4)"},
    {"no elements", R"(
      %0 = input : f32[0,4]
      %1 = input : f32[4,3]
      %2 = input : f32[3]
      %3 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[0,3]
      %4 = broadcast %2 {sizes=[0,3]} : f32[0,3]
      %5 = add %3, %4 : f32[0,3]
      %6 = reduce_sum %5 {dims=[0], keepdim=false} : f32[3]
      %7 = reduce_max %5 {dims=[1], keepdim=false} : f32[0]
      return %6, %7)"},
    {"a matmul without terms and a bias", R"(
      %0 = input : f32[2,0]
      %1 = input : f32[0,3]
      %2 = input : f32[3]
      %3 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[2,3]
      %4 = broadcast %2 {sizes=[2,3]} : f32[2,3]
      %5 = add %3, %4 : f32[2,3]
      %6 = constant {value=0.0:f32, dtype=f32} : f32[]
      %7 = maximum %5, %6 : f32[2,3]
      return %7)"},
    {"what is promoted, folded, moved and shared", R"(
      %0 = input : f32[2,3]
      %1 = constant {value=3, dtype=i64} : i64[]
      %2 = constant {value=4, dtype=i64} : i64[]
      %3 = mul %1, %2 : i64[]
      %4 = reshape %0 {sizes=[6]} : f32[6]
      %5 = exp %0 : f32[2,3]
      %6 = reshape %5 {sizes=[6]} : f32[6]
      %7 = exp %0 : f32[2,3]
      %8 = reshape %7 {sizes=[6]} : f32[6]
      %9 = add %6, %8 : f32[6]
      %10 = add %9, %3 : f32[6]
      %11 = relu %10 : f32[6]
      return %11, %4)"},
    {"images", R"(
      %0 = input : f32[2,3,10,10]
      %1 = input : f32[16,3,3,3]
      %2 = convolution %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,16,10,10]
      %3 = input : f32[16]
      %4 = reshape %3 {sizes=[16,1,1]} : f32[16,1,1]
      %5 = broadcast %4 {sizes=[2,16,10,10]} : f32[2,16,10,10]
      %6 = mul %2, %5 : f32[2,16,10,10]
      %7 = reduce_window %6 {kind="max", window=[2,2], stride=[2,2], low=[0,0], high=[0,0], dilation=[1,1]} : f32[2,16,5,5]
      %8 = input : f32[4,16,3,3]
      %9 = convolution %7, %8 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,4,3,3]
      return %9)"},
    {"16-bit matmuls", R"(
      %0 = input : bf16[8,16]
      %1 = input : bf16[4,16]
      %2 = input : bf16[4]
      %3 = cast %0 {dtype=f32} : f32[8,16]
      %4 = cast %1 {dtype=f32} : f32[4,16]
      %5 = cast %2 {dtype=f32} : f32[4]
      %6 = dot_general %3, %4 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[8,4]
      %7 = broadcast %5 {sizes=[8,4]} : f32[8,4]
      %8 = add %6, %7 : f32[8,4]
      %9 = cast %8 {dtype=bf16} : bf16[8,4]
      %10 = dot_general %3, %4 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[8,4]
      return %9, %10)"},
    {"a 16-bit vector and a matrix", R"(
      %0 = input : bf16[1,16]
      %1 = input : bf16[40,16]
      %2 = cast %0 {dtype=f32} : f32[1,16]
      %3 = cast %1 {dtype=f32} : f32[40,16]
      %4 = dot_general %2, %3 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[1,40]
      return %4)"},
    {"attention on parts of a projection", R"(
      %0 = input : bf16[2,20,96]
      %1 = reshape %0 {sizes=[2,20,3,2,16]} : bf16[2,20,3,2,16]
      %2 = permute %1 {dims=[2,0,3,1,4]} : bf16[3,2,2,20,16]
      %3 = slice %2 {dim=0, start=0, size=1, step=1} : bf16[1,2,2,20,16]
      %4 = reshape %3 {sizes=[2,2,20,16]} : bf16[2,2,20,16]
      %5 = slice %2 {dim=0, start=2, size=1, step=1} : bf16[1,2,2,20,16]
      %6 = reshape %5 {sizes=[2,2,20,16]} : bf16[2,2,20,16]
      %7 = input : bf16[2,2,20,16]
      %8 = input : f32[20,20]
      %9:2 = _attention %4, %7, %6, %8 {is_causal=false, scale=0.25} : bf16[2,2,20,16], f32[2,2,20]
      %10 = permute %9.0 {dims=[0,2,1,3]} : bf16[2,20,2,16]
      %11 = reshape %10 {sizes=[2,20,32]} : bf16[2,20,32]
      %12:3 = _attention_backward %4, %4, %7, %6, %8, %9.1, %9.1 {is_causal=false, scale=0.25} : bf16[2,2,20,16], bf16[2,2,20,16], bf16[2,2,20,16]
      return %11, %9.1, %12.0, %12.1, %12.2)"},
    {"gradients of attention of parts of one value", R"(
      %0 = input : bf16[2,20,96]
      %1 = reshape %0 {sizes=[2,20,3,2,16]} : bf16[2,20,3,2,16]
      %2 = slice %1 {dim=2, start=0, size=1, step=1} : bf16[2,20,1,2,16]
      %3 = reshape %2 {sizes=[2,20,2,16]} : bf16[2,20,2,16]
      %4 = permute %3 {dims=[0,2,1,3]} : bf16[2,2,20,16]
      %5:2 = _attention %4, %4, %4, none {is_causal=true, scale=0.25} : bf16[2,2,20,16], f32[2,2,20]
      %6:3 = _attention_backward %4, %4, %4, %4, none, %5.1, %5.1 {is_causal=true, scale=0.25} : bf16[2,2,20,16], bf16[2,2,20,16], bf16[2,2,20,16]
      %7 = permute %6.0 {dims=[0,2,1,3]} : bf16[2,20,2,16]
      %8 = permute %6.1 {dims=[0,2,1,3]} : bf16[2,20,2,16]
      %9 = permute %6.2 {dims=[0,2,1,3]} : bf16[2,20,2,16]
      %10 = reshape %7 {sizes=[2,20,1,2,16]} : bf16[2,20,1,2,16]
      %11 = reshape %8 {sizes=[2,20,1,2,16]} : bf16[2,20,1,2,16]
      %12 = reshape %9 {sizes=[2,20,1,2,16]} : bf16[2,20,1,2,16]
      %13 = constant {value=0.0:f32, dtype=bf16} : bf16[]
      %14 = broadcast %13 {sizes=[2,20,1,2,16]} : bf16[2,20,1,2,16]
      %15 = add %10, %14 : bf16[2,20,1,2,16]
      %16 = add %11, %14 : bf16[2,20,1,2,16]
      %17 = add %12, %14 : bf16[2,20,1,2,16]
      %18 = concat %15, %16, %17 {dim=2} : bf16[2,20,3,2,16]
      return %18)"},
    {"attention of three dims, and of a width without kernels", R"(
      %0 = input : bf16[3,20,16]
      %1:2 = _attention %0, %0, %0, none {is_causal=true, scale=0.25} : bf16[3,20,16], f32[3,20]
      %2 = input : bf16[2,3,5,7]
      %3:2 = _attention %2, %2, %2, none {is_causal=true, scale=0.5} : bf16[2,3,5,7], f32[2,3,5]
      %4 = input : f32[2,3,5,8]
      %5:2 = _attention %4, %4, %4, none {is_causal=false, scale=0.5} : f32[2,3,5,8], f32[2,3,5]
      return %1.0, %3.0, %5.0)"},
    {"rows that are scattered", R"(
      %0 = input : i64[4]
      %1 = input : f32[4,5]
      %2 = constant {value=0.0:f32, dtype=f32} : f32[]
      %3 = broadcast %2 {sizes=[3,5]} : f32[3,5]
      %4 = reshape %0 {sizes=[4,1]} : i64[4,1]
      %5 = broadcast %4 {sizes=[4,5]} : i64[4,5]
      %6 = scatter %3, %5, %1 {dim=0, reduce="sum"} : f32[3,5]
      %7 = input : f32[3,5]
      %8 = scatter %7, %5, %1 {dim=0, reduce="amax"} : f32[3,5]
      return %6, %8)"},
    {"a slice of a few", R"(
      %0 = input : f32[1,4]
      %1 = constant {value=0, dtype=f32} : f32[]
      %2 = broadcast %1 {sizes=[3,4]} : f32[3,4]
      %3 = update_slice %2, %0 {dim=0, start=2, step=1} : f32[3,4]
      return %3)"},
    {"halves", R"(
      %0 = input : f32[2,3,4]
      %1 = neg %0 : f32[2,3,4]
      %2 = concat %1, %0 {dim=1} : f32[2,6,4]
      %3 = concat %0, %1 {dim=2} : f32[2,3,8]
      %4 = concat %0, %0 {dim=0} : f32[4,3,4]
      return %2, %3, %4)"},
    {"matmuls with vectors", R"(
      %0 = input : bf16[1,1,40]
      %1 = input : bf16[6,40]
      %2 = mul %0, %0 : bf16[1,1,40]
      %3 = dot_general %2, %1 {a_contract=[2], b_contract=[1], a_batch=[], b_batch=[]} : bf16[1,1,6]
      %4 = input : f32[3,5,2,7]
      %5 = input : f32[7,2,3]
      %6 = dot_general %4, %5 {a_contract=[2,3], b_contract=[1,0], a_batch=[0], b_batch=[2]} : f32[3,5]
      %7 = input : f32[4,7,2]
      %8 = input : f32[2,4,7]
      %9 = dot_general %7, %8 {a_contract=[0,1], b_contract=[1,2], a_batch=[2], b_batch=[0]} : f32[2]
      %10 = input : f32[9,4]
      %11 = input : f32[1,9]
      %12 = dot_general %11, %10 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[1,4]
      %13 = dot_general %4, %8 {a_contract=[2,3], b_contract=[0,2], a_batch=[], b_batch=[]} : f32[3,5,4]
      return %3, %6, %9, %12, %13)"},
    {"extrema", R"(
      %0 = input : f32[3,70]
      %1 = arg_max %0 {dim=1, keepdim=false} : i64[3]
      %2 = arg_min %0 {dim=0, keepdim=true} : i64[1,70]
      %3 = input : i64[]
      %4 = arg_max %3 {dim=0, keepdim=false} : i64[]
      %5 = input : bool[4]
      %6 = arg_min %5 {dim=0, keepdim=false} : i64[]
      return %1, %2, %4, %6)"},
    {"complex numbers, in a body too", R"(
      %0 = input : c64[3,4]
      %1 = input : f32[4]
      %2 = constant {value=(0.5,-1.0):c64, dtype=c64} : c64[]
      %3 = mul %1, %2 : c64[4]
      %4 = exp %3 : c64[4]
      %5 = mul %0, %4 : c64[3,4]
      %6 = dot_general %5, %0 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : c64[3,3]
      %7 = loop %6 {body=graph {
        %0 = input : i64[]
        %1 = input : c64[3,3]
        %2 = permute %1 {dims=[1,0]} : c64[3,3]
        %3 = sub %2, %1 : c64[3,3]
        return %3
      }, count=2, num_carried=1, num_stacked_in=0} : c64[3,3]
      %8 = abs %7 : f32[3,3]
      return %7, %8, %0, %5)"},
    {"storage types, in a body too", R"(
      %0 = input : f32[2,4]
      %1 = cast %0 {dtype=f8e4m3} : f8e4m3[2,4]
      %2 = permute %1 {dims=[1,0]} : f8e4m3[4,2]
      %3 = cast %2 {dtype=f32} : f32[4,2]
      %4 = input : i8[2,4]
      %5 = cast %4 {dtype=i4} : i4[2,4]
      %6 = cast %5 {dtype=i32} : i32[2,4]
      %7 = loop %0 {body=graph {
        %0 = input : i64[]
        %1 = input : f32[2,4]
        %2 = cast %1 {dtype=f8e5m2} : f8e5m2[2,4]
        %3 = cast %2 {dtype=f32} : f32[2,4]
        return %3
      }, count=2, num_carried=1, num_stacked_in=0} : f32[2,4]
      return %3, %6, %7)"},
    {"a cheap value that is used again late", R"(
      %0 = input : f32[8,8]
      %1 = dot_general %0, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,8]
      %2 = sin %1 : f32[8,8]
      %3 = dot_general %2, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,8]
      %4 = sin %3 : f32[8,8]
      %5 = dot_general %4, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,8]
      %6 = mul %5, %1 : f32[8,8]
      %7 = dot_general %2, %6 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,8]
      return %7)"},
    {"matmuls and convolutions of bytes", R"(
      %0 = input : u8[2,16,6,6]
      %1 = cast %0 {dtype=i32} : i32[2,16,6,6]
      %2 = input : i8[16,16,3,3]
      %3 = cast %2 {dtype=i32} : i32[16,16,3,3]
      %4 = convolution %1, %3 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : i32[2,16,6,6]
      %5 = input : i8[3,8]
      %6 = cast %5 {dtype=i32} : i32[3,8]
      %7 = input : i8[8,4]
      %8 = cast %7 {dtype=i32} : i32[8,4]
      %9 = dot_general %6, %8 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : i32[3,4]
      %10 = input : u8[32,64]
      %11 = cast %10 {dtype=i32} : i32[32,64]
      %12 = input : i8[64,32]
      %13 = cast %12 {dtype=i32} : i32[64,32]
      %14 = dot_general %11, %13 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : i32[32,32]
      return %4, %9, %14)"},
    {"collectives of one kind", R"(
      %0 = input : f32[2]
      %1 = input : f32[3]
      %2 = all_reduce %0 {reduction="sum", group="world", size=2} : f32[2]
      %3 = all_reduce %1 {reduction="sum", group="world", size=2} : f32[3]
      %4 = exp %3 : f32[3]
      return %2, %4)"},
    {"gathers ahead of their use", R"(
      %0 = input : f32[2]
      %1 = input : f64[2]
      %2 = input : f32[2]
      %3 = input : f32[4]
      %4 = all_gather %0 {group="world", size=2} : f32[4]
      %5 = all_gather %1 {group="world", size=2} : f64[4]
      %6 = all_gather %2 {group="world", size=2} : f32[4]
      %7 = mul %3, %4 : f32[4]
      %8 = mul %7, %5 : f64[4]
      %9 = mul %8, %6 : f64[4]
      return %9)"},
    {"a long sum", R"(
      %0 = input : f32[2,70001]
      %1 = reduce_sum %0 {dims=[1], keepdim=false} : f32[2]
      return %1)"},
};

/// What passes do to it depends on `n`.
constexpr const char* kWithDimParams = R"(
  graph(n=3)
  %0 = input : f32[n,4]
  %1 = exp %0 : f32[n,4]
  %2 = reshape %1 {sizes=[n,2,2]} : f32[n,2,2]
  %3 = relu %2 : f32[n,2,2]
  %4 = reshape %3 {sizes=[n,4]} : f32[n,4]
  %5 = input : f32[4,5]
  %6 = dot_general %4, %5 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[n,5]
  %7 = arg_max %6 {dim=1, keepdim=false} : i64[n]
  %8 = reduce_sum %6 {dims=[0], keepdim=false} : f32[5]
  return %3, %7, %8)";

/// With one of the options that add a pass.
template <auto& kOption>
std::vector<Pass> General() {
  std::vector<Pass> passes = LoweringPasses(nullptr);
  config::Set<kOption>(true);
  for (Pass& pass : OptimisingPasses(EvaluateOnHost)) passes.push_back(std::move(pass));
  config::Set<kOption>(false);
  return passes;
}

/// A list behind what has been done to the graphs that it gets; attention may come whole.
std::vector<Pass> Behind(std::vector<Pass> list) {
  auto is_attention = [](const Graph& graph, NodeId id) {
    return std::string_view(graph[id].op->name()).starts_with("_attention");
  };
  std::vector<Pass> passes = LoweringPasses(is_attention);
  for (Pass& pass : list) passes.push_back(std::move(pass));
  return passes;
}

struct PassList {
  const char* name;
  std::vector<Pass> (*passes)();
};
void PrintTo(const PassList& list, std::ostream* out) { *out << list.name; }

/// With a budget that no graph keeps.
template <std::vector<Pass> (*kPasses)()>
std::vector<Pass> WithBudget() {
  config::Override budget("memory_budget", "2");
  return Behind(kPasses());
}

/// For a device that runs everything.
std::vector<Pass> Finishing() {
  return Behind(FinishingPasses([](const Graph&, NodeId) { return lazy::Capability(); }));
}

constexpr PassList kLists[] = {
    {"fast_math", General<config::kFastMath>},
    {"wide_sums", General<config::kWideSums>},
    {"cpu", [] { return Behind(cpu::CpuPasses()); }},
    {"finishing", Finishing},
    {"schedule", [] { return Behind(compiler::SchedulePasses()); }},
    {"cuda", [] { return Behind(cuda::CudaPasses()); }},
    {"cpu_with_budget", WithBudget<cpu::CpuPasses>},
    {"cuda_with_budget", WithBudget<cuda::CudaPasses>},
    {"schedule_with_budget", WithBudget<compiler::SchedulePasses>},
};

std::vector<HostTensor> InputsOf(const Graph& graph) {
  std::mt19937 random(7);
  std::vector<HostTensor> inputs;
  for (NodeId id : graph.inputs()) {
    inputs.emplace_back(graph[id].type());
    for (int64_t i = 0; i < inputs.back().numel(); ++i) {
      const bool is_index = !IsFloatOrComplex(inputs.back().dtype());
      const int number = static_cast<int>(random() % (is_index ? 3 : 33));
      inputs.back().set(i, is_index ? Scalar(number) : Scalar((number - 16) / 16.0));
    }
  }
  return inputs;
}

/// A graph of one of two ranks that have the same values.
Graph OnTwins(Graph graph) {
  return EditGraph(
      std::move(graph), [](GraphEditor& editor, NodeId, const GraphNode& node) -> Replacement {
        const std::vector<GraphValue> both(2, node.inputs.empty() ? GraphValue() : node.inputs[0]);
        if (node.op == &ops::kAllReduce) return {{editor.Add(ops::kAdd, both)}};
        if (node.op != &ops::kAllGather) return std::nullopt;
        return {{editor.Add(ops::kConcat, both, {Attr(int64_t{0})})}};
      });
}

std::vector<HostTensor> ValuesOf(const Graph& graph) {
  return reference::Interpret(OnTwins(RunPasses(LoweringPasses(nullptr), graph)), InputsOf(graph));
}

/// Passes may sum in another order, and round once where twice was asked for.
void ExpectNear(const std::vector<HostTensor>& actual, const std::vector<HostTensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t k = 0; k < actual.size(); ++k) {
    ASSERT_EQ(actual[k].shape(), expected[k].shape());
    const double bound = actual[k].dtype() == DType::kBF16 ? 0.02 : 2e-4;
    for (int64_t i = 0; i < actual[k].numel(); ++i) {
      const auto a = actual[k].at(i).As<std::complex<double>>(),
                 b = expected[k].at(i).As<std::complex<double>>();
      ASSERT_TRUE(a == b || std::abs(a - b) <= bound * (1 + std::abs(b)))
          << "result " << k << ", element " << i << ": " << a << " instead of " << b;
    }
  }
}

/// Whether convolutions take images with their channels last.
bool LibraryTakesImages(DType of_image, DType of_weight, DType of_sums) {
  Shape image(of_image, {1, 16, 4, 4}), weight(of_weight, {16, 16, 3, 3});
  auto spec = cpu::ConvolutionSpec::Of(image, weight, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
  spec.out = spec.out.With(of_sums);
  return cpu::Convolution::TakesLayouts(spec);
}

class EveryPass : public ::testing::TestWithParam<PassList> {
 protected:
  /// Runs the list. The passes that changed the graph are taken from `idle`.
  static void ExpectKept(Graph graph, std::set<std::string>& idle) {
    const std::vector<HostTensor> expected = ValuesOf(graph);
    for (const Pass& pass : GetParam().passes()) {
      SCOPED_TRACE(pass.name);
      const Graph before = graph;
      graph = RunPass(pass, std::move(graph));
      SCOPED_TRACE(ToText(before) + "became\n" + ToText(graph));
      ASSERT_NO_THROW(Verify(graph));
      ASSERT_NO_FATAL_FAILURE(ExpectNear(ValuesOf(graph), expected));
      if (graph != before) idle.erase(pass.name);
    }
  }
};

TEST_P(EveryPass, KeepsGraphsValidAndTheirValues) {
  std::set<std::string> idle;
  for (const Pass& pass : GetParam().passes()) idle.insert(pass.name);
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.name);
    ASSERT_NO_FATAL_FAILURE(ExpectKept(ParseGraph(sample.text), idle));
  }
  idle.erase("chunk_attention");  // of very many scores; chunk_attention_test.cpp has fewer
  if (!LibraryTakesImages(f32, f32, f32)) idle.erase("keep_channels_last");
  if (!LibraryTakesImages(u8, i8, i32)) idle.erase("narrow_convolutions");
  EXPECT_EQ(idle, std::set<std::string>()) << "no sample has something to do for these";
}

TEST_P(EveryPass, KeepsValuesAtAnySizes) {
  const Graph general = ParseGraph(kWithDimParams);
  for (int64_t n : {0, 1, 2, 7, 64}) {
    SCOPED_TRACE(n);
    std::set<std::string> idle = {"expand"};
    ASSERT_NO_FATAL_FAILURE(ExpectKept(AtSizes(general, {n}), idle));
    EXPECT_EQ(idle, std::set<std::string>()) << "relu was left";
  }
}

TEST(PrintPasses, ShowsTheWayFromAGraphToKernels) {
  config::Override print("print_passes", "true");
  LogCapture log;
  cpu::Program program(ParseGraph(R"(
    %0 = input : f32[4,4]
    %1 = exp %0 : f32[4,4]
    %2 = dot_general %1, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[4,4]
    %3 = input : f32[10]
    %4 = neg %3 : f32[10]
    %5 = input : f32[3,7]
    %6 = sin %5 : f32[3,7]
    return %2, %4, %6)"));
  size_t at = 0;
  for (const Pass& pass : cpu::CpuPasses()) {
    at = log.text().find(std::string("after ") + pass.name + ":\n%0 = input", at);
    ASSERT_NE(at, std::string::npos) << pass.name << " in\n" << log.text();
  }
  at = log.text().find("after schedule:\ncommand 0: ", at);
  ASSERT_NE(at, std::string::npos) << log.text();
  at = log.text().find("after group_commands:\ncommand 0: ", at);
  ASSERT_NE(at, std::string::npos) << log.text();
  EXPECT_NE(log.text().find("concurrent: 2 to 3\n", at), std::string::npos) << log.text();
}

/// By list: the passes that the table of docs/design/passes.md has for it.
std::map<std::string, std::set<std::string>> PassesOfThePage() {
  auto words_of = [](const std::string& cell) {
    std::vector<std::string> words;
    for (size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at + 1)) {
      const size_t end = cell.find('`', at + 1);
      words.push_back(cell.substr(at + 1, end - at - 1));
      at = end;
    }
    return words;
  };
  std::ifstream page(testing::SourcePath("docs/design/passes.md"));
  std::map<std::string, std::set<std::string>> passes;
  std::vector<std::string> lists;
  std::string line, margin, list, pass;
  while (std::getline(page, line)) {
    if (!line.starts_with('|')) {
      lists.clear();  // behind the table
      continue;
    }
    std::istringstream row(line);
    std::getline(std::getline(std::getline(row, margin, '|'), list, '|'), pass, '|');
    if (!words_of(list).empty()) lists = words_of(list);
    for (const std::string& name : lists) {
      for (std::string& word : words_of(pass)) passes[name].insert(std::move(word));
    }
  }
  return passes;
}

TEST(PassLists, AreThoseOfTheirPage) {
  config::Override fast_math("fast_math", "true"), wide_sums("wide_sums", "true"),
      budget("memory_budget", "2");
  std::map<std::string, std::set<std::string>> lists;
  auto add = [&](const char* list, const std::vector<Pass>& passes) {
    for (const Pass& pass : passes) lists[list].insert(pass.name);
  };
  add("LoweringPasses", LoweringPasses(nullptr));
  add("OptimisingPasses", OptimisingPasses(EvaluateOnHost));
  add("FinishingPasses", FinishingPasses(nullptr));
  add("CpuPasses", cpu::CpuPasses());
  add("CudaPasses", cuda::CudaPasses());
  add("SchedulePasses", compiler::SchedulePasses());
  EXPECT_EQ(PassesOfThePage(), lists);
}

INSTANTIATE_TEST_SUITE_P(Of, EveryPass, ::testing::ValuesIn(kLists),
                         [](const auto& list) { return std::string(list.param.name); });

}  // namespace
}  // namespace hammock
