// Ranks that others start and that meet elsewhere: mpirun, a Redis server, `hammock launch`.

#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "distributed/programs.h"
#include "distributed/ranks.h"
#include "distributed/stores.h"
#include "hammock/error.h"

namespace hammock {
namespace {

using namespace hammock::testing;

std::string WhyMissing(const std::string& engine) {
  for (const distributed::EngineFact& fact : distributed::DescribeEngines()) {
    if (fact.name == engine) return fact.missing ? fact.text : "";
  }
  return "there is no engine " + engine;
}

// ---- mpirun

/// How one MPI starts ranks.
struct Mpi {
  const char* name;
  const char* package;
  const char* program;
  std::vector<std::string> flags, recovery_flags;
  std::string plugin;  // of Hammock for it; empty: the one beside the library
};

#ifndef HAMMOCK_MPICH_ENGINE
#define HAMMOCK_MPICH_ENGINE ""
#endif

const Mpi kOpenMpi = {.name = "OpenMpi",
                      .package = "openmpi-bin",
                      .program = "mpirun.openmpi",
                      .flags = {"--allow-run-as-root", "--oversubscribe"},
                      .recovery_flags = {"--enable-recovery"},
                      .plugin = ""};
const Mpi kMpich = {.name = "Mpich",
                    .package = "mpich",
                    .program = "mpiexec.mpich",
                    .flags = {},
                    .recovery_flags = {},
                    .plugin = HAMMOCK_MPICH_ENGINE};

class Mpirun : public ::testing::TestWithParam<Mpi> {
 protected:
  /// Why there are no such ranks; empty if there are.
  std::string WhyNot(const std::string& engine) const {
    if (program_.empty()) return std::string(GetParam().package) + " is not installed";
    const bool is_built = GetParam().name != kMpich.name || !GetParam().plugin.empty();
    if (engine == "mpi" && !is_built) return "its headers are missing (libmpich-dev)";
    return WhyMissing(engine);
  }
  ChildResult Run(const std::string& engine, const std::string& scenario) {
    return Run(engine, scenario, 2, 60000, {});
  }
  /// Ranks that may end without the others: the launcher's exit code says nothing then.
  ChildResult RunFault(const std::string& engine, const std::string& scenario, int timeout_ms) {
    return Run(engine, scenario, 3, timeout_ms, GetParam().recovery_flags);
  }

 private:
  ChildResult Run(const std::string& engine, const std::string& scenario, int ranks, int timeout_ms,
                  const std::vector<std::string>& flags) {
    std::vector<std::string> command = {"/usr/bin/env",
                                        "HAMMOCK_CPU_THREADS=1",
                                        "HAMMOCK_DISTRIBUTED_ENGINE=" + engine,
                                        "HAMMOCK_DISTRIBUTED_MPI_PLUGIN=" + GetParam().plugin,
                                        "HAMMOCK_DISTRIBUTED_STORE=" + folder_.path(),
                                        "HAMMOCK_DISTRIBUTED_TIMEOUT=" + std::to_string(timeout_ms),
                                        program_};
    for (const auto& words : {GetParam().flags, flags}) {
      command.insert(command.end(), words.begin(), words.end());
    }
    command.insert(command.end(),
                   {"-n", std::to_string(ranks), HAMMOCK_DISTRIBUTED_CHILD, scenario});
    return RunChild(command);
  }

  const std::string program_ = Installed(GetParam().program);
  TemporaryFolder folder_;
};

TEST_P(Mpirun, StartsRanks) {
  if (std::string why = WhyNot("gloo"); !why.empty()) GTEST_SKIP() << why;
  EXPECT_TRUE(Succeeded(Run("gloo", "collectives")));
}
TEST_P(Mpirun, FaultsOfAKilledRankAreSurvived) {
  if (GetParam().recovery_flags.empty()) GTEST_SKIP() << "this launcher ends survivors";
  if (std::string why = WhyNot("gloo"); !why.empty()) GTEST_SKIP() << why;
  const ChildResult result = RunFault("gloo", "killed", 60000);
  EXPECT_NE(result.output.find("survived"), std::string::npos) << result.output;
}
TEST_P(Mpirun, ConnectsRanksByMpi) {
  if (std::string why = WhyNot("mpi"); !why.empty()) GTEST_SKIP() << why;
  for (const char* scenario : {"collectives", "sizes", "groups", "training", "captured"}) {
    EXPECT_TRUE(Succeeded(Run("mpi", scenario))) << scenario;
  }
}
TEST_P(Mpirun, DivergenceOfBranchesIsRaisedByMpi) {
  if (std::string why = WhyNot("mpi"); !why.empty()) GTEST_SKIP() << why;
  const ChildResult result = RunFault("mpi", "wrong_branch", 60000);
  EXPECT_NE(result.output.find("rank 1: all_reduce reduction=\"max\""), std::string::npos);
}
/// MPI itself says nothing: the time limit does.
TEST_P(Mpirun, FaultsOfALateRankAreRaisedByMpi) {
  if (std::string why = WhyNot("mpi"); !why.empty()) GTEST_SKIP() << why;
  const ChildResult result = RunFault("mpi", "mpi_late", 5000);
  EXPECT_NE(result.output.find("does not answer"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("MPI cannot be used after a rank has failed"), std::string::npos)
      << result.output;
}
INSTANTIATE_TEST_SUITE_P(Of, Mpirun, ::testing::Values(kOpenMpi, kMpich),
                         [](const auto& info) { return info.param.name; });

// ---- Redis

class Redis : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string server = Installed("redis-server");
    if (server.empty()) GTEST_SKIP() << "redis-server is not installed";
    const std::string port = std::to_string(FreePort());
    where_ = "redis://127.0.0.1:" + port;
    server_.emplace(std::vector<std::string>{server, "--port", port, "--bind", "127.0.0.1",
                                             "--save", "", "--logfile", "/dev/null"});
    for (int attempt = 0; attempt < 500; ++attempt) {
      try {
        distributed::OpenStore(where_, "ready");
        return;
      } catch (const NotSupported& error) {
        GTEST_SKIP() << error.what();
      } catch (const Error&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    FAIL() << "the server does not answer";
  }
  std::vector<ChildResult> Run(const std::string& scenario) const {
    return RunRanks(3,
                    {"/usr/bin/env", "HAMMOCK_DISTRIBUTED_STORE=" + where_,
                     HAMMOCK_DISTRIBUTED_CHILD, scenario},
                    60000);
  }
  std::string where_;

 private:
  std::optional<Background> server_;
};

TEST_F(Redis, KeepsTheFirstOfSetOnce) {
  auto store = distributed::OpenStore(where_, "job");
  EXPECT_EQ(store->Get("key"), std::nullopt);
  const std::string bytes("a\0b\r\n% $", 8);
  store->Set(bytes, bytes);
  EXPECT_EQ(store->Get(bytes), bytes);
  EXPECT_EQ(store->SetOnce("once", "first"), "first");
  EXPECT_EQ(store->SetOnce("once", "second"), "first");
  EXPECT_EQ(distributed::OpenStore(where_, "other job")->Get("once"), std::nullopt);
}
TEST_F(Redis, IsWhereRanksMeet) {
  if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
  for (const char* scenario : {"collectives", "groups"}) {
    for (const ChildResult& result : Run(scenario)) EXPECT_TRUE(Succeeded(result)) << scenario;
  }
}
TEST_F(Redis, FaultsOfAKilledRankAreSurvived) {
  if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
  std::vector<ChildResult> results = Run("killed");
  for (size_t rank = 0; rank + 1 < results.size(); ++rank) {
    EXPECT_TRUE(Succeeded(results[rank])) << "rank " << rank;
  }
}

TEST(Stores, RefuseWhatIsNoServer) {
  try {
    distributed::OpenStore("redis://127.0.0.1:" + std::to_string(FreePort()), "job");
    FAIL() << "no error";
  } catch (const NotSupported& error) {
    GTEST_SKIP() << error.what();
  } catch (const DeviceError& error) {
    EXPECT_NE(error.message().find("Connection refused"), std::string::npos) << error.message();
  }
  EXPECT_THROW(distributed::OpenStore("redis://host:port", "job"), ValueError);
}

// ---- hammock launch, which ranks on hosts without a common folder meet at

#ifdef HAMMOCK_TOOL
/// Runs `command` as two ranks of two hosts, by a shell that is this script.
ChildResult LaunchBy(const std::string& script, const std::vector<std::string>& program) {
  TemporaryFolder folder;
  const std::string shell = folder.path() + "/shell";
  std::ofstream(shell) << "#!/bin/sh\n" << script;
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  std::vector<std::string> command = {HAMMOCK_TOOL, "launch",    "-n",        "2",       "--hosts",
                                      "a,b",        "--address", "127.0.0.1", "--shell", shell};
  command.insert(command.end(), program.begin(), program.end());
  return RunChild(command);
}

TEST(Launch, TellsOtherHostsWhatARankNeedsAlone) {
  const ChildResult result = LaunchBy("echo \"$1: $2\"\n", {"./train", "it's"});
  EXPECT_TRUE(Succeeded(result));
  const std::string folder = std::filesystem::current_path();
  for (const char* rank : {"0", "1"}) {
    const std::string begin = fmt::format(
        "[{0}] {1}: cd '{2}' && exec env 'RANK={0}' 'WORLD_SIZE=2' 'LOCAL_RANK=0' "
        "'HAMMOCK_DISTRIBUTED_STORE=redis://127.0.0.1:",
        rank, *rank == '0' ? "a" : "b", folder);
    const size_t at = result.output.find(begin);
    ASSERT_NE(at, std::string::npos) << result.output;
    const std::string rest = result.output.substr(at + begin.size());
    const std::string end = rest.substr(0, rest.find('\n'));
    EXPECT_EQ(end.substr(end.find('\'')), R"(' './train' 'it'\''s')");
  }
}

TEST(Launch, SaysHowRanksEnded) {
  const ChildResult result = LaunchBy("[ $1 = a ] && exit 255\nkill -KILL $$\n", {"./train"});
  EXPECT_EQ(result.code, 255);
  EXPECT_NE(result.output.find("rank 0 exited with 255"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("rank 1 was ended by signal 9"), std::string::npos) << result.output;
}

/// Also one that comes when not all are started.
TEST(Launch, PassesSignalsToTheShellsOfOtherHosts) {
  for (int round = 0; round < 5; ++round) {
    const ChildResult result = LaunchBy(
        "trap 'echo ended; exit 3' TERM\n"
        "[ $1 = a ] && kill -TERM $PPID\n"
        "for i in $(seq 600); do sleep 0.05; done\n"
        "echo not told\n",
        {"./train"});
    EXPECT_EQ(result.output.find("not told"), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("[0] ended"), std::string::npos) << result.output;
  }
}

TEST(Launch, IsWhereRanksOfSeveralHostsMeet) {
  if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
  try {
    distributed::OpenStore("redis://127.0.0.1:1", "job");
  } catch (const NotSupported& error) {
    GTEST_SKIP() << error.what();
  } catch (const Error&) {  // there is a plug-in
  }
  TemporaryFolder folder;
  const std::string shell = folder.path() + "/shell";
  std::ofstream(shell) << "#!/bin/sh\nexec sh -c \"$2\"\n";
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  const ChildResult result =
      RunChild({"/usr/bin/env", "HAMMOCK_DISTRIBUTED_TIMEOUT=60000", "HAMMOCK_CPU_THREADS=1",
                HAMMOCK_TOOL, "launch", "-n", "4", "--hosts", "a,b", "--address", "127.0.0.1",
                "--shell", shell, HAMMOCK_DISTRIBUTED_CHILD, "collectives"});
  EXPECT_TRUE(Succeeded(result));
}

/// Whatever connects to the port, such as a scan: the server drops it and serves the others.
TEST(Launch, DropsWhoSpeaksOtherwise) {
  const std::string bash = Installed("bash");
  if (bash.empty()) GTEST_SKIP() << "bash is not installed";
  TemporaryFolder folder;
  const std::string shell = folder.path() + "/shell";
  std::ofstream(shell) << "#!" << bash << R"sh(
port=$(grep -o 'redis://127.0.0.1:[0-9]*' <<< "$2" | grep -o '[0-9]*$')
for text in '\r\n' 'GET / HTTP/1.1\r\n' '*-1\r\n' '*2\r\n\r\n' "$(printf '*%030d' 0)"; do
  exec 3<> /dev/tcp/127.0.0.1/$port
  printf "$text" >&3
  read -r -t 60 answer <&3 && echo "an answer to $text: $answer"
  exec 3>&-
done
exec 3<> /dev/tcp/127.0.0.1/$port
printf '*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n' >&3
read -r -t 60 answer <&3
[ "$answer" = $'$-1\r' ]
)sh";
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  const ChildResult result = RunChild({HAMMOCK_TOOL, "launch", "-n", "1", "--hosts", "a",
                                       "--address", "127.0.0.1", "--shell", shell, "program"});
  EXPECT_TRUE(Succeeded(result));
  EXPECT_EQ(result.output.find("an answer"), std::string::npos) << result.output;
}
#endif

}  // namespace
}  // namespace hammock
