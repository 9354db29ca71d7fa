#include "fuzz/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "base/throw.h"
#include "ir/primitives.h"
#include "ops/shape/views.h"

namespace hammock::fuzz {
namespace {

/// Positions that an input stands for lie below this; 0: it is no position.
int64_t LimitOf(const Graph& graph, NodeId input) {
  int64_t limit = 0;
  auto below = [&](int64_t end) {
    end = std::max<int64_t>(end, 1);
    limit = limit == 0 ? end : std::min(limit, end);
  };
  auto extent = [&](const GraphNode& node) {
    const Shape& self = graph.TypeOf(node.inputs[0]);
    return self.rank() == 0 ? 1 : self.size(static_cast<int>(node.attr("dim").integer()));
  };
  for (const GraphNode& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].node != input) continue;
      bool picks = node.op == &ops::kGather || node.op == &ops::kScatter ||
                   node.op == &ops::kIndexSelect || node.op == &ops::kDynamicSelect;
      if (picks && i == 1) below(extent(node));
      bool slices = node.op == &ops::kDynamicSlice && i == 1;
      bool updates = node.op == &ops::kDynamicUpdateSlice && i == 2;
      if (!slices && !updates) continue;
      int64_t size =
          slices ? node.attr("size").integer()
                 : graph.TypeOf(node.inputs[1]).size(static_cast<int>(node.attr("dim").integer()));
      int64_t reach = size == 0 ? 0 : (size - 1) * node.attr("step").integer() + 1;
      below(extent(node) - reach + 1);
    }
  }
  return limit;
}

enum class Style { kSmall, kPlain, kSpecial, kWild };

Style StyleOf(Random& random) {
  int64_t n = random.Below(20);
  return n < 6 ? Style::kSmall : n < 13 ? Style::kPlain : n < 18 ? Style::kSpecial : Style::kWild;
}

Scalar SpecialFloat(Random& random, DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  double tiny = dtype == DType::kF16 ? 0x1p-24 : dtype == DType::kF64 ? 0x1p-1074 : 0x1p-149;
  if (dtype == DType::kBF16) tiny = 0x1p-133;
  const double values[] = {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           0.0,
                           -0.0,
                           tiny,
                           -3 * tiny,
                           info.highest,
                           info.lowest,
                           1.0,
                           -1.0,
                           1 + info.epsilon,
                           0.5,
                           2.5,
                           std::sqrt(info.highest)};
  return Scalar(random.Pick(values)).To(dtype);
}

Scalar SpecialInt(Random& random, DType dtype) {
  int bits = InfoOf(dtype).bits;
  uint64_t top = uint64_t{1} << (bits - 1);
  const uint64_t values[] = {0, 1, ~uint64_t{0}, top, top - 1, top + 1, 2, 255, 256, 3};
  HostTensor holder{Shape(dtype, {})};
  uint64_t value = random.Pick(values);
  std::memcpy(holder.mutable_data(), &value, static_cast<size_t>(bits / 8));
  return holder.at(0);
}

void Fill(HostTensor& tensor, Random& random) {
  DType dtype = tensor.dtype();
  if (IsComplex(dtype)) {
    HostTensor parts(Shape(RealOf(dtype), {2 * tensor.numel()}), tensor.storage());
    return Fill(parts, random);
  }
  if (!InfoOf(dtype).supported) {
    HostTensor bits(Shape(DType::kU8, {tensor.bytes()}), tensor.storage());
    return Fill(bits, random);
  }
  Style style = StyleOf(random);
  char* bytes = static_cast<char*>(tensor.mutable_data());
  int64_t width = InfoOf(dtype).bits / 8;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (dtype == DType::kBool) {
      bytes[i] = static_cast<char>(random.Below(2));
    } else if (style == Style::kWild) {
      uint64_t bits = random.Bits();
      std::memcpy(bytes + i * width, &bits, static_cast<size_t>(width));
    } else if (style == Style::kSpecial && random.OneIn(6)) {
      tensor.set(i, IsFloat(dtype) ? SpecialFloat(random, dtype) : SpecialInt(random, dtype));
    } else if (style == Style::kSmall || !IsFloat(dtype)) {
      tensor.set(i, Scalar(random.Between(-4, 9)).To(dtype));
    } else {
      tensor.set(i, Scalar(random.Unit() * 6 - 3).To(dtype));
    }
  }
}

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  Throw(ErrorCode::kParse, "case: '{}' is no hexadecimal digit", c);
}

HostTensor ParseBytes(const Shape& type, std::string_view text) {
  HostTensor tensor(type);
  if (static_cast<int64_t>(text.size()) != 2 * tensor.bytes()) {
    Throw(ErrorCode::kParse, "case: {} digits for {}, needs {}", text.size(), type.to_string(),
          2 * tensor.bytes());
  }
  auto* bytes = static_cast<unsigned char*>(tensor.mutable_data());
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes[i / 2] = static_cast<unsigned char>(Digit(text[i]) * 16 + Digit(text[i + 1]));
  }
  return tensor;
}

}  // namespace

std::vector<HostTensor> RandomInputs(const Graph& graph, uint64_t seed) {
  Random random(seed);
  std::vector<HostTensor> inputs;
  for (NodeId id : graph.inputs()) {
    HostTensor tensor(graph[id].type());
    int64_t limit = LimitOf(graph, id);
    if (limit == 0) {
      Fill(tensor, random);
    } else {
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        tensor.set(i, Scalar(random.Below(limit)).To(tensor.dtype()));
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::string ToText(const Case& test) {
  std::string text = hammock::ToText(test.graph);
  if (!text.ends_with('\n')) text += '\n';
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    text += fmt::format("bytes {} ", i);
    const auto* bytes = static_cast<const unsigned char*>(test.inputs[i].data());
    for (int64_t b = 0; b < test.inputs[i].bytes(); ++b) text += fmt::format("{:02x}", bytes[b]);
    text += '\n';
  }
  return text;
}

Case ParseCase(std::string_view text) {
  std::string graph_text;
  std::map<size_t, std::string_view> lines;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with("bytes ")) {
      graph_text += std::string(line) + "\n";
      continue;
    }
    line.remove_prefix(6);
    size_t space = line.find(' ');
    if (space == std::string_view::npos) Throw(ErrorCode::kParse, "case: 'bytes {}' ends", line);
    lines[std::stoul(std::string(line.substr(0, space)))] = line.substr(space + 1);
  }
  Case test;
  test.graph = ParseGraph(graph_text);
  test.inputs = RandomInputs(test.graph, 1);
  for (auto [i, bytes] : lines) {
    if (i >= test.inputs.size()) Throw(ErrorCode::kParse, "case: there is no input {}", i);
    test.inputs[i] = ParseBytes(test.inputs[i].shape(), bytes);
  }
  return test;
}

}  // namespace hammock::fuzz
