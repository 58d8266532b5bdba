// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A GGUF file of any bytes: its index is refused with an error, or every tensor lies inside the file, none overlaps another, and its blocks can be
// converted to every type.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "sdk/module/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle;
  static const int descriptor = memfd_create("gguf_fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  auto index = module::read_gguf_index(descriptor, size, "input");
  if (!index) return 0;
  uint64_t total = 0;
  for (const module::ParameterEntry& entry : index.value().entries()) {
    if (entry.offset < 24 || entry.offset > size || entry.length > size - entry.offset || index.value().find(entry.name) != &entry) {
      std::fprintf(stderr, "gguf_fuzz: a tensor outside the file was let pass\n");
      std::abort();
    }
    total += entry.length;
    if (!entry.block || !entry.block->decode) continue;
    const uint64_t blocks = std::min<uint64_t>(entry.length / entry.block->bytes, 64);
    for (const heddle_element_type_t type : {HEDDLE_TYPE_F32, HEDDLE_TYPE_F16, HEDDLE_TYPE_BF16}) {
      std::vector<std::byte> values(blocks * entry.block->elements * HEDDLE_TYPE_BITS(type) / 8);
      module::decode_blocks(*entry.block, reinterpret_cast<const std::byte*>(data) + entry.offset, blocks, type, values.data());
    }
  }
  if (total > size) std::abort();
  return 0;
}
