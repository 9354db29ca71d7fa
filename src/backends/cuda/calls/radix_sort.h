#pragma once
/// Sorting of long rows by the digits of their keys, the lowest first.
/// Note [Radix sort]. The values of all digits are counted first, so that each pass knows where the
/// items of a value begin. A pass moves each tile by itself: a block ranks its items by the digit,
/// each warp in the order of its lanes, and puts them in order in shared memory, so that equal
/// digits are written contiguously. The number of equal digits in earlier tiles is found by looking
/// back: each tile notes its counts as soon as it has them, and the sum over all tiles before it
/// when it knows that. Tiles are numbered by a ticket, so they only wait for tiles that have begun.
/// A digit that is the same in the whole row is skipped; the first pass reads the caller's
/// operands, the last one writes its results. Equal keys keep their order, so there is one result.

#include <string>
#include <vector>

#include "backends/cuda/calls/call_kit.h"

namespace hammock::cuda {

/// The items to sort, and the device code that reads and writes them.
struct RadixItems {
  int64_t rows = 1;
  int64_t extent = 0;         ///< items of a row
  int key_bytes = 4;          ///< of a key as it is carried
  int load_bytes = 4;         ///< of the load that goes with it
  int key_bits = 32;          ///< that differ, from the lowest
  bool narrows = false;       ///< whether to look for the range of keys first: it may be small
  std::string file = {};      ///< in device/, with the type of items
  std::string type = {};      ///< of items, as radix_sort.cuh describes it
  size_t argument_bytes = 0;  ///< of the type's arguments
};

class RadixSorter {
 public:
  explicit RadixSorter(RadixItems items);

  std::vector<KernelSource> Sources() const;
  size_t kernels() const { return items_.narrows ? 4 : 3; }
  int64_t scratch_bytes() const;
  /// `functions` are those of Sources, `arguments` those of the items.
  void Run(Machine& machine, std::span<const Function* const> functions, Address scratch,
           const std::vector<uint64_t>& arguments) const;

 private:
  std::string StateType() const;
  int64_t StateBytes() const;

  RadixItems items_;
  int each_;       // items of a thread
  int64_t tiles_;  // of a row
  int passes_;
  int width_;      // bits of a digit
  int64_t parts_;  // of a row, for the blocks that count
  int64_t part_;   // items of such a block
};

}  // namespace hammock::cuda
