// LinkObject: a linker for one x86-64 object that refers to nothing but itself.

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "backends/cpu/code/native_code.h"
#include "base/throw.h"

namespace hammock::cpu {

namespace {

constexpr uint64_t kNowhere = UINT64_MAX;   // a section that is not in the image
constexpr uint64_t kConstantAlign = 64;     // a cache line, and the widest vector
constexpr uint64_t kMaxAlign = 4096;        // images begin at a page
constexpr uint64_t kMaxImage = 256u << 20;  // far inside what 32-bit distances reach

template <class... Args>
[[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) {
  Throw<CompileError>(ErrorCode::kCompile, "cpu: object code: {}",
                      fmt::format(format, std::forward<Args>(args)...));
}

/// The object's bytes, read with every bound checked: they may come from anywhere.
class Object {
 public:
  explicit Object(std::string_view bytes);

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view SectionName(const Elf64_Shdr& section) const {
    return Text(sections_[names_], section.sh_name);
  }
  std::string_view BytesOf(const Elf64_Shdr& section) const {
    return Range(section.sh_offset, section.sh_size);
  }
  template <class T>
  std::vector<T> Table(const Elf64_Shdr& section) const {
    std::string_view bytes = BytesOf(section);
    std::vector<T> rows(bytes.size() / sizeof(T));
    if (!rows.empty()) std::memcpy(rows.data(), bytes.data(), rows.size() * sizeof(T));
    return rows;
  }
  const Elf64_Shdr& Section(uint64_t index) const {
    if (index >= sections_.size()) Refuse("no section {}", index);
    return sections_[index];
  }
  std::string_view Text(const Elf64_Shdr& table, uint64_t at) const {
    std::string_view texts = BytesOf(table);
    if (at >= texts.size()) Refuse("a name lies outside");
    return texts.substr(at, texts.find('\0', at) - at);
  }

 private:
  std::string_view Range(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) Refuse("it ends too early");
    return bytes_.substr(offset, size);
  }

  std::string_view bytes_;
  std::vector<Elf64_Shdr> sections_;
  uint64_t names_ = 0;
};

Object::Object(std::string_view bytes) : bytes_(bytes) {
  Elf64_Ehdr header;
  std::memcpy(&header, Range(0, sizeof(header)).data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) Refuse("it is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_type != ET_REL || header.e_machine != EM_X86_64) {
    Refuse("it is no x86-64 object");
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr)) Refuse("its sections have another form");
  std::string_view table = Range(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  sections_.resize(header.e_shnum);
  if (!sections_.empty()) std::memcpy(sections_.data(), table.data(), table.size());
  names_ = header.e_shstrndx;
  Section(names_);
}

class Linker {
 public:
  explicit Linker(std::string_view bytes) : object_(bytes) {}

  CodeBlob Run() {
    Place();
    ReadSymbols();
    for (const Elf64_Shdr& section : object_.sections()) {
      if (section.sh_type == SHT_RELA) Relocate(section);
    }
    RefuseMissing();
    std::vector<CodeSymbol> functions = Functions();
    return {std::move(image_), std::move(functions)};
  }

 private:
  void Place();
  void Append(size_t index);
  void ReadSymbols();
  void Relocate(const Elf64_Shdr& table);
  void Apply(const Elf64_Rela& entry, const Elf64_Shdr& section, uint64_t offset);
  void Relax(uint64_t offset, uint64_t section_begin, int64_t distance, std::string_view name);
  void Store(uint64_t offset, int64_t value, int bytes);
  void RefuseMissing() const;
  std::vector<CodeSymbol> Functions() const;

  std::string_view NameOf(const Elf64_Sym& symbol) const {
    return object_.Text(object_.Section(strings_), symbol.st_name);
  }
  /// In the image, or kNowhere.
  uint64_t AddressOf(const Elf64_Sym& symbol) const {
    if (symbol.st_shndx >= starts_.size() || starts_[symbol.st_shndx] == kNowhere) return kNowhere;
    if (symbol.st_value > object_.Section(symbol.st_shndx).sh_size) return kNowhere;
    return starts_[symbol.st_shndx] + symbol.st_value;
  }

  Object object_;
  std::string image_;
  std::vector<uint64_t> starts_;  // of each section in the image
  std::vector<Elf64_Sym> symbols_;
  uint64_t strings_ = 0;
  std::set<std::string> missing_;
};

/// Code first, then constants.
void Linker::Place() {
  starts_.assign(object_.sections().size(), kNowhere);
  for (bool code : {true, false}) {
    for (size_t i = 0; i < starts_.size(); ++i) {
      const Elf64_Shdr& section = object_.sections()[i];
      if (!(section.sh_flags & SHF_ALLOC) || section.sh_size == 0) continue;
      std::string_view name = object_.SectionName(section);
      if (name.starts_with(".eh_frame") || section.sh_type == SHT_NOTE) continue;
      if (section.sh_flags & (SHF_WRITE | SHF_TLS) || section.sh_type != SHT_PROGBITS) {
        Refuse(
            "section {} holds {} bytes that can be written or that need absolute addresses; "
            "code may have constants only",
            name, section.sh_size);
      }
      if (((section.sh_flags & SHF_EXECINSTR) != 0) == code) Append(i);
    }
    if (code && image_.empty()) Refuse("it has no code");
  }
}

void Linker::Append(size_t index) {
  const Elf64_Shdr& section = object_.sections()[index];
  uint64_t align = std::max<uint64_t>(section.sh_addralign, 1);
  if ((align & (align - 1)) != 0 || align > kMaxAlign) Refuse("an alignment of {}", align);
  if (!(section.sh_flags & SHF_EXECINSTR)) align = std::max(align, kConstantAlign);
  std::string_view bytes = object_.BytesOf(section);
  if (image_.size() + align + bytes.size() > kMaxImage) Refuse("it is too large");
  image_.resize((image_.size() + align - 1) / align * align);
  starts_[index] = image_.size();
  image_ += bytes;
}

void Linker::ReadSymbols() {
  for (const Elf64_Shdr& section : object_.sections()) {
    if (section.sh_type != SHT_SYMTAB) continue;
    symbols_ = object_.Table<Elf64_Sym>(section);
    strings_ = section.sh_link;
    object_.Section(strings_);
    return;
  }
}

void Linker::Relocate(const Elf64_Shdr& table) {
  const Elf64_Shdr& section = object_.Section(table.sh_info);
  uint64_t start = starts_[table.sh_info];
  if (start == kNowhere) return;
  for (const Elf64_Rela& entry : object_.Table<Elf64_Rela>(table)) {
    uint64_t width = ELF64_R_TYPE(entry.r_info) == R_X86_64_PC64 ? 8 : 4;
    if (entry.r_offset > section.sh_size || section.sh_size - entry.r_offset < width) {
      Refuse("a place to patch lies outside");
    }
    Apply(entry, section, start + entry.r_offset);
  }
}

void Linker::Apply(const Elf64_Rela& entry, const Elf64_Shdr& section, uint64_t offset) {
  uint64_t index = ELF64_R_SYM(entry.r_info);
  uint64_t type = ELF64_R_TYPE(entry.r_info);
  if (type == R_X86_64_NONE) return;
  if (index >= symbols_.size()) Refuse("no symbol {}", index);
  const Elf64_Sym& symbol = symbols_[index];
  std::string_view name = NameOf(symbol);
  if (symbol.st_shndx == SHN_UNDEF) {
    missing_.emplace(name);
    return;
  }
  uint64_t target = AddressOf(symbol);
  if (target == kNowhere) Refuse("'{}' lies in no section that is kept", name);
  // Wraps around for nonsense in the object; `Store` refuses what does not fit.
  auto distance = static_cast<int64_t>(target + static_cast<uint64_t>(entry.r_addend) - offset);
  switch (type) {
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      return Store(offset, distance, 4);
    case R_X86_64_PC64:
      return Store(offset, distance, 8);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return Relax(offset, offset - entry.r_offset, distance, name);
    case R_X86_64_64:
    case R_X86_64_32:
    case R_X86_64_32S:
      Refuse("section {} holds the absolute address of '{}'", object_.SectionName(section), name);
    default:
      Refuse("relocation of type {} for '{}'", type, name);
  }
}

// An instruction that reads an address from a table becomes one that has the address: there is no
// table, since it would hold absolute addresses.
void Linker::Relax(uint64_t offset, uint64_t section_begin, int64_t distance,
                   std::string_view name) {
  constexpr unsigned char kLoad = 0x8b, kAddress = 0x8d, kIndirect = 0xff, kNop = 0x90;
  constexpr unsigned char kCallModrm = 0x15, kJumpModrm = 0x25;
  auto byte = [this](uint64_t at) -> unsigned char& {
    return reinterpret_cast<unsigned char&>(image_[at]);
  };
  if (offset < section_begin + 2) Refuse("no instruction before the address of '{}'", name);
  unsigned char opcode = byte(offset - 2), modrm = byte(offset - 1);
  if (opcode == kLoad && (modrm & 0xc7) == 0x05) {
    byte(offset - 2) = kAddress;
    Store(offset, distance, 4);
  } else if (opcode == kIndirect && modrm == kCallModrm) {
    byte(offset - 2) = 0x67;  // a prefix without effect, to fill six bytes
    byte(offset - 1) = 0xe8;
    Store(offset, distance, 4);
  } else if (opcode == kIndirect && modrm == kJumpModrm) {
    byte(offset - 2) = 0xe9;
    Store(offset - 1, static_cast<int64_t>(static_cast<uint64_t>(distance) + 1), 4);
    byte(offset + 3) = kNop;
  } else {
    Refuse("an instruction ({:02x} {:02x}) needs the absolute address of '{}'", opcode, modrm,
           name);
  }
}

void Linker::Store(uint64_t offset, int64_t value, int bytes) {
  if (bytes == 4 && value != static_cast<int32_t>(value)) Refuse("a distance of {}", value);
  for (int i = 0; i < bytes; ++i) image_[offset + i] = static_cast<char>(value >> (8 * i));
}

void Linker::RefuseMissing() const {
  if (missing_.empty()) return;
  std::string names;
  for (const std::string& name : missing_) names += (names.empty() ? "" : ", ") + name;
  Refuse("it uses what is not in it: {}", names);
}

std::vector<CodeSymbol> Linker::Functions() const {
  std::vector<CodeSymbol> functions;
  for (const Elf64_Sym& symbol : symbols_) {
    uint64_t address = AddressOf(symbol);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
        address == kNowhere || address >= image_.size()) {
      continue;
    }
    uint64_t size = std::min<uint64_t>(symbol.st_size, image_.size() - address);
    functions.push_back({std::string(NameOf(symbol)), address, size});
  }
  std::sort(functions.begin(), functions.end(),
            [](const CodeSymbol& a, const CodeSymbol& b) { return a.name < b.name; });
  return functions;
}

}  // namespace

CodeBlob LinkObject(std::string_view object) { return Linker(object).Run(); }

}  // namespace hammock::cpu
