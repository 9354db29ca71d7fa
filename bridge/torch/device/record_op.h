#pragma once
/// RecordOp: the kernel of one operator for device "hammock". It turns PyTorch's boxed arguments
/// into Hammock's, records the op by the table of aten ops, and gives the results PyTorch's form:
/// new tensors, views that share a storage, or the tensors that were written.

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

#include "device/caller.h"
#include "device/device_tensor.h"
#include "engine/aten_op.h"

namespace hammock_torch {

class RecordOp final : public c10::OperatorKernel {
 public:
  explicit RecordOp(const c10::OperatorHandle& op);

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) const;

 private:
  enum class Relation { kNew, kView, kWritten };
  /// How a result relates to an argument.
  struct Result {
    Relation relation = Relation::kNew;
    size_t argument = 0;
  };

  c10::IValue Boxed(const hammock::Any& value, size_t result, c10::ArrayRef<c10::IValue> arguments,
                    c10::DeviceIndex index) const;
  bool PushViewsByMeta(torch::jit::Stack* stack) const;
  hammock::Any Call(const std::vector<hammock::Any>& values) const;

  const c10::OperatorHandle handle_;
  const AtenOp& op_;
  const Adaptor adaptor_;           ///< of the device alone, or null
  std::vector<std::string> names_;  ///< of the arguments
  const AtenOp* view_ = nullptr;    ///< of `t_`, which only changes sizes and strides: `t`
  std::vector<Result> results_;
  bool is_view_ = false;
  bool mixes_devices_ = false;  ///< takes tensors of the CPU as indices
  int format_at_ = -1;          ///< the argument memory_format
  int generator_at_ = -1;
};

/// The op on tensors without data: PyTorch's own answer to which sizes, strides and errors it has.
/// Pops the arguments from the stack and pushes the results.
void RunOnMeta(const c10::OperatorHandle& op, torch::jit::Stack& stack);

/// Whether every result is compared with what `meta` says; for tests.
bool ChecksMeta();
void SetChecksMeta(bool checks);

/// Ops that were recorded, by all threads.
int64_t RecordedOps();

/// While one lives, PyTorch's CPU generator continues where `generator` (of the device, may be
/// undefined) stands, which then takes the numbers that were drawn into account.
class DrawsFrom {
 public:
  explicit DrawsFrom(const c10::IValue& generator);
  ~DrawsFrom();
  DrawsFrom(const DrawsFrom&) = delete;
  DrawsFrom& operator=(const DrawsFrom&) = delete;

 private:
  at::Generator generator_;
  at::Tensor outer_state_;
};

}  // namespace hammock_torch
