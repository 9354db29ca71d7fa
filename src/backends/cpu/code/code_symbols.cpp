#include "backends/cpu/code/code_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "base/tools.h"

// gdb stops at this function and reads this list; it knows both by name and form.
extern "C" {

struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};

struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};

[[gnu::noinline, gnu::used]] void __jit_debug_register_code() { asm volatile("" ::: "memory"); }
[[gnu::used]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
}

namespace hammock::cpu {

namespace {

enum GdbAction : uint32_t { kNoAction, kRegister, kUnregister };

std::mutex& GdbMutex() {
  static auto& mutex = NeverDestroyed<std::mutex>();
  return mutex;
}

void TellGdb(GdbAction action, jit_code_entry* entry) {
  __jit_debug_descriptor.relevant_entry = entry;
  __jit_debug_descriptor.action_flag = action;
  __jit_debug_register_code();
  __jit_debug_descriptor.action_flag = kNoAction;
  __jit_debug_descriptor.relevant_entry = nullptr;
}

/// An ELF object with nothing but the names and addresses of functions.
std::string MakeSymbolFile(const char* memory, const std::vector<CodeSymbol>& symbols) {
  enum { kNone, kText, kSymbols, kStrings, kSectionCount };
  static constexpr char kNames[] = "\0.text\0.symtab\0.strtab";
  std::string names(kNames, sizeof(kNames));
  std::vector<Elf64_Sym> table(1);
  uint64_t end = 0;
  for (const CodeSymbol& symbol : symbols) {
    table.push_back({.st_name = static_cast<Elf64_Word>(names.size()),
                     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                     .st_other = STV_DEFAULT,
                     .st_shndx = kText,
                     .st_value = symbol.offset,
                     .st_size = symbol.size});
    names += symbol.name + '\0';
    end = std::max(end, symbol.offset + symbol.size);
  }
  uint64_t table_size = table.size() * sizeof(Elf64_Sym);
  uint64_t table_at = sizeof(Elf64_Ehdr) + kSectionCount * sizeof(Elf64_Shdr);
  Elf64_Shdr sections[kSectionCount] = {};
  sections[kText] = {.sh_name = 1,
                     .sh_type = SHT_NOBITS,
                     .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                     .sh_addr = reinterpret_cast<uint64_t>(memory),
                     .sh_offset = 0,
                     .sh_size = end,
                     .sh_link = 0,
                     .sh_info = 0,
                     .sh_addralign = 16,
                     .sh_entsize = 0};
  sections[kSymbols] = {.sh_name = 7,
                        .sh_type = SHT_SYMTAB,
                        .sh_flags = 0,
                        .sh_addr = 0,
                        .sh_offset = table_at,
                        .sh_size = table_size,
                        .sh_link = kStrings,
                        .sh_info = 1,
                        .sh_addralign = 8,
                        .sh_entsize = sizeof(Elf64_Sym)};
  sections[kStrings] = {.sh_name = 15,
                        .sh_type = SHT_STRTAB,
                        .sh_flags = 0,
                        .sh_addr = 0,
                        .sh_offset = table_at + table_size,
                        .sh_size = names.size(),
                        .sh_link = 0,
                        .sh_info = 0,
                        .sh_addralign = 1,
                        .sh_entsize = 0};
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = sizeof(Elf64_Ehdr);
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSectionCount;
  header.e_shstrndx = kStrings;
  auto bytes = [](const auto* data, size_t size) {
    return std::string_view(reinterpret_cast<const char*>(data), size);
  };
  std::string file;
  file += bytes(&header, sizeof(header));
  file += bytes(sections, sizeof(sections));
  file += bytes(table.data(), table_size);
  file += names;
  return file;
}

struct GdbCode {
  jit_code_entry entry = {};
  std::string file;
};

GdbCode* AnnounceToGdb(const char* memory, const std::vector<CodeSymbol>& symbols) {
  auto code = std::make_unique<GdbCode>();
  code->file = MakeSymbolFile(memory, symbols);
  jit_code_entry& entry = code->entry;
  entry.symfile_addr = code->file.data();
  entry.symfile_size = code->file.size();
  std::lock_guard lock(GdbMutex());
  entry.next_entry = __jit_debug_descriptor.first_entry;
  if (entry.next_entry) entry.next_entry->prev_entry = &entry;
  __jit_debug_descriptor.first_entry = &entry;
  TellGdb(kRegister, &entry);
  return code.release();
}

// The name can be guessed and /tmp is everyone's: no link is followed, no other's file is used.
void WritePerfMap(const char* memory, const std::vector<CodeSymbol>& symbols) {
  std::string path = fmt::format("/tmp/perf-{}.map", getpid());
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info;
  if (!file || fstat(file.number(), &info) != 0 || info.st_uid != geteuid() ||
      !S_ISREG(info.st_mode)) {
    LogOnce("perf map", LogLevel::kWarn, "tools: {} cannot be written: {}", path,
            !file ? std::strerror(errno) : "it is no file of this user");
    return;
  }
  std::string lines;
  for (const CodeSymbol& symbol : symbols) {
    auto address = reinterpret_cast<uintptr_t>(memory) + symbol.offset;
    lines += fmt::format("{:x} {:x} {}\n", address, symbol.size, symbol.name);
  }
  if (!WriteAll(file.number(), lines)) {
    LogOnce("perf map", LogLevel::kWarn, "tools: {}: {}", path, std::strerror(errno));
  }
}

}  // namespace

void* AnnounceCode(const char* memory, const std::vector<CodeSymbol>& symbols) noexcept {
  try {
    if (tools::IsOn(tools::kPerf)) WritePerfMap(memory, symbols);
    if (tools::IsOn(tools::kGdb)) return AnnounceToGdb(memory, symbols);
  } catch (const std::exception& error) {
    Log(LogLevel::kWarn, "cpu: tools do not see new code: {}", error.what());
  }
  return nullptr;
}

void ForgetCode(void* announced) noexcept {
  if (!announced) return;
  std::unique_ptr<GdbCode> code(static_cast<GdbCode*>(announced));
  jit_code_entry& entry = code->entry;
  std::lock_guard lock(GdbMutex());
  (entry.prev_entry ? entry.prev_entry->next_entry : __jit_debug_descriptor.first_entry) =
      entry.next_entry;
  if (entry.next_entry) entry.next_entry->prev_entry = entry.prev_entry;
  TellGdb(kUnregister, &entry);
}

}  // namespace hammock::cpu
