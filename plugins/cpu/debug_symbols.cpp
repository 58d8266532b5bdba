// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gdb's JIT interface as described in its manual ("JIT Compilation Interface"), and perf's map files (Linux, tools/perf's
// jit-interface.txt). Knows no device and no host.
#include "cpu/debug_symbols.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/sdk/own_file.h"

// gdb finds these two by name and reads their layout: gdb defines both.
extern "C" {
struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};
struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;  // 0 nothing, 1 registered, 2 unregistered
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};
__attribute__((used)) jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
// gdb sets a breakpoint here.
__attribute__((noinline, used)) void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
}

namespace heddle::cpu {

namespace {

std::mutex& jit_lock() {
  static std::mutex* lock = new std::mutex();  // never destroyed: images may be unloaded late
  return *lock;
}

// A section name table; the numbers in make_symbol_file() are offsets into it.
constexpr char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";

// An ELF file with a .text at the address of the image's code, and a symbol per function.
std::vector<char> make_symbol_file(const Image& image) {
  std::vector<Elf64_Sym> symbols(1);
  std::string names(1, '\0');
  uint64_t lowest = UINT64_MAX, highest = 0;
  image.each_function([&](const Image::Function& function) {
    lowest = std::min(lowest, function.address);
    highest = std::max(highest, function.address + std::max<uint64_t>(function.size, 1));
  });
  if (lowest >= highest) return {};
  image.each_function([&](const Image::Function& function) {
    Elf64_Sym symbol = {};
    symbol.st_name = static_cast<Elf64_Word>(names.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = 1;
    symbol.st_value = function.address;
    symbol.st_size = function.size;
    symbols.push_back(symbol);
    names.append(function.name).push_back('\0');
  });
  const uint64_t symbols_at = sizeof(Elf64_Ehdr), names_at = symbols_at + symbols.size() * sizeof(Elf64_Sym);
  const uint64_t sections_at = (names_at + names.size() + sizeof section_names + 7) / 8 * 8;
  std::vector<char> file(sections_at + 5 * sizeof(Elf64_Shdr));

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = sections_at;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 5;
  header.e_shstrndx = 4;
  Elf64_Shdr sections[5] = {};
  sections[1] = {1, SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, lowest, symbols_at, highest - lowest, 0, 0, 16, 0};
  sections[2] = {7, SHT_SYMTAB, 0, 0, symbols_at, symbols.size() * sizeof(Elf64_Sym), 3, 1, 8, sizeof(Elf64_Sym)};
  sections[3] = {15, SHT_STRTAB, 0, 0, names_at, names.size(), 0, 0, 1, 0};
  sections[4] = {23, SHT_STRTAB, 0, 0, names_at + names.size(), sizeof section_names, 0, 0, 1, 0};
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + symbols_at, symbols.data(), symbols.size() * sizeof(Elf64_Sym));
  std::memcpy(file.data() + names_at, names.data(), names.size());
  std::memcpy(file.data() + names_at + names.size(), section_names, sizeof section_names);
  std::memcpy(file.data() + sections_at, sections, sizeof sections);
  return file;
}

}  // namespace

struct DebuggerSymbols::Registration {
  std::vector<char> file;
  jit_code_entry entry = {};

  explicit Registration(std::vector<char> bytes) : file(std::move(bytes)) {
    entry.symfile_addr = file.data();
    entry.symfile_size = file.size();
    std::lock_guard lock(jit_lock());
    entry.next_entry = __jit_debug_descriptor.first_entry;
    if (entry.next_entry) entry.next_entry->prev_entry = &entry;
    __jit_debug_descriptor.first_entry = &entry;
    tell(1);
  }
  ~Registration() {
    std::lock_guard lock(jit_lock());
    (entry.prev_entry ? entry.prev_entry->next_entry : __jit_debug_descriptor.first_entry) = entry.next_entry;
    if (entry.next_entry) entry.next_entry->prev_entry = entry.prev_entry;
    tell(2);
  }
  void tell(uint32_t action) {
    __jit_debug_descriptor.relevant_entry = &entry;
    __jit_debug_descriptor.action_flag = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action_flag = 0;
    __jit_debug_descriptor.relevant_entry = nullptr;
  }
};

DebuggerSymbols::DebuggerSymbols() noexcept = default;
DebuggerSymbols::~DebuggerSymbols() = default;
DebuggerSymbols::DebuggerSymbols(DebuggerSymbols&&) noexcept = default;
DebuggerSymbols& DebuggerSymbols::operator=(DebuggerSymbols&&) noexcept = default;

DebuggerSymbols::DebuggerSymbols(const Image& image) {
  std::vector<char> file = make_symbol_file(image);
  if (!file.empty()) registration_ = std::make_unique<Registration>(std::move(file));
}

bool add_to_perf_map(const Image& image, std::string_view executable) {
  std::string lines;
  image.each_function([&](const Image::Function& function) {
    char place[40];
    const int size = std::snprintf(place, sizeof place, "%llx %llx ", static_cast<unsigned long long>(function.address),
                                   static_cast<unsigned long long>(function.size));
    lines.append(place, static_cast<size_t>(size));
    // one line each, for any content of the name
    for (std::string_view part : {executable, std::string_view("::"), function.name}) {
      for (char c : part) lines.push_back(static_cast<unsigned char>(c) < ' ' ? '?' : c);
    }
    lines.push_back('\n');
  });
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  const int file = sdk::open_own_file(path.c_str(), O_APPEND, 0600);
  if (file < 0) return false;
  const bool written = write(file, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
  close(file);
  return written;
}

}  // namespace heddle::cpu
