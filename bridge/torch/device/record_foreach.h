#pragma once
/// RecordForeach: the kernel of a `_foreach_` operator for device "hammock". It records the op of
/// single tensors for each item of the lists, without a way through PyTorch's dispatcher for each.

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "device/record_op.h"

namespace hammock_torch {

class RecordForeach final : public c10::OperatorKernel {
 public:
  /// Null where no op of single tensors that the table knows takes the items: PyTorch's loop then
  /// serves.
  static std::unique_ptr<RecordForeach> Of(const c10::OperatorHandle& op);

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) const;

 private:
  RecordForeach(const c10::OperatorHandle& op, const c10::OperatorHandle& single);

  const c10::OperatorHandle single_handle_;
  const RecordOp single_;
  std::vector<bool> listed_;           ///< of each argument, whether it has an item for each call
  std::vector<size_t> written_;        ///< the arguments that are written
  std::vector<c10::IValue> defaults_;  ///< of the arguments that only the single op has
};

}  // namespace hammock_torch
