// Ranks with network addresses of their own: in two network namespaces, joined by a link that one
// test cuts.

#include <optional>

#include "distributed/programs.h"
#include "distributed/ranks.h"
#include "distributed/stores.h"
#include "hammock/error.h"

namespace hammock {
namespace {

using namespace hammock::testing;

constexpr int kRanks = 4, kPort = 7379;

/// `near` has all ranks but the last, and the server that they meet at; `far` has the last one.
class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
    const std::string server = Installed("redis-server");
    if (ip_.empty() || server.empty()) GTEST_SKIP() << "needs iproute2 and redis-server";
    if (!MakeNetwork()) GTEST_SKIP() << "network namespaces are not permitted here";
    std::vector<std::string> command = In(near_);
    command.insert(command.end(),
                   {server, "--port", std::to_string(kPort), "--bind", "10.77.31.1",
                    "--protected-mode", "no", "--save", "", "--logfile", "/dev/null"});
    server_.emplace(command);
  }
  void TearDown() override {
    server_.reset();
    for (const std::string& name : {near_, far_}) RunChild({ip_, "netns", "del", name});
  }

  std::vector<ChildResult> Run(const std::string& scenario, int timeout_ms) {
    std::vector<ChildResult> results(kRanks);
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < results.size(); ++rank) {
      threads.emplace_back([&, rank] {
        const bool is_far = rank + 1 == results.size();
        std::vector<std::string> command = In(is_far ? far_ : near_);
        command.insert(
            command.end(),
            {"/usr/bin/env", "RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(kRanks),
             "HAMMOCK_CPU_THREADS=1",
             "HAMMOCK_DISTRIBUTED_STORE=redis://10.77.31.1:" + std::to_string(kPort),
             "HAMMOCK_DISTRIBUTED_INTERFACE=" + (is_far ? far_ : near_),
             "HAMMOCK_DISTRIBUTED_TIMEOUT=" + std::to_string(timeout_ms),
             "CUT=" + ip_ + " link set " + far_ + " down", HAMMOCK_DISTRIBUTED_CHILD, scenario});
        results[rank] = RunChild(command);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

 private:
  std::vector<std::string> In(const std::string& name) const {
    return {ip_, "netns", "exec", name};
  }
  bool Ip(std::vector<std::string> words) const {
    words.insert(words.begin(), ip_);
    return RunChild(words).code == 0;
  }
  bool MakeNetwork() const {
    for (const std::string& name : {near_, far_}) {
      if (!Ip({"netns", "add", name})) return false;
    }
    if (!Ip({"link", "add", near_, "netns", near_, "type", "veth", "peer", "name", far_, "netns",
             far_})) {
      return false;
    }
    for (const std::string& name : {near_, far_}) {
      const std::string address = name == near_ ? "10.77.31.1/24" : "10.77.31.2/24";
      if (!Ip({"-n", name, "addr", "add", address, "dev", name}) ||
          !Ip({"-n", name, "link", "set", name, "up"}) ||
          !Ip({"-n", name, "link", "set", "lo", "up"})) {
        return false;
      }
    }
    return true;
  }

  // A link has the name of the namespace that its end is in.
  const std::string ip_ = Installed("ip");
  const std::string near_ = "hmn" + std::to_string(getpid());
  const std::string far_ = "hmf" + std::to_string(getpid());
  std::optional<Background> server_;
};

TEST_F(Namespaces, HaveRanks) {
  for (const char* scenario : {"collectives", "gradients", "training"}) {
    for (const ChildResult& result : Run(scenario, 60000)) {
      EXPECT_TRUE(Succeeded(result)) << scenario;
    }
  }
}
TEST_F(Namespaces, DivergenceOfBranchesIsRaised) {
  for (const ChildResult& result : Run("wrong_branch", 60000)) {
    EXPECT_TRUE(Succeeded(result));
    EXPECT_NE(result.output.find("rank 1: all_reduce reduction=\"max\""), std::string::npos)
        << result.output;
  }
}
TEST_F(Namespaces, FaultsOfAKilledRankAreSurvived) {
  std::vector<ChildResult> results = Run("killed", 60000);
  for (size_t rank = 0; rank + 1 < results.size(); ++rank) {
    EXPECT_TRUE(Succeeded(results[rank])) << "rank " << rank;
    EXPECT_NE(results[rank].output.find("has died"), std::string::npos) << results[rank].output;
    EXPECT_NE(results[rank].output.find("survived"), std::string::npos) << results[rank].output;
  }
}
TEST_F(Namespaces, FaultsOfARankThatIsCutOffAreSurvived) {
  std::vector<ChildResult> results = Run("cut_off", 5000);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_TRUE(Succeeded(results[rank])) << "rank " << rank;
    if (rank + 1 == results.size()) continue;
    EXPECT_NE(results[rank].output.find("does not answer"), std::string::npos)
        << results[rank].output;
    EXPECT_NE(results[rank].output.find("survived"), std::string::npos) << results[rank].output;
  }
}

}  // namespace
}  // namespace hammock
