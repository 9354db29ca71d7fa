#pragma once
/// Tensors that a function uses without being given them, such as a module's parameters, become
/// inputs of its graph by standing in for them while it is traced.

#include <vector>

#include "hammock/tensor.h"
#include "trace/hooks.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"
#include "trace/write.h"

namespace hammock {

/// While one lives, tensors have the values of stand-ins, whoever holds a handle to them.
class StandIns {
 public:
  StandIns(const std::vector<Tensor>& tensors, const std::vector<Tensor>& stand_ins)
      : tensors_(tensors), stand_ins_(stand_ins) {
    GradModeScope no_history(false);
    for (size_t i = 0; i < tensors.size(); ++i) {
      before_.push_back(WrittenValue(*tensors[i].impl()));
      given_.push_back(ValueOf("trace", stand_ins[i]));
      WriteValue("trace", *tensors[i].impl(), given_[i]);
    }
  }
  ~StandIns() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      TensorImpl& impl = *tensors_[i].impl();
      Unwrite(impl, WrittenValue(impl), before_[i]);
    }
  }
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  /// Writes the values that were written to the tensors to the stand-ins as well.
  void PassWritesOn() {
    GradModeScope no_history(false);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      Value now = ValueOf("trace", tensors_[i]);
      if (now.node != given_[i].node) WriteValue("trace", *stand_ins_[i].impl(), now);
    }
  }

 private:
  const std::vector<Tensor>& tensors_;
  const std::vector<Tensor> stand_ins_;
  std::vector<Value> before_, given_;
};

}  // namespace hammock
