// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Our own checks of a module's metadata on top of FlatBuffers' structural ones: after them the core may follow every index, offset,
// size and count without looking again. Called by the reader before anything is used and by the writer before anything is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sdk/module/error.h"

namespace heddle::module {

// Limits of one file. They are far above what a compiler writes; they bound what a hostile file can ask for.
constexpr uint32_t kMaxSlots = 64;
constexpr uint32_t kMaxRegisters = 65536;
constexpr uint32_t kMaxArguments = 65536;       // and results, of a function
constexpr uint32_t kMaxPrograms = 256;          // of a function
constexpr uint32_t kMaxBindings = 4096;         // of an entry
constexpr uint32_t kMaxConstantsBytes = 65536;  // of an entry
constexpr uint32_t kMaxNameBytes = 65535;
constexpr uint32_t kMaxAlignment = 4096;  // of a transient, bytes
constexpr uint32_t kMaxWorkgroupSize = 65536;
constexpr uint64_t kMaxSizeBytes = uint64_t{1} << 48;       // of a parameter or a global
constexpr uint64_t kMaxWorkspaceBytes = uint64_t{1} << 32;  // of an entry, private or shared

// Sizes of the sections that the metadata's ranges point into, in bytes.
struct SectionSizes {
  uint64_t constants = 0;
  uint64_t code = 0;
  uint64_t parameters = 0;
};

// What holds afterwards, beside FlatBuffers' own guarantees:
//   - every string and vector is present (perhaps empty); strings are UTF-8 without NUL
//   - registers are below the program's register_count; branch targets, literal, message, site, value, argument, result and dimension
//     indexes are in range; the last instruction is Return or Branch, so that no program runs off its end
//   - a transient is only named by commands within [first, last]; Parameter and Constant globals and arguments are never
//     written; Derived globals are written by initializers only; globals marked initializer_only are used by initializers only
//   - a site's binding and constant counts are those of each of its candidates' entries; grids have 3 registers
//   - Variant.code, Parameter.data where stored, and Global.data of a constant are present, aligned, and inside their sections
// metadata.data() is aligned to 8 bytes. The message is a cause without a "who": callers add file and next step.
Status verify_metadata(std::span<const std::byte> metadata, const SectionSizes& sizes);

}  // namespace heddle::module
