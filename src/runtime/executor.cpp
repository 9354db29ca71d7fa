#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <unordered_set>

#include "base/fork.h"
#include "base/location_scope.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "base/of_thread.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/borrowed.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/backend_calls.h"
#include "runtime/code_settings.h"
#include "runtime/debug_print.h"
#include "runtime/general_step.h"
#include "runtime/memory_pressure.h"
#include "runtime/profile_points.h"
#include "runtime/settle_units.h"
#include "runtime/under_way.h"
#include "trace/hooks.h"
#include "trace/record.h"

namespace hammock {

constinit config::Option<bool> config::kExplainMisses({
    .name = "explain_misses",
    .default_value = false,
    .doc = "Log for every compilation why no cached one was used.",
});

constinit config::Option<int64_t> config::kDeviceDataCacheSize({
    .name = "device_data_cache_size",
    .default_value = 128,
    .doc = "Number of scalars kept on a device for reuse; 0 keeps none.",
    .upstream = "torch_lazy_device_data_cache_size, torch_lazy_enable_device_data_cache",
});

namespace {

constinit const metrics::DeclaredCounter kDeviceDataCacheMiss({
    .name = "DeviceDataCacheMiss",
    .doc = "Scalars that had to be uploaded.",
});

constinit const metrics::DeclaredMetric kTransferToDeviceTime({
    .name = "TransferToDeviceTime",
    .kind = metrics::Kind::kTime,
    .doc = "Uploads.",
});

constinit const metrics::DeclaredMetric kTransferToDeviceBytes({
    .name = "TransferToDeviceBytes",
    .kind = metrics::Kind::kBytes,
    .doc = "Uploads.",
});

constinit const metrics::DeclaredCounter kCachedCompile({
    .name = "CachedCompile",
    .doc = "Graphs that were found compiled.",
});

uint64_t hash_mask = ~uint64_t{0};

}  // namespace

HostTensor HostValue(const Node* node) {
  if (&node->op() == &ops::kScalarLeaf) return HostTensor::From(node->attrs()[0].scalar());
  if (&node->op() == &ops::kRngState) {
    HostTensor state(node->shape());
    auto words = state.mutable_values<uint64_t>();
    words[0] = static_cast<uint64_t>(node->attrs()[0].integer());
    words[1] = static_cast<uint64_t>(node->attrs()[1].integer());
    return state;
  }
  LeafPayload* payload = NodeAccess::payload(node);
  if (!payload || !payload->host.defined()) {
    Throw(ErrorCode::kValue, "a symbolic tensor ({}) has no value to compute with",
          node->shape().to_string());
  }
  return payload->host;
}

void CheckBorrowed(const Node& node) {
  if (!config::Get<config::kCheckBorrowed>()) return;
  if (LeafPayload* payload = NodeAccess::payload(&node)) {
    CheckUnchanged(payload->host, node.location());
  }
}

void DropHostCopy(const Node& node) {
  LeafPayload* payload = NodeAccess::payload(&node);
  if (payload && !IsWatched(payload->host)) payload->host = HostTensor();
}

StepExecutor& Executor() {
  static StepExecutor* instance = [] {
    process_exit::Register(process_exit::Stage::kSteps,
                           [] { LazyGraphExecutor::Get()->PrepareToExit(); });
    return new StepExecutor;
  }();
  return *instance;
}

void CheckNotForked() {
  static uint64_t started = ForkCount();
  if (started != ForkCount()) {
    Throw<DeviceError>(ErrorCode::kForked,
                       "this process is a fork of one that had already used a device; devices and "
                       "their threads do "
                       "not survive a fork: fork first, or start a new process");
  }
}

void SetHashMaskForTesting(uint64_t mask) { hash_mask = mask; }

namespace {

std::shared_ptr<Error> ErrorOfKind(ErrorCode code, const std::string& message) {
  if (code == ErrorCode::kCompile) return std::make_shared<CompileError>(code, message);
  return std::make_shared<DeviceError>(code, message);
}

}  // namespace

std::shared_ptr<Error> CurrentError(ErrorCode code, const std::string& what) {
  try {
    throw;
  } catch (const Error& error) {
    return error.Clone();
  } catch (const std::bad_alloc&) {
    return std::make_shared<OutOfMemory>(ErrorCode::kOutOfMemory, what + ": out of host memory");
  } catch (const std::exception& error) {
    return ErrorOfKind(code, what + ": " + error.what());
  } catch (...) {
    return ErrorOfKind(code, what + ": an exception that is no std::exception");
  }
}

// ---- Collecting

namespace {

/// Computed without error, so that no step has to look at it again. With the graph mutex held.
bool IsSettled(const Value& value) {
  const BackendDataPtr& data = value.node->slots()[value.index].data;
  if (!data) return value.node->IsLeaf();
  return data->IsReady() && !data->error();
}

}  // namespace

// Note [Pending views]: what a step computes for a view is the base of its group. A view waits in
// its thread's list until the base is settled; a write puts the group on the list of the thread
// that wrote, where it stays until the new base is settled.
std::vector<Value> StepExecutor::PendingRoots(ThreadContext& context, DeviceId device) {
  std::vector<Value> roots;
  std::vector<std::shared_ptr<AliasGroup>> groups;  // first those of views, then the written ones
  std::vector<std::weak_ptr<AliasGroup>> written;
  auto wanted = [&](const Value& value) {
    return device == kNoDevice || value.node->device() == device;
  };
  {
    std::lock_guard graph(graph_mutex);
    std::lock_guard lock(context.lock);
    for (Link* link = context.pending.next; link != &context.pending;) {
      auto* impl = static_cast<TensorImpl*>(link);
      link = link->next;
      Value value{NodePtr(impl->node), impl->index};
      if (!wanted(value)) continue;
      if (impl->SharesMemory()) {
        if (groups.empty() || groups.back() != impl->view->group) {
          groups.push_back(impl->view->group);
        }
      } else if (IsSettled(value)) {
        impl->Remove();
        impl->InsertBefore(&context.settled);
      } else {
        roots.push_back(std::move(value));
      }
    }
    written.swap(context.written_groups);
  }
  if (groups.empty() && written.empty()) return roots;
  size_t views = groups.size();
  for (auto& weak : written) {
    if (auto group = weak.lock()) groups.push_back(std::move(group));
  }
  std::unordered_set<AliasGroup*> settled;  // looked up, never iterated
  std::vector<std::weak_ptr<AliasGroup>> still_written;
  for (size_t i = 0; i < groups.size(); ++i) {
    AliasGroup& group = *groups[i];
    uint64_t generation = group.generation.load();
    Value base = BaseValue(groups[i]);
    bool done;
    {
      std::lock_guard graph(graph_mutex);
      done = IsSettled(base);
    }
    if (done) settled.insert(&group);
    if (i >= views) {
      if (done) group.listed = false;
      // Another thread may have written meanwhile, and have found the group listed.
      if (!done || (group.generation.load() != generation && !group.listed.exchange(true))) {
        still_written.push_back(groups[i]);
      }
    }
    if (!done && wanted(base)) roots.push_back(std::move(base));
  }
  std::lock_guard lock(context.lock);
  for (auto& weak : still_written) context.written_groups.push_back(std::move(weak));
  for (Link* link = context.pending.next; link != &context.pending;) {
    auto* impl = static_cast<TensorImpl*>(link);
    link = link->next;
    if (!impl->SharesMemory() || !settled.contains(impl->view->group.get())) continue;
    impl->Remove();
    impl->InsertBefore(&context.settled);
  }
  return roots;
}

namespace {

/// Where the data of a scalar is kept; null: nowhere. With the graph mutex held.
DeviceEntry::CachedScalar* CachedScalarOf(DeviceEntry& device, const Scalar& value) {
  auto size = static_cast<size_t>(config::Get<config::kDeviceDataCacheSize>());
  if (device.scalars.size() != size) device.scalars.assign(size, {});
  if (size == 0) return nullptr;
  Hash128 hash = Combine(HashOf(value.bits()), static_cast<uint64_t>(value.dtype()));
  return &device.scalars[hash.lo % size];
}

BackendDataPtr NewScalarData(DeviceEntry& device, const Scalar& value) {
  metrics::Get<kDeviceDataCacheMiss>().Add();
  BackendDataPtr data = UploadScalar(device, value);
  data->SetInfo(std::make_shared<lazy::BackendData::DeviceDataInfo>(-1, /*read_only=*/true));
  return data;
}

std::vector<BackendDataPtr> UploadLeaves(DeviceEntry& device,
                                         const std::vector<HostTensor>& tensors) {
  int64_t total = 0;
  for (const HostTensor& tensor : tensors) total += tensor.bytes();
  std::vector<BackendDataPtr> data;
  {
    metrics::ScopedTimer timer(metrics::Get<kTransferToDeviceTime>());
    profile::Span span("upload", "transfer");
    span.Set("bytes", total);
    data = Upload(device, tensors);
  }
  if (profile::IsOn()) [[unlikely]]
    WriteMemory(device);
  metrics::Get<kTransferToDeviceBytes>().AddSample(static_cast<double>(total));
  return data;
}

}  // namespace

// ---- Syncing

void StepExecutor::Sync(std::span<const Value> roots, const SyncOptions& options) {
  CheckNotForked();
  if (roots.empty()) return;
  DeviceId first = roots[0].node->device();
  bool one_device = first != kNoDevice;
  for (const Value& root : roots) one_device &= root.node->device() == first;
  if (one_device) {
    SyncDevice(EntryOf(first), roots, options);
    return;
  }
  std::vector<std::pair<DeviceId, std::vector<Value>>> by_device;
  for (const Value& root : roots) {
    DeviceId device = root.node->device();
    if (device == kNoDevice) {
      if (&root.node->op() == &ops::kScalarLeaf || &root.node->op() == &ops::kConstant) continue;
      Throw(ErrorCode::kValue, "a symbolic tensor ({}) has no value to compute",
            root.shape().to_string());
    }
    auto found = std::find_if(by_device.begin(), by_device.end(),
                              [&](const auto& entry) { return entry.first == device; });
    if (found == by_device.end()) found = by_device.insert(by_device.end(), {device, {}});
    found->second.push_back(root);
  }
  SyncOptions each = options;
  each.one_device = by_device.size() < 2;
  for (auto& [device, values] : by_device) SyncDevice(EntryOf(device), values, each);
}

void StepExecutor::Flush(std::span<const Value> roots, const SyncOptions& options) {
  try {
    Sync(roots, options);
    return;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kRecompileForbidden) throw;  // the caller asked for it
  } catch (...) {
  }
  if (roots.size() > 1) {
    // Some may be fine by themselves.
    Flush(roots.first(roots.size() / 2), options);
    Flush(roots.subspan(roots.size() / 2), options);
    return;
  }
  // If the error was noted, no step will try again, so the next one has to raise it.
  std::shared_ptr<const Error> noted;
  {
    std::lock_guard lock(graph_mutex);
    LeafPayload* payload = NodeAccess::payload(roots[0].node.get());
    if (payload) noted = payload->error;
    if (payload && payload->failed_step) noted = payload->failed_step->error;
  }
  if (noted) AddUnseen(EntryOf(roots[0].node->device()), &Context(), noted);
}

std::vector<Value> StepExecutor::Healthy(std::span<const Value> roots) {
  std::vector<Value> healthy;
  Walk walk;
  for (const Value& root : roots) {
    RunWalk(std::span(&root, 1), root.node->device(), 0, walk);
    if (!walk.failed) healthy.push_back(root);
  }
  return healthy;
}

void Step::Clear() {
  compiled = nullptr;
  arguments.clear();
  donated.clear();
  output_nodes.clear();
  placeholders.clear();
  order.clear();
  recipe = {};
  own_failure = is_all = false;
  looks = 0;
  owner = nullptr;
  units.clear();
}

namespace {

/// A step of this thread that has ended, or a new one.
StepPtr NewStep() {
  if (StepPtr& spare = OfThread<StepPtr>()) return std::move(spare);
  return std::make_shared<Step>();
}

void Recycle(StepPtr step) {
  constexpr size_t kMostKept = 1 << 16;
  if (step->order.capacity() > kMostKept) return;
  step->Clear();
  OfThread<StepPtr>() = std::move(step);
}

}  // namespace

std::vector<BackendDataPtr> ResultsOf(const Step& step) {
  std::vector<BackendDataPtr> results;
  for (const NodePtr& node : step.output_nodes) {
    for (int i = 0; i < node->num_outputs(); ++i) results.push_back(node->slots()[i].data);
  }
  return results;
}

void StepExecutor::SyncDevice(DeviceEntry& device, std::span<const Value> roots,
                              const SyncOptions& options) {
  if (!device.active) {
    Throw<DeviceError>(ErrorCode::kNotRegistered,
                       "the backend of device {} is no longer registered", device.name());
  }
  CountTraced(Context());
  const ClaimedPrints prints;
  profile::Span span(options.trigger, "sync");
  if (span.on()) [[unlikely]]
    DescribeSync(span, device);
  constexpr int kTries = 8;
  std::vector<Value> healthy;
  for (int i = 1;; ++i) {
    StepPtr step = Start(device, roots, healthy, options);
    // Without asynchrony the work is done when a sync returns, whoever does it.
    bool wait = options.wait || (!config::Get<config::kAsync>() && !RunsHere(device));
    std::vector<BackendDataPtr> results;
    if (step && wait) results = ResultsOf(*step);
    bool done = step && Submit(device, step, options.wait);
    std::shared_ptr<const Error> error;
    if (wait) error = Await(device, roots, step, results);
    results.clear();
    if (!error || !options.wait) {
      if (done) Recycle(std::move(step));
      return;
    }
    // A step that others share may have failed because of what only they need, and is rolled back:
    // what these roots need is tried again, alone.
    bool own = step && step->own_failure;
    if (own || !options.raise_failed || i == kTries) RaiseSeen(error);
  }
}

namespace {

std::vector<NodePtr> OutputNodes(const Walk& walk) {
  std::vector<NodePtr> nodes;
  for (const Output& output : walk.outputs) {
    if (output.index == 0) nodes.emplace_back(const_cast<Node*>(output.node));
  }
  return nodes;
}

/// The error of a step that was to compute the same nodes, no more and no less; null if there was
/// none.
std::shared_ptr<const Error> ErrorOfSameStep(const Walk& walk) {
  std::vector<NodePtr> outputs = OutputNodes(walk);
  const FailedStep* failed = nullptr;
  for (const NodePtr& node : outputs) {
    LeafPayload* payload = NodeAccess::payload(node.get());
    if (!payload || !payload->failed_step) return nullptr;
    if (failed && payload->failed_step.get() != failed) return nullptr;
    failed = payload->failed_step.get();
  }
  return failed && failed->outputs == outputs.size() ? failed->error : nullptr;
}

}  // namespace

bool IsForbidden(const Error& error) {
  return error.code() == ErrorCode::kRecompileForbidden ||
         error.code() == ErrorCode::kExecutionForbidden ||
         dynamic_cast<const process_exit::Cancelled*>(&error);
}

void StepExecutor::NoteFailure(DeviceEntry& device, std::span<const NodePtr> outputs,
                               const std::shared_ptr<const Error>& error) {
  for (const NodePtr& node : outputs) {
    // The error of a part says more than that of the whole.
    LeafPayload* payload = NodeAccess::payload(node.get());
    if (payload && payload->failed_step) ForgetUnseen(device, payload->failed_step->error);
  }
  if (outputs.size() == 1) {
    NodeAccess::MakePayload(outputs[0].get()).error = error;
    return;
  }
  auto failed = std::make_shared<FailedStep>(FailedStep{error, outputs.size()});
  for (const NodePtr& node : outputs) NodeAccess::MakePayload(node.get()).failed_step = failed;
}

namespace {

/// Whether a compiled step is that of a walked graph.
bool Serves(const CompiledStep& compiled, const Walk& walk) {
  if (compiled.sizes.empty()) return std::ranges::equal(compiled.key, walk.key.words());
  return compiled.general->SizesOf(walk.key.words()) == compiled.sizes;
}

}  // namespace

CompiledStepPtr StepExecutor::Instantiate(DeviceEntry& device, const Hash128& hash,
                                          GeneralMatch match) {
  profile::Span span("new sizes", "compile");
  auto start = std::chrono::steady_clock::now();
  CompiledStepPtr step = MakeInstance(device, match.general, std::move(match.sizes));
  if (!step) return nullptr;
  step->hash = hash;
  step->compile_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  span.Set("graph", step->number);
  return cache.AddInstance(std::move(step));
}

StepPtr StepExecutor::Start(DeviceEntry& device, std::span<const Value>& roots,
                            std::vector<Value>& healthy, const SyncOptions& options) {
  Walk& walk = OfThread<Walk>();
  CompiledStepPtr compiled;
  const uint32_t settings = CodeSettingsId(options.devices);
  CompiledStepPtr saved;
  std::vector<BackendDataPtr> placeholders;
  for (;;) {
    std::unique_lock lock(graph_mutex);
    AwaitSettling(device, lock);
    {
      profile::Span span("walk and key", "key");
      RunWalk(roots, device.id, settings, walk, false, Context().units);
    }
    walk.hash.lo &= hash_mask;
    if (hash_mask != ~uint64_t{0}) walk.hash.hi = 0;
    if (walk.failed) [[unlikely]] {
      auto error = ErrorAt(*walk.failed);
      if (options.raise_failed) {
        lock.unlock();
        RaiseSeen(error);
      }
      healthy = Healthy(roots);
      roots = healthy;
      continue;
    }
    if (walk.outputs.empty()) return nullptr;
    if (walk.has_suspects) [[unlikely]] {
      if (auto error = ErrorOfSameStep(walk)) {
        lock.unlock();
        if (options.raise_failed) RaiseSeen(error);
        return nullptr;
      }
    }
    ThreadContext& context = Context();
    if (!context.forbid_execution.empty()) [[unlikely]] {
      Throw(ErrorCode::kExecutionForbidden,
            "{} would run {} op(s) here, but execution is forbidden in this scope: {}",
            options.trigger, walk.order.size() - walk.parameters.size(),
            context.forbid_execution.back());
    }
    if (!compiled || !Serves(*compiled, walk)) {
      GeneralMatch general;
      {
        profile::Span span("cache lookup", "cache");
        compiled = cache.Find(walk.hash, walk.key.words());
        if (!compiled) {
          general = cache.FindGeneral(StructureOf(walk), walk.key.words());
          compiled = general.step;
        }
        span.Set("found", compiled ? "yes" : "no");
      }
      if (!compiled) {
        const bool is_new = !general.general;
        Graph traced = is_new ? GraphOf(walk) : Graph();
        Hash128 hash = walk.hash;
        std::vector<uint64_t> key;
        if (is_new) key.assign(walk.key.words().begin(), walk.key.words().end());
        int64_t kept = walk.kept;
        std::vector<NodePtr> outputs = OutputNodes(walk);
        lock.unlock();
        try {
          compiled = is_new
                         ? Compile(device, hash, std::move(key), std::move(traced), kept, options)
                         : Instantiate(device, hash, std::move(general));
        } catch (const Error& error) {
          process_exit::AwaitEndIfCancelled(error);
          if (!IsForbidden(error)) {
            std::lock_guard relock(graph_mutex);
            NoteFailure(device, outputs, error.Clone());
          }
          throw;
        }
        continue;
      }
      metrics::Get<kCachedCompile>().Add();
    }
    if (!config::Get<config::kSaveTensorsFile>().empty() && saved != compiled) [[unlikely]] {
      Graph traced = GraphOf(walk);
      lock.unlock();
      SaveGraph(traced, walk.hash, device, options.trigger);
      saved = compiled;
      continue;
    }
    if (!BindParameters(device, walk, lock)) continue;
    if (!MakePlaceholders(device, walk, lock, placeholders)) continue;
    return Claim(device, walk, std::move(compiled), std::move(placeholders), options);
  }
}

bool StepExecutor::BindParameters(DeviceEntry& device, Walk& walk, GraphLock& lock) {
  std::vector<NodePtr> missing, scalars;
  std::vector<HostTensor> tensors;
  for (Node* node : walk.parameters) {
    CheckBorrowed(*node);
    Node::Slot& slot = node->slots()[0];
    if (&node->op() == &ops::kScalarLeaf) {
      // It goes with any device, so what it has may be another device's.
      if (slot.data && slot.data->device() == device.device) continue;
      const Scalar& value = node->attrs()[0].scalar();
      DeviceEntry::CachedScalar* cached = CachedScalarOf(device, value);
      if (cached && cached->data && cached->value == value) {
        slot.data = cached->data;
      } else {
        scalars.emplace_back(node);
      }
    } else if (!slot.data) {
      missing.emplace_back(node);
      tensors.push_back(HostValue(node));
    }
  }
  if (missing.empty() && scalars.empty()) return true;
  WithoutGraphLock unlocked(lock);
  std::vector<BackendDataPtr> data;
  if (!missing.empty()) data = UploadLeaves(device, tensors);
  std::map<std::pair<uint64_t, DType>, BackendDataPtr> made;  // equal scalars share data
  for (const NodePtr& node : scalars) {
    const Scalar& value = node->attrs()[0].scalar();
    BackendDataPtr& one = made[{value.bits(), value.dtype()}];
    if (!one) one = NewScalarData(device, value);
  }
  bool alone = unlocked.Lock();
  for (const NodePtr& node : scalars) {
    const Scalar& value = node->attrs()[0].scalar();
    node->slots()[0].data = made[{value.bits(), value.dtype()}];
    if (auto* cached = CachedScalarOf(device, value)) *cached = {value, node->slots()[0].data};
  }
  for (size_t i = 0; i < missing.size(); ++i) {
    Node::Slot& slot = missing[i]->slots()[0];
    if (slot.data) continue;  // another thread was faster
    slot.data = data[i];
    DropHostCopy(*missing[i]);
  }
  if (!alone) lock.unlock();
  return alone;
}

bool StepExecutor::MakePlaceholders(DeviceEntry& device, const Walk& walk, GraphLock& lock,
                                    std::vector<BackendDataPtr>& placeholders) {
  std::vector<Shape> shapes;
  shapes.reserve(walk.outputs.size());
  for (const Output& output : walk.outputs) {
    shapes.push_back(output.node->shape(static_cast<int>(output.index)));
  }
  auto shape_of = [](const BackendDataPtr& data) -> const Shape& { return data->shape(); };
  if (std::ranges::equal(placeholders, shapes, {}, shape_of)) return true;  // of an earlier walk
  placeholders.clear();
  placeholders.reserve(shapes.size());
  WithoutGraphLock unlocked(lock);
  for (const Shape& shape : shapes) placeholders.push_back(NewPlaceholder(device, shape));
  bool alone = unlocked.Lock();
  if (!alone) lock.unlock();
  return alone;
}

uint32_t ReferencesTo(const Node& node) {
  const bool claimed = NodeAccess::flags(const_cast<Node*>(&node)) & NodeAccess::kClaimed;
  return node.references() - claimed;
}

namespace {

/// An asynchronous device starts before it is known whether what it needs has failed.
bool DonatesPending(const DeviceEntry& device) {
  return !device.backend->IsAsynchronous() || device.backend->KeepsDonatedOnFailure();
}

}  // namespace

bool MayDonate(const Node& node, const lazy::BackendData& data, const DeviceEntry& device) {
  if (&node.op() == &ops::kScalarLeaf) return false;
  if (!data.IsReady() && !DonatesPending(device)) return false;
  auto info = std::dynamic_pointer_cast<lazy::BackendData::DeviceDataInfo>(data.info());
  return !info || !info->read_only;
}

// Note [Undo in place]: a step may overwrite what its units remember if it alone decides about
// them: it computes all that is left of them, so that they are settled when it has succeeded, and
// it does not run, or writes nothing there, if a unit that it needs fails. A synchronous backend
// writes to donated memory only when nothing can fail any more; an asynchronous one that says so
// (KeepsDonatedOnFailure) holds the writes back on the device. So if the step fails, what the units
// remember is intact.
bool StepExecutor::JoinUnits(Step& step, UnitSpan units, std::span<Node* const> parameters,
                             bool is_whole) {
  std::vector<WriteUnitPtr> needs;
  for (const Node* node : parameters) {
    LeafPayload* payload = NodeAccess::payload(node);
    if (!payload || !payload->unit) continue;
    if (std::find(units.begin(), units.end(), payload->unit) != units.end()) continue;
    if (std::find(needs.begin(), needs.end(), payload->unit) == needs.end()) {
      needs.push_back(payload->unit);
    }
  }
  bool is_atomic = is_whole && step.compiled->simple;
  for (const WriteUnitPtr& need : needs) is_atomic = is_atomic && need->is_atomic;
  for (const WriteUnitPtr& unit : units) is_atomic = is_atomic && unit->in_flight == 0;
  for (const WriteUnitPtr& unit : units) {
    for (const WriteUnitPtr& need : needs) {
      if (std::find(unit->needs.begin(), unit->needs.end(), need) == unit->needs.end()) {
        unit->needs.push_back(need);
      }
    }
    unit->is_atomic = is_atomic;
    ++unit->in_flight;
  }
  step.units.assign(units.begin(), units.end());
  return is_atomic && (needs.empty() || DonatesPending(*step.compiled->device));
}

StepPtr StepExecutor::Claim(DeviceEntry& device, Walk& walk, CompiledStepPtr compiled,
                            std::vector<BackendDataPtr> placeholders, const SyncOptions& options) {
  bool nested = RunsHere(device);
  StepPtr step = NewStep();
  step->compiled = std::move(compiled);
  step->is_all = !walk.under_way;
  step->arguments.reserve(walk.parameters.size());
  ThreadContext& context = Context();
  step->owner = &context;
  bool donate = options.full_step && config::Get<config::kParamAliasing>();
  bool whole = options.full_step && options.one_device;
  const bool overwrites = JoinUnits(*step, context.units, walk.parameters, whole);
  if (!overwrites) CountUndos(context.units, walk.epoch, -1);
  if (donate) step->donated.resize(walk.parameters.size());
  DyingArguments dying(*step);
  for (size_t i = 0; i < walk.parameters.size(); ++i) {
    Node* node = walk.parameters[i];
    BackendDataPtr& data = node->slots()[walk.parameter_outputs[i]].data;
    LeafPayload* payload = NodeAccess::payload(node);
    bool given_away = payload && payload->donated;
    if (nested) [[unlikely]]
      RefuseToWait(device, data);
    step->arguments.push_back(data);
    if (donate || given_away) {
      if (step->donated.empty()) step->donated.resize(walk.parameters.size());
      // Nobody but this graph may refer to the node.
      if (MayDonate(*node, *data, device)) dying.Add(i, node, data, NodeAccess::walk_uses(node));
    }
  }
  if (donate && overwrites && dying.has_held()) dying.AddReaders(RememberedBy(context.units));
  step->placeholders.reserve(placeholders.size());
  step->output_nodes.reserve(placeholders.size());
  for (const BackendDataPtr& placeholder : placeholders) {
    step->placeholders.push_back(placeholder.get());
  }
  // Nothing below can fail.
  for (size_t i = 0; i < walk.outputs.size(); ++i) {
    Node* node = const_cast<Node*>(walk.outputs[i].node);
    node->slots()[walk.outputs[i].index].data = std::move(placeholders[i]);
    if (walk.outputs[i].index == 0) step->output_nodes.emplace_back(node);
    NodeAccess::flags(node) |= NodeAccess::kClaimed;
  }
  TakeTurns(device, *step, nested);
  step->order = walk.order;
  return step;
}

std::shared_ptr<const Error> StepExecutor::Await(DeviceEntry& device, std::span<const Value> roots,
                                                 const StepPtr& step,
                                                 std::span<const BackendDataPtr> results) {
  std::shared_ptr<const Error> failure;
  auto await = [&](const BackendDataPtr& data) {
    RefuseToWait(device, data);
    WaitFor(*data, "wait for results");
    if (auto error = data->error(); error && !failure) failure = error;
  };
  if (step) {
    for (const BackendDataPtr& result : results) await(result);
    if (step->is_all) return failure;
  }
  std::vector<BackendDataPtr> under_way;
  {
    std::lock_guard lock(graph_mutex);
    for (const Value& root : roots) {
      const BackendDataPtr& data = root.node->slots()[root.index].data;
      if (data && (!data->IsReady() || data->error())) under_way.push_back(data);
    }
  }
  for (const BackendDataPtr& data : under_way) await(data);
  return failure;
}

bool StepExecutor::AwaitReady(std::span<const Value> roots) {
  std::vector<BackendDataPtr> data;
  {
    std::lock_guard lock(graph_mutex);
    for (const Value& root : roots) data.push_back(root.node->slots()[root.index].data);
  }
  bool ready = true;
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i]) {
      RefuseToWait(EntryOf(roots[i].node->device()), data[i]);
      WaitFor(*data[i], "wait for results");
    }
    ready = ready && data[i] && !data[i]->error();
  }
  return ready;
}

Graph StepExecutor::TraceOf(std::span<const Value> roots, Hash128* hash) {
  std::lock_guard lock(graph_mutex);
  Walk walk;
  RunWalk(roots, roots.empty() ? kNoDevice : roots[0].node->device(), CodeSettingsId(), walk);
  if (hash) *hash = walk.hash;
  return GraphOf(walk);
}

void StepExecutor::AddMiss(CompileMiss miss) {
  std::lock_guard lock(misses_mutex_);
  miss.number = ++miss_count_;
  if (config::Get<config::kExplainMisses>()) Log(LogLevel::kWarn, "{}", miss.ToText());
  if (misses_.size() >= 256) misses_.erase(misses_.begin());
  if (profile::IsOn()) [[unlikely]]
    WriteMiss(miss);
  misses_.push_back(std::move(miss));
}

std::vector<CompileMiss> StepExecutor::Misses() {
  std::lock_guard lock(misses_mutex_);
  return misses_;
}

}  // namespace hammock
