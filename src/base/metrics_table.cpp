#include "base/metrics_table.h"

#include <fmt/format.h>

#include <iterator>

namespace hammock::metrics {
namespace {

struct Row {
  const char* name;
  const char* kind;
  const char* doc;
};

constexpr char kCounter[] = "counter", kGauge[] = "gauge", kTime[] = "time", kBytes[] = "bytes",
               kValue[] = "value";

constexpr Row kRows[] = {
    {"CreateLtcTensor", kCounter, "Tensors made; views and temporaries count."},
    {"DestroyLtcTensor", kCounter, "Tensors whose last handle went."},
    {"TracedOps", kCounter, "Ops recorded."},
    {"MarkStep", kCounter, "Steps: `step` and `mark_step`."},
    {"CachedCompile", kCounter, "Graphs that were found compiled."},
    {"UncachedCompile", kCounter, "Graphs that were compiled."},
    {"GeneralisedEntries", kCounter, "Graphs compiled for all sizes at once."},
    {"GeneralisedHits", kCounter, "Graphs of a new size that needed no compilation."},
    {"ReplayedGraphs", kCounter, "Calls of functions made by `compile` that were not traced."},
    {"TrimIrGraph", kCounter, "Times that so much was pending that it was run."},
    {"DataDependentShape", kCounter,
     "Ops that read a count before their shape was known; `DataDependentShape::<op> at <line>` "
     "counts each place."},
    {"FailedSteps", kCounter, "Steps that ended with an error."},
    {"MemoryPressure", kCounter, "Times that memory was freed because an allocation failed."},
    {"DerivedBytesDropped", kBytes, "Derived forms of values, dropped under pressure."},
    {"fallback::<op>", kCounter, "Runs of ops that a device left to the fallback device."},
    {"fallback::compile", kCounter, "Parts of steps that moved there since they did not compile."},
    {"FallbackTransferBytes", kBytes, "What crossed between devices for that."},
    {"DirectDeviceCopies", kCounter, "Values copied from one device to another without the host."},
    {"RecordTime", kTime, "Recording ops; only while a trace is written or an `Activity` lives."},
    {"LowerTime", kTime, "Passes over new graphs."},
    {"CompileTime", kTime, "Compilations by backends; the CPU's kernels follow in the background."},
    {"ExecuteTime", kTime, "Runs of compiled steps."},
    {"TensorsGraphSize", kValue, "Nodes of graphs that were compiled."},
    {"TransferToDeviceTime", kTime, "Uploads."},
    {"TransferToDeviceBytes", kBytes, "Uploads."},
    {"TransferFromDeviceTime", kTime, "Downloads, waiting included."},
    {"TransferFromDeviceBytes", kBytes, "Downloads."},
    {"DeviceDataCacheMiss", kCounter, "Scalars that had to be uploaded."},
    {"CacheEntries", kGauge, "Compiled steps that are kept."},
    {"CacheBytes", kGauge, "Their size."},
    {"DiskCacheHits", kCounter, "Compiled steps that an earlier process had saved."},
    {"DiskCacheRefused", kCounter,
     "Saved steps that could not be used: damaged, of another build or device, or for other "
     "numbers."},
    {"DiskCacheWrites", kCounter, "Compiled steps that were saved."},
    {"NativeCodeLoaded", kCounter, "Computations taken from an archive, without a compiler."},
    {"cpu::Kernels", kCounter, "Kernels of new graphs on the CPU."},
    {"cpu::KernelsShared", kCounter, "Kernels that equal one of another graph."},
    {"cpu::CompileKernel", kTime, "Compilations of kernels, from loops to machine code."},
    {"cpu::KernelRunsCompiled", kCounter, "Runs of kernels as machine code."},
    {"cpu::KernelRunsInterpreted", kCounter, "Runs of kernels whose code was not there yet."},
    {"cpu::step::<ops>", kTime, "Runs of each kernel and call, with the option `cpu.time_steps`."},
    {"cpu::WeightsPacked", kCounter, "Weights brought into the form that the library likes, once."},
    {"cpu::SizesScheduled", kCounter,
     "New sizes of known graphs that no schedule for many sizes served."},
    {"cuda::KernelsCompiled", kCounter, "Kernels compiled by NVRTC."},
    {"cuda::Recordings", kCounter,
     "Programs recorded as CUDA graphs, one for each set of addresses."},
    {"cuda::RecordingsChanged", kCounter, "CUDA graphs that were given other addresses."},
    {"cuda::SizesScheduled", kCounter,
     "New sizes of known graphs that no schedule for many sizes served."},
    {"cuda::StreamWaits", kCounter,
     "Times that the work of one thread was told to wait for another's."},
    {"cuda::step::<step>_<ops>", kTime,
     "Runs of each kernel and call, with the option `cuda.time_steps`."},
    {"CpuCompileTime", kTime, "Time in LLVM."},
    {"CpuCodeCompiled", kCounter, "Kernels compiled by LLVM."},
    {"CpuCodeShared", kCounter, "Kernels whose code was in memory."},
    {"CpuCodeFromDisk", kCounter, "Kernels whose code was on disk."},
};

}  // namespace

std::string DescribeMarkdown() {
  std::string text =
      "# Metrics\n"
      "Generated from the table in `src/base/metrics_table.cpp`; a test keeps it fresh.\n\n"
      "Counting is always on. `metrics::Report()` and `metrics::ReportJson()` show all of it, "
      "`metrics::CounterValue(name)`,\n`GaugeValue` and `MetricValue` one; `metrics::Reset()` "
      "starts "
      "anew. [design/metrics.md](design/metrics.md) says what counting costs.\n\n"
      "A counter is a number of events, a gauge a level with its peak. A metric (time, bytes, "
      "value) keeps count, sum, rate and\npercentiles of its samples.\n\n"
      "| name | kind | meaning |\n|---|---|---|\n";
  for (const Row& row : kRows) {
    fmt::format_to(std::back_inserter(text), "| `{}` | {} | {} |\n", row.name, row.kind, row.doc);
  }
  return text;
}

}  // namespace hammock::metrics
