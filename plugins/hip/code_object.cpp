// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every offset is compared with the size of the file before it is used. A failed check throws the reason, which read_code_object catches.
#include "hip/code_object.h"

#include <elf.h>

#include <cstring>
#include <set>
#include <string_view>

namespace heddle::hip {
namespace {

struct Refusal {
  heddle_status_code_t code;
  std::string why;
};
[[noreturn]] void damaged(std::string why) {
  throw Refusal{HEDDLE_STATUS_DATA_LOSS, std::move(why)};
}
[[noreturn]] void unknown(std::string why) {
  throw Refusal{HEDDLE_STATUS_INVALID_ARGUMENT, std::move(why)};
}

struct Descriptor {  // of a kernel
  uint32_t shared_bytes, private_bytes, arguments_bytes, reserved0;
  int64_t entry;  // from the descriptor
  uint8_t reserved1[20];
  uint32_t registers[3];
  uint16_t properties, preload;
  uint8_t reserved2[4];
};
static_assert(sizeof(Descriptor) == 64);

constexpr uint16_t kAmdGpu = 224, kWave32 = 1 << 10;
constexpr uint8_t kHsa = 64, kVersion4 = 2, kVersion5 = 3;
constexpr uint32_t kMetadata = 32;  // NT_AMDGPU_METADATA
constexpr uint64_t kMostLoaded = uint64_t{1} << 32, kCodeAlignment = 256;

// EF_AMDGPU_MACH.
constexpr std::pair<uint32_t, const char*> kChips[] = {{0x3f, "gfx90a"}, {0x4c, "gfx942"}, {0x41, "gfx1100"}, {0x4e, "gfx1201"}};

// Bytes of the file, or of a part of it that `what` names.
struct Bytes {
  const char* start;
  uint64_t size;
  const char* what;

  Bytes part(uint64_t offset, uint64_t length, const char* its_name) const {
    if (offset > size || length > size - offset) {
      damaged(std::string(its_name) + " has " + std::to_string(length) + " bytes at " + std::to_string(offset) + ", which end after the " +
              std::to_string(size) + " bytes of " + what);
    }
    return {start + offset, length, its_name};
  }
  template <typename T>
  T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, part(offset, sizeof value, what).start, sizeof value);
    return value;
  }
  std::string_view text(uint64_t offset) const {
    const void* end = offset < size ? std::memchr(start + offset, 0, size - offset) : nullptr;
    if (!end) damaged(std::string(what) + " has no text at " + std::to_string(offset));
    return start + offset;
  }
};

// MessagePack, one value after the other.
class Values {
 public:
  explicit Values(Bytes bytes) : bytes_(bytes) {}

  struct Value {
    enum Kind { kOther, kNumber, kText, kList, kMap } kind = kOther;
    uint64_t number = 0;  // or the count of a list, or of pairs of a map
    std::string_view text;
  };
  Value next() {
    const uint8_t first = bytes_.at<uint8_t>(at_++);
    if (first < 0x80) return {Value::kNumber, first, {}};
    if (first < 0x90) return {Value::kMap, first & 15u, {}};
    if (first < 0xa0) return {Value::kList, first & 15u, {}};
    if (first < 0xc0) return text(first & 31u);
    if (first >= 0xe0 || first == 0xc0 || first == 0xc2 || first == 0xc3) return {};  // negative, nothing, a truth
    if (first == 0xc1) damaged("its metadata has a value of kind 193");
    const uint32_t width = 1u << (first & 3);  // of the number that follows, for most
    if (first < 0xc7) return skipped(number(1u << (first - 0xc4)));
    if (first < 0xca) return skipped(number(1u << (first - 0xc7)) + 1);
    if (first < 0xcc) return skipped(4u << (first - 0xca));
    if (first < 0xd0) return {Value::kNumber, number(width), {}};
    if (first < 0xd4) {  // signed
      const uint64_t value = number(width);
      return value >> (8 * width - 1) ? Value() : Value{Value::kNumber, value, {}};
    }
    if (first < 0xd9) return skipped((1u << (first - 0xd4)) + 1);
    if (first < 0xdc) return text(number(1u << (first - 0xd9)));
    return {first < 0xde ? Value::kList : Value::kMap, number(2u << (first & 1)), {}};
  }
  // Passes over the rest of a value, whose first part has been read.
  void skip(const Value& value) {
    uint64_t left = value.kind == Value::kList ? value.number : value.kind == Value::kMap ? 2 * value.number : 0;
    for (; left; --left) {
      const Value inner = next();
      if (inner.kind == Value::kList) left += inner.number;
      if (inner.kind == Value::kMap) left += 2 * inner.number;
    }
  }
  uint64_t count(const char* what, Value::Kind kind) {
    const Value value = next();
    if (value.kind != kind) damaged(std::string("its metadata has another kind of value where ") + what + " should be");
    return value.number;
  }
  // Calls `take` with each key of a map; it returns false for a value that it has not read.
  template <typename Take>
  void each(const char* what, const Take& take) {
    for (uint64_t left = count(what, Value::kMap); left; --left) {
      const Value key = next();
      if (key.kind != Value::kText) damaged("its metadata has a key that is no text");
      if (!take(key.text)) skip(next());
    }
  }
  bool read(uint64_t* out) {
    *out = count("a number", Value::kNumber);
    return true;
  }
  std::string_view read_text() {
    const Value value = next();
    if (value.kind != Value::kText) damaged("its metadata has another kind of value where a text should be");
    return value.text;
  }

 private:
  uint64_t number(uint32_t size) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < size; ++i) value = value << 8 | bytes_.at<uint8_t>(at_++);
    return value;
  }
  Value skipped(uint64_t size) {
    bytes_.part(at_, size, "a value of its metadata");
    at_ += size;
    return {};
  }
  Value text(uint64_t size) {
    const Bytes part = bytes_.part(at_, size, "a text of its metadata");
    at_ += size;
    return {Value::kText, 0, {part.start, part.size}};
  }

  Bytes bytes_;
  uint64_t at_ = 0;
};

KernelArgument read_argument(Values* values) {
  KernelArgument argument;
  argument.offset = UINT64_MAX;
  bool has_kind = false;
  values->each("an argument", [&](std::string_view key) {
    if (key == ".offset") return values->read(&argument.offset);
    if (key == ".size") return values->read(&argument.size);
    if (key != ".value_kind") return false;
    has_kind = true;
    argument.is_hidden = values->read_text().starts_with("hidden_");
    return true;
  });
  if (!has_kind || argument.size == 0 || argument.offset == UINT64_MAX) damaged("its metadata does not state all of an argument");
  return argument;
}

KernelFacts read_kernel(Values* values, std::string* out_name, std::string* out_symbol) {
  KernelFacts kernel;
  uint64_t unused = 0;
  const std::pair<std::string_view, uint64_t*> numbers[] = {{".group_segment_fixed_size", &kernel.shared_bytes},
                                                            {".private_segment_fixed_size", &kernel.private_bytes},
                                                            {".kernarg_segment_size", &kernel.arguments_bytes},
                                                            {".wavefront_size", &kernel.wave_size},
                                                            {".max_flat_workgroup_size", &kernel.most_threads},
                                                            {".kernarg_segment_align", &unused},
                                                            {".sgpr_count", &unused},
                                                            {".vgpr_count", &unused}};
  std::set<std::string_view> seen;
  values->each("a kernel", [&](std::string_view key) {
    for (const auto& [name, out] : numbers)
      if (key == name && seen.insert(key).second) return values->read(out);
    if (key == ".name") {
      *out_name = values->read_text();
    } else if (key == ".symbol") {
      *out_symbol = values->read_text();
    } else if (key == ".reqd_workgroup_size") {
      if (values->count("the size of a workgroup", Values::Value::kList) != 3) damaged("its metadata has a workgroup without 3 sizes");
      for (uint64_t& threads : kernel.exact_threads) values->read(&threads);
    } else if (key == ".args") {
      for (uint64_t left = values->count("the arguments", Values::Value::kList); left; --left)
        kernel.arguments.push_back(read_argument(values));
    } else {
      return false;
    }
    return true;
  });
  if (seen.size() < std::size(numbers)) damaged("its metadata does not state all sizes of kernel '" + *out_name + "'");
  return kernel;
}

class File {
 public:
  File(const void* bytes, uint64_t size) : file_{static_cast<const char*>(bytes), size, "the file"}, header_(read_header()) {}

  void read(CodeObject* out) {
    out->chip = chip();
    check_sections();
    const Bytes metadata = find_metadata();
    Values values(metadata);
    int seen = 0;
    values.each("the metadata", [&](std::string_view key) {
      if (key == "amdhsa.target") {
        ++seen;
        const std::string_view target = values.read_text();
        const std::string wanted = "amdgcn-amd-amdhsa--" + out->chip;
        if (!target.starts_with(wanted) || (target.size() > wanted.size() && target[wanted.size()] != ':')) {
          damaged("its metadata is for '" + std::string(target.substr(0, 80)) + "', its header for " + out->chip);
        }
        return true;
      }
      if (key != "amdhsa.kernels") return false;
      ++seen;
      for (uint64_t left = values.count("the kernels", Values::Value::kList); left; --left) {
        std::string name, symbol;
        const KernelFacts kernel = read_kernel(&values, &name, &symbol);
        check_descriptor(name, symbol, kernel);
        if (!out->kernels.emplace(name, kernel).second) damaged("its metadata describes kernel '" + name + "' twice");
      }
      return true;
    });
    if (seen != 2) damaged("its metadata has no target, or no kernels");
  }

 private:
  Elf64_Ehdr read_header() const {
    if (file_.size < sizeof(Elf64_Ehdr)) damaged("its code is shorter than an ELF header");
    const auto header = file_.at<Elf64_Ehdr>(0);
    const unsigned char* identity = header.e_ident;
    if (std::memcmp(identity, "\177ELF\2\1", 6) != 0 || header.e_machine != kAmdGpu || identity[7] != kHsa || header.e_type != ET_DYN) {
      unknown("its code is not a 64-bit ELF shared object for AMD's HSA");
    }
    if (identity[8] != kVersion4 && identity[8] != kVersion5) {
      unknown("its code object is of version " + std::to_string(identity[8] + 2) + ", and 4 and 5 are supported");
    }
    if (header.e_shnum == 0 || header.e_shnum >= SHN_LORESERVE || header.e_phnum >= SHN_LORESERVE || header.e_shstrndx >= header.e_shnum ||
        header.e_shentsize != sizeof(Elf64_Shdr) || (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))) {
      damaged("the header of its code has " + std::to_string(header.e_shnum) + " sections of " + std::to_string(header.e_shentsize) +
              " bytes, with names in section " + std::to_string(header.e_shstrndx) + ", and " + std::to_string(header.e_phnum) +
              " segments of " + std::to_string(header.e_phentsize) + " bytes");
    }
    return header;
  }

  std::string chip() const {
    for (const auto& [machine, name] : kChips)
      if ((header_.e_flags & 0xff) == machine) return name;
    unknown("its code is for the chip with number " + std::to_string(header_.e_flags & 0xff) + ", which is none that code is made for");
  }

  Elf64_Shdr section(uint32_t index) const {
    return file_.part(header_.e_shoff, uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr), "the table of sections")
        .at<Elf64_Shdr>(uint64_t{index} * sizeof(Elf64_Shdr));
  }
  Elf64_Phdr segment(uint32_t index) const {
    return file_.part(header_.e_phoff, uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr), "the table of segments")
        .at<Elf64_Phdr>(uint64_t{index} * sizeof(Elf64_Phdr));
  }
  Bytes contents(const Elf64_Shdr& of, const char* what) const { return file_.part(of.sh_offset, of.sh_size, what); }

  // Also finds the symbols that a loader sees.
  void check_sections() {
    const Bytes section_names = contents(section(header_.e_shstrndx), "the names of its sections");
    bool has_strings = false;
    uint64_t end = 0;
    for (uint32_t i = 0; i < header_.e_shnum; ++i) {
      const Elf64_Shdr found = section(i);
      const uint64_t size = found.sh_type == SHT_NOBITS ? 0 : found.sh_size;
      if (found.sh_offset < end || found.sh_offset > header_.e_shoff || size > header_.e_shoff - found.sh_offset) {
        damaged("section " + std::to_string(i) + " does not lie between the one before it and the table of sections, as HIP 5 expects");
      }
      end = found.sh_offset + size;
      has_strings |= section_names.text(found.sh_name) == ".strtab";
      if (found.sh_type != SHT_DYNSYM && found.sh_type != SHT_SYMTAB) continue;
      if (found.sh_link >= header_.e_shnum) damaged("its symbols have names in section " + std::to_string(found.sh_link));
      const Bytes symbols = contents(found, "its symbols"), names = contents(section(found.sh_link), "the names of its symbols");
      if (found.sh_entsize != sizeof(Elf64_Sym) || symbols.size % sizeof(Elf64_Sym) != 0) {
        damaged("its symbols have " + std::to_string(symbols.size) + " bytes in entries of " + std::to_string(found.sh_entsize));
      }
      for (uint64_t at = 0; at < symbols.size; at += sizeof(Elf64_Sym)) {
        const auto symbol = symbols.at<Elf64_Sym>(at);
        const std::string name(names.text(symbol.st_name));
        if (at == 0 || found.sh_type == SHT_SYMTAB) continue;  // no symbol, or one for debuggers
        if (symbol.st_shndx == 0) unknown("it needs '" + name + "' of another file");
        symbols_[name] = symbol.st_value;
      }
    }
    if (!has_strings) unknown("it has no section .strtab, as if it were stripped, and HIP 5 crashes when it loads such code");
  }

  Bytes find_metadata() const {
    Bytes metadata = {nullptr, 0, "its metadata"};
    for (uint32_t i = 0; i < header_.e_phnum; ++i) {
      const Elf64_Phdr found = segment(i);
      if (found.p_type != PT_LOAD && found.p_type != PT_NOTE) continue;
      const Bytes bytes = file_.part(found.p_offset, found.p_filesz, "a segment");
      if (found.p_filesz > found.p_memsz || found.p_memsz > kMostLoaded || found.p_vaddr > kMostLoaded) {
        damaged("a segment has " + std::to_string(found.p_filesz) + " bytes in the file and " + std::to_string(found.p_memsz) +
                " at address " + std::to_string(found.p_vaddr));
      }
      if (found.p_type == PT_LOAD) continue;
      for (uint64_t at = 0; at < bytes.size;) {
        const uint64_t name_bytes = bytes.at<uint32_t>(at), value_bytes = bytes.at<uint32_t>(at + 4);
        const uint64_t name_at = at + 12, value_at = name_at + (name_bytes + 3) / 4 * 4;
        const Bytes value = bytes.part(value_at, value_bytes, "a note");
        const bool is_amd = name_bytes == 7 && std::memcmp(bytes.part(name_at, 7, "the name of a note").start, "AMDGPU", 7) == 0;
        if (is_amd && bytes.at<uint32_t>(at + 8) == kMetadata) {
          if (metadata.start) damaged("it has two notes with metadata");
          metadata = value;
        }
        at = value_at + (value_bytes + 3) / 4 * 4;
      }
    }
    if (!metadata.start) damaged("it has no metadata");
    return metadata;
  }

  // The bytes of the file that are loaded at an address.
  Bytes loaded(uint64_t address, uint64_t size, const char* what) const {
    for (uint32_t i = 0; i < header_.e_phnum; ++i) {
      const Elf64_Phdr found = segment(i);
      if (found.p_type == PT_LOAD && address >= found.p_vaddr && address - found.p_vaddr < found.p_filesz) {
        return file_.part(found.p_offset, found.p_filesz, "a segment").part(address - found.p_vaddr, size, what);
      }
    }
    damaged(std::string(what) + " is at address " + std::to_string(address) + ", where nothing is loaded");
  }

  void check_descriptor(const std::string& name, const std::string& symbol, const KernelFacts& kernel) const {
    const auto found = symbols_.find(symbol);
    if (found == symbols_.end()) damaged("the descriptor of kernel '" + name + "' is missing");
    const auto descriptor = loaded(found->second, sizeof(Descriptor), "the descriptor of a kernel").at<Descriptor>(0);
    const uint64_t entry = found->second + static_cast<uint64_t>(descriptor.entry);
    if (entry % kCodeAlignment != 0) damaged("the code of kernel '" + name + "' starts at address " + std::to_string(entry));
    loaded(entry, 4, "the code of a kernel");
    struct Pair {
      const char* what;
      uint64_t described, stated;
    };
    for (const Pair& pair : {Pair{"bytes of local memory", descriptor.shared_bytes, kernel.shared_bytes},
                             Pair{"bytes of private memory", descriptor.private_bytes, kernel.private_bytes},
                             Pair{"bytes of arguments", descriptor.arguments_bytes, kernel.arguments_bytes},
                             Pair{"threads in a wave", descriptor.properties & kWave32 ? 32u : 64u, kernel.wave_size}}) {
      if (pair.described != pair.stated)
        damaged("kernel '" + name + "' has " + std::to_string(pair.described) + " " + pair.what + " by its descriptor, and " +
                std::to_string(pair.stated) + " by its metadata");
    }
    for (const KernelArgument& argument : kernel.arguments) {
      if (argument.size > kernel.arguments_bytes || argument.offset > kernel.arguments_bytes - argument.size) {
        damaged("an argument of kernel '" + name + "' ends after its " + std::to_string(kernel.arguments_bytes) + " bytes of arguments");
      }
    }
  }

  const Bytes file_;
  const Elf64_Ehdr header_;
  std::map<std::string, uint64_t, std::less<>> symbols_;
};

}  // namespace

heddle_status_code_t read_code_object(const void* bytes, uint64_t size, CodeObject* out, std::string* out_reason) {
  try {
    File(bytes, size).read(out);
    return HEDDLE_STATUS_OK;
  } catch (const Refusal& refusal) {
    *out_reason = refusal.why;
    return refusal.code;
  }
}

}  // namespace heddle::hip
