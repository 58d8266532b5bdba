// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads an ELF image: every header, offset and count is checked against its target before it is used. Addresses of the image are offsets from
// its lowest page; checked ones are all below kMaxSpanBytes, so that sums cannot wrap.
#include "cpu/image.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace heddle::cpu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kMaxSegments = 64;
constexpr uint64_t kMaxSymbols = 1 << 20;
constexpr uint64_t kMaxDynamicEntries = 4096;

uint64_t page_down(uint64_t value) {
  return value & ~(kPage - 1);
}
uint64_t page_up(uint64_t value) {
  return page_down(value + kPage - 1);
}

}  // namespace

// One load; owns the incomplete image, so that it is unmapped on failure.
class ImageLoader {
 public:
  ImageLoader(const void* bytes, uint64_t size, ImageError* error)
      : bytes_(static_cast<const unsigned char*>(bytes)), size_(size), error_(error) {}

  bool run(Image* out) {
    if (!check_header() || !check_segments() || !map() || !read_dynamic() || !count_symbols() || !check_symbols() || !relocate() ||
        !protect()) {
      return false;
    }
    *out = std::move(image_);
    return true;
  }

 private:
  struct Segment {
    uint64_t start = 0, end = 0;  // memory range
    uint64_t file_offset = 0, file_bytes = 0;
    uint32_t flags = 0;
  };

  [[gnu::format(printf, 2, 3)]] bool damaged(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(HEDDLE_STATUS_DATA_LOSS, format, arguments);
    va_end(arguments);
    return false;
  }
  [[gnu::format(printf, 2, 3)]] bool refused(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(HEDDLE_STATUS_INVALID_ARGUMENT, format, arguments);
    va_end(arguments);
    return false;
  }
  void fill(heddle_status_code_t code, const char* format, va_list arguments) {
    error_->code = code;
    std::vsnprintf(error_->text, sizeof error_->text, format, arguments);
  }

  static unsigned long long number(uint64_t value) { return value; }

  // Whether [offset, offset + length) is inside the file.
  bool in_file(uint64_t offset, uint64_t length) const { return offset <= size_ && length <= size_ - offset; }
  // The segment that contains [start, start + length) of memory with all of `flags`; NULL if there is none.
  const Segment* segment_of(uint64_t start, uint64_t length, uint32_t flags) const {
    for (uint32_t i = 0; i < segment_count_; ++i) {
      const Segment& segment = segments_[i];
      if ((segment.flags & flags) == flags && start >= segment.start && start <= segment.end && length <= segment.end - start) {
        return &segment;
      }
    }
    return nullptr;
  }
  template <class T>
  T read(uint64_t at) const {  // `at` was checked with segment_of
    T value;
    std::memcpy(&value, image_.base_ + at, sizeof(T));
    return value;
  }

  bool check_header();
  bool check_segments();
  bool map();
  bool read_dynamic();
  bool count_symbols();
  bool count_by_gnu_hash();
  bool check_symbols();
  bool relocate();
  bool protect();
  // Converts an address of the image into an offset from its base; false if it is not `length` bytes of readable memory.
  bool locate(uint64_t address, uint64_t length, uint64_t* out) const {
    if (address < lowest_ || address - lowest_ > Image::kMaxSpanBytes) return false;
    *out = address - lowest_;
    return segment_of(*out, length, PF_R) != nullptr;
  }

  const unsigned char* bytes_;
  const uint64_t size_;
  ImageError* error_;
  Image image_;
  Elf64_Ehdr header_ = {};
  Segment segments_[kMaxSegments];
  uint32_t segment_count_ = 0;
  uint64_t lowest_ = UINT64_MAX;  // lowest page of the addresses in the image
  bool has_dynamic_ = false;
  uint64_t dynamic_ = 0, dynamic_bytes_ = 0;
  uint64_t relro_start_ = 0, relro_end_ = 0;
  uint64_t hash_ = 0, gnu_hash_ = 0;
  bool has_hash_ = false, has_gnu_hash_ = false;
  uint64_t relocations_ = 0, relocations_bytes_ = 0;
};

bool ImageLoader::check_header() {
  if (size_ < sizeof header_) {
    return damaged("%llu bytes are fewer than an ELF header's %zu", number(size_), sizeof header_);
  }
  std::memcpy(&header_, bytes_, sizeof header_);
  if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return damaged("it does not start with the ELF magic");
  if (header_.e_ident[EI_CLASS] != ELFCLASS64) return damaged("ELF class %u is not 64-bit", header_.e_ident[EI_CLASS]);
  if (header_.e_ident[EI_DATA] != ELFDATA2LSB) {
    return damaged("ELF data encoding %u is not little-endian", header_.e_ident[EI_DATA]);
  }
  if (header_.e_ident[EI_VERSION] != EV_CURRENT || header_.e_version != EV_CURRENT) {
    return damaged("ELF version %u is not 1", header_.e_version);
  }
  if (header_.e_machine != EM_X86_64) return refused("ELF machine %u is not x86-64 (62)", header_.e_machine);
  if (header_.e_type != ET_DYN) return refused("ELF type %u is not a shared image (3)", header_.e_type);
  if (header_.e_phentsize != sizeof(Elf64_Phdr)) {
    return damaged("program headers of %u bytes are not %zu", header_.e_phentsize, sizeof(Elf64_Phdr));
  }
  if (header_.e_phnum == 0 || header_.e_phnum > kMaxSegments) {
    return damaged("%u program headers are not 1 to %u", header_.e_phnum, kMaxSegments);
  }
  if (!in_file(header_.e_phoff, uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr))) {
    return damaged("%u program headers at byte %llu end after the file's %llu bytes", header_.e_phnum, number(header_.e_phoff),
                   number(size_));
  }
  return true;
}

bool ImageLoader::check_segments() {
  Elf64_Phdr headers[kMaxSegments];
  std::memcpy(headers, bytes_ + header_.e_phoff, header_.e_phnum * sizeof(Elf64_Phdr));
  const Elf64_Phdr* dynamic = nullptr;
  const Elf64_Phdr* relro = nullptr;
  uint64_t previous_end = 0;
  for (uint32_t i = 0; i < header_.e_phnum; ++i) {
    const Elf64_Phdr& segment = headers[i];
    switch (segment.p_type) {
      case PT_LOAD: {
        if (segment.p_filesz > segment.p_memsz) {
          return damaged("segment %u has %llu bytes in the file and only %llu in memory", i, number(segment.p_filesz),
                         number(segment.p_memsz));
        }
        if (!in_file(segment.p_offset, segment.p_filesz)) {
          return damaged("segment %u (%llu bytes at byte %llu) ends after the file's %llu bytes", i, number(segment.p_filesz),
                         number(segment.p_offset), number(size_));
        }
        if (segment.p_memsz == 0) break;
        if (segment.p_vaddr > UINT64_MAX - Image::kMaxSpanBytes || segment.p_memsz > Image::kMaxSpanBytes) {
          return damaged("segment %u has %llu bytes at address %llx, more than an image's %llu", i, number(segment.p_memsz),
                         number(segment.p_vaddr), number(Image::kMaxSpanBytes));
        }
        if (segment.p_flags & ~uint32_t{PF_R | PF_W | PF_X}) return refused("segment %u has flags %x", i, segment.p_flags);
        if ((segment.p_flags & (PF_W | PF_X)) == (PF_W | PF_X)) {
          return refused("segment %u is both writable and executable [HD-C-02]", i);
        }
        if (lowest_ == UINT64_MAX) lowest_ = previous_end = page_down(segment.p_vaddr);
        if (segment.p_vaddr < previous_end) {
          return damaged("segment %u at address %llx shares a page with another or is out of order", i, number(segment.p_vaddr));
        }
        if (segment.p_vaddr - lowest_ > Image::kMaxSpanBytes - segment.p_memsz) {
          return damaged("segment %u ends %llu bytes after the first, more than an image's %llu", i,
                         number(segment.p_vaddr - lowest_ + segment.p_memsz), number(Image::kMaxSpanBytes));
        }
        Segment& kept = segments_[segment_count_++];
        kept.start = segment.p_vaddr - lowest_;
        kept.end = kept.start + segment.p_memsz;
        kept.file_offset = segment.p_offset;
        kept.file_bytes = segment.p_filesz;
        kept.flags = segment.p_flags;
        previous_end = lowest_ + page_up(kept.end);
        break;
      }
      case PT_DYNAMIC:
        if (dynamic) return damaged("there are two dynamic sections");
        dynamic = &headers[i];
        break;
      case PT_GNU_RELRO:
        if (relro) return damaged("there are two relro segments");
        relro = &headers[i];
        break;
      case PT_GNU_STACK:
        if (segment.p_flags & PF_X) return refused("it requests an executable stack [HD-C-02]");
        break;
      case PT_NULL:
      case PT_NOTE:
      case PT_PHDR:
      case PT_GNU_EH_FRAME:
      case PT_GNU_PROPERTY:
        break;  // not needed at run time
      case PT_TLS:
        return refused("it has thread-local storage [HD-C-02]");
      case PT_INTERP:
        return refused("it names an interpreter [HD-C-02]");
      default:
        return refused("program header %u has the unknown type %x", i, segment.p_type);
    }
  }
  if (segment_count_ == 0) return damaged("it has no segment to load");
  image_.span_ = page_up(segments_[segment_count_ - 1].end);
  image_.first_address_ = lowest_;
  if (dynamic) {
    dynamic_bytes_ = dynamic->p_memsz;
    if (!locate(dynamic->p_vaddr, dynamic_bytes_, &dynamic_)) {
      return damaged("the dynamic section (%llu bytes at address %llx) is in no segment", number(dynamic_bytes_), number(dynamic->p_vaddr));
    }
    has_dynamic_ = true;
  }
  if (relro && relro->p_memsz != 0) {
    uint64_t start = 0;
    if (!locate(relro->p_vaddr, 0, &start)) return damaged("the relro segment is in no segment");
    const Segment* holder = segment_of(start, 0, PF_R | PF_W);
    // A linker may round its end up to a page, past the end of the segment that it protects.
    if (!holder || relro->p_memsz > page_up(holder->end) - start) return damaged("the relro segment is not in writable memory");
    relro_start_ = page_up(start) == start ? start : page_up(start);
    relro_end_ = page_down(start + relro->p_memsz);
  }
  return true;
}

bool ImageLoader::map() {
  void* memory = mmap(nullptr, image_.span_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    error_->code = HEDDLE_STATUS_RESOURCE_EXHAUSTED;
    std::snprintf(error_->text, sizeof error_->text, "mapping %llu bytes for it failed", number(image_.span_));
    return false;
  }
  image_.base_ = static_cast<char*>(memory);
  for (uint32_t i = 0; i < segment_count_; ++i) {
    const Segment& segment = segments_[i];
    if (segment.file_bytes) std::memcpy(image_.base_ + segment.start, bytes_ + segment.file_offset, segment.file_bytes);
  }
  return true;
}

bool ImageLoader::read_dynamic() {
  if (!has_dynamic_) return damaged("it has no dynamic section, so no symbols");
  const uint64_t entries = dynamic_bytes_ / sizeof(Elf64_Dyn);
  if (entries > kMaxDynamicEntries) return damaged("%llu dynamic entries are too many", number(entries));
  uint64_t symbols = 0, strings = 0, relocations = 0, relocation_bytes = 0, relocation_entry = sizeof(Elf64_Rela);
  uint64_t symbol_entry = sizeof(Elf64_Sym), hash = 0, gnu_hash = 0;
  bool has_symbols = false, has_strings = false, has_relocations = false, ended = false;
  for (uint64_t i = 0; i < entries && !ended; ++i) {
    const auto entry = read<Elf64_Dyn>(dynamic_ + i * sizeof(Elf64_Dyn));
    const uint64_t value = entry.d_un.d_val;
    switch (entry.d_tag) {
      case DT_NULL:
        ended = true;
        break;
      case DT_SYMTAB:
        symbols = value;
        has_symbols = true;
        break;
      case DT_STRTAB:
        strings = value;
        has_strings = true;
        break;
      case DT_STRSZ:
        image_.strings_bytes_ = value;
        break;
      case DT_SYMENT:
        symbol_entry = value;
        break;
      case DT_HASH:
        hash = value;
        has_hash_ = true;
        break;
      case DT_GNU_HASH:
        gnu_hash = value;
        has_gnu_hash_ = true;
        break;
      case DT_RELA:
        relocations = value;
        has_relocations = true;
        break;
      case DT_RELASZ:
        relocation_bytes = value;
        break;
      case DT_RELAENT:
        relocation_entry = value;
        break;
      case DT_NEEDED:
        return refused("it needs another library [HD-C-02]");
      case DT_INIT:
      case DT_FINI:
      case DT_INIT_ARRAY:
      case DT_FINI_ARRAY:
      case DT_PREINIT_ARRAY:
        return refused("it has constructors or destructors [HD-C-02]");
      case DT_TEXTREL:
        return refused("it relocates its code [HD-C-02]");
      case DT_JMPREL:
      case DT_PLTRELSZ:
        if (value != 0 && entry.d_tag == DT_PLTRELSZ) return refused("it has a procedure linkage table, so imports [HD-C-02]");
        break;
      case DT_REL:
      case DT_RELSZ:
      case DT_RELENT:
      case 35:  // DT_RELRSZ
      case 36:  // DT_RELR
      case 37:  // DT_RELRENT
        return refused("it has relocations of another kind than RELA [HD-C-02]");
      case DT_SONAME:
      case DT_RELACOUNT:
      case DT_FLAGS:
      case DT_FLAGS_1:
      case DT_DEBUG:
      case DT_PLTGOT:
      case DT_PLTREL:
      case DT_SYMBOLIC:
      case DT_BIND_NOW:
        if (entry.d_tag == DT_FLAGS && (value & (DF_TEXTREL | DF_STATIC_TLS))) {
          return refused("its dynamic flags %llx ask for code relocations or TLS [HD-C-02]", number(value));
        }
        break;
      default:
        return refused("it has the dynamic entry %llx, which no kernel needs", number(static_cast<uint64_t>(entry.d_tag)));
    }
  }
  if (!ended) return damaged("its dynamic section has no end");
  if (!has_symbols || !has_strings) return damaged("it has no table of symbols or no names");
  if (symbol_entry != sizeof(Elf64_Sym)) return damaged("symbols of %llu bytes are not %zu", number(symbol_entry), sizeof(Elf64_Sym));
  if (!locate(symbols, sizeof(Elf64_Sym), &image_.symbols_)) return damaged("the symbols at %llx are in no segment", number(symbols));
  if (image_.strings_bytes_ == 0 || image_.strings_bytes_ > image_.span_ || !locate(strings, image_.strings_bytes_, &image_.strings_)) {
    return damaged("the names (%llu bytes at %llx) are in no segment", number(image_.strings_bytes_), number(strings));
  }
  // Relocations are applied after the checks: they must not modify what was checked.
  if (segment_of(image_.symbols_, 1, PF_R | PF_W) || segment_of(image_.strings_, 1, PF_R | PF_W)) {
    return refused("its symbols or names are in writable memory");
  }
  if (image_.base_[image_.strings_ + image_.strings_bytes_ - 1] != 0) return damaged("the last name has no end");
  if (has_hash_ && !locate(hash, 8, &hash_)) return damaged("the hash table at %llx is in no segment", number(hash));
  if (has_gnu_hash_ && !locate(gnu_hash, 16, &gnu_hash_)) {
    return damaged("the GNU hash table at %llx is in no segment", number(gnu_hash));
  }
  if (has_relocations && relocation_bytes != 0) {
    if (relocation_entry != sizeof(Elf64_Rela) || relocation_bytes % sizeof(Elf64_Rela) != 0) {
      return damaged("%llu bytes of relocations of %llu bytes each are not whole", number(relocation_bytes), number(relocation_entry));
    }
    if (relocation_bytes > image_.span_ || !locate(relocations, relocation_bytes, &relocations_)) {
      return damaged("the relocations (%llu bytes at %llx) are in no segment", number(relocation_bytes), number(relocations));
    }
    relocations_bytes_ = relocation_bytes;
  } else if (relocation_bytes != 0) {
    return damaged("it has %llu bytes of relocations without an address", number(relocation_bytes));
  }
  return true;
}

// The number of symbols is not stored; the hash tables determine it.
bool ImageLoader::count_symbols() {
  if (has_hash_) {
    image_.symbol_count_ = read<uint32_t>(hash_ + 4);
  } else if (has_gnu_hash_) {
    if (!count_by_gnu_hash()) return false;
  } else {
    return damaged("it has no hash table, so its symbols cannot be counted");
  }
  if (image_.symbol_count_ > kMaxSymbols) return damaged("%llu symbols are too many", number(image_.symbol_count_));
  if (!segment_of(image_.symbols_, image_.symbol_count_ * sizeof(Elf64_Sym), PF_R)) {
    return damaged("%llu symbols end outside of their segment", number(image_.symbol_count_));
  }
  return true;
}

bool ImageLoader::count_by_gnu_hash() {
  const auto buckets = read<uint32_t>(gnu_hash_), first_hashed = read<uint32_t>(gnu_hash_ + 4);
  const auto bloom_words = read<uint32_t>(gnu_hash_ + 8);
  if (buckets > kMaxSymbols || first_hashed > kMaxSymbols || bloom_words > kMaxSymbols) {
    return damaged("a GNU hash table with %u buckets, %u unhashed symbols and %u bloom words is too large", buckets, first_hashed,
                   bloom_words);
  }
  const uint64_t bucket_table = gnu_hash_ + 16 + uint64_t{bloom_words} * 8;
  const uint64_t chains = bucket_table + uint64_t{buckets} * 4;
  if (!segment_of(gnu_hash_, chains - gnu_hash_, PF_R)) return damaged("the GNU hash table ends outside of its segment");
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) {
    const auto start = read<uint32_t>(bucket_table + uint64_t{i} * 4);
    if (start > last) last = start;
  }
  if (last == 0) {  // no symbol is hashed
    image_.symbol_count_ = first_hashed;
    return true;
  }
  if (last < first_hashed) return damaged("the GNU hash table starts a chain at symbol %u of %u unhashed", last, first_hashed);
  for (uint64_t symbol = last;; ++symbol) {
    if (symbol > kMaxSymbols) return damaged("a chain of the GNU hash table has no end");
    const uint64_t at = chains + (symbol - first_hashed) * 4;
    if (!segment_of(at, 4, PF_R)) return damaged("a chain of the GNU hash table leaves its segment");
    if (read<uint32_t>(at) & 1) {
      image_.symbol_count_ = symbol + 1;
      return true;
    }
  }
}

bool ImageLoader::check_symbols() {
  for (uint64_t i = 1; i < image_.symbol_count_; ++i) {
    const auto symbol = read<Elf64_Sym>(image_.symbols_ + i * sizeof(Elf64_Sym));
    if (symbol.st_name >= image_.strings_bytes_) {
      return damaged("symbol %llu has its name at %u of %llu bytes", number(i), symbol.st_name, number(image_.strings_bytes_));
    }
    if (symbol.st_shndx == SHN_UNDEF) {
      return refused("symbol '%.100s' is not defined: images import nothing [HD-C-02]", image_.base_ + image_.strings_ + symbol.st_name);
    }
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_TLS || type == STT_GNU_IFUNC) {
      return refused("symbol '%.100s' has type %u: no TLS and no resolvers [HD-C-02]", image_.base_ + image_.strings_ + symbol.st_name,
                     type);
    }
    if (type == STT_FUNC && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL) {
      const uint64_t at = symbol.st_value - lowest_;  // a wrapped value is outside of all segments
      if (at > Image::kMaxSpanBytes || !segment_of(at, 1, PF_X)) {
        return damaged("function '%.100s' at %llx is in no executable segment", image_.base_ + image_.strings_ + symbol.st_name,
                       number(symbol.st_value));
      }
    }
  }
  return true;
}

bool ImageLoader::relocate() {
  const uint64_t count = relocations_bytes_ / sizeof(Elf64_Rela);
  const auto base = reinterpret_cast<uint64_t>(image_.base_);
  for (uint64_t i = 0; i < count; ++i) {
    const auto relocation = read<Elf64_Rela>(relocations_ + i * sizeof(Elf64_Rela));
    if (relocation.r_info != ELF64_R_INFO(uint64_t{0}, R_X86_64_RELATIVE)) {
      return refused("relocation %llu has type %u of symbol %u: only relative ones are allowed [HD-C-02]", number(i),
                     static_cast<unsigned>(ELF64_R_TYPE(relocation.r_info)), static_cast<unsigned>(ELF64_R_SYM(relocation.r_info)));
    }
    const uint64_t target = relocation.r_offset - lowest_;  // a wrapped value is outside of all segments
    if (target > Image::kMaxSpanBytes || !segment_of(target, 8, PF_R | PF_W)) {
      return damaged("relocation %llu writes to %llx, which is not in its writable memory", number(i), number(relocation.r_offset));
    }
    const uint64_t value = static_cast<uint64_t>(relocation.r_addend) - lowest_;
    if (value > image_.span_) {
      return damaged("relocation %llu points to %llx, outside of the image", number(i), number(static_cast<uint64_t>(relocation.r_addend)));
    }
    const uint64_t address = base + value;
    std::memcpy(image_.base_ + target, &address, sizeof address);
  }
  return true;
}

bool ImageLoader::protect() {
  uint64_t done = 0;
  auto set = [&](uint64_t start, uint64_t end, int protection) {
    return start >= end || mprotect(image_.base_ + start, end - start, protection) == 0;
  };
  bool fine = true;
  for (uint32_t i = 0; i < segment_count_; ++i) {
    const Segment& segment = segments_[i];
    const uint64_t start = page_down(segment.start), end = page_up(segment.end);
    fine = fine && set(done, start, PROT_NONE);  // the gap before the segment
    const int protection = (segment.flags & PF_R ? PROT_READ : 0) | (segment.flags & PF_W ? PROT_WRITE : 0) |
                           (segment.flags & PF_X ? PROT_READ | PROT_EXEC : 0);
    fine = fine && set(start, end, protection);
    done = end;
  }
  fine = fine && set(relro_start_, relro_end_, PROT_READ);
  if (fine) return true;
  error_->code = HEDDLE_STATUS_PERMISSION_DENIED;
  std::snprintf(error_->text, sizeof error_->text, "this system refuses to make its pages executable");
  return false;
}

Image::~Image() {
  if (base_) munmap(base_, span_);
}

Image& Image::operator=(Image&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(span_, other.span_);
  std::swap(first_address_, other.first_address_);
  std::swap(symbols_, other.symbols_);
  std::swap(symbol_count_, other.symbol_count_);
  std::swap(strings_, other.strings_);
  std::swap(strings_bytes_, other.strings_bytes_);
  return *this;
}

bool Image::load(const void* bytes, uint64_t size, Image* out, ImageError* error) noexcept {
  *error = ImageError();
  if (!bytes && size) size = 0;
  return ImageLoader(bytes, size, error).run(out);
}

// Longer names are truncated: names may overlap, so that their total length can exceed the file's.
constexpr uint64_t kMaxNameBytes = 4096;

bool Image::function_at(uint64_t index, Function* out) const noexcept {
  Elf64_Sym symbol;
  std::memcpy(&symbol, base_ + symbols_ + index * sizeof(Elf64_Sym), sizeof symbol);
  if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL) return false;
  const char* text = base_ + strings_ + symbol.st_name;
  const uint64_t offset = symbol.st_value - first_address_;  // check_symbols verified that it is in executable memory
  *out = {{text, strnlen(text, std::min<uint64_t>(strings_bytes_ - symbol.st_name, kMaxNameBytes))},
          reinterpret_cast<uint64_t>(base_) + offset,
          std::min<uint64_t>(symbol.st_size, span_ - offset)};
  return true;
}

heddle_x86_64_kernel_t Image::find_kernel(std::string_view name) const noexcept {
  if (name.empty()) return nullptr;
  for (uint64_t i = 1; i < symbol_count_; ++i) {
    Function function;
    if (function_at(i, &function) && function.name == name) return reinterpret_cast<heddle_x86_64_kernel_t>(function.address);
  }
  return nullptr;
}

}  // namespace heddle::cpu
