// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening: size and header first, then one copy of everything before the parameters, then the hash, then the structure. The file is never mapped:
// verified contents must not change afterwards.
#include "sdk/module/reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sdk/module/file_view.h"
#include "sdk/module/layout.h"
#include "sdk/module/verifier.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace heddle::module {
namespace {

Error damaged(const std::string& path, std::string_view cause) {
  return {HEDDLE_STATUS_DATA_LOSS, concat("module: opening ", in_quotes(path), " failed: ", cause, "; compile or copy the file again")};
}

Error system_failure(const std::string& path, int error_number) {
  heddle_status_code_t code = HEDDLE_STATUS_UNKNOWN;
  if (error_number == ENOENT || error_number == ENOTDIR) code = HEDDLE_STATUS_NOT_FOUND;
  if (error_number == EACCES || error_number == EPERM) code = HEDDLE_STATUS_PERMISSION_DENIED;
  if (error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM) code = HEDDLE_STATUS_RESOURCE_EXHAUSTED;
  return {code, concat("module: opening ", in_quotes(path), " failed: ", why_not_opened(error_number))};
}

// Fills `out` from `offset`. A file that ends early was truncated after its size was read.
Status read_exactly(int descriptor, const std::string& path, uint64_t offset, std::span<std::byte> out) {
  uint64_t done = 0;
  while (done < out.size()) {
    const ssize_t got = pread(descriptor, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(path, errno);
    if (got == 0) return damaged(path, concat("byte ", offset + done, " is beyond the end of the file, which became shorter meanwhile"));
    done += static_cast<uint64_t>(got);
  }
  return std::nullopt;
}

bool all_zero(const uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

// Rules of the header. Afterwards sections are at the offsets of the layout, and inside the file.
Status check_header(const FileHeader& header, const std::string& path, uint64_t file_bytes) {
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return Error{HEDDLE_STATUS_INVALID_ARGUMENT,
                 concat("module: opening ", in_quotes(path),
                        " failed: it does not start like a .heddle file; give a file written by heddle compile")};
  }
  if (header.format_major != kFormatMajor || header.format_minor > kFormatMinor) {
    return Error{HEDDLE_STATUS_UNIMPLEMENTED,
                 concat("module: opening ", in_quotes(path), " failed: its format version is ", header.format_major, ".",
                        header.format_minor, ", this library reads ", kFormatMajor, ".0 to ", kFormatMajor, ".", kFormatMinor,
                        "; compile the model with this version or install a newer one")};
  }
  if (header.section_count != kSectionCount) {
    return damaged(path, concat("header: section count is ", header.section_count, ", expected ", kSectionCount));
  }
  if (header.file_bytes != file_bytes) {
    return damaged(path, concat("header: the file has ", file_bytes, " bytes, expected ", header.file_bytes));
  }
  if (!all_zero(header.reserved, sizeof(header.reserved))) return damaged(path, "header: reserved bytes are not zero");
  uint64_t end = sizeof(FileHeader);
  for (uint32_t i = 0; i < kSectionCount; ++i) {
    const SectionHeader& section = header.sections[i];
    if (section.kind != i || section.reserved != 0) {
      return damaged(path, concat("header: section ", i, " is of kind ", section.kind, ", expected ", i, " (", kSectionNames[i], ")"));
    }
    const uint64_t expected = align_up(end, kSectionAlignments[i]);
    if (section.offset != expected) {
      return damaged(path, concat("header: section ", kSectionNames[i], " starts at byte ", section.offset, ", expected ", expected));
    }
    if (section.offset > file_bytes || section.size > file_bytes - section.offset) {
      return damaged(path, concat("header: section ", kSectionNames[i], " has ", section.size, " bytes from byte ", section.offset,
                                  ", beyond the file's ", file_bytes));
    }
    end = section.offset + section.size;
  }
  if (end != file_bytes) return damaged(path, concat("header: sections end at byte ", end, ", the file at ", file_bytes));
  return std::nullopt;
}

// head: everything before the parameters. The hash field counts as zero.
std::array<uint8_t, 16> hash_of_head(std::byte* head, uint64_t bytes) {
  std::byte* const field = head + offsetof(FileHeader, content_hash);
  std::byte kept[16];
  std::memcpy(kept, field, sizeof(kept));
  std::memset(field, 0, sizeof(kept));
  const std::array<uint8_t, 16> hash = hash_bytes(head, bytes);
  std::memcpy(field, kept, sizeof(kept));
  return hash;
}

std::span<const std::byte> inside(std::span<const std::byte> section, const module_format::Range& range) {
  if (range.offset() > section.size() || range.length() > section.size() - range.offset()) return {};
  return section.subspan(range.offset(), range.length());
}

}  // namespace

Module::~Module() {
  std::free(head_);
  if (descriptor_ >= 0) close(descriptor_);
}

std::span<const std::byte> Module::code(const module_format::Range& range) const {
  return inside(code_, range);
}
std::span<const std::byte> Module::constants(const module_format::Range& range) const {
  return inside(constants_, range);
}

FileExtent Module::parameter_extent(const module_format::Parameter& parameter) const {
  if (!parameter.stored() || parameter.data() == nullptr) return {};
  return {descriptor_, parameters_offset_ + parameter.data()->offset(), parameter.data()->length()};
}

Result<std::unique_ptr<Module>> open_module(const std::string& path, uint32_t flags) try {
  std::unique_ptr<Module> module(new Module());
  module->path_ = path;
  module->descriptor_ = open_to_read(path);
  if (module->descriptor_ < 0) return system_failure(path, errno);
  struct stat facts;
  if (fstat(module->descriptor_, &facts) != 0) return system_failure(path, errno);
  if (!S_ISREG(facts.st_mode)) {
    return Error{HEDDLE_STATUS_INVALID_ARGUMENT,
                 concat("module: opening ", in_quotes(path), " failed: it is not a regular file; give a .heddle file")};
  }
  const uint64_t file_bytes = static_cast<uint64_t>(facts.st_size);

  FileHeader header{};
  const uint64_t available = file_bytes < sizeof(header) ? file_bytes : sizeof(header);
  if (Status failed = read_exactly(module->descriptor_, path, 0, {reinterpret_cast<std::byte*>(&header), available})) return *failed;
  if (file_bytes < sizeof(kMagic) || std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0) {
    if (file_bytes < sizeof(header)) {
      return damaged(path, concat("the file has ", file_bytes, " bytes, a header alone has ", sizeof(header)));
    }
  }
  if (Status failed = check_header(header, path, file_bytes)) return *failed;

  // Checked before memory is allocated: a huge sparse file costs its writer nothing.
  if (header.sections[0].size > kMaxMetadataBytes || header.sections[3].offset > kMaxHeadBytes) {
    return damaged(path, concat("metadata of ", header.sections[0].size, " bytes, ", header.sections[3].offset,
                                " bytes before the parameters; the limits are ", kMaxMetadataBytes, " and ", kMaxHeadBytes));
  }
  module->parameters_offset_ = header.sections[3].offset;
  module->head_bytes_ = module->parameters_offset_;  // a multiple of a page, and at least one
  module->head_ = static_cast<std::byte*>(std::aligned_alloc(kPageAlignment, module->head_bytes_));
  if (module->head_ == nullptr) {
    return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, concat("module: opening ", in_quotes(path), " failed: no memory for ",
                                                          module->head_bytes_, " bytes of metadata and code; free memory")};
  }
#ifdef MADV_POPULATE_WRITE
  // All pages at once instead of one by one as they are read into. If the kernel cannot do that, reading does.
  (void)madvise(module->head_, module->head_bytes_, MADV_POPULATE_WRITE);
#endif
  if (Status failed = read_exactly(module->descriptor_, path, 0, {module->head_, module->head_bytes_})) return *failed;
  if (std::memcmp(module->head_, &header, sizeof(header)) != 0) return damaged(path, "its header changed while it was read");

  std::memcpy(module->content_hash_.data(), header.content_hash, 16);
  if ((flags & kOpenNoHash) == 0 && hash_of_head(module->head_, module->head_bytes_) != module->content_hash_) {
    return damaged(path, "content hash: metadata, constants or code do not match it");
  }

  auto section = [&](SectionKind kind) {
    const SectionHeader& place = header.sections[static_cast<uint32_t>(kind)];
    return std::span<const std::byte>(module->head_ + place.offset, place.size);
  };
  const std::span<const std::byte> metadata = section(SectionKind::kMetadata);
  module->constants_ = section(SectionKind::kConstants);
  module->code_ = section(SectionKind::kCode);
  const SectionSizes sizes{module->constants_.size(), module->code_.size(), header.sections[3].size};
  if (Status failed = verify_metadata(metadata, sizes)) {
    return Error{failed->code, concat("module: opening ", in_quotes(path), " failed: ", failed->message, "; compile the model again")};
  }
  module->metadata_ = module_format::GetModule(metadata.data());
  return module;
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: opening a file failed: out of memory; free memory"};
}

Result<uint64_t> hash_of(const FileExtent& extent, const std::string& path, std::string_view pattern) {
  // At once, since code for hashing piece by piece would make the runtime larger.
  const std::unique_ptr<std::byte[]> bytes(new std::byte[extent.length]);
  if (pattern.empty()) {
    if (Status failed = read_exactly(extent.descriptor, path, extent.offset, {bytes.get(), extent.length})) return *failed;
  } else {
    for (uint64_t i = 0; i < extent.length; ++i) bytes[i] = static_cast<std::byte>(pattern[i % pattern.size()]);
  }
  return XXH3_64bits(bytes.get(), extent.length);
}

std::array<uint8_t, 16> hash_bytes(const void* bytes, size_t count) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, count));
  std::array<uint8_t, 16> hash;
  std::memcpy(hash.data(), canonical.digest, 16);
  return hash;
}

Status verify_parameters(const Module& module) try {
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  std::unique_ptr<std::byte[]> piece(new std::byte[kPiece]);
  for (const module_format::Parameter* parameter : *module.metadata().parameters()) {
    if (!parameter->stored()) continue;
    const FileExtent extent = module.parameter_extent(*parameter);
    XXH3_64bits_reset(state.get());
    for (uint64_t done = 0; done < extent.length;) {
      const uint64_t count = extent.length - done < kPiece ? extent.length - done : kPiece;
      if (Status failed = read_exactly(extent.descriptor, module.path(), extent.offset + done, {piece.get(), count})) return failed;
      XXH3_64bits_update(state.get(), piece.get(), count);
      done += count;
    }
    if (XXH3_64bits_digest(state.get()) != parameter->hash()) {
      return Error{HEDDLE_STATUS_DATA_LOSS, concat("module: checking parameter ", in_quotes(parameter->name()->string_view()), " of ",
                                                   in_quotes(module.path()), " failed: its ", extent.length, " bytes from byte ",
                                                   extent.offset, " do not match their hash; compile or copy the file again")};
    }
  }
  return std::nullopt;
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: checking parameters failed: out of memory; free memory"};
}

}  // namespace heddle::module
