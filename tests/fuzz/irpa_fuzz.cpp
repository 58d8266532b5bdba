// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An IRPA file of any bytes: its index is refused with an error, or every entry's data or pattern lies inside the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "sdk/module/irpa.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("irpa_fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  auto index = heddle::module::read_irpa_index(descriptor, size, "input");
  if (!index) return 0;
  for (const heddle::module::ParameterEntry& entry : index.value().entries()) {
    const uint64_t bytes = entry.pattern.empty() ? entry.length : entry.pattern.size();
    if (entry.offset > size || bytes > size - entry.offset || index.value().find(entry.name) != &entry) {
      std::fprintf(stderr, "irpa_fuzz: an entry outside the file was let pass\n");
      std::abort();
    }
  }
  return 0;
}
