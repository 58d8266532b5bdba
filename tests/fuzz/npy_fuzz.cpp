// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header of an .npy file of any bytes: refused with a reason, or a shape that exists and data inside the file's bounds.
#include <cstdio>
#include <cstdlib>

#include "tools/heddle/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  heddle::tool::NpyHeader header;
  const heddle::tool::Wrong wrong = heddle::tool::parse_npy_header({reinterpret_cast<const std::byte*>(data), size}, header);
  if (!wrong.empty()) return 0;
  bool good =
      header.data_offset <= size && header.shape.dims.size() <= HEDDLE_MAX_RANK && header.shape.element_type != HEDDLE_TYPE_UNDEFINED;
  for (int64_t extent : header.shape.dims) good = good && extent >= 0;
  if (!good) {
    std::fprintf(stderr, "npy_fuzz: a header that breaks the rules was let pass\n");
    std::abort();
  }
  return 0;
}
