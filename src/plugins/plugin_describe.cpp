// Methods of PluginBackend that describe it to people: texts, metrics, facts.
#include "plugins/plugin_calls.h"

namespace hammock::plugins {
namespace {

struct Text {
  HammockExecutable executable = 0;
  std::string text;
};

}  // namespace

std::string PluginBackend::GetComputationBackendText(const ComputationPtr computation) const {
  if (!table_.executable_text) return BackendImplInterface::GetComputationBackendText(computation);
  Text state{ExecutableOf(computation), ""};
  Tell("executable_text", state, [](const HammockPlugin& table, Text& call) {
    table.executable_text(table.self, call.executable, ErrorText::Into(call.text));
  });
  return state.text;
}

std::string PluginBackend::CreateMetricReport() const {
  Text state;
  if (!table_.report) return "";
  Tell("report", state, [](const HammockPlugin& table, Text& call) {
    table.report(table.self, ErrorText::Into(call.text));
  });
  return state.text;
}

std::map<std::string, double> PluginBackend::GetMetrics() const {
  using Numbers = std::map<std::string, double>;
  Numbers numbers;
  if (!table_.numbers) return numbers;
  auto add = [](void* context, const char* name, double value) {
    if (name) (*static_cast<Numbers*>(context))[name] = value;
  };
  Tell("numbers", numbers, [add](const HammockPlugin& table, Numbers& call) {
    table.numbers(table.self, {&call, add});
  });
  return numbers;
}

std::vector<lazy::DeviceFact> PluginBackend::DescribeDevice(const BackendDevice& device) const {
  using Facts = std::vector<lazy::DeviceFact>;
  Facts facts = {{"plug-in",
                  fmt::format("{} {}, interface {}.{}", path_, table_.version ? table_.version : "",
                              table_.version_major, table_.version_minor),
                  false}};
  if (!table_.describe_device) return facts;
  auto add = [](void* context, const char* name, const char* text, uint32_t missing) {
    static_cast<Facts*>(context)->push_back({name ? name : "", text ? text : "", missing != 0});
  };
  Tell("describe_device", facts,
       [add, ordinal = device.ordinal()](const HammockPlugin& table, Facts& call) {
         table.describe_device(table.self, ordinal, {&call, add});
       });
  return facts;
}

lazy::ComputationInfo PluginBackend::DescribeComputation(const ComputationPtr& computation) const {
  struct State {
    HammockExecutable executable;
    lazy::ComputationInfo info;
  } state{ExecutableOf(computation), {computation->graph(), {}, 0}};
  if (!table_.describe_executable) return std::move(state.info);
  auto kernel = [](void* context, const HammockKernel* given) {
    auto& info = *static_cast<lazy::ComputationInfo*>(context);
    if (!given || given->struct_size < sizeof(HammockKernel)) return;
    lazy::KernelInfo made{given->name ? given->name : "",
                          given->kind ? given->kind : "kernel",
                          {},
                          given->text ? given->text : "",
                          given->bytes,
                          given->flops};
    for (uint32_t i = 0; given->nodes && i < given->node_count; ++i) {
      const NodeId node(given->nodes[i]);
      if (info.graph.Contains(node)) made.nodes.push_back(node);
    }
    info.kernels.push_back(std::move(made));
  };
  auto peak = [](void* context, int64_t bytes) {
    static_cast<lazy::ComputationInfo*>(context)->peak_bytes = bytes;
  };
  auto graph = [](void* context, const char* text, uint64_t size) -> HammockStatus {
    try {
      static_cast<lazy::ComputationInfo*>(context)->graph = ParseGraph({text, size});
      return HAMMOCK_OK;
    } catch (...) {
      return WriteCurrentError(nullptr);
    }
  };
  Tell("describe_executable", state, [=](const HammockPlugin& table, State& call) {
    table.describe_executable(table.self, call.executable, {&call.info, kernel, peak, graph});
  });
  return std::move(state.info);
}

}  // namespace hammock::plugins
