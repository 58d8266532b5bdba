// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a writer takes a parameter's bytes from. Filled in by compiler/emit and by heddle params; a module's writer reads it twice (hash, then data), so that
// weights of many gigabytes are never held at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "sdk/module/error.h"

namespace heddle::module {

struct ParameterSource {
  uint64_t size_bytes = 0;
  // Either all bytes, alive until the file is written ...
  std::span<const std::byte> bytes;
  // ... or a function that fills `out` with the bytes from `offset` on; the same bytes every time, which the writer checks.
  std::function<Status(uint64_t offset, std::span<std::byte> out)> read;
};

// Hands the bytes out in order, in pieces of at most 4 MiB; stops at the first failure of either side.
Status for_each_piece(const ParameterSource& source, const std::function<Status(std::span<const std::byte>)>& take);

}  // namespace heddle::module
