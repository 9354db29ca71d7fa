// The contract, rule by rule.
#include <fmt/format.h>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"
#include "hammock/lazy/saved_computation.h"

namespace hammock::tool {

std::string KeepsWhatIsNotDonated(const Subject& subject) {
  Device device = Open(subject);
  SHOWN(Tensor x = from_host(Ramp(f32, {64}), device) + 0.0f; mark_step(true);
        HostTensor before = x.host(); Tensor kept = x.clone(); Tensor y = x;
        for (int i = 0; i < 5; ++i) {
          y = y + 1.0f;
          if (i == 0) ShowGraph({y});
          mark_step();
        });
  SHOWN(Tensor z = x.clone(); for (int i = 0; i < 5; ++i) {
    z += 1.0f;
    mark_step();
  });
  return Line(Difference(kept.host(), before)) + Line(Difference(x.host(), before)) +
         Line(Difference(y.host(), z.host()));
}

std::string ObeysMemoryLimits(const Subject& subject) {
  Device device = Open(subject);
  SHOWN(Tensor x = ones({100000}, f32, device) + 0.0f; mark_step(true));
  try {
    SHOWN(SetMemoryLimit(device, GetMemoryInfo(device).in_use + 1000));
  } catch (const NotSupported&) {
    throw SkippedRule{"memory cannot be limited"};
  }
  SHOWN(Tensor big = x + x);
  ShowGraph({big});
  std::string wrong = ExpectError<OutOfMemory>("over the limit", [&] { big.host(); });
  SetMemoryLimit(device, 0);
  LazyGraphExecutor::Get()->ClearErrors(big);
  if (big.to_vector<float>()[7] != 2.0f) wrong += "after the limit was lifted the value is wrong\n";
  return wrong;
}

namespace {

/// Bytes for `deserialize` in place of the saved ones; empty: those themselves.
std::string damaged;

HammockStatus DeserializeDamaged(void* self, const HammockCompilation* request, HammockBytes bytes,
                                 HammockCompiled* compiled, HammockError* error) {
  if (!damaged.empty()) bytes = {damaged.data(), damaged.size()};
  return Tables().original.deserialize(self, request, bytes, compiled, error);
}

/// An executable of damaged bytes is refused, or is the one that was saved.
std::string RefusesDamage(const DirectDevice& device, const std::string& saved,
                          const std::string& artifact) {
  const HostTensor given = Ramp(f32, {5});
  auto run = [&] {
    const auto loaded = device.backend.DeserializeComputation(saved, device.where);
    return device.Download(device.Run(loaded, {device.Upload(given)})[0]);
  };
  const HostTensor wanted = run();
  std::string other_start = artifact, wrong;
  other_start[0] = static_cast<char>(~other_start[0]);
  const std::pair<const char*, std::string> damages[] = {
      {"one byte of it", artifact.substr(0, 1)},
      {"half of it", artifact.substr(0, artifact.size() / 2)},
      {"all but its last byte", artifact.substr(0, artifact.size() - 1)},
      {"it with another first byte", other_start}};
  for (const auto& [what, bytes] : damages) {
    damaged = bytes;
    try {
      const std::string differs = Difference(run(), wanted);
      if (!differs.empty()) wrong += fmt::format("deserialize takes {}: {}\n", what, differs);
    } catch (const Error&) {
    }
  }
  damaged.clear();
  return wrong;
}

}  // namespace

std::string SavesComputations(const Subject& subject) {
  Device device = OpenWrapped(subject, [] {
    if (Tables().original.deserialize) Tables().wrapped.deserialize = DeserializeDamaged;
  });
  lazy::BackendImplInterface& backend = device.backend();
  const lazy::BackendDevice& where = device.backend_device();
  ShowGraph(TwiceGraph("5"));
  Graph graph = ParseGraph(TwiceGraph("5"));
  auto computation = std::make_shared<lazy::Computation>("twice", std::move(graph), where);
  std::string bytes;
  try {
    SHOWN(bytes = backend.SerializeComputation(backend.Compile({computation}).at(0)));
  } catch (const NotSupported&) {
    throw SkippedRule{"it saves no computations"};
  }
  std::string wrong;
  if (backend.CheckCompatibility(bytes, where) != lazy::Compatibility::kOptimal) {
    wrong += "saved bytes are not its own\n";
  }
  if (backend.CheckCompatibility(bytes.substr(0, bytes.size() / 2), where) !=
      lazy::Compatibility::kUnsupported) {
    wrong += "half of the bytes are accepted\n";
  }
  HostTensor host = Ramp(f32, {5});
  SHOWN(auto argument = backend.MakeComputationDataFromTensor(host, host.shape(), where);
        auto results = backend.ExecuteComputation(backend.DeserializeComputation(bytes, where),
                                                  std::span(&argument, 1), where, {}));
  results.at(0)->WaitReady();
  const std::string artifact = lazy::SavedComputation::Parse(bytes).artifact;
  if (artifact.size() > 1) wrong += RefusesDamage(DirectDevice(device), bytes, artifact);
  HostTensor wanted = Ramp(f32, {5});
  for (int64_t i = 0; i < 5; ++i) wanted.set(i, 2 * wanted.at(i).ToDouble());
  return wrong +
         Line(Difference(backend.MakeTensorFromComputationData(results[0], std::nullopt), wanted));
}

std::string Unregisters(const Subject& subject) {
  Device device = Open(subject);
  const std::string name = device.type();
  SHOWN(Tensor x = from_host(Ramp(f32, {3}), device) * 2.0f);
  ShowGraph({x});
  mark_step(true);
  std::string wrong = ExpectError<ValueError>("unregistering with live data",
                                              [&] { lazy::UnregisterBackend(name); });
  SHOWN(lazy::UnregisterBackend(name, true));
  if (x.to_vector<float>()[0] != -6.0f) wrong += "a value was lost\n";
  return wrong;
}

}  // namespace hammock::tool
