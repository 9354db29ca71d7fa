#pragma once
/// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy
/// as 1, 2, 3" (SC 2011). Every backend draws the same words, because they depend on the seed and
/// the position alone.
///
/// A stream is named by (seed, offset). Block j of it is Philox of the 128-bit counter
/// (offset + j, 0) under the seed's two halves as key, and word i is lane i % 4 of block i / 4. A
/// draw of n words therefore takes the blocks [offset, offset + (n + 3) / 4); the next draw from
/// the same seed starts behind them.

#include <array>
#include <cstdint>

namespace hammock::philox {

using Block = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

/// Ten rounds over one counter, least significant word first.
constexpr Block Philox4x32(Block counter, Key key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0];
    uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

/// Block `offset + block` of the stream; the sum wraps.
constexpr Block StreamBlock(uint64_t seed, uint64_t offset, uint64_t block) {
  uint64_t position = offset + block;
  return Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

/// Word `i` of the stream.
constexpr uint32_t StreamWord(uint64_t seed, uint64_t offset, uint64_t i) {
  return StreamBlock(seed, offset, i / 4)[i % 4];
}

/// How far a draw of `words` moves the offset.
constexpr uint64_t BlocksFor(uint64_t words) { return words / 4 + (words % 4 != 0); }

}  // namespace hammock::philox
