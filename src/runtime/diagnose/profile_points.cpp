#include "runtime/diagnose/profile_points.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "base/never_destroyed.h"
#include "hammock/metric.h"
#include "runtime/cache/computation_cache.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/diagnose/forwarded_profile.h"
#include "trace/hooks.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

constinit const metrics::DeclaredMetric kRecordTime({
    .name = "RecordTime",
    .kind = metrics::Kind::kTime,
    .doc = "Recording ops; only while a profile is written or an `Activity` lives.",
});

}  // namespace

void NoteOp(ThreadContext& context) {
  if (context.first_op_ns != 0 && profile::span_boundary >= context.last_op_ns) {
    --context.traced_nodes;  // this one belongs to the next span
    CountTraced(context);
    ++context.traced_nodes;
  }
  context.last_op_ns = profile::Now();
  if (context.first_op_ns == 0) context.first_op_ns = context.last_op_ns;
}

void WriteRecorded(ThreadContext& context, int64_t ops) {
  metrics::Get<kRecordTime>().AddSample(
      static_cast<double>(context.last_op_ns - context.first_op_ns));
  if (profile::IsOn()) {
    profile::WriteSpan("record", "record ops", context.first_op_ns, context.last_op_ns,
                       fmt::format(R"({{"ops":{}}})", ops));
  }
  context.first_op_ns = context.last_op_ns = 0;
}

void DescribeSync(profile::Span& span, const DeviceEntry& device) {
  span.Set("device", device.name());
  span.Set("where", LocationText(CurrentLocation()));
}

void WriteMiss(const CompileMiss& miss) {
  profile::WriteInstant("recompile", "compile: " + miss.kind, miss.ToJson());
}

int64_t WriteMemory(const DeviceEntry& device, int64_t planned) {
  int64_t in_use = MemoryOf(device).in_use;
  profile::WriteMemory(device.name(), in_use, in_use + planned);
  return in_use + planned;
}

namespace {

constinit thread_local ProfiledRun* current_run = nullptr;

/// Writes the graph the first time that a profile meets the step.
std::shared_ptr<const ProfileFacts> FactsOf(CompiledStep& step) {
  static auto& mutex = NeverDestroyed<std::mutex>();
  std::lock_guard lock(mutex);
  uint64_t profile = profile::ProfileNumber();
  if (step.profile_facts && step.profile_facts->profile == profile) return step.profile_facts;
  auto facts = std::make_shared<ProfileFacts>();
  facts->profile = profile;
  profile::WriteMetadata("hammock_graph", DescribeGraph(step, facts.get()));
  profile::Flush();  // it explains what may end the process next
  step.profile_facts = facts;
  return facts;
}

}  // namespace

void ProfiledRun::Begin(CompiledStep& step) {
  step_ = &step;
  facts_ = FactsOf(step);
  profile_.planned_bytes = WriteMemory(*step.device, facts_->planned_bytes);
  profile_.graph = step.number;
  outer_run_ = std::exchange(current_run, this);
  span_.emplace("execute", "execute");
  span_->Set("graph", step.number);
}

void ProfiledRun::End() {
  span_.reset();
  current_run = outer_run_;
  WriteMemory(*step_->device);
}

const lazy::RunProfile* ProfiledRun::OfSegment(const CompiledSegment& segment) {
  if (!current_run) [[likely]]
    return nullptr;
  lazy::RunProfile& profile = current_run->profile_;
  const auto number = static_cast<size_t>(&segment - current_run->step_->segments.data());
  profile.first_kernel = current_run->facts_->first_kernels.at(number);
  profile.device = segment.device->name();
  return &profile;
}

int64_t lazy::RunProfile::Now() { return profile::Now(); }

void lazy::RunProfile::AddKernel(size_t kernel, std::string_view name, int64_t begin,
                                 int64_t end) const {
  if (ForwardedProfile::Owns(*this)) {
    if (auto receiver = ForwardedProfile::Find(*this)) receiver->kernel(kernel, name, begin, end);
    return;
  }
  profile::WriteSpan("kernel", name, begin, end,
                     fmt::format(R"({{"graph":{},"kernel":{}}})", graph,
                                 first_kernel + static_cast<int64_t>(kernel)));
}

void lazy::RunProfile::AddMemory(int64_t in_use) const {
  if (ForwardedProfile::Owns(*this)) {
    if (auto receiver = ForwardedProfile::Find(*this)) receiver->memory(in_use);
    return;
  }
  profile::WriteMemory(device, in_use, planned_bytes);
}

}  // namespace hammock
