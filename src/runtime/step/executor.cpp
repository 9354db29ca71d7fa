#include "runtime/step/executor.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/fork.h"
#include "base/log.h"
#include "base/of_thread.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/cache/general_step.h"
#include "runtime/devices/code_settings.h"
#include "runtime/diagnose/debug_print.h"
#include "runtime/diagnose/profile_points.h"
#include "runtime/step/settle_units.h"
#include "runtime/step/step_collectives.h"
#include "runtime/step/under_way.h"
#include "runtime/step/wait.h"
#include "trace/noted_collectives.h"

namespace hammock {

constinit config::Option<bool> config::kExplainMisses({
    .name = "explain_misses",
    .default_value = false,
    .doc = "Log for every compilation why no cached one was used.",
});

namespace {

constinit const metrics::DeclaredCounter kCachedCompile({
    .name = "CachedCompile",
    .doc = "Graphs that were found compiled.",
});

uint64_t hash_mask = ~uint64_t{0};

}  // namespace

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

void StepExecutor::SyncDevice(DeviceEntry& device, std::span<const Value> roots,
                              const SyncOptions& options) {
  if (!device.active) {
    Throw<DeviceError>(ErrorCode::kNotRegistered,
                       "the backend of device {} is no longer registered", device.name());
  }
  const WithoutHostLock no_lock;
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
    if (step && wait) results = step->Results();
    bool done = step && Submit(device, step, options.wait);
    std::shared_ptr<const Error> error;
    if (wait) error = Await(device, roots, step, results);
    results.clear();
    if (!error || !options.wait) {
      if (done) Step::Recycle(std::move(step));
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
    if (!payload || !payload->failed_step || payload->failed_step->error == error) continue;
    ForgetUnseen(device, payload->failed_step->error);
    ReplaceFailure(payload->failed_step->error, error);
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
  bool is_miss = false;
  std::vector<BackendDataPtr> placeholders;
  std::vector<NodePtr> forgotten;  // goes when the mutex is free
  for (;;) {
    std::unique_lock lock(graph_mutex);
    AwaitSettling(device, lock);
    {
      profile::Span span("walk and key", "key");
      std::vector<Node*> first;
      if (!NotedCollectives().empty()) [[unlikely]]
        first = CollectivesOf(roots, device.id, options.full_step);
      RunWalk(roots, device.id, settings, walk, false, Context().units, first);
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
      // A whole step walks all noted collectives, whatever its roots are.
      std::ranges::move(ForgetFailedCollectives(), std::back_inserter(forgotten));
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
        is_miss = true;
        walk.key.Release();  // while a large graph is compiled and first run, its key is held once
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
    if (is_miss) walk.key.Release();
    if (!BindParameters(device, walk, lock)) continue;
    if (!MakePlaceholders(device, walk, lock, placeholders)) continue;
    StepPtr step = Claim(device, walk, std::move(compiled), std::move(placeholders), options);
    if (!NotedCollectives().empty()) [[unlikely]]
      std::ranges::move(ForgetCollectives(walk.epoch), std::back_inserter(forgotten));
    return step;
  }
}

std::shared_ptr<const Error> StepExecutor::Await(DeviceEntry& device, std::span<const Value> roots,
                                                 const StepPtr& step,
                                                 std::span<const BackendDataPtr> results) {
  std::shared_ptr<const Error> failure;
  auto await = [&](const BackendDataPtr& data) {
    RefuseToWait(device, data);
    WaitForResult(*data);
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
      WaitForResult(*data[i]);
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
