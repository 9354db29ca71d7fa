// Attention by blocks of queries and keys: scores live only in a block, so memory grows with the
// length and not with its square.
//
// Note [Attention by blocks]
// A block of queries visits the keys block by block, with a running largest score and sum of
// exponentials; when the largest score grows, the earlier sums are scaled down. Blocks depend on
// shapes alone, and each is computed by one thread, so no result depends on the number of threads.
// Keys that a causal mask hides from all queries of a block are not visited.
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/calls/attention_kit.h"
#include "backends/cpu/calls/call_kit.h"
#include "ops/primitives/attention_node.h"

namespace hammock::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class AttentionCall : public Call {
  static constexpr int64_t kQueries = 96;  // of a block: a multiple of the rows of a tile
  static constexpr int64_t kKeys = 256;

 public:
  AttentionCall(const Graph& graph, const GraphNode& node)
      : spec_(graph, node, 0), workers_(ThreadPool::threads()) {
    Carver shared, own;
    Packed(shared, spec_);
    Workspace(own, spec_);
    part_bytes_ = shared.used();
    worker_bytes_ = own.used();
  }

  const char* kernel() const override { return "blocks"; }
  int64_t scratch_bytes() const override {
    return spec_.parts * part_bytes_ + workers_ * worker_bytes_;
  }

  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* scratch) const override {
    ThreadPool& pool = ThreadPool::Get();
    char* own = scratch + spec_.parts * part_bytes_;
    auto workspace = [&](int worker) {
      Carver carver(own + worker * worker_bytes_);
      return Workspace(carver, spec_);
    };
    int64_t key_size = spec_.keys * (spec_.width + spec_.out_width);
    ForEachTask(pool, workers_, spec_.parts, key_size, [&](int64_t part, int worker) {
      Pack(in, part, scratch + part * part_bytes_, workspace(worker));
    });
    int64_t blocks = CeilDiv(spec_.queries, kQueries);
    ForEachTask(pool, workers_, spec_.parts * blocks, kQueries * key_size,
                [&](int64_t task, int worker) {
                  int64_t part = task / blocks;
                  Carver carver(scratch + part * part_bytes_);
                  RunBlock(in, out, part, task % blocks * kQueries, Packed(carver, spec_),
                           workspace(worker));
                });
  }

 private:
  /// Keys, transposed, and values of one part.
  struct Packed {
    Packed(Carver& carver, const AttentionSpec& s)
        : keys(s.width, s.keys, s.loop.width,
               carver.Floats(Panels::Size(s.width, s.keys, s.loop.width))),
          values(s.keys, s.out_width, s.loop.width,
                 carver.Floats(Panels::Size(s.keys, s.out_width, s.loop.width))) {}
    Panels keys, values;
  };

  struct Workspace {
    Workspace(Carver& carver, const AttentionSpec& s)
        : query(carver.Floats(kQueries * s.width)),
          scores(carver.Floats(kQueries * kKeys)),
          tile(carver.Floats(kQueries * s.loop.width)),
          sums(carver.Floats(Panels::Size(kQueries, s.out_width, s.loop.width))),
          largest(carver.Floats(kQueries)),
          total(carver.Floats(kQueries)),
          row(carver.Floats(std::max({kKeys, s.width, RoundUp(s.out_width, s.loop.width)}))),
          rows(carver.Floats(s.dtype == DType::kF32 ? 0
                                                    : s.keys * std::max(s.width, s.out_width))) {}
    float *query, *scores, *tile, *sums, *largest, *total, *row, *rows;
  };

  void Pack(std::span<const char* const> in, int64_t part, char* memory,
            const Workspace& own) const {
    Carver carver(memory);
    Packed packed(carver, spec_);
    int64_t size = spec_.keys * spec_.width;
    packed.keys.FillTransposed(spec_.Load(in[1], part * size, size, own.rows));
    size = spec_.keys * spec_.out_width;
    packed.values.Fill(spec_.Load(in[2], part * size, size, own.rows));
  }

  void RunBlock(std::span<const char* const> in, std::span<char* const> out, int64_t part,
                int64_t begin, const Packed& packed, const Workspace& own) const {
    const AttentionSpec& s = spec_;
    int64_t rows = std::min(kQueries, s.queries - begin);
    int64_t size = rows * s.width;
    const float* query = s.Load(in[0], (part * s.queries + begin) * s.width, size, own.query);
    for (int64_t i = 0; i < size; ++i) own.query[i] = query[i] * s.scale;
    std::fill_n(own.largest, rows, kNever);
    std::fill_n(own.total, rows, 0.0f);
    std::fill_n(own.sums, packed.values.count() * s.loop.width * rows, 0.0f);
    int64_t keys = s.is_causal ? std::min(s.keys, begin + rows) : s.keys;
    for (int64_t key = 0; key < keys; key += kKeys) {
      int64_t count = std::min(kKeys, keys - key);
      s.Multiply(rows, s.width, own.query, packed.keys, key, count, own.tile, own.scores, kKeys);
      for (int64_t i = 0; i < rows; ++i) {
        s.Mask(in[3], part, begin + i, key, count, own.scores + i * kKeys, own.row);
        AddRow(i, rows, count, packed.values.count(), own);
      }
      for (int64_t panel = 0; panel < packed.values.count(); ++panel) {
        s.loop.run(rows, count, own.scores, kKeys, 1, packed.values.at(panel, key),
                   own.sums + panel * rows * s.loop.width);
      }
    }
    Finish(out, part, begin, rows, packed.values.count(), own);
  }

  /// Turns a row of scores into exponentials, and scales the earlier sums if necessary.
  void AddRow(int64_t i, int64_t rows, int64_t count, int64_t panels, const Workspace& own) const {
    const SoftmaxLoops& loops = SoftmaxLoopsHere();
    float* row = own.scores + i * kKeys;
    float largest = loops.max(count, row, own.largest[i]);
    if (largest == kNever) {  // all are hidden so far, or NaN
      bool has_nan = std::any_of(row, row + count, [](float x) { return x != x; });
      std::fill_n(row, count, has_nan ? kNan : 0.0f);
      if (has_nan) own.total[i] = kNan;
      return;
    }
    float factor = own.largest[i];
    if (factor != largest) {
      loops.exp_sum(1, largest, &factor);
      own.total[i] *= factor;
      for (int64_t panel = 0; panel < panels; ++panel) {
        loops.scale(spec_.loop.width, factor, own.sums + (panel * rows + i) * spec_.loop.width);
      }
      own.largest[i] = largest;
    }
    own.total[i] += loops.exp_sum(count, largest, row);
  }

  void Finish(std::span<char* const> out, int64_t part, int64_t begin, int64_t rows, int64_t panels,
              const Workspace& own) const {
    const AttentionSpec& s = spec_;
    float* log_sums = reinterpret_cast<float*>(out[1]) + part * s.queries + begin;
    for (int64_t i = 0; i < rows; ++i) {
      float total = own.total[i];
      if (total == 0 && s.keys > 0) total = kNan;  // as the softmax of hidden scores is
      log_sums[i] = own.largest[i] + std::log(total);
      for (int64_t panel = 0; panel < panels; ++panel) {
        const float* sums = own.sums + (panel * rows + i) * s.loop.width;
        float* row = own.row + panel * s.loop.width;
        for (int j = 0; j < s.loop.width; ++j) row[j] = s.keys == 0 ? 0 : sums[j] / total;
      }
      s.Store(own.row, s.out_width, out[0], (part * s.queries + begin + i) * s.out_width);
    }
  }

  const AttentionSpec spec_;
  const int workers_;
  int64_t part_bytes_ = 0, worker_bytes_ = 0;
};

/// The gradients of one matrix at a time: each block of keys visits all blocks of queries.
class AttentionBackwardCall : public Call {
  static constexpr int64_t kBlock = 96;  // queries, and keys

 public:
  AttentionBackwardCall(const Graph& graph, const GraphNode& node)
      : spec_(graph, node, 1), workers_(ThreadPool::threads()) {
    Carver own;
    Workspace(own, spec_);
    worker_bytes_ = own.used();
  }

  const char* kernel() const override { return "blocks"; }
  int64_t scratch_bytes() const override { return workers_ * worker_bytes_; }

  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* scratch) const override {
    int64_t work = spec_.queries * spec_.keys * (spec_.width + spec_.out_width);
    ForEachTask(ThreadPool::Get(), workers_, spec_.parts, work, [&](int64_t part, int worker) {
      Carver carver(scratch + worker * worker_bytes_);
      RunPart(in, out, part, Workspace(carver, spec_));
    });
  }

 private:
  struct Workspace {
    Workspace(Carver& carver, const AttentionSpec& s)
        : query(carver.Floats(s.queries * s.width)),
          grad(carver.Floats(s.queries * s.out_width)),
          rows(carver.Floats(s.keys * std::max(s.width, s.out_width))),
          queries(New(carver, s.queries, s.width, s)),
          grads(New(carver, s.queries, s.out_width, s)),
          keys(New(carver, s.keys, s.width, s)),
          transposed_keys(New(carver, s.width, s.keys, s)),
          transposed_values(New(carver, s.out_width, s.keys, s)),
          query_sums(carver.Floats(Panels::Size(s.queries, s.width, s.loop.width))),
          key_sums(carver.Floats(Panels::Size(kBlock, s.width, s.loop.width))),
          value_sums(carver.Floats(Panels::Size(kBlock, s.out_width, s.loop.width))),
          tile(carver.Floats(kBlock * s.loop.width)),
          weights(carver.Floats(kBlock * kBlock)),
          scores(carver.Floats(kBlock * kBlock)),
          row(carver.Floats(
              std::max(kBlock, RoundUp(std::max(s.width, s.out_width), s.loop.width)))) {}
    static Panels New(Carver& carver, int64_t terms, int64_t columns, const AttentionSpec& s) {
      int width = s.loop.width;
      return Panels(terms, columns, width, carver.Floats(Panels::Size(terms, columns, width)));
    }
    float *query, *grad, *rows;
    Panels queries, grads, keys, transposed_keys, transposed_values;
    float *query_sums, *key_sums, *value_sums, *tile, *weights, *scores, *row;
  };
  /// A block of queries and one of keys.
  struct Block {
    int64_t query, queries;
    int64_t key, keys;
  };

  void Pack(std::span<const char* const> in, int64_t part, const Workspace& own) const {
    const AttentionSpec& s = spec_;
    int64_t size = s.queries * s.width;
    const float* query = s.Load(in[1], part * size, size, own.query);
    for (int64_t i = 0; i < size; ++i) own.query[i] = query[i] * s.scale;
    own.queries.Fill(own.query);
    size = s.queries * s.out_width;
    const float* grad = s.Load(in[0], part * size, size, own.grad);
    if (grad != own.grad) std::memcpy(own.grad, grad, static_cast<size_t>(size) * sizeof(float));
    own.grads.Fill(own.grad);
    size = s.keys * s.width;
    const float* key = s.Load(in[2], part * size, size, own.rows);
    own.keys.Fill(key);
    own.transposed_keys.FillTransposed(key);
    size = s.keys * s.out_width;
    own.transposed_values.FillTransposed(s.Load(in[3], part * size, size, own.rows));
  }

  void RunPart(std::span<const char* const> in, std::span<char* const> out, int64_t part,
               const Workspace& own) const {
    const AttentionSpec& s = spec_;
    Pack(in, part, own);
    std::fill_n(own.query_sums, Panels::Size(s.queries, s.width, s.loop.width), 0.0f);
    for (int64_t key = 0; key < s.keys; key += kBlock) {
      int64_t keys = std::min(kBlock, s.keys - key);
      std::fill_n(own.key_sums, Panels::Size(kBlock, s.width, s.loop.width), 0.0f);
      std::fill_n(own.value_sums, Panels::Size(kBlock, s.out_width, s.loop.width), 0.0f);
      for (int64_t query = 0; query < s.queries; query += kBlock) {
        int64_t queries = std::min(kBlock, s.queries - query);
        if (s.is_causal && query + queries <= key) continue;
        RunBlock(in, part, {query, queries, key, keys}, own);
      }
      Store(own.key_sums, keys, s.width, 1, out[1], part * s.keys + key, own);
      Store(own.value_sums, keys, s.out_width, 1, out[2], part * s.keys + key, own);
    }
    for (int64_t query = 0; query < s.queries; query += kBlock) {
      int64_t queries = std::min(kBlock, s.queries - query);
      Store(SumsOf(query, own), queries, s.width, s.scale, out[0], part * s.queries + query, own);
    }
  }

  /// Of a block of queries: panel after panel.
  float* SumsOf(int64_t query, const Workspace& own) const {
    return own.query_sums + query * RoundUp(spec_.width, spec_.loop.width);
  }

  void RunBlock(std::span<const char* const> in, int64_t part, const Block& b,
                const Workspace& own) const {
    const AttentionSpec& s = spec_;
    const SoftmaxLoops& loops = SoftmaxLoopsHere();
    const float* log_sums = reinterpret_cast<const float*>(in[5]) + part * s.queries + b.query;
    const float* deltas = reinterpret_cast<const float*>(in[6]) + part * s.queries + b.query;
    s.Multiply(b.queries, s.width, own.query + b.query * s.width, own.transposed_keys, b.key,
               b.keys, own.tile, own.weights, kBlock);
    s.Multiply(b.queries, s.out_width, own.grad + b.query * s.out_width, own.transposed_values,
               b.key, b.keys, own.tile, own.scores, kBlock);
    for (int64_t i = 0; i < b.queries; ++i) {
      float* weights = own.weights + i * kBlock;
      s.Mask(in[4], part, b.query + i, b.key, b.keys, weights, own.row);
      loops.exp_sum(b.keys, log_sums[i], weights);
      loops.gradient(b.keys, weights, deltas[i], own.scores + i * kBlock);
    }
    const int64_t step = s.loop.width;
    for (int64_t panel = 0; panel < own.grads.count(); ++panel) {
      s.loop.run(b.keys, b.queries, own.weights, 1, kBlock, own.grads.at(panel, b.query),
                 own.value_sums + panel * b.keys * step);
    }
    for (int64_t panel = 0; panel < own.queries.count(); ++panel) {
      s.loop.run(b.keys, b.queries, own.scores, 1, kBlock, own.queries.at(panel, b.query),
                 own.key_sums + panel * b.keys * step);
      s.loop.run(b.queries, b.keys, own.scores, kBlock, 1, own.keys.at(panel, b.key),
                 SumsOf(b.query, own) + panel * b.queries * step);
    }
  }

  /// Panels of `rows` rows into rows of the result.
  void Store(const float* sums, int64_t rows, int64_t columns, float factor, char* out,
             int64_t first, const Workspace& own) const {
    const int64_t step = spec_.loop.width;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t panel = 0; panel < CeilDiv(columns, step); ++panel) {
        const float* from = sums + (panel * rows + i) * step;
        for (int64_t j = 0; j < step; ++j) own.row[panel * step + j] = from[j] * factor;
      }
      spec_.Store(own.row, columns, out, (first + i) * columns);
    }
  }

  const AttentionSpec spec_;
  const int workers_;
  int64_t worker_bytes_ = 0;
};

}  // namespace

std::span<const CallEntry> AttentionCalls() {
  static constexpr CallEntry kEntries[] = {
      {&ops::kAttention, MakeNode<AttentionCall>},
      {&ops::kAttentionBackward, MakeNode<AttentionBackwardCall>}};
  return kEntries;
}

bool RunsWholeAttention(const Graph& graph, const GraphNode& node) {
  if (node.op == &ops::kAttention) return AttentionSpec::Suits(graph, node, 0);
  return node.op == &ops::kAttentionBackward && AttentionSpec::Suits(graph, node, 1);
}

}  // namespace hammock::cpu
