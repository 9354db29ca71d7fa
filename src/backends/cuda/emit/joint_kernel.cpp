#include "backends/cuda/emit/joint_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/throw.h"

namespace hammock::cuda {

using compiler::Access;
using compiler::Launch;

namespace {

constexpr int64_t kSmallLaunch = 1 << 21;  // elements; a GPU takes some microseconds for them
constexpr int kMostThreads = 256;

int64_t ElementsOf(const Launch& launch) {
  int64_t elements = launch.rows * launch.columns;
  for (int64_t extent : launch.outer) elements *= extent;
  return elements;
}

/// By argument: whether it is an address.
std::vector<bool> AddressArguments(const Launch& launch, const LaunchConfig& config) {
  const std::vector<Access>& accesses = launch.kernel->accesses;
  ArgumentIndices indices{.outer_dims = config.outer_dims};
  const int count = static_cast<int>(accesses.size());
  std::vector<bool> result(static_cast<size_t>(indices.Count(count, config.split)));
  for (size_t i = 0; i < accesses.size(); ++i) {
    result[indices.Access(static_cast<int>(i))] =
        accesses[i].kind != Access::Kind::kIndex && accesses[i].kind != Access::Kind::kConstant;
  }
  return result;
}

/// The arguments without addresses.
std::vector<uint64_t> ArgumentsWithoutAddresses(const Launch& launch, const LaunchConfig& config) {
  return KernelArguments(launch, config, {}, 0, 0);
}

void Replace(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

bool JointKernel::Takes(const Launch& launch) {
  if (ElementsOf(launch) > kSmallLaunch) return false;
  LaunchConfig config = ConfigureLaunch(launch);
  // Parts of one body would count their blocks together.
  return config.way != LaunchConfig::Way::kTile && !config.split &&
         config.block_threads() <= kMostThreads && !GridOf(launch, config).empty() &&
         static_cast<int>(AddressArguments(launch, config).size()) + 1 <= kMostArguments;
}

JointKernel::JointKernel(const std::vector<const Launch*>& launches) {
  for (const Launch* launch : launches) {
    threads_ = std::max(threads_, ConfigureLaunch(*launch).block_threads());
  }
  while (parts_.size() < launches.size()) {
    const Launch& launch = *launches[parts_.size()];
    if (!Add(launch, ConfigureJointLaunch(launch, threads_))) break;
  }
  argument_count_ = LayOutArguments();
}

KernelSource JointKernel::source(bool guarded) const {
  std::vector<KernelSource> sources;  // by body
  for (const Body& body : bodies_) {
    sources.push_back(EmitCuda(*body.parts[0].launch->kernel, body.config));
  }
  std::string name = SourceName(TextOf("joint", sources, guarded));
  return {name, TextOf(name, sources, guarded)};
}

/// False, with nothing changed, if it does not fit. The first launch always fits.
bool JointKernel::Add(const Launch& launch, const LaunchConfig& config) {
  Part part{&launch, GridOf(launch, config), parts_.size()};
  std::vector<uint64_t> arguments = ArgumentsWithoutAddresses(launch, config);
  auto known = std::find_if(bodies_.begin(), bodies_.end(), [&](const Body& body) {
    return body.config == config && *body.parts[0].launch->kernel == *launch.kernel;
  });
  if (known == bodies_.end()) {
    std::vector<bool> varies = AddressArguments(launch, config);
    if (!parts_.empty()) {
      int more = static_cast<int>(arguments.size()) + 1;
      if (static_cast<int>(bodies_.size()) == kMostBodies ||
          CountArguments() + more > kMostArguments) {
        return false;
      }
    }
    bodies_.push_back({config, {part}, arguments, varies, 0, {}, 0});
    parts_.push_back(bodies_.size() - 1);
    return true;
  }
  std::vector<bool> varies = known->varies;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != known->arguments[i]) varies[i] = true;
  }
  std::swap(known->varies, varies);
  known->parts.push_back(part);
  parts_.push_back(static_cast<size_t>(known - bodies_.begin()));
  if (CountArguments() <= kMostArguments) return true;
  std::swap(known->varies, varies);
  known->parts.pop_back();
  parts_.pop_back();
  return false;
}

int JointKernel::CountArguments() const {
  size_t count = parts_.size();
  for (const Body& body : bodies_) {
    size_t own = static_cast<size_t>(std::count(body.varies.begin(), body.varies.end(), true));
    count += body.varies.size() - own + own * body.parts.size();
  }
  return static_cast<int>(count);
}

/// The table begins with an entry for each part: its first block, and the number of blocks along x.
int JointKernel::LayOutArguments() {
  int at = static_cast<int>(parts_.size()), first = 0;
  for (Body& body : bodies_) {
    body.first = first;
    first += static_cast<int>(body.parts.size());
    body.own = static_cast<int>(std::count(body.varies.begin(), body.varies.end(), true));
    int own_at = at + static_cast<int>(body.varies.size()) - body.own;
    body.indices.clear();
    for (bool varies : body.varies) body.indices.push_back(varies ? own_at++ : at++);
    at = own_at + body.own * (static_cast<int>(body.parts.size()) - 1);
  }
  return at;
}

void JointKernel::AddTo(KernelKey& key) const {
  key.Add(threads_);
  for (const Body& body : bodies_) {
    const Launch& launch = *body.parts[0].launch;
    key.Add(launch.kernel.get(), body.config);
    key.Add(GridOf(launch, body.config).block_x);
    key.Add(static_cast<int64_t>(body.parts.size()));
    key.Add(body.varies);
  }
}

Grid JointKernel::grid() const {
  Grid grid{0, 1, static_cast<unsigned>(threads_), 1};
  for (const Body& body : bodies_) {
    for (const Part& part : body.parts) grid.x += part.grid.x * part.grid.y;
  }
  return grid;
}

std::vector<uint64_t> JointKernel::Arguments(const compiler::BufferMap<uint64_t>& buffers,
                                             const std::vector<uint64_t>& scratch) const {
  std::vector<uint64_t> arguments(static_cast<size_t>(argument_count_));
  uint64_t block = 0;
  size_t slot = 0;
  for (const Body& body : bodies_) {
    for (size_t p = 0; p < body.parts.size(); ++p) {
      const Part& part = body.parts[p];
      arguments[slot++] = block | uint64_t{part.grid.x} << 32;
      block += uint64_t{part.grid.x} * part.grid.y;
      std::vector<uint64_t> own =
          KernelArguments(*part.launch, body.config, buffers, scratch[part.number], 0);
      for (size_t i = 0; i < own.size(); ++i) {
        int shift = body.varies[i] ? body.own * static_cast<int>(p) : 0;
        arguments[body.indices[i] + shift] = own[i];
      }
    }
  }
  return arguments;
}

/// The kernel as a function that is told its block, grid and thread.
std::string JointKernel::PartText(const Body& body, const KernelSource& source) {
  std::string text = source.text;
  const std::string& name = source.name;
  std::string head =
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const {}_words words)",
                  body.config.block_threads(), name, name);
  HAMMOCK_CHECK(text.find(head) != std::string::npos, "{} begins in another way", name);
  Replace(text, head,
          fmt::format("__device__ __forceinline__ void {}(const {}_words& words, const Index2 "
                      "part_block, const Index2 part_grid, const Index2 part_thread)",
                      name, name));
  Replace(text, "blockIdx.", "part_block.");
  Replace(text, "gridDim.", "part_grid.");
  Replace(text, "threadIdx.", "part_thread.");
  return text;
}

std::string JointKernel::CallText(const Body& body, const std::string& name) const {
  std::string text = fmt::format("    {0}_parts::{0}_words own;\n", name);
  for (size_t i = 0; i < body.varies.size(); ++i) {
    std::string shift = body.varies[i] && body.parts.size() > 1
                            ? fmt::format(" + (part - {}) * {}", body.first, body.own)
                            : "";
    text += fmt::format("    own.w[{}] = words.w[{}{}];\n", i, body.indices[i], shift);
  }
  unsigned along_x = GridOf(*body.parts[0].launch, body.config).block_x;
  text += fmt::format(
      "    const Index2 thread = {{threadIdx.x % {0}, threadIdx.x / {0}}};\n"
      "    {1}_parts::{1}(own, block, grid, thread);\n",
      along_x, name);
  return text;
}

std::string JointKernel::TextOf(const std::string& name, const std::vector<KernelSource>& sources,
                                bool guarded) const {
  std::string text =
      fmt::format("namespace {}_parts {{\nstruct Index2 {{ unsigned x, y; }};\n", name);
  for (size_t i = 0; i < bodies_.size(); ++i) text += PartText(bodies_[i], sources[i]);
  int parts = static_cast<int>(parts_.size());
  text += fmt::format(
      "struct {0}_words {{ unsigned long long w[{1}]; }};\n"
      "extern \"C\" __global__ void __launch_bounds__({2}) {0}(const {0}_words words) {{\n"
      "  wait_for_earlier_kernels();\n{5}"
      "  int part = 0;\n"
      "  #pragma unroll\n"
      "  for (int step = {3}; step > 0; step /= 2) {{\n"
      "    if (part + step < {4} && (unsigned)words.w[part + step] <= blockIdx.x) part += step;\n"
      "  }}\n"
      "  const unsigned first = (unsigned)words.w[part];\n"
      "  const unsigned along_x = (unsigned)(words.w[part] >> 32);\n"
      "  const unsigned end = part + 1 < {4} ? (unsigned)words.w[part + 1] : gridDim.x;\n"
      "  const unsigned number = blockIdx.x - first;\n"
      "  const Index2 block = {{number % along_x, number / along_x}};\n"
      "  const Index2 grid = {{along_x, (end - first) / along_x}};\n",
      name, argument_count_ + guarded, threads_, std::bit_ceil(static_cast<unsigned>(parts)) / 2,
      parts, guarded ? GuardText(argument_count_) : "");
  for (size_t i = 0; i < bodies_.size(); ++i) {
    const Body& body = bodies_[i];
    int end = body.first + static_cast<int>(body.parts.size());
    text += body.first == 0 ? "  " : "  } else ";
    text += end < parts ? fmt::format("if (part < {}) {{\n", end) : "{\n";
    text += CallText(body, sources[i].name);
  }
  return text + "  }\n}\n}\n";
}

}  // namespace hammock::cuda
