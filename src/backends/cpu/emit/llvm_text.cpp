#include "backends/cpu/emit/llvm_text.h"

#include <vector>

#include <bit>

#include "base/throw.h"

namespace hammock::compiler {

std::string_view IrElement(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
      return "i8";
    case DType::kU16:
    case DType::kI16:
      return "i16";
    case DType::kU32:
    case DType::kI32:
      return "i32";
    case DType::kU64:
    case DType::kI64:
      return "i64";
    case DType::kF16:
      return "half";
    case DType::kBF16:
      return "bfloat";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    default:
      Throw<InternalError>(ErrorCode::kInternal, "no IR type for {}", NameOf(dtype));
  }
}

std::string IrType(std::string_view element, int lanes) {
  return lanes == 1 ? std::string(element) : fmt::format("<{} x {}>", lanes, element);
}

namespace {

std::string Splat(std::string_view element, int lanes, std::string constant) {
  return lanes == 1 ? constant : fmt::format("splat ({} {})", element, constant);
}

}  // namespace

std::string IrConstant(std::string_view element, int lanes, double value) {
  // LLVM writes a float as the double of the same value.
  if (element == "float") value = static_cast<float>(value);
  return Splat(element, lanes, fmt::format("0x{:016X}", std::bit_cast<uint64_t>(value)));
}

std::string IrConstant(std::string_view element, int lanes, int64_t value) {
  return Splat(element, lanes, fmt::format("{}", value));
}

void IrText::BeginFunction(std::string_view signature) {
  text_ += fmt::format("define {} {{\n", signature);
  next_value_ = 0;
}

void IrText::EndFunction() { text_ += "}\n"; }

std::string IrText::Define(std::string_view text) {
  std::string name = fmt::format("%{}", next_value_++);
  text_ += fmt::format("  {} = {}\n", name, text);
  return name;
}

void IrText::Add(std::string_view line) { text_ += fmt::format("  {}\n", line); }

void IrText::Label(std::string_view name) { text_ += fmt::format("{}:\n", name); }

std::string IrText::NewName(std::string_view stem) {
  return fmt::format("{}{}", stem, next_name_++);
}

void IrText::Declare(std::string line) { declarations_.insert(std::move(line)); }

namespace {

/// "v16f32" in the name of an intrinsic.
std::string Suffix(std::string_view element, int lanes) {
  std::string_view name = element;
  if (element == "float") name = "f32";
  if (element == "double") name = "f64";
  if (element == "half") name = "f16";
  return lanes == 1 ? std::string(name) : fmt::format("v{}{}", lanes, name);
}

}  // namespace

std::string IrText::CallIntrinsic(std::string_view name, std::string_view element, int lanes,
                                  const std::string_view* values, size_t count) {
  std::string type = IrType(element, lanes);
  std::string types, arguments;
  for (size_t i = 0; i < count; ++i) {
    const char* comma = i ? ", " : "";
    types += comma + type;
    arguments += fmt::format("{}{} {}", comma, type, values[i]);
  }
  std::string function = fmt::format("{} @llvm.{}.{}", type, name, Suffix(element, lanes));
  Declare(fmt::format("declare {}({})", function, types));
  return Define(fmt::format("call {}({})", function, arguments));
}

std::string IrText::Lookup(std::span<const double> table, int lanes, std::string_view index) {
  std::string& name = tables_[table.data()];
  if (name.empty()) {
    name = fmt::format("@table{}", tables_.size());
    std::string line =
        fmt::format("{} = private unnamed_addr constant [{} x double] [", name, table.size());
    for (size_t i = 0; i < table.size(); ++i) {
      line += fmt::format("{}double {}", i ? ", " : "", IrConstant("double", 1, table[i]));
    }
    Declare(line + "], align 64");
  }
  std::string type = IrType("double", lanes);
  std::string at = Value("getelementptr double, ptr {}, {} {}", name, IrType("i64", lanes), index);
  if (lanes == 1) return Value("load double, ptr {}, align 8", at);
  std::string function = fmt::format("{} @llvm.masked.gather.v{}f64.v{}p0", type, lanes, lanes);
  Declare(fmt::format("declare {}(<{} x ptr>, i32, <{} x i1>, {})", function, lanes, lanes, type));
  return Value("call {}(<{} x ptr> {}, i32 8, <{} x i1> splat (i1 true), {} poison)", function,
               lanes, at, lanes, type);
}

std::string IrText::Lanes(std::string_view element, int from, std::string_view a,
                          std::string_view b, int first, int lanes) {
  std::string order;
  for (int i = 0; i < lanes; ++i) order += fmt::format("{}i32 {}", i ? ", " : "", first + i);
  std::string type = IrType(element, from);
  return Value("shufflevector {} {}, {} {}, <{} x i32> <{}>", type, a, type, b, lanes, order);
}

std::string IrText::Scale(std::string_view element, int lanes, std::string_view x,
                          std::string_view n) {
  const int whole = element == "float" ? 16 : 8;
  if (lanes == whole) return ScalePart(element, lanes, x, n);
  std::vector<std::string> parts;
  for (int first = 0; first < lanes; first += whole) {
    std::string part = Lanes(element, lanes, x, "poison", first, whole);
    std::string power = Lanes(element, lanes, n, "poison", first, whole);
    parts.push_back(ScalePart(element, whole, part, power));
  }
  for (int width = whole; parts.size() > 1; width *= 2) {
    std::vector<std::string> joined;
    for (size_t i = 0; i < parts.size(); i += 2) {
      joined.push_back(Lanes(element, width, parts[i], parts[i + 1], 0, 2 * width));
    }
    parts = std::move(joined);
  }
  return parts[0];
}

std::string IrText::ScalePart(std::string_view element, int lanes, std::string_view x,
                              std::string_view n) {
  std::string type = IrType(element, lanes);
  std::string function =
      fmt::format("{} @llvm.x86.avx512.mask.scalef.{}.512", type, element == "float" ? "ps" : "pd");
  Declare(fmt::format("declare {}({}, {}, {}, i{}, i32)", function, type, type, type, lanes));
  // No mask, rounded as everything else.
  return Value("call {}({} {}, {} {}, {} zeroinitializer, i{} -1, i32 4)", function, type, x, type,
               n, type, lanes);
}

std::string IrText::Module() const {
  std::string module = text_;
  for (const std::string& line : declarations_) module += line + "\n";
  return module;
}

}  // namespace hammock::compiler
