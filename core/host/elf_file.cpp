// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bounded ELF64 reader: header, program headers, dynamic section, its string table. All reads go through pread, so that a file that is
// truncated meanwhile causes an error instead of a signal.
#include "core/host/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/host/descriptor.h"

namespace heddle::host {
namespace {

constexpr uint32_t kMaxProgramHeaders = 256;
constexpr uint64_t kMaxDynamicBytes = 64 << 10;
constexpr uint64_t kMaxStringBytes = 4 << 20;
constexpr size_t kMaxNeeded = 512;
constexpr uint32_t kMaxSymbols = 1 << 20;

bool read_at(int descriptor, uint64_t offset, void* out, size_t size) {
  auto* bytes = static_cast<char*>(out);
  while (size > 0) {
    if (offset > INT64_MAX) return false;
    ssize_t count = pread(descriptor, bytes, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes += count;
    offset += static_cast<uint64_t>(count);
    size -= static_cast<size_t>(count);
  }
  return true;
}

// The offset in the file of `size` bytes of the image at `address`; false if no segment contains them.
bool file_offset(const std::vector<Elf64_Phdr>& headers, uint64_t address, uint64_t size, uint64_t* out_offset) {
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type != PT_LOAD || address < header.p_vaddr) continue;
    uint64_t inside = address - header.p_vaddr;
    if (inside > header.p_filesz || size > header.p_filesz - inside) continue;
    return !__builtin_add_overflow(header.p_offset, inside, out_offset);
  }
  return false;
}

// The text at `offset` of the string table; empty if it is out of range or not terminated.
std::string string_at(const std::string& table, uint64_t offset) {
  if (offset >= table.size()) return {};
  size_t end = table.find('\0', offset);
  return end == std::string::npos ? std::string() : table.substr(offset, end - offset);
}

// An empty text has no entries; an empty entry in a non-empty text is the current directory.
void split_path(const std::string& text, std::vector<std::string>* out) {
  for (size_t start = 0; !text.empty() && start <= text.size();) {
    size_t end = std::min(text.find(':', start), text.size());
    out->push_back(text.substr(start, end - start));
    start = end + 1;
  }
}

// Names of the defined symbols that DT_GNU_HASH lists, which are those that other libraries find. The table: counts of buckets, of unlisted
// symbols, of filter words; the filter; for each bucket its first symbol; for each listed symbol its hash, whose lowest bit marks the last one of a
// bucket (https://flapenguin.me/elf-dt-gnu-hash). A library without this table exports the symbols that DT_HASH counts.
class Exports {
 public:
  Exports(int descriptor, const std::vector<Elf64_Phdr>& headers, const std::string& names)
      : descriptor_(descriptor), headers_(headers), names_(names) {}

  std::string read(uint64_t gnu_hash, uint64_t hash, uint64_t symbols, std::vector<std::string>* out) {
    uint32_t first = 0, end = 0;
    if (gnu_hash != 0 ? !gnu_range(gnu_hash, &first, &end) : !range(hash, &end))
      return "its table of exported symbols is outside of the file";
    for (uint32_t i = first; i < end && out->size() < kMaxExports; ++i) {
      Elf64_Sym symbol;
      if (!at(symbols + uint64_t{i} * sizeof(symbol), &symbol)) return "its symbol table is outside of the file";
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
      if (symbol.st_shndx == SHN_ABS && symbol.st_value == 0)
        continue;  // the name of a symbol version, which linkers list among the symbols
      std::string name = string_at(names_, symbol.st_name);
      if (!name.empty()) out->push_back(std::move(name));
    }
    return {};
  }

 private:
  template <typename T>
  bool at(uint64_t address, T* out) const {
    uint64_t offset = 0;
    return file_offset(headers_, address, sizeof(T), &offset) && read_at(descriptor_, offset, out, sizeof(T));
  }

  bool range(uint64_t hash, uint32_t* out_end) const {
    uint32_t counts[2] = {};
    if (hash == 0) return true;  // it exports nothing
    if (!at(hash, &counts) || counts[1] > kMaxSymbols) return false;
    *out_end = counts[1];
    return true;
  }

  bool gnu_range(uint64_t hash, uint32_t* out_first, uint32_t* out_end) const {
    uint32_t counts[4] = {};  // buckets, unlisted symbols, filter words, filter shift
    if (!at(hash, &counts) || counts[0] > kMaxSymbols || counts[1] > kMaxSymbols || counts[2] > kMaxSymbols) return false;
    const uint64_t buckets = hash + sizeof(counts) + uint64_t{counts[2]} * sizeof(uint64_t);
    const uint64_t chains = buckets + uint64_t{counts[0]} * sizeof(uint32_t);
    uint32_t last = 0;
    for (uint32_t i = 0; i < counts[0]; ++i) {
      uint32_t first = 0;
      if (!at(buckets + uint64_t{i} * sizeof(first), &first)) return false;
      last = std::max(last, first);
    }
    *out_first = *out_end = counts[1];
    if (last < counts[1]) return true;  // every bucket is empty
    for (uint32_t value = 0; (value & 1) == 0; ++last) {
      if (last > kMaxSymbols || !at(chains + uint64_t{last - counts[1]} * sizeof(value), &value)) return false;
    }
    *out_end = last;
    return true;
  }

  const int descriptor_;
  const std::vector<Elf64_Phdr>& headers_;
  const std::string& names_;
};

std::string read_dynamic(int descriptor, const std::vector<Elf64_Phdr>& headers, ElfParts parts, ElfFile* out_file) {
  auto found = std::find_if(headers.begin(), headers.end(), [](const Elf64_Phdr& h) { return h.p_type == PT_DYNAMIC; });
  if (found == headers.end()) return "it has no dynamic section";
  if (found->p_filesz > kMaxDynamicBytes) return "its dynamic section is too large";
  std::vector<Elf64_Dyn> dynamic(found->p_filesz / sizeof(Elf64_Dyn));
  if (!read_at(descriptor, found->p_offset, dynamic.data(), dynamic.size() * sizeof(Elf64_Dyn))) return "its dynamic section is truncated";
  uint64_t table_address = 0, table_size = 0, symbols = 0, hash = 0, gnu_hash = 0, run_path = UINT64_MAX, old_path = UINT64_MAX;
  std::vector<uint64_t> needed;
  for (const Elf64_Dyn& entry : dynamic) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) table_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_SYMTAB) symbols = entry.d_un.d_ptr;
    if (entry.d_tag == DT_HASH) hash = entry.d_un.d_ptr;
    if (entry.d_tag == DT_GNU_HASH) gnu_hash = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) table_size = entry.d_un.d_val;
    if (entry.d_tag == DT_RUNPATH) run_path = entry.d_un.d_val;
    if (entry.d_tag == DT_RPATH) old_path = entry.d_un.d_val;
    if (entry.d_tag == DT_NEEDED && needed.size() < kMaxNeeded) needed.push_back(entry.d_un.d_val);
  }
  uint64_t offset = 0;
  if (table_size == 0 || table_size > kMaxStringBytes || !file_offset(headers, table_address, table_size, &offset)) {
    return "its string table is outside of the file";
  }
  std::string table(table_size, '\0');
  if (!read_at(descriptor, offset, table.data(), table.size())) return "its string table is truncated";
  for (uint64_t name : needed) {
    std::string soname = string_at(table, name);
    if (soname.empty()) return "the name of a needed library is outside of its string table";
    out_file->needed.push_back(std::move(soname));
  }
  const uint64_t path = run_path != UINT64_MAX ? run_path : old_path;
  if (path != UINT64_MAX) split_path(string_at(table, path), &out_file->run_path);
  if (parts == ElfParts::kNeeded) return {};
  return Exports(descriptor, headers, table).read(gnu_hash, hash, symbols, &out_file->exports);
}

}  // namespace

std::string read_elf_file(const std::string& path, ElfParts parts, ElfFile* out_file) {
  *out_file = {};
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return fmt::format("it cannot be opened: {}", std::strerror(errno));
  struct stat facts;
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return "it is not a regular file";
  Elf64_Ehdr header;
  if (!read_at(file.get(), 0, &header, sizeof(header))) return "it is too short for an ELF header";
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it is not an ELF file";
  out_file->elf_class = header.e_ident[EI_CLASS];
  out_file->machine = header.e_machine;  // at the same offset in both classes
  out_file->type = header.e_type;
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) return "it has the wrong byte order";
  if (parts == ElfParts::kHeaders || header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 || header.e_phnum > kMaxProgramHeaders) {
    return "its program headers have an unexpected size or number";
  }
  std::vector<Elf64_Phdr> headers(header.e_phnum);
  if (!read_at(file.get(), header.e_phoff, headers.data(), headers.size() * sizeof(Elf64_Phdr))) return "its program headers are truncated";
  return read_dynamic(file.get(), headers, parts, out_file);
}

std::string machine_name(uint32_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390x";
    default:
      return fmt::format("machine {}", machine);
  }
}

uint32_t own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#elif defined(__riscv)
  return EM_RISCV;
#else
  return EM_NONE;
#endif
}

}  // namespace heddle::host
