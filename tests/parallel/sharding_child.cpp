// One rank of a program that parallel_test.cpp starts: functions of whole tensors on parts of them.

#include <hammock/distributed/sharding.h>

#include "../distributed/child_kit.h"

using namespace hammock;
using namespace hammock::testing;
using distributed::Group;
using distributed::Mesh;
using distributed::Placement;
using distributed::replicate;
using distributed::shard;
using distributed::ShardedFunction;
using distributed::ShardedTensor;

namespace {

using distributed::distribute;
/// One block of a transformer with its loss and all gradients.
std::vector<Tensor> BlockStep(const std::vector<Tensor>& in) {
  Tensor index = in[0], target = in[1];
  std::vector<Tensor> weights(in.begin() + 2, in.end());
  for (Tensor& weight : weights) weight = weight.detach().requires_grad_();
  const int64_t batch = index.size(0), length = index.size(1), heads = 4;
  Tensor x = embedding(index, weights[0]);
  const int64_t width = x.size(2);
  Tensor h = layer_norm(x, {width}, weights[1], weights[2]);
  auto split = [&](const Tensor& weight) {
    return matmul(h, weight).reshape({batch, length, heads, width / heads}).transpose(1, 2);
  };
  Tensor attended = scaled_dot_product_attention(split(weights[3]), split(weights[4]),
                                                 split(weights[5]), std::nullopt, 0, true);
  x = x + matmul(attended.transpose(1, 2).reshape({batch, length, width}), weights[6]);
  x = x + matmul(dropout(gelu(matmul(x, weights[7])), 0.25, true), weights[8]);
  Tensor logits = matmul(x, weights[0].t());
  Tensor loss = cross_entropy(logits.reshape({batch * length, weights[0].size(0)}),
                              target.reshape({batch * length}));
  std::vector<Tensor> results = grad({loss}, weights);
  results.insert(results.begin(), loss);
  return results;
}

struct Step {
  std::vector<Tensor> inputs;
  std::vector<std::vector<double>> expected;
};

Step WholeStep() {
  const int64_t batch = 4, length = 6, width = 8, rows = 12;
  Step step;
  auto numbers = [&](int64_t scale) {
    return (arange(Scalar(batch * length)) * Scalar(scale)).remainder(Scalar(rows));
  };
  step.inputs = {numbers(5).reshape({batch, length}).to(DType::kI64),
                 numbers(7).reshape({batch, length}).to(DType::kI64)};
  uint64_t seed = 1;
  for (const Dims& sizes : std::vector<Dims>{{rows, width},
                                             {width},
                                             {width},
                                             {width, width},
                                             {width, width},
                                             {width, width},
                                             {width, width},
                                             {width, 16},
                                             {16, width}}) {
    step.inputs.push_back(Data(sizes, seed++) * Scalar(0.5));
  }
  manual_seed(4);
  for (const Tensor& result : BlockStep(step.inputs)) step.expected.push_back(Values(result));
  return step;
}

void Sharded(const Step& whole, const Mesh& mesh,
             const std::vector<std::vector<Placement>>& placements,
             const std::vector<std::string>& reported) {
  std::vector<ShardedTensor> inputs;
  for (size_t i = 0; i < whole.inputs.size(); ++i) {
    inputs.push_back(distribute(whole.inputs[i], mesh, placements[i]));
  }
  ShardedFunction function(BlockStep);
  for (int round = 0; round < 2; ++round) {
    manual_seed(4);
    std::vector<ShardedTensor> results = function(inputs);
    const std::string report = function.report().to_text();
    for (const std::string& part : reported) {
      Check(report.find(part) != std::string::npos, part + " is not in\n" + report);
    }
    std::vector<Tensor> all;
    for (const ShardedTensor& result : results) all.push_back(result.whole());
    mark_step();
    for (size_t i = 0; i < all.size(); ++i) {
      CheckClose(Values(all[i]), whole.expected[i], kSame, "result " + std::to_string(i));
    }
  }
}

/// Ranks draw the random numbers of their parts alone, which are those that one rank would draw.
void DrawsInParts(const Mesh& mesh) {
  auto draw = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {dropout(in[0], 0.5, true), randn({8, 8}, DType::kF64), rand({8})};
  };
  const Tensor x = Data({8, 8}, 1);
  mark_step();
  manual_seed(9);
  const std::vector<Tensor> expected = draw({x});
  manual_seed(9);
  ShardedFunction function(draw);
  const std::vector<ShardedTensor> results =
      function({distribute(x, mesh, {shard(1)})}, {{shard(1)}, {shard(0)}, {shard(0)}});
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string graph = LazyGraphExecutor::Get()->DumpTensors({&results[i].local, 1});
    const bool draws_part = graph.find("rng_part") != graph.npos;
    Check(draws_part && graph.find("rng_bits") == graph.npos, "drawn whole:\n" + graph);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    CheckClose(Values(results[i].whole()), Values(expected[i]), 0, "draw " + std::to_string(i));
  }
}

void ByAnnotation() {
  const Step whole = WholeStep();
  Group world = distributed::init();
  const int n = world.size();
  {
    Mesh mesh({n}, {"data"});
    std::vector<std::vector<Placement>> data(11, {replicate()});
    data[0] = data[1] = {shard(0)};
    Sharded(whole, mesh, data, {"all_reduce", "over 'data'", "child.cpp:"});
    std::vector<std::vector<Placement>> model(11, {replicate()});
    model[2] = {shard(0)};
    model[5] = model[6] = model[7] = model[9] = {shard(1)};
    model[8] = model[10] = {shard(0)};
    Sharded(whole, mesh, model,
            {"summands are of dot_general", "reduces a dim that is cut", "every index may name"});
    // Inputs that are cut without sense give the same results.
    std::vector<std::vector<Placement>> odd(11, {replicate()});
    odd[0] = {shard(0)};
    odd[2] = odd[5] = {shard(1)};
    odd[3] = odd[6] = odd[9] = {shard(0)};
    odd[10] = {shard(1)};
    Sharded(whole, mesh, odd, {});
  }
  if (n == 4) {
    Mesh mesh({2, 2}, {"data", "model"});
    std::vector<std::vector<Placement>> both(11, {replicate(), replicate()});
    both[0] = both[1] = {shard(0), replicate()};
    both[5] = both[6] = both[7] = both[9] = {replicate(), shard(1)};
    both[8] = both[10] = {replicate(), shard(0)};
    Sharded(whole, mesh, both, {"over 'data'", "over 'model'"});
  }
  Mesh mesh({n}, {"all"});
  DrawsInParts(mesh);
  ShardedFunction sum_of([](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {matmul(in[0], in[1]), amax(in[0], {1}), std::get<0>(sort(in[0], 1))};
  });
  Tensor a = Data({4, 8}, 1), b = Data({8, 4}, 2);
  ShardedTensor cut = distribute(a, mesh, {shard(1)}), other = distribute(b, mesh, {replicate()});
  std::vector<ShardedTensor> results =
      sum_of({cut, other}, {{shard(0)}, {replicate()}, {shard(1)}});
  const auto& inserted = sum_of.report().collectives;
  Check(inserted.size() == 3, sum_of.report().to_text());
  Check(results[0].local.size(0) == 4 / n, "a part of the result");
  CheckClose(Values(results[0].whole()), Values(matmul(a, b)), kSame, "matmul");
  CheckClose(Values(results[2].whole()), Values(std::get<0>(sort(a, 1))), kSame, "sort");
  try {
    distribute(a, mesh, {shard(2)});
    Check(false, "a dim that is not there");
  } catch (const ValueError&) {
  }
  distributed::shutdown();
}

}  // namespace

int main(int, char** argv) { return RunScenario({{"by_annotation", ByAnnotation}}, argv[1]); }
