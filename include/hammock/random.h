#pragma once
/// Random numbers: counter-based (Philox4x32-10), so the same seed gives the same integers and
/// uniforms on every backend. A random op takes its (seed, offset) when it is traced; a new seed
/// never recompiles.

#include <cstdint>
#include <memory>
#include <utility>

#include "hammock/export.h"
#include "hammock/location.h"

namespace hammock {

/// A stream of offsets under one seed. Copies share the stream; thread-safe.
class HAMMOCK_API Generator {
 public:
  explicit Generator(uint64_t seed);
  void manual_seed(uint64_t seed);  ///< also rewinds
  uint64_t seed() const;
  uint64_t offset() const;
  void set_offset(uint64_t offset);
  /// Takes `blocks` blocks of four words; returns (seed, offset of the first).
  std::pair<uint64_t, uint64_t> Take(uint64_t blocks);
  /// The generator that ops use when given none.
  static Generator& Default();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Seeds the default generator and tells every backend (SetRngSeed).
HAMMOCK_API void manual_seed(uint64_t seed, Location at = Location::current());

}  // namespace hammock
