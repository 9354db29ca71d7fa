#pragma once
/// LaunchConfig: how the elements of a kernel are mapped to the threads and blocks of a GPU.
///
/// Note [Reductions on a GPU]: element i of a reduction over n is combined into accumulator i mod
/// A, in order, where A is n rounded up to a power of two, at most 1024. The accumulators are
/// combined as a tree over the bits of their numbers: bits 0, 1 and 2, then from the highest one
/// down to bit 3. So the result depends on the extent alone. Threads hold accumulators as suits the
/// memory: along a row the lowest bits are one wide load, and the highest bits are further loads of
/// the same thread; across rows a thread holds as many of the lowest three bits as registers allow.
/// The bits above these three that are combined last may be passes over the line, one after another
/// or, if only one stage has elements, each by a block of its own: the results of a pass go to
/// scratch memory, and the last block to arrive combines them.

#include <cstdint>
#include <string>
#include <vector>

#include "hammock/compiler/kernel.h"

namespace hammock::cuda {

inline constexpr int64_t kMostAccumulators = 1024;
inline constexpr int kTileSide = 32;
inline constexpr int kMostSplitBlocks = 4096;  ///< along x, where passes are blocks
inline constexpr int64_t kCounterBytes = int64_t{kMostSplitBlocks} * 4;
int64_t AccumulatorsOf(int64_t extent);

/// The launch configuration. With the kernel of the loop IR, it determines the kernel's text.
/// Numbers of threads, accumulators and elements are powers of two.
struct LaunchConfig {
  enum class Way : uint8_t {
    kMap,     ///< no reduction: a thread has some elements of a line
    kRow,     ///< `threads` threads share a line and its reductions
    kColumn,  ///< neighbouring lanes have neighbouring lines; `threads` of them share a line
    kTile,    ///< as kMap, but by tiles of 32 x 32, because some loads are contiguous along rows
  };
  Way way = Way::kMap;
  int outer_dims = 0;
  bool wide_index = false;  ///< indices do not fit into 32 bits
  int vector = 1;           ///< contiguous elements; in kColumn, of neighbouring lines
  int threads = 256;        ///< along the columns
  int lines = 1;            ///< of a block; in kColumn, vectors of lines
  int slots = 1;            ///< vectors of a thread, in one iteration
  bool line_slots = false;  ///< in kMap, slots are lines; what all lines share is loaded once
  int line_iterations = 1;  ///< of each thread, with `line_slots`
  int passes = 1;           ///< over a line, each for some of its accumulators
  bool split = false;       ///< passes are blocks
  bool whole = false;    ///< one iteration covers a row: values for later stages stay in registers
  bool even = false;     ///< every iteration of every thread is full
  int accumulators = 1;  ///< of a reduction
  std::vector<bool> is_wide;        ///< by access: wide loads are aligned
  std::vector<bool> is_transposed;  ///< by access: a tile is loaded along the rows; empty if none

  bool maps() const { return way == Way::kMap || way == Way::kTile; }
  int block_threads() const { return threads * lines; }
  int column_slots() const { return line_slots ? 1 : slots; }  ///< vectors of one line
  int lines_of_thread() const { return line_slots ? slots * line_iterations : 1; }
  bool operator==(const LaunchConfig&) const = default;
};

std::string ToText(const LaunchConfig& config);

/// The grid and block sizes of one launch.
struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned block_x = 1;
  unsigned block_y = 1;
  bool empty() const { return x == 0 || y == 0; }
};

/// Buffers begin at multiples of 16 bytes.
LaunchConfig ConfigureLaunch(const compiler::Launch& launch);
/// The same for a launch that shares a grid with others, with blocks of that many threads, at least
/// as many as ConfigureLaunch's. Different sizes of one kernel have the same configuration more
/// often than there.
LaunchConfig ConfigureJointLaunch(const compiler::Launch& launch, int block_threads);
Grid GridOf(const compiler::Launch& launch, const LaunchConfig& config);
/// Scratch memory for values that stages pass to later ones.
int64_t ScratchBytes(const compiler::Launch& launch, const LaunchConfig& config);

/// The arguments of a kernel, 64 bits each. `buffers` are addresses, or
/// empty: then they count as 0; `scratch` is the address of the scratch memory, `counters` that of
/// Machine::Counters, for launches whose passes are blocks.
std::vector<uint64_t> KernelArguments(const compiler::Launch& launch, const LaunchConfig& config,
                                      const compiler::BufferMap<uint64_t>& buffers,
                                      uint64_t scratch, uint64_t counters);
/// The indices of a kernel's arguments.
struct ArgumentIndices {
  int columns = 0, rows = 1, lines = 2;
  int outer_dims;
  int Extent(int dim) const { return 3 + dim; }
  int Access(int access) const { return 3 + outer_dims + access * (3 + outer_dims); }
  int Row(int access) const { return Access(access) + 1; }
  int Column(int access) const { return Access(access) + 2; }  ///< of random words: the offset
  int Outer(int access, int dim) const { return Access(access) + 3 + dim; }
  int Parts(int accesses) const { return Access(accesses); }        ///< of passes that are blocks
  int Counters(int accesses) const { return Parts(accesses) + 1; }  ///< of such blocks
  int Count(int accesses, bool split) const { return Access(accesses) + (split ? 2 : 0); }
};

}  // namespace hammock::cuda
