#include "compiler/sizes/derived_sizes.h"

#include <algorithm>

#include "base/throw.h"

namespace hammock {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

bool IsFree(const DerivedSizes& derived, size_t p) {
  return p >= derived.size() || derived[p].factors.empty();
}

}  // namespace

int64_t ValueOf(const lazy::DerivedSize& derived, std::span<const int64_t> sizes) {
  int64_t value = derived.coefficient;
  bool overflows = false;
  for (int factor : derived.factors) {
    overflows |= __builtin_mul_overflow(value, sizes[factor], &value);
  }
  overflows |= __builtin_add_overflow(value, derived.offset, &value);
  if (overflows) Throw(ErrorCode::kValue, "a size overflows");
  return FloorDivide(value, derived.divisor);
}

std::vector<int64_t> AllSizes(const DerivedSizes& derived, std::span<const int64_t> free) {
  if (derived.empty()) return {free.begin(), free.end()};
  std::vector<int64_t> sizes(derived.size());
  std::vector<bool> known(derived.size());
  auto next = free.begin();
  for (size_t p = 0; p < sizes.size(); ++p) {
    known[p] = IsFree(derived, p);
    if (known[p]) sizes[p] = *next++;
  }
  // A parameter may follow from a later one.
  for (bool found = true; found;) {
    found = false;
    for (size_t p = 0; p < sizes.size(); ++p) {
      auto is_known = [&](int factor) { return known[factor]; };
      if (known[p] || !std::ranges::all_of(derived[p].factors, is_known)) continue;
      sizes[p] = ValueOf(derived[p], sizes);
      known[p] = found = true;
    }
  }
  HAMMOCK_CHECK(!std::ranges::count(known, false), "derived sizes go round in a circle");
  return sizes;
}

bool AppendDerived(const DerivedSizes& derived, std::vector<int64_t>& sizes) {
  try {
    while (sizes.size() < derived.size()) sizes.push_back(ValueOf(derived[sizes.size()], sizes));
    return true;
  } catch (const ValueError&) {
    return false;
  }
}

std::optional<std::vector<int64_t>> FreeSizes(const DerivedSizes& derived,
                                              std::span<const int64_t> sizes) {
  std::vector<int64_t> free;
  for (size_t p = 0; p < sizes.size(); ++p) {
    if (IsFree(derived, p)) {
      free.push_back(sizes[p]);
      continue;
    }
    try {
      if (ValueOf(derived[p], sizes) != sizes[p]) return std::nullopt;
    } catch (const ValueError&) {  // it overflows, so it is not the size
      return std::nullopt;
    }
  }
  return free;
}

SizeCoordinates::SizeCoordinates(const DerivedSizes& derived, size_t free_count) {
  /// The longest chain of quotients that begins at a parameter.
  auto chain_of = [&](auto& self, int parameter) -> std::vector<Division> {
    std::vector<Division> longest;
    for (size_t p = 0; p < derived.size(); ++p) {
      const lazy::DerivedSize& from = derived[p];
      if (from.divisor == 1 || from.coefficient != 1) continue;
      if (from.factors != std::vector<int>{parameter}) continue;
      std::vector<Division> chain = self(self, static_cast<int>(p));
      chain.insert(chain.begin(), {from.offset, from.divisor});
      if (chain.size() > longest.size()) longest = std::move(chain);
    }
    return longest;
  };
  for (size_t p = 0; chains_.size() < free_count; ++p) {
    if (!IsFree(derived, p)) continue;
    int free = static_cast<int>(chains_.size());
    chains_.push_back(chain_of(chain_of, static_cast<int>(p)));
    coordinates_.push_back({free, 0});
    for (const Division& division : chains_.back()) {
      coordinates_.push_back({free, division.divisor - 1});
    }
  }
}

std::vector<int64_t> SizeCoordinates::Of(std::span<const int64_t> free) const {
  std::vector<int64_t> result;
  for (size_t f = 0; f < free.size(); ++f) {
    size_t quotient = result.size();
    result.push_back(free[f]);
    for (auto [offset, divisor] : chains_[f]) {
      int64_t size = result[quotient] + offset;
      result[quotient] = FloorDivide(size, divisor);
      result.push_back(size - divisor * result[quotient]);
    }
  }
  return result;
}

std::vector<int64_t> SizeCoordinates::FreeAt(std::span<const int64_t> coordinates) const {
  std::vector<int64_t> free;
  size_t at = 0;
  for (const std::vector<Division>& chain : chains_) {
    int64_t size = coordinates[at];
    for (size_t i = chain.size(); i > 0; --i) {
      size = chain[i - 1].divisor * size + coordinates[at + i] - chain[i - 1].offset;
    }
    free.push_back(size);
    at += 1 + chain.size();
  }
  return free;
}

}  // namespace hammock
