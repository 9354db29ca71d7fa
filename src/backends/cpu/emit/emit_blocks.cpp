#include "backends/cpu/emit/emit_blocks.h"

namespace hammock::cpu {

using compiler::IrType;

std::string LaneNumbers(std::string_view element, int lanes) {
  std::string text = "<";
  for (int i = 0; i < lanes; ++i) text += fmt::format("{}{} {}", i == 0 ? "" : ", ", element, i);
  return text + ">";
}

std::string BlockEmitter::RoundedDown(const std::string& count, int64_t to) {
  return ir_.Value("and i64 {}, {}", count, -to);
}

std::string BlockEmitter::Mask(const std::string& first, const std::string& end, int lanes) {
  std::string left = ir_.Value("sub i64 {}, {}", end, first);
  std::string short_left = ir_.Value("trunc i64 {} to i32", left);
  std::string type = IrType("i32", lanes);
  std::string one = ir_.Value("insertelement {} poison, i32 {}, i64 0", type, short_left);
  std::string all = ir_.Value("shufflevector {} {}, {} poison, <{} x i32> zeroinitializer", type,
                              one, type, lanes);
  return ir_.Value("icmp sgt {} {}, {}", type, all, LaneNumbers("i32", lanes));
}

}  // namespace hammock::cpu
