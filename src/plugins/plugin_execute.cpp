// Runs of PluginBackend.
#include "hammock/config.h"
#include "plugins/plugin_calls.h"

namespace hammock::plugins {

std::vector<BackendDataPtr> PluginBackend::ExecuteComputation(
    ComputationPtr computation, std::span<const BackendDataPtr> arguments,
    const BackendDevice& device, const lazy::RunContext& run) const {
  struct State {
    State(size_t arguments, size_t results) : data(arguments), donated(arguments), made(results) {}
    ShortList<HammockData> data;
    ShortList<uint8_t> donated;
    ShortList<HammockResult> made;
    ComputationPtr computation;  // and its executable
    std::shared_ptr<const HammockRun> run;
    HammockExecution call = {};
  };
  const auto results_size = static_cast<size_t>(computation->results_size());
  State state(arguments.size(), results_size);
  bool any_donated = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    state.data[i] = HandleOf(*this, arguments[i]);
    const bool donated = i < run.donated.size() && run.donated[i];
    state.donated[i] = donated;
    any_donated |= donated;
  }
  if (run.profile) state.run = host_->AddRun(*run.profile);
  const Graph& graph = computation->graph();
  const bool asynchronous = IsAsynchronous();
  std::vector<BackendDataPtr> results;
  results.reserve(results_size);
  for (size_t i = 0; i < results_size; ++i) {
    results.push_back(PluginData::Make(*this, device, computation->result_shapes()[i]));
    if (!asynchronous) continue;
    results[i]->MakePending();
    state.made[i].ready = host_->AddEvent(results[i], graph.size(), state.run);
  }
  state.call = {.struct_size = sizeof(HammockExecution),
                .location = run.location,
                .device = device.ordinal(),
                .executable = ExecutableOf(computation),
                .argument_count = arguments.size(),
                .arguments = nullptr,
                .donated = nullptr,
                .result_count = results_size,
                .results = nullptr,
                .run = state.run ? *state.run : 0};
  // Handles are known here also where a call is given up and keeps the state.
  ShortList<HammockEvent> events(asynchronous ? results_size : 0);
  for (size_t i = 0; i < events.size(); ++i) events[i] = state.made[i].ready;
  try {
    if (config::Get<kTimeout>() > 0) {
      state.computation = computation;
      if (asynchronous) WatchEvents(config::Get<kTimeout>());
    }
    Call(
        "execute", state,
        [any_donated](const HammockPlugin& table, State& given, HammockError* error) {
          given.call.arguments = given.data.data();
          given.call.donated = any_donated ? given.donated.data() : nullptr;
          given.call.results = given.made.data();
          return table.execute(table.self, &given.call, error);
        },
        &graph);
    for (size_t i = 0; i < results_size; ++i) {
      if (state.made[i].data == 0) {
        Throw<InternalError>(ErrorCode::kInternal, "execute of {} gave no data for result {}",
                             table_.name, i);
      }
      static_cast<PluginData&>(*results[i]).SetCell(NewCell(*this, state.made[i].data));
    }
  } catch (...) {
    for (size_t i = 0; i < events.size(); ++i) host_->TakeEvent(events[i]);
    throw;
  }
  for (size_t i = 0; i < events.size(); ++i) {
    if (state.made[i].pending) continue;
    if (BackendDataPtr ready = host_->TakeEvent(events[i])) ready->SetReady();
  }
  if (any_donated && !Has(HAMMOCK_KEEPS_DONATED)) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (state.donated[i]) static_cast<PluginData&>(*arguments[i]).SetCell(nullptr);
    }
  }
  return results;
}

}  // namespace hammock::plugins
