// What a call costs on its way to a tiny graph (x + y of four numbers): the computation itself, the
// delegate's `execute`, and a method of a lowered module.

#include <benchmark/benchmark.h>

#include "hammock/hammock.h"
#include "hammock/jit/backend_interface.h"
#include "hammock/jit/to_backend.h"
#include "runtime/cache/compile_step.h"
#include "runtime/step/replay.h"
#include "trace/record.h"

namespace hammock::jit {
namespace {

Module& Adder() {
  static Module& module = *[] {
    auto* made = new Module("Adder");
    made->define("forward(Tensor x, Tensor y) -> Tensor",
                 [](Module&, const std::vector<Any>& args) {
                   return Any(args[0].ToTensor() + args[1].ToTensor());
                 });
    made->trace("forward", {ones({4}), ones({4})});
    return made;
  }();
  return module;
}

ModulePtr Lowered() {
  static ModulePtr lowered = to_backend("hammock", Adder(), {{"forward", AnyDict()}});
  return lowered;
}

std::vector<Any> Arguments() {
  Tensor x = ones({4}).to(Device("cpu")), y = ones({4}).to(Device("cpu"));
  sync_multi({x, y});
  return {Any(x), Any(y)};
}

void BM_Computation(benchmark::State& state) {
  DeviceEntry& device = EntryOf(Device("cpu").id());
  LoweredStep step = LowerStep(device, *Adder().graph_body("forward").graph);
  lazy::ComputationPtr computation = CompileGraph(device, {}, step.graph);
  std::vector<Value> values;
  for (const Any& argument : Arguments()) values.push_back(ValueOf("bench", argument.ToTensor()));
  std::vector<BackendDataPtr> data = ReadyData(device, values, "bench");
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        device.backend->ExecuteComputation(computation, data, device.device, {}));
  }
}
BENCHMARK(BM_Computation);

void BM_Execute(benchmark::State& state) {
  ModulePtr lowered = Lowered()->get_submodule("__loweredModule__");
  auto backend = ObjectAs<BackendInterface>(lowered->attribute("__backend"), "a delegate");
  Any handle = lowered->attribute("__handles").ToDict().at("forward");
  std::vector<Any> arguments = Arguments();
  for (auto _ : state) benchmark::DoNotOptimize(backend->execute(handle, arguments));
}
BENCHMARK(BM_Execute);

void BM_Method(benchmark::State& state) {
  ModulePtr lowered = Lowered();
  std::vector<Any> arguments = Arguments();
  for (auto _ : state) benchmark::DoNotOptimize(lowered->run_method("forward", arguments));
}
BENCHMARK(BM_Method);

}  // namespace
}  // namespace hammock::jit
