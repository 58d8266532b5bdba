// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Byte layout of a .heddle file, little-endian. Used only by the reader and the writer in this directory.
//
//   0              FileHeader, 192 bytes
//   64-aligned     metadata: FlatBuffers, root Module (module.fbs), identifier HDL0
//   64-aligned     constants: small data; each range starts on 64 bytes
//   4096-aligned   code: images of variants; each starts on 4096 bytes
//   4096-aligned   parameters: each starts on 64 bytes; up to the end of the file
//
// Every section is present, possibly empty, and starts at the first aligned byte after the previous one; the padding is zero. The content hash is
// XXH3-128 of bytes [0, start of parameters) with its own field taken as zero. Each parameter has its own hash in the metadata, so that opening a
// file reads no parameter. Parameters in other files have one too, if the compiler had their values; it is checked on request.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::module {

constexpr uint8_t kMagic[8] = {0x8F, 'H', 'D', 'L', '\r', '\n', 0x1A, '\n'};
// A reader refuses a different major version, and a minor version newer than its own.
constexpr uint16_t kFormatMajor = 0;
constexpr uint16_t kFormatMinor = 4;
// 0.4: programs in pieces, of which loops are made.
// 0.3: checks of kernels, compute units, flags of entries; pitches of bindings, which a reader of 0.2 ignores.
// 0.2: operations; types of bindings, which a reader of 0.1 ignores.
// A writer states the first of these whose additions a file has, so that older readers accept it.
constexpr uint16_t kFormatMinorOfPieces = 4;
constexpr uint16_t kFormatMinorOfChecks = 3;
constexpr uint16_t kFormatMinorOfOperations = 2;
constexpr uint16_t kFormatMinorOfKernels = 1;

// Limits of what a reader holds in memory: FlatBuffers' own limit, and one for metadata, constants and code together.
constexpr uint64_t kMaxMetadataBytes = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMaxHeadBytes = uint64_t{1} << 33;

constexpr uint64_t kSectionAlignment = 64;
constexpr uint64_t kPageAlignment = 4096;

enum class SectionKind : uint32_t { kMetadata = 0, kConstants = 1, kCode = 2, kParameters = 3 };
constexpr uint32_t kSectionCount = 4;
constexpr const char* kSectionNames[kSectionCount] = {"metadata", "constants", "code", "parameters"};
constexpr uint64_t kSectionAlignments[kSectionCount] = {kSectionAlignment, kSectionAlignment, kPageAlignment, kPageAlignment};

struct SectionHeader {
  uint32_t kind;      // the section's number: sections are in order
  uint32_t reserved;  // 0
  uint64_t offset;    // bytes from the start of the file
  uint64_t size;      // bytes
};

struct FileHeader {
  uint8_t magic[8];
  uint16_t format_major;
  uint16_t format_minor;
  uint32_t section_count;
  uint64_t file_bytes;
  uint8_t content_hash[16];  // XXH3-128, canonical (big-endian) form
  SectionHeader sections[kSectionCount];
  uint8_t reserved[56];  // 0
};
static_assert(sizeof(SectionHeader) == 24 && sizeof(FileHeader) == 192);
static_assert(offsetof(FileHeader, content_hash) == 24 && offsetof(FileHeader, sections) == 40);

// The smallest multiple of `alignment` (a power of two) that is not below `value`; value is below 2^63.
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace heddle::module
