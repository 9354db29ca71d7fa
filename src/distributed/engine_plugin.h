#pragma once
/// The interface of plug-ins that are engines (`libhammock-gloo.so`, `libhammock-mpi.so`): one
/// function that returns one table. Exceptions that cross it are those of the standard library.

#include <cstdint>
#include <memory>

#include "hammock/distributed/engine.h"

#define HAMMOCK_ENGINE_ABI 1
#define HAMMOCK_ENGINE_ENTRY "HammockEngineTable"

struct HammockEngineTableV1 {
  uint32_t abi;
  std::unique_ptr<hammock::distributed::Engine> (*connect)(
      const hammock::distributed::EngineSpec& spec);
};

/// The only exported function. May be called by several threads.
extern "C" const HammockEngineTableV1* HammockEngineTable();
