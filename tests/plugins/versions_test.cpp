// Hosts and plug-ins of different versions of the interface.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "hammock/control.h"
#include "hammock/ops/quantize.h"
#include "hammock/plugin_graph.h"
#include "plugins/hostile_plugin.h"
#include "plugins/status.h"
#include "runtime/runtime.h"

namespace hammock {
namespace {

using namespace hammock::testing;

/// A graph as a later host would write it: it changes bytes of ops in place.
class LaterGraph {
 public:
  explicit LaterGraph(HammockBytes bytes) : words_(bytes.size / sizeof(uint64_t)) {
    std::memcpy(words_.data(), bytes.bytes, bytes.size);
    EXPECT_TRUE(hammock_graph_open(get(), &graph_));
  }
  HammockBytes get() const { return {words_.data(), words_.size() * sizeof(uint64_t)}; }
  const HammockGraph& graph() const { return graph_; }

  void ChangeOps() {
    for (uint32_t i = 0; i < graph_.header->ops.count; ++i) {
      auto& op = const_cast<HammockOpRecord&>(
          *static_cast<const HammockOpRecord*>(hammock_record(&graph_, graph_.header->ops, i)));
      const std::string name = hammock_text(&graph_, op.name);
      if (name == "floor") *const_cast<char*>(hammock_text(&graph_, op.name)) = 'F';
      if (name == "exp" || name == "softmax") op.version = 99;
    }
  }
  /// The result of a node gets a dtype that does not exist yet.
  void ChangeDType(const char* op) {
    for (uint32_t i = 0; i < hammock_node_count(&graph_); ++i) {
      const HammockNode node = hammock_node(&graph_, i);
      if (std::strcmp(node.op, op) != 0) continue;
      const_cast<HammockTypeRecord*>(static_cast<const HammockTypeRecord*>(hammock_record(
                                         &graph_, graph_.header->types, node.record->first_type)))
          ->dtype = 77;
    }
  }

 private:
  std::vector<uint64_t> words_;
  HammockGraph graph_;
};

/// Passes answers on, and keeps them by op.
struct KeptAnswers {
  HammockAnswers host;
  const HammockGraph& graph;
  std::map<std::string, uint32_t>& verdicts;

  static HammockStatus Answer(void* context, int32_t node, uint32_t verdict, const char* reason) {
    const KeptAnswers& kept = *static_cast<KeptAnswers*>(context);
    kept.verdicts[hammock_node(&kept.graph, static_cast<uint32_t>(node)).op] = verdict;
    return kept.host.answer(kept.host.context, node, verdict, reason);
  }
};

class OtherVersions : public HostilePlugin {
 protected:
  static inline decltype(HammockPlugin::capabilities) capabilities;
  static inline std::map<std::string, uint32_t> verdicts;
  static inline void (*change)(LaterGraph& graph);

  static void RegisterWithLaterGraphs(void (*how)(LaterGraph& graph)) {
    verdicts.clear();
    change = how;
    capabilities = table.capabilities;
    table.capabilities = [](void* self, int64_t device, HammockBytes bytes, HammockAnswers answers,
                            HammockError* error) -> HammockStatus {
      LaterGraph later(bytes);
      change(later);
      KeptAnswers kept{answers, later.graph(), verdicts};
      return capabilities(self, device, later.get(), {&kept, KeptAnswers::Answer}, error);
    };
    Register();
  }
};

/// Values of storage types on a device are those of `reference`: casts, views and a quantised
/// layer.
void ExpectStorageTypes(const char* device) {
  auto results = [](const Device& on) {
    std::vector<HostTensor> made;
    const Tensor x = linspace(-3.0, 3.0, 32, f64, on).reshape({4, 8});
    for (DType dtype : {f8e4m3, f8e5m2, i4, u4, i2, u2}) {
      const Tensor stored = abs(x).to(dtype);
      made.push_back(stored.host());
      made.push_back(from_host(made.back(), on).to(f64).host());
    }
    const Tensor scale = quantization_scale(x, {4, 1}, i4);
    const Tensor weight = quantize(x, scale, std::nullopt, i4);
    made.push_back(quantized_linear(ones({2, 8}, f32, on), weight, scale).host());
    auto round = [](const std::vector<Tensor>& in) {
      return std::vector{in[1].to(f8e5m2).to(f64)};
    };
    made.push_back(for_loop(2, round, {x})[0].host());
    return made;
  };
  const std::vector<HostTensor> got = results(device), wanted = results("reference");
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(got[i].SameBits(wanted[i])) << i;
}

TEST_F(OtherVersions, OpsOfALaterHostAreLeftToItAlone) {
  RegisterWithLaterGraphs([](LaterGraph& graph) { graph.ChangeOps(); });
  Tensor x = tensor(std::vector<float>{1, 2, 3}, std::nullopt, "rogue");
  Tensor y = exp(floor(x * 0.5f) * 0.0f) + x;
  EXPECT_TENSOR_EQ(y + softmax(x * 0.0f, 0) * 3.0f, {3, 4, 5}, {3});
  EXPECT_EQ(verdicts.at("Floor"), uint32_t{HAMMOCK_REFUSE});
  EXPECT_EQ(verdicts.at("exp"), uint32_t{HAMMOCK_REFUSE});
  EXPECT_EQ(verdicts.at("softmax"), uint32_t{HAMMOCK_EXPAND});
  EXPECT_EQ(verdicts.at("mul"), uint32_t{HAMMOCK_RUN});
  EXPECT_EQ(verdicts.at("add"), uint32_t{HAMMOCK_RUN});
}

TEST_F(OtherVersions, DTypesOfALaterHostAreLeftToItWithWhatReadsThem) {
  RegisterWithLaterGraphs([](LaterGraph& graph) { graph.ChangeDType("floor"); });
  Tensor x = tensor(std::vector<float>{1, 2, 3}, std::nullopt, "rogue");
  EXPECT_TENSOR_EQ(neg(floor(x * 2.0f)) * x + exp(x * 0.0f), {-1, -7, -17}, {3});
  EXPECT_EQ(verdicts.at("floor"), uint32_t{HAMMOCK_REFUSE});
  EXPECT_EQ(verdicts.at("neg"), uint32_t{HAMMOCK_REFUSE});
  EXPECT_EQ(verdicts.at("exp"), uint32_t{HAMMOCK_RUN});
  EXPECT_EQ(verdicts.at("add"), uint32_t{HAMMOCK_RUN});
}

TEST_F(OtherVersions, ALongerTableOfALaterMinorVersionIsTaken) {
  static struct {
    HammockPlugin known;
    uint64_t new_fields[4] = {~0ull, ~0ull, ~0ull, ~0ull};
  } later;
  later.known = table;
  later.known.struct_size = sizeof(later);
  later.known.version_minor = HAMMOCK_PLUGIN_MINOR + 7;
  auto entry = [](const HammockHost* given) -> const HammockPlugin* {
    host = given;
    return &later.known;
  };
  EXPECT_EQ(plugins::Register(entry, "rogue.so").interface_minor, HAMMOCK_PLUGIN_MINOR + 7);
  EXPECT_EQ(sum(ones({3}, f32, "rogue") * 2.0f).item<float>(), 6.0f);
}

/// One without storage types stores their bytes, and leaves their nodes to the host.
TEST_F(OtherVersions, APlugInWithoutStorageTypesSeesNoneOfTheirNumbers) {
  static uint32_t last_dtype;
  static auto upload = table.upload;
  static auto compile = table.compile;
  last_dtype = 0;
  table.version_minor = 1;
  table.upload = [](void* self, int64_t device, uint64_t count, const HammockHostTensor* tensors,
                    HammockData* data, HammockError* error) {
    for (uint64_t i = 0; i < count; ++i) {
      last_dtype = std::max(last_dtype, tensors[i].shape.dtype);
      EXPECT_EQ(hammock_shape_bytes(&tensors[i].shape), tensors[i].bytes.size);
    }
    return upload(self, device, count, tensors, data, error);
  };
  table.compile = [](void* self, const HammockCompilation* request, HammockCompiled* compiled,
                     HammockError* error) {
    HammockGraph graph;
    EXPECT_TRUE(hammock_graph_open(request->graph, &graph));
    for (uint32_t i = 0; i < graph.header->types.count; ++i) {
      const auto* type =
          static_cast<const HammockTypeRecord*>(hammock_record(&graph, graph.header->types, i));
      last_dtype = std::max(last_dtype, type->dtype);
    }
    return compile(self, request, compiled, error);
  };
  Register();
  ExpectStorageTypes("rogue");
  EXPECT_EQ(last_dtype, uint32_t{HAMMOCK_F64});
  Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "rogue").to(f8e4m3);
  const config::Override fallback("fallback", "false");
  EXPECT_CODE(x.to(f32).host(), ErrorCode::kNotSupported, "storage types (f8, i4) came with 1.2");
}

TEST_F(OtherVersions, IntegersOfTwoBitsAreLeftToTheHostByVersionOneTwo) {
  table.version_minor = 2;
  Register();
  ExpectStorageTypes("rogue");
  Tensor x = tensor(std::vector<float>{1, 2, 3, 0}, std::nullopt, "rogue");
  const config::Override fallback("fallback", "false");
  EXPECT_TENSOR_EQ(x.to(f8e4m3).to(f32), {1, 2, 3, 0}, {4});
  EXPECT_CODE(x.to(u2).to(f32).host(), ErrorCode::kNotSupported,
              "storage types (i2) came with 1.3");
}

TEST_F(OtherVersions, StorageTypesReachAPlugInThatKnowsThem) {
  Register();
  const int64_t fallbacks = CounterOf("fallback::bitcast");
  ExpectStorageTypes("rogue");
  EXPECT_EQ(CounterOf("fallback::bitcast"), fallbacks);
}

TEST_F(OtherVersions, RunsAreCancelledByThePartOfTheStructThatSaysSo) {
  static const uint8_t* last_cancel;
  static auto execute = table.execute;
  last_cancel = nullptr;
  table.execute = [](void* self, const HammockExecution* call, HammockError* error) {
    last_cancel = call->cancel;
    constexpr uint8_t kCancelled = 1;
    HammockExecution changed = *call;
    changed.cancel = &kCancelled;
    std::vector<HammockResult> results(call->result_count);
    changed.results = results.data();
    plugins::ErrorText text;
    EXPECT_NE(execute(self, &changed, text.c()), HAMMOCK_OK);
    EXPECT_NE(text.text().find("the process ends"), std::string::npos) << text.text();
    changed = *call;  // of a host that does not have the field
    changed.struct_size = offsetof(HammockExecution, cancel);
    changed.cancel = reinterpret_cast<const uint8_t*>(uintptr_t{8});
    return execute(self, &changed, error);
  };
  Register();
  EXPECT_EQ(sum(ones({3}, f32, "rogue") * 2.0f).item<float>(), 6.0f);
  ASSERT_NE(last_cancel, nullptr);
  EXPECT_EQ(*last_cancel, 0);
}

/// Behind the end of its table lies no function.
TEST_F(OtherVersions, AnAdaptorWorksForAHostOfTheFirstVersion) {
  static HammockHost first;
  first = *FirstHost();
  first.struct_size = offsetof(HammockHost, collective);
  first.version_minor = 0;
  first.collective = reinterpret_cast<decltype(first.collective)>(uintptr_t{8});
  table = *Adapted(&first);
  Register();
  EXPECT_EQ(sum(ones({3}, f32, "rogue") * 2.0f).item<float>(), 6.0f);
}

}  // namespace
}  // namespace hammock
