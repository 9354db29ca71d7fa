#include "toy_program.h"

#include <hammock/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <type_traits>

namespace toy {

using namespace hammock;

Buffer Memory::Allocate(int64_t bytes, const std::string& what, LocationId location) {
  int64_t total = in_use += bytes;
  if (limit > 0 && total > limit) {
    in_use -= bytes;
    std::string most = std::to_string(limit);
    OutOfMemory error(ErrorCode::kOutOfMemory, what + ": more than toy's " + most + " bytes");
    error.SetWhere(LocationText(location));
    throw error;
  }
  int64_t highest = peak;
  while (total > highest && !peak.compare_exchange_weak(highest, total)) {
  }
  return Buffer(::operator new(std::max<int64_t>(bytes, 1)), [this, bytes](void* memory) {
    ::operator delete(memory);
    in_use -= bytes;
  });
}

namespace {

template <auto kFunction>
void Map(const Call& call) {
  for (int64_t i = 0; i < call.node.type().numel(); ++i) {
    if constexpr (std::is_invocable_v<decltype(kFunction), float>) {
      call.out[i] = kFunction(call.in[0][i]);
    } else {
      call.out[i] = kFunction(call.in[0][i], call.in[1][i]);
    }
  }
}

void Constant(const Call& call) {
  call.node.attr("value").scalar().To(call.node.attr("dtype").dtype()).Store(call.out);
}

void Reshape(const Call& call) { std::copy_n(call.in[0], call.node.type().numel(), call.out); }

/// Sizes are aligned right; a size of one stretches.
void Broadcast(const Call& call) {
  const Dims& to = call.node.type().sizes();
  const Dims& from = call.types[0].sizes();
  Dims strides = ContiguousStrides(from);
  for (int64_t i = 0; i < call.node.type().numel(); ++i) {
    int64_t rest = i, at = 0;
    for (int d = to.size() - 1, s = from.size() - 1; s >= 0; --d, --s) {
      if (from[s] != 1) at += rest % to[d] * strides[s];
      rest /= to[d];
    }
    call.out[i] = call.in[0][at];
  }
}

/// A tensor as the matrix of one dim against all others.
struct Matrix {
  Matrix(const float* data, const Shape& type, int64_t dim) : data(data), inner(1) {
    for (int d = static_cast<int>(dim) + 1; d < type.rank(); ++d) inner *= type.size(d);
    length = type.size(static_cast<int>(dim));
    others = length ? type.numel() / length : 0;
  }
  float operator()(int64_t other, int64_t k) const {
    return data[(other / inner * length + k) * inner + other % inner];
  }
  const float* data;
  int64_t inner, length, others;
};

void DotGeneral(const Call& call) {
  Matrix a(call.in[0], call.types[0], call.node.attr("a_contract").ints()[0]);
  Matrix b(call.in[1], call.types[1], call.node.attr("b_contract").ints()[0]);
  if (a.length == 0) std::fill_n(call.out, call.node.type().numel(), 0.0f);
  for (int64_t i = 0; i < a.others; ++i) {
    for (int64_t j = 0; j < b.others; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.length; ++k) sum += double{a(i, k)} * b(j, k);
      call.out[i * b.others + j] = static_cast<float>(sum);
    }
  }
}

float Gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678f)); }

}  // namespace

Kernel FindKernel(const OpDef& op) {
  static const std::map<std::string, Kernel> kernels = {
      {"neg", Map<[](float x) { return -x; }>},
      {"exp", Map<[](float x) { return std::exp(x); }>},
      {"add", Map<[](float x, float y) { return x + y; }>},
      {"sub", Map<[](float x, float y) { return x - y; }>},
      {"mul", Map<[](float x, float y) { return x * y; }>},
      {"div", Map<[](float x, float y) { return x / y; }>},
      {"maximum", Map<[](float x, float y) { return y < x || x != x ? x : y; }>},  // NaN wins
      {"constant", Constant},
      {"reshape", Reshape},
      {"broadcast", Broadcast},
      {"dot_general", DotGeneral},
      {"gelu", Map<Gelu>}};  // a composite, run whole
  auto found = kernels.find(op.name());
  return found == kernels.end() ? nullptr : found->second;
}

Program::Program(const Graph& graph) : registers_(graph.size()), arguments_(graph.inputs()) {
  for (NodeId id : graph.ids()) {
    const GraphNode& node = graph[id];
    if (std::ranges::count(arguments_, id)) continue;
    Kernel kernel = FindKernel(*node.op);
    if (!kernel) throw CompileError(ErrorCode::kCompile, node.op->info().name + ": no kernel");
    code_.push_back({kernel, node, {}, id});
    for (GraphValue input : node.inputs) code_.back().types.push_back(graph.TypeOf(input));
  }
  for (GraphValue output : graph.outputs()) results_.push_back(output.node);
}

std::vector<Buffer> Program::Run(std::span<const Buffer> arguments, Memory& memory) const {
  NodeMap<Buffer> registers(registers_);
  for (size_t i = 0; i < arguments.size(); ++i) registers[arguments_[i]] = arguments[i];
  for (const Instruction& instruction : code_) {
    const GraphNode& node = instruction.node;
    registers[instruction.out] =
        memory.Allocate(node.type().bytes(), node.op->name(), node.location);
    Call call{node, instruction.types, {}, static_cast<float*>(registers[instruction.out].get())};
    for (auto [id, _] : node.inputs) call.in.push_back(static_cast<float*>(registers[id].get()));
    instruction.kernel(call);
  }
  std::vector<Buffer> results;
  for (NodeId result : results_) results.push_back(registers[result]);
  return results;
}

std::string Program::text() const {
  std::ostringstream text;
  for (const Instruction& instruction : code_) {
    text << 'r' << instruction.out << " = " << instruction.node.op->name();
    for (GraphValue input : instruction.node.inputs) text << " r" << input.node;
    text << " : " << instruction.node.type().to_string() << '\n';
  }
  return text.str();
}

}  // namespace toy
