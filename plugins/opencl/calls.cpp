#include "calls.h"

#include <fmt/format.h>
#include <hammock/compiler/program_outputs.h>

#include <map>

namespace opencl {

using hammock::Dims;
using hammock::DType;
using hammock::DTypeKind;
using hammock::GraphValue;
using hammock::compiler::kOpenClC;

CallBuilder::CallBuilder(const hammock::Graph& graph, const hammock::compiler::Schedule& schedule,
                         hammock::NodeId node, hammock::compiler::ScalarText& scalars)
    : graph_(graph), schedule_(schedule), id_(node), node_(graph[node]), scalars_(scalars) {}

Argument CallBuilder::In(int i) const {
  const GraphValue storage = hammock::compiler::StorageOf(graph_, node_.inputs[i]);
  return {Argument::Kind::kBuffer, schedule_.BufferOf(storage), 0};
}

Argument CallBuilder::Out(int i) const {
  return {Argument::Kind::kBuffer, schedule_.BufferOf({id_, i}), 0};
}

Argument CallBuilder::Scratch(int64_t bytes) {
  const int64_t offset = scratch_bytes;
  scratch_bytes += (bytes + 63) / 64 * 64;
  return {Argument::Kind::kScratch, {}, offset};
}

Argument CallBuilder::Fault(FaultText text) {
  fault = std::move(text);
  return {Argument::Kind::kFaults, {}, 0};
}

void CallBuilder::Run(const Parameters& parameters, const std::string& body,
                      std::vector<Argument> arguments, std::vector<int64_t> numbers,
                      const Sizes& sizes) {
  sources.push_back(MakeKernel(parameters, body));
  queued.push_back({.kernel = sources.back().name,
                    .arguments = std::move(arguments),
                    .numbers = std::move(numbers),
                    .global = sizes.global,
                    .local = sizes.local});
}

void CallBuilder::RunEach(int64_t count, const Parameters& parameters, const std::string& body,
                          std::vector<Argument> arguments, std::vector<int64_t> numbers) {
  if (count == 0) return;
  numbers.insert(numbers.begin(), count);
  constexpr size_t kGroup = 64;
  Run(parameters,
      "  const long i = get_global_id(0);\n  if (i >= w[0]) return;\n  w += 1;\n" + body,
      std::move(arguments), std::move(numbers),
      {{(static_cast<size_t>(count) + kGroup - 1) / kGroup * kGroup, 1, 1}, {kGroup, 1, 1}});
}

void CallBuilder::RunOnHost(const Argument& from, const Argument& to, HostCommand host) {
  QueuedCommand item;
  item.arguments = {from, to};
  item.host = std::move(host);
  queued.push_back(std::move(item));
}

void CallBuilder::FindFault(const Argument& fault, const Argument& from, DType dtype) {
  const std::string value =
      scalars_.Cast(scalars_.FromMemory("from[fault[0]]", dtype), dtype, DType::kI64);
  RunEach(1, {{"int", "fault"}, {MemoryType(dtype), "from"}},
          fmt::format("  if (fault[0] != 0x7fffffff) *(__global long*)(fault + 2) = {};\n", value),
          {fault, from});
}

void CallBuilder::Copy(const Dims& sizes, int64_t element_bytes, const Argument& from,
                       const Layout& from_layout, const Argument& to, const Layout& to_layout) {
  // Dims of one element go, neighbours that both sides have in a row become one.
  struct Dim {
    int64_t size, from, to;
  };
  std::vector<Dim> dims;
  int64_t count = 1;
  for (int d = 0; d < sizes.size(); ++d) {
    count *= sizes[d];
    if (sizes[d] == 1) continue;
    const Dim dim = {sizes[d], from_layout.strides[d], to_layout.strides[d]};
    if (!dims.empty() && dims.back().from == dim.size * dim.from &&
        dims.back().to == dim.size * dim.to) {
      dims.back() = {dims.back().size * dim.size, dim.from, dim.to};
    } else {
      dims.push_back(dim);
    }
  }
  std::vector<int64_t> numbers = {static_cast<int64_t>(dims.size()), from_layout.offset,
                                  to_layout.offset};
  for (const Dim& dim : dims) numbers.insert(numbers.end(), {dim.size, dim.from, dim.to});
  const std::string type = MovedType(element_bytes);
  RunEach(count, {{type, "from"}, {type, "to"}}, R"(
  long rest = i, source = w[1], target = w[2];
  for (int d = (int)w[0] - 1; d >= 0; --d) {
    const long size = w[3 + 3 * d], at = rest % size;
    rest /= size;
    source += at * w[4 + 3 * d];
    target += at * w[5 + 3 * d];
  }
  to[target] = from[source];
)",
          {from, to}, std::move(numbers));
}

void CallBuilder::CopyWhole(const Argument& from, const Argument& to, int64_t bytes) {
  if (bytes == 0) return;
  const int64_t word = bytes % 4 == 0 ? 4 : 1;
  Copy({bytes / word}, word, from, {0, {1}}, to, {0, {1}});
  queued.back().copies = true;
}

const CallEntry* FindCall(const std::string& op) {
  static const auto* const entries = [] {
    auto* all = new std::map<std::string, CallEntry>;
    for (const auto& family : {CollectiveCalls(), CopyCalls(), FactorCalls(), FftCalls(),
                               IndexCalls(), LineCalls(), MatMulCalls()}) {
      for (const CallEntry& entry : family) all->emplace(entry.op, entry);
    }
    return all;
  }();
  auto found = entries->find(op);
  return found == entries->end() ? nullptr : &found->second;
}

int64_t BytesOf(DType dtype) { return hammock::InfoOf(dtype).bits / 8; }

std::string MovedType(int64_t bytes) {
  switch (bytes) {
    case 1:
      return "uchar";
    case 2:
      return "ushort";
    case 4:
      return "uint";
    case 8:
      return "ulong";
    default:
      return "ulong2";
  }
}

std::string MemoryType(DType dtype) {
  return std::string(hammock::compiler::MemoryType(kOpenClC, dtype));
}
std::string ValueType(DType dtype) {
  return std::string(hammock::compiler::ValueType(kOpenClC, dtype));
}

DType WideOf(DType dtype) {
  if (hammock::IsFloat(dtype)) return DType::kF64;
  return hammock::InfoOf(dtype).kind == DTypeKind::kSigned ? DType::kI64 : DType::kU64;
}

Axis::Axis(const Dims& sizes, int64_t dim) {
  if (sizes.empty()) return;
  extent = sizes[static_cast<int>(dim)];
  for (int d = 0; d < sizes.size(); ++d) {
    if (d < dim) outer *= sizes[d];
    if (d > dim) inner *= sizes[d];
  }
}

}  // namespace opencl
