#include "base/config_table.h"

#include <charconv>
#include <initializer_list>

namespace hammock::config {
namespace {

#ifdef NDEBUG
constexpr std::string_view kTrueInDebug = "false";
#else
constexpr std::string_view kTrueInDebug = "true";
#endif

std::optional<std::string> OneOf(std::string_view value,
                                 std::initializer_list<std::string_view> valid) {
  std::string list;
  for (std::string_view candidate : valid) {
    if (candidate == value) return std::nullopt;
    if (!list.empty()) list += ", ";
    list += candidate;
  }
  return "one of " + list;
}

std::optional<std::string> CheckLogLevel(std::string_view value) {
  return OneOf(value, {"trace", "debug", "info", "warn", "error", "off"});
}

std::optional<std::string> CheckFormat(std::string_view value) {
  return OneOf(value, {"text", "dot", "backend"});
}

std::optional<std::string> CheckPrecision(std::string_view value) {
  return OneOf(value, {"highest", "high"});
}

std::optional<std::string> CheckCpuText(std::string_view value) {
  if (value.empty() || value == "llvm" || value == "assembly") return std::nullopt;
  return "empty, llvm or assembly";
}

std::optional<std::string> CheckCudaText(std::string_view value) {
  return OneOf(value, {"steps", "cuda", "ptx"});
}

std::optional<std::string> CheckPercentiles(std::string_view value) {
  if (ParsePercentiles(value)) return std::nullopt;
  return "numbers above 0 and below 1, separated by colons";
}

constexpr std::array<Row, kKeyCount> kTable = {{
    {.key = kAsync,
     .name = "async",
     .default_value = "true",
     .doc = "Execute on another thread while the program goes on; off: a sync returns when all "
            "results are ready.",
     .upstream = "torch_lazy_use_thread_pool"},
    {.key = kCheckBorrowed,
     .name = "check_borrowed",
     .default_value = "false",
     .doc = "Raise where memory that a tensor borrowed (BorrowedMemory) is not what it was when a "
            "step or a read uses it; compares a checksum each time."},
    {.key = kCpuGdb,
     .name = "cpu.gdb",
     .default_value = "false",
     .doc = "Tell gdb the names of compiled functions."},
    {.key = kCpuOneDnn,
     .name = "cpu.onednn",
     .default_value = "true",
     .doc =
         "Multiply matrices and convolve by oneDNN, where the library was built with it; off: by "
         "own loops.",
     .affects_code = true},
    {.key = kCpuPerfMap,
     .name = "cpu.perf_map",
     .default_value = "false",
     .doc =
         "Write the names of compiled functions to /tmp/perf-PID.map, where perf looks for them."},
    {.key = kCpuTimeSteps,
     .name = "cpu.time_steps",
     .default_value = "false",
     .doc =
         "Measure the time of every kernel and call of the CPU backend: metrics `cpu::step::*`."},
    {.key = kCpuWaitForCode,
     .name = "cpu.wait_for_code",
     .default_value = "false",
     .doc = "Compile the kernels of a new graph before it runs, instead of interpreting them until "
            "they are compiled in the background."},
    {.key = kCudaFastAtomics,
     .name = "cuda.fast_atomics",
     .default_value = "false",
     .doc = "Sums of floats that meet in one place (scatter, gradients of embeddings) are added in "
            "whatever order they come: faster, but the last bits differ from run to run.",
     .affects_code = true},
    {.key = kCudaTimeSteps,
     .name = "cuda.time_steps",
     .default_value = "false",
     .doc = "Measure the time of every kernel and call of the CUDA backend, one after another: "
            "metrics `cuda::step::*`."},
    {.key = kDebugNans,
     .name = "debug_nans",
     .default_value = "false",
     .doc =
         "Fail a step whose results have a NaN or an infinity that did not come with its inputs, "
         "with an error that names the op, as an AnomalyGuard does, on all threads; reads every "
         "result."},
    {.key = kEager,
     .name = "eager",
     .default_value = "false",
     .doc = "Execute every op when it is called, one by one; for debugging."},
    {.key = kExplainMisses,
     .name = "explain_misses",
     .default_value = "false",
     .doc = "Log for every compilation why no cached one was used."},
    {.key = kFallback,
     .name = "fallback",
     .default_value = "true",
     .doc = "Run ops that a backend cannot lower on `fallback_device`; off: they are errors.",
     .affects_code = true},
    {.key = kFastMath,
     .name = "fast_math",
     .default_value = "false",
     .doc = "Let backends trade the last bits and determinism for speed.",
     .affects_code = true},
    {.key = kGeneralise,
     .name = "generalise",
     .default_value = "true",
     .doc =
         "Compile a graph that differs from a cached one only in sizes for all such sizes, where "
         "the backend can."},
    {.key = kParamAliasing,
     .name = "param_aliasing",
     .default_value = "true",
     .doc = "Let a step write its results into the memory of inputs that die with it.",
     .upstream = "torch_lazy_param_aliasing"},
    {.key = kPrintPasses,
     .name = "print_passes",
     .default_value = "false",
     .doc = "Log the graph after every compiler pass.",
     .upstream = "PYTORCH_JIT_LOG_LEVEL"},
    {.key = kReferenceLapack,
     .name = "reference.lapack",
     .default_value = "true",
     .doc = "Factor matrices by LAPACK, where the library was built with it; off: by own loops."},
    {.key = kVerifyPasses,
     .name = "verify_passes",
     .default_value = kTrueInDebug,
     .doc = "Verify the graph after every compiler pass.",
     .default_doc = "true in debug builds, else false"},
    {.key = kWideSums,
     .name = "wide_sums",
     .default_value = "false",
     .doc = "Products and convolutions of f32 are made in f64 and rounded once: slower, and nearly "
            "what exact arithmetic gives.",
     .affects_code = true},

    {.key = kCacheDirBytes,
     .name = "cache_dir_bytes",
     .default_value = "1073741824",
     .doc = "Bytes that the files in `cache_dir` may take; the least recently used ones go first."},
    {.key = kCompilationCacheBytes,
     .name = "compilation_cache_bytes",
     .default_value = "268435456",
     .doc = "Bytes that cached compilations may take; the least recently used ones leave first."},
    {.key = kCompilationCacheSize,
     .name = "compilation_cache_size",
     .default_value = "1024",
     .doc = "Number of cached compilations; 0 caches none.",
     .upstream = "torch_lazy_compilation_cache_size, torch_lazy_enable_compilation_cache"},
    {.key = kCpuThreads,
     .name = "cpu_threads",
     .default_value = "0",
     .doc = "Threads that work on one computation of the CPU backend; 0: as many as the cores that "
            "the process may use."},
    {.key = kCudaVirtualDevices,
     .name = "cuda.virtual_devices",
     .default_value = "0",
     .doc =
         "Devices that the CUDA backend shows, each with its own order of work and memory limit; "
         "GPUs are shared by several where there are fewer; 0: one for each GPU. Read when the "
         "first device is used."},
    {.key = kDeviceDataCacheSize,
     .name = "device_data_cache_size",
     .default_value = "128",
     .doc = "Number of scalars kept on a device for reuse; 0 keeps none.",
     .upstream = "torch_lazy_device_data_cache_size, torch_lazy_enable_device_data_cache"},
    {.key = kMaxAsyncQueue,
     .name = "max_async_queue",
     .default_value = "100",
     .doc = "Steps and closures that may wait for execution before the program waits for them.",
     .upstream = "LTC_MAX_ASYNC_QUEUE",
     .min = 1},
    {.key = kMetricsSamples,
     .name = "metrics_samples",
     .default_value = "1024",
     .doc = "Latest samples that a metric keeps for rates and percentiles.",
     .upstream = "torch_lazy_metrics_samples",
     .min = 1},
    {.key = kTraceFileBytes,
     .name = "trace_file_bytes",
     .default_value = "268435456",
     .doc = "Bytes that a trace may take; what happens after that is left out of it.",
     .min = 65536},
    {.key = kTrimGraphBytes,
     .name = "trim_graph_bytes",
     .default_value = "-1",
     .doc = "Bytes that a thread's pending ops may take on a device, by a plan of their memory; "
            "beyond "
            "that a part of them is executed. 0: no limit; -1: what is free there.",
     .min = -1},
    {.key = kTrimGraphSize,
     .name = "trim_graph_size",
     .default_value = "100000",
     .doc =
         "Pending nodes from which a thread's recorded ops are executed outside of a `step`. From "
         "2000 on they are where an optimiser's step, a backward pass or a module call ends, or "
         "where a loop repeats itself. 0: never.",
     .upstream = "torch_lazy_trim_graph_size"},
    {.key = kVerifyReplay,
     .name = "verify_replay",
     .default_value = "0",
     .doc = "Every how many calls a function made by `compile` is traced again, to see that it "
            "still records the same; 0: never."},

    {.key = kCacheDir,
     .name = "cache_dir",
     .default_value = "",
     .doc = "Directory in which compiled graphs and code are kept for other processes; it must "
            "belong to "
            "this user alone; empty: none."},
    {.key = kCpuLlvmPlugin,
     .name = "cpu.llvm_plugin",
     .default_value = "",
     .doc = "File of the plug-in that compiles for the CPU; empty: `libhammock-llvm.so` beside the "
            "library, or where the system finds it; `none`: kernels are interpreted, and "
            "`reference` is "
            "the default device."},
    {.key = kCpuText,
     .name = "cpu.text",
     .default_value = "",
     .doc = "What the text of a computation of the CPU backend shows besides graph, steps and "
            "memory: `llvm` or `assembly` of its kernels.",
     .check = CheckCpuText},
    {.key = kCudaDumpFailures,
     .name = "cuda.dump_failures",
     .default_value = "",
     .doc = "Folder to which a computation that fails on a CUDA device is written: its kernels as "
            "text, its graph and the values of its inputs, for `hammock run FILE.repro`. Every "
            "kernel is waited for, so that the one that failed is known; empty: nothing is "
            "written."},
    {.key = kCudaEmulate,
     .name = "cuda.emulate",
     .default_value = "",
     .doc =
         "C++ compiler by which the CUDA backend runs its kernels on the host, for tests; `none`: "
         "nothing is computed; empty: on GPUs. Read when the first device is used."},
    {.key = kCudaText,
     .name = "cuda.text",
     .default_value = "cuda",
     .doc = "What the text of a computation of the CUDA backend shows: `steps`, its graph, steps "
            "and memory alone; `cuda`, the text of its kernels as well; `ptx`, what they are "
            "compiled to.",
     .check = CheckCudaText},
    {.key = kDevice,
     .name = "device",
     .default_value = "",
     .doc = "Device of new tensors, such as `cpu` or `cuda:1`; empty: the best one that exists.",
     .upstream = "torch_lazy_ts_cuda, LTC_TS_CUDA"},
    {.key = kFallbackDevice,
     .name = "fallback_device",
     .default_value = "",
     .doc = "Device that runs what a backend cannot lower; empty: the one that the backend names.",
     .affects_code = true},
    {.key = kForceFallback,
     .name = "force_fallback",
     .default_value = "",
     .doc = "Ops that run on `fallback_device` in any case, separated by colons or commas.",
     .upstream = "LTC_FORCE_FALLBACK",
     .affects_code = true},
    {.key = kLoad,
     .name = "load",
     .default_value = "",
     .doc = "Libraries to open before the first use of a device or delegate, separated by colons; "
            "they add backends, delegates and ops."},
    {.key = kLogLevel,
     .name = "log_level",
     .default_value = "warn",
     .doc = "Least severe message that is logged: trace, debug, info, warn, error or off.",
     .check = CheckLogLevel},
    {.key = kMatmulPrecision,
     .name = "matmul_precision",
     .default_value = "highest",
     .doc =
         "Products of f32 on GPUs: `highest` rounds nothing but the sums, `high` lets the matrix "
         "units round operands to TF32.",
     .check = CheckPrecision,
     .affects_code = true},
    {.key = kMetricsPercentiles,
     .name = "metrics_percentiles",
     .default_value = "0.01:0.05:0.1:0.2:0.5:0.8:0.9:0.95:0.99",
     .doc = "Percentiles in reports, each above 0 and below 1, separated by colons.",
     .upstream = "torch_lazy_metrics_percentiles",
     .check = CheckPercentiles},
    {.key = kSaveTensorsFile,
     .name = "save_tensors_file",
     .default_value = "",
     .doc = "File to which every synced graph is appended; empty: none.",
     .upstream = "LTC_SAVE_TENSORS_FILE"},
    {.key = kSaveTensorsFormat,
     .name = "save_tensors_format",
     .default_value = "text",
     .doc = "Form of the graphs in `save_tensors_file`: text, dot or backend.",
     .upstream = "LTC_SAVE_TENSORS_FMT",
     .check = CheckFormat},
    {.key = kTraceFile,
     .name = "trace_file",
     .default_value = "",
     .doc = "File that gets a trace of what the process does, for `hammock report` and "
            "ui.perfetto.dev; `%p` in it is the process id; empty: none."},
}};

constexpr bool TableIsInOrder() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].key != i || kTable[i].name.empty()) return false;
  }
  return true;
}
static_assert(TableIsInOrder(), "the table has one row for each key, in the order of Key");

}  // namespace

std::vector<std::pair<std::string_view, std::string>> CodeOptions() {
  std::vector<std::pair<std::string_view, std::string>> options;
  for (const Row& row : kTable) {
    if (row.affects_code) options.emplace_back(row.name, GetText(row.name));
  }
  return options;
}

const std::array<Row, kKeyCount>& Table() { return kTable; }

const std::vector<Dropped>& DroppedUpstreamFlags() {
  static const auto& flags = *new std::vector<Dropped>{
      {"torch_lazy_ir_debug, LTC_ENABLE_SOURCE_INFO",
       "every node always carries the source line of the call; it costs a few instructions"},
      {"torch_lazy_io_thread_pool_size",
       "each device has one queue with one thread, started when it is first needed"},
      {"torch_lazy_handle_special_scalars, torch_lazy_all_numbers_special_scalars",
       "each op record says which scalars are parameters and which are part of the graph"},
      {"torch_lazy_reuse_ir", "recording a node costs less than finding an old one"},
      {"torch_lazy_shape_cache_size", "shapes are inferred in nanoseconds and stored in the node"},
      {"torch_lazy_trim_graph_check_frequency",
       "the size is known at every op, so it is checked there"},
      {"ltc_enable_dynamic_shapes, LTC_ENABLE_DYNAMIC_SHAPES",
       "recording is concrete; compilations that serve several sizes are derived from two of them"},
      {"ltc_enable_symbolic_shapes, LTC_ENABLE_SYMBOLIC_SHAPES", "as above"},
      {"torch_lazy_ts_tensor_update_sync",
       "a copy is a node like others; reading its result waits for it"},
      {"LTC_EXPERIMENTAL",
       "an experiment is an option of its own, so that a wrong name is an error"},
      {"debug_extract_compiled_graph", "`log_level = debug` logs captures"},
  };
  return flags;
}

std::optional<std::vector<double>> ParsePercentiles(std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    size_t end = text.find(':');
    std::string_view item = text.substr(0, end);
    double number = 0;
    auto [rest, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    if (error != std::errc() || rest != item.data() + item.size()) return std::nullopt;
    if (!(number > 0 && number < 1)) return std::nullopt;
    numbers.push_back(number);
    if (end == std::string_view::npos) return numbers;
    text.remove_prefix(end + 1);
  }
}

}  // namespace hammock::config
