// Methods of PluginBackend that describe it to people: texts, metrics, facts.
#include <cstddef>

#include "plugins/plugin_calls.h"

namespace hammock::plugins {
namespace {

struct Text {
  HammockExecutable executable = 0;
  Collected<std::string> text;
};

}  // namespace

std::string PluginBackend::GetComputationBackendText(const ComputationPtr computation) const {
  if (!table_.executable_text) return BackendImplInterface::GetComputationBackendText(computation);
  Text state{ExecutableOf(computation), {}};
  Tell("executable_text", state, [](const HammockPlugin& table, Text& call) {
    table.executable_text(table.self, call.executable, Into(call.text));
    call.text.Check();
  });
  return std::move(state.text.value());
}

std::string PluginBackend::CreateMetricReport() const {
  Text state;
  if (!table_.report) return "";
  Tell("report", state, [](const HammockPlugin& table, Text& call) {
    table.report(table.self, Into(call.text));
    call.text.Check();
  });
  return std::move(state.text.value());
}

std::map<std::string, double> PluginBackend::GetMetrics() const {
  using Numbers = Collected<std::map<std::string, double>>;
  Numbers numbers;
  if (!table_.numbers) return {};
  auto add = [](void* context, const char* name, double value) noexcept {
    static_cast<Numbers*>(context)->Try([&](auto& known) {
      if (name) known[name] = value;
    });
  };
  Tell("numbers", numbers, [add](const HammockPlugin& table, Numbers& call) {
    table.numbers(table.self, {&call, add});
    call.Check();
  });
  return std::move(numbers.value());
}

std::vector<lazy::DeviceFact> PluginBackend::DescribeDevice(const BackendDevice& device) const {
  using Facts = Collected<std::vector<lazy::DeviceFact>>;
  Facts facts({{"plug-in",
                fmt::format("{} {}, interface {}.{}", path_, table_.version ? table_.version : "",
                            table_.version_major, table_.version_minor),
                false}});
  if (!table_.describe_device) return std::move(facts.value());
  auto add = [](void* context, const char* name, const char* text, uint32_t missing) noexcept {
    static_cast<Facts*>(context)->Try([&](auto& known) {
      known.push_back({name ? name : "", text ? text : "", missing != 0});
    });
  };
  Tell("describe_device", facts,
       [add, ordinal = device.ordinal()](const HammockPlugin& table, Facts& call) {
         table.describe_device(table.self, ordinal, {&call, add});
         call.Check();
       });
  return std::move(facts.value());
}

lazy::ComputationInfo PluginBackend::DescribeComputation(const ComputationPtr& computation) const {
  using Info = Collected<lazy::ComputationInfo>;
  struct State {
    HammockExecutable executable;
    Info info;
  } state{ExecutableOf(computation), Info({computation->graph(), {}, 0})};
  if (!table_.describe_executable) return std::move(state.info.value());
  auto kernel = [](void* context, const HammockKernel* given) noexcept {
    static_cast<Info*>(context)->Try([&](lazy::ComputationInfo& info) {
      const auto known = KnownPart(given, HAMMOCK_SIZE_UP_TO(HammockKernel, flops));
      if (!known) return;
      lazy::KernelInfo made{known->name ? known->name : "",
                            known->kind ? known->kind : "kernel",
                            {},
                            known->text ? known->text : "",
                            known->bytes,
                            known->flops};
      for (uint32_t i = 0; known->nodes && i < known->node_count; ++i) {
        const NodeId node(known->nodes[i]);
        if (info.graph.Contains(node)) made.nodes.push_back(node);
      }
      info.kernels.push_back(std::move(made));
    });
  };
  auto peak = [](void* context, int64_t bytes) noexcept {
    static_cast<Info*>(context)->value().peak_bytes = bytes;
  };
  auto graph = [](void* context, const char* text, uint64_t size) noexcept -> HammockStatus {
    try {
      static_cast<Info*>(context)->value().graph = ParseGraph({text, size});
      return HAMMOCK_OK;
    } catch (...) {
      return WriteCurrentError(nullptr);
    }
  };
  Tell("describe_executable", state, [=](const HammockPlugin& table, State& call) {
    table.describe_executable(table.self, call.executable, {&call.info, kernel, peak, graph});
    call.info.Check();
  });
  return std::move(state.info.value());
}

}  // namespace hammock::plugins
