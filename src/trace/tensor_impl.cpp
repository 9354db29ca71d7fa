#include "trace/tensor_impl.h"

#include "base/location_scope.h"
#include "base/never_destroyed.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/metric.h"
#include "ir/primitives.h"
#include "trace/held_bytes.h"
#include "trace/hooks.h"
#include "trace/record.h"

namespace hammock {

constinit thread_local ThreadContext* tls_context = nullptr;

namespace {

constinit const metrics::DeclaredCounter kCreatedTensors({
    .name = "CreateLtcTensor",
    .doc = "Tensors made; views and temporaries count.",
});

constinit const metrics::DeclaredCounter kDestroyedTensors({
    .name = "DestroyLtcTensor",
    .doc = "Tensors whose last handle was destroyed.",
});

constinit const metrics::DeclaredCounter kTracedOps({
    .name = "TracedOps",
    .doc = "Ops recorded.",
});

struct Contexts {
  std::mutex mutex;
  std::vector<ThreadContext*> all;
};
Contexts& contexts() {
  static auto& instance = NeverDestroyed<Contexts>();
  return instance;
}

struct AtThreadEnd {
  ~AtThreadEnd() {
    ResetBudgets(*tls_context);
    SealUnit(*tls_context);
    tls_context->units.clear();
    std::lock_guard lock(contexts().mutex);
    tls_context->in_use = false;
    tls_context = nullptr;
    process_exit::ComeFirst();
  }
};

bool IsEmpty(ThreadContext& context) {
  std::lock_guard lock(context.lock);
  return context.pending.next == &context.pending && context.settled.next == &context.settled;
}

// As created_tensors.
metrics::Counter* destroyed = nullptr;

}  // namespace

metrics::Counter* created_tensors = nullptr;

ThreadContext& MakeThreadContext() {
  static thread_local AtThreadEnd at_end;
  (void)at_end;
  std::lock_guard lock(contexts().mutex);
  if (!created_tensors) {
    created_tensors = &metrics::Get<kCreatedTensors>();
    destroyed = &metrics::Get<kDestroyedTensors>();
  }
  for (ThreadContext* context : contexts().all) {
    if (!context->in_use && IsEmpty(*context)) {
      context->in_use = true;
      return *(tls_context = context);
    }
  }
  contexts().all.push_back(new ThreadContext);
  return *(tls_context = contexts().all.back());
}

void CountTraced(ThreadContext& context) {
  metrics::Get<kTracedOps>().Add(context.traced_nodes - context.counted_nodes);
  if (context.first_op_ns != 0) [[unlikely]]
    WriteRecorded(context, context.traced_nodes - context.counted_nodes);
  context.counted_nodes = context.traced_nodes;
}

std::vector<ThreadContext*> AllContexts() {
  std::lock_guard lock(contexts().mutex);
  return contexts().all;
}

bool HasEnded(const ThreadContext& context) {
  std::lock_guard lock(contexts().mutex);
  return !context.in_use;
}

Tensor NewTensor(Node* node, uint32_t index, bool settled) {
  return NewTensor(Context(), node, index, settled);
}

void DestroyImpl(TensorImpl* impl) {
  ThreadContext& context = Context();
  if (impl->undo) [[unlikely]]
    ForgetWrites(*impl);
  if (ThreadContext* owner = impl->owner) {
    // Another thread's counts are its own; they are too high for a while.
    if (owner == &context) RemoveHeldBytes(context, *impl);
    std::lock_guard lock(owner->lock);
    impl->Remove();
  }
  Node* node = impl->node;
  impl->~TensorImpl();
  pool::Free(impl, sizeof(TensorImpl));
  if (node) NodeAccess::Drop(node);
  destroyed->Add();
}

void SetNode(TensorImpl& impl, const Value& value) {
  Node* old = impl.node;
  Node* node = value.node.get();
  node->AddReference();
  auto assign = [&] {
    impl.host_is_current = false;
    impl.node = node;
    impl.index = value.index;
  };
  if (impl.owner) {
    {
      std::lock_guard lock(impl.owner->lock);
      impl.Remove();
      assign();
    }
    ThreadContext& context = Context();
    std::lock_guard lock(context.lock);
    impl.owner = &context;
    impl.InsertBefore(&context.pending);
  } else {
    assign();
  }
  if (old) old->DropReference();
}

/// Callers on the fast path only have the schema at hand.
static std::string_view NameIn(std::string_view schema) {
  return schema.substr(0, schema.find('('));
}

void ThrowUndefined(const char* op) {
  Throw(ErrorCode::kUninitializedTensor,
        "{}: the tensor is undefined (default-constructed or moved from); give it a value first",
        NameIn(op));
}

void ThrowUndefined(const char* op, const Location& at) {
  UserLineScope scope(at);
  ThrowUndefined(op);
}

void ThrowDonated(const char* op, const TensorImpl& impl) {
  Throw(ErrorCode::kUseAfterDonate,
        "{}: the tensor {} was donated and its memory given to another value; clone it before "
        "donating",
        NameIn(op), impl.node->shape(static_cast<int>(impl.index)).to_string());
}

NodePtr MakeHostLeaf(const HostTensor& host, DeviceId device, LocationId location) {
  Shape shape = host.shape();
  NodePtr node = Node::Make(ops::kDeviceData, {}, {}, std::span(&shape, 1), device, location);
  NodeAccess::MakePayload(node.get()).host = host;
  return node;
}

NodePtr MakeDataLeaf(const BackendDataPtr& data, DeviceId device, LocationId location) {
  Shape shape = data->shape();
  NodePtr node = Node::Make(ops::kDeviceData, {}, {}, std::span(&shape, 1), device, location);
  node->slots()[0].data = data;
  return node;
}

Tensor SymbolicTensor(const Shape& shape) {
  NodePtr node = Node::Make(ops::kDeviceData, {}, {}, std::span(&shape, 1), kNoDevice, 0);
  return NewTensor(node.release(), 0, true);
}

}  // namespace hammock
