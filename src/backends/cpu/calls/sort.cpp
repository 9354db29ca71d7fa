// Sorting, the k first, and where elements are not 0.

#include <array>
#include <bit>
#include <cstring>

#include "backends/cpu/calls/call_kit.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

using Operands = std::span<const char* const>;
using Results = std::span<char* const>;

/// An integer that is ordered as the elements are: -0 equals 0 and NaN is the largest number.
template <class T>
Word<sizeof(T)> KeyOf(Stored<T> value) {
  using Key = Word<sizeof(T)>;
  constexpr Key kSign = static_cast<Key>(Key{1} << (sizeof(T) * 8 - 1));
  if constexpr (std::same_as<T, bool>) {
    return value != 0;
  } else if constexpr (kIsReal<T>) {
    if (value != value) return static_cast<Key>(~Key{0});
    Key bits = std::bit_cast<Key>(value);
    if (bits == kSign) bits = 0;
    return static_cast<Key>(bits & kSign ? ~bits : bits | kSign);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<Key>(static_cast<Key>(value) ^ kSign);
  } else {
    return value;
  }
}

/// A key with its position: one word where both fit, so that equal keys stay as they came.
struct Packed {
  uint64_t bits;
  Packed() = default;
  Packed(uint64_t key, int64_t position) : bits(key << 32 | static_cast<uint64_t>(position)) {}
  uint64_t key() const { return bits >> 32; }
  int64_t position() const { return static_cast<int64_t>(bits & 0xffffffff); }
  bool operator<(const Packed& other) const { return bits < other.bits; }
};
struct Pair {
  uint64_t first;
  int64_t second;
  Pair() = default;
  Pair(uint64_t key, int64_t position) : first(key), second(position) {}
  uint64_t key() const { return first; }
  int64_t position() const { return second; }
  bool operator<(const Pair& other) const {
    return first != other.first ? first < other.first : second < other.second;
  }
};

/// Byte by byte, the lowest first; the result is in `items`.
template <class Item>
[[gnu::noinline]] void RadixSort(Item* items, Item* other, int64_t count, int key_bytes) {
  std::array<std::array<int64_t, 256>, 8> counts{};
  for (int64_t i = 0; i < count; ++i) {
    uint64_t key = items[i].key();
    for (int byte = 0; byte < key_bytes; ++byte) ++counts[byte][key >> (8 * byte) & 255];
  }
  Item* from = items;
  Item* to = other;
  for (int byte = 0; byte < key_bytes; ++byte) {
    std::array<int64_t, 256>& offsets = counts[byte];
    if (std::find(offsets.begin(), offsets.end(), count) != offsets.end()) continue;  // all alike
    int64_t offset = 0;
    for (int64_t& next : offsets) offset += std::exchange(next, offset);
    for (int64_t i = 0; i < count; ++i) to[offsets[from[i].key() >> (8 * byte) & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy(from, from + count, items);
}

/// The first `kept` of each row along a dim, in order; equal ones as they came.
class SortCall : public Call {
 public:
  SortCall(const Graph& graph, const GraphNode& node, int64_t dim, int64_t kept, bool descending)
      : dtype_(graph.TypeOf(node.inputs[0]).dtype()),
        axis_(graph.TypeOf(node.inputs[0]).sizes(), dim),
        kept_(kept < 0 ? axis_.extent : kept),
        descending_(descending),
        packed_(ElementBytes(dtype_) <= 4 && axis_.extent < int64_t{1} << 32) {
    int64_t rows = axis_.outer * axis_.inner;
    workers_ = static_cast<int>(std::clamp<int64_t>(
        rows * axis_.extent / 1024, 1, std::min<int64_t>(rows, ThreadPool::threads())));
    worker_bytes_ = (2 * axis_.extent * (packed_ ? 8 : 16) + 63) / 64 * 64;
  }

  int64_t scratch_bytes() const override { return worker_bytes_ * workers_; }

  void Run(Operands in, Results out, char* scratch) const override {
    int64_t rows = axis_.outer * axis_.inner;
    if (rows == 0 || kept_ == 0) return;
    VisitDType(dtype_, [&](auto zero) {
      using T = decltype(zero);
      auto sort_rows = [&](int64_t begin, int64_t end, int worker) {
        char* memory = scratch + worker * worker_bytes_;
        for (int64_t row = begin; row < end; ++row) {
          if constexpr (sizeof(T) <= 4) {
            if (packed_) {
              SortRow<T, Packed>(in[0], out, row, memory);
              continue;
            }
          }
          SortRow<T, Pair>(in[0], out, row, memory);
        }
      };
      if (workers_ == 1) return sort_rows(0, rows, 0);
      ThreadPool::Get().ParallelFor(rows, 1, sort_rows, workers_);
    });
  }
  const char* kernel() const override { return "sort"; }

 private:
  template <class T, class Item>
  void SortRow(const char* in, Results out, int64_t row, char* memory) const {
    int64_t count = axis_.extent;
    int64_t outer = row / axis_.inner;
    int64_t column = row % axis_.inner;
    const Stored<T>* values =
        reinterpret_cast<const Stored<T>*>(in) + outer * count * axis_.inner + column;
    Item* items = reinterpret_cast<Item*>(memory);
    using Key = Word<sizeof(T)>;
    auto key_at = [&](int64_t i) {
      Key key = KeyOf<T>(values[i * axis_.inner]);
      return descending_ ? static_cast<Key>(~key) : key;
    };
    if (kept_ <= count / 8) {
      KeepFirst<Key>(items, key_at);
    } else {
      for (int64_t i = 0; i < count; ++i) items[i] = Item(key_at(i), i);
      Order(items, sizeof(T));
    }
    Stored<T>* sorted = reinterpret_cast<Stored<T>*>(out[0]);
    int64_t* positions = reinterpret_cast<int64_t*>(out[1]);
    int64_t at = outer * kept_ * axis_.inner + column;
    for (int64_t k = 0; k < kept_; ++k, at += axis_.inner) {
      int64_t position = items[k].position();
      positions[at] = position;
      sorted[at] = values[position * axis_.inner];
    }
  }

  /// The first ones of a long row: what comes behind those that were kept is never written.
  template <class Key, class Item, class KeyAt>
  void KeepFirst(Item* items, KeyAt key_at) const {
    const int64_t room = 2 * kept_ + 64;
    int64_t held = 0;
    bool full = false;
    Key limit = 0;  // of the last one that was kept; a later one that equals it comes behind it
    for (int64_t i = 0; i < axis_.extent; ++i) {
      Key key = key_at(i);
      if (full && key >= limit) continue;
      items[held++] = Item(key, i);
      if (held < room) continue;
      std::nth_element(items, items + kept_ - 1, items + held);
      held = kept_;
      limit = static_cast<Key>(items[kept_ - 1].key());
      full = true;
    }
    if (held > kept_) std::nth_element(items, items + kept_, items + held);
    std::sort(items, items + kept_);
  }

  /// The first ones of a row; there is room for as many again behind them.
  template <class Item>
  [[gnu::noinline]] void Order(Item* items, int key_bytes) const {
    constexpr int64_t kFew = 256;
    int64_t count = axis_.extent;
    if (kept_ < count) {
      std::nth_element(items, items + kept_, items + count);
      std::sort(items, items + kept_);
    } else if (count < kFew) {
      std::sort(items, items + count);
    } else {
      RadixSort(items, items + count, count, key_bytes);
    }
  }

  DType dtype_;
  CallAxis axis_;
  int64_t kept_;
  bool descending_;
  bool packed_;
  int workers_;
  int64_t worker_bytes_;
};

std::unique_ptr<Call> MakeSort(const Graph& graph, const GraphNode& node) {
  return std::make_unique<SortCall>(graph, node, node.attrs[0].integer(), -1,
                                    node.attrs[1].boolean());
}

std::unique_ptr<Call> MakeTopK(const Graph& graph, const GraphNode& node) {
  return std::make_unique<SortCall>(graph, node, node.attrs[1].integer(), node.attrs[0].integer(),
                                    node.attrs[2].boolean());
}

/// Blocks are counted first, so that each knows where its positions go.
class NonzeroCall : public Call {
 public:
  NonzeroCall(const Graph& graph, const GraphNode& node)
      : type_(graph.TypeOf(node.inputs[0])),
        limit_(node.attrs[0].integer()),
        blocks_((type_.numel() + kBlock - 1) / kBlock) {}

  int64_t scratch_bytes() const override { return blocks_ * 8; }

  void Run(Operands in, Results out, char* scratch) const override {
    int64_t* positions = reinterpret_cast<int64_t*>(out[0]);
    int64_t* found = reinterpret_cast<int64_t*>(scratch);
    int rank = type_.rank();
    int64_t total = 0;
    VisitDType(type_.dtype(), [&](auto zero) {
      using T = Stored<decltype(zero)>;
      const T* values = reinterpret_cast<const T*>(in[0]);
      auto ends = [&](int64_t block) {
        return std::pair(block * kBlock, std::min((block + 1) * kBlock, type_.numel()));
      };
      Spread(blocks_, kBlock * 4, [&](int64_t first, int64_t last) {
        for (int64_t block = first; block < last; ++block) {
          auto [begin, end] = ends(block);
          int64_t count = 0;
          for (int64_t i = begin; i < end; ++i) count += values[i] != T(0);
          found[block] = count;
        }
      });
      for (int64_t block = 0; block < blocks_; ++block) total += std::exchange(found[block], total);
      Spread(blocks_, kBlock * 8, [&](int64_t first, int64_t last) {
        for (int64_t block = first; block < last; ++block) {
          auto [begin, end] = ends(block);
          int64_t next = found[block];
          for (int64_t i = begin; i < end && next < limit_; ++i) {
            if (values[i] == T(0)) continue;
            Write(i, positions + next * rank);
            ++next;
          }
        }
      });
    });
    int64_t kept = std::min(total, limit_);
    std::fill(positions + kept * rank, positions + limit_ * rank, -1);
  }
  const char* kernel() const override { return "count and write"; }

 private:
  static constexpr int64_t kBlock = 1 << 14;

  void Write(int64_t flat, int64_t* position) const {
    for (int d = type_.rank(); d-- > 0;) {
      position[d] = flat % type_.size(d);
      flat /= type_.size(d);
    }
  }

  Shape type_;
  int64_t limit_;
  int64_t blocks_;
};

constexpr CallEntry kCalls[] = {
    {&ops::kSort, MakeSort},
    {&ops::kTopK, MakeTopK},
    {&ops::kNonzeroBounded, MakeNode<NonzeroCall>},
};

}  // namespace

std::span<const CallEntry> OrderCalls() { return kCalls; }

}  // namespace hammock::cpu
