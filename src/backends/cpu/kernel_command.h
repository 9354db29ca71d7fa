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
  /// The launch is borrowed; `code` is that of its kernel.
  KernelCommand(const compiler::Launch& launch, std::shared_ptr<KernelCode> code);

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
  // By access.
  const int64_t* row_strides() const { return numbers_.data(); }
  const int64_t* column_strides() const { return row_strides() + launch_.maps.size(); }
  /// 1 for a number.
  const int64_t* element_bytes() const { return column_strides() + launch_.maps.size(); }
  /// In a worker's scratch memory; -1: not there.
  const int64_t* scratch_at() const { return element_bytes() + launch_.maps.size(); }

  const compiler::Launch& launch_;
  std::shared_ptr<KernelCode> code_;
  std::vector<int64_t> numbers_;  // the four lists, in one piece: large programs have many commands
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
