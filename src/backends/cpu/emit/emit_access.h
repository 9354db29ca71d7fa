#pragma once
/// Prints how kernels reach memory: arguments, addresses, loads and stores, whole or with masks.

#include <string>
#include <vector>

#include "backends/cpu/emit/emit_values.h"
#include "hammock/compiler/kernel.h"

namespace hammock::cpu {

/// Where an instruction stands: which rows and columns its vector has.
struct Spot {
  int lanes = 1;
  std::string row = {};     ///< number of the first row; where lanes lie along rows
  std::string column = {};  ///< number of the (first) column; elements only
  std::string mask = {};    ///< empty: all lanes count
};

class AccessEmitter {
 public:
  AccessEmitter(const compiler::Kernel& kernel, compiler::IrText& ir, ValueEmitter& values)
      : kernel_(kernel), ir_(ir), values_(values) {}

  /// At the beginning of the kernel.
  void LoadArguments();
  const std::string& rows() const { return rows_; }
  const std::string& columns() const { return columns_; }
  /// Accesses that are emitted from now on are in this row; where lanes lie along columns.
  void MoveToRow(const std::string& row);

  std::string Load(const compiler::Instr& instr, const Spot& spot);
  void Store(const compiler::Instr& instr, const Spot& spot, const std::string& value);
  /// Asks for what an access to consecutive columns will need here, or here in the next row.
  void Prefetch(const compiler::Instr& instr, const Spot& spot, bool next_row);
  std::string Position(const compiler::Instr& instr, const Spot& spot);
  /// The bits of a constant, as an i64.
  const std::string& Bits(int access) const { return pointer_[access]; }

 private:
  /// Where an access lies for one vector: its first element, and how lanes go on from there.
  struct Address {
    std::string pointer;
    compiler::Stride lanes = compiler::Stride::kZero;  // kZero: all lanes have the same element
    std::string stride;
  };

  std::string Argument(size_t offset, std::string_view type);
  bool IsNumber(size_t access) const;
  std::string At(const std::string& pointer, DType dtype, const std::string& distance);
  Address AddressOf(const compiler::Instr& instr, const Spot& spot);
  std::string LanePointers(const Address& address, DType dtype, int lanes);

  const compiler::Kernel& kernel_;
  compiler::IrText& ir_;
  ValueEmitter& values_;
  std::string rows_, columns_;
  std::vector<std::string> pointer_, row_pointer_, row_stride_, column_stride_;  // by access
};

}  // namespace hammock::cpu
