#pragma once
/// BlockMatMul: a matmul divided into blocks, which a library multiplies on one thread each. This
/// class handles tasks, panels and epilogues; a derived class multiplies.

#include <string>
#include <vector>

#include "backends/cpu/host/strided_copy.h"
#include "backends/cpu/matmul/matmul_kernel.h"

namespace hammock::cpu {

/// How a matmul is divided: by its shape and layout alone.
///
/// Note [Panels]
/// A panel is some columns of b. It is multiplied as it is stored, as a copy with contiguous rows
/// (if b is stored transposed), as such a copy in f32, or as a packed weight. If there are enough
/// tasks for all threads, each task copies the panel that it multiplies by, so that the panel is
/// still in the cache when it is read.
struct MatMulSplit {
  enum class Panels {
    kStored,   ///< as they are in b
    kCopied,   ///< with contiguous rows
    kPacked,   ///< packed by the library
    kWidened,  ///< as f32, with contiguous rows
  };
  Panels storage = Panels::kStored;
  int64_t rows = 0, columns = 0;
  int64_t row_blocks = 0, panels = 0;

  bool copies() const { return storage == Panels::kCopied; }
  bool packs() const { return storage == Panels::kPacked; }
  bool widens() const { return storage == Panels::kWidened; }

  /// The last block of rows and the last panel may be smaller. b that is stored transposed is
  /// copied unless it is packed.
  static MatMulSplit Of(const MatMulSpec& spec, int64_t rows, int64_t columns,
                        Panels storage = Panels::kStored);
};

class BlockMatMul : public MatMulKernel {
 public:
  void Run(const MatMul::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override;
  void Pack(const void* b, void* packed, ThreadPool& pool) const override;

  /// A derived class adds the scratch memory of its calls to `worker_bytes`.
  BlockMatMul(const MatMulSpec& spec, const MatMulSplit& split);

 protected:
  struct Block {
    bool last_row, last_panel;
    const std::byte* a;
    const std::byte* b;  ///< a panel as `split` says
    std::byte* out;
  };
  virtual void Multiply(const Block& block, std::byte* scratch) const = 0;
  /// Makes a panel of b that is not a mere copy.
  virtual void PackPanel(const std::byte* /*b*/, std::byte* /*packed*/, bool /*last*/,
                         std::byte* /*scratch*/) const {}
  /// The size of a panel that is made, and the key of its layout.
  void PlanPanels(int64_t panel_bytes, std::string key);
  /// Copies a panel of b in its own dtype.
  void CopyPanel(const std::byte* b, std::byte* panel, bool last, bool by_all = false) const;

  int64_t Rows(bool last) const {
    return last ? spec_.m - (split_.row_blocks - 1) * split_.rows : split_.rows;
  }
  int64_t Columns(bool last) const {
    return last ? spec_.n - (split_.panels - 1) * split_.columns : split_.columns;
  }
  /// The stride of the rows of a panel that is not packed, in elements.
  int64_t PanelStride(bool last) const {
    return split_.copies() || split_.widens() ? Columns(last) : spec_.b.row;
  }

  const MatMulSpec spec_;
  const MatMulSplit split_;

 private:
  /// Some panels of a block of rows; the blocks of all batches are counted.
  struct Part {
    int64_t row_block = 0;
    int64_t first_panel = 0;
    int64_t panels = 1;
    const std::byte* panel = nullptr;  // the only one, where the task has made it
  };
  /// In the memory of a thread: the panel that it made last, which its next task may use too.
  struct alignas(64) OwnPanelHead {
    int64_t index;
  };

  void PlanParts();
  Part PartOf(int64_t task) const;
  OwnPanelHead& OwnPanel(std::byte* memory) const;
  const std::byte* MakeOwn(const void* b, const Part& part, std::byte* memory) const;
  /// Where the scratch memory of the derived class begins.
  std::byte* CallScratch(std::byte* memory) const {
    return memory + part_bytes_ + epilogue_bytes_ + own_panel_bytes_;
  }
  void PackInto(const void* b, std::byte* packed, const Scratch& scratch, ThreadPool& pool) const;
  void MakePanel(const void* b, int64_t index, std::byte* panel, std::byte* scratch,
                 bool by_all = false) const;
  void RunPart(const MatMul::Pointers& pointers, const std::byte* packed, const Part& part,
               const Epilogue* epilogue, std::byte* memory) const;
  const std::byte* Panel(const MatMul::Pointers& pointers, const std::byte* packed, int64_t batch,
                         int64_t panel) const;

  const int64_t width_;              // bytes of an element of a and b
  std::vector<StridedCopy> copies_;  // of the panels of b, the last one differently
  int64_t panel_bytes_ = 0;          // of a panel that is made
  int64_t own_panel_bytes_ = 0;      // where each task makes its own
  // The parts that the epilogue gets.
  bool by_rows_ = false;  // all panels of a block of rows
  int64_t part_bytes_ = 0;
  int64_t epilogue_bytes_ = 0;
};

}  // namespace hammock::cpu
