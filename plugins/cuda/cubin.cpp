// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of ELF64 that bound what a reader of a cubin may access.
#include "cuda/cubin.h"

#include <algorithm>
#include <cstring>

namespace heddle::cuda {
namespace {

struct Header {
  unsigned char identity[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, programs, sections;
  uint32_t flags;
  uint16_t size, program_size, program_count, section_size, section_count, names;
};
struct Section {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entry_size;
};
struct Segment {
  uint32_t type, flags;
  uint64_t offset, virtual_address, physical_address, file_bytes, memory_bytes, alignment;
};

constexpr uint16_t kCudaMachine = 190;
// Types of sections.
constexpr uint32_t kProgramBits = 1, kSymbols = 2, kStrings = 3, kRelocationsWithAddends = 4, kNoBits = 8, kRelocations = 9;
constexpr uint32_t kInfo = 0x70000000, kCallGraph = 0x70000001;  // of CUDA
constexpr uint64_t kIsCode = 4, kInfoIsSection = 0x40;           // flags
constexpr uint32_t kSymbolOfCode = 0xffffff;                     // the part of a code section's info that is the index of its symbol
constexpr uint16_t kReservedIndex = 0xff00;                      // from here on numbers of sections have other meanings
constexpr uint16_t kExtendedCount = 0xffff;                      // of segments: the count is elsewhere

// Of one entry; 0 if the section is no table that is checked.
uint64_t entry_bytes(uint32_t type) {
  return type == kSymbols || type == kRelocationsWithAddends ? 24 : type == kRelocations ? 16 : 0;
}

bool has_section_in_info(const Section& section) {
  switch (section.type) {
    case kRelocations:
    case kRelocationsWithAddends:
    case kNoBits:
    case kInfo:
    case kCallGraph:
    case kProgramBits:  // constants name their kernel's section
      return true;
    default:
      return (section.flags & kInfoIsSection) != 0;
  }
}

}  // namespace

heddle_status_code_t check_cubin(const void* bytes, uint64_t size, std::string* out_reason) {
  const auto* start = static_cast<const char*>(bytes);
  auto damaged = [&](const std::string& why) {
    *out_reason = why;
    return HEDDLE_STATUS_DATA_LOSS;
  };
  const std::string after = " of its cubin ends after its " + std::to_string(size) + " bytes";
  Header header;
  if (size < sizeof header) return damaged("its cubin is shorter than an ELF header");
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.identity, "\177ELF\2\1", 6) != 0 || header.machine != kCudaMachine) {
    *out_reason = "its code is not a 64-bit ELF file for CUDA";
    return HEDDLE_STATUS_INVALID_ARGUMENT;
  }
  auto inside = [&](uint64_t offset, uint64_t length) { return offset <= size && length <= size - offset; };
  // A count of 0 says that section 0 has the count, which ptxas never needs.
  if (header.section_count == 0 || header.section_count >= kReservedIndex || header.program_count == kExtendedCount) {
    return damaged("its cubin has " + std::to_string(header.section_count) + " sections and " + std::to_string(header.program_count) +
                   " segments");
  }
  if (header.names >= header.section_count)
    return damaged("section " + std::to_string(header.names) + ", the names of its cubin, does not exist");
  if (header.section_size != sizeof(Section) || !inside(header.sections, uint64_t{header.section_count} * sizeof(Section)) ||
      (header.program_count != 0 && header.program_size != sizeof(Segment)) ||
      !inside(header.programs, uint64_t{header.program_count} * header.program_size)) {
    return damaged("the tables of its cubin end after its " + std::to_string(size) + " bytes");
  }
  auto section_at = [&](uint32_t index) {
    Section section;
    std::memcpy(&section, start + header.sections + index * sizeof section, sizeof section);
    return section;
  };
  uint64_t symbols = 0;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const Section section = section_at(i);
    if (section.type != kNoBits && section.type != 0 && !inside(section.offset, section.size)) {
      return damaged("section " + std::to_string(i) + after);
    }
    const uint64_t entry = entry_bytes(section.type);
    if (entry && (section.entry_size != entry || section.size % entry != 0)) {
      return damaged("section " + std::to_string(i) + " of its cubin has " + std::to_string(section.size) + " bytes in entries of " +
                     std::to_string(section.entry_size) + ", but should have whole entries of " + std::to_string(entry));
    }
    if (section.type == kSymbols) symbols = std::max(symbols, section.size / entry);
  }
  const Section names = section_at(header.names);
  if (names.type != kStrings || names.size == 0 || start[names.offset + names.size - 1] != '\0') {
    return damaged("section " + std::to_string(header.names) + " of its cubin does not hold the names of the others");
  }
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const Section section = section_at(i);
    auto wrong = [&](const char* what, uint64_t value, uint64_t count) {
      return damaged(what + (" of section " + std::to_string(i)) + " of its cubin is " + std::to_string(value) + ", but should be below " +
                     std::to_string(count));
    };
    if (section.name >= names.size) return wrong("the name", section.name, names.size);
    if (section.link >= header.section_count) return wrong("the link", section.link, header.section_count);
    if (section.type == kProgramBits && (section.flags & kIsCode)) {
      if ((section.info & kSymbolOfCode) >= symbols) return wrong("the symbol", section.info & kSymbolOfCode, symbols);
    } else if (section.type == kSymbols) {
      if (section.info > section.size / section.entry_size)
        return wrong("the first global symbol", section.info, section.size / section.entry_size + 1);
    } else if (has_section_in_info(section) && section.info >= header.section_count) {
      return wrong("the info", section.info, header.section_count);
    }
  }
  for (uint32_t i = 0; i < header.program_count; ++i) {
    Segment segment;
    std::memcpy(&segment, start + header.programs + i * sizeof segment, sizeof segment);
    if (segment.type != 0 && !inside(segment.offset, segment.file_bytes)) return damaged("segment " + std::to_string(i) + after);
  }
  return HEDDLE_STATUS_OK;
}

}  // namespace heddle::cuda
