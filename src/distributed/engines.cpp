#include <map>
#include <mutex>

#include "base/never_destroyed.h"
#include "base/plugin_library.h"
#include "base/throw.h"
#include "distributed/engine_plugin.h"
#include "distributed/group.h"
#include "hammock/config.h"

namespace hammock::distributed {
namespace {

constinit config::Option<std::string> kEngine({
    .name = "distributed.engine",
    .default_value = "gloo",
    .doc = "The engine that connects ranks: `gloo`, `mpi`, or one that a library registered.",
});

constinit config::Option<std::string> kGlooPlugin({
    .name = "distributed.gloo_plugin",
    .default_value = "",
    .doc = "File of the plug-in that connects ranks by Gloo; empty: `libhammock-gloo.so` beside "
           "the library, or where the system finds it.",
});

constinit config::Option<std::string> kMpiPlugin({
    .name = "distributed.mpi_plugin",
    .default_value = "",
    .doc = "File of the plug-in that connects ranks by MPI; empty: `libhammock-mpi.so` beside the "
           "library, or where the system finds it.",
});

const PluginLibrary::Opened& OpenedGloo() {
  return OpenPlugin<kGlooPlugin>({
      .file = "libhammock-gloo.so",
      .entry = HAMMOCK_ENGINE_ENTRY,
      .abi = HAMMOCK_ENGINE_ABI,
      .without = "ranks are not connected without the Gloo plug-in (libgloo-dev; option "
                 "distributed.gloo_plugin)",
  });
}

const PluginLibrary::Opened& OpenedMpi() {
  return OpenPlugin<kMpiPlugin>({
      .file = "libhammock-mpi.so",
      .entry = HAMMOCK_ENGINE_ENTRY,
      .abi = HAMMOCK_ENGINE_ABI,
      .without = "ranks are not connected by MPI without its plug-in (libopenmpi-dev; option "
                 "distributed.mpi_plugin)",
  });
}

std::unique_ptr<Engine> ConnectBy(const char* name, const PluginLibrary::Opened& opened,
                                  const EngineSpec& spec) {
  return opened.TableFor<HammockEngineTableV1>(name).connect(spec);
}

struct Entry {
  EngineFactory connect;
  std::function<std::string()> why_missing = [] { return ""; };
};

struct Table {
  std::mutex mutex;
  std::map<std::string, Entry> engines = {
      {"gloo",
       {[](const EngineSpec& spec) { return ConnectBy("gloo", OpenedGloo(), spec); },
        [] { return OpenedGloo().reason; }}},
      {"mpi",
       {[](const EngineSpec& spec) { return ConnectBy("mpi", OpenedMpi(), spec); },
        [] { return OpenedMpi().reason; }}},
  };
};

Table& Engines() {
  static auto& table = NeverDestroyed<Table>();
  return table;
}

}  // namespace

void RegisterEngine(const std::string& name, EngineFactory factory) {
  Table& table = Engines();
  std::lock_guard lock(table.mutex);
  if (!table.engines.emplace(name, Entry{std::move(factory)}).second) {
    Throw(ErrorCode::kDuplicateRegistration, "distributed: the engine '{}' is already registered",
          name);
  }
}

std::vector<EngineFact> DescribeEngines() {
  Table& table = Engines();
  std::lock_guard lock(table.mutex);
  std::vector<EngineFact> facts;
  for (const auto& [name, entry] : table.engines) {
    const std::string missing = entry.why_missing();
    facts.push_back({name, missing.empty() ? "connects ranks" : missing, !missing.empty()});
  }
  return facts;
}

std::unique_ptr<Engine> ConnectEngine(const EngineSpec& spec) {
  const std::string& name = config::Get<kEngine>();
  EngineFactory factory;
  {
    Table& table = Engines();
    std::lock_guard lock(table.mutex);
    auto found = table.engines.find(name);
    if (found == table.engines.end()) {
      Throw(ErrorCode::kUnknownName, "distributed: there is no engine '{}'", name);
    }
    factory = found->second.connect;
  }
  return factory(spec);
}

}  // namespace hammock::distributed
