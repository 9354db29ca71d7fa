// One rank of a program that parallel_test.cpp starts: parallel_child SCENARIO. What several ranks
// compute is compared with what one computes alone.

#include <hammock/distributed/checkpoint.h>
#include <hammock/distributed/data_parallel.h>
#include <hammock/distributed/pipeline.h>
#include <hammock/distributed/random_part.h>
#include <hammock/distributed/sequence_parallel.h>
#include <hammock/distributed/sharded_parameters.h>
#include <hammock/distributed/tensor_parallel.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "../distributed/child_kit.h"

using namespace hammock;
using namespace hammock::testing;
using distributed::Group;
using distributed::RandomPart;
using distributed::Reduction;

namespace {

/// This rank's part of a batch.
Tensor Mine(const Tensor& whole, const Group& group, int64_t dim = 0) {
  const int64_t part = whole.size(dim) / group.size();
  return whole.narrow(dim, group.rank() * part, part);
}

Tensor Mean(const Tensor& loss, const Group& group) {
  NoGradGuard no_grad;
  return distributed::all_reduce(loss.detach(), Reduction::kMean, group);
}

nn::Sequential Net() {
  manual_seed(3);
  nn::Sequential net(nn::Linear(6, 10), nn::Tanh(), nn::Dropout(0.4), nn::Linear(10, 5),
                     nn::Dropout(0.2), nn::Linear(5, 1));
  net->to(DType::kF64);
  return net;
}

/// The losses of a training run, which is the same on one rank and on several.
using Run = std::function<std::vector<double>(const Group&)>;

void SameAsAlone(const Run& run, const std::string& what) {
  const std::vector<double> alone = run(distributed::world());
  Check(alone.front() > 1.05 * alone.back(), what + ": the loss does not fall");
  Group world = distributed::init();
  CheckClose(run(world), alone, kSame, what);
  distributed::shutdown();
}

std::vector<double> Train(const Group& group, const std::function<Tensor(int)>& step_of) {
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    Tensor loss;
    step([&] { loss = Mean(step_of(i), group); });
    losses.push_back(loss.item<double>());
  }
  return losses;
}

void DataParallelWithDropout() {
  SameAsAlone(
      [](const Group& group) {
        nn::Sequential net = Net();
        distributed::DataParallel parallel(*net, group);
        optim::Adam optimizer(net->parameters(), {.lr = 0.01});
        Tensor x = Data({16, 6}, 1), y = sin(sum(x, {1}, true));
        return Train(group, [&](int) {
          optimizer.zero_grad();
          Tensor loss = mse_loss(parallel(Mine(x, group)), Mine(y, group));
          loss.backward();
          parallel.reduce_gradients();
          optimizer.step();
          return loss;
        });
      },
      "data parallel");
}

/// Batches of a loader, a part of each on every rank.
void DealtBatches() {
  auto run = [](const Group& group) {
    nn::Sequential net = Net();
    distributed::DataParallel parallel(*net, group);
    optim::Adam optimizer(net->parameters(), {.lr = 0.01});
    Tensor x = Data({4 * kSteps, 6}, 1), y = sin(sum(x, {1}, true));
    const int64_t batch = 8 / group.size();
    data::DataLoader loader(
        data::ArrayDataset({x.host(), y.host()}),
        {.batch_size = batch,
         .sampler = std::make_shared<data::DistributedSampler>(group.rank(), group.size(),
                                                               /*shuffle=*/true, 7, batch)});
    std::vector<data::Batch> batches;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const data::Batch& dealt : loader) batches.push_back(dealt);
    }
    return Train(group, [&](int i) {
      const data::Batch& dealt = batches.at(static_cast<size_t>(i));
      optimizer.zero_grad();
      Tensor loss = mse_loss(parallel(dealt[0]), dealt[1]);
      loss.backward();
      parallel.reduce_gradients();
      optimizer.step();
      return loss;
    });
  };
  const std::vector<double> alone = run(distributed::world());
  Group world = distributed::init();
  CheckClose(run(world), alone, kSame, "dealt batches");
  distributed::shutdown();
}

/// Gradients of the last layers are sent while others are computed, and the first layers are
/// computed while others are gathered.
void Overlapping() {
  SameAsAlone(
      [](const Group& group) {
        manual_seed(3);
        nn::Sequential net(nn::Linear(16, 96), nn::Tanh(), nn::Linear(96, 96), nn::Tanh(),
                           nn::Linear(96, 96), nn::Tanh(), nn::Linear(96, 1));
        net->to(DType::kF64);
        config::Override buckets("distributed.bucket_bytes", "40000");
        distributed::DataParallel parallel(*net, group);
        optim::Adam optimizer(net->parameters(), {.lr = 0.01});
        Tensor x = Data({32, 16}, 1), y = sin(sum(x, {1}, true));
        return Train(group, [&](int) {
          optimizer.zero_grad();
          Tensor loss = mse_loss(parallel(Mine(x, group)), Mine(y, group));
          loss.backward();
          parallel.reduce_gradients();
          optimizer.step();
          return loss;
        });
      },
      "overlap");
  const bool overlaps = zeros({}).device().to_string().starts_with("cpu");
  Check(!overlaps || metrics::CounterValue("cpu::OverlappedCollectives").value_or(0) >= kSteps,
        "nothing overlapped");
}

void ShardedOptimizer(int stage) {
  SameAsAlone(
      [stage](const Group& group) {
        config::Override buckets("distributed.bucket_bytes", "500");  // several
        nn::Sequential net = Net();
        distributed::ShardedOptimizer shards(net->parameters(), stage, group);
        optim::Adam optimizer(shards.parameters(), {.lr = 0.01});
        Tensor x = Data({16, 6}, 1), y = sin(sum(x, {1}, true));
        return Train(group, [&](int) {
          RandomPart part(group);
          shards.zero_grad();
          Tensor loss = mse_loss(net(Mine(x, group)), Mine(y, group));
          loss.backward();
          shards.reduce_gradients();
          Check(net->parameters()[0].grad().defined() == (stage == 1), "gradients of parameters");
          optimizer.step();
          shards.gather_parameters();
          return loss;
        });
      },
      "stage " + std::to_string(stage));
}
void Stage1() { ShardedOptimizer(1); }
void Stage2() { ShardedOptimizer(2); }

/// A net whose state is shared out by a stage, or not at all (0).
class ShardedNet {
 public:
  ShardedNet(const Group& group, int stage) : group_(group) {
    if (stage == 1 || stage == 2) shards_.emplace(net->parameters(), stage, group);
    if (stage == 3) distributed::fully_shard(*net, group);
    own = shards_ ? shards_->parameters() : net->parameters();
  }

  /// The losses of training; `update` is called when there are gradients of `own`.
  std::vector<double> Train(const std::function<void(int)>& update,
                            const std::function<Tensor(const Tensor&)>& scaled = {}) {
    Tensor x = Data({16, 6}, 1), y = sin(sum(x, {1}, true));
    return ::Train(group_, [&](int i) {
      RandomPart part(group_);
      for (Tensor& tensor : own) tensor.set_grad(Tensor());
      if (shards_) shards_->zero_grad();
      Tensor loss = mse_loss(net(Mine(x, group_)), Mine(y, group_));
      (scaled ? scaled(loss) : loss).backward();
      if (shards_) shards_->reduce_gradients();
      update(i);
      if (shards_) shards_->gather_parameters();
      return loss;
    });
  }

  nn::Sequential net = Net();
  std::vector<Tensor> own;  // what an optimiser has

 private:
  const Group group_;
  std::optional<distributed::ShardedOptimizer> shards_;
};

/// What `run` gives without shards, and with those of all stages.
void SameForAllStages(const std::function<std::vector<double>(const Group&, int)>& run) {
  const std::vector<double> alone = run(distributed::world(), 0);
  Group world = distributed::init();
  for (int stage : {1, 2, 3}) {
    CheckClose(run(world, stage), alone, kSame, "stage " + std::to_string(stage));
  }
  distributed::shutdown();
}

/// The norm of gradients in shards is that of all of them.
void ClippedByNorm() {
  SameForAllStages([](const Group& group, int stage) {
    ShardedNet net(group, stage);
    optim::SGD optimizer(net.own, {.lr = 0.5});
    std::vector<Tensor> norms;
    std::vector<double> values = net.Train([&](int i) {
      const double kinds[] = {2, 1, std::numeric_limits<double>::infinity()};
      norms.push_back(optim::clip_grad_norm_(net.own, 0.1, kinds[i % 3]));
      optimizer.step();
    });
    for (const Tensor& norm : norms) values.push_back(norm.item<double>());
    return values;
  });
}

/// A gradient that is infinite in one shard alone: all ranks skip the step.
void SkippedTogether() {
  SameForAllStages([](const Group& group, int stage) {
    ShardedNet net(group, stage);
    optim::Adam optimizer(net.own, {.lr = 0.05});
    optim::GradScaler scaler({.init_scale = 1024});
    std::vector<double> values = net.Train(
        [&](int i) {
          if (i == 2 && group.rank() + 1 == group.size()) {
            net.own[0].set_grad(net.own[0].grad() * Scalar(double(INFINITY)));
          }
          scaler.step(optimizer);
          scaler.update();
        },
        [&](const Tensor& loss) { return scaler.scale(loss); });
    values.push_back(scaler.get_scale());
    Check(values.back() == 512, "the scale is not halved");
    return values;
  });
}

/// After a load, steps are those that came after the save.
void Resumed() {
  Group world = distributed::init();
  for (int stage : {1, 2, 3}) {
    ShardedNet net(world, stage);
    optim::Adam optimizer(net.own, {.lr = 0.05});
    distributed::Checkpoint checkpoint(world);
    checkpoint.add("model", *net.net);
    checkpoint.add("optimizer", optimizer);
    auto train = [&] { return net.Train([&](int) { optimizer.step(); }); };
    const std::string path = std::getenv("RANKS_TEST_FOLDER") + std::string("/run");
    train();
    checkpoint.save(path);
    const std::vector<double> expected = train();
    checkpoint.load(path);
    CheckClose(train(), expected, kSame, "stage " + std::to_string(stage));
  }
  distributed::shutdown();
}

/// Every rank has its part of the parameters alone; one tensor has two names.
struct Tied : nn::Module {
  nn::Linear in = register_module("in", nn::Linear(6, 6));
  nn::Linear again = register_module("again", nn::Linear(6, 6));
  nn::Linear out = register_module("out", nn::Linear(6, 1));
  Tied() { again->weight = in->weight; }
  Tensor forward(const Tensor& x) {
    Tensor hidden = hammock::checkpoint(
        [this](const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
          return {dropout(tanh(in(inputs[0])), 0.3, true)};
        },
        {x})[0];
    return out(tanh(again(hidden)));
  }
};

void FullyShardedTraining() {
  SameAsAlone(
      [](const Group& group) {
        manual_seed(5);
        Tied net;
        net.to(DType::kF64);
        const size_t whole = net.parameters().size();
        distributed::fully_shard(net, group);
        std::vector<Tensor> parts = net.parameters();
        Check(parts.size() == whole, "number of parameters");
        for (const Tensor& part : parts) Check(part.numel() <= 36 / group.size() + 1, "a part");
        optim::AdamW optimizer(parts, {.lr = 0.02});
        Tensor x = Data({16, 6}, 1), y = sin(sum(x, {1}, true));
        return Train(group, [&](int) {
          RandomPart part(group);
          optimizer.zero_grad();
          Tensor loss = mse_loss(net.forward(Mine(x, group)), Mine(y, group));
          loss.backward();
          optimizer.step();
          return loss;
        });
      },
      "fully sharded");
}

/// Parts of layers in dim 1: dropout between them is drawn in parts of that dim.
template <class Column, class Row, class Table>
struct TwoLayers : nn::Module {
  Table table;
  Column up;
  Row down;
  TwoLayers(Table table_in, Column up_in, Row down_in)
      : table(register_module("table", std::move(table_in))),
        up(register_module("up", std::move(up_in))),
        down(register_module("down", std::move(down_in))) {
    to(DType::kF64);
  }
  Tensor forward(const Tensor& index, const Group& group) {
    Tensor hidden = gelu(up(table(index)));
    RandomPart part(group, 1);
    return down(dropout(hidden, 0.3, true));
  }
};

void TensorParallel() {
  Tensor index = arange(Scalar(24)).remainder(Scalar(8)).to(DType::kI64);
  std::vector<Tensor> norms;  // of gradients
  auto train = [&](auto& net, const Group& group) {
    optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    Tensor y = sin(index.to(DType::kF64)).reshape({24, 1});
    return Train(group, [&](int) {
      optimizer.zero_grad();
      Tensor loss = mse_loss(net.forward(index, group), y);
      loss.backward();
      norms.push_back(optim::clip_grad_norm_(net.parameters(), 1.0));
      optimizer.step();
      return loss;
    });
  };
  manual_seed(7);
  TwoLayers alone(nn::Embedding(8, 4), nn::Linear(4, 12), nn::Linear(12, 1));
  const std::vector<double> losses = train(alone, distributed::world());
  Check(losses.front() > 1.05 * losses.back(), "the loss does not fall");
  Group world = distributed::init();
  manual_seed(7);
  TwoLayers parts(distributed::ParallelEmbedding(8, 4), distributed::ColumnParallelLinear(4, 12),
                  distributed::RowParallelLinear(12, 1));
  Check(parts.up->weight.size(0) == 12 / world.size(), "a part of the weight");
  CheckClose(train(parts, world), losses, kSame, "tensor parallel");
  for (size_t i = 0; i < kSteps; ++i) {
    CheckClose(Values(norms[kSteps + i]), Values(norms[i]), kSame, "norm of gradients");
  }
  // Values in parts and whole, and the gradients between them.
  Tensor x = Data({8, 3}, 2).requires_grad_();
  Tensor y = distributed::gathered(square(distributed::scattered(x, 0, world)), 0, world);
  sum(y * y).backward();
  CheckClose(Values(x.grad()), Values(4 * x.detach() * x.detach() * x.detach()), kSame, "parts");
  Tensor wrong = full({2}, Scalar(int64_t{8}), DType::kI64);
  try {
    parts.table(wrong).sum().item();
    Check(false, "an index beyond the table");
  } catch (const Error&) {
  }
  std::_Exit(0);  // the failed step has ended the group
}

/// Tensor parallel layers on some ranks, of which other ranks have shards.
void ShardsOfShards() {
  Tensor index = arange(Scalar(24)).remainder(Scalar(8)).to(DType::kI64);
  Tensor y = sin(index.to(DType::kF64)).reshape({24, 1});
  auto train = [&](auto& net, const Group& data, const Group& model) {
    optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    std::vector<Tensor> norms;
    std::vector<double> values = Train(data, [&](int) {
      RandomPart part(data);
      optimizer.zero_grad();
      Tensor loss = mse_loss(net.forward(Mine(index, data), model), Mine(y, data));
      loss.backward();
      norms.push_back(optim::clip_grad_norm_(net.parameters(), 1.0));
      optimizer.step();
      return loss;
    });
    for (const Tensor& norm : norms) values.push_back(norm.item<double>());
    return values;
  };
  manual_seed(7);
  TwoLayers alone(nn::Embedding(8, 4), nn::Linear(4, 12), nn::Linear(12, 1));
  const auto expected = train(alone, distributed::world(), distributed::world());
  Group world = distributed::init();
  Group model = world.split(world.rank() / 2), data = world.split(world.rank() % 2);
  manual_seed(7);
  TwoLayers parts(distributed::ParallelEmbedding(8, 4, model),
                  distributed::ColumnParallelLinear(4, 12, true, model),
                  distributed::RowParallelLinear(12, 1, true, model));
  distributed::fully_shard(parts, data);
  CheckClose(train(parts, data, model), expected, kSame, "shards of shards");

  const std::string folder = std::getenv("RANKS_TEST_FOLDER");
  distributed::Checkpoint of_all(world), of_data(data);
  of_all.add("net", parts);
  of_data.add("net", parts);
  of_data.save(folder + "/" + std::to_string(model.rank()));
  try {
    if (data.size() > 1) of_all.save(folder + "/all");
    Check(data.size() == 1, "a checkpoint that lacks shards");
  } catch (const NotSupported&) {
  }
  distributed::shutdown();
}

void SequenceParallel() {
  Group world = distributed::init();
  const Dims sizes = {2, 4, 12, 5};
  for (bool is_causal : {false, true}) {
    for (bool ring : {true, false}) {
      std::vector<Tensor> whole, parts;
      for (uint64_t i = 0; i < 3; ++i) {
        whole.push_back(Data(sizes, i).requires_grad_());
        parts.push_back(Mine(whole.back().detach(), world, 2).clone().requires_grad_());
      }
      Tensor weight = Data(sizes, 9);
      Tensor expected =
          scaled_dot_product_attention(whole[0], whole[1], whole[2], std::nullopt, 0, is_causal);
      sum(expected * weight).backward();
      Tensor got =
          ring ? distributed::ring_attention(parts[0], parts[1], parts[2], is_causal)
               : distributed::head_parallel_attention(parts[0], parts[1], parts[2], is_causal);
      sum(got * Mine(weight, world, 2)).backward();
      mark_step();
      const std::string what = ring ? "ring" : "heads";
      CheckClose(Values(got), Values(Mine(expected, world, 2)), kSame, what);
      for (size_t i = 0; i < 3; ++i) {
        CheckClose(Values(parts[i].grad()), Values(Mine(whole[i].grad(), world, 2)), kSame,
                   what + ": gradient " + std::to_string(i));
      }
    }
  }
  try {
    distributed::head_parallel_attention(ones({3, 8, 2}), ones({3, 8, 2}), ones({3, 8, 2}));
    Check(false, "heads that cannot be shared out");
  } catch (const ValueError&) {
  }
  distributed::shutdown();
}

void Pipelined() {
  auto layers = [](int count) {
    manual_seed(11);
    std::vector<nn::Linear> all;
    for (int i = 0; i < count; ++i) all.push_back(nn::Linear(4, 4));
    for (nn::Linear& layer : all) layer->to(DType::kF64);
    return all;
  };
  Tensor x = Data({12, 4}, 1), y = sin(x * 2.0);
  auto run = [&](const Group& group, int stages) {
    std::vector<nn::Linear> all = layers(stages);
    std::vector<nn::Linear> own;  // all of them alone
    for (int i = 0; i < stages; ++i) {
      if (i % group.size() == group.rank()) own.push_back(all[static_cast<size_t>(i)]);
    }
    std::vector<Tensor> parameters;
    for (nn::Linear& layer : own) {
      for (const Tensor& parameter : layer->parameters()) parameters.push_back(parameter);
    }
    optim::SGD optimizer(parameters, {.lr = 0.5});
    distributed::Pipeline pipeline(
        [&](const Tensor& in) {
          Tensor h = in;
          for (nn::Linear& layer : own) h = tanh(layer(h));
          return h;
        },
        Shape(DType::kF64, {4, 4}), /*microbatches=*/3, group);
    std::vector<double> losses = Train(group, [&](int) {
      optimizer.zero_grad();
      Tensor loss = pipeline.backward(
          group.rank() == 0 ? x : Tensor(),
          [&](const Tensor& out, int part) { return mse_loss(out, y.narrow(0, part * 4, 4)); });
      optimizer.step();
      return loss;
    });
    Tensor out = pipeline.forward(x, Shape(DType::kF64, {4, 4}));
    for (double value : Values(out)) losses.push_back(value);
    return losses;
  };
  const int stages = std::atoi(std::getenv("WORLD_SIZE"));
  const std::vector<double> alone = run(distributed::world(), stages);
  Group world = distributed::init();
  CheckClose(run(world, stages), alone, kSame, "pipeline");
  distributed::shutdown();
}

// ---- checkpoints

/// That all ranks see.
const std::string& Folder() {
  static const std::string folder = std::getenv("RANKS_TEST_FOLDER");
  return folder;
}

std::vector<double> StepsOf(Tied& net, optim::Adam& optimizer, const Group& group) {
  Tensor x = Data({16, 6}, 1), y = sin(sum(x, {1}, true));
  return Train(group, [&](int) {
    RandomPart part(group);
    optimizer.zero_grad();
    Tensor loss = mse_loss(net.forward(Mine(x, group)), Mine(y, group));
    loss.backward();
    optimizer.step();
    return loss;
  });
}

/// Ranks write what one rank alone reads, and the other way round.
void Checkpoints() {
  std::vector<double> expected;
  const std::string path = Folder() + "/" + "run";
  {
    manual_seed(5);
    Tied net;
    net.to(DType::kF64);
    optim::Adam optimizer(net.parameters(), {.lr = 0.02});
    StepsOf(net, optimizer, distributed::world());
    expected = StepsOf(net, optimizer, distributed::world());
  }
  Group world = distributed::init();
  int64_t epoch = 7;
  {
    manual_seed(5);
    Tied net;
    net.to(DType::kF64);
    distributed::fully_shard(net, world);
    optim::Adam optimizer(net.parameters(), {.lr = 0.02});
    distributed::Checkpoint checkpoint(world);
    checkpoint.add("model", net);
    checkpoint.add("optimizer", optimizer);
    checkpoint.add("epoch", epoch);
    checkpoint.save(path);  // replaced by the next
    StepsOf(net, optimizer, world);
    checkpoint.save(path);
    Check(std::distance(std::filesystem::directory_iterator(path), {}) == 2, "one generation");
  }
  auto resumed = [&](const Group& group, bool sharded) {
    manual_seed(99);
    Tied net;
    net.to(DType::kF64);
    if (sharded) distributed::fully_shard(net, group);
    optim::Adam optimizer(net.parameters(), {.lr = 0.5});
    epoch = 0;
    distributed::Checkpoint checkpoint(group);
    checkpoint.add("model", net);
    checkpoint.add("optimizer", optimizer);
    checkpoint.add("epoch", epoch);
    Check(checkpoint.load(path) > 0, "steps");
    Check(epoch == 7, "a number");
    return StepsOf(net, optimizer, group);
  };
  CheckClose(resumed(world, true), expected, kSame, "the same ranks");
  Group half = world.split(world.rank() % 2);
  CheckClose(resumed(half, true), expected, kSame, "other ranks");
  Group alone = world.split(world.rank());
  CheckClose(resumed(alone, false), expected, kSame, "a rank alone");

  // Layers in parts, read by layers that are whole.
  manual_seed(8);
  distributed::ColumnParallelLinear parts(4, 8);
  distributed::Checkpoint of_parts(world);
  of_parts.add("layer", *parts);
  of_parts.save(Folder() + "/layer");
  manual_seed(8);
  nn::Linear same(4, 8), whole(4, 8);
  distributed::Checkpoint of_whole(alone);
  of_whole.add("layer", *whole);
  of_whole.load(Folder() + "/layer");
  CheckClose(Values(whole->weight), Values(same->weight), 0, "weight");
  CheckClose(Values(whole->bias), Values(same->bias), 0, "bias");

  // Refused, and then nothing is loaded.
  auto refused = [&](const std::function<void()>& act, const std::string& why) {
    try {
      act();
    } catch (const ValueError& error) {
      Check(error.message().find(why) != std::string::npos, error.what());
      return;
    }
    Check(false, "no error: " + why);
  };
  nn::Linear wide(4, 6);
  distributed::Checkpoint of_wide(alone);
  of_wide.add("layer", *wide);
  refused([&] { of_wide.load(Folder() + "/layer"); }, "layer.weight");
  refused([&] { of_wide.load(Folder() + "/none"); }, "no checkpoint");
  refused([&] { of_wide.add("rng", *whole); }, "cannot be the name");
  // A part that is on no rank of the group.
  distributed::Checkpoint of_some(alone);
  of_some.add("layer", *parts);
  refused([&] { of_some.save(Folder() + "/some"); }, "layer.weight");
  Check(!std::filesystem::exists(Folder() + "/some"), "written all the same");
  distributed::shutdown();
}

/// Whatever ends a rank while it writes, the folder has a whole checkpoint.
void KilledInSave() {
  Group world = distributed::init();
  manual_seed(8);
  nn::Linear net(64, 64);
  distributed::fully_shard(*net, world);
  distributed::Checkpoint checkpoint(world);
  checkpoint.add("layer", *net);
  const std::string path = Folder() + "/run";
  checkpoint.save(path);
  std::vector<double> before = Values(net->get_tensor("shards.weight"));
  {
    NoGradGuard no_grad;
    net->get_tensor("shards.weight").fill_(Scalar(1.0));
  }
  mark_step(true);
  world.barrier();
  if (world.rank() == world.size() - 1) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(getpid() % 40));
      std::_Exit(9);
    }).detach();
  }
  try {
    for (int i = 0; i < 1000; ++i) checkpoint.save(path);
    Check(false, "no error");
  } catch (const distributed::RankError&) {
  }
  Group rest = world.survivors();
  // What only the dead rank had is lost.
  distributed::Checkpoint of_rest(rest);
  of_rest.add("layer", *net);
  try {
    of_rest.save(Folder() + "/rest");
    Check(false, "parts are lost");
  } catch (const ValueError& error) {
    Check(error.message().find("layer.weight") != std::string::npos, error.what());
  }
  // The old checkpoint, or the new one, is there as a whole.
  Group alone = rest.split(rest.rank());
  nn::Linear read(64, 64);
  distributed::Checkpoint of_read(alone);
  of_read.add("layer", *read);
  of_read.load(path);
  std::vector<double> values = Values(read->weight);
  const bool is_new = values[0] == 1.0;
  for (double value : values) Check(!is_new || value == 1.0, "a mixture");
  if (!is_new && world.rank() == 0) {
    values.resize(before.size());
    CheckClose(values, before, 0, "the old one");
  }
  std::_Exit(0);
}

}  // namespace

int main(int, char** argv) {
  return RunScenario({{"data_parallel", DataParallelWithDropout},
                      {"dealt_batches", DealtBatches},
                      {"overlap", Overlapping},
                      {"stage_1", Stage1},
                      {"stage_2", Stage2},
                      {"clipped", ClippedByNorm},
                      {"skipped", SkippedTogether},
                      {"resumed", Resumed},
                      {"fully_sharded", FullyShardedTraining},
                      {"tensor_parallel", TensorParallel},
                      {"shards_of_shards", ShardsOfShards},
                      {"sequence_parallel", SequenceParallel},
                      {"pipeline", Pipelined},
                      {"checkpoints", Checkpoints},
                      {"killed_in_save", KilledInSave}},
                     argv[1]);
}
