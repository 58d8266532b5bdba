// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A safetensors file of any bytes: its index is refused with an error, or every tensor lies inside the file and none overlaps another.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "sdk/module/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("safetensors_fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  auto index = heddle::module::read_safetensors_index(descriptor, size, "input");
  if (!index) return 0;
  uint64_t total = 0;
  for (const heddle::module::SafetensorsEntry& entry : index.value().entries()) {
    if (entry.offset < 8 || entry.offset > size || entry.length > size - entry.offset || index.value().find(entry.name) != &entry) {
      std::fprintf(stderr, "safetensors_fuzz: a tensor outside the file was let pass\n");
      std::abort();
    }
    total += entry.length;
  }
  if (total > size) std::abort();
  return 0;
}
