/// A store in a Redis server, by hiredis. `hammock launch` serves the same commands.

#include "distributed/redis/plugin.h"

#include <hiredis.h>

#include <chrono>
#include <mutex>
#include <stdexcept>

namespace {

// Keys outlive the longest attempt to start or to end a job, and do not pile up.
constexpr int kKeptSeconds = 7 * 24 * 3600;
constexpr timeval kTimeout = {1, 0};
// A rank that is cut off asks often, and must not wait each time.
constexpr std::chrono::seconds kGivenUpFor{5};

struct Freed {
  void operator()(redisContext* context) const { redisFree(context); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, Freed>;
using Reply = std::unique_ptr<redisReply, Freed>;
using Clock = std::chrono::steady_clock;

class RedisStore : public hammock::distributed::Store {
 public:
  RedisStore(std::string host, int port, std::string prefix)
      : host_(std::move(host)), port_(port), prefix_(std::move(prefix)) {
    std::lock_guard lock(mutex_);
    Connect();
  }

  void Set(const std::string& key, const std::string& value) override {
    Ask("SET %b %b EX %d", key, value);
  }
  std::optional<std::string> Get(const std::string& key) override {
    Reply reply = Ask("GET %b", key, "");
    if (reply->type == REDIS_REPLY_NIL) return std::nullopt;
    return std::string(reply->str, reply->len);
  }
  std::string SetOnce(const std::string& key, const std::string& value) override {
    Ask("SET %b %b EX %d NX", key, value);
    std::optional<std::string> present = Get(key);
    if (!present) throw std::runtime_error(Where() + ": the key " + key + " is gone");
    return *present;
  }

 private:
  std::string Where() const { return "redis://" + host_ + ":" + std::to_string(port_); }

  /// With the mutex held.
  void Connect() {
    if (Clock::now() < given_up_until_) throw std::runtime_error(Where() + ": does not answer");
    context_.reset(redisConnectWithTimeout(host_.c_str(), port_, kTimeout));
    if (!context_ || context_->err != 0) {
      const std::string why = context_ ? context_->errstr : "no memory";
      context_.reset();
      given_up_until_ = Clock::now() + kGivenUpFor;
      throw std::runtime_error(Where() + ": " + why);
    }
    redisSetTimeout(context_.get(), kTimeout);
  }

  /// A connection that broke is made again once.
  Reply Ask(const char* command, const std::string& key, const std::string& value) {
    const std::string whole = prefix_ + key;
    std::lock_guard lock(mutex_);
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (!context_ || context_->err != 0) Connect();
      Reply reply(
          static_cast<redisReply*>(redisCommand(context_.get(), command, whole.data(), whole.size(),
                                                value.data(), value.size(), kKeptSeconds)));
      if (!reply) continue;
      if (reply->type != REDIS_REPLY_ERROR) return reply;
      throw std::runtime_error(Where() + ": " + std::string(reply->str, reply->len));
    }
    throw std::runtime_error(Where() + ": " + context_->errstr);
  }

  const std::string host_;
  const int port_;
  const std::string prefix_;
  std::mutex mutex_;
  Context context_;                        // guarded
  Clock::time_point given_up_until_ = {};  // guarded
};

std::unique_ptr<hammock::distributed::Store> Open(const std::string& host, int port,
                                                  const std::string& prefix) {
  return std::make_unique<RedisStore>(host, port, prefix);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const HammockRedisTableV1* HammockRedisTable() {
  static constexpr HammockRedisTableV1 kTable = {HAMMOCK_REDIS_ABI, Open};
  return &kTable;
}
