#include "hammock/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hammock/compile.h"
#include "hammock/io/safetensors.h"
#include "io/checkpoint_run.h"
#include "ir/expect_error.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

std::string PathOf(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          ("hammock_" + std::to_string(getpid()) + "_" + name + ".safetensors"))
      .string();
}

/// A path whose file is gone at the end.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name) : path(PathOf(name)) {}
  ~TemporaryFile() { std::filesystem::remove(path); }
  const std::string path;
};

std::string Bytes(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

/// All that the run has, as the bytes of its checkpoint.
std::string StateOfRun(TrainingRun& run) {
  TemporaryFile file("state");
  run.checkpoint().save(file.path);
  return Bytes(file.path);
}

class CheckpointOn : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, CheckpointOn, ::testing::Values("reference", "cpu"));

TEST_P(CheckpointOn, AResumedRunHasTheSameBits) {
  manual_seed(5);
  TrainingRun straight(GetParam());
  straight.Train(9);  // in the middle of the second epoch
  TemporaryFile file("resumed");
  straight.checkpoint().save(file.path);
  std::string bytes_then = Bytes(file.path);
  // As the loader of the resumed run does, which continues the broken loop.
  straight.checkpoint().load(file.path);
  straight.Train(9);
  std::string expected = StateOfRun(straight);

  manual_seed(1234);
  TrainingRun resumed(GetParam());
  resumed.noise.manual_seed(1);
  resumed.checkpoint().load(file.path);
  EXPECT_EQ(resumed.step, 9);
  EXPECT_EQ(StateOfRun(resumed), bytes_then);
  EXPECT_EQ(resumed.optimizer->lr(0), resumed.schedule->last_lr()[0]);
  resumed.Train(9);
  EXPECT_EQ(resumed.step, 18);
  EXPECT_EQ(resumed.loss, straight.loss);
  EXPECT_EQ(StateOfRun(resumed), expected);
}

TEST_P(CheckpointOn, ASaveInsideOfALoopChangesNothing) {
  // Saved in the body of the loop, which the resumed run then goes on with.
  manual_seed(5);
  TrainingRun straight(GetParam());
  TemporaryFile file("inside");
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const data::Batch& batch : straight.loader) {
      straight.Step(batch);
      if (++straight.step == 3) straight.checkpoint().save(file.path);
    }
  }
  TrainingRun resumed(GetParam());
  resumed.checkpoint().load(file.path);
  EXPECT_EQ(resumed.loader.epoch(), 0);
  for (int64_t epoch = resumed.loader.epoch(); epoch < 2; ++epoch) {
    for (const data::Batch& batch : resumed.loader) {
      resumed.Step(batch);
      ++resumed.step;
    }
  }
  EXPECT_EQ(resumed.step, straight.step);
  EXPECT_EQ(StateOfRun(resumed), StateOfRun(straight));
}

TEST(Checkpoint, AnotherProcessGoesOnWithTheSameBits) {
  manual_seed(5);
  TrainingRun straight("cpu");
  straight.Train(7);
  TemporaryFile saved("saved"), ended("ended"), expected("expected");
  straight.checkpoint().save(saved.path);
  straight.checkpoint().load(saved.path);
  straight.Train(5);
  straight.checkpoint().save(expected.path);
  std::string program = HAMMOCK_CHECKPOINT_CHILD, mode = "resume";
  std::string from = saved.path, to = ended.path;
  char* const args[] = {program.data(), mode.data(), from.data(), to.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, args, environ), 0);
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(Bytes(ended.path), Bytes(expected.path));
}

TEST(Checkpoint, ACompiledStepGoesOnAfterALoad) {
  Tensor w = ones({3});
  w.requires_grad_();
  optim::Adam optimizer({w}, {.lr = 0.1});
  Checkpoint checkpoint({{"w", w}, {"optimizer", optimizer}});
  auto step = compile(
      [&](const Tensor& x) {
        optimizer.zero_grad();
        Tensor loss = square(w * x).sum();
        loss.backward();
        optimizer.step();
        return loss;
      },
      {w, optimizer});
  Tensor x = tensor({1.0, 2.0, 3.0});
  TemporaryFile file("compiled");
  for (int i = 0; i < 3; ++i) step(x);
  checkpoint.save(file.path);
  for (int i = 0; i < 3; ++i) step(x);
  HostTensor expected = w.host();
  checkpoint.load(file.path);
  EXPECT_EQ(optimizer.state_dict()["0.step"].item<double>(), 3);
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_TRUE(w.host().SameBits(expected));
  EXPECT_EQ(optimizer.state_dict()["0.step"].item<double>(), 6);
  EXPECT_EQ(step.traces(), 1u);
}

TEST(Checkpoint, ALoadCompilesNothing) {
  TrainingRun run("cpu");
  run.Train(14);
  TemporaryFile file("compiles");
  run.checkpoint().save(file.path);
  run.checkpoint().load(file.path);
  run.Train(14);
  run.checkpoint().load(file.path);
  ExpectNoRecompile no_recompile("a resumed step is the step that was compiled");
  run.Train(14);
}

TEST(Checkpoint, AnyToolReadsTheTensors) {
  TrainingRun run("cpu");
  run.Train(2);
  TemporaryFile file("names");
  run.checkpoint().save(file.path);
  auto contents = io::SafetensorsFile::Open(file.path);
  EXPECT_TRUE(contents.Read("model.0.weight").SameBits(run.net->get_tensor("0.weight").host()));
  EXPECT_EQ(contents.ShapeOf("model.1.num_batches_tracked").to_string(), "i64[]");
  EXPECT_EQ(contents.Read("optimizer.0.step").at(0).ToDouble(), 2);
  EXPECT_EQ(contents.Read("step").at(0).ToInt(), 2);
  EXPECT_EQ(contents.Read("rng.seed").dtype(), DType::kU64);
  EXPECT_EQ(contents.metadata().at("text.notes"), "ba");
}

/// A change to a checkpoint's entries that makes them not fit.
struct Other {
  Tensor weight = zeros({2, 2});
  StateDict state_dict() const { return state; }
  void load_state_dict(const StateDict& from) { CopyState(state, from, "other"); }
  StateDict state;
};

TEST(Checkpoint, AllThatDoesNotFitIsOneErrorAndNothingIsLoaded) {
  TemporaryFile file("unfit");
  Other saved;
  saved.state = {{"shape", ones({2})}, {"dtype", ones({3}, f64)}, {"gone", ones({1})}};
  float rate = 0.5f;
  std::string notes = "saved", more = "more";
  Checkpoint({{"part", saved}, {"rate", rate}, {"more", more}}).save(file.path);

  Other other;
  other.state = {{"shape", zeros({3})}, {"dtype", zeros({3})}, {"added", zeros({4})}};
  double rate_now = 7;
  nn::Linear layer(2, 1);
  HostTensor before = layer->weight.host();
  uint64_t offset = Generator::Default().offset();
  Checkpoint reader({{"part", other}, {"rate", rate_now}, {"layer", layer}, {"notes", notes}});
  EXPECT_EQ(MessageOf<ValueError>([&] { reader.load(file.path); }),
            "the checkpoint '" + file.path +
                "' does not fit:"
                "\n  missing: layer.bias f32[1]"
                "\n  missing: layer.weight f32[1,2]"
                "\n  missing: part.added f32[4]"
                "\n  part.dtype is f64[3], expected f32[3]"
                "\n  part.shape is f32[2], expected f32[3]"
                "\n  rate is f32[], expected f64[]"
                "\n  unexpected: part.gone f32[1]"
                "\n  missing: notes, a text"
                "\n  unexpected: more, a text");
  EXPECT_EQ(rate_now, 7);
  EXPECT_EQ(notes, "saved");
  EXPECT_EQ(Generator::Default().offset(), offset);
  EXPECT_TRUE(layer->weight.host().SameBits(before));
  for (const auto& [name, tensor] : other.state) EXPECT_EQ(tensor.sum().item<double>(), 0) << name;
}

TEST(Checkpoint, APartOfTheRunIsLoadedByItself) {
  TemporaryFile file("part");
  nn::Linear saved(2, 3), loaded(2, 3);
  int64_t step = 4;
  Checkpoint({{"model", saved}, {"step", step}}).save(file.path);
  loaded->to(f64);
  Checkpoint({{"model", loaded}}).load(file.path, false);
  EXPECT_EQ(loaded->weight.dtype(), f64);
  EXPECT_EQ(loaded->weight.to_vector<float>(), saved->weight.to_vector<float>());
  EXPECT_ERROR(Checkpoint({{"model", loaded}}).load(file.path), ValueError,
               "unexpected: step i64[]");
}

TEST(Checkpoint, HistoriesOfAnyLengthAreLoaded) {
  auto closure = [](Tensor& w, optim::LBFGS& optimizer) {
    return [&] {
      optimizer.zero_grad();
      Tensor loss = (square(w) * tensor({1.0, 10.0, 100.0})).sum() + exp(w).sum();
      loss.backward();
      return loss;
    };
  };
  Tensor w = ones({3}), other = zeros({3});
  w.requires_grad_();
  other.requires_grad_();
  optim::LBFGS optimizer({w}, {.max_iter = 3}), resumed({other}, {.max_iter = 3});
  optimizer.step(closure(w, optimizer));
  TemporaryFile file("lbfgs");
  Checkpoint({{"w", w}, {"optimizer", optimizer}}).save(file.path);
  Checkpoint({{"w", other}, {"optimizer", resumed}}).load(file.path);
  optimizer.step(closure(w, optimizer));
  resumed.step(closure(other, resumed));
  EXPECT_TRUE(w.host().SameBits(other.host()));
}

TEST(Checkpoint, StatesOfSchedulesAreLoaded) {
  Tensor w = ones({1});
  w.requires_grad_();
  optim::SGD optimizer({w}, {.lr = 1});
  auto sequence = [&] {
    std::vector<std::unique_ptr<optim::Scheduler>> list;
    list.push_back(std::make_unique<optim::LinearLR>(optimizer));
    list.push_back(std::make_unique<optim::ExponentialLR>(optimizer, 0.5));
    return std::make_unique<optim::SequentialLR>(optimizer, std::move(list),
                                                 std::vector<int64_t>{2});
  };
  auto schedule = sequence();
  optim::ReduceLROnPlateau plateau(optimizer, {.patience = 1});
  for (int i = 0; i < 3; ++i) schedule->step();
  plateau.step(1);
  plateau.step(2);
  TemporaryFile file("schedules");
  Checkpoint({{"schedule", *schedule}, {"plateau", plateau}}).save(file.path);
  schedule->step();
  double next = optimizer.lr();
  plateau.step(3);
  double lowered = optimizer.lr();
  EXPECT_LT(lowered, next);

  optimizer.set_lr(100);  // not what the schedules began with
  auto again = sequence();
  optim::ReduceLROnPlateau plateau_again(optimizer, {.patience = 1});
  Checkpoint({{"schedule", *again}, {"plateau", plateau_again}}).load(file.path);
  again->step();
  EXPECT_EQ(optimizer.lr(), next);
  plateau_again.step(3);
  EXPECT_EQ(optimizer.lr(), lowered);
}

TEST(Checkpoint, NumbersOfAllKindsKeepTheirBits) {
  bool flag = true;
  int32_t small = -3;
  uint64_t large = UINT64_MAX - 1;
  double infinite = -INFINITY, tiny = 5e-324;
  std::string text = "a \"quoted\"\ntext \xC3\xA4";
  Checkpoint checkpoint({{"flag", flag},
                         {"small", small},
                         {"large", large},
                         {"infinite", infinite},
                         {"tiny", tiny},
                         {"text", text}});
  TemporaryFile file("numbers");
  checkpoint.save(file.path);
  const std::string text_then = text;
  flag = false, small = 0, large = 0, infinite = 0, tiny = 0, text = "";
  checkpoint.load(file.path);
  EXPECT_EQ(flag, true);
  EXPECT_EQ(small, -3);
  EXPECT_EQ(large, UINT64_MAX - 1);
  EXPECT_EQ(infinite, -INFINITY);
  EXPECT_EQ(tiny, 5e-324);
  EXPECT_EQ(text, text_then);
}

TEST(Checkpoint, NamesOccurOnce) {
  int64_t a = 0, b = 0;
  EXPECT_ERROR(Checkpoint({{"a", a}, {"a", b}}), ValueError, "'a' cannot be the name of a part");
  EXPECT_ERROR(Checkpoint({{"a.b", a}}), ValueError, "'a.b' cannot be");
  EXPECT_ERROR(Checkpoint({{"rng", a}}), ValueError, "'rng' cannot be");
}

TEST(Checkpoint, DamagedFilesAreRefused) {
  TemporaryFile file("damaged");
  nn::Linear layer(3, 3);
  Checkpoint checkpoint({{"model", layer}});
  checkpoint.save(file.path);
  const std::string good = Bytes(file.path);
  HostTensor before = layer->weight.host();
  auto load = [&](const std::string& bytes) {
    std::ofstream(file.path, std::ios::binary) << bytes;
    return MessageOf<ValueError>([&] { checkpoint.load(file.path); });
  };
  for (size_t length = 0; length < good.size(); length += 13) {
    EXPECT_NE(load(good.substr(0, length)), "no error") << length;
  }
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string bytes = good;
    bytes[at] ^= 0x10;
    // A blank of the header is the only byte that means nothing.
    if (good[at] == ' ') continue;
    EXPECT_NE(load(bytes), "no error") << at;
  }
  EXPECT_TRUE(Contains(load(good + "x"), "follow the tensors"));
  save_weights(*layer, file.path);
  EXPECT_ERROR(checkpoint.load(file.path), ValueError, "no checkpoint of this version");
  EXPECT_TRUE(layer->weight.host().SameBits(before));
  EXPECT_EQ(load(good), "no error");
}

TEST(Checkpoint, AKilledSaveLeavesTheOldFileOrTheNewOne) {
  TemporaryFile file("killed");
  std::string program = HAMMOCK_CHECKPOINT_CHILD, mode = "save", path = file.path;
  double last = -1;
  for (int round = 0; round < 30; ++round) {
    char* const args[] = {program.data(), mode.data(), path.data(), nullptr};
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, args, environ), 0);
    for (int waited = 0; !std::filesystem::exists(path) && waited < 20000; ++waited) usleep(1000);
    usleep(static_cast<useconds_t>(1000 + 7919 * round % 60000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    Tensor weight = zeros({1 << 18});
    double value = -1;
    Checkpoint({{"weight", weight}, {"value", value}}).load(path);  // its checksum is right
    EXPECT_EQ(min(weight).item<double>(), value);
    EXPECT_EQ(max(weight).item<double>(), value);
    EXPECT_GE(value, last);  // the child goes on where the file is
    last = value;
  }
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
    if (entry.path().string().starts_with(path + ".part-")) std::filesystem::remove(entry.path());
  }
}

TEST(Weights, AreSavedAndLoadedByName) {
  TemporaryFile file("weights");
  nn::Linear one(2, 3), two(2, 3), other(3, 2);
  save_weights(*one, file.path);
  EXPECT_EQ(io::SafetensorsFile::Open(file.path).names(),
            (std::vector<std::string>{"bias", "weight"}));
  load_weights(*two, file.path);
  EXPECT_TENSOR_EQ(two->weight, one->weight);
  EXPECT_TENSOR_EQ(two->bias, one->bias);
  EXPECT_ERROR(load_weights(*other, file.path), ValueError,
               "bias is f32[3], expected f32[2]\n  weight is f32[3,2], expected f32[2,3]");
}

}  // namespace
}  // namespace hammock
