#pragma once
/// The interface of `libhammock-redis.so`: one function that returns one table. Exceptions that
/// cross it are those of the standard library.

#include <cstdint>
#include <memory>
#include <string>

#include "hammock/distributed/engine.h"

#define HAMMOCK_REDIS_ABI 1
#define HAMMOCK_REDIS_ENTRY "HammockRedisTable"

struct HammockRedisTableV1 {
  uint32_t abi;
  /// A store of a server, in which keys have a prefix.
  std::unique_ptr<hammock::distributed::Store> (*open)(const std::string& host, int port,
                                                       const std::string& prefix);
};

/// The only exported function. May be called by several threads.
extern "C" const HammockRedisTableV1* HammockRedisTable();
