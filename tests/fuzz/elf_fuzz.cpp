// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's library and a linker cache of any bytes, as preflight reads them before anything is mapped.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "core/host/elf_file.h"
#include "core/host/library_search.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle::host;
  static const int file = memfd_create("elf_fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  ElfFile elf;
  read_elf_file(path, heddle::host::ElfParts::kAll, &elf);
  find_in_linker_cache({reinterpret_cast<const char*>(data), size}, "libc.so.6");
  return 0;
}
