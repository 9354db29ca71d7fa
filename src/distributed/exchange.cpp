#include "distributed/exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/convert.h"

namespace hammock::distributed {
namespace {

// A message is worked on in pieces, so that memory for what comes from the others stays small.
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

/// out[i] = parts[0][i] + parts[1][i] + ..., where part r begins `stride` elements behind the one
/// before it.
template <class T, Reduction reduction>
void Reduce(const T* parts, size_t stride, size_t ranks, T* out, size_t count) {
  using W = typename Wide<T>::Type;
  constexpr size_t kBlock = 1024;
  W sums[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    for (size_t i = 0; i < block; ++i) sums[i] = static_cast<W>(parts[begin + i]);
    for (size_t rank = 1; rank < ranks; ++rank) {
      const T* part = parts + rank * stride + begin;
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
      if constexpr (reduction == Reduction::kMean) sums[i] = static_cast<W>(sums[i] / W(ranks));
      out[begin + i] = static_cast<T>(sums[i]);
    }
  }
}

template <class T>
void ReduceBy(Reduction reduction, const T* parts, size_t stride, size_t ranks, T* out,
              size_t count) {
  switch (reduction) {
    case Reduction::kSum:
      return Reduce<T, Reduction::kSum>(parts, stride, ranks, out, count);
    case Reduction::kMean:
      return Reduce<T, Reduction::kMean>(parts, stride, ranks, out, count);
    case Reduction::kMin:
      return Reduce<T, Reduction::kMin>(parts, stride, ranks, out, count);
    case Reduction::kMax:
      return Reduce<T, Reduction::kMax>(parts, stride, ranks, out, count);
    case Reduction::kProd:
      return Reduce<T, Reduction::kProd>(parts, stride, ranks, out, count);
  }
}

void ReduceParts(DType dtype, Reduction reduction, const char* parts, size_t stride, size_t ranks,
                 char* out, size_t count) {
  VisitDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    ReduceBy<T>(reduction, reinterpret_cast<const T*>(parts), stride, ranks,
                reinterpret_cast<T*>(out), count);
  });
}

size_t WidthOf(DType dtype) { return static_cast<size_t>(BytesOf(dtype, 1)); }

/// Elements of a piece that a rank reduces.
size_t ShareOf(size_t count, DType dtype, size_t ranks) {
  return std::min(std::max<size_t>(kPieceBytes / WidthOf(dtype) / ranks, 1), count);
}

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
  return ShareOf((count + ranks - 1) / ranks, dtype, ranks) * (2 * ranks + 1) * width;
}

size_t ReduceScatterScratch(size_t count, DType dtype, size_t ranks) {
  return ranks == 1 ? 0 : ShareOf(count, dtype, ranks) * 2 * ranks * WidthOf(dtype);
}

void AllReduce(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
               void* out, size_t count, DType dtype, Reduction reduction, char* scratch) {
  const size_t width = WidthOf(dtype), ranks = static_cast<size_t>(group.size());
  char* to = static_cast<char*>(out);
  const char* from = static_cast<const char*>(in);
  if (ranks == 1) {
    if (in != out) std::memcpy(out, in, count * width);
    return;
  }
  group.Call(what, [&](Engine& engine) {
    if (engine.AllReduce(in, out, count, dtype, reduction, agreement.NextTag())) return;
    if (count * width <= kSmallBytes) {
      engine.AllGather(from, scratch, count * width, agreement.NextTag());
      ReduceParts(dtype, reduction, scratch, count, ranks, to, count);
      return;
    }
    // Each rank reduces its share of a piece. The last piece is padded to equal shares.
    const size_t share = ShareOf((count + ranks - 1) / ranks, dtype, ranks);
    char* padded = scratch;
    char* received = padded + share * ranks * width;
    char* reduced = received + share * ranks * width;
    for (size_t begin = 0; begin < count; begin += share * ranks) {
      const size_t piece = std::min(share * ranks, count - begin);
      const size_t part = std::min(share, (piece + ranks - 1) / ranks);
      const bool whole = piece == part * ranks;
      if (!whole) {
        std::memcpy(padded, from + begin * width, piece * width);
        std::memset(padded + piece * width, 0, (part * ranks - piece) * width);
      }
      engine.AllToAll(whole ? from + begin * width : padded, received, part * width,
                      agreement.NextTag());
      ReduceParts(dtype, reduction, received, part, ranks, reduced, part);
      engine.AllGather(reduced, whole ? to + begin * width : padded, part * width,
                       agreement.NextTag());
      if (!whole) std::memcpy(to + begin * width, padded, piece * width);
    }
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
  group.Call(what, [&](Engine& engine) {
    const size_t share = ShareOf(count, dtype, ranks);
    char* sent = scratch;
    char* received = sent + share * ranks * width;
    for (size_t begin = 0; begin < count; begin += share) {
      const size_t part = std::min(share, count - begin);
      for (size_t rank = 0; rank < ranks; ++rank) {
        std::memcpy(sent + rank * part * width,
                    static_cast<const char*>(in) + (rank * count + begin) * width, part * width);
      }
      engine.AllToAll(sent, received, part * width, agreement.NextTag());
      ReduceParts(dtype, reduction, received, part, ranks, static_cast<char*>(out) + begin * width,
                  part);
    }
  });
}

}  // namespace hammock::distributed
