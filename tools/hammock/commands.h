#pragma once
/// The commands of the tool, one file each. A command prints to stdout and returns the exit code;
/// what is wrong is thrown and printed by main. Exit codes: 0 done, 1 an error, 2 a wrong command
/// line, 3 `explain` found recompiles that can be avoided.

#include <string>
#include <vector>

namespace hammock::tool {

inline constexpr int kFoundRecompiles = 3;

/// Sizes and inputs that an ONNX file leaves open.
struct OnnxOptions {
  std::vector<std::string> dims;   ///< "NAME=SIZE" of symbolic dims
  std::vector<std::string> fixed;  ///< "NAME=VALUE" of inputs: a number or a file
};

struct CompileOptions {
  std::string model, output;
  std::vector<std::string> inputs;  ///< all sizes are fixed as theirs, where there are any
  OnnxOptions onnx;
};
int Compile(const CompileOptions& options);

struct InspectOptions {
  std::string archive;
};
int Inspect(const InspectOptions& options);

struct DevicesOptions {
  bool json = false;
};
int Devices(const DevicesOptions& options);

struct LaunchOptions {
  int ranks = 1;
  std::string hosts;          ///< "a,b"; empty: this one; ranks are spread over them in blocks
  std::string store;          ///< folder that all hosts see, or redis://host:port
  std::string address;        ///< of this host, for the others; empty: its name
  std::string shell = "ssh";  ///< runs a command line on a host
  std::vector<std::string> program;  ///< and its arguments
};
/// The exit code is that of the first rank that did not end well.
int Launch(const LaunchOptions& options);

struct OpsOptions {
  std::string name;   ///< empty: all
  bool onnx = false;  ///< operators of ONNX instead
  bool json = false;
};
int Ops(const OpsOptions& options);

struct ConfigOptions {
  std::string name;  ///< empty: all
  std::string file;  ///< loaded first
  bool json = false;
};
int Config(const ConfigOptions& options);

struct RunOptions {
  std::string model;
  std::vector<std::string> inputs;  ///< "x.npy", "1=x.npy" or "name=x.npy"
  OnnxOptions onnx;
  std::string device;
  std::string output;
  int seed = 0;
  bool random = false;  ///< inputs that were not given
  bool json = false;
};
int Run(const RunOptions& options);

struct BenchOptions {
  std::string model;
  std::vector<std::string> inputs;
  OnnxOptions onnx;
  std::vector<std::string> devices;
  int runs = 0;  ///< 0: as many as fit into a second
  bool json = false;
};
int Bench(const BenchOptions& options);

struct DumpOptions {
  std::string model;
  OnnxOptions onnx;
  std::string device;
  std::string what = "passes";
  std::string pass;  ///< only this one
};
int Dump(const DumpOptions& options);

struct ExplainOptions {
  std::string log;
  bool json = false;
};
int Explain(const ExplainOptions& options);

struct ConformOptions {
  std::string plugin;
  std::string level = "bronze";
  std::string junit, html;  ///< files to write
  std::string golden;       ///< folder of a golden suite; empty: the installed sample
  std::string only;         ///< one rule, of any level
  std::string rule;         ///< only this one, in this process
  int timeout = 600;        ///< of a rule, in seconds
  bool list = false;
  bool measure = false;
};
/// 1 where a rule is broken.
int Conform(const ConformOptions& options);

struct NewBackendOptions {
  std::string name;
  std::string folder;  ///< empty: the name
};
/// Writes a project with a plug-in.
int NewBackend(const NewBackendOptions& options);

struct ReportOptions {
  std::vector<std::string> profiles;  ///< several: of ranks, in their order
  std::string output;
};
int Report(const ReportOptions& options);

}  // namespace hammock::tool
