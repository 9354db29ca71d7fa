// A GAN: two optimisers, schedules, averages, accumulated and clipped gradients, mixed precision,
// saved in the middle and resumed bit for bit.
#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

struct Run {
  nn::Sequential generator{nn::Linear(16, 64), nn::BatchNorm1d(64), nn::LeakyReLU(0.2),
                           nn::Linear(64, 2)};
  nn::Sequential critic{nn::Linear(2, 64), nn::LeakyReLU(0.2), nn::Dropout(0.3), nn::Linear(64, 1)};
  optim::Adam generator_optimizer{generator->parameters(), {.lr = 2e-4, .beta1 = 0.5}};
  optim::RMSprop critic_optimizer{critic->parameters(), {.lr = 2e-4}};
  optim::CosineAnnealingLR generator_schedule{generator_optimizer, {.t_max = 200}};
  optim::StepLR critic_schedule{critic_optimizer, 50, 0.5};
  optim::EMA average{generator->parameters(), 0.99};
  int64_t iteration = 0;
  Checkpoint checkpoint{{{"generator", generator},
                         {"critic", critic},
                         {"generator_optimizer", generator_optimizer},
                         {"critic_optimizer", critic_optimizer},
                         {"generator_schedule", generator_schedule},
                         {"critic_schedule", critic_schedule},
                         {"average", average},
                         {"iteration", iteration}}};

  Tensor CriticLoss() {
    Tensor angle = rand({64}) * 6.2831853;
    Tensor real = stack({angle.cos(), angle.sin()}, 1), fake;
    AutocastGuard autocast(bf16);
    {
      NoGradGuard no_grad;
      fake = generator(randn({64, 16}));
    }
    Tensor of_real = critic(real), of_fake = critic(fake);
    return (binary_cross_entropy_with_logits(of_real, ones_like(of_real)) +
            binary_cross_entropy_with_logits(of_fake, zeros_like(of_fake))) /
           2;
  }

  Tensor GeneratorLoss() {
    AutocastGuard autocast(bf16);
    Tensor judged = critic(generator(randn({64, 16})));
    return binary_cross_entropy_with_logits(judged, ones_like(judged));
  }

  void Train(int count) {
    for (int i = 0; i < count; ++i, ++iteration) {
      step([&] {
        critic_optimizer.zero_grad();
        for (int part = 0; part < 2; ++part) CriticLoss().backward();
        optim::clip_grad_norm_(critic->parameters(), 1.0);
        critic_optimizer.step();
        generator_optimizer.zero_grad();
        GeneratorLoss().backward();
        optim::clip_grad_value_(generator->parameters(), 0.1);
        generator_optimizer.step();
        average.update();
      });
      generator_schedule.step();
      critic_schedule.step();
    }
  }
};

bool SameBits(const Run& a, const Run& b) {
  auto first = a.generator->state_dict(), second = b.generator->state_dict();
  for (size_t i = 0; i < first.size(); ++i) {
    if (!first[i].second.host().SameBits(second[i].second.host())) return false;
  }
  auto third = a.critic_optimizer.state_dict(), fourth = b.critic_optimizer.state_dict();
  for (const auto& [name, tensor] : third) {
    if (!tensor.host().SameBits(fourth.at(name).host())) return false;
  }
  return a.generator_optimizer.lr() == b.generator_optimizer.lr();
}

}  // namespace

int main() {
  const std::string path = "gan_trial.safetensors";
  manual_seed(7);
  Run run;
  int64_t before = Compiles();
  run.Train(40);
  run.checkpoint.save(path);
  run.Train(40);
  CheckAtMost(static_cast<double>(Compiles() - before), 6, "compiles");
  manual_seed(999);
  Run resumed;
  resumed.Train(3);
  resumed.checkpoint.load(path);
  Check(resumed.iteration == 40, "the iteration is restored");
  resumed.Train(40);
  Check(SameBits(run, resumed), "resumed bit for bit");
  std::remove(path.c_str());
  return Result();
}
