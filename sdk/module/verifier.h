// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of a module's metadata in addition to FlatBuffers' structural ones: after them the core may use every index, offset, size and count
// without further checks. Called by the reader before anything is used and by the writer before anything is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sdk/module/error.h"

namespace heddle::module {

// Limits of one file. They are far above what a compiler writes, and limit what a hostile file can request.
constexpr uint32_t kMaxSlots = 64;
constexpr uint32_t kMaxRegisters = 65536;
constexpr uint32_t kMaxArguments = 65536;       // per function, also of results
constexpr uint32_t kMaxPrograms = 256;          // per function
constexpr uint32_t kMaxBindings = 4096;         // per entry
constexpr uint32_t kMaxConstantsBytes = 65536;  // per entry
constexpr uint32_t kMaxNameBytes = 65535;
constexpr uint32_t kMaxAlignment = 4096;  // of a transient, in bytes
constexpr uint32_t kMaxWorkgroupSize = 65536;
constexpr uint64_t kMaxSizeBytes = uint64_t{1} << 48;       // per parameter or global
constexpr uint64_t kMaxWorkspaceBytes = uint64_t{1} << 32;  // per entry, private or shared

// Sizes in bytes of the sections to which the metadata's ranges refer.
struct SectionSizes {
  uint64_t constants = 0;
  uint64_t code = 0;
  uint64_t parameters = 0;
};

// Guarantees afterwards, in addition to FlatBuffers' own:
//   - every string and vector is present (possibly empty); strings are UTF-8 without NUL
//   - registers are below the program's register_count; branch targets, literal, message, site, value, argument, result and dimension indices
//     are in range; the last instruction is Return or Branch, so that no program runs off its end
//   - a transient is only named by commands within [first, last]; Parameter and Constant globals and arguments are never
//     written; Derived globals are written by initializers only; globals marked initializer_only are used by initializers only
//   - a site's binding and constant counts match those of each of its candidates' entries; grids have 3 registers
//   - Variant.code, Parameter.data if stored, and Global.data of a constant are present, aligned, and inside their sections
// metadata.data() must be aligned to 8 bytes. The message is only the cause: callers add the context and the next step.
Status verify_metadata(std::span<const std::byte> metadata, const SectionSizes& sizes);

}  // namespace heddle::module
