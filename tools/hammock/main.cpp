// hammock: the command line tool. Commands are in files of their names; see commands.h.

#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>

#include "commands.h"
#include "hammock/config.h"
#include "hammock/device.h"
#include "hammock/plugins.h"
#include "plan.h"

namespace {

using namespace hammock::tool;

constexpr const char* kAbout =
    "Hammock: lazy tensors - record, compile once, run on any device.\n"
    "\n"
    "See what a program did:  HAMMOCK_PROFILE_FILE=profile.json ./program\n"
    "                         hammock report profile.json -o report.html";
constexpr const char* kFooter =
    "A MODEL is the text of a graph, an archive with a method `forward`, or an ONNX file. Options\n"
    "of the library come from the environment (HAMMOCK_DEVICE=cpu); `hammock config` lists them.\n"
    "Backends, delegates and ops of other libraries: --load LIB, or HAMMOCK_LOAD=LIB[:LIB].\n"
    "Plug-ins (hammock/plugin.h): --plugin LIB, or HAMMOCK_PLUGINS=LIB[:LIB].\n"
    "Exit codes: 0 done, 1 an error, 2 a wrong command line, 3 `explain` found avoidable "
    "recompiles.";

template <class Options>
void AddJson(CLI::App* command, Options& options) {
  command->add_flag("--json", options.json, "Print JSON, for scripts");
}

void AddOnnx(CLI::App* command, OnnxOptions& options) {
  command->add_option("--dim", options.dims, "NAME=SIZE of a symbolic dim of an ONNX file");
  command->add_option("--fix", options.fixed,
                      "NAME=VALUE of an input of an ONNX file, which is then none: a number or a "
                      "file");
}

void AddDevice(CLI::App* command, std::string& device) {
  command->add_option("-d,--device", device,
                      "cpu, cuda:1, reference, ...; the default device if none");
}

/// Adds a command whose options live as long as the program.
template <class Options>
CLI::App* Add(CLI::App& app, const char* name, const char* text, Options& options,
              int (*run)(const Options&), int& result) {
  CLI::App* command = app.add_subcommand(name, text);
  command->callback([&options, run, &result] { result = run(options); });
  return command;
}

struct AllOptions {
  DevicesOptions devices;
  OpsOptions ops;
  ConfigOptions config;
  RunOptions run;
  BenchOptions bench;
  DumpOptions dump;
  ExplainOptions explain;
  ReportOptions report;
  CompileOptions compile;
  InspectOptions inspect;
  LaunchOptions launch;
  PlanOptions plan;
  NewBackendOptions new_backend;
  ConformOptions conform;
};

void AddLooking(CLI::App& app, AllOptions& all, int& result) {
  CLI::App* devices =
      Add(app, "devices", "List devices: what they have and what is missing, and why", all.devices,
          Devices, result);
  AddJson(devices, all.devices);

  CLI::App* ops = Add(app, "ops", "List ops, or say all about one", all.ops, Ops, result);
  ops->add_option("NAME", all.ops.name, "An op: schema, dtypes, gradient, expansion");
  ops->add_flag("--onnx", all.ops.onnx, "The operators of ONNX files, with their opset versions");
  AddJson(ops, all.ops);

  CLI::App* config =
      Add(app, "config", "List options: value, who set it, meaning", all.config, Config, result);
  config->add_option("NAME", all.config.name, "Only this option");
  config->add_option("--file", all.config.file, "Load a file of options first");
  AddJson(config, all.config);

  CLI::App* dump = Add(app, "dump", "Show what becomes of a graph", all.dump, Dump, result);
  dump->add_option("MODEL", all.dump.model)->required();
  dump->add_option("-w,--what", all.dump.what,
                   "graph: as given; dot: for Graphviz; passes: after every pass; loops, llvm, "
                   "assembly: its kernels")
      ->check(CLI::IsMember({"graph", "dot", "passes", "loops", "llvm", "assembly"}))
      ->capture_default_str();
  dump->add_option("--pass", all.dump.pass, "Of `passes`, only this one");
  AddOnnx(dump, all.dump.onnx);
  AddDevice(dump, all.dump.device);
}

void AddRunning(CLI::App& app, AllOptions& all, int& result) {
  CLI::App* run = Add(app, "run", "Run a model on inputs from files", all.run, Run, result);
  run->add_option("MODEL", all.run.model, "Or FILE.repro, which has its inputs")->required();
  run->add_option("-i,--input", all.run.inputs,
                  "FILE.npy or FILE.pb in order, or NAME=FILE.npy with a name (x0) or number; "
                  "FILE.npz has them by name");
  run->add_flag("--random", all.run.random, "Make up inputs that are not given");
  run->add_option("--seed", all.run.seed, "Of made-up inputs and random ops")
      ->capture_default_str();
  run->add_option("-o,--output", all.run.output,
                  "FILE.npy (FILE.0.npy, ... for several outputs) or FILE.safetensors");
  AddOnnx(run, all.run.onnx);
  AddDevice(run, all.run.device);
  AddJson(run, all.run);

  CLI::App* bench = Add(app, "bench", "Measure a model, devices side by side, kernel by kernel",
                        all.bench, Bench, result);
  bench->add_option("MODEL", all.bench.model)->required();
  bench->add_option("-d,--device", all.bench.devices, "One or several devices");
  bench->add_option("-i,--input", all.bench.inputs, "As for `run`; the others are made up");
  AddOnnx(bench, all.bench.onnx);
  bench->add_option("-n,--runs", all.bench.runs, "How often; 0: about a second")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddJson(bench, all.bench);
}

void AddLaunching(CLI::App& app, AllOptions& all, int& result) {
  CLI::App* launch = Add(app, "launch", "Start a program as several ranks, and wait for them",
                         all.launch, Launch, result);
  launch->add_option("-n,--ranks", all.launch.ranks, "How many processes")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()))
      ->required();
  launch->add_option("--hosts", all.launch.hosts, "Hosts, separated by commas; else this one");
  launch->add_option("--store", all.launch.store,
                     "Where to meet: a folder that all hosts see, or redis://HOST:PORT; else at "
                     "this program");
  launch->add_option("--address", all.launch.address,
                     "Of this host, by which the others find this program; else its name");
  launch->add_option("--shell", all.launch.shell, "Runs a command line on a host")
      ->capture_default_str();
  launch->prefix_command();  // all that follows is the program's
  launch->fallthrough(false);
  launch->footer("hammock launch -n RANKS [OPTIONS] PROGRAM [ARGUMENTS...]");
  launch->callback([&all, &result, launch] {
    all.launch.program = launch->remaining();
    if (all.launch.program.empty()) throw CLI::RequiredError("PROGRAM");
    result = Launch(all.launch);
  });

  CLI::App* plan = Add(
      app, "plan", "Predict step time and memory of a model on many GPUs, and how to share it out",
      all.plan, Plan, result);
  plan->add_option("MODEL", all.plan.model, "gpt2, gpt2-1.5b or 7b")->capture_default_str();
  ModelSize& sizes = all.plan.sizes;
  CLI::Option* layers = plan->add_option("--layers", sizes.layers, "A model by its sizes: blocks")
                            ->check(CLI::PositiveNumber);
  auto add_size = [&](const char* name, auto& size, const char* text) {
    plan->add_option(name, size, text)
        ->check(CLI::PositiveNumber)
        ->needs(layers)
        ->capture_default_str();
  };
  add_size("--width", sizes.width, "Of the model's vectors");
  add_size("--heads", sizes.heads, "Of attention");
  add_size("--mlp", sizes.mlp, "Width of the perceptron over that of the vectors");
  add_size("--vocabulary", sizes.vocabulary, "Tokens that it knows");
  add_size("--context", sizes.context, "Tokens of a sequence");
  plan->add_option("-g,--gpus", all.plan.gpus, "How many; several give several tables")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  Training& training = all.plan.training;
  plan->add_option("--batch", training.batch, "Sequences of a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan->add_option("--at-once", training.at_once, "Sequences that a rank computes together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan->add_option("--element-bytes", training.element_bytes,
                   "Of an activation: 2 for bf16, 4 for f32")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan->add_flag("!--keep", training.recompute, "Blocks keep all values for the backward pass");
  plan->add_option("--flops", all.plan.hardware.flops, "A GPU's, measured in training steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan->add_option("--memory", all.plan.hardware.memory, "A GPU's bytes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan->add_option("--per-host", all.plan.hardware.per_host, "GPUs of a host")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan->add_option("--host-bandwidth", all.plan.hardware.host_bandwidth,
                   "Bytes a second between GPUs of a host")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan->add_option("--bandwidth", all.plan.hardware.bandwidth,
                   "A GPU's bytes a second between hosts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  plan->add_option("--overlap", all.plan.hardware.overlap,
                   "Of the compute time, what collectives can hide behind")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  AddJson(plan, all.plan);
}

void AddReading(CLI::App& app, AllOptions& all, int& result) {
  CLI::App* explain = Add(app, "explain", "Say why graphs were compiled, and what to do about it",
                          all.explain, Explain, result);
  explain
      ->add_option("LOG", all.explain.log,
                   "A log of a program run with HAMMOCK_EXPLAIN_MISSES=1, or a profile")
      ->required();
  AddJson(explain, all.explain);

  CLI::App* report =
      Add(app, "report", "Make one HTML page of a profile", all.report, Report, result);
  report
      ->add_option("PROFILE", all.report.profiles,
                   "Written with HAMMOCK_PROFILE_FILE=...; those of several ranks, in their order, "
                   "on one time line")
      ->required();
  report->add_option("-o,--output", all.report.output, "The page to write")->required();
}

void AddArchives(CLI::App& app, AllOptions& all, int& result) {
  static std::string backend = "cpu";
  CLI::App* compile = Add(app, "compile", "Store a model with machine code for this processor",
                          all.compile, Compile, result);
  compile->add_option("MODEL", all.compile.model)->required();
  compile->add_option("-o,--output", all.compile.output, "The archive to write")->required();
  compile->add_option(
      "-i,--input", all.compile.inputs,
      "As for `run`, of an ONNX file: all its sizes are fixed as those of the inputs");
  AddOnnx(compile, all.compile.onnx);
  compile->add_option("--backend", backend, "What to compile for")
      ->check(CLI::IsMember({"cpu"}))
      ->capture_default_str();

  CLI::App* inspect = Add(app, "inspect", "Print what an archive or ONNX file has in it",
                          all.inspect, Inspect, result);
  inspect->add_option("FILE", all.inspect.archive)->required();
}

void AddPlugins(CLI::App& app, AllOptions& all, int& result) {
  CLI::App* made = Add(app, "new-backend", "Write a project with a plug-in for a device of yours",
                       all.new_backend, NewBackend, result);
  made->add_option("NAME", all.new_backend.name, "Of the device")->required();
  made->add_option("-o,--output", all.new_backend.folder, "The folder to write; NAME if none");

  CLI::App* conform =
      Add(app, "conform", "Check a plug-in rule by rule, each in a process of its own", all.conform,
          Conform, result);
  conform->add_option("--plugin", all.conform.plugin, "The library");
  conform->add_option("--level", all.conform.level)
      ->check(CLI::IsMember({"bronze", "silver", "gold"}))
      ->capture_default_str();
  conform->add_option("--junit", all.conform.junit, "An XML file to write");
  conform->add_option("--html", all.conform.html, "A page to write");
  conform->add_option("--golden", all.conform.golden,
                      "Folder of a golden suite to replay; else an installed sample");
  conform->add_option("--timeout", all.conform.timeout, "Of a rule, in seconds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  conform->add_option("--rule", all.conform.only, "Only this rule");
  conform->add_flag("--list", all.conform.list, "List the rules");
  conform->add_flag("--measure", all.conform.measure, "Measure it beside `cpu`");
  conform->add_option("--in-process", all.conform.rule, "One rule, in this process: for debuggers");
}

/// A list of paths.
void AddLibraries(CLI::App& app, const char* name, const char* text,
                  std::vector<std::string>& libraries) {
  app.add_option(name, libraries, text)
      ->take_all()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

template <auto& option>
bool SetLibraries(const std::vector<std::string>& libraries) {
  std::string list(hammock::config::Get<option>());
  for (const std::string& library : libraries) list += (list.empty() ? "" : ":") + library;
  if (!list.empty()) hammock::config::Set<option>(list);
  return !list.empty();
}

/// Opens the libraries of --load and --plugin, and of the environment, before any command runs.
void AddLoad(CLI::App& app, std::vector<std::string>& libraries,
             std::vector<std::string>& plugins) {
  AddLibraries(app, "--load",
               "A library with backends, delegates or ops; may be repeated, before or after the "
               "command",
               libraries);
  AddLibraries(app, "--plugin", "A plug-in with devices; likewise", plugins);
  app.fallthrough();
  app.parse_complete_callback([&] {
    const bool loads = SetLibraries<hammock::config::kLoad>(libraries);
    if (SetLibraries<hammock::config::kPlugins>(plugins) || loads) hammock::Devices();
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{kAbout};
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", "hammock " HAMMOCK_VERSION);
  std::vector<std::string> libraries, plugins;
  AddLoad(app, libraries, plugins);
  AllOptions all;
  int result = 0;
  AddLooking(app, all, result);
  AddRunning(app, all, result);
  AddLaunching(app, all, result);
  AddReading(app, all, result);
  AddArchives(app, all, result);
  AddPlugins(app, all, result);
  try {
    app.parse(argc, argv);
    return std::cout.flush() ? result : 1;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "hammock: " << error.what() << "\n";
    return 1;
  }
}
