// Runs of PluginBackend.
#include <algorithm>
#include <cstddef>
#include <memory>

#include "backends/common/collectives.h"
#include "hammock/config.h"
#include "plugins/plugin_calls.h"

namespace hammock::plugins {
namespace {

using distributed::StepAgreements;

/// The arrays that HammockExecution points to, in one piece of memory, which is part of the object
/// if it is small. Pointers change when it is moved.
class RunLists {
 public:
  RunLists(size_t arguments, size_t results) : arguments_(arguments), results_(results) {
    const size_t bytes =
        arguments * (sizeof(HammockData) + sizeof(uint8_t)) + results * sizeof(HammockResult);
    if (bytes > sizeof(few_)) [[unlikely]]
      many_ = std::make_unique<std::byte[]>(bytes);
    std::uninitialized_value_construct_n(made(), results);
  }
  HammockData* data() { return reinterpret_cast<HammockData*>(many_ ? many_.get() : few_); }
  HammockResult* made() { return reinterpret_cast<HammockResult*>(data() + arguments_); }
  /// Set by whoever reads it.
  uint8_t* donated() { return reinterpret_cast<uint8_t*>(made() + results_); }

 private:
  size_t arguments_, results_;
  std::unique_ptr<std::byte[]> many_;
  alignas(8) std::byte few_[192];
};

struct Execution {
  Execution(size_t arguments, size_t results, const StepAgreements* collectives)
      : lists(arguments, results) {
    // A copy: one that is given up may go on when the step has ended.
    if (collectives) [[unlikely]]
      agreements = std::make_shared<StepAgreements>(*collectives);
  }

  HammockStatus Run(const HammockPlugin& table, HammockError* error) {
    call.arguments = lists.data();
    call.donated = any_donated ? lists.donated() : nullptr;
    call.results = lists.made();
    if (agreements) [[unlikely]]
      return RunWithCollectives(table, error);
    return table.execute(table.self, &call, error);
  }

  RunLists lists;
  bool any_donated = false;
  ComputationPtr computation;  // and its executable
  std::shared_ptr<const HammockRun> run;
  std::shared_ptr<StepAgreements> agreements;
  std::exception_ptr collective_error;
  HammockExecution call;

 private:
  HammockStatus RunWithCollectives(const HammockPlugin& table, HammockError* error) {
    const CollectiveScope scope(agreements.get());
    PluginHost::TakeCollectiveError();  // of another run
    const HammockStatus status = table.execute(table.self, &call, error);
    if (status != HAMMOCK_OK) collective_error = PluginHost::TakeCollectiveError();
    return status;
  }
};

}  // namespace

std::vector<BackendDataPtr> PluginBackend::ExecuteComputation(
    ComputationPtr computation, std::span<const BackendDataPtr> arguments,
    const BackendDevice& device, const lazy::RunContext& run) const {
  const HammockExecutable executable = ExecutableOf(computation);
  const auto results_size = static_cast<size_t>(computation->results_size());
  Execution state(arguments.size(), results_size, run.collectives);
  for (size_t i = 0; i < arguments.size(); ++i) {
    state.lists.data()[i] = HandleOf(*this, arguments[i]);
  }
  if (std::ranges::find(run.donated, true) != run.donated.end()) {
    state.any_donated = true;
    for (size_t i = 0; i < arguments.size(); ++i) {
      state.lists.donated()[i] = i < run.donated.size() && run.donated[i];
    }
  }
  if (run.profile) [[unlikely]]
    state.run = host_->AddRun(*run.profile);
  const Graph& graph = computation->graph();
  const bool asynchronous = Has(HAMMOCK_ASYNCHRONOUS);
  std::vector<BackendDataPtr> results(results_size);
  std::vector<HammockEvent> events;  // known here also where a call is given up and keeps the state
  for (size_t i = 0; asynchronous && i < results_size; ++i) {
    results[i] = PluginData::Make(*this, device, computation->result_shapes()[i]);
    results[i]->MakePending();
    events.push_back(host_->AddEvent(results[i], graph.size(), state.run));
    state.lists.made()[i].ready = events[i];
  }
  state.call = {.struct_size = sizeof(HammockExecution),
                .location = run.location,
                .device = device.ordinal(),
                .executable = executable,
                .argument_count = arguments.size(),
                .arguments = nullptr,
                .donated = nullptr,
                .result_count = results_size,
                .results = nullptr,
                .run = state.run ? *state.run : 0,
                .cancel = reinterpret_cast<const uint8_t*>(run.cancel)};
  try {
    state.computation = std::move(computation);
    Call(
        "execute", state,
        [](const HammockPlugin& table, Execution& given, HammockError* error) {
          return given.Run(table, error);
        },
        &execute_pace_, &graph);
    for (size_t i = 0; i < results_size; ++i) {
      const HammockData data = state.lists.made()[i].data;
      if (data == 0) [[unlikely]] {
        Throw<InternalError>(ErrorCode::kInternal, "execute of {} gave no data for result {}",
                             table_.name, i);
      }
      if (asynchronous) {
        static_cast<PluginData&>(*results[i]).SetCell(NewCell(*this, data));
      } else {
        results[i] = PluginData::Make(*this, device, state.computation->result_shapes()[i], data);
      }
    }
  } catch (...) {
    for (HammockEvent event : events) host_->TakeEvent(event);
    // Whatever the plug-in made of it: threads that read the value do not raise this one.
    if (run.cancel && run.cancel->load()) throw process_exit::Cancelled();
    if (state.collective_error) std::rethrow_exception(state.collective_error);
    throw;
  }
  for (size_t i = 0; i < events.size(); ++i) {
    if (state.lists.made()[i].pending) continue;
    if (BackendDataPtr ready = host_->TakeEvent(events[i])) ready->SetReady();
  }
  if (state.any_donated && !Has(HAMMOCK_KEEPS_DONATED)) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (state.lists.donated()[i]) static_cast<PluginData&>(*arguments[i]).SetCell(nullptr);
    }
  }
  return results;
}

}  // namespace hammock::plugins
