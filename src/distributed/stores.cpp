#include "distributed/stores.h"

#include <charconv>

#include "base/plugin_library.h"
#include "base/throw.h"
#include "distributed/file_store.h"
#include "distributed/redis/plugin.h"
#include "hammock/config.h"

namespace hammock::distributed {
namespace {

constinit config::Option<std::string> kRedisPlugin({
    .name = "distributed.redis_plugin",
    .default_value = "",
    .doc = "File of the plug-in by which ranks meet through a server; empty: `libhammock-redis.so` "
           "beside the library, or where the system finds it.",
});

constexpr std::string_view kRedis = "redis://";
constexpr int kRedisPort = 6379;

/// The result of `call` of a server's store; DeviceError where the server does not answer.
template <class Fn>
auto Asked(const Fn& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    Throw<DeviceError>(ErrorCode::kDevice, "distributed: {}", error.what());
  }
}

class ServerStore : public Store {
 public:
  explicit ServerStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  void Set(const std::string& key, const std::string& value) override {
    Asked([&] { store_->Set(key, value); });
  }
  std::optional<std::string> Get(const std::string& key) override {
    return Asked([&] { return store_->Get(key); });
  }
  std::string SetOnce(const std::string& key, const std::string& value) override {
    return Asked([&] { return store_->SetOnce(key, value); });
  }

 private:
  const std::unique_ptr<Store> store_;
};

std::shared_ptr<Store> OpenRedis(const std::string& where, const std::string& job) {
  const PluginLibrary::Opened& opened = OpenPlugin<kRedisPlugin>({
      .file = "libhammock-redis.so",
      .entry = HAMMOCK_REDIS_ENTRY,
      .abi = HAMMOCK_REDIS_ABI,
      .without = "ranks cannot meet through a server without its plug-in (libhiredis-dev; option "
                 "distributed.redis_plugin)",
  });
  const auto& table = opened.TableFor<HammockRedisTableV1>("redis");
  std::string host = where.substr(kRedis.size());
  int port = kRedisPort;
  if (const size_t colon = host.rfind(':'); colon != host.npos) {
    const char* end = host.data() + host.size();
    auto [last, error] = std::from_chars(host.data() + colon + 1, end, port);
    if (error != std::errc() || last != end || port < 1 || port > 65535) {
      Throw(ErrorCode::kValue, "distributed: the store is '{}', needs redis://host:port", where);
    }
    host.resize(colon);
  }
  return std::make_shared<ServerStore>(
      Asked([&] { return table.open(host, port, "hammock/" + job + "/"); }));
}

}  // namespace

std::shared_ptr<Store> OpenStore(const std::string& where, const std::string& job) {
  if (where.starts_with(kRedis)) return OpenRedis(where, job);
  return std::make_shared<FileStore>(where + "/" + job);
}

}  // namespace hammock::distributed
