// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The source of a parameter's bytes for a writer. Filled in by compiler/emit and by heddle params; a module's writer reads it twice (hash, then
// data), so that weights of many gigabytes are never in memory at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "sdk/module/error.h"

namespace heddle::module {

struct ParameterSource {
  uint64_t size_bytes = 0;
  // Either all bytes, valid until the file is written ...
  std::span<const std::byte> bytes;
  // ... or a function that fills `out` with the bytes from `offset` on; it must return the same bytes every time, which the writer checks.
  std::function<Status(uint64_t offset, std::span<std::byte> out)> read;
};

// Passes on the bytes in order, in parts of at most 4 MiB; stops at the first failure on either side.
Status for_each_piece(const ParameterSource& source, const std::function<Status(std::span<const std::byte>)>& take);
// Does the same and returns the bytes' XXH3-64.
Result<uint64_t> hash_each_piece(const ParameterSource& source, const std::function<Status(std::span<const std::byte>)>& take);

}  // namespace heddle::module
