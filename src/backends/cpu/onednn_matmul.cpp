// Products of matrices by oneDNN, block by block.
#include <fmt/format.h>

#include "backends/cpu/onednn_kit.h"
#include "backends/cpu/strided_copy.h"

namespace hammock::cpu {

using namespace onednn;  // NOLINT: this file is about nothing else

namespace {

/// How a product is divided: by its shape alone.
///
/// Note [Panels]
/// Measured on two cores of a Zen 4, with operands outside of their second cache. f32 is best with
/// blocks of all columns, unless the rows of b are half a page apart, or a multiple of it: then
/// with 128 columns, and with panels of b that are copied (10% faster for whole pages; for halves
/// 1% if that was done before, and nothing is lost from 512 rows of a on if it was not). Few rows
/// of a are cut into blocks of 128 columns too, so that there is work for more threads. Panels of
/// other widths lose up to a tenth. bf16 packed is faster from some hundred rows of a on.
///
/// b that lies column by column is copied as well. Panels are copied by the tasks that multiply by
/// them, where there are enough for all threads: then each is still near when it is read.
struct Split {
  explicit Split(const MatMulSpec& spec) {
    columns = 512;
    if (spec.m <= 32) {
      rows = spec.m;
      columns = std::clamp<int64_t>(RoundUp(CeilDiv(spec.n, 16), 64), 64, 512);
    } else if (spec.m * spec.n * spec.k <= 2 * 128 * 128 * 128) {
      rows = 32;
    } else if (spec.dtype == DType::kF32) {
      int64_t apart = hammock::BytesOf(spec.dtype, spec.n);
      copies = apart % 4096 == 0 || (apart % 2048 == 0 && spec.m >= 512);
      bool wide = spec.m >= 512 && apart % 2048 != 0;
      rows = spec.m >= (wide ? 1024 : 512) ? 128 : 64;
      columns = wide ? 1024 : 128;
    } else {
      packs = spec.m > 256;
      rows = spec.m >= 256 ? 128 : 64;
    }
    copies |= !packs && spec.b.column != 1 && spec.n > 1;
    rows = std::min(rows, spec.m);
    columns = std::min(columns, spec.n);
    row_blocks = CeilDiv(spec.m, rows);
    panels = CeilDiv(spec.n, columns);
  }
  bool packs = false;   // the panels of b as the library likes them
  bool copies = false;  // the panels of b, whose rows lie without gaps then
  int64_t rows, columns;
  int64_t row_blocks, panels;
};

/// The product of a block of rows and a panel of columns.
struct Block {
  memory::desc b;
  Call call;
};

class OneDnnMatMul : public MatMulKernel {
 public:
  OneDnnMatMul(const MatMulSpec& spec, memory::data_type type, memory::data_type out_type)
      : spec_(spec), type_(type), out_type_(out_type), split_(spec) {
    OneThread one;
    PlanParts();
    for (bool last_row : {false, true}) {
      for (bool last_panel : {false, true}) MakeBlock(last_row, last_panel);
    }
    if (split_.packs || split_.copies) PlanPanels();
    worker_bytes += part_bytes_ + epilogue_bytes_ + own_panel_bytes_;
  }
  const char* name() const override { return "onednn"; }

  void Pack(const void* b, void* packed, ThreadPool& pool) const override {
    LibraryCall call;
    std::vector<std::byte> memory(pool.threads() * worker_bytes + 64);
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    std::byte* first = memory.data() + (RoundUp(address, 64) - address);
    PackInto(b, static_cast<std::byte*>(packed), {nullptr, first, worker_bytes, pool.threads()},
             pool);
  }

  void Run(const MatMul::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    LibraryCall call;
    const std::byte* packed = static_cast<const std::byte*>(pointers.packed);
    bool own_panels = own_panel_bytes_ > 0 && !packed;
    if (own_panels) {
      for (int i = 0; i < scratch.workers; ++i) OwnPanel(scratch.of(i)).index = -1;
    } else if (packed_bytes > 0 && !packed) {
      PackInto(pointers.b, scratch.shared, scratch, pool);
      packed = scratch.shared;
    }
    const Epilogue* epilogue = finishes ? pointers.epilogue : nullptr;
    int64_t row_blocks = Product(spec_.batch) * split_.row_blocks;
    if (by_rows_) {
      ForEachTask(pool, scratch.workers, row_blocks, split_.rows * spec_.n * spec_.k,
                  [&](int64_t task, int worker) {
                    RunPart(pointers, packed, {.row_block = task, .panels = split_.panels},
                            epilogue, scratch.of(worker));
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

 private:
  /// Some panels of a block of rows; the blocks of all batches are counted.
  struct Part {
    int64_t row_block = 0;
    int64_t first_panel = 0;
    int64_t panels = 1;
    const std::byte* panel = nullptr;  // the only one, where the task has made it
  };

  /// The part of a task where each is one block. A thread meets the same panel again and again; or,
  /// where all panels stay in its cache, the same rows: those that other products see as its own.
  Part PartOf(int64_t task) const {
    constexpr int64_t kNearBytes = 512 << 10;
    if (!split_.copies && hammock::BytesOf(spec_.dtype, spec_.k * spec_.n) <= kNearBytes) {
      return {task / split_.panels, task % split_.panels};
    }
    int64_t of_batch = split_.row_blocks * split_.panels;
    int64_t in_batch = task % of_batch;
    return {task / of_batch * split_.row_blocks + in_batch % split_.row_blocks,
            in_batch / split_.row_blocks};
  }

  /// In the memory of a thread: the panel that it has made last, which its next task may want too.
  struct alignas(64) OwnPanelHead {
    int64_t index;
  };
  OwnPanelHead& OwnPanel(std::byte* memory) const {
    return *reinterpret_cast<OwnPanelHead*>(memory + part_bytes_ + epilogue_bytes_);
  }
  const std::byte* MakeOwn(const void* b, const Part& part, std::byte* memory) const {
    OwnPanelHead& head = OwnPanel(memory);
    std::byte* panel = reinterpret_cast<std::byte*>(&head + 1);
    int64_t index = part.row_block / split_.row_blocks * split_.panels + part.first_panel;
    if (std::exchange(head.index, index) != index) MakePanel(b, index, panel, nullptr);
    return panel;
  }

  /// How the panels of b are made, and where.
  void PlanPanels() {
    for (bool last : {false, true}) {
      int64_t columns = Columns(last);
      if (split_.copies) {
        copies_.emplace_back(hammock::BytesOf(spec_.dtype, 1), Dims{spec_.k, columns},
                             Dims{spec_.b.row, spec_.b.column}, Dims{columns, 1});
      } else {
        packers_.emplace_back(PlainB(columns), BlockAt(false, last).b);
        worker_bytes = std::max(worker_bytes, packers_.back().scratch_bytes());
      }
      panel_bytes_ = std::max(panel_bytes_, BytesOf(BlockAt(false, last).b));
      packed_key += KeyOf(PlainB(Columns(last))) + KeyOf(BlockAt(false, last).b);
    }
    int64_t panels = Product(spec_.batch) * split_.panels;
    packed_bytes = panels * panel_bytes_;
    packed_key +=
        fmt::format("{} {} {}", split_.panels, ToString(spec_.batch), ToString(spec_.b.batch));
    if (split_.copies && !by_rows_ && panels >= ThreadPool::threads()) {
      own_panel_bytes_ = static_cast<int64_t>(sizeof(OwnPanelHead)) + panel_bytes_;
    } else {
      shared_bytes = packed_bytes;
    }
  }

  /// Whether the epilogue runs here, and where the parts for it are.
  void PlanParts() {
    constexpr int64_t kMostBytes = 512 << 10;  // of a part that is to stay in the cache
    constexpr int64_t kMostApart = 2 << 20;    // of a part with what lies between its rows
    constexpr int64_t kFewParts = 8;           // that would leave threads without work
    const EpilogueSpec& epilogue = spec_.epilogue;
    if (!epilogue.wanted) return;
    int64_t width = hammock::BytesOf(spec_.out_dtype, 1);
    by_rows_ = epilogue.whole_rows && split_.panels > 1;
    int64_t columns = by_rows_ ? spec_.n : split_.columns;
    finishes = !by_rows_ || (split_.rows * columns * width <= kMostBytes &&
                             Product(spec_.batch) * split_.row_blocks >= kFewParts);
    by_rows_ &= finishes;
    epilogue_bytes_ = epilogue.scratch_bytes;
    // A block lies as it would in the result: the library may compute otherwise where it does not.
    int64_t bytes = RoundUp(((split_.rows - 1) * spec_.out.row + columns) * width, 64);
    apart = finishes && !epilogue.stores && bytes <= kMostApart;
    if (apart) part_bytes_ = bytes;
  }

  int64_t Rows(bool last) const {
    return last ? spec_.m - (split_.row_blocks - 1) * split_.rows : split_.rows;
  }
  int64_t Columns(bool last) const {
    return last ? spec_.n - (split_.panels - 1) * split_.columns : split_.columns;
  }

  /// Strides of dims with one element are free; these are what oneDNN expects.
  static memory::desc Matrix(int64_t rows, int64_t columns, int64_t row, int64_t column,
                             memory::data_type type) {
    if (rows == 1) row = std::max(columns * column, row);
    if (columns == 1) column = row == 1 ? rows : 1;
    return memory::desc({rows, columns}, type, memory::dims{row, column});
  }

  memory::desc PlainB(int64_t columns) const {
    return Matrix(spec_.k, columns, spec_.b.row, spec_.b.column, type_);
  }

  /// Blocks of equal size are one.
  void MakeBlock(bool last_row, bool last_panel) {
    const size_t same_rows = last_row && Rows(true) == Rows(false) ? 0 : last_row;
    const size_t same_panel = last_panel && Columns(true) == Columns(false) ? 0 : last_panel;
    const size_t like = same_rows * 2 + same_panel, here = last_row * 2 + last_panel;
    if (like != here) {
      block_of_[here] = block_of_[like];
      return;
    }
    int64_t rows = Rows(last_row);
    int64_t columns = Columns(last_panel);
    Block block;
    memory::desc a = Matrix(rows, spec_.k, spec_.a.row, spec_.a.column, type_);
    memory::desc out = memory::desc({rows, columns}, out_type_, memory::dims{spec_.out.row, 1});
    block.b = split_.copies ? Matrix(spec_.k, columns, columns, 1, type_) : PlainB(columns);
    if (split_.packs) {
      // All rows meet the form that the first block chose.
      block.b = last_row ? BlockAt(false, last_panel).b
                         : memory::desc({spec_.k, columns}, type_, memory::format_tag::any);
    }
    dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, block.b, out), WithOurScratch(),
                                      Engine());
    block.b = desc.weights_desc();
    block.call = Call(dnnl::matmul(desc), desc.scratchpad_desc(),
                      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, block.b}, {DNNL_ARG_DST, out}});
    worker_bytes = std::max(worker_bytes, block.call.scratch_bytes());
    block_of_[here] = blocks_.size();
    blocks_.push_back(std::move(block));
  }

  const Block& BlockAt(bool last_row, bool last_panel) const {
    return blocks_[block_of_[last_row * 2 + last_panel]];
  }

  void PackInto(const void* b, std::byte* packed, const Scratch& scratch, ThreadPool& pool) const {
    int64_t panels = Product(spec_.batch) * split_.panels;
    if (split_.copies && panels < scratch.workers) {
      for (int64_t i = 0; i < panels; ++i)
        MakePanel(b, i, packed + i * panel_bytes_, nullptr, true);
      return;
    }
    ForEachTask(pool, scratch.workers, panels, spec_.k * split_.columns * 4,
                [&](int64_t task, int worker) {
                  MakePanel(b, task, packed + task * panel_bytes_, scratch.of(worker));
                });
  }

  /// The panels of all batches are counted. Copies are made by the calling thread, or by all.
  void MakePanel(const void* b, int64_t index, std::byte* panel, std::byte* scratch,
                 bool by_all = false) const {
    OneThread one;
    int64_t batch = index / split_.panels, in_batch = index % split_.panels;
    int64_t offset =
        BatchOffset(spec_.batch, spec_.b.batch, batch) + in_batch * split_.columns * spec_.b.column;
    const std::byte* from =
        static_cast<const std::byte*>(b) + offset * hammock::BytesOf(spec_.dtype, 1);
    bool last = in_batch == split_.panels - 1;
    if (!split_.copies) return packers_[last](from, panel, scratch);
    const char* source = reinterpret_cast<const char*>(from);
    char* target = reinterpret_cast<char*>(panel);
    by_all ? copies_[last].Run(source, target) : copies_[last].RunAlone(source, target);
  }

  /// Computes a part where it belongs, or in `memory` if only the epilogue sees it.
  void RunPart(const MatMul::Pointers& pointers, const std::byte* packed, const Part& part,
               const Epilogue* epilogue, std::byte* memory) const {
    OneThread one;
    int64_t width = hammock::BytesOf(spec_.out_dtype, 1);
    int64_t batch = part.row_block / split_.row_blocks;
    int64_t row_block = part.row_block % split_.row_blocks;
    int64_t row = row_block * split_.rows;
    int64_t column = part.first_panel * split_.columns;
    std::byte* out = memory;
    if (!apart) {
      out =
          static_cast<std::byte*>(pointers.out) +
          (BatchOffset(spec_.batch, spec_.out.batch, batch) + row * spec_.out.row + column) * width;
    }
    for (int64_t i = 0; i < part.panels; ++i) {
      int64_t panel = part.first_panel + i;
      const std::byte* right = part.panel ? part.panel : Panel(pointers, packed, batch, panel);
      RunBlock(pointers, right, batch, row_block, panel, out + i * split_.columns * width,
               memory + part_bytes_ + epilogue_bytes_ + own_panel_bytes_);
    }
    if (!epilogue) return;
    int64_t columns = std::min(part.panels * split_.columns, spec_.n - column);
    int64_t rows = Rows(row_block == split_.row_blocks - 1);
    epilogue->Run({out, spec_.out.row, batch * spec_.m + row, rows, column, columns},
                  memory + part_bytes_);
  }

  const std::byte* Panel(const MatMul::Pointers& pointers, const std::byte* packed, int64_t batch,
                         int64_t panel) const {
    if (packed) return packed + (batch * split_.panels + panel) * panel_bytes_;
    int64_t offset =
        BatchOffset(spec_.batch, spec_.b.batch, batch) + panel * split_.columns * spec_.b.column;
    return static_cast<const std::byte*>(pointers.b) + offset * hammock::BytesOf(spec_.dtype, 1);
  }

  void RunBlock(const MatMul::Pointers& pointers, const std::byte* right, int64_t batch,
                int64_t row_block, int64_t panel, std::byte* out, std::byte* scratch) const {
    bool last_row = row_block == split_.row_blocks - 1;
    bool last_panel = panel == split_.panels - 1;
    const Block& block = BlockAt(last_row, last_panel);
    int64_t width = hammock::BytesOf(spec_.dtype, 1);
    int64_t a =
        BatchOffset(spec_.batch, spec_.a.batch, batch) + row_block * split_.rows * spec_.a.row;
    block.call({static_cast<const std::byte*>(pointers.a) + a * width, right, out, scratch});
  }

  const MatMulSpec spec_;
  const memory::data_type type_, out_type_;
  const Split split_;
  std::vector<Block> blocks_;
  size_t block_of_[4] = {};  // which of them: last row block or not, last panel or not
  // How the panels of b are made, the last one differently; one of them.
  std::vector<Reorder> packers_;
  std::vector<StridedCopy> copies_;
  int64_t panel_bytes_ = 0;      // of a panel that is made
  int64_t own_panel_bytes_ = 0;  // where each task makes its own
  // The parts that the epilogue gets.
  bool by_rows_ = false;  // all panels of a block of rows
  int64_t part_bytes_ = 0;
  int64_t epilogue_bytes_ = 0;
};

}  // namespace

std::unique_ptr<MatMulKernel> MakeOneDnnMatMul(const MatMulSpec& spec) {
  auto type = TypeOf(spec.dtype);
  auto out_type = TypeOf(spec.out_dtype);
  if (!type || !out_type || LibraryCall::Closed()) return nullptr;
  // Both need one dim that lies without gaps.
  if (spec.a.row != 1 && spec.a.column != 1) return nullptr;
  if (spec.b.row != 1 && spec.b.column != 1) return nullptr;
  Split split(spec);
  bool row_major = spec.b.column == 1 && spec.b.row == spec.n;
  if (!row_major && !split.packs && !split.copies) return nullptr;
  LibraryCall call;
  try {
    return std::make_unique<OneDnnMatMul>(spec, *type, *out_type);
  } catch (const dnnl::error&) {
    return nullptr;  // not on this processor, or not in this version
  }
}

}  // namespace hammock::cpu
