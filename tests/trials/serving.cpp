// A server: several threads ask one network, with batches of several sizes; each answer is the one
// that a single thread gets, and one graph is compiled once.
#include <atomic>
#include <thread>

#include "check.h"

using namespace hammock;
using namespace trial;

int main() {
  manual_seed(6);
  nn::Sequential net;
  for (int i = 0; i < 6; ++i) {
    net->push_back(nn::Linear(64, 64));
    net->push_back(nn::GELU());
  }
  net->eval();
  auto answer = [&](int64_t batch) {
    NoGradGuard no_grad;
    Tensor x = arange(batch * 64).to(f32).reshape({batch, 64}) / 1000;
    return net(x).sum().item<double>();
  };
  std::vector<double> expected(33);
  for (int64_t batch = 1; batch <= 32; ++batch) expected[batch] = answer(batch);
  std::atomic<int> wrong{0}, refused{0};
  int64_t before = Compiles();
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 150; ++i) {
        int64_t batch = 1 + (i * 7 + t * 5) % 32;
        if (answer(batch) != expected[batch]) ++wrong;
        if (i % 30 == 17) {  // a bad request hurts nobody else
          try {
            NoGradGuard no_grad;
            net(ones({2, 63})).sum().item();
          } catch (const Error&) {
            ++refused;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Check(wrong == 0, "answers do not depend on threads");
  Check(refused == 6 * 5, "bad requests are refused");
  CheckAtMost(static_cast<double>(Compiles() - before), 0, "compiles while serving known sizes");
  // A graph that is new to all of them at once.
  before = Compiles();
  std::atomic<bool> go{false};
  std::vector<double> answers(8);
  std::vector<std::thread> others;
  for (size_t t = 0; t < answers.size(); ++t) {
    others.emplace_back([&, t] {
      NoGradGuard no_grad;
      while (!go) std::this_thread::yield();
      answers[t] = (net(ones({3, 64})) * 2).cumsum(0).sum().item<double>();
    });
  }
  go = true;
  for (std::thread& thread : others) thread.join();
  for (double value : answers) Check(value == answers[0], "the same answer for all");
  CheckAtMost(static_cast<double>(Compiles() - before), 1, "compiles of one new graph");
  return Result();
}
