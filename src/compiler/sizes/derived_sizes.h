#pragma once
/// Dim parameters that follow from others, and coordinates in which all of them are linear.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hammock/lazy/lowering_context.h"

namespace hammock {

/// By parameter; see lazy::DerivedSize. Empty: all are free.
using DerivedSizes = std::vector<lazy::DerivedSize>;

namespace lazy {
template <class Io>
void Fields(Io& io, DerivedSize& size) {
  io(size.coefficient, size.factors, size.offset, size.divisor);
}
}  // namespace lazy

/// ValueError where it overflows.
int64_t ValueOf(const lazy::DerivedSize& derived, std::span<const int64_t> sizes);

/// The values of the free parameters; nothing where one of the others does not follow from them.
std::optional<std::vector<int64_t>> FreeSizes(const DerivedSizes& derived,
                                              std::span<const int64_t> sizes);
/// Adds the last parameters, which follow from those that are given; false where one overflows.
bool AppendDerived(const DerivedSizes& derived, std::vector<int64_t>& sizes);
/// The values of all parameters.
std::vector<int64_t> AllSizes(const DerivedSizes& derived, std::span<const int64_t> free);

/// Note [Size coordinates]
/// A size that was divided and rounded down is no polynomial in the size it came from, but both are
/// linear in the quotient and the remainder: with q = (h + b) / d and r = (h + b) % d, h is
/// d*q + r - b. So are the sizes of a chain of quotients (the levels of a convolutional network) in
/// the last quotient and all remainders. The coordinates of free sizes are, for each of them, the
/// last quotient of its longest chain, or the size itself without one, then the remainders. Any
/// values in their bounds are coordinates of sizes.
class SizeCoordinates {
 public:
  struct Coordinate {
    int free = 0;      ///< the free parameter that it belongs to
    int64_t most = 0;  ///< of a remainder; 0 without a bound
  };

  SizeCoordinates() = default;
  SizeCoordinates(const DerivedSizes& derived, size_t free_count);

  const std::vector<Coordinate>& coordinates() const { return coordinates_; }
  std::vector<int64_t> Of(std::span<const int64_t> free) const;
  std::vector<int64_t> FreeAt(std::span<const int64_t> coordinates) const;

  template <class Io>
  friend void Fields(Io& io, Coordinate& coordinate) {
    io(coordinate.free, coordinate.most);
  }
  template <class Io>
  friend void Fields(Io& io, SizeCoordinates& coordinates) {
    io(coordinates.chains_, coordinates.coordinates_);
  }

 private:
  struct Division {
    int64_t offset, divisor;

    template <class Io>
    friend void Fields(Io& io, Division& division) {
      io(division.offset, division.divisor);
    }
  };
  std::vector<std::vector<Division>> chains_;  // by free parameter
  std::vector<Coordinate> coordinates_;
};

}  // namespace hammock
