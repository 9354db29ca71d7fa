#include "backends/cuda/passes/cuda_passes.h"

#include <utility>

#include "backends/cuda/passes/attention_views.h"
#include "backends/cuda/passes/byte_matmuls.h"
#include "backends/cuda/passes/chunk_attention.h"
#include "backends/cuda/passes/computes_channels_last.h"
#include "backends/cuda/passes/copies_to_where.h"
#include "backends/cuda/passes/expand_attention.h"
#include "backends/cuda/passes/fuse_random.h"
#include "backends/cuda/passes/round_matmuls.h"
#include "backends/cuda/passes/scatter_rows.h"
#include "backends/cuda/passes/vector_matmuls.h"
#include "compiler/loops/rematerialise.h"
#include "compiler/passes/arg_reductions.h"
#include "compiler/passes/channels_last.h"
#include "compiler/passes/narrow_matmuls.h"
#include "compiler/passes/remove_dead.h"
#include "compiler/passes/split_reductions.h"
#include "hammock/compiler/program_outputs.h"
#include "hammock/metric.h"

namespace hammock::cuda {
namespace {

constinit const metrics::DeclaredCounter kSchedulesMade({
    .name = "cuda::SchedulesMade",
    .doc = "Schedules that were made of graphs, also of bodies of loops.",
});

bool GainsByNarrowOperands(const Graph& graph, const GraphNode& matmul) {
  return IsFloat(matmul.type().dtype()) || MultipliesBytes(graph, matmul);
}

}  // namespace

std::vector<Pass> CudaPasses() {
  std::vector<Pass> passes = {
      {"copies_to_where", CopiesToWhere},
      {"chunk_attention", [](Graph g) { return ChunkAttention(std::move(g)); }},
      {"expand_attention", ExpandAttention},
      {"fold_attention_views", FoldAttentionViews},
      {"remove_dead", RemoveDead},
      {"pack_attention_gradients", PackAttentionGradients},
      {"vector_matmuls", VectorMatMuls},
      {"arg_reductions", ArgReductions},
      {"split_reductions", SplitReductions},
      {"narrow_matmuls",
       [](Graph g) { return NarrowMatMuls(std::move(g), GainsByNarrowOperands); }},
      {"sign_byte_matmuls", SignByteMatMuls},
      {"remove_dead", RemoveDead},
      {"round_matmuls", RoundMatMuls},
      {"remove_dead", RemoveDead},
      {"fuse_bias_and_relu", FuseBiasAndRelu},
      {"scatter_rows", ScatterRows},
      {"keep_channels_last",
       [](Graph g) {
         return KeepChannelsLast(std::move(g), {.takes = ComputesChannelsLast, .reductions = true});
       }},
      {"remove_dead", RemoveDead},
  };
  for (Pass& pass : compiler::RematerialisePasses(/*epilogues=*/false)) {
    passes.push_back(std::move(pass));
  }
  return passes;
}

Graph RewriteForCuda(const Graph& graph) {
  return RunPasses(CudaPasses(), compiler::WithOrigins(graph));
}

compiler::Schedule ScheduleForCuda(const Graph& rewritten) {
  metrics::Get<kSchedulesMade>().Add();
  compiler::Schedule schedule = compiler::MakeSchedule(rewritten, /*aligned_outputs=*/false,
                                                       /*epilogues=*/false, /*rows_apart=*/true);
  compiler::ShowSchedule("schedule", rewritten, schedule);
  schedule = FuseRandom(rewritten, std::move(schedule));
  compiler::ShowSchedule("fuse_random", rewritten, schedule);
  return schedule;
}

compiler::ScheduledGraph ScheduledForCuda(Graph rewritten) {
  compiler::Schedule schedule = ScheduleForCuda(rewritten);
  return {std::move(rewritten), std::move(schedule)};
}

}  // namespace hammock::cuda
