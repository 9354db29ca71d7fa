#include "distributed/exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "ir/convert.h"

namespace hammock::distributed {
namespace {

// A message is worked on in pieces, so that memory for what comes from the others stays small, and
// what is under way at once has the whole time limit: a slow network is no late rank.
constexpr size_t kPieceBytes = size_t{4} << 20;
// Below this size of a message every rank reduces all of it: one exchange, not two.
constexpr size_t kSmallBytes = size_t{8} << 10;

template <class T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<Half> {
  using Type = float;
};
template <>
struct Wide<BFloat16> {
  using Type = float;
};
template <>
struct Wide<bool> {
  using Type = uint8_t;
};

/// NaN wins, as in `amin` and `amax`; integers wrap.
template <class W>
W Combine(Reduction reduction, W a, W b) {
  using Unsigned = std::conditional_t<std::is_integral_v<W>, uint64_t, W>;
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      return static_cast<W>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    case Reduction::kProd:
      return static_cast<W>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
    case Reduction::kMin:
      return b < a || b != b ? b : a;
    case Reduction::kMax:
      return b > a || b != b ? b : a;
  }
  return a;
}

/// Elements of all ranks, which are to be reduced.
template <class T>
struct Parts {
  const T* received;  ///< those of rank r begin `stride` elements behind those of the one before it
  size_t stride, ranks;
  const T* own;  ///< of this rank, which need not be among those received
  size_t rank;
  const T* Of(size_t of) const { return of == rank ? own : received + of * stride; }
};

/// out[i] = element i of rank 0 + element i of rank 1 + ... `out` may be `parts.own`.
template <class T, Reduction reduction>
void Reduce(const Parts<T>& parts, T* out, size_t count) {
  using W = typename Wide<T>::Type;
  constexpr size_t kBlock = 1024;
  W sums[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    const T* first = parts.Of(0) + begin;
    for (size_t i = 0; i < block; ++i) sums[i] = static_cast<W>(first[i]);
    for (size_t rank = 1; rank < parts.ranks; ++rank) {
      const T* part = parts.Of(rank) + begin;
      for (size_t i = 0; i < block; ++i) {
        if constexpr (std::same_as<T, bool>) {
          sums[i] = reduction == Reduction::kMin || reduction == Reduction::kProd
                        ? sums[i] & static_cast<W>(part[i])
                        : sums[i] | static_cast<W>(part[i]);
        } else {
          sums[i] = distributed::Combine<W>(reduction, sums[i], static_cast<W>(part[i]));
        }
      }
    }
    for (size_t i = 0; i < block; ++i) {
      if constexpr (reduction == Reduction::kMean) {
        sums[i] = static_cast<W>(sums[i] / W(parts.ranks));
      }
      out[begin + i] = static_cast<T>(sums[i]);
    }
  }
}

template <class T>
void ReduceBy(Reduction reduction, const Parts<T>& parts, T* out, size_t count) {
  switch (reduction) {
    case Reduction::kSum:
      return Reduce<T, Reduction::kSum>(parts, out, count);
    case Reduction::kMean:
      return Reduce<T, Reduction::kMean>(parts, out, count);
    case Reduction::kMin:
      return Reduce<T, Reduction::kMin>(parts, out, count);
    case Reduction::kMax:
      return Reduce<T, Reduction::kMax>(parts, out, count);
    case Reduction::kProd:
      return Reduce<T, Reduction::kProd>(parts, out, count);
  }
}

void ReduceParts(DType dtype, Reduction reduction, const Parts<char>& parts, char* out,
                 size_t count) {
  VisitDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    const Parts<T> typed = {reinterpret_cast<const T*>(parts.received), parts.stride, parts.ranks,
                            reinterpret_cast<const T*>(parts.own), parts.rank};
    ReduceBy<T>(reduction, typed, reinterpret_cast<T*>(out), count);
  });
}

size_t WidthOf(DType dtype) { return static_cast<size_t>(BytesOf(dtype, 1)); }

// Threads that work on the pieces of an all-reduce: while one waits for other ranks or reduces, the
// other's piece is on its way. Smaller pieces than the least are not worth a thread.
constexpr size_t kLanes = 2;
constexpr size_t kLeastPieceBytes = size_t{512} << 10;

/// Calls `work` with each piece and with the lane that works on it, which take turns.
template <class Fn>
void ForEachInLanes(size_t pieces, const Fn& work) {
  auto run = [&](size_t lane) {
    for (size_t piece = lane; piece < pieces; piece += kLanes) work(piece, lane);
  };
  std::exception_ptr error;
  {
    std::vector<std::jthread> others;
    for (size_t lane = 1; lane < std::min(kLanes, pieces); ++lane) {
      others.emplace_back([&, lane] {
        try {
          run(lane);
        } catch (...) {
          error = std::current_exception();
        }
      });
    }
    run(0);
  }
  if (error) std::rethrow_exception(error);
}

size_t CeilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

/// Elements of a piece of a reduce-scatter that a rank reduces.
size_t ShareOf(size_t count, DType dtype, size_t ranks) {
  return std::min(std::max<size_t>(kPieceBytes / WidthOf(dtype) / ranks, 1), count);
}

/// Pieces of an all-reduce.
struct Pieces {
  Pieces(size_t elements, DType dtype, size_t ranks) {
    const size_t width = WidthOf(dtype);
    const size_t most = std::clamp(CeilDiv(elements, kLanes), kLeastPieceBytes / width,
                                   kPieceBytes / kLanes / width);
    share = CeilDiv(std::min(most, elements), ranks);
    size = share * ranks;
    count = CeilDiv(elements, size);
  }
  size_t share;  ///< elements that a rank reduces
  size_t size;   ///< elements
  size_t count;
  size_t lanes() const { return std::min(kLanes, count); }
};

}  // namespace

bool CanReduce(DType dtype, Reduction reduction) {
  const DTypeInfo& info = InfoOf(dtype);
  if (!info.supported || info.kind == DTypeKind::kComplex) return false;
  return reduction != Reduction::kMean || info.kind == DTypeKind::kFloat;
}

size_t AllReduceScratch(size_t count, DType dtype, size_t ranks) {
  const size_t width = WidthOf(dtype);
  if (ranks == 1) return 0;
  if (count * width <= kSmallBytes) return count * width * ranks;
  const Pieces pieces(count, dtype, ranks);
  return (pieces.lanes() + 1) * pieces.size * width;
}

size_t ReduceScatterScratch(size_t count, DType dtype, size_t ranks) {
  return ranks == 1 ? 0 : ShareOf(count, dtype, ranks) * 2 * ranks * WidthOf(dtype);
}

void AllReduce(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
               void* out, size_t count, DType dtype, Reduction reduction, char* scratch) {
  const size_t width = WidthOf(dtype), ranks = static_cast<size_t>(group.size());
  const auto rank = static_cast<size_t>(group.rank);
  char* to = static_cast<char*>(out);
  const char* from = static_cast<const char*>(in);
  if (ranks == 1) {
    if (in != out) std::memcpy(out, in, count * width);
    return;
  }
  const bool is_small = count * width <= kSmallBytes;
  bool is_reduced = false;
  group.Call(what, [&](Engine& engine) {
    is_reduced = engine.AllReduce(in, out, count, dtype, reduction, agreement.NextTag());
    if (is_reduced || !is_small) return;
    engine.AllGather(from, scratch, count * width, agreement.NextTag());
    ReduceParts(dtype, reduction, {scratch, count, ranks, from, rank}, to, count);
  });
  if (is_reduced || is_small) return;
  // Each rank reduces its share of a piece, in its place. The last piece is padded to equal shares.
  const Pieces pieces(count, dtype, ranks);
  char* const padded = scratch + pieces.lanes() * pieces.size * width;
  std::vector<uint32_t> tags(2 * pieces.count);
  for (uint32_t& tag : tags) tag = agreement.NextTag();
  ForEachInLanes(pieces.count, [&](size_t piece, size_t lane) {
    const size_t begin = piece * pieces.size, size = std::min(pieces.size, count - begin);
    const size_t part = CeilDiv(size, ranks);
    const bool whole = size == part * ranks;
    if (!whole) {
      std::memcpy(padded, from + begin * width, size * width);
      std::memset(padded + size * width, 0, (part * ranks - size) * width);
    }
    const char* sent = whole ? from + begin * width : padded;
    char* received = scratch + lane * pieces.size * width;
    char* gathered = whole ? to + begin * width : padded;
    const size_t own = rank * part * width;
    group.Call(what, [&](Engine& engine) {
      engine.AllToAll(sent, received, part * width, tags[2 * piece]);
      ReduceParts(dtype, reduction, {received, part, ranks, sent + own, rank}, gathered + own,
                  part);
      engine.AllGather(gathered + own, gathered, part * width, tags[2 * piece + 1]);
    });
    if (!whole) std::memcpy(to + begin * width, padded, size * width);
  });
}

void ReduceScatter(Agreement& agreement, Group::State& group, const std::string& what,
                   const void* in, void* out, size_t count, DType dtype, Reduction reduction,
                   char* scratch) {
  const size_t width = WidthOf(dtype), ranks = static_cast<size_t>(group.size());
  if (ranks == 1) {
    std::memcpy(out, in, count * width);
    return;
  }
  if (count == 0) return;
  const auto own_rank = static_cast<size_t>(group.rank);
  const char* from = static_cast<const char*>(in);
  const size_t share = ShareOf(count, dtype, ranks);
  char* received = scratch;
  char* packed = received + share * ranks * width;
  for (size_t begin = 0; begin < count; begin += share) {
    const size_t part = std::min(share, count - begin);
    const bool is_all = part == count;  // then its parts lie side by side already
    for (size_t rank = 0; rank < ranks && !is_all; ++rank) {
      if (rank == own_rank) continue;
      std::memcpy(packed + rank * part * width, from + (rank * count + begin) * width,
                  part * width);
    }
    const char* own = from + (own_rank * count + begin) * width;
    group.Call(what, [&](Engine& engine) {
      engine.AllToAll(is_all ? from : packed, received, part * width, agreement.NextTag());
    });
    ReduceParts(dtype, reduction, {received, part, ranks, own, own_rank},
                static_cast<char*>(out) + begin * width, part);
  }
}

namespace {

/// Calls `move` with where each piece begins and how many bytes it has.
template <class Fn>
void ForEachPiece(size_t bytes, const Fn& move) {
  for (size_t begin = 0; begin < bytes; begin += kPieceBytes) {
    move(begin, std::min(kPieceBytes, bytes - begin));
  }
}

/// The part of `rank` of what lies side by side.
const char* PartOf(const void* parts, int rank, size_t bytes) {
  return static_cast<const char*>(parts) + static_cast<size_t>(rank) * bytes;
}
char* PartOf(void* parts, int rank, size_t bytes) {
  return static_cast<char*>(parts) + static_cast<size_t>(rank) * bytes;
}

/// Calls `exchange` with whom this rank sends to and whom it receives from, until it has done both
/// with all others: neighbours first, then those at a distance of two.
template <class Fn>
void ForEachPair(const Group::State& group, const Fn& exchange) {
  const int ranks = group.size();
  for (int i = 1; i < ranks; ++i) {
    exchange((group.rank + i) % ranks, (group.rank + ranks - i) % ranks);
  }
}

}  // namespace

void AllGather(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
               void* out, size_t bytes) {
  if (bytes <= kPieceBytes) {
    return group.Call(
        what, [&](Engine& engine) { engine.AllGather(in, out, bytes, agreement.NextTag()); });
  }
  if (char* own = PartOf(out, group.rank, bytes); own != in) std::memcpy(own, in, bytes);
  ForEachPair(group, [&](int to, int from) {
    Permute(agreement, group, what, in, to, PartOf(out, from, bytes), from, bytes);
  });
}

void AllToAll(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
              void* out, size_t bytes) {
  std::memcpy(PartOf(out, group.rank, bytes), PartOf(in, group.rank, bytes), bytes);
  if (bytes <= kPieceBytes) {
    return group.Call(
        what, [&](Engine& engine) { engine.AllToAll(in, out, bytes, agreement.NextTag()); });
  }
  ForEachPair(group, [&](int to, int from) {
    Permute(agreement, group, what, PartOf(in, to, bytes), to, PartOf(out, from, bytes), from,
            bytes);
  });
}

void Broadcast(Agreement& agreement, Group::State& group, const std::string& what, void* data,
               size_t bytes, int root) {
  ForEachPiece(bytes, [&](size_t begin, size_t size) {
    group.Call(what, [&](Engine& engine) {
      engine.Broadcast(static_cast<char*>(data) + begin, size, root, agreement.NextTag());
    });
  });
}

void Permute(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
             int to, void* out, int from, size_t bytes) {
  ForEachPiece(bytes, [&](size_t begin, size_t size) {
    const uint32_t tag = agreement.NextTag();  // on all ranks, also those that take no part
    if (to < 0 && from < 0) return;
    group.Call(what, [&](Engine& engine) {
      engine.Permute(static_cast<const char*>(in) + begin, to, static_cast<char*>(out) + begin,
                     from, size, tag);
    });
  });
}

}  // namespace hammock::distributed
