// Runs ops on the toy and on the reference device, prints both, and exits with 1 where they differ.
#include <hammock/hammock.h>
#include <hammock/lazy/backend_interface.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>

using namespace hammock;

namespace {

int failures = 0;

void Expect(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "ok  " : "FAIL", what);
  failures += !holds;
}

template <class ErrorType>
void ExpectError(const char* what, const std::function<void()>& run) {
  try {
    run();
    Expect(false, what);
  } catch (const ErrorType& error) {
    std::printf("%s\n", error.what());
    Expect(true, what);
  }
}

Tensor Values(const Dims& sizes, const Device& device) {
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 11) / 4 - 1;
  return tensor(values, sizes, f32, device);
}

void Compare(const char* what, const std::function<Tensor(const Device&)>& program) {
  std::vector<float> ours = program("toy").to_vector<float>();
  std::vector<float> judge = program("reference").to_vector<float>();
  bool same = ours.size() == judge.size();
  for (size_t i = 0; same && i < ours.size(); ++i) {
    same = std::abs(ours[i] - judge[i]) <= 1e-6f + 1e-6f * std::abs(judge[i]);
  }
  std::printf("%-24s toy %9.6f ...   reference %9.6f ...\n", what, ours[0], judge[0]);
  Expect(same, what);
}

/// A limit makes an op fail; once lifted, the same tensor can be computed.
void ShowMemoryLimit(const Device& device) {
  Tensor big = Values({256, 256}, device) + 1.0;
  Tensor small = Values({4}, device) * 2.0;
  SetMemoryLimit(device, 300 << 10);
  ExpectError<OutOfMemory>("a limit is kept", [&] { big.host(); });
  Expect(small.to_vector<float>()[0] == -2.0f, "other values never see the error");
  SetMemoryLimit(device, 0);
  LazyGraphExecutor::Get()->ClearErrors(big);
  Expect(big.to_vector<float>()[0] == 0.0f, "without the limit the value is computed");
}

/// Another value of the toy's option is another compilation of the same graph.
void ShowOption(const Device& device) {
  config::Override in_parts("toy.whole_gelu", "false");
  gelu(Values({3, 5}, device)).host();
  std::string why = LazyGraphExecutor::Get()->GetMisses().back().detail;
  Expect(why.find("toy.whole_gelu was `true` and is `false`") != std::string::npos,
         "an option changes code");
}

/// A computation as bytes, to another process and back.
void ShowSavedComputation(const Device& device) {
  lazy::BackendImplInterface& backend = device.backend();
  const lazy::BackendDevice& where = device.backend_device();
  Graph graph = ParseGraph("%0 = input : f32[3]\n%1 = neg %0 : f32[3]\nreturn %1");
  auto computation = std::make_shared<lazy::Computation>("negate", std::move(graph), where);
  std::string bytes = backend.SerializeComputation(backend.Compile({computation})[0]);
  Expect(backend.CheckCompatibility(bytes, where) == lazy::Compatibility::kOptimal, "it fits");
  lazy::ComputationPtr loaded = backend.DeserializeComputation(bytes, where);
  std::printf("%s", backend.GetComputationBackendText(loaded).c_str());
  HostTensor input = HostTensor::From(std::vector<float>{1, 2, 3}, {3});
  BackendDataPtr argument = backend.MakeComputationDataFromTensor(input, input.shape(), where);
  auto results = backend.ExecuteComputation(loaded, std::span(&argument, 1), where, {});
  HostTensor output = backend.MakeTensorFromComputationData(results[0], std::nullopt);
  Expect(output.values<float>()[2] == -3.0f, "a loaded computation runs");
}

void ShowUnregistering() {
  Tensor alive = Values({4}, "toy") * 2.0;
  ExpectError<ValueError>("data is live", [] { lazy::UnregisterBackend("toy"); });
  alive = Tensor();
  lazy::UnregisterBackend("toy");
  Expect(!std::ranges::count(lazy::BackendNames(), "toy"), "unregistered");
}

}  // namespace

int main() {
  Compare("relu(x @ w + b)", [](const Device& device) {
    Tensor x = Values({2, 3}, device), w = Values({3, 4}, device), b = Values({4}, device);
    return relu(matmul(x, w) + b);
  });
  Compare("gelu, run whole", [](const Device& device) { return gelu(Values({3, 5}, device)); });
  Compare("cumsum, which toy lacks", [](const Device& device) {
    return exp(-cumsum(Values({2, 3}, device), 1)) * 2.0;
  });
  ShowOption("toy");
  ShowMemoryLimit("toy");
  ShowSavedComputation("toy");
  std::cout << "\nWhat ran elsewhere, and the toy's own numbers:\n" << metrics::Report({}, {});
  ShowUnregistering();
  return failures == 0 ? 0 : 1;
}
