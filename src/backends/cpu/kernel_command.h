#pragma once
/// KernelCommand: a kernel at certain sizes, divided into tiles of rows and columns for several
/// threads. Results do not depend on the division.

#include <memory>
#include <vector>

#include "backends/cpu/code/kernel_code.h"
#include "hammock/compiler/kernel.h"

namespace hammock::cpu {

/// The number of element instructions up to which a second thread does not pay.
inline constexpr int64_t kSerialWork = 1 << 16;

/// Immutable.
class KernelCommand {
 public:
  /// `code` is that of the launch's kernel.
  KernelCommand(compiler::Launch launch, std::shared_ptr<KernelCode> code);

  const std::shared_ptr<KernelCode>& code() const { return code_; }
  int64_t tiles() const { return outer_count_ * row_tiles_ * column_tiles_; }
  /// The work, in element instructions.
  int64_t work() const { return tile_work_ * tiles(); }

  /// Of each thread that runs it.
  int64_t scratch_bytes() const { return worker_scratch_; }
  int64_t bytes() const;  ///< held by this

  /// Runs some of the tiles on one thread. `buffers` are those of the schedule.
  void Run(compiler::BufferSpan<char*> buffers, char* scratch, int64_t begin, int64_t end,
           int worker) const;

 private:
  void DivideIntoTiles();

  const compiler::Launch launch_;
  std::shared_ptr<KernelCode> code_;
  std::vector<int64_t> element_bytes_;  // by access; 1 for a number
  std::vector<int64_t> row_strides_;
  std::vector<int64_t> column_strides_;
  std::vector<int64_t> scratch_at_;  // by access: in a worker's scratch memory; -1: not there
  int64_t worker_scratch_ = 0;
  bool streams_ = false;  // non-temporal stores
  int64_t outer_count_ = 1;
  int64_t row_tile_ = 1;
  int64_t column_tile_ = 1;
  int64_t row_tiles_ = 1;
  int64_t column_tiles_ = 1;
  int64_t tile_work_ = 1;
};

}  // namespace hammock::cpu
