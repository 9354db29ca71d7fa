#include "backends/cuda/emit/access_text.h"

#include <fmt/format.h>

#include "backends/cuda/emit/cuda_text.h"

namespace hammock::cuda {

using compiler::Access;
using compiler::Stride;
using Way = LaunchConfig::Way;

std::string AccessText::ArgumentText(int index) { return fmt::format("words.w[{}]", index); }

std::string AccessText::Outer(int i) const {
  std::string offset;
  for (int d = 0; d < config_.outer_dims; ++d) {
    offset += fmt::format(" + outer{} * (I){}", d, ArgumentText(indices_.Outer(i, d)));
  }
  return offset;
}

std::string AccessText::OffsetInLine(int i) const {
  std::string offset;
  if (of(i).row == Stride::kOne) offset = " + row";
  if (of(i).row == Stride::kAny)
    offset = fmt::format(" + row * (I){}", ArgumentText(indices_.Row(i)));
  return offset + Outer(i);
}

std::string AccessText::Address(int i) const {
  const Access& access = of(i);
  const std::string argument = ArgumentText(indices_.Access(i));
  switch (access.kind) {
    case Access::Kind::kConstant:
      return "";
    case Access::Kind::kIndex:
      return fmt::format("const long long p{} = (long long){}{};", i, argument, OffsetInLine(i));
    case Access::Kind::kRandom:
      return fmt::format("const long long p{} = (long long){}{};", i,
                         ArgumentText(indices_.Column(i)), OffsetInLine(i));
    case Access::Kind::kScratch:
      if (config_.whole) return "";
      return fmt::format("{0}* p{1} = ({0}*){2} + {3};", MemoryType(access.dtype), i, argument,
                         across() ? "line" : "line * columns");
    case Access::Kind::kBuffer:
      return fmt::format("{0}* p{1} = ({0}*){2}{3};", MemoryType(access.dtype), i, argument,
                         OffsetInLine(i));
  }
  return "";
}

std::string AccessText::Step(int i) const {
  const Access& access = of(i);
  if (access.kind == Access::Kind::kScratch) return across() ? "lines" : "(I)1";
  if (access.column == Stride::kOne) return "(I)1";
  return access.column == Stride::kZero ? "(I)0"
                                        : fmt::format("(I){}", ArgumentText(indices_.Column(i)));
}

/// The stride of neighbouring lines.
std::string AccessText::LineStep(int i) const {
  const Access& access = of(i);
  if (access.kind == Access::Kind::kScratch || access.row == Stride::kOne) return "(I)1";
  return access.row == Stride::kZero ? "(I)0" : fmt::format("(I){}", ArgumentText(indices_.Row(i)));
}

std::string AccessText::RowElement(int i) const {
  return across() ? fmt::format("p{}[v * {}]", i, LineStep(i)) : fmt::format("p{}[0]", i);
}

std::string AccessText::Index(int i, bool in_loop) const {
  return fmt::format("p{}{}{}", i, in_loop ? fmt::format(" + at * {}", Step(i)) : "",
                     across() ? fmt::format(" + v * (long long){}", LineStep(i)) : "");
}

std::string AccessText::Element(int i) const {
  return IsShared(i) ? fmt::format("m{}[e % {}]", i, config_.vector) : fmt::format("m{}[e]", i);
}

std::string AccessText::SlotColumn() const {
  switch (config_.way) {
    case Way::kMap:
      if (config_.line_slots) {
        return fmt::format("((I)blockIdx.x * {} + thread) * {}", config_.threads, config_.vector);
      }
      return fmt::format("(((I)blockIdx.x * {} + s) * {} + thread) * {}", config_.slots,
                         config_.threads, config_.vector);
    case Way::kTile:
      return fmt::format("(I)blockIdx.x * {} + thread", kTileSide);
    case Way::kRow:
      return fmt::format("((iteration * {} + s) * {} + thread) * {}", config_.slots,
                         config_.threads, config_.vector);
    case Way::kColumn:
      return ColumnAcross();
  }
  return "";
}

/// The highest bits of a thread's number are those of the lowest three of an accumulator's that no
/// slot has, in the order in which they are combined; the others are above the passes' bits.
std::string AccessText::ColumnAcross() const {
  const int lowest = std::min(config_.accumulators, 8);
  const int above = config_.threads * config_.slots / lowest;
  std::string offset =
      fmt::format("iteration * {} + (thread % {} * {} + {}) * {} + s", config_.accumulators, above,
                  config_.passes, config_.passes > 1 ? "pass" : "0", lowest);
  for (int bit = config_.slots, in = config_.threads / 2; bit < lowest; bit *= 2, in /= 2) {
    offset += fmt::format(" + thread / {} % 2 * {}", in, bit);
  }
  return offset;
}

std::string AccessText::Transfer(int i, std::string_view verb) const {
  const std::string elements = fmt::format("m{} + s * {}", i, config_.vector);
  const bool wide = config_.is_wide[i];
  if (IsTransposed(i)) return fmt::format("if (count > 0) m{0}[s] = tile{0}[thread][k];", i);
  if (of(i).kind == Access::Kind::kRandom) {
    return fmt::format("random_{}<{}>({}, p{} + at, {});", wide ? "blocks" : "words",
                       config_.vector, ArgumentText(indices_.Access(i)), i, elements);
  }
  const std::string step = Step(i);
  std::string offset =
      step == "(I)1" ? fmt::format("p{} + at", i) : fmt::format("p{} + at * {}", i, step);
  if (config_.line_slots && !IsShared(i)) offset += " + down * " + LineStep(i);
  if (wide)
    return fmt::format("{}_some<{}>({}, count, {});", verb, config_.vector, offset, elements);
  return fmt::format("{}_apart<{}>({}, {}, count, {});", verb, config_.vector, offset,
                     across() ? LineStep(i) : step, elements);
}

}  // namespace hammock::cuda
