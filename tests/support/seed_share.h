#pragma once
/// Seeds shared out over processes: with SEED_SHARE=2/8 in the environment, every eighth seed,
/// those that leave 2.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace hammock {

inline bool IsMySeed(uint64_t seed) {
  unsigned long long mine = 0, all = 1;
  const char* share = std::getenv("SEED_SHARE");
  if (share && (std::sscanf(share, "%llu/%llu", &mine, &all) != 2 || all == 0)) {
    std::fprintf(stderr, "SEED_SHARE is %s, needs to be like 2/8\n", share);
    std::abort();
  }
  return seed % all == mine;
}

}  // namespace hammock
