#include "lazy/general_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metrics.h"
#include "lazy/backend_calls.h"

namespace hammock {

namespace {

constexpr size_t kMostSamples = 4;

Graph AtSizes(const Graph& lowered, const SizeRule& rule, const std::vector<int64_t>& parameters) {
  Graph graph = WithDimParams(lowered, SizePlacesOf(lowered), rule, parameters);
  if (config::Get<config::kVerifyPasses>()) Verify(graph);
  return graph;
}

}  // namespace

Generaliser::Generaliser(ComputationCache& cache, DeviceEntry& device, uint64_t scope,
                         const Graph& traced)
    : device_(device), traced_(traced) {
  enabled_ = config::Get<config::kGeneralise>() &&
             CallBackend(device, "SupportsDimParams",
                         [&](auto& backend) { return backend.SupportsDimParams(device.device); });
  if (!enabled_) return;
  skeleton_ = SkeletonOf(traced);
  skeleton_hash_ = Combine(skeleton_.hash(), scope);
  alike_ = cache.FindAlike(skeleton_hash_, scope);
}

const LoweredStep& Generaliser::lowered() {
  if (!lowered_) {
    lowered_ = LowerStep(device_, traced_);
    if (!alike_.empty() && IsSimple()) lowered_skeleton_ = SkeletonOf(lowered_->graph);
  }
  return *lowered_;
}

bool Generaliser::IsSimple() const {
  return lowered_->segments.size() == 1 && lowered_->refusals.empty();
}

CompiledStepPtr Generaliser::FindInstance() {
  std::vector<const GeneralStep*> tried;
  for (const CompiledStepPtr& step : alike_) {
    if (!step->general || std::ranges::count(tried, step->general.get())) continue;
    tried.push_back(step->general.get());
    if (CompiledStepPtr instance = Instantiate(step->general)) return instance;
  }
  return nullptr;
}

CompiledStepPtr Generaliser::Instantiate(const std::shared_ptr<const GeneralStep>& general) {
  static metrics::Counter& hits = metrics::GetCounter("GeneralisedHits");
  if (general->traced_words != skeleton_.words) return nullptr;
  auto parameters = general->rule.ParametersOf(skeleton_.sizes);
  if (!parameters) return nullptr;
  lowered();
  if (!IsSimple() || lowered_skeleton_.words != general->lowered_words) return nullptr;
  if (!general->rule.Gives(lowered_skeleton_.sizes, *parameters)) return nullptr;
  LoweredStep at_sizes = *lowered_;
  at_sizes.segments[0].graph = AtSizes(lowered_->graph, general->rule, *parameters);
  CompiledStepPtr step = BuildStep(device_, traced_, std::move(at_sizes), [&](Graph graph) {
    lazy::ComputationPtr instance = CallBackend(
        device_, "Instantiate",
        [&](auto& backend) { return backend.Instantiate(general->computation, std::move(graph)); },
        ErrorCode::kCompile);
    HAMMOCK_CHECK(instance, "Instantiate of {} returned null", device_.name());
    return instance;
  });
  step->general = general;
  step->skeleton = skeleton_hash_;
  hits.Add();
  return step;
}

std::shared_ptr<GeneralStep> Generaliser::GeneralWith(const CompiledStep& cached,
                                                      std::string* reason) {
  if (!IsSimple() || !cached.simple) {
    *reason = "a part of it runs on the fallback device";
    return nullptr;
  }
  auto general = std::make_shared<GeneralStep>();
  if (cached.general) {
    general->samples = cached.general->samples;
    if (general->samples.size() == kMostSamples) general->samples.erase(general->samples.begin());
    general->traced_words = cached.general->traced_words;
    general->lowered_words = cached.general->lowered_words;
  } else {
    Skeleton traced = SkeletonOf(cached.traced);
    Skeleton lowered = SkeletonOf(cached.segments[0].computation->graph());
    general->samples.push_back({std::move(traced.sizes), std::move(lowered.sizes)});
    general->traced_words = std::move(traced.words);
    general->lowered_words = std::move(lowered.words);
  }
  if (general->traced_words != skeleton_.words) return nullptr;  // equal hashes, no more
  if (general->lowered_words != lowered_skeleton_.words) {
    *reason = "at these sizes it is lowered to other ops";
    return nullptr;
  }
  general->samples.push_back({skeleton_.sizes, lowered_skeleton_.sizes});
  FoundRule found =
      FindRule(general->samples, SizePlacesOf(traced_), SizePlacesOf(lowered_->graph));
  if (found.rule) {
    general->rule = std::move(*found.rule);
    return general;
  }
  *reason = "numbers that are no sizes differ, or too many sizes";
  if (found.unexplained) {
    const GraphNode& node = lowered_->graph[found.unexplained->node];
    *reason = fmt::format("a size of {} [at {}] is not linear in the others", node.op->name(),
                          LocationText(node.location));
  }
  return nullptr;
}

CompiledStepPtr Generaliser::Compile(std::span<const std::string> devices, std::string* outcome) {
  static metrics::Counter& entries = metrics::GetCounter("GeneralisedEntries");
  lowered();
  std::shared_ptr<GeneralStep> general;
  if (!alike_.empty()) {
    std::string reason;
    general = GeneralWith(*alike_[0], &reason);
    if (!reason.empty()) *outcome = "not for other sizes: " + reason;
  }
  CompiledStepPtr step = BuildStep(device_, traced_, std::move(*lowered_), [&](Graph graph) {
    if (!general) return CompileGraph(device_, devices, std::move(graph));
    try {
      auto parameters = general->rule.ParametersOf(skeleton_.sizes);
      HAMMOCK_CHECK(parameters, "a rule does not hold for its own sample");
      general->computation =
          CompileGraph(device_, devices, AtSizes(graph, general->rule, *parameters));
      return general->computation;
    } catch (const CompileError& error) {
      *outcome = fmt::format("not for other sizes: {}", error.message());
      general = nullptr;
      return CompileGraph(device_, devices, std::move(graph));
    }
  });
  if (general) {
    entries.Add();
    *outcome = "for all " + general->rule.Names();
    step->bytes += static_cast<int64_t>(
        sizeof(uint64_t) * (general->traced_words.size() + general->lowered_words.size()));
    for (const SizeSample& sample : general->samples) {
      step->bytes +=
          static_cast<int64_t>(sizeof(int64_t) * (sample.traced.size() + sample.lowered.size()));
    }
  }
  step->general = std::move(general);
  step->skeleton = skeleton_hash_;
  return step;
}

}  // namespace hammock
