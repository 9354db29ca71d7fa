#pragma once
/// FusedMatMul: a matmul or convolution and the kernel that runs on each part of its result
/// (compiler/loops/attach_epilogues.h), as one call.

#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/calls/calls.h"
#include "backends/cpu/code/kernel_code.h"
#include "backends/cpu/matmul/channel_epilogue.h"
#include "backends/cpu/matmul/matmul.h"
#include "hammock/compiler/schedule.h"

namespace hammock::cpu {

/// A dot_general or a convolution. Behind the operands of its node comes the second one as a packed
/// weight, or null.
class MatMulCall : public Call {
 public:
  virtual void Run(std::span<const char* const> in, char* out, char* scratch,
                   const Epilogue* epilogue) const = 0;
  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* scratch) const override {
    Run(in, out[0], scratch, nullptr);
  }
};

/// Of a convolution of either layout.
ConvolutionSpec ConvolutionSpecOf(const Graph& graph, const GraphNode& node);

std::unique_ptr<MatMulCall> MakeMatMulCall(const Graph& graph, NodeId node,
                                           const EpilogueSpec& epilogue);

/// Its operands are those of the matmul, the packed weight, and then the other operands of the
/// kernel; its results are the buffers that the command writes.
class FusedMatMul : public Call {
 public:
  /// A command of `schedule`, which is of `graph`, with a launch of its kernel, which is borrowed,
  /// and whose code is `code`. The matmul itself is node `node` of `sized`: another graph where it
  /// has other sizes.
  FusedMatMul(const Graph& graph, const compiler::Schedule& schedule,
              const compiler::Command& command, const compiler::Launch& launch,
              std::shared_ptr<KernelCode> code, const Graph& sized, NodeId node);

  const std::shared_ptr<KernelCode>& code() const { return code_; }
  const std::vector<compiler::BufferId>& operands() const { return operands_; }
  int64_t scratch_bytes() const override { return matmul_->scratch_bytes(); }
  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* scratch) const override;
  const char* kernel() const override { return matmul_->kernel(); }
  PackedWeightSpec packed_weight() const override { return matmul_->packed_weight(); }
  void PackWeight(const char* operand, char* packed) const override {
    matmul_->PackWeight(operand, packed);
  }

 private:
  class Parts;
  enum class Where : uint8_t { kMatMul, kOperand, kResult, kScratch, kNumber };
  /// The memory behind an access of the kernel.
  struct Source {
    Where where = Where::kNumber;
    size_t index = 0;        // among operands or results
    int64_t scratch_at = 0;  // in a thread's scratch memory
    int64_t element_bytes = 1;
  };

  Source SourceOf(size_t access, compiler::BufferId matmul, const compiler::Command& command);

  const compiler::Launch& launch_;
  const size_t row_loops_;
  std::shared_ptr<KernelCode> code_;
  std::vector<Source> sources_;  // by access
  std::optional<ChannelEpilogueForm> of_channels_;
  std::vector<int64_t> column_strides_;
  std::vector<compiler::BufferId> operands_;
  int result_ = -1;  // of the matmul, among the results; -1: it is not stored
  int64_t scratch_bytes_ = 0;
  std::unique_ptr<MatMulCall> matmul_;
};

}  // namespace hammock::cpu
