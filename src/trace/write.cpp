#include "trace/write.h"

#include <mutex>

#include "hammock/config.h"
#include "trace/alias.h"
#include "trace/hooks.h"
#include "trace/tensor_impl.h"

namespace hammock {

Value WrittenValue(const TensorImpl& impl) {
  if (impl.SharesMemory()) return BaseValue(impl.view->group);
  return {NodePtr(impl.node), impl.index, impl.tape};
}

void Unwrite(TensorImpl& impl, const Value& written, const Value& old) {
  if (!impl.SharesMemory()) {
    SetNode(impl, old);
    impl.tape = old.tape;
    return;
  }
  AliasGroup& group = *impl.view->group;
  std::lock_guard lock(group.mutex);
  if (group.base != written) return;
  group.base = old;
  group.generation.fetch_add(1);
}

void Write(const char* op, const Tensor& self, Value value, bool is_shared) {
  ThreadContext& context = Context();
  TensorImpl& impl = *self.impl();
  if (context.grad_mode) value.tape = HistoryOfWrite(op, impl, value);
  auto write = [&] {
    WriteValue(op, impl, value, is_shared);
    if (context.grad_mode) impl.tape = value.tape;
  };
  bool eager = config::Get<config::kEager>() || context.eager > 0;
  if (!eager || context.symbolic > 0) return write();
  Value old = WrittenValue(impl);
  write();
  Value written = WrittenValue(impl);
  try {
    ComputeWritten(written);
  } catch (...) {
    Unwrite(impl, written, old);
    throw;
  }
}

}  // namespace hammock
