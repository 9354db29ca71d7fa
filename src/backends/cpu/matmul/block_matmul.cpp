#include "backends/cpu/matmul/block_matmul.h"

#include <fmt/format.h>

#include <utility>

namespace hammock::cpu {

MatMulSplit MatMulSplit::Of(const MatMulSpec& spec, int64_t rows, int64_t columns, Panels storage) {
  MatMulSplit split;
  bool transposed = spec.b.column != 1 && spec.n > 1;
  split.storage = storage == Panels::kStored && transposed ? Panels::kCopied : storage;
  split.rows = std::min(rows, spec.m);
  split.columns = std::min(columns, spec.n);
  split.row_blocks = CeilDiv(spec.m, split.rows);
  split.panels = CeilDiv(spec.n, split.columns);
  return split;
}

BlockMatMul::BlockMatMul(const MatMulSpec& spec, const MatMulSplit& split)
    : spec_(spec), split_(split), width_(BytesOf(spec.dtype, 1)) {
  PlanParts();
  worker_bytes = part_bytes_ + epilogue_bytes_;
  if (!split_.copies() && !split_.widens()) return;
  for (bool last : {false, true}) {
    int64_t columns = Columns(last);
    copies_.emplace_back(width_, Dims{spec_.k, columns}, Dims{spec_.b.row, spec_.b.column},
                         Dims{columns, 1});
  }
  if (split_.copies()) PlanPanels(RoundUp(spec_.k * split_.columns * width_, 64), "rows");
}

void BlockMatMul::PlanPanels(int64_t panel_bytes, std::string key) {
  panel_bytes_ = panel_bytes;
  int64_t panels = Product(spec_.batch) * split_.panels;
  packed_bytes = panels * panel_bytes_;
  packed_key = fmt::format("{} {} {} {} {} {} {} {} {}", key, NameOf(spec_.dtype), spec_.k, spec_.n,
                           split_.columns, spec_.b.row, spec_.b.column, ToString(spec_.batch),
                           ToString(spec_.b.batch));
  if (!split_.packs() && !by_rows_ && panels >= ThreadPool::threads()) {
    own_panel_bytes_ = static_cast<int64_t>(sizeof(OwnPanelHead)) + panel_bytes_;
    worker_bytes += own_panel_bytes_;
  } else {
    shared_bytes = packed_bytes;
  }
}

/// Whether the epilogue runs here, and where the parts for it are.
void BlockMatMul::PlanParts() {
  constexpr int64_t kMostBytes = 512 << 10;  // of a part that is to stay in the cache
  constexpr int64_t kMostApart = 2 << 20;    // of a part with what lies between its rows
  constexpr int64_t kFewParts = 8;           // that would leave threads without work
  const EpilogueSpec& epilogue = spec_.epilogue;
  if (!epilogue.wanted) return;
  int64_t width = BytesOf(spec_.out_dtype, 1);
  by_rows_ = epilogue.whole_rows && split_.panels > 1;
  int64_t columns = by_rows_ ? spec_.n : split_.columns;
  finishes = !by_rows_ || (split_.rows * columns * width <= kMostBytes &&
                           Product(spec_.batch) * split_.row_blocks >= kFewParts);
  by_rows_ &= finishes;
  epilogue_bytes_ = epilogue.scratch_bytes;
  // A block has the strides of the result: the library may compute otherwise where it has not.
  int64_t bytes = RoundUp(((split_.rows - 1) * spec_.out.row + columns) * width, 64);
  apart = finishes && !epilogue.stores && bytes <= kMostApart;
  if (apart) part_bytes_ = bytes;
}

void BlockMatMul::Pack(const void* b, void* packed, ThreadPool& pool) const {
  std::vector<std::byte> memory(pool.threads() * worker_bytes + 64);
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  std::byte* first = memory.data() + (RoundUp(address, 64) - address);
  PackInto(b, static_cast<std::byte*>(packed), {nullptr, first, worker_bytes, pool.threads()},
           pool);
}

void BlockMatMul::Run(const MatMul::Pointers& pointers, const Scratch& scratch,
                      ThreadPool& pool) const {
  const std::byte* packed = static_cast<const std::byte*>(pointers.packed);
  bool own_panels = own_panel_bytes_ > 0 && !packed;
  if (own_panels) {
    for (int i = 0; i < scratch.workers; ++i) OwnPanel(scratch.of(i)).index = -1;
  } else if (shared_bytes > 0 && !packed) {
    PackInto(pointers.b, scratch.shared, scratch, pool);
    packed = scratch.shared;
  }
  const Epilogue* epilogue = finishes ? pointers.epilogue : nullptr;
  int64_t row_blocks = Product(spec_.batch) * split_.row_blocks;
  if (by_rows_) {
    ForEachTask(pool, scratch.workers, row_blocks, split_.rows * spec_.n * spec_.k,
                [&](int64_t task, int worker) {
                  RunPart(pointers, packed, {.row_block = task, .panels = split_.panels}, epilogue,
                          scratch.of(worker));
                });
    return;
  }
  ForEachTask(pool, scratch.workers, row_blocks * split_.panels,
              split_.rows * split_.columns * spec_.k, [&](int64_t task, int worker) {
                Part part = PartOf(task);
                if (own_panels) part.panel = MakeOwn(pointers.b, part, scratch.of(worker));
                RunPart(pointers, packed, part, epilogue, scratch.of(worker));
              });
}

/// The part of a task that is one block. A thread uses the same panel again and again; or, if all
/// panels stay in its cache, the same rows, which it also has in other matmuls.
BlockMatMul::Part BlockMatMul::PartOf(int64_t task) const {
  constexpr int64_t kNearBytes = 512 << 10;
  if (!split_.copies() && spec_.k * spec_.n * width_ <= kNearBytes) {
    return {task / split_.panels, task % split_.panels};
  }
  int64_t of_batch = split_.row_blocks * split_.panels;
  int64_t in_batch = task % of_batch;
  return {task / of_batch * split_.row_blocks + in_batch % split_.row_blocks,
          in_batch / split_.row_blocks};
}

BlockMatMul::OwnPanelHead& BlockMatMul::OwnPanel(std::byte* memory) const {
  return *reinterpret_cast<OwnPanelHead*>(memory + part_bytes_ + epilogue_bytes_);
}

const std::byte* BlockMatMul::MakeOwn(const void* b, const Part& part, std::byte* memory) const {
  OwnPanelHead& head = OwnPanel(memory);
  std::byte* panel = reinterpret_cast<std::byte*>(&head + 1);
  int64_t index = part.row_block / split_.row_blocks * split_.panels + part.first_panel;
  if (std::exchange(head.index, index) != index) MakePanel(b, index, panel, CallScratch(memory));
  return panel;
}

void BlockMatMul::PackInto(const void* b, std::byte* packed, const Scratch& scratch,
                           ThreadPool& pool) const {
  int64_t panels = Product(spec_.batch) * split_.panels;
  if (split_.copies() && panels < scratch.workers) {
    for (int64_t i = 0; i < panels; ++i) MakePanel(b, i, packed + i * panel_bytes_, nullptr, true);
    return;
  }
  ForEachTask(pool, scratch.workers, panels, spec_.k * split_.columns * 4,
              [&](int64_t task, int worker) {
                MakePanel(b, task, packed + task * panel_bytes_, scratch.of(worker));
              });
}

/// The panels of all batches are counted. Copies are made by the calling thread, or by all.
void BlockMatMul::MakePanel(const void* b, int64_t index, std::byte* panel, std::byte* scratch,
                            bool by_all) const {
  int64_t batch = index / split_.panels, in_batch = index % split_.panels;
  int64_t offset =
      BatchOffset(spec_.batch, spec_.b.batch, batch) + in_batch * split_.columns * spec_.b.column;
  const std::byte* from = static_cast<const std::byte*>(b) + offset * width_;
  bool last = in_batch == split_.panels - 1;
  if (!split_.copies()) return PackPanel(from, panel, last, scratch);
  CopyPanel(from, panel, last, by_all);
}

void BlockMatMul::CopyPanel(const std::byte* b, std::byte* panel, bool last, bool by_all) const {
  const char* source = reinterpret_cast<const char*>(b);
  char* target = reinterpret_cast<char*>(panel);
  by_all ? copies_[last].Run(source, target) : copies_[last].RunAlone(source, target);
}

/// Computes a part where it belongs, or in `memory` if only the epilogue sees it.
void BlockMatMul::RunPart(const MatMul::Pointers& pointers, const std::byte* packed,
                          const Part& part, const Epilogue* epilogue, std::byte* memory) const {
  int64_t width = BytesOf(spec_.out_dtype, 1);
  int64_t batch = part.row_block / split_.row_blocks;
  int64_t row_block = part.row_block % split_.row_blocks;
  int64_t row = row_block * split_.rows;
  int64_t column = part.first_panel * split_.columns;
  std::byte* out = memory;
  if (!apart) {
    out = static_cast<std::byte*>(pointers.out) +
          (BatchOffset(spec_.batch, spec_.out.batch, batch) + row * spec_.out.row + column) * width;
  }
  const std::byte* a =
      static_cast<const std::byte*>(pointers.a) +
      (BatchOffset(spec_.batch, spec_.a.batch, batch) + row * spec_.a.row) * width_;
  bool last_row = row_block == split_.row_blocks - 1;
  for (int64_t i = 0; i < part.panels; ++i) {
    int64_t panel = part.first_panel + i;
    const std::byte* b = part.panel ? part.panel : Panel(pointers, packed, batch, panel);
    Multiply({last_row, panel == split_.panels - 1, a, b, out + i * split_.columns * width},
             CallScratch(memory));
  }
  if (!epilogue) return;
  int64_t columns = std::min(part.panels * split_.columns, spec_.n - column);
  epilogue->Run({out, spec_.out.row, batch * spec_.m + row, Rows(last_row), column, columns},
                memory + part_bytes_);
}

const std::byte* BlockMatMul::Panel(const MatMul::Pointers& pointers, const std::byte* packed,
                                    int64_t batch, int64_t panel) const {
  if (packed) return packed + (batch * split_.panels + panel) * panel_bytes_;
  int64_t offset =
      BatchOffset(spec_.batch, spec_.b.batch, batch) + panel * split_.columns * spec_.b.column;
  return static_cast<const std::byte*>(pointers.b) + offset * width_;
}

}  // namespace hammock::cpu
