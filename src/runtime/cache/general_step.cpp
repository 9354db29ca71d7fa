#include "runtime/cache/general_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/log.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/graph_sizes.h"
#include "runtime/cache/saved_step.h"
#include "runtime/devices/backend_calls.h"

namespace hammock {

constinit config::Option<bool> config::kGeneralise({
    .name = "generalise",
    .default_value = true,
    .doc = "Compile a graph that differs from a cached one only in sizes for all such sizes, "
           "where the backend can.",
});

namespace {

constinit const metrics::DeclaredCounter kGeneralisedHits({
    .name = "GeneralisedHits",
    .doc = "Graphs of a new size that needed no compilation.",
});

constinit const metrics::DeclaredCounter kGeneralisedEntries({
    .name = "GeneralisedEntries",
    .doc = "Graphs compiled for all sizes at once.",
});

constexpr size_t kMostSamples = 4;
constexpr int64_t kWidth = 64;       // how many times larger sizes are tried
constexpr size_t kMostKnown = 4096;  // sizes that are remembered one by one

Graph General(const Graph& lowered, const SizeRule& rule, const std::vector<int64_t>& parameters) {
  Graph graph = WithDimParams(lowered, rule.lowered, parameters);
  if (config::Get<config::kVerifyPasses>()) Verify(graph);
  return graph;
}

/// Which parameters are equal: for each, the first one of its value. Empty where all differ.
std::vector<size_t> EqualitiesOf(const std::vector<int64_t>& sizes) {
  std::vector<size_t> first;
  bool any = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto equal = std::ranges::find(sizes, sizes[i]);
    first.push_back(static_cast<size_t>(equal - sizes.begin()));
    any |= first.back() != i;
  }
  return any ? first : std::vector<size_t>();
}

template <class T>
void Add(const std::vector<T>& item, std::set<std::vector<T>>& known) {
  if (known.size() == kMostKnown) known.clear();
  known.insert(item);
}

/// Null where the backend fails as it may fail to compile.
lazy::ComputationPtr ComputationAt(DeviceEntry& device, GeneralStep& general,
                                   const std::vector<int64_t>& sizes) {
  std::string reason;
  try {
    lazy::ComputationPtr computation = CallBackend(
        device, "Instantiate",
        [&](auto& backend) { return backend.Instantiate(general.computation, sizes); },
        ErrorCode::kCompile);
    HAMMOCK_CHECK(computation, "Instantiate of {} returned null", device.name());
    return computation;
  } catch (const CompileError& error) {
    reason = error.what();
  } catch (const NotSupported& error) {
    reason = error.what();
  }
  LogOnce("instantiate:" + device.type, LogLevel::kWarn,
          "{} could not serve new sizes of a graph, which is compiled for them: {}", device.name(),
          reason);
  general.AddRefused(sizes);
  return nullptr;
}

int64_t BytesOf(const std::vector<Shape>& shapes) {
  int64_t bytes = 0;
  for (const Shape& shape : shapes) bytes += shape.bytes();
  return bytes;
}

}  // namespace

// ---- GeneralStep

bool GeneralStep::Covers(const std::vector<int64_t>& sizes) const {
  if (IsRefused(sizes)) return false;
  std::vector<size_t> equalities = EqualitiesOf(sizes);
  bool in_range = InRange(sizes);
  std::lock_guard lock(mutex_);
  if (in_range && (equalities.empty() || equalities_.contains(equalities))) return true;
  return verified_.contains(sizes);
}

bool GeneralStep::InRange(const std::vector<int64_t>& sizes) const {
  std::optional<std::vector<int64_t>> free = FreeSizes(rule.derived, sizes);
  std::lock_guard lock(mutex_);
  return free && !range_.least.empty() && range_.Contains(*free);
}

void GeneralStep::SetRange(SizeRange range) {
  std::lock_guard lock(mutex_);
  range_ = std::move(range);
}

SizeRange GeneralStep::range() const {
  std::lock_guard lock(mutex_);
  return range_;
}

void GeneralStep::AddVerified(const std::vector<int64_t>& sizes) {
  std::lock_guard lock(mutex_);
  Add(sizes, verified_);
  Add(EqualitiesOf(sizes), equalities_);
}

void GeneralStep::AddRefused(const std::vector<int64_t>& sizes) {
  std::lock_guard lock(mutex_);
  Add(sizes, refused_);
}

bool GeneralStep::IsRefused(const std::vector<int64_t>& sizes) const {
  std::lock_guard lock(mutex_);
  return refused_.contains(sizes);
}

int64_t GeneralStep::bytes() const {
  int64_t words = static_cast<int64_t>(traced_words.size() + lowered_words.size());
  for (const SizeSample& sample : samples) {
    words += static_cast<int64_t>(sample.traced.size() + sample.lowered.size());
  }
  return words * static_cast<int64_t>(sizeof(uint64_t)) + key->bytes();
}

CompiledStepPtr MakeInstance(DeviceEntry& device, const std::shared_ptr<GeneralStep>& general,
                             std::vector<int64_t> sizes) {
  auto step = std::make_shared<CompiledStep>();
  step->device = &device;
  step->where = general->where;
  step->general = general;
  step->structure = general->structure;
  step->simple = true;
  CompiledSegment segment;
  segment.device = &device;
  segment.computation = ComputationAt(device, *general, sizes);
  if (!segment.computation) return nullptr;
  const lazy::Computation& computation = *segment.computation;
  step->num_parameters = computation.parameters_size();
  step->num_values = step->num_parameters + computation.results_size();
  segment.first_output = step->num_parameters;
  segment.inputs.resize(static_cast<size_t>(step->num_parameters));
  std::iota(segment.inputs.begin(), segment.inputs.end(), 0);
  step->results.resize(static_cast<size_t>(computation.results_size()));
  std::iota(step->results.begin(), step->results.end(), segment.first_output);
  step->ordered = general->ordered;
  step->run_bytes = computation.run_bytes;
  step->argument_bytes = BytesOf(computation.parameter_shapes());
  step->result_bytes = BytesOf(computation.result_shapes());
  size_t values = static_cast<size_t>(step->num_values);
  step->bytes =
      computation.bytes() + static_cast<int64_t>(sizeof(CompiledStep) + sizeof(lazy::Computation) +
                                                 values * (sizeof(Shape) + sizeof(int)));
  step->segments.push_back(std::move(segment));
  step->sizes = std::move(sizes);
  metrics::Get<kGeneralisedHits>().Add();
  return step;
}

// ---- Generaliser

Generaliser::Generaliser(ComputationCache& cache, DeviceEntry& device,
                         const std::vector<uint64_t>& key, const Graph& traced)
    : device_(device), key_(key), traced_(traced) {
  enabled_ = config::Get<config::kGeneralise>() &&
             CallBackend(device, "SupportsDimParams",
                         [&](auto& backend) { return backend.SupportsDimParams(device.device); });
  if (!enabled_) return;
  structure_ = StructureOf(key[0], traced);
  std::vector<CompiledStepPtr> candidates = cache.FindAlike(structure_);
  if (!candidates.empty()) skeleton_ = SkeletonOf(traced);
  constexpr size_t kMostAlike = 16;
  for (CompiledStepPtr& step : candidates) {
    bool alike = step->general ? step->general->traced_words == skeleton_.words
                               : SkeletonOf(step->traced).words == skeleton_.words;
    if (alike && alike_.size() < kMostAlike) alike_.push_back(std::move(step));
  }
}

const LoweredStep& Generaliser::lowered() {
  if (!lowered_) {
    lowered_ = LowerStep(device_, traced_);
    // That of the traced graph is there where it may be compared with others.
    if (!skeleton_.words.empty() && IsSimple(*lowered_)) {
      lowered_skeleton_ = SkeletonOf(lowered_->graph);
    }
  }
  return *lowered_;
}

bool Generaliser::IsSimple(const LoweredStep& lowered) {
  return lowered.segments.size() == 1 && lowered.refusals.empty();
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

CompiledStepPtr Generaliser::Load(std::span<const std::string> devices) {
  if (!SavesSteps()) return nullptr;
  if (CompiledStepPtr step = LoadStep(device_, traced_, devices)) {
    step->structure = structure_;
    return step;
  }
  if (!enabled_) return nullptr;
  if (skeleton_.words.empty()) skeleton_ = SkeletonOf(traced_);
  auto make = [&](const std::shared_ptr<GeneralStep>& general) {
    general->structure = structure_;
    general->traced_words = skeleton_.words;
    general->lowered_words = SkeletonOf(general->computation->graph()).words;
    general->key.emplace(key_, traced_, general->rule);
    CompiledStepPtr step = Instantiate(general);
    if (step) Describe(*general, *step);
    return step;
  };
  return LoadInstance(device_, traced_, skeleton_.sizes, devices, make);
}

void Generaliser::Describe(GeneralStep& general, const CompiledStep& step) const {
  general.compiled_as = step.number;
  general.where = LocationText(CurrentLocation());
  general.traced_nodes = traced_.size();
  general.ordered = step.ordered;
}

CompiledStepPtr Generaliser::Instantiate(const std::shared_ptr<GeneralStep>& general) {
  auto parameters = general->rule.ParametersOf(skeleton_.sizes);
  if (!parameters || !FreeSizes(general->rule.derived, *parameters)) return nullptr;
  if (general->IsRefused(*parameters)) return nullptr;
  if (!general->Covers(*parameters)) {
    lowered();
    if (!IsSimple(*lowered_) || lowered_skeleton_.words != general->lowered_words) return nullptr;
    if (!general->rule.Gives(lowered_skeleton_.sizes, *parameters)) return nullptr;
    general->AddVerified(*parameters);
    // Equal sizes are no news of a range that contains them.
    if (!general->InRange(*parameters)) FindRange(*general, *parameters);
  }
  CompiledStepPtr step = MakeInstance(device_, general, *parameters);
  if (step) step->sizes.clear();  // it becomes an entry
  return step;
}

bool Generaliser::IsLoweredByRule(const GeneralStep& general,
                                  const std::vector<int64_t>& free) const {
  try {
    const std::vector<int64_t> sizes = AllSizes(general.rule.derived, free);
    Graph traced = AtSizes(
        WithDimParams(traced_, general.rule.traced, *general.rule.ParametersOf(skeleton_.sizes)),
        sizes);
    Verify(traced);  // parameters that seem free may depend on each other
    LoweredStep lowered = LowerStep(device_, traced);
    if (!IsSimple(lowered)) return false;
    Skeleton skeleton = SkeletonOf(lowered.graph);
    return skeleton.words == general.lowered_words && general.rule.Gives(skeleton.sizes, sizes);
  } catch (const Error&) {  // not every size is possible
    return false;
  }
}

void Generaliser::FindRange(GeneralStep& general, const std::vector<int64_t>& all) const {
  const std::optional<std::vector<int64_t>> free = FreeSizes(general.rule.derived, all);
  if (!free || *std::ranges::min_element(*free) < 2) return;
  const std::vector<int64_t>& sizes = *free;
  std::map<std::vector<int64_t>, bool> known = {{sizes, true}};
  auto holds = [&](const std::vector<int64_t>& at) {
    auto [found, is_new] = known.try_emplace(at);
    if (is_new) found->second = IsLoweredByRule(general, at);
    return found->second;
  };
  SizeRange range{sizes, sizes};
  for (int64_t more : {1, 2, 3}) {
    std::vector<int64_t> next = sizes;
    for (int64_t& size : next) size += more;
    if (!holds(next)) return;
  }
  const SizeRange before = general.range();
  for (size_t p = 0; p < before.least.size(); ++p) {
    range.least[p] = std::min(range.least[p], before.least[p]);
    range.most[p] = std::max(range.most[p], before.most[p]);
  }
  range = Widened(std::move(range), kWidth, holds);
  // Where nothing could be added, nothing may be known of the corners.
  if (holds(range.least) && holds(range.most)) general.SetRange(std::move(range));
}

std::optional<SizeSample> Generaliser::SampleAt(const GeneralStep& general, const SizeRule& rule,
                                                int64_t shift) const {
  try {
    auto free = FreeSizes(rule.derived, *rule.ParametersOf(skeleton_.sizes));
    if (!free) return std::nullopt;
    for (size_t i = 0; i < free->size(); ++i) (*free)[i] += shift * static_cast<int64_t>(i + 1);
    Graph traced = InferredAt(traced_, rule, AllSizes(rule.derived, *free));
    LoweredStep lowered = LowerStep(device_, traced);
    if (!IsSimple(lowered)) return std::nullopt;
    Skeleton skeleton = SkeletonOf(lowered.graph);
    if (skeleton.words != general.lowered_words) return std::nullopt;
    return SizeSample{SkeletonOf(traced).sizes, std::move(skeleton.sizes)};
  } catch (const Error&) {  // not every size is possible
    return std::nullopt;
  }
}

FoundRule Generaliser::RuleOf(const GeneralStep& general) const {
  const std::vector<SizeSlot> traced = SizeSlotsOf(traced_);
  const std::vector<SizeSlot> lowered = SizeSlotsOf(lowered_->graph);
  FoundRule found = FindRule(general.samples, traced, lowered);
  if (!found.rule || found.rule->defined_at.size() == 1) return found;
  // With several parameters much fits few samples by chance.
  std::vector<SizeSample> samples = general.samples;
  for (int64_t shift : {1, 2, 3}) {
    if (auto sample = SampleAt(general, *found.rule, shift)) samples.push_back(std::move(*sample));
  }
  FoundRule surer = FindRule(samples, traced, lowered);
  if (surer.rule) surer.rule->fixed = general.samples.back();
  return surer.rule ? surer : found;
}

std::shared_ptr<GeneralStep> Generaliser::GeneralWith(const CompiledStep& cached,
                                                      std::string* reason) {
  if (!IsSimple(*lowered_) || !cached.simple) {
    *reason = "a part of it runs on the fallback device";
    return nullptr;
  }
  auto general = std::make_shared<GeneralStep>();
  general->structure = structure_;
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
  if (general->lowered_words != lowered_skeleton_.words) {
    *reason = "at these sizes it is lowered to other ops";
    return nullptr;
  }
  general->samples.push_back({skeleton_.sizes, lowered_skeleton_.sizes});
  FoundRule found = RuleOf(*general);
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
  lowered();
  std::shared_ptr<GeneralStep> general;
  if (!alike_.empty()) {
    // Graphs of one skeleton may also differ in numbers that are no sizes.
    constexpr size_t kMostTried = 4;
    std::string reason;
    for (size_t i = 0; i < std::min(alike_.size(), kMostTried) && !general; ++i) {
      general = GeneralWith(*alike_[i], &reason);
    }
    if (!general) *outcome = "not for other sizes: " + reason;
  }
  std::vector<int64_t> sizes;
  CompiledStepPtr step = BuildStep(device_, traced_, std::move(*lowered_), [&](Graph graph) {
    if (!general) return CompileGraph(device_, devices, std::move(graph));
    try {
      auto parameters = general->rule.ParametersOf(skeleton_.sizes);
      HAMMOCK_CHECK(parameters, "a rule does not hold for its own sample");
      sizes = *parameters;
      general->computation = CompileGraph(device_, devices, General(graph, general->rule, sizes),
                                          general->rule.derived);
      return general->computation;
    } catch (const CompileError& error) {
      *outcome = fmt::format("not for other sizes: {}", error.message());
      general = nullptr;
      return CompileGraph(device_, devices, std::move(graph));
    }
  });
  if (!step->simple) general = nullptr;
  if (general) {
    metrics::Get<kGeneralisedEntries>().Add();
    *outcome = "for all " + general->rule.Names();
    general->key.emplace(key_, traced_, general->rule);
    Describe(*general, *step);
    general->AddVerified(sizes);
    FindRange(*general, sizes);
    step->bytes += general->bytes();
    SaveGeneral(device_, general, traced_, devices);
  } else if (!step->compile_failed) {
    SaveStep(step, traced_, devices);
  }
  step->general = std::move(general);
  step->structure = structure_;
  return step;
}

}  // namespace hammock
